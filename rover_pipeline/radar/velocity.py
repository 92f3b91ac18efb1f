"""Virtual sensor `_radar_velocity`: the radar's own velocity (ego-motion) from the Doppler of static points.

A static point in direction u recedes at -u . v when the radar moves at v. A consensus over pairs of points separates
static points from moving ones; weighted least squares over the static points then gives the velocity (D. Kellner et
al., Instantaneous ego-motion estimation using Doppler radar, ITSC 2013). Radar frame, front-left-up.

**Competing hypotheses.** Points that move together look like a world at rest that is seen from a radar with another
velocity. So it is not enough that many points agree on the estimate. The points that contradict it must not agree on
another one, level or not. The evidence of a point for a velocity is the logarithm of how much more likely its Doppler
is if it is at rest at that velocity than if it moves, and has any Doppler of `_SPAN`; a point that moves is no
evidence. What is compared is the evidence of the points that one of the two explains better, and what the prior of the
vertical velocity says. Points that move together are not independent: their evidence must not be a certain number but a
share of the one for the estimate (`radar.velocity.max_rival`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.linear import eigvalsh, inv, matmul
from rover_pipeline.radar.at_rest import (
    OUTLIER,
    Echoes,
    Fit,
    fit,
    information,
    level_velocities,
    residual_variance,
    slopes,
    vertical_sigma,
)
from rover_pipeline.radar.axes import doppler_bin, max_doppler
from rover_pipeline.radar.options import VelocityOptions, VelocitySection

#: Mean square of a standard normal variable truncated at `OUTLIER`.
_TRUNCATED_VARIANCE = 0.973
#: Systematic standard deviation of the speed, as a share of it, of arrays with rows and without: of directions that are
#: wrong in the same way (spacing, phases, elevations that are smaller than they look).
_SCALE_ERROR, _SCALE_ERROR_LEVEL = 0.012, 0.03
#: Speed over the largest one that folds are told apart for, up to which an estimate can be valid: what is straight
#: ahead is lost first, and there are points beside it.
_SLACK = 1.1
#: Largest distance of velocities from whole bins, in bins, that tells of rounding. Measured ones lie anywhere.
_ROUNDED = 1e-3
#: Velocities that least squares begins with: that of the consensus, and rivals that explain far more.
_STARTS = 3
#: Span of the Doppler of points that move, m/s. A span of 4 or of 30 m/s gives nearly the same results.
_SPAN = 10.0
_LOG_SPAN = float(np.log(_SPAN / np.sqrt(2 * np.pi)))
#: Volume of the smallest triple of directions that tells a velocity: of three that are 6 degrees apart, for example.
_LEAST_VOLUME = 1e-3
#: Largest vertical velocity of a rival, as a share of the level speed: a radar that looks 45 degrees down.
_STEEPEST = 1.0
#: Rivals that are compared with the estimate on all points.
_COMPARED = 64


class Velocity(NamedTuple):
    """Estimate of one frame.

    Attributes:
        vel: f8 (3,), m/s; cov: f8 (3, 3), m2/s2. NaN if there is no estimate at all.
        inliers: number of static points.
        determined: whether enough points agree, their directions differ enough, and the others agree on nothing else.
    """

    vel: np.ndarray
    cov: np.ndarray
    inliers: int
    determined: bool


_NOTHING = Velocity(np.full(3, np.nan), np.full((3, 3), np.nan), 0, False)


def velocity(
    xyz: np.ndarray,
    doppler: np.ndarray,
    count: np.ndarray,
    certain: np.ndarray,
    deviation: np.ndarray,
    *,
    options: VelocityOptions,
    sidecar: str,
) -> dict[str, np.ndarray]:
    """The radar's own velocity at each frame, from points at rest.

    Args:
        xyz: f4 (frame, point, 3), m; doppler: f4 (frame, point), m/s; count: u2 (frame,), points of each frame.
        certain: u1 (frame, point), 0 = the Doppler may be folded in another way: nothing follows from the point.
        deviation: f4 (frame, point, 2), standard deviations of the sines of azimuth and elevation; NaN = not known.
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
    for positions, speeds, n, sure, errors in zip(xyz, doppler, count, certain, deviation, strict=True):
        known = np.flatnonzero(sure[:n])
        direction = positions[known].astype("f8")
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        estimate = ego_velocity(direction, speeds[known].astype("f8"), mps, options, errors[known].astype("f8"))
        # Where few points are certain, those that are need not stand for the others. Of a radar that is faster than
        # folds are told apart, only points at its sides are certain, and their directions then err to one side.
        enough = estimate.inliers >= options.min_share * n
        enough &= bool(np.linalg.norm(estimate.vel, axis=0) <= _SLACK * (2 * options.max_folds + 1) * limit)
        estimates.append(estimate._replace(determined=estimate.determined and bool(enough)))
    return {
        "vel": np.array([each.vel for each in estimates], "f4"),
        "cov": np.array([each.cov for each in estimates], "f4"),
        "inliers": np.array([each.inliers for each in estimates], "u2"),
        "valid": np.array([each.determined for each in estimates], "u1"),
    }


def ego_velocity(
    direction: np.ndarray,
    doppler: np.ndarray,
    bin_mps: float,
    options: VelocitySection,
    deviation: np.ndarray | None = None,
) -> Velocity:
    """Velocity of the radar over ground.

    Args:
        direction: f8 (point, 3), unit vectors.
        doppler: f8 (point,), m/s, positive recedes.
        bin_mps: size of a Doppler bin, m/s: the scale of the errors of `doppler`.
        deviation: f8 (point, 2), standard deviations of the sines of azimuth and elevation; NaN, None = not known.

    Returns:
        Not `determined` either where another velocity explains the points about as well; see `_strongest_rival`.
    """
    if len(doppler) < options.min_inliers:
        return _NOTHING
    doppler_sigma = max(options.doppler_error * bin_mps, options.least_error)
    known = np.zeros((len(doppler), 2)) if deviation is None else np.nan_to_num(deviation)
    echoes = Echoes(direction, doppler, np.hypot(known, (options.azimuth_error, options.elevation_error)))
    start = _consensus(direction, doppler, OUTLIER * doppler_sigma, options)
    estimate = _NOTHING
    for _ in range(_STARTS):
        found = None if start is None else fit(echoes, start, doppler_sigma, options)
        if found is None:
            break
        rounding = _rounding(doppler[found.inlier], bin_mps) / doppler_sigma**2
        shared = known[found.inlier].min(axis=0)
        estimate = _estimate(direction, found, rounding, shared, options)
        distance = 2 * _largest_error(estimate.vel, options)
        rival = _strongest_rival(echoes, estimate.vel, distance, doppler_sigma, options)
        if rival is None or rival[1] <= options.max_rival:
            return estimate
        if rival[1] * options.max_rival < 1:
            break
        # The first consensus takes the motion for level. Of a radar that looks up or down, another velocity may explain
        # so much more that it is the estimate, and the first one a rival that is too weak.
        start = rival[0]
    return estimate._replace(determined=False)


def _estimate(
    direction: np.ndarray, found: Fit, rounding: float, shared: np.ndarray, options: VelocitySection
) -> Velocity:
    """The estimate of least squares with its covariance, `determined` but for its rivals.

    Args:
        rounding: least variance of the residuals, in those of the options.
        shared: f8 (2,), standard deviations of the errors that the sines of azimuth and elevation have in common.
    """
    inliers = int(found.inlier.sum())
    # Scale the covariance by the variance of the residuals that was observed, relative to the one of the options.
    observed = max((found.residual[found.inlier] ** 2).sum(), 1e-9) / (_TRUNCATED_VARIANCE * max(inliers - 3, 1))
    weight = found.weight / max(observed, rounding)
    cov_of_noise = inv(information(matmul(direction.T, direction * weight[:, None]), found.prior))
    cov = cov_of_noise.copy()
    # Where the array knows no elevation, all directions are level and the speed comes out too small by their cosine.
    scale = _SCALE_ERROR if direction[:, 2].any() else _SCALE_ERROR_LEVEL
    cov += scale**2 * np.outer(found.vel, found.vel)
    # Phases of the array that are off turn all directions alike: more points do not make their effect smaller.
    moved = matmul(cov_of_noise, matmul(np.stack(slopes(direction, found.vel)) * weight, direction).T) * shared
    cov += matmul(moved, moved.T)
    level_variance = eigvalsh(cov[:2, :2])[-1]
    enough = inliers >= max(options.min_inliers, options.min_share * len(direction))
    return Velocity(found.vel, cov, inliers, bool(enough and level_variance <= _largest_error(found.vel, options) ** 2))


def _rounding(doppler: np.ndarray, bin_mps: float) -> float:
    """Variance of independent errors, m2/s2, as bad as the rounding of velocities to whole bins; 0 if they are not.

    A radar that sends points may round their velocities. Residuals do not show it where many points are in one bin: a
    radar that creeps by less than half a bin sees zero everywhere. Points of one bin are rounded together, so they
    count as one point.

    Args:
        doppler: f8 (point,), m/s, of points at rest.
    """
    if not bin_mps:
        return 0.0
    number = np.round(doppler / bin_mps)
    if np.abs(doppler / bin_mps - number).max(initial=0.0) > _ROUNDED:
        return 0.0
    return bin_mps**2 / 12 * len(number) / max(len(np.unique(number)), 1)


def _largest_error(vel: np.ndarray, options: VelocitySection) -> float:
    """Largest level standard deviation of a valid estimate, m/s."""
    return max(options.max_error, options.max_share * float(np.linalg.norm(vel, axis=0)))


def _consensus(
    direction: np.ndarray, doppler: np.ndarray, tolerance: float, options: VelocitySection
) -> np.ndarray | None:
    """The level velocity, f8 (3,), of the pair of points that fits all points best; None if no pair is usable.

    The cost of a point is its squared residual, at most the squared `tolerance` (m/s): all outliers cost the same.
    """
    level = level_velocities(direction, doppler, _draws(len(doppler), 2, options.trials), options.least_angle)
    if not len(level):
        return None
    residual = doppler + matmul(level[:, :2], direction[:, :2].T)
    cost = np.minimum(residual**2, tolerance**2).sum(axis=1)
    best: np.ndarray = level[cost.argmin()]
    return best


def _strongest_rival(
    echoes: Echoes, velocity: np.ndarray, distance: float, doppler_sigma: float, options: VelocitySection
) -> tuple[np.ndarray, float] | None:
    """The velocity with the largest evidence against the estimate, and that as a share of the one for it; None if none.

    Args:
        velocity: f8 (3,), the estimate, m/s.
        distance: level distance of a rival from the estimate, m/s; one that is nearer is no other velocity.
        doppler_sigma: standard deviation of the Doppler, m/s.
    """
    direction, doppler, _ = echoes
    variance = residual_variance(echoes, velocity, doppler_sigma)
    moving = np.flatnonzero((doppler + matmul(direction, velocity)) ** 2 >= OUTLIER**2 * variance)
    rivals = _velocities(direction, doppler, moving, options)
    rivals = rivals[_level_distance(rivals, velocity) > distance]
    if not len(rivals):
        return None
    # What contradicts the estimate is mostly what moves at it, so the rivals that explain most of that are compared.
    gained = _evidence(echoes.select(moving), rivals, doppler_sigma, options).sum(axis=1)
    rivals = rivals[np.argsort(-gained, kind="stable")[:_COMPARED]]
    own = _evidence(echoes, velocity, doppler_sigma, options)

    def shares(others: np.ndarray) -> np.ndarray:
        more = _evidence(echoes, others, doppler_sigma, options) - own
        against, of_estimate = np.maximum(more, 0).sum(axis=1), np.maximum(-more, 0).sum(axis=1)
        return against / np.maximum(of_estimate, 1e-9)

    # From two or three points alone a rival looks worse than it is, so it is refined by least squares.
    start = rivals[shares(rivals).argmax()]
    refined = fit(echoes, start, doppler_sigma, options)
    tried = start[None] if refined is None else np.stack([start, refined.vel])
    tried = tried[_level_distance(tried, velocity) > distance]
    evidence = shares(tried)
    return tried[evidence.argmax()], float(evidence.max())


def _of_triples(direction: np.ndarray, doppler: np.ndarray, triples: np.ndarray) -> np.ndarray:
    """Velocities at which triples of points would be at rest, f8 (velocity, 3), m/s; triples: i8 (3, triple)."""
    first, second, third = direction[triples]
    normals = np.stack([np.cross(second, third), np.cross(third, first), np.cross(first, second)])
    volume = (first * normals[0]).sum(axis=1)
    usable = np.abs(volume) > _LEAST_VOLUME
    sums = -(doppler[triples[:, usable], None] * normals[:, usable]).sum(axis=0)
    velocities: np.ndarray = sums / volume[usable, None]
    return velocities[np.abs(velocities[:, 2]) <= _STEEPEST * np.hypot(velocities[:, 0], velocities[:, 1])]


def _velocities(direction: np.ndarray, doppler: np.ndarray, moving: np.ndarray, options: VelocitySection) -> np.ndarray:
    """Velocities at which a point of some, i8 (moving,), and one or two of all would be at rest, f8 (velocity, 3)."""
    if not len(moving):
        return np.empty((0, 3))
    pairs, triples = (_draws(len(doppler), size, options.trials).copy() for size in (2, 3))
    pairs[0] = triples[0] = moving[_draws(len(moving), 1, options.trials)[0]]
    level = level_velocities(direction, doppler, pairs, options.least_angle)
    return np.concatenate([level, _of_triples(direction, doppler, triples)])


@lru_cache(maxsize=512)
def _draws(points: int, size: int, trials: int) -> np.ndarray:
    """Random points, i8 (size, trial); always the same for the same number of points."""
    return np.random.default_rng(points).integers(0, points, (trials, size)).T.copy()


def _evidence(echoes: Echoes, velocity: np.ndarray, doppler_sigma: float, options: VelocitySection) -> np.ndarray:
    """What each point says for velocities, f8 (..., 3), and last what the prior says, f8 (..., point + 1)."""
    variance = residual_variance(echoes, velocity, doppler_sigma)
    squares = (echoes.doppler + matmul(velocity, echoes.direction.T)) ** 2 / variance
    points = np.maximum(_LOG_SPAN - 0.5 * (np.log(variance) + squares), 0)
    prior = -0.5 * (velocity[..., 2] / vertical_sigma(velocity, options.vertical, options.pitch)) ** 2
    return np.concatenate([points, prior[..., None]], axis=-1)


def _level_distance(velocities: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    """f8 (velocity,), m/s."""
    distance: np.ndarray = np.hypot(velocities[:, 0] - velocity[0], velocities[:, 1] - velocity[1])
    return distance
