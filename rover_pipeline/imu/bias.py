"""Biases of the gyroscope and the accelerometer, estimated from rests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rover_pipeline.imu.options import ImuSection

#: Maximum duration over which the gyroscope's bias is averaged, s, because it drifts.
_AVERAGING_S = 10.0
#: Standard deviation of the mean acceleration of a rest, and of gravity, m/s2.
_GRAVITY_SIGMA = 0.005
#: Maximum difference of the mean magnitude of the acceleration of a rest from gravity, m/s2.
_MAX_GRAVITY_ERROR = 0.5


def find_rests(acc: np.ndarray, avel: np.ndarray, period: float, options: ImuSection) -> list[slice]:
    """Samples at rest: angular velocity and magnitude of acceleration hardly vary in a window around each of them.

    Straight motion at constant speed counts as rest too. A slow constant rotation cannot be told from a bias.

    Args:
        acc, avel: f8 (N, 3), m/s2 and rad/s, equally spaced.
        period: of the samples, s.
    """
    window = max(3, round(options.still_window / period) | 1)
    if len(acc) < window:
        return []
    avel_mean, avel_std = _moving_statistics(avel, window)
    acc_mean, acc_std = _moving_statistics(np.linalg.norm(acc, axis=1)[:, None], window)
    at_rest = (np.sqrt((avel_std**2).sum(axis=1)) < options.still_gyro) & (acc_std[:, 0] < options.still_acc)
    at_rest &= np.linalg.norm(avel_mean, axis=1) < options.max_gyro_bias
    at_rest &= np.abs(acc_mean[:, 0] - options.gravity) < _MAX_GRAVITY_ERROR
    # Samples near the ends belong to the first or last whole window.
    at_rest = np.pad(at_rest, window // 2, mode="edge")
    edges = np.flatnonzero(np.diff(np.pad(at_rest.astype("i1"), 1)))
    return [slice(start, stop) for start, stop in edges.reshape(-1, 2).tolist() if stop - start >= window]


def gyro_bias(rests: list[np.ndarray], starts: list[float], period: float) -> Callable[[np.ndarray], np.ndarray] | None:
    """Bias of the gyroscope as a function of time: the mean of each rest, interpolated between rests.

    Args:
        rests: f8 (M, 3), rad/s, the samples of each rest.
        starts: time of the first sample of each rest, s.
        period: of the samples, s.

    Returns:
        A function from times, f8 (N,), to biases, f8 (N, 3); None if there is no rest.
    """
    if not rests:
        return None
    longest = max(1, round(_AVERAGING_S / period))
    middles: list[float] = []
    means: list[np.ndarray] = []
    for rest, start in zip(rests, starts, strict=True):
        for part in np.array_split(np.arange(len(rest)), -(-len(rest) // longest)):
            middles.append(start + float(part.mean()) * period)
            means.append(rest[part].mean(axis=0))
    axes = np.transpose(means)
    return lambda times: np.stack([np.interp(times, middles, axis) for axis in axes], axis=1)


def acc_bias(rests: list[np.ndarray], options: ImuSection) -> np.ndarray:
    """Bias of the accelerometer, f8 (3,), constant over the recording: without it, every rest measures gravity only.

    A rest shows the bias along gravity, so rests in other attitudes show other components. Components that no rest
    shows follow from the prior (maximum a posteriori estimate by Gauss-Newton iterations).

    Args:
        rests: f8 (M, 3), m/s2, the samples of each rest.
    """
    bias = np.zeros(3)
    if not rests or not options.acc_bias_sigma:
        return bias
    means = np.array([rest.mean(axis=0) for rest in rests])
    for _ in range(4):
        corrected = means - bias
        magnitude = np.linalg.norm(corrected, axis=1)
        direction = corrected / magnitude[:, None]
        information = direction.T @ direction / _GRAVITY_SIGMA**2 + np.eye(3) / options.acc_bias_sigma**2
        gradient = direction.T @ (magnitude - options.gravity) / _GRAVITY_SIGMA**2 - bias / options.acc_bias_sigma**2
        bias = bias + np.linalg.solve(information, gradient)
    return bias


def _moving_statistics(values: np.ndarray, window: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation in every whole window, f8 (N - window + 1, axis) each."""
    offset = values.mean(axis=0)  # Sums of small numbers lose less precision.
    sums = [np.cumsum(np.concatenate([np.zeros((1, values.shape[1])), (values - offset) ** n]), axis=0) for n in (1, 2)]
    first, second = ((each[window:] - each[:-window]) / window for each in sums)
    return first + offset, np.sqrt(np.maximum(second - first**2, 0))
