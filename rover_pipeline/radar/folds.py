"""Doppler beyond its limit: how many times the Doppler of each point has wrapped around.

A target that is faster than the largest Doppler appears at another Doppler, a whole number of spans (twice the limit)
away: it is folded. TDM compensation with the wrong number of folds leaves a phase step from transmitter to transmitter,
which spoils the beam. So each number of folds is a hypothesis, and three observations tell them apart:

1. How much of a point's power its best beam explains under the hypothesis (F. Roos et al., Enhancement of Doppler
   unambiguity for chirp-sequence modulated TDM-MIMO radars, ICMIM 2018). How far the array is from a perfect one is
   estimated from the strong points of the frame itself: on a board that is not calibrated the phases say less. Numbers
   of folds that differ by the number of transmitters have the same phases.
2. The world at rest: one velocity of the radar must explain the Doppler of most points. Over a wide field of view it
   cannot do so with wrong numbers of folds. It may be far beyond the limit, so more folds are tried for it than a
   single target is believed to have. All velocities that explain the points about as well must agree on a point.
3. The velocity by odometry, where there is one.

What these do not tell is not certain.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.linear import matmul
from rover_pipeline.radar.at_rest import vertical_sigma
from rover_pipeline.radar.fold_kernels import refine_rest, rest_odds, rest_scores, variance_at

#: Most that the phases of one point can say, as a logarithm of odds: a second target in the cell, or a ghost, can
#: mislead them in one cell of some hundred.
_PHASES_SAY = 6.0
#: Logarithm of the odds above which a number of folds, or a velocity, is certain. That of the velocity is a sum over
#: points whose errors are not independent, so its lead must also be a share of the sum.
_CERTAIN, _CERTAIN_VELOCITY, _CERTAIN_LEAD = 3.9, 12.0, 0.2
#: Fewest points that can tell a velocity; and those that must, for the phases alone to say nothing certain.
_FEWEST, _MANY = 4, 16
#: Share of the power that a real array does not explain: the least, and what is assumed where no point is strong enough
#: to show it; and the power over noise of a strong point.
_LEAST_MISFIT, _ASSUMED_MISFIT, _STRONG = 0.02, 0.1, 30.0
#: Limits of the share of points at rest, and the odds of a point that are assumed while velocities are compared.
_AT_REST, _ODDS_AT_REST = (0.3, 0.95), 2.0
#: Standard deviations: of a point's Doppler in bins and in m/s, and of its direction as a share of the speed.
_DOPPLER_BINS, _DOPPLER_MPS, _DIRECTION = 0.15, 0.01, 0.04
#: Prior standard deviation of the radar's vertical velocity, m/s and as a share of the speed: it bounces with its
#: carrier, and may look up or down.
_VERTICAL_MPS, _PITCH = 0.2, 0.15
#: Velocities that differ by less than this are the same one, m/s.
_SAME = 0.3
#: Pairs of points that are tried, and the sine of the smallest angle between them.
_TRIALS, _LEAST_ANGLE = 512, 0.1
#: Rivals of the best velocity that are refined before they are compared with it.
_RIVALS = 4
#: Standard deviation that is assumed of the velocity by odometry, m/s, and the most that it can say.
_GUIDE_SIGMA, _GUIDE_SAYS = 0.2, 25.0


class Hypotheses(NamedTuple):
    """Each point under each number of folds.

    Attributes:
        direction: f8 (point, fold, 3), unit vectors.
        doppler: f8 (point, fold), m/s, positive recedes.
        likelihood: f8 (point, fold), logarithm of what the phases say, 0 for the most likely.
        believed: bool (fold,), whether a target that moves on its own may have this number of folds.
        span: of Doppler, m/s: twice the largest one.
    """

    direction: np.ndarray
    doppler: np.ndarray
    likelihood: np.ndarray
    believed: np.ndarray
    span: float


class Decision(NamedTuple):
    """Number of folds of each point.

    Attributes:
        fold: i8 (point,), index into the hypotheses, of a believed number.
        certain: bool (point,), whether all other numbers of folds are far less likely.
    """

    fold: np.ndarray
    certain: np.ndarray


def phase_likelihood(explained: np.ndarray, snr: np.ndarray, antennas: int) -> np.ndarray:
    """Logarithm of what the phases say of each number of folds, f8 (point, fold), 0 for the most likely.

    Args:
        explained: f8 (point, fold), share of the point's power that the best beam explains.
        snr: f8 (point,), power over noise of one antenna.
        antennas: number of virtual antennas.
    """
    best = explained.max(axis=1)
    strong = snr > _STRONG
    misfit = max(float(np.mean(1 - best[strong])), _LEAST_MISFIT) if np.count_nonzero(strong) >= 4 else _ASSUMED_MISFIT
    # What no number of folds explains, such as a second target in the cell, speaks for none of them.
    unexplained = 1 / snr + np.maximum(misfit, 1 - best)
    return np.maximum(antennas * (explained - best[:, None]) / unexplained[:, None], -_PHASES_SAY)


def phases_decide(explained: np.ndarray, snr: np.ndarray, antennas: int, likeness: float) -> np.ndarray:
    """Whether no other number of folds can explain a point as well, bool (point,), from one that was tried.

    The angles between three vectors bound each other: what is near to one beam is far from beams that differ from it.

    Args:
        explained: f8 (point,), share of the power that the best beam explains.
        likeness: largest share of a beam's power that one with another number of folds explains.
    """
    between = np.arccos(np.sqrt(likeness)) - np.arccos(np.sqrt(np.clip(explained, 0, 1)))
    other = np.cos(np.clip(between, 0, np.pi / 2)) ** 2
    decided: np.ndarray = antennas * (explained - other) / (1 / snr + _ASSUMED_MISFIT) >= _PHASES_SAY
    return decided


def decide(points: Hypotheses, bin_mps: float, guide: np.ndarray | None = None) -> Decision:
    """The number of folds of each point of a frame.

    Args:
        bin_mps: size of a Doppler bin, m/s.
        guide: f8 (3,), velocity of the radar by odometry, m/s, in its own frame, front-left-up; None = not known.
    """
    alone = np.where(points.believed, points.likelihood, -np.inf)
    candidates = _ego_velocities(points, bin_mps, guide)
    if not len(candidates):
        # Many points that are at rest at no velocity may be of a radar that is faster than any that was tried.
        return Decision(_smallest(alone), _certain(alone) & (len(alone) < _MANY))
    decisions = [_at_velocity(points, velocity, bin_mps) for velocity in candidates]
    best = decisions[0]
    certain = best.certain & np.all([each.certain & (each.fold == best.fold) for each in decisions], axis=0)
    return Decision(np.where(points.believed[best.fold], best.fold, _smallest(alone)), certain)


def _at_velocity(points: Hypotheses, velocity: np.ndarray, bin_mps: float) -> Decision:
    """The number of folds of each point if the radar has a velocity, f8 (3,), m/s."""
    variance = float(variance_at(velocity[0], velocity[1], _errors(bin_mps)))
    squares = (points.doppler + matmul(points.direction, velocity)) ** 2 / variance
    odds = float(rest_odds(variance, points.span * _ODDS_AT_REST))
    at_rest = (0.5 * squares - points.likelihood).min(axis=1) < odds
    share = float(np.clip(np.mean(at_rest), *_AT_REST))
    density = np.exp(-0.5 * squares) / np.sqrt(2 * np.pi * variance)
    # A target that moves may have any believed Doppler.
    moving = np.where(points.believed, (1 - share) / (points.believed.sum() * points.span), 0)
    with np.errstate(divide="ignore"):
        likelihood = points.likelihood + np.log(share * density + moving)
    fold = _smallest(likelihood)
    return Decision(fold, _certain(likelihood) & points.believed[fold])


def _smallest(likelihood: np.ndarray) -> np.ndarray:
    """The first, and so smallest, number of folds of each point that is not far less likely than the best one."""
    first: np.ndarray = (likelihood >= likelihood.max(axis=1, keepdims=True) - _CERTAIN).argmax(axis=1)
    return first


def _certain(likelihood: np.ndarray) -> np.ndarray:
    ordered = np.sort(likelihood, axis=1)
    certain: np.ndarray = ordered[:, -1] - ordered[:, -2] >= _CERTAIN
    return certain


def _errors(bin_mps: float) -> tuple[float, float]:
    """As `variance_at` takes them."""
    return (_DOPPLER_BINS * bin_mps) ** 2 + _DOPPLER_MPS**2, _DIRECTION**2


def _ego_velocities(points: Hypotheses, bin_mps: float, guide: np.ndarray | None) -> np.ndarray:
    """The velocities at which most points are at rest, f8 (velocity, 3), m/s, the best first.

    All the others that do about as well are among them. None is given if the points are too few, or most of them at
    rest at no velocity.
    """
    if len(points.doppler) < _FEWEST and guide is None:
        return np.empty((0, 3))
    arrays = points.direction, points.doppler, points.likelihood
    limits = _errors(bin_mps), points.span * _ODDS_AT_REST

    def score(velocities: np.ndarray, pitch: float) -> np.ndarray:
        scores = np.empty(len(velocities))
        rest_scores(*arrays, velocities, *limits, pitch, scores)
        if guide is not None:
            off = ((velocities - guide)[:, :2] ** 2).sum(axis=1) / (2 * _GUIDE_SIGMA**2)
            scores += np.maximum(_GUIDE_SAYS - off, 0)
        return scores

    tried = [np.zeros((1, 3)), _of_pairs(points), *([] if guide is None else [guide[None]])]
    velocities = np.concatenate(tried)
    # Two points give no vertical velocity: while velocities are compared, points up and down may be off by it.
    scores = score(velocities, _PITCH)
    refined = np.empty((_RIVALS + 1, 3))
    left, count = np.ones(len(velocities), bool), 0
    # A rival that was not refined looks worse than it is.
    while count < len(refined) and left.any():
        start = velocities[np.flatnonzero(left)[scores[left].argmax()]]
        refined[count] = start
        refine_rest(*arrays, *limits, float(vertical_sigma(start, _VERTICAL_MPS, _PITCH)), refined[count])
        for centre in (start, refined[count]):
            left &= ((velocities - centre)[:, :2] ** 2).sum(axis=1) > _SAME**2
        count += 1
    refined = refined[:count]
    final = score(refined, 0.0) - 0.5 * (refined[:, 2] / vertical_sigma(refined, _VERTICAL_MPS, _PITCH)) ** 2
    lead = max(_CERTAIN_VELOCITY, _CERTAIN_LEAD * final.max())
    order = np.argsort(-final, kind="stable")
    # A point that is not at rest speaks against the velocity: otherwise some points of any scene would be at rest at
    # some velocity.
    evidence = final.max() - len(points.doppler) * np.log(1 + _ODDS_AT_REST)
    return refined[order[final[order] > final.max() - lead]] if evidence >= _CERTAIN_VELOCITY else np.empty((0, 3))


def _of_pairs(points: Hypotheses) -> np.ndarray:
    """Level velocities at which pairs of points would be at rest, f8 (velocity, 3), m/s."""
    # A number of folds that the phases rule out is not tried.
    point, fold = np.nonzero(points.likelihood > -_PHASES_SAY)
    direction, doppler = points.direction[point, fold, :2], points.doppler[point, fold]
    first, second = _pairs(len(point))
    a, b = direction[first], direction[second]
    cross = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    usable = (np.abs(cross) > _LEAST_ANGLE) & (point[first] != point[second])
    a, b, cross = a[usable], b[usable], cross[usable]
    at, bt = -doppler[first[usable]], -doppler[second[usable]]
    level = np.stack([at * b[:, 1] - bt * a[:, 1], bt * a[:, 0] - at * b[:, 0]], axis=-1) / cross[:, None]
    return np.append(level, np.zeros((len(level), 1)), axis=1)


@lru_cache(maxsize=256)
def _pairs(count: int) -> np.ndarray:
    """Random pairs, i8 (2, trial); always the same for the same number of points."""
    return np.random.default_rng([count, 0xF01D]).integers(0, count, (2, _TRIALS))
