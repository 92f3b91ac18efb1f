"""The part of a map that some sweeps make: their points by voxel and their counts of cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from rover_pipeline.kinematics.state import Poses
from rover_pipeline.kinematics.sweep import SweepMotion
from rover_pipeline.lidar.geometry import projection, sensor_info
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.mapping.grid import CellCounts, Extent, extent_around
from rover_pipeline.mapping.kernels import count_hits, count_misses, find_rays, transform_points
from rover_pipeline.mapping.options import MapOptions
from rover_pipeline.mapping.voxels import PointTable


class Sensor(NamedTuple):
    """The pixels of a lidar.

    Attributes:
        project: from u4 (beam, column) mm, staggered as the sensor sends it, to f4 (beam, column, 3) m, lidar frame.
        sectors: i4 (beam, column), the direction of each pixel in steps of two columns. Beams do not point to exactly
            the same azimuths; in narrower sectors, which few beams look into, walls would have gaps.
    """

    project: Callable[[np.ndarray], np.ndarray]
    sectors: np.ndarray

    @staticmethod
    def of(metadata: str) -> Sensor:
        """The sensor of a `lidar.json`."""
        pixels = sensor_info(metadata).format
        aligned = np.arange(pixels.columns_per_frame) + np.asarray(pixels.pixel_shift_by_row)[:, None]
        return Sensor(projection(metadata), (aligned % pixels.columns_per_frame // 2).astype("i4"))


class PartialMap(NamedTuple):
    """What some sweeps add to a map.

    Attributes:
        voxels: their points by voxel, as `PointTable.rows` gives them.
        counts: the cells that they observed.
        heights: minimum and maximum height of a point above the lidar, m; infinite when there is none.
        in_band: number of points at the heights of the grid.
    """

    voxels: np.ndarray
    counts: CellCounts
    heights: tuple[float, float]
    in_band: int


def map_sweeps(
    read: Callable[[int], tuple[np.ndarray, np.ndarray]],
    numbers: Sequence[int],
    sensor: Sensor,
    motion: SweepMotion,
    height: float,
    extent: Extent,
    options: MapOptions,
) -> PartialMap:
    """Sums of the points and rays of some sweeps.

    Args:
        read: gives ranges, u2 (beam, column) mm, and reflectivity, u1 (beam, column), of a sweep by its number.
        numbers: of at least one sweep with a valid state.
        motion: of the lidar during its sweeps, in a world whose z is up.
        height: of the lidar above the floor, m.
        extent: of the whole grid, to which the indices of the result refer.
    """
    voxels = PointTable(options.voxel)
    band = np.array([0.0, options.z_min, options.z_max]) - height
    heights = np.array([np.inf, -np.inf])
    poses = {number: motion.columns(number, sensor.sectors.shape[1]) for number in numbers}
    positions = np.concatenate([each.pos[:, :2] for each in poses.values()])
    cells = LocalGrid(extent_around(positions, max_distance(options), extent.edge))
    points = np.empty((*sensor.sectors.shape, 3))
    in_band = 0
    for counter, number in enumerate(numbers, 1):
        rng, rfl = read(number)
        project_to_map(rng, sensor, poses[number], options, points)
        voxels.add(points.reshape(-1, 3), rfl.ravel())
        in_band += cells.add(points, poses[number].pos, sensor.sectors, band, heights, counter)
    return PartialMap(voxels.rows(), cells.counts(extent), (float(heights[0]), float(heights[1])), in_band)


def project_to_map(rng: np.ndarray, sensor: Sensor, poses: Poses, options: MapOptions, out: np.ndarray) -> None:
    """Points of a sweep in the map, each column projected from the lidar's pose at its own instant.

    Args:
        rng: u2 (beam, column), mm.
        poses: of the lidar at every column.
        out: f8 (beam, column, 3), m, filled; NaN where there is no return in range.
    """
    near, far = round(options.min_range * 1000), min(CLIPPED, round(options.max_range * 1000))
    transform_points(sensor.project(rng.astype("u4")), rng, max(1, near), far, *poses, out)


def max_distance(options: MapOptions) -> float:
    """Maximum distance of a point from the lidar's position, m. Beams start beside it, so it is above the range."""
    return options.max_range + 0.5


class LocalGrid:
    """The cells around some sweeps, with counts as in `Grid`. Few cells take little memory in each thread."""

    def __init__(self, extent: Extent) -> None:
        self.extent = extent
        self._hits, self._misses, self._hit_by, self._passed_by = (np.zeros(extent.shape, "u2") for _ in range(4))
        self._tops = np.zeros(extent.shape, "u1")

    def add(
        self,
        points: np.ndarray,
        pos: np.ndarray,
        sectors: np.ndarray,
        band: np.ndarray,
        heights: np.ndarray,
        counter: int,
    ) -> int:
        """Count the sweep with the number `counter`; returns the number of its points in the band."""
        corner, edge = self.extent.corner, self.extent.edge
        count = int(sectors.max()) + 1
        nearest, farthest, entry = np.empty((count, 5)), np.empty((count, 5)), np.empty(count)
        find_rays(points, pos, sectors, band[1], band[2], nearest, farthest, entry, heights)
        in_band = count_hits(points, pos, band, corner, edge, counter, self._hit_by, self._hits, self._tops)
        count_misses(nearest, farthest, entry, corner, edge, counter, self._hit_by, self._passed_by, self._misses)
        return in_band

    def counts(self, extent: Extent) -> CellCounts:
        """The observed cells that lie in a larger extent, by their indices there."""
        row, column = np.nonzero((self._hits > 0) | (self._misses > 0) | (self._tops > 0))
        counts = [array[row, column] for array in (self._hits, self._misses, self._tops)]
        row, column = row + self.extent.bottom - extent.bottom, column + self.extent.left - extent.left
        inside = (row >= 0) & (row < extent.height) & (column >= 0) & (column < extent.width)
        return CellCounts((row * extent.width + column)[inside], *(array[inside] for array in counts))
