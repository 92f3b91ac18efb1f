"""The measurements of an IMU between instants, summed up so that they need not be integrated again for every estimate.

Method: C. Forster, L. Carlone, F. Dellaert, D. Scaramuzza, On-Manifold Preintegration for Real-Time Visual-Inertial
Odometry (IEEE Transactions on Robotics 33, 2017).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.kinematics.rotation import exp, skew
from rover_pipeline.numerics.blocks import blocks
from rover_pipeline.numerics.linear import matmul

#: Intervals that are worked on at once: their matrices take some kilobytes each.
AT_ONCE = 512


class ImuNoise(NamedTuple):
    """Noise densities of gyroscope, rad/s/sqrt(Hz), and accelerometer, m/s2/sqrt(Hz)."""

    gyro: float
    acc: float


class Preintegrated(NamedTuple):
    """What an IMU tells of N intervals, in its frame at the start of each.

    Attributes:
        seconds: f8 (N,).
        rot: f8 (N, 3, 3), start-from-end; vel, pos: f8 (N, 3), change of velocity and position without gravity.
        rot_gyro, vel_gyro, pos_gyro: f8 (N, 3, 3), their derivatives by the gyroscope's bias.
        vel_acc, pos_acc: the same by the accelerometer's.
        cov: f8 (N, 9, 9), of the errors of rotation, velocity and position.
        longest: f8 (N,), longest time without a measurement, s.
    """

    seconds: np.ndarray
    rot: np.ndarray
    vel: np.ndarray
    pos: np.ndarray
    rot_gyro: np.ndarray
    vel_gyro: np.ndarray
    pos_gyro: np.ndarray
    vel_acc: np.ndarray
    pos_acc: np.ndarray
    cov: np.ndarray
    longest: np.ndarray


def preintegrate(
    nodes: np.ndarray, ts: np.ndarray, acc: np.ndarray, avel: np.ndarray, noise: ImuNoise
) -> Preintegrated:
    """Sums up the measurements between consecutive instants.

    Args:
        nodes: f8 (N + 1,), s, increasing.
        ts: f8 (M,), s, increasing, of the measurements; acc, avel: f8 (M, 3), m/s2 (gravity included) and rad/s.
    """
    count = len(nodes) - 1
    grid = np.union1d(nodes, ts[(ts > nodes[0]) & (ts < nodes[-1])])
    middle, step = (grid[1:] + grid[:-1]) / 2, np.diff(grid)
    # A part of an interval that no measurement is near takes the nearest one; `longest` tells that it is there.
    rates = np.stack([np.interp(middle, ts, avel[:, axis]) for axis in range(3)], axis=-1)
    forces = np.stack([np.interp(middle, ts, acc[:, axis]) for axis in range(3)], axis=-1)
    interval = np.searchsorted(nodes, middle) - 1
    first = np.searchsorted(interval, np.arange(count))
    parts = np.diff(np.append(first, len(middle)))
    most = int(parts.max(initial=1))
    sums = [np.empty((count, *shape)) for shape in ((3, 3), (3,), (3,), *((3, 3),) * 5, (9, 9))]
    for part in blocks(count, AT_ONCE):
        found = _summed(first[part], parts[part], most, step, rates, forces, noise)
        for whole, values in zip(sums, found, strict=True):
            whole[part] = values
    longest = _longest_silence(nodes, ts)
    return Preintegrated._make([np.diff(nodes), *sums, longest])


def _summed(
    first: np.ndarray,
    parts: np.ndarray,
    most: int,
    step: np.ndarray,
    rates: np.ndarray,
    forces: np.ndarray,
    noise: ImuNoise,
) -> tuple[np.ndarray, ...]:
    """The sums of some intervals, in the order of `Preintegrated`.

    Args:
        first, parts: i8 (N,), the first part of each interval, and how many it has; most: of all intervals.
        step: f8 (P,), s, rates: f8 (P, 3), rad/s, and forces: f8 (P, 3), m/s2, of all parts.
    """
    count, identity = len(first), np.eye(3)
    rot, vel, pos = np.tile(identity, (count, 1, 1)), np.zeros((count, 3)), np.zeros((count, 3))
    rot_gyro, vel_gyro, pos_gyro, vel_acc, pos_acc = np.zeros((5, count, 3, 3))
    cov = np.zeros((count, 9, 9))
    for n in range(most):
        # Intervals with fewer parts stand still meanwhile: their step is 0.
        at = np.minimum(first + n, len(step) - 1)
        dt = np.where(n < parts, step[at], 0.0)[:, None]
        turn = rates[at] * dt
        # The body turns by half of it until the middle of the step.
        force = forces[at] + 0.5 * np.cross(turn, forces[at])
        rotated = np.einsum("nij,nj->ni", rot, force)
        lever = matmul(rot, skew(force))
        dt2 = dt[..., None]
        change = exp(turn)
        move = np.tile(np.eye(9), (count, 1, 1))
        move[:, :3, :3] = np.swapaxes(change, 1, 2)
        move[:, 3:6, :3] = -lever * dt2
        move[:, 6:, :3] = -0.5 * lever * dt2**2
        move[:, 6:, 3:6] = identity * dt2
        cov = matmul(move, cov, np.swapaxes(move, 1, 2))
        for axis in range(3):
            cov[:, axis, axis] += noise.gyro**2 * dt[:, 0]
            cov[:, 3 + axis, 3 + axis] += noise.acc**2 * dt[:, 0]
            cov[:, 6 + axis, 6 + axis] += noise.acc**2 * dt[:, 0] ** 3 / 4
        pos = pos + vel * dt + 0.5 * rotated * dt**2
        pos_acc = pos_acc + vel_acc * dt2 - 0.5 * rot * dt2**2
        pos_gyro = pos_gyro + vel_gyro * dt2 - matmul(0.5 * lever, rot_gyro) * dt2**2
        vel = vel + rotated * dt
        vel_acc = vel_acc - rot * dt2
        vel_gyro = vel_gyro - matmul(lever, rot_gyro) * dt2
        # The right Jacobian of a small turn is the identity less half of its cross product.
        rot_gyro = matmul(np.swapaxes(change, 1, 2), rot_gyro) - (identity - 0.5 * skew(turn)) * dt2
        rot = matmul(rot, change)
    return rot, vel, pos, rot_gyro, vel_gyro, pos_gyro, vel_acc, pos_acc, cov


def _longest_silence(nodes: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """Longest time between measurements that acts on each interval, f8 (N,), s; infinite beyond both ends."""
    edges = np.concatenate([[-np.inf], ts, [np.inf]])
    silence = np.diff(edges)
    low = np.searchsorted(ts, nodes[:-1], side="right")
    high = np.searchsorted(ts, nodes[1:], side="left")
    return np.array([silence[a : b + 1].max() for a, b in zip(low, high, strict=True)])
