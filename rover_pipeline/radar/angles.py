"""From virtual antennas to directions: the weights that turn antennas into bins of azimuth and elevation.

Axes are `tx, rx, doppler, range` before and `doppler, elevation, azimuth, range` after. Bins are equal steps of the
sine: azimuth bin `n // 2` is straight ahead, larger ones to the right; elevation bin `n // 2` is level, larger ones up.
"""

from __future__ import annotations

import threading

import numpy as np

from rover_pipeline.radar.boards import Board


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
        self._phases = _in_fft_order(phases)
        first, second = np.nonzero((rows[:, None] == rows) & (columns[:, None] >= columns))
        pairs = np.stack([first, second, columns[first] - columns[second]], axis=-1)
        self._pairs = pairs[np.argsort(pairs[:, 2], kind="stable")]
        self._lags = int(columns.max()) + 1
        _require(bins, self._lags, "azimuth", "columns")
        turns = sines(bins)[:, None] / 2 * np.arange(self._lags)
        scale = np.where(np.arange(self._lags) == 0, 1.0, 2.0) * (rows.max() + 1)
        cosines, sines_ = np.cos(2 * np.pi * turns) * scale, np.sin(2 * np.pi * turns) * scale
        self._transform = np.concatenate([cosines, sines_], axis=1)

    def power(self, spectrum: np.ndarray) -> np.ndarray:
        """Squared ADC counts, f4 (azimuth, range).

        Args:
            spectrum: c8 (tx, rx, doppler, range), Doppler bins in FFT order.
        """
        from rover_pipeline.radar.kernels import lag_products

        lags = np.zeros((2, self._lags, spectrum.shape[-1]), "f4")
        lag_products(_by_antenna(spectrum), self._phases, self._pairs, lags)
        return np.maximum(self._transform @ lags.reshape(2 * self._lags, -1), 0).astype("f4")


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
        rows, columns = board.grid.T
        count = int(rows.max()) + 1
        self.shape = (bins[0] or count, bins[1] or int(columns.max()) + 1)
        row_taper = array_taper(count, windows[0])
        along_columns = azimuth_weights(board, self.shape[1], windows[1])[:, columns] * row_taper[rows] / len(rows)
        # The kernel takes antennas of a row by fours, some of which may weigh nothing, and two rows at least.
        fours, weights = [], []
        for row in range(count):
            antennas = np.flatnonzero(rows == row)
            for four in np.split(antennas, range(4, len(antennas), 4)):
                fours.append([row, *np.resize(four, 4)])
                weights.append(along_columns[:, fours[-1][1:]] * (np.arange(4) < len(four)))
        self._fours = np.array(fours)
        self._azimuth = np.stack(weights, axis=1).astype("c8")
        turns = elevation_weights(board, self.shape[0], windows[0]) / row_taper
        self._elevation = np.pad(turns, ((0, 0), (0, max(2 - count, 0)))).astype("c8")
        self._phases = _in_fft_order(antenna_phases(board, doppler_bins, compensate_tdm))
        self._thread = threading.local()

    def __call__(self, spectrum: np.ndarray) -> np.ndarray:
        """f4 (doppler, elevation, azimuth, range), zero Doppler in the middle.

        A buffer that the thread's next call fills again: a fresh one of this size costs half the time.

        Args:
            spectrum: c8 (tx, rx, doppler, range), Doppler bins in FFT order.
        """
        from rover_pipeline.radar.kernels import angle_magnitudes

        antennas = _by_antenna(spectrum)
        shape = (antennas.shape[1], *self.shape, antennas.shape[2])
        found: np.ndarray | None = getattr(self._thread, "found", None)
        if found is None or found.shape != shape:
            self._thread.found = found = np.empty(shape, "f4")
        angle_magnitudes(antennas, self._phases, self._fours, self._azimuth, self._elevation, found)
        return found


def _by_antenna(spectrum: np.ndarray) -> np.ndarray:
    """c8 (antenna, doppler, range) of (tx, rx, doppler, range)."""
    return spectrum.reshape(-1, *spectrum.shape[2:])


def _in_fft_order(phases: np.ndarray) -> np.ndarray:
    """c8 (doppler, antenna), zero Doppler first, as spectra are."""
    return np.ascontiguousarray(np.fft.ifftshift(phases, axes=0).astype("c8"))
