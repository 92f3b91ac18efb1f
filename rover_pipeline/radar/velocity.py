"""Virtual sensor `_radar_velocity`: the radar's own velocity (ego-motion) from the Doppler of static points.

A static point in direction u recedes at -u . v when the radar moves at v. A consensus over pairs of points separates
static points from moving ones; weighted least squares over the static points then gives the velocity (D. Kellner et
al., Instantaneous ego-motion estimation using Doppler radar, ITSC 2013). Radar frame, front-left-up.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rover_pipeline.radar.axes import doppler_bin, max_doppler
from rover_pipeline.radar.options import VelocityOptions, VelocitySection

#: Iterations of reweighted least squares; each takes weights and inliers from the estimate before.
_ITERATIONS = 6
#: A residual above this many standard deviations is an outlier: the point moves.
_OUTLIER = 3.0
#: Mean square of a standard normal variable truncated at `_OUTLIER`.
_TRUNCATED_VARIANCE = 0.973
#: Systematic standard deviation of the speed, as a share of it, of arrays with rows and without: of directions that are
#: wrong in the same way (spacing, phases, elevations that are smaller than they look).
_SCALE_ERROR, _SCALE_ERROR_LEVEL = 0.012, 0.03
#: Speed over the largest one that folds are told apart for, up to which an estimate can be valid: what is straight
#: ahead is lost first, and there are points beside it.
_SLACK = 1.1
#: Information added to every axis, s2/m2 (a standard deviation of 1 km/s): keeps the matrix regular.
_REGULARISATION = 1e-6


class Velocity(NamedTuple):
    """Estimate of one frame.

    Attributes:
        vel: f8 (3,), m/s; cov: f8 (3, 3), m2/s2. NaN if there is no estimate at all.
        inliers: number of static points.
        determined: whether enough points agree, and their directions differ enough.
    """

    vel: np.ndarray
    cov: np.ndarray
    inliers: int
    determined: bool


def velocity(
    xyz: np.ndarray,
    doppler: np.ndarray,
    count: np.ndarray,
    certain: np.ndarray,
    *,
    options: VelocityOptions,
    sidecar: str,
) -> dict[str, np.ndarray]:
    """The radar's own velocity at each frame, from points at rest.

    Args:
        xyz: f4 (frame, point, 3), m; doppler: f4 (frame, point), m/s; count: u2 (frame,), points of each frame.
        certain: u1 (frame, point), 0 = the Doppler may be folded in another way: nothing follows from the point.
        sidecar: `radar.json`, or `points.json` of a radar that sends points, which says how large Doppler bins are.

    Returns:
        `vel` f4 (frame, 3), `cov` f4 (frame, 3, 3), NaN where there are too few points, `inliers` u2 (frame,), and
        `valid` = 0 where the points do not determine the velocity.
    """
    mps = doppler_bin(sidecar)
    if mps is None:
        raise ValueError("radar.json must give range_resolution and doppler_resolution, both above zero")
    limit = max_doppler(sidecar) or np.inf
    estimates = []
    for positions, speeds, n, sure in zip(xyz, doppler, count, certain, strict=True):
        known = np.flatnonzero(sure[:n])
        direction = positions[known].astype("f8")
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        estimate = ego_velocity(direction, speeds[known].astype("f8"), mps, options)
        # Where few points are certain, those that are need not stand for the others. Of a radar that is faster than
        # folds are told apart, only points at its sides are certain, and their directions then err to one side.
        enough = estimate.inliers >= options.min_share * n
        enough &= bool(np.linalg.norm(estimate.vel) <= _SLACK * (2 * options.max_folds + 1) * limit)
        estimates.append(estimate._replace(determined=estimate.determined and bool(enough)))
    return {
        "vel": np.array([each.vel for each in estimates], "f4"),
        "cov": np.array([each.cov for each in estimates], "f4"),
        "inliers": np.array([each.inliers for each in estimates], "u2"),
        "valid": np.array([each.determined for each in estimates], "u1"),
    }


def vertical_sigma(vel: np.ndarray, vertical: float, pitch: float) -> np.ndarray:
    """Prior standard deviation of the vertical velocity at velocities, f8 (..., 3), m/s; f8 (...,), m/s.

    Args:
        vertical, pitch: options of `_radar_velocity`: m/s, and a share of the level speed.
    """
    sigma: np.ndarray = np.hypot(vertical, pitch * np.hypot(vel[..., 0], vel[..., 1]))
    return sigma


def ego_velocity(direction: np.ndarray, doppler: np.ndarray, bin_mps: float, options: VelocitySection) -> Velocity:
    """Velocity of the radar over ground.

    Args:
        direction: f8 (point, 3), unit vectors.
        doppler: f8 (point,), m/s, positive recedes.
        bin_mps: size of a Doppler bin, m/s: the scale of the errors of `doppler`.
    """
    undetermined = Velocity(np.full(3, np.nan), np.full((3, 3), np.nan), 0, False)
    if len(doppler) < options.min_inliers:
        return undetermined
    doppler_sigma = max(options.doppler_error * bin_mps, options.least_error)
    velocity = _consensus(direction, doppler, _OUTLIER * doppler_sigma, options)
    if velocity is None:
        return undetermined
    for _ in range(_ITERATIONS):
        vertical = float(vertical_sigma(velocity, options.vertical, options.pitch))
        sigma = _residual_sigma(direction, velocity, doppler_sigma, options)
        residual = (doppler + direction @ velocity) / sigma
        inlier = np.abs(residual) < _OUTLIER
        if np.count_nonzero(inlier) < options.min_inliers:
            return undetermined
        # Tukey's biweight: the larger a residual, the smaller its weight.
        weight = np.where(inlier, (1 - (residual / _OUTLIER) ** 2) ** 2, 0) / sigma**2
        velocity = np.linalg.solve(_information(direction, weight, vertical), -(weight * doppler) @ direction)
    inliers = int(inlier.sum())
    # Scale the covariance by the variance of the residuals that was observed, relative to the one of the options.
    weight *= _TRUNCATED_VARIANCE * max(inliers - 3, 1) / max((residual[inlier] ** 2).sum(), 1e-9)
    cov = np.linalg.inv(_information(direction, weight, vertical))
    # Where the array knows no elevation, all directions are level and the speed comes out too small by their cosine.
    scale = _SCALE_ERROR if direction[:, 2].any() else _SCALE_ERROR_LEVEL
    cov += scale**2 * np.outer(velocity, velocity)
    level_variance = np.linalg.eigvalsh(cov[:2, :2])[-1]
    enough = inliers >= max(options.min_inliers, options.min_share * len(doppler))
    largest = max(options.max_error, options.max_share * float(np.linalg.norm(velocity)))
    return Velocity(velocity, cov, inliers, bool(enough and level_variance <= largest**2))


def _consensus(
    direction: np.ndarray, doppler: np.ndarray, tolerance: float, options: VelocitySection
) -> np.ndarray | None:
    """The level velocity, f8 (3,), of the pair of points that fits all points best; None if no pair is usable.

    The cost of a point is its squared residual, at most the squared `tolerance` (m/s): all outliers cost the same.
    """
    pairs = _pairs(len(doppler), options.trials)
    first, second = direction[pairs[0], :2], direction[pairs[1], :2]
    cross = first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]
    usable = np.abs(cross) > options.least_angle
    if not usable.any():
        return None
    first, second, cross = first[usable], second[usable], cross[usable]
    a, b = -doppler[pairs[0, usable]], -doppler[pairs[1, usable]]
    level = np.stack([a * second[:, 1] - b * first[:, 1], b * first[:, 0] - a * second[:, 0]], axis=-1) / cross[:, None]
    residual = doppler + level @ direction[:, :2].T
    cost = np.minimum(residual**2, tolerance**2).sum(axis=1)
    return np.append(level[cost.argmin()], 0.0)


@lru_cache(maxsize=256)
def _pairs(points: int, trials: int) -> np.ndarray:
    """Random pairs of points, i8 (2, trial); always the same for the same number of points."""
    return np.random.default_rng(points).integers(0, points, (trials, 2)).T.copy()


def _residual_sigma(
    direction: np.ndarray, velocity: np.ndarray, doppler_sigma: float, options: VelocitySection
) -> np.ndarray:
    """Standard deviation of each residual, from the errors of the Doppler and of the direction, f8 (point,), m/s."""
    # Derivative of the forward component of a unit vector by the other two, but for its sign; bounded at the sides.
    slope = direction[:, 1:] / np.maximum(direction[:, :1], 0.1)
    azimuth = options.azimuth_error * (velocity[1] - velocity[0] * slope[:, 0])
    elevation = options.elevation_error * (velocity[2] - velocity[0] * slope[:, 1])
    sigma: np.ndarray = np.sqrt(doppler_sigma**2 + azimuth**2 + elevation**2)
    return sigma


def _information(direction: np.ndarray, weight: np.ndarray, vertical: float) -> np.ndarray:
    """Information matrix of weighted least squares with a prior of no vertical motion, f8 (3, 3).

    Args:
        vertical: standard deviation of the prior, m/s.
    """
    information = direction.T @ (direction * weight[:, None])
    information.flat[::4] += _REGULARISATION
    information[2, 2] += 1 / vertical**2
    return information
