"""The height of the ground around some sweeps, on cells, and which points stand above it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import ndimage

#: Edge of a cell, m.
_CELL_M = 0.5
#: What is narrower than this does not lift the ground, m: cars and hedges below which no ground is seen.
_OPENING_M = 5.5
#: A cell this far below the cells around it holds a false return from below the ground, m.
_PIT_M = 0.6


class Ground(NamedTuple):
    """Heights of the ground.

    Attributes:
        corner: f8 (2,), x and y of the first cell's corner, m.
        height: f8 (x cell, y cell), z of the ground, m.
    """

    corner: np.ndarray
    height: np.ndarray

    @staticmethod
    def of(points: np.ndarray) -> Ground | None:
        """The ground below points, f8 (N, 3) m, z up; None without points.

        The lowest points of cells are opened, as in the progressive filter of Zhang et al. (A progressive
        morphological filter, 2003): what is narrower than the window and rises above its surroundings is not ground.
        """
        if not len(points):
            return None
        corner = np.floor(points[:, :2].min(axis=0) / _CELL_M) * _CELL_M
        cell = ((points[:, :2] - corner) / _CELL_M).astype("i8")
        shape = cell.max(axis=0) + 1
        lowest = np.full(shape, np.inf)
        np.minimum.at(lowest, (cell[:, 0], cell[:, 1]), points[:, 2])
        lowest = _filled(lowest)
        around = ndimage.median_filter(lowest, size=5, mode="nearest")
        lowest = np.where(lowest < around - _PIT_M, around, lowest)
        opened = ndimage.grey_opening(lowest, size=round(_OPENING_M / _CELL_M), mode="nearest")
        return Ground(corner, ndimage.uniform_filter(opened, 3, mode="nearest"))

    def at(self, points: np.ndarray) -> np.ndarray:
        """z of the ground below points, f8 (N, 2 or 3), m; that of the nearest cell outside of the cells."""
        cell = np.clip(((points[:, :2] - self.corner) / _CELL_M).astype("i8"), 0, np.array(self.height.shape) - 1)
        return np.asarray(self.height[cell[:, 0], cell[:, 1]])


def _filled(cells: np.ndarray) -> np.ndarray:
    """Cells with the values of the nearest finite ones where they are infinite."""
    empty = np.isinf(cells)
    nearest = ndimage.distance_transform_edt(empty, return_distances=False, return_indices=True)
    return np.asarray(cells[tuple(nearest)])
