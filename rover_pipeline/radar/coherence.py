"""How well the echoes that an array receives fit plane waves."""

from __future__ import annotations

import numpy as np

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
