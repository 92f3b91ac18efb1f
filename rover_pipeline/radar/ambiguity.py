"""Doppler ambiguity: how many spans of Doppler (twice the largest one) have to be added to that of each echo.

A target that is faster than the largest Doppler appears at another Doppler, a whole number of spans away. TDM
compensation with the wrong number leaves a phase step from transmitter to transmitter, which spoils the beam. So each
number is a hypothesis, and three observations distinguish them:

1. How much of an echo's power its best beam explains under the hypothesis (F. Roos et al., Enhancement of Doppler
   unambiguity for chirp-sequence modulated TDM-MIMO radars, ICMIM 2018). How far the array is from a perfect one is
   estimated from the strong echoes of the frame itself: on a board that is not calibrated the phases say less. Numbers
   that differ by the number of transmitters have the same phases.
2. The world at rest: one velocity of the radar must explain the Doppler of most echoes (`ego_motion`). Over a wide
   field of view it cannot do so with wrong numbers. It may be far beyond the limit, so more numbers are tried for it
   than a single target is believed to have. All velocities that explain the echoes about as well must agree on an
   echo.
3. The velocity by odometry, where there is one.

What these leave open is not certain.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rover_pipeline.radar.boards import Board
from rover_pipeline.radar.detect import Peaks
from rover_pipeline.radar.ego_motion import Echoes, doppler_variance, find_velocities
from rover_pipeline.radar.options import VelocitySection
from rover_pipeline.radar.tuning import TUNING

#: Errors of echoes and the prior of the vertical velocity are those that `_radar_velocity` has by default.
_ERRORS = VelocitySection(trials=TUNING.ambiguous_trials)

#: Gives the directions of peaks, f8 (peak, 3), and the shares of their power that the beams there explain, f8 (peak,).
#: The Doppler of a peak may lie beyond the bins. The flag asks for accurate directions.
Beams = Callable[[Peaks, bool], tuple[np.ndarray, np.ndarray]]


class AmbiguityResolver:
    """Finds the ambiguity numbers of the Doppler of peaks.

    Args:
        bin_mps: size of a Doppler bin, m/s.
        max_number: largest ambiguity number of a target, 1 or more.
    """

    def __init__(self, board: Board, bin_mps: float, max_number: int) -> None:
        self._bin_mps = bin_mps
        #: Zero comes first: of equally likely numbers the first is taken.
        tried = range(1, max_number + TUNING.ambiguities_beyond + 1)
        self._numbers = np.array([0, *(sign * n for n in tried for sign in (-1, 1))])
        self._believed = np.abs(self._numbers) <= max_number
        # The phases are those of as many chirps as there are transmitters, so that numbers with the same remainder look
        # the same. Remainders are counted from that of zero.
        self._remainder = self._numbers % len(board.tx)
        self._antennas = int((board.corrections != 0).sum())

    def __call__(
        self, beams: Beams, peaks: Peaks, bins: int, guide: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The ambiguity numbers of a frame's peaks.

        Args:
            bins: number of Doppler bins.
            guide: f8 (3,), velocity of the radar by odometry, m/s, front-left-up in its own frame; None = not known.

        Returns:
            i8 (peak,), spans of Doppler (all of the bins) to add, bool (peak,), whether that number is certain, and
            f8 (peak, 3), the directions, unit vectors.
        """
        direction, explained = beams(peaks, True)
        tried = [beams(peaks.moved(n * float(bins)), False) for n in range(1, self._remainder.max() + 1)]
        directions = np.stack([direction, *(each for each, _ in tried)], axis=1)
        likelihood = _phase_likelihood(
            np.stack([explained, *(share for _, share in tried)], axis=1), peaks.snr, self._antennas
        )
        echoes = Echoes(
            directions[:, self._remainder],
            (peaks.doppler[:, None] - bins // 2 + self._numbers * float(bins)) * self._bin_mps,
            likelihood[:, self._remainder],
            np.tile((_ERRORS.azimuth_error, _ERRORS.elevation_error), (len(explained), 1)),
        )
        choice, certain = self._decide(echoes, bins * self._bin_mps, guide)
        numbers = self._numbers[choice]
        some = np.flatnonzero(numbers)
        if len(some):
            direction[some], _ = beams(peaks.moved(numbers * float(bins)).select(some), True)
        return numbers, certain, direction

    def _decide(self, echoes: Echoes, span: float, guide: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The ambiguity number of each echo, as an index into its hypotheses, and whether it is certain.

        Args:
            span: of Doppler, m/s.
            guide: f8 (3,), velocity of the radar by odometry, m/s, in its own frame, front-left-up; None = not known.
        """
        count = len(echoes.doppler)
        alone = np.where(self._believed, echoes.likelihood, -np.inf)
        if not count or (count < TUNING.min_echoes and guide is None):
            return _smallest(alone), _certain(alone)
        sigma = max(_ERRORS.doppler_error * self._bin_mps, _ERRORS.least_error)
        found = find_velocities(echoes, sigma, _ERRORS, guide)
        if found.evidence < TUNING.evidence_per_echo * count:
            # Echoes that are at rest at no velocity may be of a radar that is faster than any that was tried.
            return _smallest(alone), np.zeros(count, bool)
        choices = []
        moving = np.where(self._believed, 1 / (self._believed.sum() * span), 0)
        for velocity in found.vel[found.share > _ERRORS.max_rival]:
            variance = doppler_variance(echoes, velocity, sigma)
            squares = (echoes.doppler + (echoes.direction * velocity).sum(axis=2)) ** 2 / variance
            density = np.exp(-0.5 * squares) / np.sqrt(2 * np.pi * variance)
            static = (density * np.exp(echoes.likelihood)).max(axis=1) > 1 / span
            share = (np.count_nonzero(static) + 1) / (count + 2)
            # A target that moves may have any Doppler of the believed numbers.
            likelihood = echoes.likelihood + np.log(share * density + (1 - share) * moving + 1e-30)
            choices.append((_smallest(likelihood), _certain(likelihood)))
        first = choices[0][0]
        certain = np.all([sure & (choice == first) for choice, sure in choices], axis=0)
        believed = self._believed[first]
        return np.where(believed, first, _smallest(alone)), believed & certain


def _phase_likelihood(explained: np.ndarray, snr: np.ndarray, antennas: int) -> np.ndarray:
    """Logarithm of the likelihood of each ambiguity number by the phases, f8 (echo, number), 0 for the most likely.

    Args:
        explained: f8 (echo, number), share of the echo's power that the best beam explains.
        snr: f8 (echo,), power over noise of one antenna.
        antennas: number of virtual antennas.
    """
    best = explained.max(axis=1)
    strong = snr > TUNING.strong_snr
    misfit = TUNING.min_misfit
    if np.count_nonzero(strong) >= TUNING.min_echoes:
        misfit = max(float(np.mean(1 - best[strong])), misfit)
    # What no number explains, such as a second target in the cell, speaks for none of them.
    unexplained = 1 / snr + np.maximum(misfit, 1 - best)
    return np.maximum(antennas * (explained - best[:, None]) / unexplained[:, None], -TUNING.certain)


def _smallest(likelihood: np.ndarray) -> np.ndarray:
    """The first, and so smallest, ambiguity number of each echo that is not far less likely than the best one."""
    first: np.ndarray = (likelihood > likelihood.max(axis=1, keepdims=True) - TUNING.certain).argmax(axis=1)
    return first


def _certain(likelihood: np.ndarray) -> np.ndarray:
    ordered = np.sort(likelihood, axis=1)
    certain: np.ndarray = ordered[:, -1] - ordered[:, -2] >= TUNING.certain
    return certain
