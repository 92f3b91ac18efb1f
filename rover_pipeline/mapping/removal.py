"""Leaves out of a map what moves: the returns from within the boxes of `_objects`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from rover_pipeline.mapping.tuning import TUNING
from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.numerics.linear import matmul

_MARGIN_M, _GROUND_M = TUNING.margin_m, TUNING.ground_m


class Boxes(NamedTuple):
    """The boxes of what moves, by sweep, in a world whose z is up.

    Attributes:
        first: i8 (sweep + 1,), number of the first box of each sweep.
        centre, extent, vel: f8 (box, 3), m and m/s, at the sweep's time stamp.
        ahead: f8 (box, 2), horizontal unit vector along the length.
    """

    first: np.ndarray
    centre: np.ndarray
    extent: np.ndarray
    vel: np.ndarray
    ahead: np.ndarray

    @staticmethod
    def of(objects: Mapping[str, np.ndarray], level: np.ndarray) -> Boxes:
        """The boxes of `_objects`, without those of what was never seen to move, whose velocity is zero.

        Args:
            level: f8 (3, 3), from the frame of `_odom` to the world whose z is up.
        """
        listed = np.arange(objects["yaw"].shape[1]) < objects["count"][:, None]
        sweep, row = np.nonzero(listed & (objects["vel"] != 0).any(axis=-1))
        centre, extent, vel = (objects[name][sweep, row].astype("f8") for name in ("centre", "extent", "vel"))
        yaw = objects["yaw"][sweep, row].astype("f8")
        ahead = matmul(np.column_stack([np.cos(yaw), np.sin(yaw), np.zeros(len(yaw))]), level.T)
        ahead = ahead[:, :2] / np.linalg.norm(ahead[:, :2], axis=1, keepdims=True)
        first = np.searchsorted(sweep, np.arange(len(listed) + 1))
        return Boxes(first, matmul(centre, level.T), extent, matmul(vel, level.T), ahead)

    def remove(self, points: np.ndarray, sweep: int, since: np.ndarray) -> int:
        """Make the points of a sweep within its boxes NaN; returns how many.

        Args:
            points: f8 (beam, column, 3), m, in the world; NaN = no return.
            since: f8 (column,), s, from the time stamp to each column. Boxes move meanwhile.
        """
        own = slice(self.first[sweep], self.first[sweep + 1])
        half = self.extent[own] / 2
        return int(_remove(points, since, self.centre[own], half, self.vel[own], self.ahead[own]))


@compiled
def _remove(
    points: np.ndarray, since: np.ndarray, centre: np.ndarray, half: np.ndarray, vel: np.ndarray, ahead: np.ndarray
) -> int:
    beams, columns = points.shape[:2]
    removed = 0
    for n in range(len(centre)):
        for c in range(columns):
            x0 = centre[n, 0] + since[c] * vel[n, 0]
            y0 = centre[n, 1] + since[c] * vel[n, 1]
            z0 = centre[n, 2] + since[c] * vel[n, 2]
            for b in range(beams):
                x, y, z = points[b, c, 0] - x0, points[b, c, 1] - y0, points[b, c, 2] - z0
                if not (_GROUND_M - half[n, 2] <= z <= half[n, 2] + _MARGIN_M):
                    continue
                along = abs(ahead[n, 0] * x + ahead[n, 1] * y)
                left = abs(ahead[n, 0] * y - ahead[n, 1] * x)
                if along <= half[n, 0] + _MARGIN_M and left <= half[n, 1] + _MARGIN_M:
                    points[b, c, 0] = points[b, c, 1] = points[b, c, 2] = np.nan
                    removed += 1
    return removed
