"""Where the lidar was at each column of a sweep, in the frame of a sensor of the rig at one instant.

Labels of an instant are made from a sweep that takes a tenth of a second. What stands still is put where the sensor
sees it at that instant. What moves by itself stays where it was when its column was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.kinematics.sweep import SweepMotion
from rover_pipeline.numerics.linear import matmul

#: What provenance says of the motion.
MOVED, STILL = "columns moved to the instant by _odom", "none: as if the rig stood still"


def sensor_poses(motion: SweepMotion, stamps: np.ndarray, instants: np.ndarray | None, mount: Mount) -> Poses:
    """Poses of a sensor of the rig in the world, f8 (frame, ...); NaN where they are not known.

    Args:
        stamps: f8 (frame,), recorded times of sweeps, s.
        instants: f8 (frame,), s, on the clock of the trajectory; None = those that the stamps of the sweeps refer to.
        mount: of the sensor on the lidar.
    """
    if instants is not None:
        states, _ = motion.trajectory.at(instants)
        rot, pos = states.rot, states.pos
    else:
        rot, pos = np.full((len(stamps), 3, 3), np.nan), np.full((len(stamps), 3), np.nan)
        for i, stamp in enumerate(stamps.tolist()):
            if (number := motion.trajectory.index(stamp)) is not None:
                rot[i], pos[i] = motion.trajectory.states.rot[number], motion.trajectory.states.pos[number]
    return Poses(matmul(rot, mount.rotation), pos + matmul(rot, mount.translation))


def columns_in(frames: Poses, motion: SweepMotion, numbers: Iterable[int | None], count: int) -> Iterator[Poses | None]:
    """Poses of the lidar at each of `count` columns of a sweep, in a frame; None where they are not known.

    Args:
        frames: poses of frames in the world, f8 (N, ...), NaN where they are not known.
        numbers: of the sweep that belongs to each frame; None = it has no valid state.
    """
    for number, rot, pos in zip(numbers, frames.rot, frames.pos, strict=True):
        known = number is not None and np.isfinite(rot).all() and np.isfinite(pos).all()
        yield motion.columns_seen_from(number, count, rot, pos) if number is not None and known else None


def still_columns(rotation: np.ndarray, mount: Mount, count: int) -> Poses:
    """The same for a rig that stands still: the lidar has one pose at all columns.

    Args:
        rotation: f8 (3, 3), frame-from-lidar.
        mount: of the sensor whose position is the origin of the frame.
    """
    return Poses(np.tile(rotation, (count, 1, 1)), np.tile(matmul(-rotation, mount.translation), (count, 1)))
