"""From the sweeps of a recording to the sums that its map is made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from rover_pipeline.kinematics.state import Poses
from rover_pipeline.kinematics.sweep import SweepMotion
from rover_pipeline.mapping.grid import Frame, Seen, frame_around
from rover_pipeline.mapping.kernels import look, mark_hits, mark_rays, place
from rover_pipeline.mapping.options import MapOptions
from rover_pipeline.mapping.voxels import PointTable

#: A stored range of so many mm is a clipped value, not a return.
CLIPPED = 65535


class Sensor(NamedTuple):
    """How a lidar sweeps.

    Attributes:
        project: u4 (beam, column) mm, as staggered as the sensor sends it, to f4 (beam, column, 3) m, lidar frame.
        shifts: i (beam,), columns by which each beam's image is shifted to equal azimuth.
        columns: of a sweep.
    """

    project: Callable[[np.ndarray], np.ndarray]
    shifts: np.ndarray
    columns: int

    def sectors(self) -> np.ndarray:
        """The direction of each pixel as the lidar sees it, i4 (beam, column), in steps of two columns: beams do not
        point exactly alike, and a direction that few of them look in would show gaps in walls."""
        aligned = (np.arange(self.columns) + np.asarray(self.shifts)[:, None]) % self.columns
        return (aligned // 2).astype("i4")


class Part(NamedTuple):
    """What some sweeps add to a map.

    Attributes:
        voxels: their points by voxel, as `PointTable.rows` gives them.
        seen: cells of the grid.
        heights: least and greatest height of a point above the lidar, m; infinite where there is none.
        in_band: points at the heights of the grid.
    """

    voxels: np.ndarray
    seen: Seen
    heights: tuple[float, float]
    in_band: int


def add_sweeps(
    read: Callable[[int], tuple[np.ndarray, np.ndarray]],
    numbers: Sequence[int],
    sensor: Sensor,
    motion: SweepMotion,
    height: float,
    frame: Frame,
    options: MapOptions,
) -> Part:
    """Sums of the points and rays of some sweeps.

    Args:
        read: gives ranges, u2 (beam, column) mm, and reflectivity, u1 (beam, column), of a sweep by its number.
        numbers: of at least one sweep with a valid state.
        motion: of the lidar during its sweeps, in a world whose z is up.
        height: of the lidar above the floor, m.
        frame: cells that indices of the result count.
    """
    voxels = PointTable(options.voxel)
    band = np.array([0.0, options.z_min, options.z_max]) - height
    heights = np.array([np.inf, -np.inf])
    poses = {number: motion.columns(number, sensor.columns) for number in numbers}
    window = Window(frame_around(np.concatenate([p.pos[:, :2] for p in poses.values()]), reach(options), frame.edge))
    in_band = 0
    points = sectors = None
    for counter, number in enumerate(numbers, 1):
        rng, rfl = read(number)
        if points is None or sectors is None:
            points, sectors = np.empty((*rng.shape, 3)), sensor.sectors()
        put(rng, sensor, poses[number], options, points)
        voxels.add(points.reshape(-1, 3), rfl.ravel())
        in_band += window.add(points, poses[number].pos, sectors, band, heights, counter)
    return Part(voxels.rows(), window.seen_in(frame), (float(heights[0]), float(heights[1])), in_band)


def put(rng: np.ndarray, sensor: Sensor, poses: Poses, options: MapOptions, out: np.ndarray) -> None:
    """Points of a sweep where they are in the map, every column from the lidar's pose at its own instant.

    Args:
        rng: u2 (beam, column), mm.
        poses: of the lidar at every column.
        out: f8 (beam, column, 3), m, filled; NaN where there is no return in range.
    """
    near, far = round(options.min_range * 1000), min(CLIPPED, round(options.max_range * 1000))
    place(sensor.project(rng.astype("u4")), rng, max(1, near), far, *poses, out)


def reach(options: MapOptions) -> float:
    """How far from the lidar's place a point may be, m: its beams start beside it."""
    return options.max_range + 0.5


class Window:
    """The cells around some sweeps.

    Attributes:
        hits, misses, tops: of each cell, as `Grid` has them.
    """

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        shape = (frame.height, frame.width)
        self.hits, self.misses = np.zeros(shape, "u2"), np.zeros(shape, "u2")
        self._hit_by, self._passed_by = np.zeros(shape, "u2"), np.zeros(shape, "u2")
        self.tops = np.zeros(shape, "u1")

    def add(
        self,
        points: np.ndarray,
        pos: np.ndarray,
        sectors: np.ndarray,
        band: np.ndarray,
        heights: np.ndarray,
        counter: int,
    ) -> int:
        """Count a sweep, the `counter`-th; the number of its points in the band."""
        corner, edge = self.frame.corner, self.frame.edge
        count = int(sectors.max()) + 1
        nearest, farthest, entry = np.empty((count, 5)), np.empty((count, 5)), np.empty(count)
        look(points, pos, sectors, band[1], band[2], nearest, farthest, entry, heights)
        found = mark_hits(points, pos, band, corner, edge, counter, self._hit_by, self.hits, self.tops)
        mark_rays(nearest, farthest, entry, corner, edge, counter, self._hit_by, self._passed_by, self.misses)
        return found

    def seen_in(self, frame: Frame) -> Seen:
        """What was seen, in cells of a larger frame and as far as they are in it."""
        row, column = np.nonzero((self.hits > 0) | (self.misses > 0) | (self.tops > 0))
        counts = [array[row, column] for array in (self.hits, self.misses, self.tops)]
        row, column = row + self.frame.bottom - frame.bottom, column + self.frame.left - frame.left
        inside = (row >= 0) & (row < frame.height) & (column >= 0) & (column < frame.width)
        return Seen((row * frame.width + column)[inside], *(array[inside] for array in counts))
