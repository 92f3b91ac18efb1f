"""Virtual sensor `_radar_odom`: the radar's trajectory from its velocities and an IMU.

It is for smoke, dust, tunnels and rigs without a lidar. The motion of the rig is a factor graph over all frames, solved
at once. Unknown at each frame: rotation, velocity, position and both biases of the IMU. Factors: the IMU between frames
(`preintegration`), the radar's own velocity at each frame, slowly changing biases, and gravity, which is known. The
normal equations are block tridiagonal, so that a solution and all covariances take a time in proportion to the frames.
A velocity that contradicts the others counts less (Cauchy's loss).

The body frame is that of the rig, with its origin at the IMU. The world is level: z is up.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.constants import g as GRAVITY  # noqa: N812

from rover_pipeline.clocks.clock import clock
from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import Inspection
from rover_pipeline.kinematics.gravity import remove_tilt
from rover_pipeline.kinematics.mount import Mount, find_mount, mount_warnings
from rover_pipeline.kinematics.preintegration import (
    AT_ONCE,
    MAX_SILENCE,
    ImuNoise,
    Preintegrated,
    preintegrate,
    sampled,
)
from rover_pipeline.kinematics.rotation import exp, log, skew
from rover_pipeline.kinematics.stated import mount_notes
from rover_pipeline.numerics.blocks import blocks
from rover_pipeline.numerics.linear import eigh, eigvalsh, inv, matmul
from rover_pipeline.radar.ego_motion import OUTLIER, vertical_sigma
from rover_pipeline.radar.options import RadarOdometryOptions
from rover_pipeline.radar.timing import frame_duration
from rover_pipeline.radar.tuning import TUNING

#: Maximum number of iterations, and the change, in the units of the unknowns, after which there are no more. Schedule.
_ITERATIONS, _SMALL_STEP = 12, 1e-5


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
        sidecar, radar: `radar.json` and the radar's `meta.json`, which say how long a frame lasts.

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
    times = times + (imu_mount.time_offset - mount.time_offset)  # by the radar's clock
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
    contradicted = doubted > TUNING.contradicted * max(used + doubted, 1)
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
        warnings.append("radar odometry: no frame has a velocity and measurements of an IMU around it")
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
    near = acc[np.abs(imu_ts - ts[0]) <= TUNING.first_tilt_s]
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


# --- The factor graph -------------------------------------------------------------------------------------------------


class RadarVelocities(NamedTuple):
    """Velocities of a radar over ground in its own frame, of N frames.

    Attributes:
        vel: f8 (N, 3), m/s; information: f8 (N, 3, 3), s2/m2, zero where there is none.
        rotation: f8 (3, 3), body-from-radar; arm: f8 (3,), from the IMU to the radar in the body frame, m.
        avel: f8 (N, 3), angular velocity by the gyroscope in the body frame, rad/s.
    """

    vel: np.ndarray
    information: np.ndarray
    rotation: np.ndarray
    arm: np.ndarray
    avel: np.ndarray


class Smoothed(NamedTuple):
    """The motion at N frames.

    Attributes:
        rot: f8 (N, 3, 3), world-from-body; vel, pos: f8 (N, 3), of the IMU in the world, m/s and m.
        gyro_bias, acc_bias: f8 (N, 3), rad/s and m/s2.
        cov: f8 (N, 15, 15), of rotation (in the body frame, rad), velocity, position, and both biases.
        weight: f8 (N,), of the radar's velocity, 0 to 1; 0 where there is none.
    """

    rot: np.ndarray
    vel: np.ndarray
    pos: np.ndarray
    gyro_bias: np.ndarray
    acc_bias: np.ndarray
    cov: np.ndarray
    weight: np.ndarray

    @staticmethod
    def unknown(count: int) -> Smoothed:
        """States that nothing is known of."""
        rows = [np.full((count, *shape), np.nan) for shape in ((3, 3), (3,), (3,), (3,), (3,), (15, 15))]
        return Smoothed._make([*rows, np.zeros(count)])

    def moved(self, step: np.ndarray) -> Smoothed:
        """The states after a step of the unknowns, f8 (N, 15), in the order of `cov`."""
        turn, *others = np.split(step, 5, axis=1)
        vectors = (old + new for old, new in zip(self[1:5], others, strict=True))
        return Smoothed._make([matmul(self.rot, exp(turn)), *vectors, self.cov, self.weight])


def without_prior(
    cov: np.ndarray, vel: np.ndarray, vertical: np.ndarray, sd: float = TUNING.min_velocity_sd
) -> tuple[np.ndarray, np.ndarray]:
    """The velocities and their information, f8 (N, 3), (N, 3, 3), without the prior of no vertical velocity.

    Each frame's estimate holds that prior. To take it in every frame for a measurement would hold the rig level.

    Args:
        cov: f8 (N, 3, 3), m2/s2, NaN where there is no estimate.
        vertical: f8 (N,), standard deviation of the prior, m/s; sd: that of what the covariance leaves out, m/s.
    """
    known = np.isfinite(cov).all(axis=(1, 2)) & np.isfinite(vel).all(axis=1)
    measured, information = np.zeros((len(vel), 3)), np.zeros((len(vel), 3, 3))
    whole = inv(cov[known])
    own = (whole + np.swapaxes(whole, 1, 2)) / 2
    own[:, 2, 2] -= 1 / vertical[known] ** 2
    values, vectors = eigh(own)
    # What is known worse than to a kilometre per second is not known.
    values = np.maximum(values, 1e-6)
    measured[known] = np.einsum("nij,nj,nkj,nkl,nl->ni", vectors, 1 / values, vectors, whole, vel[known])
    information[known] = np.einsum("nij,nj,nkj->nik", vectors, 1 / (1 / values + sd**2), vectors)
    return measured, information


def smooth(rot: np.ndarray, imu: Preintegrated, radar: RadarVelocities) -> Smoothed:
    """The motion that fits all measurements best.

    Args:
        rot: f8 (3, 3), first guess of the first rotation, world-from-body.
        imu: of the N - 1 intervals between the frames.
    """
    state = _first_guess(rot, imu, radar)
    for _ in range(_ITERATIONS):
        diagonal, above, right, _ = _equations(state, imu, radar, rot)
        step, inverses = _solved(diagonal, above, right)
        state = state.moved(step)
        del diagonal, above, inverses  # they are kilobytes for each frame, and the next ones are made before these go
        if np.abs(step).max() < _SMALL_STEP:
            break
    diagonal, above, right, weight = _equations(state, imu, radar, rot)
    cov = _solved(diagonal, above, right)[1]
    # Diagonal blocks of the inverse, in the memory of the inverses of its pivots.
    for n in range(len(cov) - 2, -1, -1):
        gain = matmul(cov[n], above[n])
        cov[n] += matmul(gain, cov[n + 1], gain.T)
    return state._replace(cov=cov, weight=weight)


def _first_guess(rot: np.ndarray, imu: Preintegrated, radar: RadarVelocities) -> Smoothed:
    count = len(radar.vel)
    rots = np.empty((count, 3, 3))
    rots[0] = rot
    for n in range(count - 1):
        rots[n + 1] = matmul(rots[n], imu.rot[n])
    known = np.flatnonzero(np.trace(radar.information, axis1=1, axis2=2) > 0)
    vel, zeros = np.zeros((count, 3)), np.zeros((count, 3))
    if len(known):
        own = np.einsum("nij,jk,nk->ni", rots, radar.rotation, radar.vel)
        # The direction that a radar does not see is not in its first guess.
        own[:, 2] = 0
        vel = sampled(np.arange(count), known, own[known])
    pos = np.concatenate([np.zeros((1, 3)), np.cumsum(vel[:-1] * imu.seconds[:, None], axis=0)])
    return Smoothed(rots, vel, pos, zeros, zeros, np.zeros((0, 15, 15)), np.zeros(count))


def _equations(
    state: Smoothed, imu: Preintegrated, radar: RadarVelocities, first: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Blocks of the normal equations on and above the diagonal, right sides, and weights of the radar's velocities."""
    count = len(state.rot)
    diagonal, above, right = np.zeros((count, 15, 15)), np.zeros((count - 1, 15, 15)), np.zeros((count, 15))
    for part in blocks(count - 1, AT_ONCE):
        later, around = slice(part.start + 1, part.stop + 1), slice(part.start, part.stop + 1)
        own_state = Smoothed(*(each[around] for each in state))
        residual, before, after, information = _between(own_state, Preintegrated(*(each[part] for each in imu)))
        weighted = matmul(np.swapaxes(before, 1, 2), information)
        above[part] = matmul(weighted, after)
        _add(diagonal[part], right[part], weighted, before, residual)
        _add(diagonal[later], right[later], matmul(np.swapaxes(after, 1, 2), information), after, residual)

    # The radar's velocity, in its own frame.
    into, rotation = np.swapaxes(state.rot, 1, 2), radar.rotation.T
    own = np.einsum("nij,nj->ni", into, state.vel)
    error = matmul(own + np.cross(radar.avel - state.gyro_bias, radar.arm), radar.rotation) - radar.vel
    known = np.trace(radar.information, axis1=1, axis2=2) > 0
    weight = known / (1 + np.einsum("ni,nij,nj->n", error, radar.information, error) / OUTLIER**2)
    for part in blocks(count, AT_ONCE):
        jacobian = np.zeros((part.stop - part.start, 3, 15))
        jacobian[..., :3], jacobian[..., 3:6] = matmul(rotation, skew(own[part])), matmul(rotation, into[part])
        jacobian[..., 9:12] = matmul(rotation, skew(radar.arm))
        weighted = matmul(np.swapaxes(jacobian, 1, 2), radar.information[part] * weight[part, None, None])
        _add(diagonal[part], right[part], weighted, jacobian, error[part])

    # What is known of the first frame: a speed below 1 km/s, and position and heading, which are the world's origin.
    known_first = np.diag(
        np.repeat([TUNING.first_tilt, 1e3, TUNING.gauge, TUNING.gyro_bias, TUNING.acc_bias], 3) ** -2.0
    )
    up = state.rot[0, 2]
    known_first[:3, :3] += np.outer(up, up) / TUNING.gauge**2
    turned = log(matmul(first.T, state.rot[0])[None])[0]
    diagonal[0] += known_first
    right[0] -= matmul(known_first, np.concatenate([turned, *(each[0] for each in state[1:5])]))
    return diagonal, above, right, weight


def _add(
    diagonal: np.ndarray, right: np.ndarray, weighted: np.ndarray, jacobian: np.ndarray, residual: np.ndarray
) -> None:
    """Add residuals, (N, k), to the blocks of their frames; `weighted` is the transposed Jacobian times information."""
    diagonal += matmul(weighted, jacobian)
    right -= np.einsum("nij,nj->ni", weighted, residual)


def _between(state: Smoothed, imu: Preintegrated) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Errors of the intervals, f8 (N - 1, 15), derivatives by the frames before and after, and information."""
    rot, vel, pos, gyro, acc = state[:5]
    count, seconds, gravity = len(imu.seconds), imu.seconds[:, None], np.array([0.0, 0.0, -GRAVITY])
    into = np.swapaxes(rot[:-1], 1, 2)
    turn, gain, move = imu.corrected(gyro[:-1], acc[:-1])
    turned = log(matmul(np.swapaxes(turn, 1, 2), into, rot[1:]))
    gained = np.einsum("nij,nj->ni", into, vel[1:] - vel[:-1] - gravity * seconds)
    moved = np.einsum("nij,nj->ni", into, pos[1:] - pos[:-1] - vel[:-1] * seconds - 0.5 * gravity * seconds**2)
    residual = np.concatenate(
        [turned, gained - gain, moved - move, np.diff(gyro, axis=0), np.diff(acc, axis=0)], axis=1
    )
    # The inverse right Jacobian of a small rotation vector is the identity plus half of its cross product.
    small = np.eye(3) + 0.5 * skew(turned)
    before, after = np.zeros((2, count, 15, 15))
    before[:, :3, :3], after[:, :3, :3] = matmul(-small, np.swapaxes(rot[1:], 1, 2), rot[:-1]), small
    before[:, :3, 9:] = matmul(-small, np.swapaxes(exp(turned), 1, 2), imu.jacobian[:, :3])
    before[:, 3:6, :3], before[:, 6:9, :3] = skew(gained), skew(moved)
    for rows in (slice(3, 6), slice(6, 9)):
        before[:, rows, rows], after[:, rows, rows] = -into, into
    before[:, 6:9, 3:6] = -into * seconds[..., None]
    before[:, 3:9, 9:] = -imu.jacobian[:, 3:]
    before[:, 9:, 9:], after[:, 9:, 9:] = -np.eye(6), np.eye(6)
    cov = np.zeros((count, 15, 15))
    cov[:, :9, :9] = imu.cov
    # While the IMU is silent, the rig may turn and accelerate.
    silent = seconds * (imu.longest > MAX_SILENCE)[:, None]
    free = silent * [TUNING.silent_turn, TUNING.silent_acc, TUNING.silent_acc] * silent ** [0, 0, 1]
    spread = np.concatenate([free**2, np.square((TUNING.gyro_walk, TUNING.acc_walk)) * seconds], axis=1)
    cov[:, range(15), range(15)] += np.repeat(spread, 3, axis=1)
    return residual, before, after, inv(cov)


def _solved(diagonal: np.ndarray, above: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The solution of a block tridiagonal system, f8 (N, 15), and inverses of its pivots, in place of its diagonal."""
    inverses, solution = diagonal, right.copy()
    inverses[0] = inv(diagonal[0])
    for n in range(1, len(right)):
        gain = matmul(above[n - 1].T, inverses[n - 1])
        solution[n] -= matmul(gain, solution[n - 1])
        inverses[n] = inv(diagonal[n] - matmul(gain, above[n - 1]))
    solution[-1] = matmul(inverses[-1], solution[-1])
    for n in range(len(right) - 2, -1, -1):
        solution[n] = matmul(inverses[n], solution[n] - matmul(above[n], solution[n + 1]))
    return solution, inverses
