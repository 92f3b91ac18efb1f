"""From virtual antennas to directions: steering weights, TDM compensation, transforms over azimuth and elevation.

And how well the echoes that an array receives fit plane waves, and how well their directions are known.

Axes are `tx, rx, doppler, range` before and `doppler, elevation, azimuth, range` after. Bins are equally spaced in the
sine of the angle: azimuth bin `n // 2` is straight ahead, larger bins are to the right; elevation bin `n // 2` is
level, larger bins are up. Antennas are at multiples of the half wavelength that the board was designed for, which is
not that of the recording: `Board.spacing`.
"""

from __future__ import annotations

import threading
from functools import lru_cache

import numpy as np

from rover_pipeline.numerics.linear import inv, matmul
from rover_pipeline.radar.boards import Board
from rover_pipeline.radar.spectrum import angle_magnitudes, lag_products, window_weights

#: Antennas of one row that the kernel of the spectrum adds up at a time. Layout.
_GROUP = 4


def centred_sines(bins: int, spacing: float = 1.0) -> np.ndarray:
    """Sine of the angle at each bin of a Fourier transform along antennas, f8 (bins,); bin `bins // 2` is 0.

    Antennas more than half a wavelength apart see no more than sines of 1 / spacing without ambiguity, which the bins
    then span. Where they are closer, the outermost bins are no direction: their sine is above 1.

    Args:
        spacing: of the antennas, half wavelengths.
    """
    return (np.arange(bins) - bins // 2) * (2 / bins) / spacing


def steering_weights(sines: np.ndarray, antennas: int) -> np.ndarray:
    """Weights that steer a line of antennas, half a wavelength apart, to each sine, c16 (bin, antenna)."""
    return np.exp(-2j * np.pi * (sines[:, None] / 2 * np.arange(antennas)))


def array_window(size: int, window: str) -> np.ndarray:
    """Window over antennas with a mean of one, f8 (size,)."""
    weights = window_weights(size, window)
    return weights / weights.mean()


def antenna_phases(board: Board, doppler_bins: int, compensate_tdm: bool) -> np.ndarray:
    """Factors that put the virtual antennas in phase, c16 (doppler, tx * rx), zero Doppler first.

    TX transmitters fire one after the other. If the phase of a target advances by f cycles from one loop to the next,
    it advances by f * tx / TX until the chirp of transmitter tx. TDM compensation removes that advance with the f of
    each Doppler bin.
    """
    transmitters, receivers = len(board.tx), len(board.rx)
    factors = np.tile(board.corrections.astype("c16"), (doppler_bins, 1))
    if compensate_tdm:
        cycles = np.fft.ifftshift(np.arange(doppler_bins) - doppler_bins // 2) / doppler_bins
        compensation = np.exp(-2j * np.pi * cycles[:, None] * np.arange(transmitters) / transmitters)
        factors *= np.repeat(compensation, receivers, axis=1)
    return factors


def _require_bins(bins: int, antennas: int, axis: str, name: str) -> None:
    if bins < antennas:
        raise ValueError(f"{bins} {axis} bins are fewer than the {antennas} {name} of the array")


class RangeAzimuth:
    """Power over azimuth and range, summed over Doppler, averaged over the rows of the array.

    The power of a row at an azimuth is a sum over pairs of its antennas, and all pairs of the same distance (lag) have
    the same steering phase. So the products of the pairs are first summed by lag, over all Doppler bins; what remains
    is a small real transform from lags to azimuths.

    Args:
        doppler_bins: of the spectra.
        bins: of azimuth.
        window: along the columns, "hann" or "none".
    """

    def __init__(self, board: Board, doppler_bins: int, bins: int, window: str, compensate_tdm: bool) -> None:
        rows, columns = board.grid.T
        self._lags = int(columns.max()) + 1
        _require_bins(bins, self._lags, "azimuth", "columns")
        weights = array_window(self._lags, window)[columns] / len(columns)
        self._phases = (antenna_phases(board, doppler_bins, compensate_tdm) * weights).astype("c8")
        first, second = np.nonzero((rows[:, None] == rows) & (columns[:, None] >= columns))
        pairs = np.stack([first, second, columns[first] - columns[second]], axis=-1)
        self._pairs = pairs[np.argsort(pairs[:, 2], kind="stable")]
        cycles = centred_sines(bins)[:, None] * board.spacing / 2 * np.arange(self._lags)
        # Each pair of different antennas stands for itself and for its conjugate.
        scale = np.where(np.arange(self._lags) == 0, 1.0, 2.0) * (rows.max() + 1)
        self._transform = np.hstack([np.cos(2 * np.pi * cycles) * scale, np.sin(2 * np.pi * cycles) * scale])

    def power(self, spectrum: np.ndarray) -> np.ndarray:
        """Squared ADC counts, f4 (azimuth, range), of c8 (tx, rx, doppler, range), Doppler bins in FFT order."""
        lags = np.zeros((2, self._lags, spectrum.shape[-1]), "f4")
        lag_products(virtual_antennas(spectrum), self._phases, self._pairs, lags)
        return np.maximum(matmul(self._transform, lags.reshape(2 * self._lags, -1)), 0).astype("f4")


class Magnitudes:
    """Magnitude of the spectrum over Doppler, elevation, azimuth and range, ADC counts.

    Over the antennas it is a plain Fourier transform; `centred_sines` gives the sines at its bins.

    Args:
        doppler_bins: of the spectra.
        bins: (elevation, azimuth); 0 = as many as rows or columns.
        windows: along rows and columns, "hann" or "none".
    """

    def __init__(
        self, board: Board, doppler_bins: int, bins: tuple[int, int], windows: tuple[str, str], compensate_tdm: bool
    ) -> None:
        rows, columns = board.grid.T
        count, width = int(rows.max()) + 1, int(columns.max()) + 1
        self.shape = elevations, azimuths = bins[0] or count, bins[1] or width
        _require_bins(azimuths, width, "azimuth", "columns")
        _require_bins(elevations, count, "elevation", "rows")
        # The weights of an antenna for the azimuths hold both windows, so the elevation weights need none.
        steering = steering_weights(centred_sines(azimuths), width) * array_window(width, windows[1])
        steering = steering[:, columns] * array_window(count, windows[0])[rows] / len(rows)
        # The kernel takes antennas of one row in groups of four; a shorter group is filled up with weights of zero.
        groups, weights = [], []
        for row in range(count):
            antennas = np.flatnonzero(rows == row)
            for group in np.split(antennas, range(_GROUP, len(antennas), _GROUP)):
                filled = np.resize(group, _GROUP)
                groups.append([row, *filled])
                weights.append(steering[:, filled] * (np.arange(_GROUP) < len(group)))
        self._groups = np.array(groups)
        self._azimuth = np.stack(weights, axis=1).astype("c8")
        # The kernel needs two rows or more; a second row of weight zero is added to a board with one row.
        elevation = steering_weights(centred_sines(elevations), count)
        self._elevation = np.pad(elevation, ((0, 0), (0, max(2 - count, 0)))).astype("c8")
        self._phases = antenna_phases(board, doppler_bins, compensate_tdm).astype("c8")
        self._thread = threading.local()

    def __call__(self, spectrum: np.ndarray) -> np.ndarray:
        """Of c8 (tx, rx, doppler, range) in FFT order: f4 (doppler, elevation, azimuth, range), zero Doppler centred.

        The result is a buffer that the next call of the same thread overwrites: to allocate a new one would double the
        time.
        """
        antennas = virtual_antennas(spectrum)
        shape = (antennas.shape[1], *self.shape, antennas.shape[2])
        buffer: np.ndarray | None = getattr(self._thread, "buffer", None)
        if buffer is None or buffer.shape != shape:
            self._thread.buffer = buffer = np.empty(shape, "f4")
        angle_magnitudes(antennas, self._phases, self._groups, self._azimuth, self._elevation, buffer)
        return buffer


def virtual_antennas(spectrum: np.ndarray) -> np.ndarray:
    """c8 (antenna, doppler, range) of (tx, rx, doppler, range)."""
    return spectrum.reshape(-1, *spectrum.shape[2:])


# --- Echoes as plane waves ----------------------------------------------------------------------------------------


def plane_waves(board: Board, right: np.ndarray, up: np.ndarray) -> np.ndarray:
    """What the antennas would receive from directions if all had the same phase and gain, c16 (echo, antenna).

    Args:
        right, up: f8 (echo,), sines of azimuth and elevation.
    """
    rows, columns = board.grid.T
    cycles = board.spacing * columns * right[:, None] + board.row_spacing * rows * up[:, None]
    return np.exp(1j * np.pi * cycles) * board.signs


def coherence(board: Board, snapshots: np.ndarray, right: np.ndarray, up: np.ndarray) -> np.ndarray:
    """Power of the beam towards each echo over the power if all antennas were in phase, f8 (echo,), 0 to 1.

    Args:
        snapshots: c16 (echo, antenna), TDM-compensated.
    """
    corrected = snapshots * board.corrections * board.signs
    beam = np.abs((corrected * plane_waves(board, right, up).conj()).sum(axis=1)) ** 2
    in_phase = (board.corrections != 0).sum() * (np.abs(corrected) ** 2).sum(axis=1)
    return beam / np.maximum(in_phase, 1e-30)


def deviations(
    board: Board, snapshots: np.ndarray, snr: np.ndarray, right: np.ndarray, up: np.ndarray, array_error: float
) -> np.ndarray:
    """Standard deviations of the sines of azimuth and elevation, f8 (echo, 2); NaN where the array measures none.

    By the Cramer-Rao bound of an array (P. Stoica and A. Nehorai, MUSIC, maximum likelihood, and Cramer-Rao bound, IEEE
    Transactions on Acoustics, Speech and Signal Processing, 1989). The phases at the antennas err by the noise of the
    echo and by what the array's own phases are off. A second target in the cell shows in the coherence of the echo.

    Args:
        snapshots: c16 (echo, antenna), TDM-compensated; snr: f8 (echo,), power of an antenna over its noise.
        right, up: f8 (echo,), sines of azimuth and elevation.
        array_error: share of an echo's power that the array does not explain, of echoes of one target.
    """
    slopes, count, free = _bound(board)
    left = np.append(array_error, 1 - coherence(board, snapshots, right, up))
    variance = left / np.maximum(1 - left, 1e-3) * count / free if free else 0.0 * left
    # Half of the power of noise, and of another target, is in phase with the echo and changes no phase.
    return np.sqrt(np.maximum(variance[0] + 0.5 / snr, 0.5 * variance[1:])[:, None] * (slopes**2).sum(axis=0))


def in_beams(
    board: Board, cells: tuple[np.ndarray, ...], right: np.ndarray, up: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What the beam towards each echo sees, and not all antennas together, to which targets beside it belong as well.

    Where waves of several targets meet, amplitudes grow along the array by as much as phases turn the direction away
    from the middle of the targets: both are parts of one complex number (J. H. Dunn and D. D. Howard, Radar target
    amplitude, angle, and Doppler scintillation from analysis of the echo signal propagating in space, IEEE Transactions
    on Microwave Theory and Techniques 16, 1968). Of many targets each part has half of the variance.

    Args:
        cells: snapshots of each echo, and before it of those one Doppler bin below, after it of those one above.

    Returns:
        f8 (echo,), Doppler, bins from the cell; f8 (echo, 2), standard deviations of the sines over the targets in it.
    """
    turns = board.corrections * board.signs * plane_waves(board, right, up).conj()
    waves = [each * turns for each in cells]
    offset = vertex(*(np.log(np.maximum(np.abs(each.sum(axis=1)) ** 2, 1e-38)) for each in waves))
    beam = waves[1].sum(axis=1, keepdims=True)
    scale = np.abs(beam) * np.sqrt((np.abs(waves[1]) ** 2).mean(axis=1, keepdims=True))
    amplitudes = (waves[1] * beam.conj()).real / np.maximum(scale, 1e-30)
    return offset, np.sqrt(2) * np.abs(matmul(amplitudes, _bound(board)[0]))


@lru_cache(maxsize=8)
def _bound(board: Board) -> tuple[np.ndarray, int, int]:
    """Weights of the antennas for the slopes along both sines, NaN = not measured; antennas; phases beyond unknowns."""
    rows, columns = board.grid.T
    alive = board.corrections != 0
    at = np.pi * np.stack([board.spacing * columns, board.row_spacing * rows], axis=1) * alive[:, None]
    at = np.where(alive[:, None], at - at[alive].mean(axis=0), 0)
    spans, information = np.ptp(at[alive], axis=0) > 0, matmul(at.T, at)
    # Antennas on one oblique line measure one angle, and neither of the two.
    if spans.all() and np.prod(np.diag(information)) - information[0, 1] ** 2 < 1e-9 * information[0, 0] ** 2:
        spans = np.zeros(2, bool)
    slopes = np.full((len(at), 2), np.nan)
    if spans.any():
        slopes[:, spans] = matmul(at[:, spans], inv(information[np.ix_(spans, spans)]))
    # Of the phases, one for each antenna, the fit takes that of the echo and those of its direction.
    return slopes, int(alive.sum()), max(int(alive.sum()) - 1 - int(spans.sum()), 0)


def vertex(low: np.ndarray, middle: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Offset of the maximum of the parabola through three neighbours, -0.5 to 0.5; 0 where there is none."""
    with np.errstate(invalid="ignore", divide="ignore"):
        offset = 0.5 * (low - high) / (low - 2 * middle + high)
    return np.where(np.isfinite(offset), np.clip(np.nan_to_num(offset), -0.5, 0.5), 0)


def unit_vectors(right: np.ndarray, up: np.ndarray) -> np.ndarray:
    """Unit vectors front-left-up, f8 (echo, 3), of sines of azimuth and elevation."""
    ahead = np.sqrt(np.maximum(1 - right**2 - up**2, 0))
    direction = np.stack([ahead, -right, up], axis=-1)
    return direction / np.linalg.norm(direction, axis=-1, keepdims=True)
