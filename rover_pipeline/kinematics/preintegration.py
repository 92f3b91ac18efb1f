"""The measurements of an IMU, integrated over intervals of time once, so that no estimate has to integrate them again.

Rotation, velocity and position over an interval depend neither on where the IMU is at its start nor on gravity. A
change of a bias changes them by a derivative, which is integrated beside them.

Method: C. Forster, L. Carlone, F. Dellaert, D. Scaramuzza, On-Manifold Preintegration for Real-Time Visual-Inertial
Odometry (IEEE Transactions on Robotics 33, 2017).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.kinematics.rotation import exp, rotated, skew
from rover_pipeline.numerics.blocks import IN_MEMORY, Memory, blocks
from rover_pipeline.numerics.linear import matmul

#: Intervals that are integrated at once, because the matrices of each take some kilobytes. Schedule.
AT_ONCE = 512
#: Longest time between two samples that are interpolated, s: a step of a walk takes some tenths of a second.
#: Tuned: by hand.
MAX_SILENCE = 0.1
#: Standard deviation of the bias of an accelerometer, m/s2.
#: Noise: data sheets of the BMI088 (zero-g offset of 20 mg) and of the MPU-6050 (50 and 80 mg, about three of it).
ACC_BIAS = 0.2


class ImuNoise(NamedTuple):
    """Noise densities of gyroscope, rad/s/sqrt(Hz), and accelerometer, m/s2/sqrt(Hz)."""

    gyro: float
    acc: float


class Preintegrated(NamedTuple):
    """The integrals over N intervals, each in the IMU's frame at its start."""

    seconds: np.ndarray  #: f8 (N,), durations.
    rot: np.ndarray  #: f8 (N, 3, 3), start-from-end.
    vel: np.ndarray  #: f8 (N, 3), m/s, change of velocity without gravity.
    pos: np.ndarray  #: f8 (N, 3), m, change of position without gravity.
    #: f8 (N, 9, 6), derivatives of rotation (rotation vector in the frame at the end), velocity and position by the
    #: biases of gyroscope and accelerometer.
    jacobian: np.ndarray
    cov: np.ndarray  #: f8 (N, 9, 9), covariance of the errors of rotation, velocity and position.
    longest: np.ndarray  #: f8 (N,), longest time without a sample, s; infinite beyond the first and the last one.

    def corrected(self, gyro: np.ndarray, acc: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rotation (N, 3, 3), velocity and position (N, 3) without biases, to first order.

        Args:
            gyro, acc: f8 (3,) or (N, 3), rad/s and m/s2, biases of both sensors.
        """
        biases = np.broadcast_to(np.concatenate([gyro, acc], axis=-1), (len(self.seconds), 6))
        change = np.einsum("nij,nj->ni", self.jacobian, biases)
        return matmul(self.rot, exp(change[:, :3])), self.vel + change[:, 3:6], self.pos + change[:, 6:]


def preintegrate(
    nodes: np.ndarray,
    ts: np.ndarray,
    acc: np.ndarray,
    avel: np.ndarray,
    noise: ImuNoise | None = None,
    memory: Memory = IN_MEMORY,
) -> Preintegrated:
    """Integrate the samples of an IMU between consecutive instants.

    Args:
        nodes: f8 (N + 1,), s, increasing.
        ts: f8 (M,), s, increasing, of the samples; acc, avel: f8 (M, 3), m/s2 (gravity included) and rad/s.
        noise: None = none, so that `cov` is 0.
        memory: for the integrals.
    """
    count = len(nodes) - 1
    grid = np.union1d(nodes, ts[(ts > nodes[0]) & (ts < nodes[-1])])
    middle, step = (grid[1:] + grid[:-1]) / 2, np.diff(grid)
    first = np.searchsorted(grid, nodes[:-1])
    parts = np.diff(np.append(first, len(step)))
    sums = [memory.zeros(count, *shape) for shape in ((3, 3), (3,), (3,), (9, 6), (9, 9))]
    for part in blocks(count, AT_ONCE):
        own = slice(first[part.start], first[part.stop - 1] + parts[part.stop - 1])
        # A part of an interval that no sample is near takes the nearest one, and `longest` shows it.
        rates, forces = (sampled(middle[own], ts, values) for values in (avel, acc))
        found = _integrated((first[part] - own.start, parts[part]), step[own], rates, forces, noise)
        for whole, values in zip(sums, found, strict=True):
            whole[part] = values
    return Preintegrated._make([np.diff(nodes), *sums, _longest_silence(nodes, ts)])


def integrated(
    nodes: np.ndarray, ts: np.ndarray, acc: np.ndarray, avel: np.ndarray, memory: Memory = IN_MEMORY
) -> tuple[np.ndarray, np.ndarray]:
    """Rotation, f8 (N, 3, 3), and change of velocity without gravity, f8 (N, 3), since the first of N instants.

    Both are in the frame of the IMU at the first instant. Arguments as of `preintegrate`.
    """
    found = preintegrate(nodes, ts, acc, avel, memory=memory)
    rot, vel = memory.zeros(len(nodes), 3, 3), np.zeros((len(nodes), 3))
    rot[0] = np.eye(3)
    for part in blocks(len(found.rot), AT_ONCE):
        for n in range(part.start, part.stop):
            rot[n + 1] = matmul(rot[n], found.rot[n])
        vel[1:][part] = rotated(rot[part], found.vel[part])
    np.cumsum(vel[1:], axis=0, out=vel[1:])
    return rot, vel


def sampled(at: np.ndarray, ts: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Samples f8 (M, 3) at `ts`, f8 (M,), s, interpolated linearly to instants f8 (N,), s: f8 (N, 3), in C order."""
    found = np.empty((len(at), 3))
    for axis in range(3):
        found[:, axis] = np.interp(at, ts, values[:, axis])
    return found


def _integrated(
    intervals: tuple[np.ndarray, np.ndarray],
    step: np.ndarray,
    rates: np.ndarray,
    forces: np.ndarray,
    noise: ImuNoise | None,
) -> tuple[np.ndarray, ...]:
    """The integrals over some intervals, in the order of `Preintegrated`.

    Args:
        intervals: i8 (N,) each, the first part of every interval, and how many parts it has.
        step: f8 (P,), s, rates: f8 (P, 3), rad/s, and forces: f8 (P, 3), m/s2, of all parts.
    """
    (first, parts), identity = intervals, np.eye(3)
    count = len(first)
    rot, vel, pos = np.tile(identity, (count, 1, 1)), np.zeros((count, 3)), np.zeros((count, 3))
    jacobian, cov = np.zeros((count, 9, 6)), np.zeros((count, 9, 9))
    for n in range(int(parts.max(initial=0))):
        # Intervals with fewer parts than others end with steps of 0 s.
        at = np.minimum(first + n, len(step) - 1)
        dt = np.where(n < parts, step[at], 0.0)[:, None]
        dt2, turn = dt[..., None], rates[at] * dt
        # The rotation at the middle of the step has half of its turn.
        force = forces[at] + 0.5 * np.cross(turn, forces[at])
        lever, turned, change = matmul(rot, skew(force)), rotated(rot, force), exp(turn)
        # Derivatives of the errors after the step by those before it, and by a bias, for each second.
        move, drive = np.tile(np.eye(9), (count, 1, 1)), np.zeros((count, 9, 6))
        move[:, :3, :3] = np.swapaxes(change, 1, 2)
        move[:, 3:6, :3], move[:, 6:, :3] = -lever * dt2, -0.5 * lever * dt2**2
        move[:, 6:, 3:6] = identity * dt2
        # The right Jacobian of a small rotation is the identity less half of its cross product.
        drive[:, :3, :3] = 0.5 * skew(turn) - identity
        drive[:, 3:6, 3:], drive[:, 6:, 3:] = -rot, -0.5 * rot * dt2
        jacobian = matmul(move, jacobian) + drive * dt2
        if noise is not None:
            scaled = drive * np.repeat(noise, 3)
            cov = matmul(move, cov, np.swapaxes(move, 1, 2)) + matmul(scaled, np.swapaxes(scaled, 1, 2)) * dt2
        pos = pos + vel * dt + 0.5 * turned * dt**2
        vel = vel + turned * dt
        rot = matmul(rot, change)
    return rot, vel, pos, jacobian, cov


def _longest_silence(nodes: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """Longest time between samples that acts on each interval, f8 (N,), s; infinite beyond both ends."""
    silence = np.diff(np.concatenate([[-np.inf], ts, [np.inf]]))
    low = np.searchsorted(ts, nodes[:-1], side="right")
    high = np.searchsorted(ts, nodes[1:], side="left")
    return np.fromiter((silence[a : b + 1].max() for a, b in zip(low, high, strict=True)), "f8", len(low))
