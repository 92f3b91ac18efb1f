"""Points summed by voxel: exact whatever their order, in memory that does not grow with the recording."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.mapping.voxel_kernels import UNITS, add_points, add_rows
from rover_pipeline.numerics.voxel_table import EMPTY, copy_voxels, empty_table, pack_key, unpack_key

_FIRST_SLOTS = 1 << 14


class Cloud(NamedTuple):
    """The points of a map, one a voxel.

    Attributes:
        xyz: f8 (N, 3), m, mean of the voxel's points.
        intensity: f4 (N,), their mean reflectivity.
        counts: u4 (N,), how many they are.
    """

    xyz: np.ndarray
    intensity: np.ndarray
    counts: np.ndarray


class PointTable:
    """Points of some sweeps by voxel. At most four million points, so that their sums fit in 32 bits."""

    def __init__(self, edge: float) -> None:
        self.edge = edge
        self._used = 0
        self._table = empty_table(_FIRST_SLOTS, 4)

    def add(self, points: np.ndarray, rfl: np.ndarray) -> None:
        """Add points, f8 (N, 3) m, NaN = none, with their reflectivity, u1 (N,)."""
        done = 0
        while True:
            done, self._used = add_points(points, rfl, done, self.edge, self._table, self._used)
            if done == len(points):
                return
            larger = empty_table(4 * len(self._table), 4)
            copy_voxels(self._table, larger)
            self._table = larger

    def rows(self) -> np.ndarray:
        """The voxels, i8 (N, 4), as `voxel_kernels.add_points` packs them."""
        return self._table[self._table[:, 0] != EMPTY]


class VoxelMap:
    """Sums of points by voxel, in integers: no rounding, so the order in which points come changes nothing.

    Attributes:
        level: how often the edge was doubled to keep within `most` voxels.
    """

    def __init__(self, edge: float, most: int) -> None:
        self.level = 0
        self._edge, self._most = edge, most
        self._used, self._table = 0, empty_table(_FIRST_SLOTS, 6)

    def __len__(self) -> int:
        return self._used

    @property
    def edge(self) -> float:
        """Of the voxels as they are now, m."""
        return self._edge * (1 << self.level)

    def merge(self, rows: np.ndarray) -> None:
        """Add the voxels of a `PointTable` of the same edge. Doubles the edge while there are more than `most`.

        A voxel, once there, stays: whatever order tables come in, the edge ends at the first size that is enough.
        """
        low = (1 << 32) - 1
        rows = np.stack(
            [rows[:, 0], rows[:, 1] >> 32, rows[:, 2] >> 32, rows[:, 2] & low, rows[:, 3], rows[:, 1] & low], -1
        )
        for level in range(self.level):
            rows = _doubled(rows, level)
        self._insert(rows)
        while self._used > self._most:
            rows = _doubled(self._rows(), self.level)
            self.level += 1
            self._used, self._table = 0, empty_table(_FIRST_SLOTS, 6)
            self._insert(rows)

    def cloud(self) -> Cloud:
        """The map: a point for each voxel, in the order of their keys."""
        rows = self._rows()
        rows = rows[np.argsort(rows[:, 0])]
        count = rows[:, 1]
        # Positions were rounded down to a unit, so half a unit is added.
        within = (rows[:, 2:5] / count[:, None] + 0.5) / UNITS
        xyz = (np.stack(unpack_key(rows[:, 0]), -1) * (1 << self.level) + within) * self._edge
        return Cloud(xyz, (rows[:, 5] / count).astype("f4"), count.astype("u4"))

    def _rows(self) -> np.ndarray:
        return self._table[self._table[:, 0] != EMPTY]

    def _insert(self, rows: np.ndarray) -> None:
        done = 0
        while True:
            done, self._used = add_rows(rows, done, self._table, self._used)
            if done == len(rows):
                return
            larger = empty_table(2 * len(self._table), 6)
            copy_voxels(self._table, larger)
            self._table = larger


def _doubled(rows: np.ndarray, level: int) -> np.ndarray:
    """The voxels of twice the edge that hold these. Positions are shifted to the new corner, and keys may repeat."""
    fine = np.stack(unpack_key(rows[:, 0]), -1)
    coarse = fine >> 1
    doubled = rows.copy()
    doubled[:, 0] = pack_key(*coarse.T)
    doubled[:, 2:5] += (fine - 2 * coarse) * (UNITS << level) * rows[:, 1:2]
    return doubled
