"""Biases of an IMU estimated while it moves, from the direction of gravity alone.

In a window of some seconds the gyroscope says how the accelerometer was turned, so the measured accelerations can be
added up in one frame. Their sum is the velocity: gravity makes it a straight line in time, and the carrier's own
velocity, which stays small, deviates a little from that line. A bias of the gyroscope bends the line, because gravity
seems to turn. A bias of the accelerometer bends it where the attitude changes. Both are the least-squares solution
that makes the lines of all windows straight (Gauss-Newton, with a robust weight for each window).

A bias about the vertical bends nothing until the attitude changes, and by much: a carrier that leans into its turns
bends the lines in the same way. So it is left unknown, and said to be, unless the attitude varies by 20 degrees.

The samples are integrated over short steps once (`preintegrate`), which windows of any duration are chained from.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.imu.blocks import INTERVAL
from rover_pipeline.imu.stationary import AGREE, INSTABILITY, STEADY_S
from rover_pipeline.kinematics.preintegration import Preintegrated, preintegrate
from rover_pipeline.kinematics.rotation import skew
from rover_pipeline.numerics.linear import eigh, inv, matmul, solve
from rover_pipeline.numerics.robust import huber

#: Duration of the windows of the first iterations, s: a large bias must not turn gravity by a radian. Tuned: by hand.
_FIRST_WINDOW_S = 2.0
#: Standard deviations known before: of the bias of a gyroscope, rad/s, and of an accelerometer, m/s2, as by default of
#: `imu.acc_bias_sigma`. MEMS gyroscopes without calibration are off by up to 20 degrees per second.
#: Noise: data sheet of the MPU-6050, zero-rate output.
_PRIOR = np.array([0.2, 0.2, 0.2, 0.05, 0.05, 0.05])
#: Largest mean square cosine between the vertical and a fixed axis of the IMU where the motion determines the bias
#: about it: attitudes that vary by 20 degrees. Tuned: by hand.
_LEVEL = 0.88


class MotionBias(NamedTuple):
    """Biases estimated while the IMU moves."""

    gyro: np.ndarray  #: f8 (3,), rad/s, in the IMU's frame.
    #: f8 (3, 3), covariance of `gyro`, (rad/s)^2. Directions that the motion does not show have 0.2 rad/s.
    gyro_cov: np.ndarray

    def known(self) -> np.ndarray:
        """The gyroscope's bias in the directions in which it is known to `AGREE`, f8 (3,), rad/s; 0 in others."""
        variance, axes = eigh(self.gyro_cov)
        return np.asarray(matmul(axes, np.where(variance < AGREE**2, matmul(axes.T, self.gyro), 0.0)))


def motion_bias(times: np.ndarray, acc: np.ndarray, avel: np.ndarray) -> MotionBias | None:
    """Biases that are constant over a recording.

    Args:
        times: f8 (N,), s, increasing.
        acc, avel: f8 (N, 3), m/s2 with gravity, and rad/s.

    Returns:
        None if the recording is too short.
    """
    step = INTERVAL / 2
    count = int((times[-1] - times[0]) / step)
    longest = min(STEADY_S, count * step / len(_PRIOR))  # a window for each unknown, at least
    if longest < _FIRST_WINDOW_S:
        return None
    steps = preintegrate(times[0] + step * np.arange(count + 1), times, acc, avel)
    vertical = _vertical(steps.vel)
    bias = np.zeros(6)
    for length in [_FIRST_WINDOW_S] * 4 + [longest] * 4:
        change, covariance = _improve(steps, bias, round(length / step), vertical)
        bias = bias + change
    unknown = _PRIOR[0] ** 2 * np.outer(vertical, vertical) + INSTABILITY**2 * np.eye(3)
    return MotionBias(bias[:3], covariance[:3, :3] + unknown)


def _vertical(acc: np.ndarray) -> np.ndarray:
    """The IMU's axis that is vertical throughout, f8 (3,); zeros where the attitude varies too much."""
    up = acc / np.maximum(np.linalg.norm(acc, axis=1, keepdims=True), 1e-9)
    squares, axes = eigh(matmul(up.T, up) / len(up))
    return np.asarray(axes[:, 2] * (squares[2] > _LEVEL))


def _improve(parts: Preintegrated, bias: np.ndarray, steps: int, vertical: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One iteration: the change of the biases, f8 (6,), and their covariance, f8 (6, 6).

    Args:
        bias: f8 (6,), rad/s and m/s2, of gyroscope and accelerometer; steps: number of `parts` in a window.
        vertical: f8 (3,), unit axis about which the gyroscope's bias does not change; zeros for none.
    """
    windows = len(parts.seconds) // steps
    turns, speeds, _ = parts.corrected(bias[:3], bias[3:])
    # Columns of the change of velocity, and of its derivative by the accelerometer's bias, in the frame of each window.
    changes = np.concatenate([speeds[..., None], parts.jacobian[:, 3:6, 3:]], axis=2)
    turns, changes = (each[: windows * steps].reshape(windows, steps, 3, -1) for each in (turns, changes))
    rot, sums = np.tile(np.eye(3), (windows, 1, 1)), np.zeros((windows, steps, 3, 4))
    for n in range(steps):
        sums[:, n] = sums[:, n - 1] + matmul(rot, changes[:, n])
        rot = matmul(rot, turns[:, n])
    velocity, by_acc = sums[..., :1], sums[..., 1:]
    # A change of the gyroscope's bias turns the gravity of each step, which is the mean of the window.
    by_gyro = -np.cumsum(matmul(skew(velocity[:, -1, :, 0] / steps)[:, None], by_acc), axis=1)
    lines = np.concatenate([by_gyro, by_acc, velocity], axis=3)
    basis = np.stack([np.ones(steps), np.arange(steps) - (steps - 1) / 2], axis=1)
    basis /= np.linalg.norm(basis, axis=0)
    bent = lines - matmul(basis, basis.T, lines.reshape(windows, steps, -1)).reshape(lines.shape)
    design, residual = bent[..., :6].reshape(windows, -1, 6), -bent[..., 6].reshape(windows, -1)
    size = np.sqrt((residual**2).mean(axis=1))
    weight = huber(size, np.median(size))
    design[..., :3] -= matmul(design[..., :3], np.outer(vertical, vertical))
    prior = np.diag(_PRIOR**-2.0)
    gradients = np.einsum("wni,wn->wi", design, residual) * weight[:, None]
    variance = max(float((weight * size**2).sum() / weight.sum()), 1e-12)
    information = np.einsum("wni,wnj,w->ij", design, design, weight) / variance + prior
    change = solve(information, gradients.sum(axis=0) / variance - matmul(prior, bias))
    inverse = inv(information)
    remaining = gradients - np.einsum("wni,wnj,j,w->wi", design, design, change, weight)
    # A gait repeats itself, so what is wrong in all windows may have one sign: variances add up as if it had.
    spread = matmul(remaining.T, remaining) / variance**2 * windows + prior
    return change, matmul(inverse, spread, inverse)
