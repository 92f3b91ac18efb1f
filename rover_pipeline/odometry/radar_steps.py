"""Virtual sensor `_radar_odom`: the radar's trajectory from its velocities and an IMU.

It is for smoke, dust, tunnels and rigs without a lidar.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.clocks.clock import clock
from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import Inspection
from rover_pipeline.kinematics.gravity import remove_tilt
from rover_pipeline.kinematics.mount import Mount, find_mount, mount_warnings
from rover_pipeline.kinematics.preintegration import AT_ONCE, MAX_SILENCE, ImuNoise, preintegrate, sampled
from rover_pipeline.kinematics.rotation import exp, skew
from rover_pipeline.kinematics.stated import mount_notes
from rover_pipeline.numerics.blocks import blocks
from rover_pipeline.numerics.linear import eigvalsh, matmul
from rover_pipeline.odometry.inertial_smoother import RadarVelocities, Smoothed, smooth, without_prior
from rover_pipeline.odometry.level import GRAVITY
from rover_pipeline.odometry.options import RadarOdometryOptions
from rover_pipeline.radar.at_rest import vertical_sigma
from rover_pipeline.radar.timing import frame_duration

#: Seconds of the accelerometer that give the first tilt; an error of it is corrected later.
_FIRST_TILT_S = 1.0
#: Share of the radar's velocities that may contradict the IMU before nothing is believed.
_CONTRADICTED = 0.3


def radar_odom(
    recording: Recording,
    *,
    options: RadarOdometryOptions,
    imu_ts: np.ndarray,
    imu_acc: np.ndarray,
    imu_avel: np.ndarray,
    imu_valid: np.ndarray | None = None,
    config: str | None = None,
    sidecar: str | None = None,
    radar: str | None = None,
) -> tuple[dict[str, np.ndarray], Inspection]:
    """States of the radar at its times.

    The world is level, with its origin and its heading at the first frame.

    Args:
        imu_ts: f8 (M,), s; imu_acc, imu_avel: f4 (M, 3), m/s2 with gravity and rad/s without the bias at rest;
            imu_valid: u1 (M,).
        config: `config.yaml`, which may hold the extrinsics and the timing of chirps.
        sidecar, radar: `radar.json` and the radar's `meta.json`, which tell how long a frame lasts.

    Returns:
        The channels of the table. `valid` = 0 where velocity or tilt are not known well enough, and before and after
        the measurements of the IMU.
    """
    vel, cov = (recording.read(name, 0, recording.count).astype("f8") for name in ("vel", "vel_cov"))
    mount, imu_mount = find_mount("radar", options.rig, config), find_mount("imu", options.rig, config)
    frame = frame_duration(recording.ts, config, sidecar, radar)
    ts, times = recording.ts, imu_ts
    if options.smoothed:
        ts, times = clock("radar", ts, options.times).best, clock("imu", times, options.times).best
    good = np.isfinite(imu_acc).all(axis=1) & np.isfinite(imu_avel).all(axis=1)
    good &= True if imu_valid is None else imu_valid != 0
    good &= np.append(True, np.diff(times) > 0)
    acc, avel = (matmul(values[good].astype("f8"), imu_mount.rotation.T) for values in (imu_acc, imu_avel))
    known = (recording.valid != 0) & np.isfinite(vel).all(axis=1)
    trusted = np.where(known[:, None], vel, np.nan)
    unit = float(np.median(np.linalg.norm(acc, axis=1))) if len(acc) else GRAVITY
    in_g = unit < np.sqrt(GRAVITY)  # The ratio to 1 is smaller than that to 9.8.
    if in_g:
        acc = acc * GRAVITY
    result = estimate(ts + frame.middle, trusted, cov, times[good], acc, avel, (mount, imu_mount), options)
    channels = _channels(result, (mount, imu_mount), -frame.middle)
    valid = result.valid & np.isfinite(channels["pos"]).all(axis=1)
    believed = result.motion.weight > 0.5
    used, doubted = int(believed.sum()), int((~believed & known).sum())
    contradicted = doubted > _CONTRADICTED * max(used + doubted, 1)
    if contradicted:
        valid[:] = False
    measured: dict[str, Any] = {
        "velocities_used": used,
        "velocities_doubted": doubted,
        "gyro_bias_rad_s": result.motion.gyro_bias[-1].round(5).tolist(),
        "acc_bias_m_s2": result.motion.acc_bias[-1].round(4).tolist(),
        "extrinsics": mount.source,
        **frame.describe(),
    }
    warnings = [*mount_warnings("radar", options.rig, mount), *mount_warnings("imu", options.rig, imu_mount)]
    warnings += frame.warnings
    if in_g:
        warnings.append(f"imu/acc has a median of {unit:.2f}: taken to be in g, not in m/s2")
    if contradicted:
        warnings.append(
            f"radar odometry: {doubted} of {used + doubted} velocities of the radar contradict the IMU, so no state is "
            "valid; are rig.radar and rig.imu right, and imu/avel in rad/s?"
        )
    elif not valid.any():
        warnings.append("radar odometry: no frame has a velocity and an IMU that tell the motion")
    return {**channels, "valid": valid.astype("u1")}, Inspection(
        measured, warnings, notes=mount_notes("radar", "imu", rig=options.rig, recorded=config)
    )


class Estimate(NamedTuple):
    """The smoothed motion of N frames.

    Attributes:
        motion: of the IMU.
        force, avel: f8 (N, 3), m/s2 and rad/s, specific force and angular velocity that the IMU measured, rig frame.
        valid: bool (N,), which frames can be trusted.
    """

    motion: Smoothed
    force: np.ndarray
    avel: np.ndarray
    valid: np.ndarray


def estimate(
    ts: np.ndarray,
    vel: np.ndarray,
    cov: np.ndarray,
    imu_ts: np.ndarray,
    acc: np.ndarray,
    avel: np.ndarray,
    mounts: tuple[Mount, Mount],
    options: RadarOdometryOptions,
) -> Estimate:
    """The motion at the instants of velocities.

    Args:
        ts: f8 (N,), s, of velocities; vel: f8 (N, 3), m/s, NaN where there is none, cov: f8 (N, 3, 3), of the radar.
        imu_ts: f8 (M,), s; acc, avel: f8 (M, 3), m/s2 with gravity and rad/s, in the rig's frame.
        mounts: of the radar and the IMU.
    """
    count = len(ts)
    if count < 2 or len(imu_ts) < 2:
        unknown = np.full((count, 3), np.nan)
        return Estimate(Smoothed.unknown(count), unknown, unknown, np.zeros(count, bool))
    measured, information = without_prior(cov, vel, vertical_sigma(vel, options.vertical, options.pitch))
    imu = preintegrate(ts, imu_ts, acc, avel, ImuNoise(options.gyro_noise, options.acc_noise))
    radar, at = mounts
    force, rates = sampled(ts, imu_ts, acc), sampled(ts, imu_ts, avel)
    near = acc[np.abs(imu_ts - ts[0]) <= _FIRST_TILT_S]
    up = near.mean(axis=0) if len(near) else np.array([0.0, 0.0, 1.0])
    first = remove_tilt(np.eye(3)[None], up / max(float(np.linalg.norm(up, axis=0)), 1e-9))[0]
    arm = radar.translation - at.translation
    motion = smooth(first, imu, RadarVelocities(measured, information, radar.rotation, arm, rates))
    # The heading drifts, and with it the velocity in the world. The radar measures the velocity in its own frame.
    into = np.swapaxes(motion.rot, 1, 2)
    sigma = np.empty(count)
    for part in blocks(count, AT_ONCE):
        change = np.concatenate([skew(np.einsum("nij,nj->ni", into[part], motion.vel[part])), into[part]], axis=2)
        own = matmul(change, motion.cov[part, :6, :6], np.swapaxes(change, 1, 2))
        sigma[part] = np.sqrt(np.maximum(eigvalsh(own)[:, -1], 0))
    # The variance of the tilt is that of the rotation but for the part about the vertical.
    vertical, turns = motion.rot[:, 2], motion.cov[:, :3, :3]
    tilt = np.trace(turns, axis1=1, axis2=2) - np.einsum("ni,nij,nj->n", vertical, turns, vertical)
    valid = (sigma <= options.max_error) & (tilt <= np.radians(options.max_tilt_error) ** 2)
    valid &= (ts >= imu_ts[0] - MAX_SILENCE) & (ts <= imu_ts[-1] + MAX_SILENCE)
    # Positions on both sides of a long silence of the IMU are not joined: the earlier part is kept.
    broken = np.flatnonzero((imu.longest > options.max_silence) & (ts[:-1] > imu_ts[0]) & (ts[1:] < imu_ts[-1]))
    if len(broken):
        valid[broken[0] + 1 :] = False
    return Estimate(motion, force, rates, valid)


def _channels(result: Estimate, mounts: tuple[Mount, Mount], early: float) -> dict[str, np.ndarray]:
    """The channels of the table, of the radar, at instants `early` seconds after those of the states.

    Args:
        mounts: of the radar and the IMU.
    """
    motion, (radar, imu) = result.motion, mounts
    turn = result.avel - motion.gyro_bias
    arm = radar.translation - imu.translation
    swing = np.cross(turn, arm)
    acc = _rotated(motion.rot, result.force - motion.acc_bias + np.cross(turn, swing)) - [0.0, 0.0, GRAVITY]
    vel = motion.vel + _rotated(motion.rot, swing)
    # The stamp is some hundredths of a second before the middle of the chirps, over which the motion is steady.
    pos = motion.pos + _rotated(motion.rot, np.broadcast_to(arm, turn.shape)) + vel * early + 0.5 * acc * early**2
    rot = np.full_like(motion.rot, np.nan)
    known = np.isfinite(turn).all(axis=1) & np.isfinite(motion.rot).all(axis=(1, 2))
    rot[known] = matmul(motion.rot[known], exp(turn[known] * early), radar.rotation)
    origin = pos[known][0] if known.any() else np.zeros(3)
    into, cov = radar.rotation.T, np.empty((len(pos), 6, 6), "f4")
    for part in blocks(len(pos), AT_ONCE):
        change = np.zeros((part.stop - part.start, 6, 15))
        # A turn of the rig moves the radar, which is at the end of an arm.
        change[:, :3, :3] = matmul(-into, skew(arm))
        change[:, :3, 6:9] = matmul(into, np.swapaxes(motion.rot[part], 1, 2))
        change[:, 3:, :3] = into
        cov[part] = matmul(change, motion.cov[part], np.swapaxes(change, 1, 2))
    return {
        "pos": pos - origin,
        "rot": rot,
        "vel": vel + acc * early,
        "acc": acc,
        "avel": matmul(turn, radar.rotation),
        "inliers": motion.weight.astype("f4"),
        "cov": cov,
    }


def _rotated(rot: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("nij,nj->ni", rot, vectors))
