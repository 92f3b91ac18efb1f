"""From the peaks of a frame to their true Doppler: each peak under each number of folds, and which one it is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rover_pipeline.numerics.linear import matmul
from rover_pipeline.radar.boards import Board
from rover_pipeline.radar.coherence import plane_waves
from rover_pipeline.radar.detect import Peaks
from rover_pipeline.radar.folds import Hypotheses, decide, phase_likelihood, phases_decide

#: Intervals of the sines at which the beams of an array are compared with each other.
_AZIMUTHS, _ELEVATIONS = 32, 8

#: Folds beyond those of a target that are tried for the velocity of the radar itself.
_BEYOND = 3

#: Gives the directions of peaks, f8 (peak, 3), and the shares of their power that the beams there explain, f8 (peak,).
#: The Doppler of a peak may lie beyond the bins. The flag asks for accurate directions.
Echoes = Callable[[Peaks, bool], tuple[np.ndarray, np.ndarray]]


class Unfolder:
    """Tells how many times the Doppler of peaks has wrapped around.

    Args:
        bin_mps: size of a Doppler bin, m/s.
        most: largest number of folds of a target, 1 or more.
    """

    def __init__(self, board: Board, bin_mps: float, most: int) -> None:
        self._bin_mps = bin_mps
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
        open_ = np.flatnonzero(~phases_decide(share, peaks.snr, self._antennas, self._likeness))
        others = len(self._remainders)
        if len(open_) and others:
            tried = Peaks(*(np.tile(values[open_], others) for values in peaks))
            tried = tried._replace(doppler=tried.doppler + np.repeat(self._remainders, len(open_)) * float(bins))
            found, shares = echoes(tried, False)
            directions[open_, 1:] = np.swapaxes(found.reshape(others, -1, 3), 0, 1)
            explained[open_, 1:] = shares.reshape(others, -1).T
        likelihood = phase_likelihood(explained, peaks.snr, self._antennas)
        hypotheses = Hypotheses(
            np.ascontiguousarray(directions[:, self._remainder]),
            (peaks.doppler[:, None] - bins // 2 + self._folds * float(bins)) * self._bin_mps,
            np.ascontiguousarray(likelihood[:, self._remainder]),
            self._believed,
            bins * self._bin_mps,
        )
        decision = decide(hypotheses, self._bin_mps, guide)
        folds = self._folds[decision.fold]
        some = np.flatnonzero(folds)
        if len(some):
            folded = Peaks(*(values[some] for values in peaks))
            folded = folded._replace(doppler=folded.doppler + folds[some] * float(bins))
            direction[some], _ = echoes(folded, True)
        return folds, decision.certain, direction


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
