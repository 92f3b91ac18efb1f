"""The mount of a radar relative to an IMU, where no lidar shows the motion.

It is an unknown of the graph of radar-inertial odometry (`radar.factor_graph`): a radar at p from the IMU, with the
rotation R, moves with R' (v + w x p). The IMU measures how v changes, and gravity. So accelerations show how the radar
is turned, turns the lever arm, and changes of both the time offset (C. Doer and G. Trommer, Radar Inertial Odometry
With Online Calibration, ENC 2020). What a straight, steady motion leaves open stays at its prior.

What all directions of an array have in common, a turn of them about its left and up, looks to the IMU like a radar that
is turned. It may be as large as the error of a direction, and more velocities do not make it smaller.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.constants import minute

from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.mounts import (
    MountEstimate,
    adopt,
    changed,
    compare,
    difference,
    prior_covariance,
    unknown,
    with_prior,
)
from rover_pipeline.numerics.blocks import IN_MEMORY
from rover_pipeline.numerics.linear import inv, matmul
from rover_pipeline.radar.factor_graph import ITERATIONS
from rover_pipeline.radar.inertial_odometry import at_instants
from rover_pipeline.radar.tuning import TUNING
from rover_pipeline.radar.velocity_factors import Measured, Recorded, likely_time_offset


def calibrate(radar: Measured, imu: Recorded, error: np.ndarray, *, brief: bool = False) -> MountEstimate:
    """The mount of a radar, or the declared one where the recording shows none that holds where it was not fitted.

    Args:
        radar: its velocities, and the declared mount.
        imu: its mount is taken for true.
        error: f8 (2,), standard deviations of the sines of azimuth and elevation of its points.
        brief: only find out whether the declared mount is wrong, by a minute in the middle of the recording. One that
            agrees with it is not adopted.
    """
    if brief and radar.known.any():
        middle = np.median(radar.ts[radar.known])
        near = np.abs(radar.ts - middle) <= minute / 2
        radar = radar._replace(vel=radar.vel[near], cov=radar.cov[near], ts=radar.ts[near])
    start, count = radar.mount, int(radar.known.sum())
    if not start.known:
        return unknown(start, "nothing says how it is turned, and without a lidar only errors of a mount are found")
    if count < 2 * len(prior_covariance(start)):
        return unknown(start, f"too few velocities, {count}")
    offset, certain = likely_time_offset(radar, imu, radar.options.max_time_offset)
    if not certain:
        return unknown(start, "no time offset fits its velocities to the IMU better than others")
    late = radar.ts > np.median(radar.ts[radar.known])
    odd = (radar.ts - radar.ts[0]).astype(int) % 2 == 1
    whole = fit(radar, imu, offset)
    if whole is None:
        return unknown(start, "its velocities contradict the IMU whatever the mount")
    shown = _with_directions(whole, error)
    if brief and not compare(start, shown).is_wrong:
        return replace(shown, adopted=False) if shown.observed.any() else unknown(start, *shown.proposals())
    parts = []
    for chosen in (~late, late, ~odd, odd):
        part = radar._replace(vel=np.where(chosen[:, None], radar.vel, np.nan))
        found = fit(part, imu, offset) if part.known.any() else unknown(start)
        if found is None:
            return unknown(start, "velocities of a part of it contradict the IMU whatever the mount")
        parts.append(found)
    found = adopt(start, whole, parts[:2], _gain(start, *parts[2:]) + _gain(start, *parts[:1:-1]))
    if not found.observed.any():
        return unknown(start, *(found.remarks or found.proposals()))
    return _with_directions(found, error)


def _with_directions(found: MountEstimate, error: np.ndarray) -> MountEstimate:
    """The estimate with what all directions of an array have in common: a turn about its left and up."""
    axes, shared = found.mount.rotation, np.zeros((7, 7))
    shared[:3, :3] = matmul(axes * [0.0, error[1] ** 2, error[0] ** 2], axes.T)
    return replace(found, covariance=found.covariance + shared, shared=shared)


def _gain(start: Mount, shown: MountEstimate, other: MountEstimate) -> float:
    """By how much what one part shows is better in another one than the start is: of squares, to second order."""
    error, whole = difference(start, shown.mount), inv(other.covariance)
    gradient = matmul(whole, difference(start, other.mount))
    return float(2 * matmul(error, gradient) - matmul(error, whole - inv(other.prior), error))


def fit(radar: Measured, imu: Recorded, offset: float) -> MountEstimate | None:
    """The mount that fits velocities to the IMU best; None where more of them contradict it than may.

    Args:
        offset: a first guess of what is to be added to the radar's times, s.
    """
    start, prior = radar.mount, prior_covariance(radar.mount)
    sigma = np.sqrt(np.diag(prior)[:6])
    mount = start._replace(time_offset=start.time_offset + offset)
    for _ in range(ITERATIONS):
        error = difference(start, mount)
        added = np.append(matmul(-mount.rotation.T, error[:3]), error[3:6])
        moved = radar.moved(float(error[6]))._replace(mount=mount, mount_sigma=sigma, mount_added=added)
        found = at_instants([moved], imu, IN_MEMORY)
        common = found.common
        if common is None:
            return None
        # From the true to the stated frame of the radar, as a rotation in the rig's frame.
        turned = np.eye(7)
        turned[:3, :3] = -mount.rotation
        step = matmul(turned, common.errors[0, 1:])
        mount = changed(mount, step)
        if (np.abs(step) < common.sigma[0, 1:]).all():
            break  # it is smaller than what it leaves open
    if common is None or (found.motion.weight[radar.known] <= 0.5).sum() > TUNING.contradicted * radar.known.sum():
        return None
    # The error of the scale is none of the mount's.
    information, before = common.information, common.prior
    whole = information + np.diag(before)
    gradient = matmul(whole, np.append(common.errors[0, 0], matmul(turned.T, difference(start, mount))))
    share = information[1:, :1] / whole[0, 0]
    own = information[1:, 1:] - matmul(share, information[:1, 1:])
    pull = gradient[1:] - share[:, 0] * gradient[0]
    return with_prior(start, prior, matmul(turned, own, turned.T), matmul(turned, pull))
