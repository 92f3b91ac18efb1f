"""Whether the lidar sees a mirrored world, because its columns or beams are stored in reverse.

Such a world agrees with itself, so that ranges alone do not show it. Beside it, a gyroscope turns half a turn away from
its mount. Where the mount is wrong instead, the accelerometer feels the accelerations of the trajectory once the IMU is
turned as its gyroscope says; in a mirrored world it feels their opposites.
"""

from __future__ import annotations

from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.odometry.inertial import Imu, Samples
from rover_pipeline.odometry.level import find_level

_REVERSED = "the lidar's columns or beams may be stored in reverse, so that it sees a mirrored world"
_NOTHING = "no pose is trusted"


def mirrored(samples: Samples, imu: Imu, mount: Mount, trajectory: Trajectory) -> str:
    """Why the world of a trajectory may be mirrored; empty if nothing says so.

    Args:
        mount: of the IMU, as somebody gave it.
    """
    found = imu.calibration
    turn = None if found is None else found.half_turn
    if found is None or (turn is None and (mount.known or not found.usable)):
        return ""
    rotation, offset = found.model.rotation, found.model.offset
    if not found.usable and turn is not None:
        rotation, offset = matmul(turn, mount.rotation), 0.0
    try:
        level = find_level(trajectory, samples.times + offset, samples.acc, Mount(mount.translation, rotation), 0.0)
        hand = 0 if not level.certain else -1 if level.downward else 1
    except ValueError:
        hand = 0
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
