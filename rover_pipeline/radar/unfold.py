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

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.linear import matmul
from rover_pipeline.radar.angles import plane_waves
from rover_pipeline.radar.at_rest import level_velocities, vertical_sigma
from rover_pipeline.radar.boards import Board
from rover_pipeline.radar.detect import Peaks
from rover_pipeline.radar.options import VelocitySection
from rover_pipeline.radar.point_kernels import refine_rest, rest_odds, rest_scores, variance_at

#: Folds beyond those of a target that are tried for the velocity of the radar itself.
_BEYOND = 3
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
#: The prior of the vertical velocity and the smallest angle of pairs are those that `_radar_velocity` has by default.
_PRIOR = VelocitySection()
#: Velocities that differ by less than this are the same one, m/s.
_SAME = 0.3
#: Pairs of points that are tried.
_TRIALS = 512
#: Rivals of the best velocity that are refined before they are compared with it.
_RIVALS = 4
#: Standard deviation that is assumed of the velocity by odometry, m/s, and the most that it can say.
_GUIDE_SIGMA, _GUIDE_SAYS = 0.2, 25.0
#: Intervals of the sines at which the beams of an array are compared with each other.
_AZIMUTHS, _ELEVATIONS = 32, 8

#: Gives the directions of peaks, f8 (peak, 3), and the shares of their power that the beams there explain, f8 (peak,).
#: The Doppler of a peak may lie beyond the bins. The flag asks for accurate directions.
Echoes = Callable[[Peaks, bool], tuple[np.ndarray, np.ndarray]]


class _Hypotheses(NamedTuple):
    """Each point under each number of folds.

    Attributes:
        direction: f8 (point, fold, 3), unit vectors.
        doppler: f8 (point, fold), m/s, positive recedes.
        likelihood: f8 (point, fold), logarithm of what the phases say, 0 for the most likely.
        believed: bool (fold,), whether a target that moves on its own may have this number of folds.
        span: of Doppler, m/s: twice the largest one.
        errors: variances of the Doppler and of the direction of points at rest, as `variance_at` takes them.
    """

    direction: np.ndarray
    doppler: np.ndarray
    likelihood: np.ndarray
    believed: np.ndarray
    span: float
    errors: tuple[float, float]


class Unfolder:
    """Tells how many times the Doppler of peaks has wrapped around.

    Args:
        bin_mps: size of a Doppler bin, m/s.
        most: largest number of folds of a target, 1 or more.
    """

    def __init__(self, board: Board, bin_mps: float, most: int) -> None:
        self._bin_mps = bin_mps
        self._errors = (_DOPPLER_BINS * bin_mps) ** 2 + _DOPPLER_MPS**2, _DIRECTION**2
        #: None comes first: of equally likely numbers the first is taken.
        self._folds = np.array([0, *(sign * n for n in range(1, most + _BEYOND + 1) for sign in (-1, 1))])
        self._believed = np.abs(self._folds) <= most
        # Folds are told apart by the phases of as many chirps as there are transmitters, so that numbers with the same
        # remainder look the same. Remainders are counted from that of no folds.
        self._remainder = self._folds % len(board.tx)
        self._remainders = np.arange(1, len(board.tx))
        self._antennas = int((board.corrections != 0).sum())
        self._likeness = _largest_likeness(board, self._remainders)

    def __call__(
        self, echoes: Echoes, peaks: Peaks, bins: int, guide: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The numbers of folds of a frame's peaks.

        Args:
            bins: number of Doppler bins.
            guide: f8 (3,), velocity of the radar by odometry, m/s, front-left-up in its own frame; None = not known.

        Returns:
            i8 (peak,), spans of Doppler (all of the bins) to add, bool (peak,), whether that number is certain, and
            f8 (peak, 3), the directions, unit vectors.
        """
        direction, share = echoes(peaks, True)
        explained = np.zeros((len(share), len(self._remainders) + 1))
        explained[:, 0] = share
        directions = np.repeat(direction[:, None], explained.shape[1], axis=1)
        # Where the beam explains so much that no other number of folds can do better, the others need not be tried.
        open_ = np.flatnonzero(~_phases_decide(share, peaks.snr, self._antennas, self._likeness))
        others = len(self._remainders)
        if len(open_) and others:
            tried = peaks.select(np.tile(open_, others))
            found, shares = echoes(tried.moved(np.repeat(self._remainders, len(open_)) * float(bins)), False)
            directions[open_, 1:] = np.swapaxes(found.reshape(others, -1, 3), 0, 1)
            explained[open_, 1:] = shares.reshape(others, -1).T
        likelihood = _phase_likelihood(explained, peaks.snr, self._antennas)
        hypotheses = _Hypotheses(
            np.ascontiguousarray(directions[:, self._remainder]),
            (peaks.doppler[:, None] - bins // 2 + self._folds * float(bins)) * self._bin_mps,
            np.ascontiguousarray(likelihood[:, self._remainder]),
            self._believed,
            bins * self._bin_mps,
            self._errors,
        )
        fold, certain = _decide(hypotheses, guide)
        folds = self._folds[fold]
        some = np.flatnonzero(folds)
        if len(some):
            direction[some], _ = echoes(peaks.moved(folds * float(bins)).select(some), True)
        return folds, certain, direction


def _phase_likelihood(explained: np.ndarray, snr: np.ndarray, antennas: int) -> np.ndarray:
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


def _phases_decide(explained: np.ndarray, snr: np.ndarray, antennas: int, likeness: float) -> np.ndarray:
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


def _decide(points: _Hypotheses, guide: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The number of folds of each point of a frame, as an index into the hypotheses, and whether it is certain.

    Args:
        guide: f8 (3,), velocity of the radar by odometry, m/s, in its own frame, front-left-up; None = not known.
    """
    alone = np.where(points.believed, points.likelihood, -np.inf)
    velocities = _ego_velocities(points, guide)
    if not len(velocities):
        # Many points that are at rest at no velocity may be of a radar that is faster than any that was tried.
        return _smallest(alone), _certain(alone) & (len(alone) < _MANY)
    likelihoods = [_at_velocity(points, velocity) for velocity in velocities]
    folds = [_smallest(each) for each in likelihoods]
    certain = [_certain(each) & (fold == folds[0]) for each, fold in zip(likelihoods, folds, strict=True)]
    believed = points.believed[folds[0]]
    return np.where(believed, folds[0], _smallest(alone)), believed & np.all(certain, axis=0)


def _at_velocity(points: _Hypotheses, velocity: np.ndarray) -> np.ndarray:
    """Logarithm of the likelihood of each number of folds, f8 (point, fold), if the radar has a velocity, f8 (3,)."""
    variance = float(variance_at(velocity[0], velocity[1], points.errors))
    squares = (points.doppler + matmul(points.direction, velocity)) ** 2 / variance
    odds = float(rest_odds(variance, points.span * _ODDS_AT_REST))
    at_rest = (0.5 * squares - points.likelihood).min(axis=1) < odds
    share = float(np.clip(np.mean(at_rest), *_AT_REST))
    density = np.exp(-0.5 * squares) / np.sqrt(2 * np.pi * variance)
    # A target that moves may have any believed Doppler.
    moving = np.where(points.believed, (1 - share) / (points.believed.sum() * points.span), 0)
    with np.errstate(divide="ignore"):
        likelihood: np.ndarray = points.likelihood + np.log(share * density + moving)
    return likelihood


def _smallest(likelihood: np.ndarray) -> np.ndarray:
    """The first, and so smallest, number of folds of each point that is not far less likely than the best one."""
    first: np.ndarray = (likelihood >= likelihood.max(axis=1, keepdims=True) - _CERTAIN).argmax(axis=1)
    return first


def _certain(likelihood: np.ndarray) -> np.ndarray:
    ordered = np.sort(likelihood, axis=1)
    certain: np.ndarray = ordered[:, -1] - ordered[:, -2] >= _CERTAIN
    return certain


def _ego_velocities(points: _Hypotheses, guide: np.ndarray | None) -> np.ndarray:
    """The velocities at which most points are at rest, f8 (velocity, 3), m/s, the best first.

    All the others that do about as well are among them. None is given if the points are too few, or most of them at
    rest at no velocity.
    """
    if len(points.doppler) < _FEWEST and guide is None:
        return np.empty((0, 3))
    arrays = points.direction, points.doppler, points.likelihood
    limits = points.errors, points.span * _ODDS_AT_REST

    def score(velocities: np.ndarray, pitch: float) -> np.ndarray:
        scores = np.empty(len(velocities))
        rest_scores(*arrays, velocities, *limits, pitch, scores)
        if guide is not None:
            off = ((velocities - guide)[:, :2] ** 2).sum(axis=1) / (2 * _GUIDE_SIGMA**2)
            scores += np.maximum(_GUIDE_SAYS - off, 0)
        return scores

    # A number of folds that the phases rule out is not tried.
    point, fold = np.nonzero(points.likelihood > -_PHASES_SAY)
    pairs = _pairs(len(point))
    pairs = pairs[:, point[pairs[0]] != point[pairs[1]]]
    level = level_velocities(points.direction[point, fold], points.doppler[point, fold], pairs, _PRIOR.least_angle)
    velocities = np.concatenate([np.zeros((1, 3)), level, *([] if guide is None else [guide[None]])])
    # Two points give no vertical velocity: while velocities are compared, points up and down may be off by it.
    scores = score(velocities, _PRIOR.pitch)
    refined: list[np.ndarray] = []
    left = np.ones(len(velocities), bool)
    # A rival that was not refined looks worse than it is.
    while len(refined) <= _RIVALS and left.any():
        start = velocities[np.flatnonzero(left)[scores[left].argmax()]]
        refined.append(start.copy())
        refine_rest(*arrays, *limits, float(_vertical_sigma(start)), refined[-1])
        for centre in (start, refined[-1]):
            left &= ((velocities - centre)[:, :2] ** 2).sum(axis=1) > _SAME**2
    found = np.array(refined)
    final = score(found, 0.0) - 0.5 * (found[:, 2] / _vertical_sigma(found)) ** 2
    # A point that is not at rest speaks against the velocity: otherwise some points of any scene would be at rest at
    # some velocity.
    if final.max() - len(points.doppler) * np.log(1 + _ODDS_AT_REST) < _CERTAIN_VELOCITY:
        return np.empty((0, 3))
    order = np.argsort(-final, kind="stable")
    return found[order[final[order] > final.max() - max(_CERTAIN_VELOCITY, _CERTAIN_LEAD * final.max())]]


def _vertical_sigma(velocity: np.ndarray) -> np.ndarray:
    return vertical_sigma(velocity, _PRIOR.vertical, _PRIOR.pitch)


@lru_cache(maxsize=256)
def _pairs(count: int) -> np.ndarray:
    """Random pairs, i8 (2, trial); always the same for the same number of points."""
    return np.random.default_rng([count, 0xF01D]).integers(0, count, (2, _TRIALS))


def _largest_likeness(board: Board, folds: np.ndarray) -> float:
    """How much of an echo's power the best beam with a wrong number of folds, of some, can explain, 0 to 1."""
    if not len(folds):
        return 0.0
    right = np.linspace(-1, 1, _AZIMUTHS + 1)
    highest = min(1.0, 1 / board.row_spacing) if board.has_elevation else 0.0
    up = np.linspace(-highest, highest, _ELEVATIONS + 1 if board.has_elevation else 1)
    sines = np.stack(np.meshgrid(right, up), axis=-1).reshape(-1, 2)
    right, up = sines[(sines**2).sum(axis=1) <= 1].T
    waves = plane_waves(board, right, up)[:, board.corrections != 0]
    steps = np.exp(2j * np.pi * folds[:, None] * board.delays[board.corrections != 0])
    largest = max(float(np.abs(matmul(waves * step, waves.conj().T)).max()) for step in steps)
    return min((largest / waves.shape[1]) ** 2, 1.0)
