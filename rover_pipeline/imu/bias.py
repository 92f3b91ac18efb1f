"""Biases of the gyroscope and the accelerometer, estimated from stationary intervals."""

from __future__ import annotations

import numpy as np

from rover_pipeline.imu.options import ImuSection
from rover_pipeline.imu.stationary import INSTABILITY, StationaryInterval
from rover_pipeline.numerics.linear import matmul, solve, solveh_banded

#: Standard deviation of gravity where nobody states it, m/s2: 9.780 at the equator and 9.832 at the poles.
#: Physics: WGS 84.
_GRAVITY_SIGMA = 0.015


def gyro_bias(stationary: list[StationaryInterval]) -> tuple[np.ndarray, np.ndarray]:
    """Bias of the gyroscope in each stationary interval: a random walk (maximum a posteriori estimate).

    Args:
        stationary: one interval or more, in the order of time.

    Returns:
        Times of the middle, f8 (M,), s, and biases, f8 (M, 3), rad/s.
    """
    times = np.array([(each.start + each.stop) / 2 for each in stationary])
    weights = np.array([each.sigma for each in stationary]) ** -2.0
    steps = np.maximum(np.diff(times), 1e-3)
    rates, variances = np.array([each.rate for each in stationary]), weights**-1
    # Intervals that differ by more than the noise of their means show how fast this gyroscope drifts, which is by its
    # instability in a second at least.
    excess = (np.diff(rates, axis=0) ** 2).mean(axis=1) - variances[1:] - variances[:-1]
    walk = max(INSTABILITY**2, float(excess.sum() / steps.sum()) if len(steps) else 0.0)
    links = 1 / (walk * steps)
    diagonal = weights + np.pad(links, (0, 1)) + np.pad(links, (1, 0))
    return times, solveh_banded(np.stack([diagonal, np.pad(-links, (0, 1))]), weights[:, None] * rates)


def acc_bias(means: np.ndarray, options: ImuSection) -> np.ndarray:
    """Bias of the accelerometer, f8 (3,), constant over the recording: without it, every stationary
    interval measures gravity only.

    An interval shows the bias along gravity, so those in other attitudes show other components. Components that none
    shows follow from the prior (maximum a posteriori estimate by Gauss-Newton iterations).

    Args:
        means: f8 (M, 3), m/s2, mean of each stationary interval.
    """
    bias = np.zeros(3)
    if not len(means) or not options.acc_bias_sigma:
        return bias
    for _ in range(4):
        corrected = means - bias
        magnitude = np.linalg.norm(corrected, axis=1)
        direction = corrected / magnitude[:, None]
        information = matmul(direction.T, direction) / _GRAVITY_SIGMA**2 + np.eye(3) / options.acc_bias_sigma**2
        gradient = matmul(direction.T, magnitude - options.gravity) / _GRAVITY_SIGMA**2
        gradient -= bias / options.acc_bias_sigma**2
        bias = bias + solve(information, gradient)
    return bias
