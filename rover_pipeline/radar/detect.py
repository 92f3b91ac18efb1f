"""Detection on range-Doppler power: CFAR noise estimates, then one peak for each target.

CFAR (constant false-alarm rate) compares each cell with a noise estimate from the training cells around it; guard cells
between the two keep the target's own main lobe out of the estimate. Maps are (doppler, range), linear power. The
Doppler axis is periodic; the range axis is not.

Some peaks are no targets: images by unequal I and Q, and coupling of the antennas that wraps around. A receiver whose I
and Q differ adds its conjugated signal times a small factor: opposite to a target, at minus its beat frequency and
minus its Doppler, is the conjugate of the target's cell times it (M. Valkama et al., Advanced methods for I/Q imbalance
compensation in communication receivers, IEEE Transactions on Signal Processing 49, 2001).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import cv2
import numpy as np

from rover_pipeline.radar.point_kernels import few_from, measure_peaks
from rover_pipeline.radar.spectrum import MAIN_LOBE_BINS
from rover_pipeline.radar.tuning import TUNING

#: Iterations of reweighted least squares for the imbalance of I and Q: after ten of them, no factor of tests and real
#: captures changes by more than 3e-9 of itself. Schedule.
_ITERATIONS = 20
#: Number of cells on each side of the cell under test, (doppler, range).
Cells = tuple[int, int]


class Peaks(NamedTuple):
    """Detected targets, by falling SNR."""

    doppler_bin: np.ndarray  #: i8 (peak,), the cell of the maximum, as `range_bin`.
    range_bin: np.ndarray
    doppler: np.ndarray  #: f8 (peak,), position between the bins, in bins, as `range`.
    range: np.ndarray
    snr: np.ndarray  #: f8 (peak,), power over noise.

    def select(self, chosen: Any) -> Peaks:
        """Some of the peaks, by a mask, numbers or a slice."""
        return Peaks(*(values[chosen] for values in self))

    def moved(self, bins: Any, cells: int = 0) -> Peaks:
        """The same with a number of bins, of each peak or of all, added to their Doppler, seen so many cells beside."""
        return self._replace(doppler=self.doppler + bins, doppler_bin=self.doppler_bin + cells)


def ca_noise(power: np.ndarray, guard: Cells, train: Cells) -> np.ndarray:
    """Noise estimate of CA-CFAR, f8 (doppler, range): mean of the ring of training cells around each cell.

    Sums are float64: at 90 dB of dynamic range, the outer less the inner sum in float32 is wrong by half.
    """
    edge = guard[0] + train[0]
    padded = np.take(power, np.arange(-edge, len(power) + edge), axis=0, mode="wrap")
    mean = _ring_sums(padded, guard, train)
    mean /= _ring_counts(padded.shape, guard, train)
    return mean[edge : edge + len(power)]


class Search(NamedTuple):
    """Where targets are searched, and what is one."""

    threshold: float  #: minimum power over noise.
    windows: tuple[str, str]  #: along Doppler and range, "hann" or "none"; they determine the sidelobes.
    first_bin: int  #: first range bin to search: closer ones hold the coupling of the antennas.
    blind: np.ndarray | None = None  #: bool (range,), bins in which static cells are no targets; None = none.


def find_peaks(power: np.ndarray, noise: np.ndarray, search: Search) -> Peaks:
    """Local maxima above the noise that are not sidelobes of a stronger one; both maps are (doppler, range)."""
    cells = np.flatnonzero(_maxima(power, search.first_bin) & (noise > 0) & (power > search.threshold * noise))
    return _measured(power, noise.ravel()[cells].astype("f8"), cells, search)


def find_os_peaks(power: np.ndarray, guard: Cells, train: Cells, rank: float, search: Search) -> Peaks:
    """As `find_peaks` with the noise of OS-CFAR: the power at a relative rank, 0 to 1, among the training cells.

    Neighbouring targets do not raise it (H. Rohling, Radar CFAR thresholding in clutter and multiple target situations,
    IEEE Transactions on Aerospace and Electronic Systems 19, 1983). Maps are as in `find_peaks`; beyond its ends the
    range axis is mirrored.
    """
    rows, edge = guard[0] + train[0], guard[1] + train[1]
    padded = cv2.copyMakeBorder(power, rows, rows, 0, 0, cv2.BORDER_WRAP)
    padded = cv2.copyMakeBorder(padded, 0, 0, edge, edge, cv2.BORDER_REFLECT)
    ring = _ring(padded.shape[1], guard, train)
    index = min(int(rank * len(ring)), len(ring) - 1)
    cells = np.flatnonzero(_maxima(power, search.first_bin))
    # A cell is above the noise if more than `index` of its training cells are below its power over the threshold. To
    # count them takes a fraction of the time of sorting them, so only those that are above it are ranked.
    few, limits = np.empty(len(cells), bool), (power.ravel()[cells].astype("f8") / search.threshold).astype("f4")
    few_from(padded, cells, limits, guard, train, len(ring) - index, few)
    cells = cells[few]
    around = padded.ravel().take((cells + cells // power.shape[1] * (2 * edge))[:, None] + ring)
    around.partition(index, axis=1)
    noise = around[:, index].astype("f8")
    found = (noise > 0) & (power.ravel()[cells] > search.threshold * noise)
    return _measured(power, noise[found], cells[found], search)


@lru_cache(maxsize=8)
def _ring(width: int, guard: Cells, train: Cells) -> np.ndarray:
    """Places of training cells after the first cell of a window, in a map of so many columns, i8 (cell,)."""
    rows, edge = guard[0] + train[0], guard[1] + train[1]
    away = np.abs(np.mgrid[-rows : rows + 1, -edge : edge + 1])
    row, column = np.nonzero((away[0] > guard[0]) | (away[1] > guard[1]))
    return row * width + column


def _maxima(power: np.ndarray, first_bin: int) -> np.ndarray:
    """Whether a cell is not below any of its neighbours, bool (doppler, range); not before the first range bin."""
    # The Doppler axis is periodic; beyond the ends of the range axis OpenCV takes cells to be below all others.
    wrapped = np.take(power, range(-1, len(power) + 1), axis=0, mode="wrap")
    maxima: np.ndarray = power >= cv2.dilate(wrapped, np.ones((3, 3), "u1"))[1:-1]
    maxima[:, :first_bin] = False
    return maxima


def _measured(power: np.ndarray, noise: np.ndarray, cells: np.ndarray, search: Search) -> Peaks:
    """The peaks among cells above the noise; f8 (cell,)."""
    snr, position = np.empty(len(cells)), np.empty((2, len(cells)))
    measure_peaks(power, noise, cells, _sidelobes(power.shape, search.windows), snr, position)
    if search.blind is not None:
        static = np.abs(cells // power.shape[1] - power.shape[0] // 2) <= MAIN_LOBE_BINS
        snr[static & search.blind[cells % power.shape[1]]] = 0
    order = np.argsort(-snr, kind="stable")[: np.count_nonzero(snr)]
    doppler_bin, range_bin = np.divmod(cells[order], power.shape[1])
    doppler, distance = position[:, order]
    return Peaks(doppler_bin, range_bin, doppler, distance, snr[order])


@lru_cache(maxsize=8)
def _sidelobes(shape: tuple[int, int], windows: tuple[str, str]) -> tuple[np.ndarray, np.ndarray]:
    """Largest power of a sidelobe over that of its tone, by the distance in bins along (doppler, range), f8."""
    doppler, distance = (sidelobe_envelope(np.arange(n), window) ** 2 for n, window in zip(shape, windows, strict=True))
    return doppler * TUNING.sidelobe_margin, distance


def sidelobe_envelope(bins: np.ndarray, window: str) -> np.ndarray:
    """Amplitude of the sidelobes of a window over that of the tone, by the distance from the tone in bins."""
    distance = np.maximum(bins.astype("f8"), 1.0)
    if window == "hann":
        return np.where(bins < 2, 1.0, 1 / (np.pi * distance * np.maximum(distance**2 - 1, 1)))
    return np.where(bins < 1, 1.0, 1 / (np.pi * distance))


def _ring_sums(power: np.ndarray, guard: Cells, train: Cells) -> np.ndarray:
    """Sum of the training cells around each cell; cells beyond the ends count as 0."""

    def box(cells: Cells) -> np.ndarray:
        size = (2 * cells[1] + 1, 2 * cells[0] + 1)  # OpenCV takes the width before the height.
        return cv2.boxFilter(power, cv2.CV_64F, size, normalize=False, borderType=cv2.BORDER_CONSTANT)

    sums: np.ndarray = box((guard[0] + train[0], guard[1] + train[1]))
    sums -= box(guard)
    return sums


@lru_cache(maxsize=8)
def _ring_counts(shape: tuple[int, int], guard: Cells, train: Cells) -> np.ndarray:
    return _ring_sums(np.ones(shape), guard, train)


# --- Artefacts ----------------------------------------------------------------------------------------------------


def cell_pairs(spectrum: np.ndarray, power: np.ndarray, peaks: Peaks, min_snr: float = 0.0) -> tuple[np.ndarray, ...]:
    """Cells of peaks and the conjugates of the opposite ones, c8 (tx, rx, peak); noise f8 and range bin i8 (peak,)."""
    peaks = peaks.select(peaks.snr >= min_snr)
    doppler, beat = peaks.doppler_bin - len(power) // 2, peaks.range_bin
    noise = power[peaks.doppler_bin, beat] / peaks.snr
    return spectrum[:, :, doppler, beat], spectrum[:, :, -doppler, -beat].conj(), noise, beat


def imbalance(pairs: Sequence[tuple[np.ndarray, ...]], min_ratio: float) -> tuple[complex, ...]:
    """Factor of each receiver, by `cell_pairs` of the strong peaks of frames; one zero if these do not agree on it.

    Its power must be `min_ratio` times its jackknife variance over range bins: a static scene says no more in many
    frames.
    """
    own, other, noise, beat = (np.concatenate(parts, axis=-1) for parts in zip(*pairs, strict=True))
    bins, share = np.unique(beat), np.zeros((own.shape[1], 1), "c16")
    if len(bins) < 2:
        return (0.0,)
    for _ in range(_ITERATIONS):
        # Opposite cells that hold something else count little, as by a Cauchy distribution.
        weight = 1 / (noise + _power(other - share * own))
        above, below = (weight * other * own.conj()).sum(axis=0), (weight * np.abs(own) ** 2).sum(axis=0)
        share = above.sum(axis=1, keepdims=True) / below.sum(axis=1, keepdims=True)
    without = np.stack([above[:, beat != n].sum(axis=1) / below[:, beat != n].sum(axis=1) for n in bins])
    enough = (np.abs(share) ** 2).sum() >= min_ratio * (len(bins) - 1) * without.var(axis=0).sum()
    return tuple(share.conj().ravel().tolist()) if enough else (0.0,)


def find_artefacts(
    spectrum: np.ndarray, power: np.ndarray, peaks: Peaks, known: tuple[Sequence[complex], Any], threshold: float
) -> np.ndarray:
    """What is no target among peaks of complex samples, u1 (peak,): 1 = image, 2 = coupling, 3 = both.

    An image is most of its peak, and what it leaves is below `threshold` times the noise. Coupling is the slope of a
    static peak at zero range, as it was before the coupling was subtracted. Known are the factors of `imbalance`, and
    the power of that coupling, f8 (range,).
    """
    shares, removed = known
    own, other, noise, beat = cell_pairs(spectrum, power, peaks)
    image = np.reshape(shares, (-1, 1)) * other
    is_image = _power(own - image) < np.minimum(threshold * noise, _power(image))
    middle = len(power) // 2
    static = power[max(middle - MAIN_LOBE_BINS, 0) : middle + MAIN_LOBE_BINS + 1].max(axis=0) + removed
    # The least power from the next bin to the end of the axis and, around it, at zero range.
    beyond = np.minimum.accumulate(np.append(static[1:], static[0])[::-1])[::-1]
    is_slope = beyond[beat] > power[peaks.doppler_bin, beat] + np.broadcast_to(removed, static.shape)[beat]
    is_slope &= (beat > len(static) // 2) & (np.abs(peaks.doppler_bin - middle) <= MAIN_LOBE_BINS)
    return np.asarray(is_image + 2 * is_slope, "u1")


def _power(values: np.ndarray) -> np.ndarray:
    return np.asarray((np.abs(values) ** 2).mean(axis=(0, 1)))
