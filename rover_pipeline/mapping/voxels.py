"""Points summed by voxel: exact whatever their order, in memory that does not grow with the recording."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.mapping.voxel_kernels import BIAS, BITS, EMPTY, UNITS, add_points, add_rows, move_slots

_MASK = (1 << BITS) - 1


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
        self._table = _empty_slots(1 << 14)

    def add(self, points: np.ndarray, rfl: np.ndarray) -> None:
        """Add points, f8 (N, 3) m, NaN = none, with their reflectivity, u1 (N,)."""
        done = 0
        while True:
            done, self._used = add_points(points, rfl, done, self.edge, self._table, self._used)
            if done == len(points):
                return
            larger = _empty_slots(4 * len(self._table))
            move_slots(self._table, larger)
            self._table = larger

    def rows(self) -> np.ndarray:
        """The voxels, i8 (N, 4), as `kernels.add_points` packs them."""
        return self._table[self._table[:, 0] != EMPTY]


class VoxelMap:
    """Sums of points by voxel, in integers: no rounding, so the order in which points come changes nothing.

    Attributes:
        level: how often the edge was doubled to keep within `most` voxels.
    """

    def __init__(self, edge: float, most: int) -> None:
        self.level = 0
        self._edge, self._most = edge, most
        self._clear(1 << 14)

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
        keys, low = rows[:, 0], (1 << 32) - 1
        sums = np.stack([rows[:, 1] >> 32, rows[:, 2] >> 32, rows[:, 2] & low, rows[:, 3], rows[:, 1] & low], -1)
        for level in range(self.level):
            keys, sums = _doubled(keys, sums, level)
        self._insert(keys, sums)
        while self._used > self._most:
            taken = self._keys != EMPTY
            keys, sums = _doubled(self._keys[taken], self._sums[taken], self.level)
            self.level += 1
            self._clear(1 << 14)
            self._insert(keys, sums)

    def cloud(self) -> Cloud:
        """The map: a point for each voxel, in the order of their keys."""
        taken = np.flatnonzero(self._keys != EMPTY)
        taken = taken[np.argsort(self._keys[taken])]
        keys, sums = self._keys[taken], self._sums[taken]
        count = sums[:, 0]
        # The place of a point was rounded down to a unit: half a one is added.
        within = (sums[:, 1:4] / count[:, None] + 0.5) / UNITS
        xyz = (_coordinates(keys) * (1 << self.level) + within) * self._edge
        return Cloud(xyz, (sums[:, 4] / count).astype("f4"), count.astype("u4"))

    def _clear(self, size: int) -> None:
        self._used, self._keys, self._sums = 0, np.full(size, EMPTY, "i8"), np.zeros((size, 5), "i8")

    def _insert(self, keys: np.ndarray, sums: np.ndarray) -> None:
        done = 0
        while True:
            done, self._used = add_rows(keys, sums, done, self._keys, self._sums, self._used)
            if done == len(keys):
                return
            taken = self._keys != EMPTY
            old_keys, old_sums = self._keys[taken], self._sums[taken]
            self._clear(2 * len(self._keys))
            _, self._used = add_rows(old_keys, old_sums, 0, self._keys, self._sums, 0)


def _empty_slots(size: int) -> np.ndarray:
    table = np.zeros((size, 4), "i8")
    table[:, 0] = EMPTY
    return table


def _coordinates(keys: np.ndarray) -> np.ndarray:
    """Voxel coordinates, i8 (N, 3), of packed keys."""
    return np.stack([(keys >> shift & _MASK) - BIAS for shift in (2 * BITS, BITS, 0)], -1)


def _doubled(keys: np.ndarray, sums: np.ndarray, level: int) -> tuple[np.ndarray, np.ndarray]:
    """The voxels of twice the edge that hold these; places are shifted to the new voxel's corner. Rows may repeat."""
    fine = _coordinates(keys)
    coarse = fine >> 1
    shifted = sums.copy()
    shifted[:, 1:4] += (fine - 2 * coarse) * (UNITS << level) * sums[:, :1]
    i, j, k = (coarse + BIAS).T
    return i << (2 * BITS) | j << BITS | k, shifted
