"""Velocities at which points of a frame would be at rest, and whether another one than the estimate explains them.

Points that move together look like a world at rest that is seen from a radar with another velocity. So it is not
enough that many points agree on the estimate. The points that contradict it must not agree on a rival: a velocity that
differs from the estimate by more than its covariance may, level or not.

**Contest.** The evidence of a point for a velocity is the logarithm of how much more likely its Doppler is if it is at
rest at that velocity than if it moves, and has any Doppler of `_SPAN`; a point that moves is no evidence. Points that
both velocities explain do not tell them apart. So what is compared is the evidence of the points that one of them
explains better, and what the prior of the vertical velocity says. Points that move together are not independent: their
evidence must not be a certain number but a share of the one for the estimate (`radar.velocity.max_rival`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.linear import matmul
from rover_pipeline.radar.at_rest import OUTLIER, Echoes, fit, residual_variance, vertical_sigma
from rover_pipeline.radar.options import VelocitySection

#: Span of the Doppler of points that move, m/s. A span of 4 or of 30 m/s gives nearly the same results.
_SPAN = 10.0
_LOG_SPAN = float(np.log(_SPAN / np.sqrt(2 * np.pi)))
#: Volume of the smallest triple of directions that tells a velocity: of three that are 6 degrees apart, for example.
_LEAST_VOLUME = 1e-3
#: Largest vertical velocity of a rival, as a share of the level speed: a radar that looks 45 degrees down.
_STEEPEST = 1.0
#: Rivals that are compared with the estimate on all points.
_COMPARED = 64
#: Rivals that are refined by least squares before they are compared: from two or three points alone, they look worse
#: than they are.
_REFINED = 2


class Rival(NamedTuple):
    """Another velocity.

    Attributes:
        vel: f8 (3,), m/s.
        evidence: for it, as a share of that for the estimate, over the points on which they differ.
    """

    vel: np.ndarray
    evidence: float


def strongest_rival(
    echoes: Echoes, velocity: np.ndarray, distance: float, doppler_sigma: float, options: VelocitySection
) -> Rival | None:
    """The velocity with the largest share of evidence against the estimate; None if there is no other.

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

    evidence = shares(rivals)
    best, left = None, np.ones(len(rivals), bool)
    for _ in range(_REFINED):
        if not left.any():
            break
        start = rivals[np.flatnonzero(left)[evidence[left].argmax()]]
        refined = fit(echoes, start, doppler_sigma, options)
        tried = start[None] if refined is None else np.stack([start, refined.vel])
        tried = tried[_level_distance(tried, velocity) > distance]
        for other, share in zip(tried, shares(tried), strict=True):
            if best is None or share > best.evidence:
                best = Rival(other, float(share))
            left &= _level_distance(rivals, other) > distance
    return best


def level_velocities(direction: np.ndarray, doppler: np.ndarray, options: VelocitySection) -> np.ndarray:
    """Level velocities at which pairs of points would be at rest, f8 (velocity, 3), m/s."""
    return _of_pairs(direction, doppler, _draws(len(doppler), 2, options.trials), options)


def _of_pairs(direction: np.ndarray, doppler: np.ndarray, pairs: np.ndarray, options: VelocitySection) -> np.ndarray:
    """See `level_velocities`; pairs: i8 (2, pair)."""
    first, second = direction[pairs[0], :2], direction[pairs[1], :2]
    cross = first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]
    usable = np.abs(cross) > options.least_angle
    first, second, cross = first[usable], second[usable], cross[usable]
    a, b = -doppler[pairs[0, usable]], -doppler[pairs[1, usable]]
    level = np.stack([a * second[:, 1] - b * first[:, 1], b * first[:, 0] - a * second[:, 0]], axis=-1) / cross[:, None]
    return np.append(level, np.zeros((len(level), 1)), axis=1)


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
    return np.concatenate([_of_pairs(direction, doppler, pairs, options), _of_triples(direction, doppler, triples)])


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
