"""Whether the lidar sees a mirrored world, because its columns or beams are stored in reverse.

Such a world agrees with itself, so that ranges alone do not show it. Beside it, a gyroscope turns half a turn away from
its mount. Where the mount is wrong instead, the accelerometer feels the accelerations of the trajectory once the IMU is
turned as its gyroscope says; in a mirrored world it feels their opposites.
"""

from __future__ import annotations

import numpy as np

from rover_pipeline.imu.blocks import find_damage, intervals
from rover_pipeline.imu.correlation import correlate, half_turn
from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.odometry.inertial import Imu, Samples
from rover_pipeline.odometry.level import handedness

_REVERSED = "the lidar's columns or beams may be stored in reverse, so that it sees a mirrored world"
_NOTHING = "no pose is trusted"


def mirrored(
    samples: Samples | None,
    imu: Imu,
    mount: Mount,
    lidar: tuple[np.ndarray, np.ndarray],
    trajectory: Trajectory,
) -> str:
    """Why the world of a trajectory may be mirrored; empty if nothing says so.

    Args:
        mount: of the IMU, as somebody gave it.
        lidar: instants, f8 (M,), s, and angular velocities, f8 (M, 3), rad/s, without the IMU.
    """
    if samples is None:
        return ""
    found = imu.calibration
    turn = half_turn_of(samples, lidar, mount) if mount.known else None
    if mount.known and turn is None:
        return ""
    if found is not None and found.usable:
        rotation, offset = found.rotation, found.offset
    elif turn is not None:
        rotation, offset = matmul(turn, mount.rotation), 0.0
    else:
        return ""
    hand = handedness(trajectory, samples.times + offset, samples.acc, Mount(mount.translation, rotation))
    if turn is None:
        if hand >= 0:
            return ""
        said = "the accelerometer feels the opposite of the trajectory's accelerations"
        return f"{said}: {_REVERSED}, or the accelerometer gives gravity; {_NOTHING}; rig.imu would show which"
    if hand > 0:
        return ""
    said = "the gyroscope turns half a turn away from the lidar"
    if hand < 0:
        return f"{said}, and the accelerometer feels the opposite of its accelerations: {_REVERSED}; {_NOTHING}"
    return f"{said}: {_REVERSED}, or rig.imu is wrong by half a turn; {_NOTHING}"


def half_turn_of(samples: Samples, lidar: tuple[np.ndarray, np.ndarray], mount: Mount) -> np.ndarray | None:
    """The half turn, f8 (3, 3), by which the gyroscope's rotation differs from its mount; see `half_turn`."""
    good = find_damage(samples.times, samples.rates).good
    return half_turn(correlate(*intervals(samples.times, samples.rates, good, *lidar)), mount.rotation)
