"""The motion of a rig from its radar's velocities and an IMU: a factor graph over all frames, solved at once.

Unknown at each frame: rotation, velocity, position and both biases of the IMU. Factors: the IMU between frames
(`preintegration`), the radar's own velocity at each frame, slowly changing biases, and gravity, which is known. The
normal equations are block tridiagonal, so that a solution and all covariances take a time in proportion to the frames.
A velocity that contradicts the others counts less (Cauchy's loss).

The body frame here is that of the rig, with its origin at the IMU. The world is level: z is up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.kinematics.rotation import exp, log, skew
from rover_pipeline.numerics.blocks import blocks
from rover_pipeline.numerics.linear import eigh, inv, matmul
from rover_pipeline.odometry.preintegration import AT_ONCE, Preintegrated

GRAVITY = np.array([0.0, 0.0, -9.80665])
#: Numbers of a frame's unknowns: rotation, velocity, position, bias of the gyroscope, bias of the accelerometer.
_ROT, _VEL, _POS, _GYRO, _ACC = (slice(3 * n, 3 * n + 3) for n in range(5))
_SIZE = 15
#: Change of the biases in a second, standard deviation: rad/s and m/s2.
_GYRO_WALK, _ACC_WALK = 3e-4, 3e-3
#: Standard deviations of the biases, rad/s and m/s2, and of the first tilt, rad. Position and heading begin at 0. The
#: gyroscope's bias at rest has been removed before: one about the vertical is not seen by the radar.
_GYRO_BIAS, _ACC_BIAS, _TILT, _GAUGE = 0.003, 0.2, 0.2, 1e-4
#: Least standard deviation of a velocity of the radar, m/s: its errors of calibration are the same in all frames.
_LEAST_ERROR = 0.01
#: Squared normalised error at which a velocity counts half.
_CAUCHY = 9.0
#: Motion that is possible while the IMU is silent: turning, rad/s, and acceleration, m/s2, standard deviations.
_SILENT_TURN, _SILENT_ACC = 0.5, 2.0
#: Longest time between two measurements of the IMU, s.
MAX_SILENCE = 0.1
_ITERATIONS, _SMALL_STEP = 12, 1e-5


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


def without_prior(cov: np.ndarray, vel: np.ndarray, vertical: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The velocities and their information, f8 (N, 3), (N, 3, 3), without the prior of no vertical velocity.

    Each frame's estimate holds that prior. To take it in every frame for a measurement would hold the rig level.

    Args:
        cov: f8 (N, 3, 3), m2/s2, NaN where there is no estimate.
        vertical: f8 (N,), standard deviation of the prior, m/s.
    """
    known = np.isfinite(cov).all(axis=(1, 2)) & np.isfinite(vel).all(axis=1)
    information = np.zeros((len(vel), 3, 3))
    measured = np.zeros((len(vel), 3))
    for n in np.flatnonzero(known):
        whole = inv(cov[n])
        own = whole - np.diag([0, 0, 1 / vertical[n] ** 2])
        values, vectors = eigh((own + own.T) / 2)
        # What is known worse than to a kilometre per second is not known.
        values = np.maximum(values, 1e-6)
        measured[n] = matmul(vectors, matmul(vectors.T, matmul(whole, vel[n])) / values)
        information[n] = matmul(vectors, np.diag(1 / (1 / values + _LEAST_ERROR**2)), vectors.T)
    return measured, information


def smooth(rot: np.ndarray, imu: Preintegrated, radar: RadarVelocities) -> Smoothed:
    """The motion that fits all measurements best.

    Args:
        rot: f8 (3, 3), first guess of the first rotation, world-from-body.
        imu: of the N - 1 intervals between the frames.
    """
    state = _first_guess(rot, imu, radar)
    weight = np.zeros(len(radar.vel))
    for _ in range(_ITERATIONS):
        diagonal, above, right, weight = _equations(state, imu, radar, rot)
        factors = _factorise(diagonal, above)
        step = _solve(factors, above, right)
        state = _moved(state, step)
        del diagonal, above, factors  # they are kilobytes for each frame, and the next ones are made before these go
        if np.abs(step).max() < _SMALL_STEP:
            break
    diagonal, above, _, weight = _equations(state, imu, radar, rot)
    return Smoothed(*state, _covariances(_factorise(diagonal, above), above), weight)


_State = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _first_guess(rot: np.ndarray, imu: Preintegrated, radar: RadarVelocities) -> _State:
    count = len(radar.vel)
    rots = np.empty((count, 3, 3))
    rots[0] = rot
    for n in range(count - 1):
        rots[n + 1] = matmul(rots[n], imu.rot[n])
    known = np.flatnonzero(np.trace(radar.information, axis1=1, axis2=2) > 0)
    vel = np.zeros((count, 3))
    if len(known):
        own = np.einsum("nij,jk,nk->ni", rots, radar.rotation, radar.vel)
        # The direction that a radar does not see is not in its first guess.
        own[:, 2] = 0
        vel = np.stack([np.interp(np.arange(count), known, own[known, axis]) for axis in range(3)], axis=-1)
    pos = np.concatenate([np.zeros((1, 3)), np.cumsum(vel[:-1] * imu.seconds[:, None], axis=0)])
    return rots, vel, pos, np.zeros((count, 3)), np.zeros((count, 3))


def _moved(state: _State, step: np.ndarray) -> _State:
    rot, vel, pos, gyro, acc = state
    return (
        matmul(rot, exp(step[:, _ROT])), vel + step[:, _VEL], pos + step[:, _POS],
        gyro + step[:, _GYRO], acc + step[:, _ACC],
    )  # fmt: skip


def _equations(
    state: _State, imu: Preintegrated, radar: RadarVelocities, first: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Blocks of the normal equations on and above the diagonal, right sides, and weights of the radar's velocities."""
    rot, vel, pos, gyro, acc = state
    count = len(rot)
    diagonal, above, right = np.zeros((count, 15, 15)), np.zeros((count - 1, 15, 15)), np.zeros((count, 15))
    for part in blocks(count - 1, AT_ONCE):
        later = slice(part.start + 1, part.stop + 1)
        around = slice(part.start, part.stop + 1)
        own_state = rot[around], vel[around], pos[around], gyro[around], acc[around]
        residual, before, after, information = _between(own_state, Preintegrated(*(each[part] for each in imu)))
        weighted = matmul(np.swapaxes(before, 1, 2), information)
        diagonal[part] += matmul(weighted, before)
        above[part] += matmul(weighted, after)
        right[part] -= np.einsum("nij,nj->ni", weighted, residual)
        weighted = matmul(np.swapaxes(after, 1, 2), information)
        diagonal[later] += matmul(weighted, after)
        right[later] -= np.einsum("nij,nj->ni", weighted, residual)

    # The radar's velocity, in its own frame.
    transposed = np.swapaxes(rot, 1, 2)
    own = np.einsum("nij,nj->ni", transposed, vel)
    error = matmul(own + np.cross(radar.avel - gyro, radar.arm), radar.rotation) - radar.vel
    known = np.trace(radar.information, axis1=1, axis2=2) > 0
    weight = known / (1 + np.einsum("ni,nij,nj->n", error, radar.information, error) / _CAUCHY)
    for part in blocks(count, AT_ONCE):
        jacobian = np.zeros((part.stop - part.start, 3, 15))
        jacobian[:, :, _ROT] = matmul(radar.rotation.T, skew(own[part]))
        jacobian[:, :, _VEL] = matmul(radar.rotation.T, transposed[part])
        jacobian[:, :, _GYRO] = matmul(radar.rotation.T, skew(radar.arm))
        weighted = matmul(np.swapaxes(jacobian, 1, 2), radar.information[part] * weight[part, None, None])
        diagonal[part] += matmul(weighted, jacobian)
        right[part] -= np.einsum("nij,nj->ni", weighted, error[part])

    # What is known of the first frame, whose position and heading are the origin of the world.
    sigma = np.concatenate([[_TILT] * 3, [1e3] * 3, [_GAUGE] * 3, [_GYRO_BIAS] * 3, [_ACC_BIAS] * 3])
    known_first = np.diag(1 / sigma**2)
    up = matmul(rot[0].T, np.array([0.0, 0.0, 1.0]))
    known_first[_ROT, _ROT] += np.outer(up, up) / _GAUGE**2
    turned = log(matmul(first.T, rot[0])[None])[0]
    diagonal[0] += known_first
    right[0] -= matmul(known_first, np.concatenate([turned, np.zeros(3), pos[0], gyro[0], acc[0]]))
    return diagonal, above, right, weight


def _between(state: _State, imu: Preintegrated) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Errors of the intervals, f8 (N - 1, 15), derivatives by the frames before and after, and information."""
    rot, vel, pos, gyro, acc = state
    count, seconds = len(imu.seconds), imu.seconds[:, None]
    into = np.swapaxes(rot[:-1], 1, 2)
    predicted = matmul(imu.rot, exp(np.einsum("nij,nj->ni", imu.rot_gyro, gyro[:-1])))
    turned = log(matmul(np.swapaxes(predicted, 1, 2), into, rot[1:]))
    gained = np.einsum("nij,nj->ni", into, vel[1:] - vel[:-1] - GRAVITY * seconds)
    moved = np.einsum("nij,nj->ni", into, pos[1:] - pos[:-1] - vel[:-1] * seconds - 0.5 * GRAVITY * seconds**2)
    residual = np.concatenate(
        [
            turned,
            gained - imu.vel - _times(imu.vel_gyro, gyro[:-1]) - _times(imu.vel_acc, acc[:-1]),
            moved - imu.pos - _times(imu.pos_gyro, gyro[:-1]) - _times(imu.pos_acc, acc[:-1]),
            gyro[1:] - gyro[:-1],
            acc[1:] - acc[:-1],
        ],
        axis=1,
    )
    # The inverse right Jacobian of a small rotation vector is the identity plus half of its cross product.
    small = np.eye(3) + 0.5 * skew(turned)
    before, after = np.zeros((2, count, 15, 15))
    before[:, _ROT, _ROT] = matmul(-small, np.swapaxes(rot[1:], 1, 2), rot[:-1])
    before[:, _ROT, _GYRO] = matmul(-small, np.swapaxes(exp(turned), 1, 2), imu.rot_gyro)
    after[:, _ROT, _ROT] = small
    before[:, _VEL, _ROT], before[:, _VEL, _VEL], after[:, _VEL, _VEL] = skew(gained), -into, into
    before[:, _VEL, _GYRO], before[:, _VEL, _ACC] = -imu.vel_gyro, -imu.vel_acc
    before[:, _POS, _ROT], before[:, _POS, _POS], after[:, _POS, _POS] = skew(moved), -into, into
    before[:, _POS, _VEL] = -into * seconds[..., None]
    before[:, _POS, _GYRO], before[:, _POS, _ACC] = -imu.pos_gyro, -imu.pos_acc
    identity = np.eye(6)
    before[:, 9:, 9:], after[:, 9:, 9:] = -identity, identity
    cov = np.zeros((count, 15, 15))
    cov[:, :9, :9] = imu.cov
    silent = np.flatnonzero(imu.longest > MAX_SILENCE)
    for n in silent:
        span = imu.seconds[n]
        extra = [(_SILENT_TURN * span) ** 2] * 3 + [(_SILENT_ACC * span) ** 2] * 3 + [(_SILENT_ACC * span**2) ** 2] * 3
        cov[n, :9, :9] += np.diag(extra)
    walk = np.repeat([_GYRO_WALK**2, _ACC_WALK**2], 3)
    cov[:, range(9, 15), range(9, 15)] = walk * seconds
    return residual, before, after, inv(cov)


def _times(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("nij,nj->ni", matrices, vectors))


def _factorise(diagonal: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Inverses of the pivots of the block tridiagonal matrix, f8 (N, 15, 15), in the memory of its diagonal."""
    inverses = diagonal
    inverses[0] = inv(diagonal[0])
    for n in range(1, len(diagonal)):
        inverses[n] = inv(diagonal[n] - matmul(above[n - 1].T, inverses[n - 1], above[n - 1]))
    return inverses


def _solve(inverses: np.ndarray, above: np.ndarray, right: np.ndarray) -> np.ndarray:
    solution = right.copy()
    for n in range(1, len(right)):
        solution[n] -= matmul(above[n - 1].T, inverses[n - 1], solution[n - 1])
    solution[-1] = matmul(inverses[-1], solution[-1])
    for n in range(len(right) - 2, -1, -1):
        solution[n] = matmul(inverses[n], solution[n] - matmul(above[n], solution[n + 1]))
    return solution


def _covariances(inverses: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Diagonal blocks of the inverse of the matrix, in the memory of the inverses of its pivots."""
    cov = inverses
    for n in range(len(cov) - 2, -1, -1):
        gain = matmul(inverses[n], above[n])
        cov[n] += matmul(gain, cov[n + 1], gain.T)
    return cov
