"""Least-squares alignment of a gyroscope with the angular velocities of a trajectory.

The model of the mean over a block of time is

    reference(t) = R diag(1 / scale) (gyro(t - offset) - bias) + R diag(1 / scale) gyro''(t - offset) smoothing / 2

with the gyroscope as the regressor, because its noise is much smaller than the trajectory's. The last term is what a
trajectory loses that smooths the motion with a kernel of that variance: without it a smooth trajectory changes scale
and rotation, because it damps fast turns about some axes more than slow ones about others. The residuals of a
trajectory are coloured: errors of its angles have bounded size, so errors of its rates alternate. They are whitened by
an autoregressive filter of each axis that is estimated from them (feasible generalised least squares: D. Cochrane and
G. H. Orcutt, Application of least squares regression to relationships containing auto-correlated error terms, Journal
of the American Statistical Association 44, 1949). The covariance is the sandwich of the gradients of parts of the
recording (H. White, A heteroskedasticity-consistent covariance matrix estimator, Econometrica 48, 1980) where they are
many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rover_pipeline.kinematics.rotation import exp, log
from rover_pipeline.numerics.linear import eigh, inv, matmul, solve

#: Unknowns: rotation vector (0:3), time offset (3), bias (4:7), logarithm of the scale (7:10), smoothing (10).
ROTATION, OFFSET, BIAS, SCALE, SMOOTHING = slice(0, 3), 3, slice(4, 7), slice(7, 10), 10
#: Standard deviations known before: any rotation; s; rad/s; data sheets of MEMS gyroscopes give up to 3 % for the
#: scale; kernels of up to 0.1 s.
PRIOR_SIGMA = np.array([3.0] * 3 + [0.5] + [0.3] * 3 + [0.03] * 3 + [0.01])
#: Distance of the blocks that derivatives are computed from, s.
_STEP = 0.05
#: Order of the autoregressive filter of the residuals.
_ORDER = 10
#: Residual of an axis, in its standard deviation, from which a block is an outlier; its neighbours are left out too.
_OUTLIER = 4.5
#: Iterations. The first ones choose the inliers, and weigh axes by their residuals; the others whiten too.
_PLAIN, _WHITENED = 6, 5
#: Number of blocks whose gradients count as one observation in the sandwich covariance, and fewest such groups.
_GROUP, _MIN_GROUPS = 20, 25
#: Smallest factor of the standard deviations by the sandwich, and the change of a bias in motion by acceleration and
#: temperature that no averaging removes, rad/s.
_LEAST_GROWTH, _INSTABILITY = 0.25, 3e-4

#: Means of the gyroscope over the blocks for a time offset, f8 (K, 3), rad/s, and whether they are known, bool (K,).
GyroMeans = Callable[[float], tuple[np.ndarray, np.ndarray]]


class Model(NamedTuple):
    """Parameters of the model.

    Attributes:
        rotation: f8 (3, 3), lidar-from-imu.
        offset: s, to be added to the times of the gyroscope.
        bias: f8 (3,), rad/s, IMU frame; scale: f8 (3,), measured over true rate of each axis.
        smoothing: variance of the kernel that the reference smooths the motion with, s2.
    """

    rotation: np.ndarray
    offset: float
    bias: np.ndarray
    scale: np.ndarray
    smoothing: float = 0.0

    def predict(self, gyro: np.ndarray) -> np.ndarray:
        """Angular velocities of the lidar, f8 (K, 3), from those of the gyroscope."""
        return matmul((gyro - self.bias) / self.scale, self.rotation.T)

    def changed(self, step: np.ndarray) -> Model:
        """The model after a step of the unknowns."""
        rotation = matmul(exp(step[None, ROTATION])[0], self.rotation)
        bias, scale = self.bias + step[BIAS], self.scale * np.exp(step[SCALE])
        return Model(rotation, self.offset + step[OFFSET], bias, scale, self.smoothing + step[SMOOTHING])


class Prior(NamedTuple):
    """What is known of the model from elsewhere.

    Attributes:
        rotation: f8 (3, 3), lidar-from-imu; bias: f8 (3,), rad/s, IMU frame.
        rotation_sigma, bias_sigma: their standard deviations, rad and rad/s of each axis; infinite where nothing is
        known.
    """

    rotation: np.ndarray
    rotation_sigma: float
    bias: np.ndarray
    bias_sigma: float


class Fit(NamedTuple):
    """The result of an alignment.

    Attributes:
        covariance: f8 (11, 11), of rotation (radians, lidar frame), offset (s), bias (rad/s), logarithm of the scale
        and
            smoothing (s2).
        used: bool (K,), blocks that agree; compared: bool (K,), those that both have measured.
        residual: standard deviation of the residuals that agree, f8 (3,), rad/s, lidar axes.
    """

    model: Model
    covariance: np.ndarray
    used: np.ndarray
    compared: np.ndarray
    residual: np.ndarray


def align(
    reference: np.ndarray,
    known: np.ndarray,
    gyro: GyroMeans,
    noise: GyroMeans,
    first: Model,
    prior: Prior | None = None,
) -> Fit:
    """The model that agrees best with the reference.

    Args:
        reference: f8 (K, 3), rad/s, lidar frame; known: bool (K,).
        gyro: means of the gyroscope by time offset.
        noise: means of noise like the gyroscope's own over any blocks: it would tell what the motion does not.
        first: a guess, with the rotation to some degrees and the offset to some hundredths of a second.
        prior: what is known besides.
    """
    model, information = first, np.diag(PRIOR_SIGMA**-2.0)
    prior = prior or Prior(first.rotation, np.inf, first.bias, np.inf)
    information[ROTATION, ROTATION] += np.eye(3) / prior.rotation_sigma**2
    information[BIAS, BIAS] += np.eye(3) / prior.bias_sigma**2
    whiten, sigma = np.zeros((3, _ORDER)), np.full(3, np.inf)
    used = known
    for iteration in range(_PLAIN + _WHITENED):
        means, measured = gyro(model.offset)
        compared = known & measured
        predicted, jacobian = _predict(model, means, gyro)
        residual = reference - predicted
        if iteration < _PLAIN:
            used, sigma = _inliers(residual, compared)
        else:
            whiten, sigma = _whitening(residual, used & compared)
        rows = _filtered(np.concatenate([residual[:, :, None], jacobian], axis=2), whiten)
        whole = _whole(used & compared, _ORDER if iteration >= _PLAIN else 0)
        rows = rows[whole] / sigma[:, None]
        design, error = rows[:, :, 1:], rows[:, :, 0]
        told = np.einsum("kai,kaj->ij", rows, rows)
        known_before = np.zeros(len(PRIOR_SIGMA))
        known_before[ROTATION] = log(matmul(prior.rotation[None], model.rotation.T))[0] / prior.rotation_sigma**2
        known_before[BIAS] = (prior.bias - model.bias) / prior.bias_sigma**2 - model.bias / PRIOR_SIGMA[BIAS] ** 2
        known_before[SMOOTHING] = -model.smoothing / PRIOR_SIGMA[SMOOTHING] ** 2
        known_before[SCALE] = -np.log(model.scale) / PRIOR_SIGMA[SCALE] ** 2
        predicted, jacobian = _predict(model._replace(bias=np.zeros(3)), noise(model.offset)[0], noise)
        jacobian[:, :, BIAS] = 0
        alone = _filtered(np.concatenate([-predicted[:, :, None], jacobian], axis=2), whiten)[_ORDER:] / sigma[:, None]
        false = np.einsum("kai,kaj->ij", alone, alone) * len(rows) / len(alone)
        weight, normal = _told(told[1:, 1:], false[1:, 1:], information)
        step = solve(normal, matmul(weight, (told - false)[1:, 0]) + known_before)
        # A step of the rotation beyond a radian leaves the range of its linearisation.
        model = model.changed(step * min(1.0, 0.5 / max(np.abs(step[ROTATION]).max(), 1e-9)))
    covariance = _covariance(matmul(design, weight.T), error, normal, information)
    return Fit(model, covariance, used & compared, compared, _deviation(residual, used & compared))


def _predict(model: Model, means: np.ndarray, gyro: GyroMeans) -> tuple[np.ndarray, np.ndarray]:
    """Predicted rates, f8 (K, 3), and their derivatives by the unknowns, f8 (K, 3, 11)."""
    later, earlier = (gyro(model.offset + sign * _STEP)[0] for sign in (1, -1))
    bend = (later - 2 * means + earlier) / _STEP**2
    smooth = means + model.smoothing / 2 * bend
    predicted, own = model.predict(smooth), (smooth - model.bias) / model.scale
    out = np.zeros((len(means), 3, len(PRIOR_SIGMA)))
    x, y, z = predicted.T
    out[:, 0, 1], out[:, 0, 2], out[:, 1, 0] = z, -y, -z
    out[:, 1, 2], out[:, 2, 0], out[:, 2, 1] = x, y, -x
    turn = model.rotation / model.scale
    out[:, :, OFFSET] = matmul((later - earlier) / (2 * _STEP), turn.T)
    out[:, :, SMOOTHING] = matmul(bend, turn.T) / 2
    out[:, :, BIAS] = -turn
    out[:, :, SCALE] = -model.rotation * own[:, None]
    return predicted, out


def _inliers(residual: np.ndarray, compared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Blocks whose residual is no outlier on any axis, bool (K,), and the standard deviation of each axis, (3,)."""
    sigma = _deviation(residual, compared)
    far = (np.abs(residual) > _OUTLIER * sigma).any(axis=1) & compared
    near = far.copy()
    near[1:] |= far[:-1]
    near[:-1] |= far[1:]
    return compared & ~near, sigma


def _deviation(residual: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Robust standard deviation of each axis, f8 (3,)."""
    if not chosen.any():
        return np.full(3, np.inf)
    spread = 1.4826 * np.median(np.abs(residual[chosen]), axis=0)
    return np.maximum(spread, 1e-6)


def _whole(used: np.ndarray, before: int) -> np.ndarray:
    """Blocks that are used like all of some blocks before them, bool (K,)."""
    count = np.concatenate([[0], np.cumsum(~used)])
    whole = used.copy()
    whole[:before] = False
    whole[before:] &= count[before + 1 :] == count[: len(used) - before]
    return whole


def _filtered(rows: np.ndarray, whiten: np.ndarray) -> np.ndarray:
    """Rows, (K, 3, M), less what the rows before them predict by the coefficients (3, order) of each axis."""
    out = rows.copy()
    for lag in range(1, whiten.shape[1] + 1):
        out[lag:] -= whiten[:, lag - 1, None] * rows[:-lag]
    return out


def _whitening(residual: np.ndarray, used: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of the autoregressive filter of each axis, (3, order), and the deviations of what remains, (3,)."""
    whole = np.flatnonzero(_whole(used, _ORDER))
    coefficients, sigma = np.zeros((3, _ORDER)), _deviation(residual, used)
    if len(whole) < 5 * _ORDER:
        return coefficients, sigma
    for axis in range(3):
        past = np.stack([residual[whole - lag, axis] for lag in range(1, _ORDER + 1)], axis=1)
        ridge = 1e-3 * len(whole) * sigma[axis] ** 2 * np.eye(_ORDER)
        coefficients[axis] = solve(matmul(past.T, past) + ridge, matmul(past.T, residual[whole, axis]))
        sigma[axis] = max(float((residual[whole, axis] - matmul(past, coefficients[axis])).std()), 1e-6)
    return coefficients, sigma


def _told(data: np.ndarray, false: np.ndarray, information: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the gradient, and the normal matrix, (11, 11), where noise of the regressors adds `false` to `data`.
    The gradient without it is the motion's part times the error of the unknowns, and a noise whose covariance is the
    sum of both (W. Fuller, Measurement Error Models, 1987)."""
    before = np.sqrt(np.diag(information))
    told, axes = eigh((data - false) / before[:, None] / before)
    motion = matmul(axes * np.maximum(told, 0), axes.T) * before[:, None] * before
    weight = solve(data + false + 1e-9 * information, motion).T
    return weight, matmul(weight, motion) + information


def _covariance(design: np.ndarray, error: np.ndarray, normal: np.ndarray, information: np.ndarray) -> np.ndarray:
    """Covariance of the unknowns, f8 (11, 11): the inverse of the normal matrix, scaled by the sandwich's variances."""
    inverse = inv(normal)
    inverse[BIAS, BIAS] += _INSTABILITY**2 * np.eye(3)
    groups = len(design) // _GROUP
    if groups < _MIN_GROUPS:
        return inverse
    gradients = np.einsum("kai,ka->ki", design, error)[: groups * _GROUP].reshape(groups, _GROUP, -1).sum(axis=1)
    spread = matmul(gradients.T, gradients) * len(design) / (groups * _GROUP) * groups / (groups - 1)
    plain = inv(normal)
    sandwich = matmul(plain, spread + information, plain)
    sandwich[BIAS, BIAS] += _INSTABILITY**2 * np.eye(3)
    growth = np.maximum(np.sqrt(np.diag(sandwich) / np.diag(inverse)), _LEAST_GROWTH)
    return inverse * growth[:, None] * growth
