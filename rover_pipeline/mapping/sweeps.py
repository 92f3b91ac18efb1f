"""Points of a sweep in the map."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from rover_pipeline.engine.recording import Recording
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.kinematics.sweep import SweepMotion
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.lidar.sweeps import LidarReader, Sweep
from rover_pipeline.mapping.floor import Floor, find_floor, turned_up
from rover_pipeline.mapping.options import MapOptions
from rover_pipeline.mapping.tuning import TUNING
from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.numerics.linear import matmul


def stored_sweep(recording: Recording, number: int) -> dict[str, np.ndarray]:
    """The channels of a sweep, by argument."""
    return {name: recording.read(name, number, number + 1)[0] for name in recording.arguments}


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


def spread_floor(
    stored: Callable[[int], Mapping[str, np.ndarray] | None],
    lidar: LidarReader,
    motion: SweepMotion,
    numbers: np.ndarray,
    limits: tuple[float, float],
    up: str | None = None,
) -> Floor:
    """The floor in the frame of a trajectory, from some of the sweeps with these numbers.

    Args:
        stored: gives the channels of a sweep, by argument; None where it cannot be decoded, and is left out.
        limits: minimum and maximum range of a return, m.
        up: `up.json` of `_odom`, if it has one: a lidar may hang upside down, or lie on its side.
    """
    sweeps, turn = [], turned_up(up)
    for number in spread_sweeps(numbers):
        if (channels := stored(number)) is not None:
            poses = motion.columns(number, lidar.columns)
            points = (placed(lidar.sweep(channels), poses, *limits) - poses.pos).reshape(-1, 3)
            sweeps.append(matmul(points, turn.T))
    floor = find_floor(sweeps)
    return floor._replace(up=matmul(turn.T, floor.up))


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
