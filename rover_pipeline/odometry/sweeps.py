"""Sweeps as the odometry takes them: some of the pixels of an image of ranges, or of the points of a cloud."""

from __future__ import annotations

import numpy as np

from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.odometry.observations import Sweep

#: Columns of a sweep that are looked at, at most: a walker moves by a millimetre between them.
_COLUMNS = 512


class Selection:
    """A fixed choice of pixels, spread evenly; which beams it takes changes from column to column and sweep to sweep.

    Args:
        start, direction: f8 (beam, column, 3), m and m/mm: a range r is at `start + r * direction`.
        points: pixels of a sweep, about.
        reach: nearest and farthest range that is used, metres.
        begin, period: of a sweep: its first column after its time stamp, and its length; seconds.
    """

    def __init__(
        self,
        start: np.ndarray,
        direction: np.ndarray,
        *,
        points: int,
        reach: tuple[float, float],
        begin: float,
        period: float,
    ) -> None:
        beams, columns = start.shape[:2]
        taken = np.arange(0, columns, max(1, -(-columns // _COLUMNS)))
        every = max(1, round(beams * len(taken) / points))
        self._turns = []
        for turn in range(every):
            chosen = [np.arange((turn + i) % every, beams, every) for i in range(len(taken))]
            beam = np.concatenate(chosen)
            number = np.repeat(np.arange(len(taken)), [len(each) for each in chosen]).astype("i4")
            column = taken[number]
            self._turns.append((beam, column, number, start[beam, column], direction[beam, column]))
        self._times = begin + period * taken / columns
        self._reach = reach[0] * 1000, reach[1] * 1000

    def sweep(self, ranges: np.ndarray, number: int, stamp: float) -> Sweep:
        """The points of one sweep.

        Args:
            ranges: u2 (beam, column), mm, staggered.
            number: of the sweep, which decides on the beams that are taken.
            stamp: its time stamp, seconds.
        """
        turn = self._turns[number % len(self._turns)]
        points, column = _pick(ranges, *turn, *self._reach)
        return Sweep(points, column, stamp + self._times, stamp)


def cloud_sweep(points: np.ndarray, stamp: float, *, spacing: float) -> Sweep:
    """A sweep of points whose instants nobody knows, or that somebody has motion-compensated.

    Args:
        points: (N, 3), metres, lidar frame.
        stamp: the instant of all of them, seconds.
        spacing: one point is taken in every cube of this edge, the first one; metres.
    """
    cells = np.floor(points / spacing).astype("i8") + (1 << 20)
    keys = (cells[:, 0] << 42) | (cells[:, 1] << 21) | cells[:, 2]
    _, first = np.unique(keys, return_index=True)
    kept = points[np.sort(first)].astype("f4")
    return Sweep(kept, np.zeros(len(kept), "i4"), np.array([stamp]), stamp)


@compiled
def _pick(
    ranges: np.ndarray,
    beam: np.ndarray,
    column: np.ndarray,
    number: np.ndarray,
    start: np.ndarray,
    direction: np.ndarray,
    least: float,
    most: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Points, f4 (N, 3), and columns, i4 (N,), of those of the chosen pixels that are returns within reach."""
    points, columns = np.empty((len(beam), 3), np.float32), np.empty(len(beam), np.int32)
    count = 0
    for n in range(len(beam)):
        mm = np.float64(ranges[beam[n], column[n]])
        if mm > 0 and least <= mm <= most and mm < 65535:
            for i in range(3):
                points[count, i] = start[n, i] + mm * direction[n, i]
            columns[count] = number[n]
            count += 1
    return points[:count].copy(), columns[:count].copy()
