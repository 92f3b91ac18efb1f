"""Alignment of a gyroscope with the angular velocities of a trajectory: by cross-correlation, and by least squares.

The cross-correlation gives first values and alternatives. For each of many time offsets the second moments of both are
summed. From them follow the rotation and the factor between both, in closed form (S. Umeyama, Least-squares estimation
of transformation parameters between two point patterns, IEEE Transactions on Pattern Analysis and Machine Intelligence
13(4), 1991), and how well any other rotation or a reflection would fit. Intervals with large residuals weigh less (P.
Huber's function, in three iterations).

The least-squares model of the mean over an interval of time is

    reference(t) = R diag(1 / scale) (gyro(t - offset) - bias) + R diag(1 / scale) gyro''(t - offset) smoothing / 2

with the gyroscope as the regressor, because its noise is much smaller than the trajectory's. The last term is what a
trajectory loses that smooths the motion with a kernel of that variance. Errors of a trajectory are correlated in time:
the covariance is the sandwich of H. White (Econometrica 48, 1980) over windows of time, drawn towards the model's own
covariance where the windows are few.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rover_pipeline.imu.blocks import INTERVAL, Means
from rover_pipeline.kinematics.rotation import exp, log, nearest, skew
from rover_pipeline.numerics.linear import eigh, inv, matmul, solve
from rover_pipeline.numerics.robust import MAD_TO_SD, huber

#: Intervals over which errors of a trajectory are correlated: those of two seconds. Tuned: by hand.
_CORRELATED = 20
#: Standard deviations of the steps from the model that is known before, f8 (11,): any rotation; s, clocks without
#: synchronisation; rad/s and 3 % of scale, as data sheets say; and kernels of 0.1 s.
#: Noise: data sheet of the MPU-6050 (zero-rate output, scale), and for rotation and times what is possible at all.
PRIOR_SIGMA = np.array([3.0] * 3 + [0.5] + [0.3] * 3 + [0.03] * 3 + [0.01])
#: Standard deviation of a rotation that somebody gave, rad: extrinsics are measured to some degrees. Tuned: by hand.
MOUNT_SIGMA = np.radians(2.0)
#: Residual of an axis, in its robust standard deviation, above which an interval is an outlier. Normal residuals reach
#: it once in 100,000 times. Noise: normal distribution.
_OUTLIER = 4.5
#: Largest time offset of a clock that is about right, s. Offsets of up to four times that are compared with it: a rig
#: that is turned to and fro turns the other way half a period later. Tuned: by hand.
MAX_OFFSET = 0.55
#: How many intervals' mean squared residuals a hypothesis must fit better by. Residuals are correlated over several
#: intervals, and the best of a hundred offsets is chosen. Tuned: by hand.
_DECISIVE = 50.0

#: Means of the gyroscope over the intervals for a time offset, f8 (K, 3), rad/s, and whether they are known, bool (K,).
GyroMeans = Callable[[float], tuple[np.ndarray, np.ndarray]]


class Model(NamedTuple):
    """Parameters of the model. Steps of them, f8 (11,), are in this order; scales change by their logarithm."""

    rotation: np.ndarray  #: f8 (3, 3), lidar-from-imu. Its steps are rotation vectors in the lidar frame, rad.
    offset: float  #: s, to be added to the times of the gyroscope.
    bias: np.ndarray  #: f8 (3,), rad/s, IMU frame.
    scale: np.ndarray  #: f8 (3,), measured over true rate of each axis.
    smoothing: float = 0.0  #: variance of the kernel that the reference smooths the motion with, s2.

    def predict(self, gyro: np.ndarray) -> np.ndarray:
        """Angular velocities of the lidar, f8 (K, 3), rad/s, from those of the gyroscope, f8 (K, 3), rad/s."""
        return matmul((gyro - self.bias) / self.scale, self.rotation.T)

    def changed(self, step: np.ndarray) -> Model:
        """The model after a step, f8 (11,)."""
        turn, (offset,), bias, scale, (smoothing,) = np.split(step, [3, 4, 7, 10])
        rotation = matmul(exp(turn[None])[0], self.rotation)
        return Model(
            rotation, self.offset + offset, self.bias + bias, self.scale * np.exp(scale), self.smoothing + smoothing
        )

    def step_to(self, other: Model) -> np.ndarray:
        """The step, f8 (11,), from this model to another one."""
        turn = log(matmul(other.rotation[None], self.rotation.T))[0]
        scale, smoothing = np.log(other.scale / self.scale), other.smoothing - self.smoothing
        return np.concatenate([turn, [other.offset - self.offset], other.bias - self.bias, scale, [smoothing]])


class Fit(NamedTuple):
    """The result of an alignment."""

    model: Model
    cov: np.ndarray  #: f8 (11, 11), covariance of the steps from the true model to this one.
    used: np.ndarray  #: bool (K,), intervals that agree.
    compared: np.ndarray  #: bool (K,), those that both have measured.
    residual: np.ndarray  #: robust standard deviation of the residuals, f8 (3,), rad/s, lidar axes.

    @property
    def agreeing(self) -> float:
        """Share of the compared intervals that agree."""
        return float(self.used.sum() / max(self.compared.sum(), 1))


def align(
    reference: np.ndarray,
    known: np.ndarray,
    gyro: GyroMeans,
    noise: GyroMeans,
    start: Model,
    mount: np.ndarray | None = None,
) -> Fit:
    """The model that agrees best with the reference.

    Args:
        reference: f8 (K, 3), rad/s, lidar frame; known: bool (K,).
        gyro: means of the gyroscope by time offset.
        noise: means of noise like the gyroscope's own over any intervals. As the gyroscope is the regressor, its noise
            looks like motion, and its part of the equations is taken away.
        start: a guess, with the rotation to some degrees and the offset to some hundredths of a second.
        mount: f8 (3, 3), lidar-from-imu as somebody gave it; None if nobody did.
    """
    before, sigma = Model(np.eye(3) if mount is None else mount, 0.0, np.zeros(3), np.ones(3)), PRIOR_SIGMA.copy()
    if mount is not None:
        sigma[:3] = MOUNT_SIGMA
    model, information = start, np.diag(sigma**-2.0)
    for iteration in range(12):
        rows, measured = _rows(model, gyro, reference)
        compared = known & measured
        # The first iterations choose the intervals that agree, and weigh axes by their residuals.
        if iteration < 6:
            spread = _deviation(rows[compared, :, 0])
            # Neighbours of an outlier share a part of its samples.
            far = np.pad(compared & (np.abs(rows[:, :, 0]) > _OUTLIER * spread).any(axis=1), 1)
            used = compared & ~(far[:-2] | far[1:-1] | far[2:])
        rows, alone = rows[used] / spread[:, None], _rows(model, noise, np.zeros(3))[0]
        alone = (alone - alone.mean(axis=0)) / spread[:, None]
        data = np.einsum("kai,kaj->ij", rows, rows)
        false = np.einsum("kai,kaj->ij", alone, alone) * len(rows) / len(alone)
        weight, normal = _signal(data[1:, 1:], false[1:, 1:], information)
        step = matmul(weight, (data - false)[1:, 0]) + matmul(information, model.step_to(before))
        step = solve(normal, step)
        # A step of the rotation beyond a radian leaves the range of its linearisation.
        model = model.changed(step * min(1.0, 0.5 / max(np.abs(step[:3]).max(), 1e-9)))
    gradients = matmul(np.einsum("kai,ka->ki", rows[:, :, 1:], rows[:, :, 0]), weight.T)
    cov = sandwich(gradients, matmul(weight, data[1:, 1:], weight.T), information, normal, _CORRELATED)
    return Fit(model, cov, used, compared, spread)


def _rows(model: Model, gyro: GyroMeans, reference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Residuals and their negative derivatives by the step, f8 (K, 3, 12), and whether they are known, bool (K,)."""
    (means, measured), half = gyro(model.offset), INTERVAL / 2
    later, earlier = (gyro(model.offset + sign * half)[0] for sign in (1, -1))
    bend = (later - 2 * means + earlier) / half**2
    smooth, turn = means + model.smoothing / 2 * bend, model.rotation / model.scale
    predicted, own = model.predict(smooth), (smooth - model.bias) / model.scale
    by_offset, by_smoothing = matmul((later - earlier) / (2 * half), turn.T), matmul(bend / 2, turn.T)
    by_bias, by_scale = np.broadcast_to(-turn, (len(means), 3, 3)), -model.rotation * own[:, None]
    columns = (reference - predicted)[:, :, None], -skew(predicted), by_offset[:, :, None], by_bias, by_scale
    return np.concatenate([*columns, by_smoothing[:, :, None]], axis=2), measured


def _deviation(residual: np.ndarray) -> np.ndarray:
    """Robust standard deviation of each axis, f8 (3,), of residuals (K, 3)."""
    if not len(residual):
        return np.full(3, np.inf)
    return np.maximum(MAD_TO_SD * np.median(np.abs(residual), axis=0), 1e-6)


def _signal(data: np.ndarray, false: np.ndarray, information: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the gradient, and the normal matrix, (11, 11), where noise of the regressors adds `false` to `data`.

    The gradient without it is the motion's part times the error of the unknowns, and a noise whose covariance is the
    sum of both (W. Fuller, Measurement Error Models, 1987).
    """
    before = np.sqrt(np.diag(information))
    values, axes = eigh((data - false) / before[:, None] / before)
    motion = matmul(axes * np.maximum(values, 0), axes.T) * before[:, None] * before
    weight = solve(data + false + 1e-9 * information, motion).T
    return weight, matmul(weight, motion) + information


def sandwich(
    gradients: np.ndarray, model: np.ndarray, information: np.ndarray, normal: np.ndarray, window: int
) -> np.ndarray:
    """Covariance of the step of N unknowns, f8 (N, N), of errors that are correlated over shorter times than a window.

    Args:
        gradients: (K, N), of each interval; model: (N, N), covariance of their sum if intervals are independent.
        information: (N, N), of what is known before; normal: (N, N), the matrix of the normal equations, that included.
        window: number of intervals.
    """
    sums = np.cumsum(np.pad(gradients, ((window, window), (0, 0))), axis=0)
    sums = sums[window:] - sums[:-window]
    windows = len(gradients) / window
    # The model counts as much as so many windows as there are unknowns.
    spread = (windows * matmul(sums.T, sums) / window + len(model) * model) / (windows + len(model))
    inverse = inv(normal)
    return np.asarray(matmul(inverse, spread + information, inverse.T))


class Moments(NamedTuple):
    """Weighted second moments of the lidar's and the gyroscope's rates about their means, at O time offsets."""

    offset: np.ndarray  #: f8 (O,), s, to be added to the times of the gyroscope.
    number: np.ndarray  #: i8 (O,), of intervals.
    lidar_mean: np.ndarray  #: f8 (O, 3).
    gyro_mean: np.ndarray  #: f8 (O, 3).
    lidar: np.ndarray  #: f8 (O,), mean squares.
    gyro: np.ndarray  #: f8 (O,), mean squares.
    products: np.ndarray  #: f8 (O, 3, 3), means of lidar times gyroscope.

    @classmethod
    def of(cls, offset: np.ndarray, weight: np.ndarray, lidar: np.ndarray, gyro: np.ndarray) -> Moments:
        """Of rates, lidar f8 (K, 3) and gyro f8 (O, K, 3), with weights of the intervals, f8 (O, K)."""
        share = (weight / weight.sum(axis=1, keepdims=True))[:, :, None]
        lidar_mean, gyro_mean = (share * lidar).sum(axis=1), (share * gyro).sum(axis=1)
        y, x = lidar - lidar_mean[:, None], gyro - gyro_mean[:, None]
        lidar_square, gyro_square = ((share * each**2).sum(axis=(1, 2)) for each in (y, x))
        products, number = np.einsum("oki,okj->oij", share * y, x), (weight > 0).sum(axis=1)
        return cls(offset, number, lidar_mean, gyro_mean, lidar_square, gyro_square, products)

    def rotation(self) -> np.ndarray:
        """The rotations lidar-from-imu that fit best, f8 (O, 3, 3)."""
        return nearest(self.products)

    def reflection(self) -> np.ndarray:
        """The reflections that fit best, f8 (O, 3, 3)."""
        return -nearest(-self.products)

    def factor(self, turn: np.ndarray) -> np.ndarray:
        """Factors from the gyroscope's rates, turned by f8 ([O,] 3, 3), to the lidar's, f8 (O,); not negative."""
        return np.maximum((turn * self.products).sum(axis=(1, 2)), 0.0) / np.maximum(self.gyro, 1e-18)

    def unexplained(self, turn: np.ndarray) -> np.ndarray:
        """Mean squared residuals, f8 (O,), of rotations or reflections, f8 ([O,] 3, 3), a factor and a bias."""
        return np.maximum(self.lidar - self.factor(turn) ** 2 * self.gyro, 1e-12 + 1e-6 * self.lidar)

    def near(self) -> Moments:
        """Those at offsets of a clock that is about right."""
        return Moments(*(each[np.abs(self.offset) <= MAX_OFFSET] for each in self))


def decisive(better: float, worse: float, number: int) -> bool:
    """Whether one of two mean squared residuals over so many intervals is significantly smaller."""
    return bool((worse - better) * number > _DECISIVE * better)


def correlate(begin: np.ndarray, gyro: Means, lidar: Means) -> Moments:
    """Moments at time offsets in steps of 0.05 s; none where few intervals are measured by both.

    Args:
        begin: f8 (K,), s, of the intervals; some thousand of them are used.
        gyro: rates by the clock and in the frame and the unit of the IMU; lidar: rates in its own frame, rad/s.
    """
    begin, steps = begin[:: 1 + len(begin) // 2000], round(4 * MAX_OFFSET / (INTERVAL / 2))
    offsets, (reference, known) = INTERVAL / 2 * np.arange(-steps, steps + 1), lidar.over(begin, INTERVAL)
    means, used = (np.array(each) for each in zip(*(gyro.over(begin - one, INTERVAL) for one in offsets), strict=True))
    used &= known
    enough = used.sum(axis=1) >= max(10, used.sum(axis=1).max() // 2)
    offsets, means, used = offsets[enough], means[enough], used[enough]
    if not len(offsets):
        return Moments.of(offsets, used, reference, means)
    residual, kept = reference - np.median(reference[known], axis=0), known
    for _ in range(3):
        size = np.linalg.norm(residual, axis=1)
        found = Moments.of(offsets, huber(size, np.median(size[kept])) * used, reference, means)
        turns = np.stack([found.rotation(), found.reflection()])
        costs = np.stack([found.unexplained(turn) for turn in turns])
        hand, best = np.unravel_index(np.argmin(costs), costs.shape)
        turn, factor, kept = turns[hand, best], found.factor(turns[hand])[best], used[best]
        predicted = factor * matmul(means[best] - found.gyro_mean[best], turn.T)
        residual = reference - found.lidar_mean[best] - predicted
    return found


def half_turn(moments: Moments, mount: np.ndarray) -> np.ndarray | None:
    """The half turn, f8 (3, 3), by which the gyroscope's rotation differs from its mount; None if nothing shows one.

    An angular velocity is no arrow: in a mirror, its component along the normal of the mirror stays and the other two
    change their signs. That is half a turn about the normal. So a gyroscope of known mount shows a lidar whose columns
    or beams are stored in reverse, and needs no calibration for it; but it cannot distinguish it from a mount that is
    wrong by half a turn.

    Args:
        mount: f8 (3, 3), lidar-from-imu.
    """
    near = moments.near()
    if not len(near.offset):
        return None
    turns = 2 * np.einsum("ij,ik->ijk", np.eye(3), np.eye(3)) - np.eye(3)
    costs = np.stack([near.unexplained(matmul(turn, mount)) for turn in turns])
    best, at = np.unravel_index(np.argmin(costs), costs.shape)
    # Another hand of the axes is an error of the IMU: no lidar that sees a mirrored world makes it.
    cost, hand, right = costs.min(), near.unexplained(near.reflection()).min(), moments.unexplained(mount).min()
    number = int(near.number[at])
    if decisive(hand, cost, number) or not decisive(cost, right, number) or cost > near.lidar[at] / 2:
        return None
    return np.asarray(turns[best])
