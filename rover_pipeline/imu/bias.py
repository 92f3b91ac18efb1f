"""Biases of a gyroscope and an accelerometer, from when they were at rest."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rover_pipeline.imu.options import ImuSection

#: Longest time whose mean counts as one bias of the gyro, s: biases drift.
_PART_S = 10.0
#: How well gravity and the mean of a rest are known, m/s2.
_GRAVITY_SIGMA = 0.005
#: A magnitude of acceleration further from gravity, m/s2, is not rest.
_NOT_GRAVITY = 0.5


def rests(acc: np.ndarray, avel: np.ndarray, period: float, options: ImuSection) -> list[slice]:
    """Samples at rest: the angular rate and the magnitude of acceleration hardly vary, over a window around each.

    An even straight motion is as good as rest. A slow even turn is taken for a bias.

    Args:
        acc, avel: f8 (N, 3), m/s2 and rad/s, equally spaced.
        period: seconds.
    """
    window = max(3, round(options.still_window / period) | 1)
    if len(acc) < window:
        return []
    magnitude = np.linalg.norm(acc, axis=1)
    rate, wobble = _moving(avel, window)
    weight, shake = _moving(magnitude[:, None], window)
    calm = (np.sqrt((wobble**2).sum(axis=1)) < options.still_gyro) & (shake[:, 0] < options.still_acc)
    calm &= (np.linalg.norm(rate, axis=1) < options.max_gyro_bias) & (
        np.abs(weight[:, 0] - options.gravity) < _NOT_GRAVITY
    )
    # The window of a sample near an end is the first or last whole one.
    still = np.concatenate([np.repeat(calm[:1], window // 2), calm, np.repeat(calm[-1:], window // 2)])
    edges = np.flatnonzero(np.diff(np.concatenate([[0], still.astype("i1"), [0]])))
    runs = edges.reshape(-1, 2).tolist()
    return [slice(start, stop) for start, stop in runs if stop - start >= window]


def gyro_bias(
    still: list[np.ndarray], spans: list[tuple[float, float]], period: float
) -> Callable[[np.ndarray], np.ndarray] | None:
    """Bias at any times: the mean of each rest, changing evenly between them. None when there was no rest.

    Args:
        still: f8 (M, 3), rad/s, of each rest.
        spans: first and last time of each rest, s.
        period: seconds.
    """
    if not still:
        return None
    longest = max(1, round(_PART_S / period))
    middles: list[float] = []
    means: list[np.ndarray] = []
    for rest, (begin, _) in zip(still, spans, strict=True):
        for part in np.array_split(np.arange(len(rest)), -(-len(rest) // longest)):
            middles.append(begin + float(part.mean()) * period)
            means.append(rest[part].mean(axis=0))
    axes = np.transpose(means)
    return lambda times: np.stack([np.interp(times, middles, axis) for axis in axes], axis=1)


def acc_bias(still: list[np.ndarray], options: ImuSection) -> np.ndarray:
    """Bias of the recording, f8 (3,): the likeliest one that leaves gravity, and no more, in every rest.

    A rest shows the bias along gravity; rests in other attitudes show other parts of it. What none shows follows from
    the expected size of a bias (the maximum of the posterior, by Gauss and Newton's steps).

    Args:
        still: f8 (M, 3), m/s2, of each rest.
    """
    bias = np.zeros(3)
    if not still or not options.acc_bias_sigma:
        return bias
    means = np.array([rest.mean(axis=0) for rest in still])
    for _ in range(4):
        left = means - bias
        size = np.linalg.norm(left, axis=1)
        direction = left / size[:, None]
        known = direction.T @ direction / _GRAVITY_SIGMA**2 + np.eye(3) / options.acc_bias_sigma**2
        pull = direction.T @ (size - options.gravity) / _GRAVITY_SIGMA**2 - bias / options.acc_bias_sigma**2
        bias = bias + np.linalg.solve(known, pull)
    return bias


def _moving(values: np.ndarray, window: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation over every whole window, f8 (N - window + 1, axis) each."""
    middle = values.mean(axis=0)
    sums = [np.cumsum(np.concatenate([np.zeros((1, values.shape[1])), (values - middle) ** n]), axis=0) for n in (1, 2)]
    first, second = ((each[window:] - each[:-window]) / window for each in sums)
    return first + middle, np.sqrt(np.maximum(second - first**2, 0))
