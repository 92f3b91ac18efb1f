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
    from rover_pipeline.radar.kernels import smallest_sides

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
    from rover_pipeline.radar.kernels import local_maxima

    found = np.empty(power.shape, bool)
    local_maxima(power, noise, threshold, first_bin, found)
    doppler, distance = np.divmod(np.flatnonzero(found), power.shape[1])
    keep = _no_sidelobes(power[doppler, distance].astype("f8"), doppler, distance, len(power), windows)
    doppler, distance = doppler[keep], distance[keep]
    snr = power[doppler, distance] / noise[doppler, distance]
    order = np.argsort(-snr, kind="stable")
    doppler, distance, snr = doppler[order], distance[order], snr[order]
    near = (doppler + _CROSS[0]) % len(power), np.clip(distance + _CROSS[1], 0, power.shape[1] - 1)
    levels = np.log(np.maximum(power[near], np.finfo("f4").tiny).astype("f8"))
    across, along = vertex(levels[[1, 3]], levels[0], levels[[2, 4]])
    return Peaks(doppler, distance, doppler + across, distance + along, snr)


#: Steps along (doppler, range) from a cell to itself and its neighbours.
_CROSS = np.array([[0, -1, 1, 0, 0], [0, 0, 0, -1, 1]])[..., None]


def vertex(before: np.ndarray, at: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Where the parabola through three neighbours has its maximum, -0.5 to 0.5 steps from the middle one."""
    bend = before - 2 * at + after
    with np.errstate(divide="ignore", invalid="ignore"):
        offset = np.where(bend < 0, 0.5 * (before - after) / bend, 0.0)
    return np.clip(offset, -0.5, 0.5)


#: Power of a sidelobe over what the taper's envelope says, that still counts as one: a target that moves, spreads.
_MARGIN = 4.0


def _no_sidelobes(
    power: np.ndarray, doppler: np.ndarray, distance: np.ndarray, bins: int, windows: tuple[str, str]
) -> np.ndarray:
    """Which of some peaks are above the sidelobes of all stronger ones, bool (peak,)."""
    across = np.abs(doppler[:, None] - doppler)
    across = np.minimum(across, bins - across)
    along = np.abs(distance[:, None] - distance)
    lobe = (envelope(across, windows[0]) * envelope(along, windows[1])) ** 2 * _MARGIN
    stronger = power[None, :] > power[:, None]
    return ~((lobe * power[None, :] > power[:, None]) & stronger).any(axis=1)


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
