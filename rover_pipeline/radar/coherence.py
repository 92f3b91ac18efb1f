"""How well the echoes that an array receives fit plane waves, and how well their directions are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from rover_pipeline.numerics.linear import inv, matmul
from rover_pipeline.radar.boards import Board


def plane_waves(board: Board, right: np.ndarray, up: np.ndarray) -> np.ndarray:
    """What the antennas would receive from directions if all had the same phase and gain, c16 (echo, antenna).

    Args:
        right, up: f8 (echo,), sines of azimuth and elevation.
    """
    rows, columns = board.grid.T
    cycles = board.spacing * columns * right[:, None] + board.row_spacing * rows * up[:, None]
    return np.exp(1j * np.pi * cycles) * board.signs


def coherence(board: Board, snapshots: np.ndarray, right: np.ndarray, up: np.ndarray) -> np.ndarray:
    """Power of the beam towards each echo over the power if all antennas were in phase, f8 (echo,), 0 to 1.

    Args:
        snapshots: c16 (echo, antenna), TDM-compensated.
    """
    corrected = snapshots * board.corrections * board.signs
    beam = np.abs((corrected * plane_waves(board, right, up).conj()).sum(axis=1)) ** 2
    most = (board.corrections != 0).sum() * (np.abs(corrected) ** 2).sum(axis=1)
    return beam / np.maximum(most, 1e-30)


class Accuracy:
    """Standard deviations of directions, by the Cramer-Rao bound of an array.

    Source: P. Stoica and A. Nehorai, MUSIC, maximum likelihood, and Cramer-Rao bound, IEEE Transactions on Acoustics,
    Speech and Signal Processing, 1989.

    The phases at the antennas err by the noise of the echo and by what the array's own phases are off. A second target
    in the cell shows in the coherence of the echo itself.

    Args:
        array_error: share of an echo's power that the array does not explain, of echoes of one target.
    """

    def __init__(self, board: Board, array_error: float) -> None:
        self._board = board
        rows, columns = board.grid.T
        at = np.pi * np.stack([board.spacing * columns, board.row_spacing * rows], axis=1)[board.corrections != 0]
        at = at - at.mean(axis=0)
        spans = np.ptp(at, axis=0) > 0
        information = matmul(at.T, at)
        # Antennas on one oblique line tell one angle, and neither of the two.
        if spans.all() and np.prod(np.diag(information)) - information[0, 1] ** 2 < 1e-9 * information[0, 0] ** 2:
            spans = np.zeros(2, bool)
        self._inverse = np.full(2, np.nan)
        if spans.any():
            self._inverse[spans] = np.diag(inv(information[np.ix_(spans, spans)]))
        # Of the phases, one for each antenna, the fit takes that of the echo and those of its direction.
        self._antennas, self._free = len(at), max(len(at) - 1 - int(spans.sum()), 0)
        self._array = self._unexplained(array_error)

    def __call__(self, snapshots: np.ndarray, snr: np.ndarray, right: np.ndarray, up: np.ndarray) -> np.ndarray:
        """Standard deviations of the sines of azimuth and elevation, f8 (echo, 2); NaN where the array tells none.

        Args:
            snapshots: c16 (echo, antenna), TDM-compensated; snr: f8 (echo,), power of an antenna over its noise.
            right, up: f8 (echo,), sines of azimuth and elevation.
        """
        own = self._unexplained(1 - coherence(self._board, snapshots, right, up))
        # Half of the power of noise, and of another target, is in phase with the echo and changes no phase.
        variance = np.maximum(self._array + 0.5 / snr, 0.5 * own)
        return np.sqrt(variance[:, None] * self._inverse)

    def _unexplained(self, share: Any) -> Any:
        """Variance of phases, rad2, of whose power a share is left when the echo and its direction are fitted."""
        return share / np.maximum(1 - share, 1e-3) * self._antennas / self._free if self._free else 0.0 * share
