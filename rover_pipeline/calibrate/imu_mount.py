"""The mount of an IMU: rotation and time offset by its gyroscope, translation by its accelerometer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rover_pipeline.imu.alignment import MOUNT_SIGMA
from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.mounts import MountEstimate, prior_covariance, unknown, with_prior
from rover_pipeline.kinematics.rotation import log, nearest
from rover_pipeline.numerics.linear import inv, matmul
from rover_pipeline.odometry.accelerometer import ARM_PRIOR, Level

#: Deviations of rotation, rad, and time offset, s, that no residual shows: the lidar's rates are off alike.
#: Noise: simulated walks and rides.
_FLOOR = np.array([np.radians(0.015)] * 3 + [1e-4])


def imu_mount(found: Mapping[str, Any], level: Level | None, declared: Mount) -> MountEstimate:
    """The mount of an IMU.

    Args:
        found: `Calibration.summary()` of the gyroscope against rates that were estimated without it.
        level: what the accelerometer shows; None = nothing.
    """
    if not found["usable"]:
        return unknown(declared, str(found["reason"]))
    information, gradient = np.zeros((7, 7)), np.zeros(7)
    sigma = np.append(np.radians(found["rotation_sigma_deg"]), found["offset_sigma_ms"] / 1e3)
    sigma = np.maximum(sigma, _FLOOR / 10)  # they are rounded
    turn = log(matmul(nearest(np.array(found["rotation_lidar_from_imu"])), declared.rotation.T)[None])[0]
    # A given rotation was a measurement too, which the prior repeats, unless the motion contradicts it.
    given = declared.known and np.linalg.norm(turn, axis=0) < 3 * MOUNT_SIGMA
    weight = sigma**-2.0
    error = np.append(turn, found["offset_ms"] / 1e3 - declared.time_offset)
    places = [0, 1, 2, 6]
    gradient[places] = weight * error
    information[places, places] = weight
    information[places[:3], places[:3]] -= given * MOUNT_SIGMA**-2.0
    if level is not None:
        shown = inv(level.arm_cov)
        information[3:6, 3:6] = shown - inv(ARM_PRIOR)
        gradient[3:6] = matmul(shown, level.arm) - matmul(information[3:6, 3:6], declared.translation)
    found_mount = with_prior(declared, prior_covariance(declared), information, gradient)
    shared = np.zeros((7, 7))
    shared[places, places] = _FLOOR**2
    return replace(found_mount, covariance=found_mount.covariance + shared, shared=shared)
