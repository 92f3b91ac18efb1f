"""The radar's own velocity from the Doppler of what stands still.

A point at rest in direction u recedes at -u . v when the radar moves at v. Consensus among pairs of points finds those
at rest, least squares weighted by how well each is measured the velocity (Kellner et al., Instantaneous ego-motion
estimation using Doppler radar, ITSC 2013). Radar frame, front-left-up.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rover_pipeline.radar.options import VelocitySection

#: Consensus, then that many rounds of least squares with the weights and the inliers of the one before.
_ROUNDS = 6
#: Residuals, in standard deviations, above which a point is not at rest.
_OUTLIER = 3.0
#: Mean square of a standard normal variable that is cut off there.
_CUT_OFF = 0.973
#: Information, s2/m2, that every axis has: a standard deviation of 1 km/s.
_REGULAR = 1e-6


class Velocity(NamedTuple):
    """Estimate of one frame.

    Attributes:
        vel: f8 (3,), m/s; cov: f8 (3, 3). NaN when there is no estimate at all.
        inliers: points at rest.
        determined: whether enough of them agree, from directions far enough apart.
    """

    vel: np.ndarray
    cov: np.ndarray
    inliers: int
    determined: bool


def ego_velocity(direction: np.ndarray, doppler: np.ndarray, bin_mps: float, options: VelocitySection) -> Velocity:
    """Velocity of the radar over ground.

    Args:
        direction: f8 (point, 3), unit vectors.
        doppler: f8 (point,), m/s, positive recedes.
        bin_mps: m/s a Doppler bin, the scale of the errors of `doppler`.
    """
    nothing = Velocity(np.full(3, np.nan), np.full((3, 3), np.nan), 0, False)
    if len(doppler) < options.min_inliers:
        return nothing
    spread = options.doppler_error * bin_mps
    velocity = _consensus(direction, doppler, 3 * max(spread, options.least_error), options)
    if velocity is None:
        return nothing
    errors = _Errors(direction, max(spread, options.least_error), options)
    for _ in range(_ROUNDS):
        sigma = errors(velocity)
        misfit = (doppler + direction @ velocity) / sigma
        near = np.abs(misfit) < _OUTLIER
        if np.count_nonzero(near) < options.min_inliers:
            return nothing
        # Tukey's biweight: what lies far off pulls the less.
        weight = np.where(near, (1 - (misfit / _OUTLIER) ** 2) ** 2, 0) / sigma**2
        velocity = np.linalg.solve(_information(direction, weight, options), -(weight * doppler) @ direction)
    # How far inliers are off, over what the errors in the options say: the covariance follows the data.
    freedom = max(near.sum() - 3, 1)
    weight *= _CUT_OFF * freedom / max((misfit[near] ** 2).sum(), 1e-9)
    cov = np.linalg.inv(_information(direction, weight, options))
    inliers = int(near.sum())
    level = np.linalg.eigvalsh(cov[:2, :2])[-1]
    enough = inliers >= max(options.min_inliers, options.min_share * len(doppler))
    return Velocity(velocity, cov, inliers, bool(enough and level <= options.max_error**2))


def _consensus(
    direction: np.ndarray, doppler: np.ndarray, tolerance: float, options: VelocitySection
) -> np.ndarray | None:
    """The level velocity, f8 (3,), of the pair of points that most others agree with; None when no pair tells it."""
    pairs = _pairs(len(doppler), options.trials)
    first, second = direction[pairs[0], :2], direction[pairs[1], :2]
    cross = first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]
    usable = np.abs(cross) > options.least_angle
    if not usable.any():
        return None
    first, second, cross = first[usable], second[usable], cross[usable]
    a, b = -doppler[pairs[0, usable]], -doppler[pairs[1, usable]]
    level = np.stack([a * second[:, 1] - b * first[:, 1], b * first[:, 0] - a * second[:, 0]], axis=-1) / cross[:, None]
    misfit = doppler + level @ direction[:, :2].T
    cost = np.minimum(misfit**2, tolerance**2).sum(axis=1)
    return np.append(level[cost.argmin()], 0.0)


@lru_cache(maxsize=256)
def _pairs(points: int, trials: int) -> np.ndarray:
    """Pairs of points to try, i8 (2, trial), the same for the same number of points."""
    return np.random.default_rng(points).integers(0, points, (trials, 2)).T.copy()


class _Errors:
    """Standard deviation of the misfit of each point: of its Doppler, `spread` m/s, and of its direction."""

    def __init__(self, direction: np.ndarray, spread: float, options: VelocitySection) -> None:
        slopes = direction[:, 1:] / np.maximum(direction[:, :1], 0.1)
        self._aside, self._up = slopes[:, 0], slopes[:, 1]
        self._variance = spread**2
        self._options = options

    def __call__(self, velocity: np.ndarray) -> np.ndarray:
        """f8 (point,), m/s."""
        sideways = self._options.azimuth_error * (velocity[1] - velocity[0] * self._aside)
        upward = self._options.elevation_error * (velocity[2] - velocity[0] * self._up)
        found: np.ndarray = np.sqrt(self._variance + sideways**2 + upward**2)
        return found


def _information(direction: np.ndarray, weight: np.ndarray, options: VelocitySection) -> np.ndarray:
    """Inverse covariance of weighted least squares with a prior of no vertical motion, f8 (3, 3)."""
    information = direction.T @ (direction * weight[:, None])
    # Keeps the matrix regular where points determine nothing, with a variance that says so.
    information.flat[::4] += _REGULAR
    information[2, 2] += 1 / options.vertical**2
    return information
