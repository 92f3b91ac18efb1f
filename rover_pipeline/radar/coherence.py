"""How well the echoes that an array receives fit plane waves, and how well their directions are known."""

from __future__ import annotations

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


def deviations(
    board: Board, snapshots: np.ndarray, snr: np.ndarray, right: np.ndarray, up: np.ndarray, array_error: float
) -> np.ndarray:
    """Standard deviations of the sines of azimuth and elevation, f8 (echo, 2); NaN where the array tells none.

    By the Cramer-Rao bound of an array (P. Stoica and A. Nehorai, MUSIC, maximum likelihood, and Cramer-Rao bound, IEEE
    Transactions on Acoustics, Speech and Signal Processing, 1989). The phases at the antennas err by the noise of the
    echo and by what the array's own phases are off. A second target in the cell shows in the coherence of the echo.

    Args:
        snapshots: c16 (echo, antenna), TDM-compensated; snr: f8 (echo,), power of an antenna over its noise.
        right, up: f8 (echo,), sines of azimuth and elevation.
        array_error: share of an echo's power that the array does not explain, of echoes of one target.
    """
    rows, columns = board.grid.T
    at = np.pi * np.stack([board.spacing * columns, board.row_spacing * rows], axis=1)[board.corrections != 0]
    at = at - at.mean(axis=0)
    spans, information = np.ptp(at, axis=0) > 0, matmul(at.T, at)
    # Antennas on one oblique line tell one angle, and neither of the two.
    if spans.all() and np.prod(np.diag(information)) - information[0, 1] ** 2 < 1e-9 * information[0, 0] ** 2:
        spans = np.zeros(2, bool)
    inverse = np.full(2, np.nan)
    if spans.any():
        inverse[spans] = np.diag(inv(information[np.ix_(spans, spans)]))
    # Of the phases, one for each antenna, the fit takes that of the echo and those of its direction.
    free = max(len(at) - 1 - int(spans.sum()), 0)
    left = np.append(array_error, 1 - coherence(board, snapshots, right, up))
    variance = left / np.maximum(1 - left, 1e-3) * len(at) / free if free else 0.0 * left
    # Half of the power of noise, and of another target, is in phase with the echo and changes no phase.
    return np.sqrt(np.maximum(variance[0] + 0.5 / snr, 0.5 * variance[1:])[:, None] * inverse)


def unit_vectors(right: np.ndarray, up: np.ndarray) -> np.ndarray:
    """Unit vectors front-left-up, f8 (echo, 3), of sines of azimuth and elevation."""
    ahead = np.sqrt(np.maximum(1 - right**2 - up**2, 0))
    direction = np.stack([ahead, -right, up], axis=-1)
    return direction / np.linalg.norm(direction, axis=-1, keepdims=True)
