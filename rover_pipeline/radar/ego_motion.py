"""The radar's own velocity by the Doppler of echoes: hypotheses, scored by one likelihood, refined and compared.

A static target in direction u recedes at -u . v when the radar moves at v. Radar frame, front-left-up. The Doppler of
an echo may be ambiguous: then each of several numbers of spans is a hypothesis of its own, with its own direction.

**Candidates** are the velocities at which two random echoes are at rest, or three where the Doppler is not ambiguous
(D. Kellner et al., Instantaneous ego-motion estimation using Doppler radar, ITSC 2013).

**Evidence.** The evidence of an echo for a velocity is the logarithm of how much more likely its Doppler is if the
target is at rest at that velocity than if it moves, and has any Doppler of `Tuning.mover_span`; it is never below zero.
The evidence of all echoes is a sum, to which a prior of little vertical velocity is added.

**Competing hypotheses.** Echoes that move together look like a world at rest that is seen from a radar with another
velocity, and so do echoes with another number of spans. So it is not enough that a velocity has the most evidence:
compared are the echoes that one of two velocities explains better. They are not independent, so the evidence against
the best velocity must not be less by a certain number, but be a small share of the evidence for it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rover_pipeline.radar.options import VelocitySection
from rover_pipeline.radar.point_kernels import ego_evidence, refine_ego_velocity
from rover_pipeline.radar.tuning import TUNING

#: A residual above this many standard deviations is an outlier: the target moves. Noise: normal distribution, 99.7 %.
OUTLIER = 3.0
#: A velocity has three components, and what agrees with one echo more does not do so by construction: number of echoes
#: that determine a velocity, or the misfit or the coherence of an array. Physics: degrees of freedom.
MIN_ECHOES = 4
#: Logarithm of the odds from which on an ambiguity number is certain (100 to 1), and maximum evidence of phases, which
#: ghosts and second targets mislead in one cell of some hundreds. Physics: Jeffreys, Theory of Probability, "decisive".
CERTAIN = 4.6


class Echoes(NamedTuple):
    """Echoes of a frame, each under all hypotheses of its Doppler ambiguity."""

    direction: np.ndarray  #: f8 (echo, ambiguity, 3), unit vectors.
    doppler: np.ndarray  #: f8 (echo, ambiguity), m/s, positive recedes.
    likelihood: np.ndarray  #: f8 (echo, ambiguity), logarithm of what the phases say, 0 for the most likely.
    error: np.ndarray  #: f8 (echo, 2), standard deviations of the sines of azimuth and elevation.


class Velocities(NamedTuple):
    """Velocities that explain the echoes of a frame, best first."""

    vel: np.ndarray  #: f8 (velocity, 3), m/s.
    #: f8 (velocity,), evidence against the best one as a share of that for it; 1 for the best itself.
    share: np.ndarray
    evidence: float  #: of the best one.


def vertical_sigma(vel: np.ndarray, vertical: float, pitch: float) -> np.ndarray:
    """Prior standard deviation of the vertical velocity at velocities, f8 (..., 3), m/s; f8 (...,), m/s.

    Args:
        vertical, pitch: options of `_radar_velocity`: m/s, and a share of the level speed.
    """
    return np.hypot(vertical, pitch * np.hypot(vel[..., 0], vel[..., 1]))


def tangents(direction: np.ndarray) -> np.ndarray:
    """Left and up of unit vectors over ahead, f8 (..., 2), of f8 (..., 3); bounded at the sides.

    With them the Doppler of a static target changes with the sine of its azimuth (to the left) by the velocity to the
    left less that ahead times the first one, and so with elevation.
    """
    return direction[..., 1:] / np.maximum(direction[..., :1], 0.1)


def doppler_variance(echoes: Echoes, velocity: np.ndarray, doppler_sigma: float) -> np.ndarray:
    """Variance of the Doppler of static echoes less its prediction, f8 (echo, ambiguity), m2/s2.

    Args:
        velocity: f8 (3,), of the radar, m/s; doppler_sigma: standard deviation of the Doppler, m/s.
    """
    slopes = velocity[1:] - velocity[0] * tangents(echoes.direction)
    return doppler_sigma**2 + ((echoes.error[:, None] * slopes) ** 2).sum(axis=-1)


def largest_error(vel: np.ndarray, options: VelocitySection) -> float:
    """Largest level standard deviation of a valid estimate, m/s."""
    x, y, z = vel.tolist()
    return max(options.max_error, options.max_share * math.sqrt(x * x + y * y + z * z))


def find_velocities(
    echoes: Echoes, doppler_sigma: float, options: VelocitySection, guide: np.ndarray | None = None
) -> Velocities:
    """The velocities of the radar at which most echoes are at rest.

    Args:
        doppler_sigma: standard deviation of the Doppler, m/s.
        guide: f8 (3,), velocity by odometry, m/s, in the radar's frame, as good as a valid one of the radar; None = not
            known.
    """
    direction = np.ascontiguousarray(echoes.direction)
    doppler, likelihood, error = map(np.ascontiguousarray, echoes[1:])
    arrays = direction, tangents(direction), doppler, likelihood, error
    level, steep = _candidates(echoes, options)
    if guide is not None:
        level = np.append(level, guide[None], axis=0)
    tried = np.append(level, steep, axis=0)

    def evidence(velocities: np.ndarray, pitch: float = 0.0) -> np.ndarray:
        """Of each echo, and last what the prior and the odometry say, f8 (velocity, echo + 1)."""
        values = np.empty((len(velocities), len(echoes.doppler) + 1))
        ego_evidence(*arrays, velocities, doppler_sigma**2, TUNING.mover_span, pitch, values)
        values[:, -1] = -0.5 * (velocities[:, 2] / vertical_sigma(velocities, options.vertical, options.pitch)) ** 2
        if guide is not None:
            off = ((velocities - guide)[:, :2] ** 2).sum(axis=1) / (2 * options.max_error**2)
            # Odometry may have diverged: it says no more than as many certain echoes as determine a velocity.
            values[:, -1] += np.maximum(MIN_ECHOES * CERTAIN - off, 0)
        return values

    # Two echoes give no vertical velocity: while candidates are compared, echoes up and down may be off by it.
    rough = evidence(tried, options.pitch)
    # The first one is level: least squares from there gives the smallest vertical velocity that explains the echoes.
    scores, left = rough[: len(level)].sum(axis=1), np.arange(len(tried))
    found: list[np.ndarray] = []
    while len(found) <= TUNING.compared and len(left):
        number = left[scores[left[: len(scores)]].argmax()]
        refined = tried[number].copy()
        refine_ego_velocity(*arrays, doppler_sigma**2, options.vertical, options.pitch, OUTLIER, refined)
        if not found:
            # What contradicts the first velocity decides, and not what agrees with it.
            scores = _shares(rough, evidence(refined[None], options.pitch)[0])
        found.append(refined)
        for centre in (tried[number], refined):
            left = left[_level_distance(tried[left], centre) > 2 * largest_error(centre, options)]
    velocities = np.array(found)
    values = evidence(velocities)
    share, best = _shares(values, values[0]), 0
    if share.max() * options.max_rival > 1:
        # So much more speaks for another velocity that the first one is no competing hypothesis.
        best = int(share.argmax())
        share = _shares(values, values[best])
    share[_level_distance(velocities, velocities[best]) <= 2 * largest_error(velocities[best], options)] = 0.0
    share[best] = np.inf
    order = np.argsort(-share, kind="stable")
    share[best] = 1.0
    return Velocities(velocities[order], share[order], float(values[best].sum()))


def _shares(evidence: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Evidence against the best velocity as a share of that for it, f8 (velocity,), of `evidence` as it computes it."""
    more = evidence - best
    against = np.maximum(more, 0).sum(axis=1)
    return against / np.maximum(-np.minimum(more, 0, out=more).sum(axis=1), 1e-9)


def _candidates(echoes: Echoes, options: VelocitySection) -> tuple[np.ndarray, np.ndarray]:
    """Velocities at which two echoes would be at rest, which are level, or three, f8 (velocity, 3), m/s."""
    # A number of spans that the phases rule out is not tried.
    echo, ambiguity = np.nonzero(echoes.likelihood > -CERTAIN)
    direction, doppler = echoes.direction[echo, ambiguity], echoes.doppler[echo, ambiguity]
    pairs, triples = (_draws(len(echo), size, options.trials) for size in (2, 3))
    pairs = pairs[:, echo[pairs[0]] != echo[pairs[1]]]
    level = np.append(np.zeros((1, 3)), _of_pairs(direction, doppler, pairs, options.least_angle), axis=0)
    # Of echoes with several numbers of spans each, hardly any triple has the right ones.
    return level, _of_triples(direction, doppler, triples) if echoes.doppler.shape[1] == 1 else level[:0]


def _of_pairs(direction: np.ndarray, doppler: np.ndarray, pairs: np.ndarray, min_angle: float) -> np.ndarray:
    """Level velocities at which both echoes of pairs would be at rest, f8 (velocity, 3), m/s; pairs: i8 (2, pair)."""
    first, second = direction[pairs, :2]
    cross = first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]
    usable = np.abs(cross) > min_angle
    first, second, cross = first[usable], second[usable], cross[usable]
    a, b = -doppler[pairs[:, usable]]
    level = np.stack([a * second[:, 1] - b * first[:, 1], b * first[:, 0] - a * second[:, 0]], axis=-1) / cross[:, None]
    return np.append(level, np.zeros((len(level), 1)), axis=1)


def _of_triples(direction: np.ndarray, doppler: np.ndarray, triples: np.ndarray) -> np.ndarray:
    """Velocities at which triples of echoes would be at rest, f8 (velocity, 3), m/s; triples: i8 (3, triple)."""
    corners = direction[triples]
    normals = np.cross(corners[[1, 2, 0]], corners[[2, 0, 1]])
    volume = (corners[0] * normals[0]).sum(axis=1)
    usable = volume != 0
    sums = -(doppler[triples[:, usable], None] * normals[:, usable]).sum(axis=0)
    velocities: np.ndarray = sums / volume[usable, None]
    return velocities[np.abs(velocities[:, 2]) <= TUNING.steepest * np.hypot(velocities[:, 0], velocities[:, 1])]


@lru_cache(maxsize=512)
def _draws(count: int, size: int, trials: int) -> np.ndarray:
    """Random echoes, i8 (size, trial); always the same for the same number of echoes."""
    return np.random.default_rng(count).integers(0, count, (trials, size)).T.copy()


def _level_distance(velocities: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    """f8 (velocity,), m/s."""
    return np.hypot(velocities[:, 0] - velocity[0], velocities[:, 1] - velocity[1])
