"""Detection on range-Doppler power: constant false-alarm rate, then one peak for each target.

Maps are (doppler, range), linear power. The Doppler axis is a circle; the range axis ends.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

#: Cells on each side of the one under test, (doppler, range).
Cells = tuple[int, int]


class Peaks(NamedTuple):
    """Detected targets, the strongest against its noise first.

    Attributes:
        doppler, range: i8 (peak,), the bin of the maximum.
        doppler_at, range_at: f8 (peak,), refined between bins.
        snr: f8 (peak,), power over noise.
    """

    doppler: np.ndarray
    range: np.ndarray
    doppler_at: np.ndarray
    range_at: np.ndarray
    snr: np.ndarray


def cell_averaging(power: np.ndarray, guard: Cells, train: Cells, wrap: bool = True) -> np.ndarray:
    """Mean of the ring of training cells around each cell, f8.

    The sums are of float64: an outer less an inner box of float32 is wrong by half at 90 dB of dynamic range.

    Args:
        wrap: whether the Doppler axis is a circle; otherwise it ends, as in xwr.
    """
    around = guard[0] + train[0]
    edge = around if wrap else 0
    padded = _wrapped(power.astype("f8"), edge)
    total = _ring_sums(padded, guard, train)
    counts = _ring_counts(padded.shape, guard, train)
    return (total / counts)[edge : edge + len(power)]


def ordered_statistic(power: np.ndarray, guard: Cells, train: Cells, share: float) -> np.ndarray:
    """The training cell that a share of them does not exceed, f8: neighbouring targets do not raise it."""
    from scipy.ndimage import rank_filter

    outer = [2 * (g + t) + 1 for g, t in zip(guard, train, strict=True)]
    ring = np.ones(outer, bool)
    ring[train[0] : outer[0] - train[0], train[1] : outer[1] - train[1]] = False
    edge = guard[0] + train[0]
    padded = _wrapped(power.astype("f8"), edge)
    rank = min(int(share * ring.sum()), int(ring.sum()) - 1)
    return rank_filter(padded, rank, footprint=ring, mode="reflect")[edge : edge + len(power)]


def smallest_of(power: np.ndarray, guard: Cells, train: Cells) -> np.ndarray:
    """Along each axis the smaller mean of the two sides, then the larger of the two axes, f8.

    A cell above it stands out along both axes; a target on one side does not raise it.
    """
    from rover_pipeline.radar.point_kernels import smallest_sides

    noise = np.empty(power.shape)
    smallest_sides(power, guard, train, noise)
    return noise


def find_peaks(
    power: np.ndarray, noise: np.ndarray, threshold: float, windows: tuple[str, str], first_bin: int
) -> Peaks:
    """Local maxima above the noise that are not sidelobes of a stronger one.

    Args:
        power, noise: (doppler, range).
        threshold: least power over noise.
        windows: tapers along Doppler and range, whose sidelobes are known.
        first_bin: nearest range bin that counts: closer ones hold the coupling of the antennas.
    """
    from rover_pipeline.radar.point_kernels import local_maxima, measure_peaks

    room = np.empty(power.size, "i8")
    cells = room[: local_maxima(power, noise, threshold, first_bin, room)]
    snr, at = np.empty(len(cells)), np.empty((2, len(cells)))
    measure_peaks(power, noise, cells, _sidelobes(power.shape, windows), snr, at)
    order = np.argsort(-snr, kind="stable")[: np.count_nonzero(snr)]
    doppler, distance = np.divmod(cells[order], power.shape[1])
    return Peaks(doppler, distance, at[0, order], at[1, order], snr[order])


#: Power of a sidelobe over what the taper's envelope says, that still counts as one: a target that moves, spreads.
_MARGIN = 4.0


@lru_cache(maxsize=8)
def _sidelobes(shape: tuple[int, int], windows: tuple[str, str]) -> tuple[np.ndarray, np.ndarray]:
    """Power that counts as a sidelobe's, over its tone's, some bins away from it along either axis, f8."""
    across, along = (envelope(np.arange(size), window) ** 2 for size, window in zip(shape, windows, strict=True))
    return across * _MARGIN, along


def envelope(bins: np.ndarray, window: str) -> np.ndarray:
    """Amplitude that the sidelobes of a taper reach some bins away from a tone, over the tone's."""
    away = np.maximum(bins.astype("f8"), 1.0)
    if window == "hann":
        return np.where(bins < 2, 1.0, 1 / (np.pi * away * np.maximum(away**2 - 1, 1)))
    return np.where(bins < 1, 1.0, 1 / (np.pi * away))


def _wrapped(power: np.ndarray, edge: int) -> np.ndarray:
    return np.pad(power, ((edge, edge), (0, 0)), mode="wrap") if edge else power


def _ring_sums(power: np.ndarray, guard: Cells, train: Cells) -> np.ndarray:
    import cv2

    def box(cells: Cells) -> np.ndarray:
        size = (2 * cells[1] + 1, 2 * cells[0] + 1)  # OpenCV says width before height
        return cv2.boxFilter(power, cv2.CV_64F, size, normalize=False, borderType=cv2.BORDER_CONSTANT)

    return box((guard[0] + train[0], guard[1] + train[1])) - box(guard)


@lru_cache(maxsize=8)
def _ring_counts(shape: tuple[int, int], guard: Cells, train: Cells) -> np.ndarray:
    return _ring_sums(np.ones(shape), guard, train)
