"""The points of a sweep that are registered: some of the pixels of a range image, or of the points of a cloud."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.lidar.geometry import CLIPPED
from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.options import OdometrySection

#: Largest number of columns of a sweep that are used. A walker moves by a millimetre from one to the next.
_MAX_COLUMNS = 512


class _Pixels(NamedTuple):
    """Selected pixels of an image.

    Attributes:
        beam, column: i8 (N,).
        number: i4 (N,), of the column among the columns that are used.
        start, direction: f8 (N, 3), m and m/mm, lines that the returns lie on.
    """

    beam: np.ndarray
    column: np.ndarray
    number: np.ndarray
    start: np.ndarray
    direction: np.ndarray


class PointSelection:
    """A fixed selection of pixels, spread evenly. The beams alternate from column to column and from sweep to sweep.

    Args:
        start, direction: f8 (beam, column, 3), m and m/mm: a range r is at `start + r * direction`.
        begin, period: of a sweep: its first column after its time stamp, and its length; seconds.
    """

    def __init__(
        self,
        start: np.ndarray,
        direction: np.ndarray,
        options: OdometrySection,
        *,
        begin: float,
        period: float,
    ) -> None:
        beams, columns = start.shape[:2]
        used = np.arange(0, columns, max(1, -(-columns // _MAX_COLUMNS)))
        every = max(1, round(beams * len(used) / options.points))
        self._patterns = []
        for pattern in range(every):
            chosen = [np.arange((pattern + i) % every, beams, every) for i in range(len(used))]
            beam = np.concatenate(chosen)
            number = np.repeat(np.arange(len(used)), [len(each) for each in chosen]).astype("i4")
            column = used[number]
            self._patterns.append(_Pixels(beam, column, number, start[beam, column], direction[beam, column]))
        self._times = begin + period * used / columns
        self._range_mm = options.min_range * 1000, options.max_range * 1000

    def sweep(self, ranges: np.ndarray, number: int, stamp: float) -> Sweep:
        """The selected points of one sweep.

        Args:
            ranges: u2 (beam, column), mm, staggered.
            number: of the sweep, which decides on the beams.
            stamp: its time stamp, seconds.
        """
        points, column = _project(ranges, self._patterns[number % len(self._patterns)], *self._range_mm)
        return Sweep(points, column, stamp + self._times, stamp)


@compiled
def _project(ranges: np.ndarray, pixels: _Pixels, min_mm: float, max_mm: float) -> tuple[np.ndarray, np.ndarray]:
    """Points, f4 (N, 3), and their columns, i4 (N,), of the selected pixels that are returns within the range."""
    points, columns = np.empty((len(pixels.beam), 3), np.float32), np.empty(len(pixels.beam), np.int32)
    count = 0
    for n in range(len(pixels.beam)):
        mm = np.float64(ranges[pixels.beam[n], pixels.column[n]])
        if mm > 0 and min_mm <= mm <= max_mm and mm < CLIPPED:
            for i in range(3):
                points[count, i] = pixels.start[n, i] + mm * pixels.direction[n, i]
            columns[count] = pixels.number[n]
            count += 1
    return points[:count].copy(), columns[:count].copy()
