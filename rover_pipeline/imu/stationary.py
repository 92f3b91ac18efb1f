"""Stationary intervals of an IMU, and its biases from them.

What an IMU at rest measures is constant at its own noise, and gravity does not turn. The bias of a gyroscope is its
reading at rest. Nothing here assumes that it is small, because MEMS gyroscopes are off by up to 0.3 rad/s. So other
means distinguish rest from a steady turn. A turn about a horizontal axis turns the measured direction of gravity. A
steady turn about the vertical does not, and no single interval distinguishes it from a bias: several intervals must
agree, and an interval that disagrees with the others was a turn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.spatial.distance import cdist

from rover_pipeline.imu.blocks import INTERVAL, frozen
from rover_pipeline.imu.options import ImuSection
from rover_pipeline.numerics.linear import matmul, solve, solveh_banded

#: Samples are averaged over this time first, s: noise and vibration then do not depend on the sampling rate.
#: Tuned: by hand.
_BLOCK_S = 0.02
#: Largest turn of gravity at rest, rad/s, beyond what noise explains, and the number of standard deviations of noise.
#: Tuned: by hand.
_TURN, _SIGMAS = 0.002, 3.0
#: Maximum difference of the mean magnitude of the acceleration at rest from gravity, m/s2. Other units have more.
#: Tuned: by hand.
_MAX_GRAVITY_ERROR = 0.5
#: Largest difference of the biases of two intervals, and bias about the vertical that is believed of a single interval
#: without a doubt, rad/s: 2 degrees per second, by which MEMS gyroscopes drift while they warm up. Tuned: by hand.
AGREE = 0.03
#: Time over which the bias of a gyroscope hardly drifts, s. Tuned: by hand.
STEADY_S = 10.0
#: Bias instability of MEMS gyroscopes, rad/s, which no averaging removes. Noise: data sheets, 2 to 20 degrees an hour.
INSTABILITY = 1e-4
#: Standard deviation of the biases of MEMS gyroscopes, rad/s, which decides where intervals contradict one another.
#: Noise: data sheet of the MPU-6050, whose zero-rate output, 20 degrees a second, is about three of it.
_TYPICAL_BIAS = 0.1
#: Standard deviation of gravity where nobody states it, m/s2: 9.780 at the equator and 9.832 at the poles.
#: Physics: WGS 84.
_GRAVITY_SIGMA = 0.015
#: Intervals with more than this between them, s, confirm one another. Less may be a steady turn with a jolt in it.
#: Tuned: by hand.
_APART_S = 1.0


class StationaryInterval(NamedTuple):
    """What an IMU measures during a stationary interval."""

    start: float  #: time of the first sample, s.
    stop: float  #: time of the last sample, s.
    rate: np.ndarray  #: f8 (3,), mean angular velocity, rad/s: the bias, if the IMU is at rest.
    sigma: float  #: standard deviation of `rate`, rad/s, each axis.
    acc: np.ndarray  #: f8 (3,), mean acceleration, m/s2.

    @staticmethod
    def of(times: np.ndarray, acc: np.ndarray, avel: np.ndarray) -> StationaryInterval:
        """The interval of N samples: times f8 (N,), s; acc and avel f8 (N, 3), m/s2 and rad/s."""
        seconds = max(float(times[-1] - times[0]), INTERVAL)
        noise = float(np.sqrt(avel.var(axis=0).mean() * INTERVAL / seconds))
        rate, sigma = avel.mean(axis=0), max(noise, INSTABILITY)
        return StationaryInterval(float(times[0]), float(times[-1]), rate, sigma, acc.mean(axis=0))

    @property
    def up(self) -> np.ndarray:
        """Direction of up in the IMU's frame, f8 (3,)."""
        return self.acc / np.linalg.norm(self.acc, axis=0)


def find_stationary(acc: np.ndarray, avel: np.ndarray, period: float, options: ImuSection) -> list[slice]:
    """Samples that may be at rest: nothing but the noise of the device varies in a window around each of them.

    Straight motion at constant speed counts as rest too, and so does a steady turn about the vertical.

    Args:
        acc, avel: f8 (N, 3), m/s2 and rad/s, equally spaced.
        period: of the samples, s.
    """
    size = max(1, round(_BLOCK_S / period))
    count = len(acc) // size
    window = max(4, round(options.still_window / (size * period)))
    if count < window:
        return []
    dead = frozen(avel, period)[: count * size].reshape(count, size).any(axis=1)
    dead = sliding_window_view(dead, window).any(axis=1)
    acc, avel = (each[: count * size].reshape(count, size, 3).mean(axis=1) for each in (acc, avel))
    rate, rate_std = _moving_statistics(avel, window)
    size_mean, size_std = (each[:, 0] for each in _moving_statistics(np.linalg.norm(acc, axis=1)[:, None], window))
    rate_noise = np.linalg.norm(rate_std, axis=1)
    at_rest = (rate_noise < options.still_gyro) & (size_std < options.still_acc)
    at_rest &= np.linalg.norm(rate, axis=1) < options.max_gyro_bias
    at_rest &= np.abs(size_mean - options.gravity) < _MAX_GRAVITY_ERROR
    at_rest &= ~dead & ~_turns(acc, window, size * period)
    # Samples near the ends belong to the first or last whole window.
    at_rest = np.pad(at_rest, (window // 2, window - 1 - window // 2), mode="edge")
    edges = np.flatnonzero(np.diff(np.pad(at_rest.astype("i1"), 1))).reshape(-1, 2)
    found = [
        slice(a, b) for a, b in edges.tolist() if b - a >= window and not _turns(acc[a:b], b - a, size * period)[0]
    ]
    return [slice(each.start * size, each.stop * size) for each in found]


def agree(stationary: list[StationaryInterval]) -> tuple[np.ndarray, float]:
    """Which intervals are believed to be stationary, because their angular velocities agree with one bias.

    Where there are several such groups, the one of the longest duration is chosen, unless its angular velocity is
    improbable as a bias (the likelihood of a normal distribution of 0.1 rad/s stands for that).

    Returns:
        bool (interval,); and the bias about the vertical, rad/s, that only one interval shows, so that it may be a
        steady turn, 0 where there is no doubt.
    """
    if not stationary:
        return np.zeros(0, bool), 0.0
    starts, stops = np.array([each.start for each in stationary]), np.array([each.stop for each in stationary])
    rates, ups = np.array([each.rate for each in stationary]), np.array([each.up for each in stationary])
    durations, same = stops - starts, cdist(rates, rates) < AGREE
    vertical = np.abs((rates * ups).sum(axis=1))
    likelihood = np.exp(-((vertical / _TYPICAL_BIAS) ** 2) / 2)
    best = int(np.argmax(matmul(same, durations) * likelihood))
    chosen, believed = same[best], durations * likelihood
    if 2 * believed[chosen].sum() < believed.sum():  # no majority: slow moments of a motion, which agree at random
        return np.zeros(len(stationary), bool), 0.0
    confirmed = (starts[chosen][1:] - stops[chosen][:-1] > _APART_S).any()
    doubt = 0.0 if confirmed or vertical[best] < AGREE else float(matmul(rates[best], ups[best]))
    return chosen, doubt


def _turns(acc: np.ndarray, window: int, period: float) -> np.ndarray:
    """Whether the direction of gravity turns within each whole window, bool (N - window + 1,)."""
    half = window // 2
    mean, std = _moving_statistics(acc, half)
    first, second = mean[: len(acc) - window + 1], mean[window - half :]
    size = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    turn = np.linalg.norm(np.cross(first, second), axis=1) / np.maximum(size, 1e-9)
    independent = max(1.0, half * period / INTERVAL)
    noise = np.linalg.norm(std[: len(first)], axis=1) / np.sqrt(independent) / np.maximum(np.sqrt(size), 1e-9)
    return turn > _TURN * (window - half) * period + _SIGMAS * noise


def _moving_statistics(values: np.ndarray, window: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation in every whole window, f8 (N - window + 1, axis) each."""
    offset = values.mean(axis=0)  # Sums of small numbers lose less precision.
    sums = [np.cumsum(np.concatenate([np.zeros((1, values.shape[1])), (values - offset) ** n]), axis=0) for n in (1, 2)]
    first, second = ((each[window:] - each[:-window]) / window for each in sums)
    return first + offset, np.sqrt(np.maximum(second - first**2, 0))


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
