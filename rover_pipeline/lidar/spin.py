"""When a lidar that spins measured points that come without times: by their azimuth."""

from __future__ import annotations

from typing import Literal

import numpy as np

#: Sense in which the beams turn, seen from above.
Turning = Literal["clockwise", "counterclockwise"]


def share_of_turn(xyz: np.ndarray, turning: Turning) -> np.ndarray:
    """How much of a turn the beams have made when they meet points, from -0.5 (behind) over 0 (ahead) to 0.5 (behind).

    Args:
        xyz: (N, 3), front-left-up.

    Returns:
        f8 (N,).
    """
    turn = np.arctan2(np.asarray(xyz[:, 1], "f8"), np.asarray(xyz[:, 0], "f8")) / (2 * np.pi)
    return -turn if turning == "clockwise" else turn
