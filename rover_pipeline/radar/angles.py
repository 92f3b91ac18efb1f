"""From virtual antennas to directions: the weights that turn antennas into bins of azimuth and elevation.

Axes are `doppler, tx, rx, range` before and `doppler, elevation, azimuth, range` after. Bins are equal steps of the
sine: azimuth bin `n // 2` is straight ahead, larger ones to the right; elevation bin `n // 2` is level, larger ones up.
"""

from __future__ import annotations

import threading

import numpy as np

from rover_pipeline.radar.boards import Board

#: Doppler bins whose rows are transformed at once: what a processor's second cache holds.
_BLOCK = 8


def sines(bins: int) -> np.ndarray:
    """Sine of the angle at each bin of a transform along antennas half a wavelength apart, f8 (bins,)."""
    return (np.arange(bins) - bins // 2) * (2 / bins)


def elevation_sines(board: Board, bins: int) -> np.ndarray:
    """Sine of the elevation at each bin, f8 (bins,).

    Rows that are not half a wavelength apart are transformed at sines from -1 to 1, as in xwr.
    """
    return sines(bins) if board.row_spacing == 1 else np.linspace(-1, 1, bins)


def azimuth_weights(board: Board, bins: int, window: str) -> np.ndarray:
    """c16 (azimuth, column): a transform along the columns, with its taper."""
    columns = int(board.grid[:, 1].max()) + 1
    _require(bins, columns, "azimuth", "columns")
    turns = sines(bins)[:, None] / 2 * np.arange(columns)
    return np.exp(-2j * np.pi * turns) * array_taper(columns, window)


def elevation_weights(board: Board, bins: int, window: str) -> np.ndarray:
    """c16 (elevation, row): a transform along the rows, with its taper."""
    rows = int(board.grid[:, 0].max()) + 1
    _require(bins, rows, "elevation", "rows")
    turns = elevation_sines(board, bins)[:, None] * board.row_spacing / 2 * np.arange(rows)
    return np.exp(-2j * np.pi * turns) * array_taper(rows, window)


def array_taper(size: int, window: str) -> np.ndarray:
    """Weights with a mean of one, f8 (size,), of the Hann window without its zero ends, as in xwr."""
    weights = np.hanning(size + 2)[1:-1] if window == "hann" else np.ones(size)
    return weights / weights.mean()


def antenna_phases(board: Board, doppler_bins: int, compensate_tdm: bool) -> np.ndarray:
    """Factors that put the virtual antennas in phase, c16 (doppler, tx * rx), zero Doppler in the middle.

    Transmitters fire in turn, and a target that turns by f cycles from one loop to the next has turned by f * tx / TX
    by the chirp of a transmitter. Undone with the frequency of the Doppler bin.
    """
    transmitters, receivers = len(board.tx), len(board.rx)
    factors = np.tile(board.signs.astype("c16"), (doppler_bins, 1))
    if compensate_tdm:
        cycles = (np.arange(doppler_bins) - doppler_bins // 2) / doppler_bins
        turned = np.exp(-2j * np.pi * cycles[:, None] * np.arange(transmitters) / transmitters)
        factors *= np.repeat(turned, receivers, axis=1)
    return factors


def _require(bins: int, antennas: int, axis: str, what: str) -> None:
    if bins < antennas:
        raise ValueError(f"{bins} {axis} bins are fewer than the {antennas} {what} of the array")


class RangeAzimuth:
    """Power over azimuth and range, summed over Doppler, averaged over the rows of the array.

    The power of a row at an azimuth is a sum over pairs of its antennas, of which those that are as far apart turn by
    the same phase: summing pairs by distance, over all Doppler bins, leaves a small real transform.

    Args:
        board: gives the array.
        doppler_bins: of the spectra.
        bins: of azimuth.
    """

    def __init__(self, board: Board, doppler_bins: int, bins: int, window: str, compensate_tdm: bool) -> None:
        rows, columns = board.grid.T
        weights = array_taper(columns.max() + 1, window)[columns] / len(columns)
        phases = antenna_phases(board, doppler_bins, compensate_tdm) * weights
        # In FFT order, as the spectra are.
        self._phases = np.ascontiguousarray(np.fft.ifftshift(phases, axes=0).astype("c8"))
        first, second = np.nonzero((rows[:, None] == rows) & (columns[:, None] >= columns))
        self._pairs = np.stack([first, second, columns[first] - columns[second]], axis=-1)
        self._lags = int(columns.max()) + 1
        _require(bins, self._lags, "azimuth", "columns")
        turns = sines(bins)[:, None] / 2 * np.arange(self._lags)
        scale = np.where(np.arange(self._lags) == 0, 1.0, 2.0) * (rows.max() + 1)
        cosines, sines_ = np.cos(2 * np.pi * turns) * scale, np.sin(2 * np.pi * turns) * scale
        self._transform = np.concatenate([cosines, sines_], axis=1)

    def power(self, spectrum: np.ndarray) -> np.ndarray:
        """Squared ADC counts, f4 (azimuth, range).

        Args:
            spectrum: c8 (doppler, tx, rx, range), Doppler bins in FFT order.
        """
        from rover_pipeline.radar.kernels import lag_products

        doppler, tx, rx, bins = spectrum.shape
        lags = np.zeros((2, self._lags, bins), "f4")
        lag_products(spectrum.reshape(doppler, tx * rx, bins), self._phases, self._pairs, lags)
        return np.maximum(self._transform @ lags.reshape(-1, bins), 0).astype("f4")


class Magnitudes:
    """Magnitude of the spectrum over Doppler, elevation, azimuth and range, ADC counts.

    Args:
        doppler_bins: of the spectra.
        bins: (elevation, azimuth); 0 = as many as rows or columns.
        windows: along rows and columns, "hann" or "none".
    """

    def __init__(
        self, board: Board, doppler_bins: int, bins: tuple[int, int], windows: tuple[str, str], compensate_tdm: bool
    ) -> None:
        grid_rows, grid_columns = (int(size) + 1 for size in board.grid.max(axis=0))
        self.shape = (bins[0] or grid_rows, bins[1] or grid_columns)
        along_columns = azimuth_weights(board, self.shape[1], windows[1])
        rows, columns = board.grid.T
        weights = np.zeros((grid_rows, self.shape[1], len(rows)), "c16")
        weights[rows, :, np.arange(len(rows))] = along_columns[:, columns].T / len(rows)
        phases = antenna_phases(board, doppler_bins, compensate_tdm)
        # (doppler, row and azimuth, antenna): phases and both of antennas' places are in one small matrix.
        antennas = weights.reshape(-1, len(rows)) * phases[:, None]
        self._antennas = np.fft.ifftshift(antennas, axes=0).astype("c8")
        self._thread = threading.local()
        self._rows = elevation_weights(board, self.shape[0], windows[0]).astype("c8")

    def __call__(self, spectrum: np.ndarray) -> np.ndarray:
        """f4 (doppler, elevation, azimuth, range), zero Doppler in the middle.

        A buffer that the thread's next call fills again.

        Args:
            spectrum: c8 (doppler, tx, rx, range), Doppler bins in FFT order.
        """
        from rover_pipeline.radar.kernels import elevation_magnitudes

        doppler, tx, rx, bins = spectrum.shape
        found, scratch = self._buffers((doppler, *self.shape, bins))
        cells = spectrum.reshape(doppler, tx * rx, bins)
        for first in range(0, doppler, _BLOCK):
            some = slice(first, min(first + _BLOCK, doppler))
            rows = np.matmul(self._antennas[some], cells[some], out=scratch[: some.stop - first])
            elevation_magnitudes(rows.reshape(len(rows), -1, self.shape[1], bins), self._rows, first, found)
        return found

    def _buffers(self, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """The result and the rows of a block of Doppler bins: fresh ones of this size cost threads half their time."""
        kept = self._thread.__dict__
        if kept.get("shape") != shape:
            rows = np.empty((_BLOCK, self._antennas.shape[1], shape[-1]), "c8")
            kept.update(shape=shape, buffers=(np.empty(shape, "f4"), rows))
        buffers: tuple[np.ndarray, np.ndarray] = kept["buffers"]
        return buffers
