"""First values for the alignment of a gyroscope: time offset, unit, and a rotation of any size.

A linear map from the gyroscope's rates to those of the lidar, with a constant, is fitted for many time offsets. How
well it fits does not depend on how the IMU is mounted, on its unit or its bias. The map of the best offset is then
taken apart into a rotation and a factor (S. Umeyama, Least-squares estimation of transformation parameters between two
point patterns, IEEE Transactions on Pattern Analysis and Machine Intelligence 13(4), 1991).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.imu.alignment import GyroMeans
from rover_pipeline.kinematics.rotation import nearest
from rover_pipeline.numerics.linear import matmul, solve

#: Largest time offset that is looked for, and distance of those that are tried, s.
MAX_OFFSET, _STEP = 0.6, 0.04
#: Iterations of the robust regression, and the residual, in the deviation of its axis, from which blocks weigh less.
_ITERATIONS, _HUBER = 3, 1.5
#: Share of the blocks, those with the smallest residuals, that an offset is judged by.
_TRIM = 0.85


class Coarse(NamedTuple):
    """First values.

    Attributes:
        offset: s, to be added to the times of the gyroscope.
        factor: lidar's rates over the gyroscope's: 1 for rad/s, 0.0175 for degrees per second.
        rotation: f8 (3, 3), lidar-from-imu.
        mirrored: how much better a reflection fits than a rotation, in variances of the residual; negative if worse.
        bias: f8 (3,), of the gyroscope, in rad/s if `factor` is its unit.
        explained: share of the lidar's variance that the linear map explains.
    """

    offset: float
    factor: float
    rotation: np.ndarray
    mirrored: float
    bias: np.ndarray
    explained: float


def find_coarse(reference: np.ndarray, known: np.ndarray, gyro: GyroMeans) -> Coarse:
    """First values.

    Args:
        reference: f8 (K, 3), rad/s, lidar frame; known: bool (K,).
        gyro: means of the gyroscope by time offset, in its own unit.
    """
    offsets = np.arange(-MAX_OFFSET, MAX_OFFSET + _STEP / 2, _STEP)
    scores = np.array([_regress(reference, known, gyro, offset)[0] for offset in offsets])
    best = int(np.clip(scores.argmin(), 1, len(offsets) - 2))
    left, middle, right = scores[best - 1 : best + 2]
    bend = left - 2 * middle + right
    offset = float(offsets[best] + _STEP * np.clip(0.5 * (left - right) / bend if bend > 0 else 0.0, -1, 1))
    _, weight, means, explained = _regress(reference, known, gyro, offset)
    total = max(float(weight.sum()), 1e-12)
    x, y = ((weight[:, None] * each).sum(axis=0) / total for each in (means, reference))
    products = matmul((reference - y).T, weight[:, None] * (means - x))
    square = max(float((weight[:, None] * (means - x) ** 2).sum()), 1e-12)
    rotation, mirror = nearest(products), -nearest(-products)
    factor, mirror_factor = (float((each * products).sum() / square) for each in (rotation, mirror))
    costs = [
        float((weight[:, None] * (reference - y - matmul(size * (means - x), turn.T)) ** 2).sum())
        for turn, size in ((rotation, factor), (mirror, mirror_factor))
    ]
    variance = max(min(costs) / (3 * total), 1e-12)
    bias = max(factor, 1e-9) * x - matmul(rotation.T, y)
    return Coarse(offset, factor, rotation, (costs[0] - costs[1]) / variance, bias, explained)


def _regress(
    reference: np.ndarray, known: np.ndarray, gyro: GyroMeans, offset: float
) -> tuple[float, np.ndarray, np.ndarray, float]:
    """The robust linear map at one offset: its score (smaller is better), weights (K,), gyro means, explained share."""
    means, measured = gyro(offset)
    used = known & measured
    weight = used.astype("f8")
    if used.sum() < 20:
        return np.inf, weight, means, 0.0
    x, y = np.column_stack([means, np.ones(len(means))])[used], reference[used]
    scale = max(float(np.abs(x[:, :3]).max()), 1e-9)
    x[:, :3] /= scale
    each = np.ones(len(y))
    for _ in range(_ITERATIONS):
        weighted = x * each[:, None]
        normal = matmul(weighted.T, x) + 1e-9 * len(x) * np.diag([1.0, 1.0, 1.0, 0.0])
        residual = y - matmul(x, solve(normal, matmul(weighted.T, y)))
        size = (residual**2 / np.maximum(np.median(residual**2, axis=0), 1e-18)).sum(axis=1)
        # The median of three squares over their medians is about 6.5 for normally distributed residuals.
        each = 1 / np.maximum(1.0, size / (6.5 * _HUBER**2))
    limit = np.quantile(np.abs(residual), _TRIM, axis=0)
    kept = np.where(np.abs(residual) <= limit, residual, limit)
    centred = y - np.median(y, axis=0)
    spread = np.minimum(np.abs(centred), np.quantile(np.abs(centred), _TRIM, axis=0))
    explained = 1 - float((kept**2).sum() / max((spread**2).sum(), 1e-18))
    weight[used] = each
    return float(np.log(np.maximum((kept**2).mean(axis=0), 1e-18)).sum()), weight, means, explained
