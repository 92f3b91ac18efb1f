"""Points of a sweep in the map."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rover_pipeline.kinematics.state import Poses
from rover_pipeline.lidar.geometry import projection, sectors
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.lidar.sweeps import Sweep
from rover_pipeline.mapping.options import MapOptions
from rover_pipeline.mapping.tuning import TUNING
from rover_pipeline.numerics.compiled import compiled


class Sensor(NamedTuple):
    """The pixels of a lidar of range images.

    Attributes:
        project: from u4 (beam, column) mm, staggered as the sensor sends it, to f4 (beam, column, 3) m, lidar frame.
        sectors: i4 (beam, column), see `geometry.sectors`.
    """

    project: Callable[[np.ndarray], np.ndarray]
    sectors: np.ndarray

    @staticmethod
    def of(metadata: str) -> Sensor:
        """The sensor of a `lidar.json`."""
        return Sensor(projection(metadata), sectors(metadata))

    def points(self, rng: np.ndarray, poses: Poses, min_range: float, max_range: float) -> np.ndarray:
        """Points in the map of a sweep, u2 (beam, column), mm, staggered; see `placed`."""
        return placed(Sweep(self.project(rng.astype("u4")), rng), poses, min_range, max_range)


def placed(sweep: Sweep, poses: Poses, min_range: float, max_range: float) -> np.ndarray:
    """Points of a sweep in the map, each column projected from the lidar's pose at its own instant.

    Args:
        poses: of the lidar at every column.
        min_range, max_range: of a return, m.

    Returns:
        f8 (row, column, 3), m; NaN where there is no return in range.
    """
    near, far = max(1, round(min_range * 1000)), min(CLIPPED, round(max_range * 1000))
    return _transform(sweep.xyz, sweep.rng, near, far, *poses)


def spread_sweeps(numbers: np.ndarray) -> list[int]:
    """Some of the sweeps with these numbers, spread over them: enough for what is the same in a whole recording."""
    if not len(numbers):
        return []
    chosen: list[int] = numbers[np.unique(np.linspace(0, len(numbers) - 1, TUNING.spread_sweeps).astype(int))].tolist()
    return chosen


def max_distance(options: MapOptions) -> float:
    """Maximum distance of a point from the lidar's position, m. Beams start beside it, so it is above the range."""
    return options.max_range + 0.5


@compiled
def _transform(xyz: np.ndarray, rng: np.ndarray, near: int, far: int, rot: np.ndarray, pos: np.ndarray) -> np.ndarray:
    """Points whose range is at least `near` and less than `far`, mm, moved to the map; the others are NaN."""
    beams, columns = rng.shape
    out = np.empty((beams, columns, 3))
    for beam in range(beams):
        for c in range(columns):
            if near <= rng[beam, c] < far:
                x, y, z = xyz[beam, c, 0], xyz[beam, c, 1], xyz[beam, c, 2]
                out[beam, c, 0] = rot[c, 0, 0] * x + rot[c, 0, 1] * y + rot[c, 0, 2] * z + pos[c, 0]
                out[beam, c, 1] = rot[c, 1, 0] * x + rot[c, 1, 1] * y + rot[c, 1, 2] * z + pos[c, 1]
                out[beam, c, 2] = rot[c, 2, 0] * x + rot[c, 2, 1] * y + rot[c, 2, 2] * z + pos[c, 2]
            else:
                out[beam, c, 0] = out[beam, c, 1] = out[beam, c, 2] = np.nan
    return out
