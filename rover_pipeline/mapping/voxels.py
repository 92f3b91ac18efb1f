"""Points summed by voxel: exact whatever their order, in memory that does not grow with the recording."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.numerics.voxel_table import (
    EMPTY,
    copy_voxels,
    empty_table,
    find_slot,
    pack_key,
    unpack_key,
    voxel_key,
)

#: Units in which positions within a voxel are summed, per edge of a voxel before any doubling. Layout.
_UNITS = 1024
#: Slots of a new table, which grows. Schedule.
_FIRST_SLOTS = 1 << 14


class Cloud(NamedTuple):
    """The points of a map, one a voxel."""

    xyz: np.ndarray  #: f8 (N, 3), m, mean of the voxel's points.
    intensity: np.ndarray  #: f4 (N,), their mean reflectivity.
    counts: np.ndarray  #: u4 (N,), how many they are.


class PointTable:
    """Points of some sweeps by voxel. At most four million points, so that their sums fit in 32 bits."""

    def __init__(self, edge: float) -> None:
        self.edge = edge
        self._used, self._table = 0, empty_table(_FIRST_SLOTS, 4)

    def add(self, points: np.ndarray, rfl: np.ndarray) -> None:
        """Add points, f8 (N, 3) m, NaN = none, with their reflectivity, u1 (N,)."""
        self._used, self._table = _insert(_add_points, (points, rfl, self.edge), self._used, self._table)

    def rows(self) -> np.ndarray:
        """The voxels, i8 (N, 4), as `_add_points` packs them."""
        return self._table[self._table[:, 0] != EMPTY]


class VoxelMap:
    """Sums of points by voxel, in integers: no rounding, so the order in which points come changes nothing."""

    def __init__(self, edge: float, max_voxels: int) -> None:
        self.level = 0  #: how often the edge was doubled to keep within `max_voxels` voxels.
        self._edge, self._max_voxels = edge, max_voxels
        self._used, self._table = 0, empty_table(_FIRST_SLOTS, 6)

    def __len__(self) -> int:
        return self._used

    @property
    def edge(self) -> float:
        """Of the voxels as they are now, m."""
        return self._edge * (1 << self.level)

    def merge(self, rows: np.ndarray) -> None:
        """Add the voxels of a `PointTable` of the same edge. Doubles the edge while there are more than `max_voxels`.

        A voxel, once there, stays: whatever order tables come in, the edge ends at the first size that is enough.
        """
        low = (1 << 32) - 1
        rows = np.stack(
            [rows[:, 0], rows[:, 1] >> 32, rows[:, 2] >> 32, rows[:, 2] & low, rows[:, 3], rows[:, 1] & low], -1
        )
        for level in range(self.level):
            rows = _doubled(rows, level)
        self._used, self._table = _insert(_add_rows, (rows,), self._used, self._table)
        while self._used > self._max_voxels:
            rows = _doubled(self._rows(), self.level)
            self.level += 1
            self._used, self._table = _insert(_add_rows, (rows,), 0, empty_table(_FIRST_SLOTS, 6))

    def cloud(self) -> Cloud:
        """The map: a point for each voxel, in the order of their keys."""
        rows = self._rows()
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        count = rows[:, 1]
        # Positions were rounded down to a unit, so half a unit is added.
        within = (rows[:, 2:5] / count[:, None] + 0.5) / _UNITS
        xyz = (np.stack(unpack_key(rows[:, 0]), -1) * (1 << self.level) + within) * self._edge
        return Cloud(xyz, (rows[:, 5] / count).astype("f4"), count.astype("u4"))

    def _rows(self) -> np.ndarray:
        return self._table[self._table[:, 0] != EMPTY]


def _insert(
    add: Callable[..., tuple[int, int]], data: tuple[Any, ...], used: int, table: np.ndarray
) -> tuple[int, np.ndarray]:
    """Add `data` by a kernel; the number of voxels then, and their table, which is a larger one if needed."""
    done = 0
    while True:
        done, used = add(*data, done, table, used)
        if done == len(data[0]):
            return used, table
        larger = empty_table(2 * len(table), table.shape[1])
        copy_voxels(table, larger)
        table = larger


def _doubled(rows: np.ndarray, level: int) -> np.ndarray:
    """The voxels of twice the edge that hold these. Positions are shifted to the new corner, and keys may repeat."""
    fine = np.stack(unpack_key(rows[:, 0]), -1)
    coarse = fine >> 1
    doubled = rows.copy()
    doubled[:, 0] = pack_key(*coarse.T)
    doubled[:, 2:5] += (fine - 2 * coarse) * (_UNITS << level) * rows[:, 1:2]
    return doubled


@compiled
def _add_points(
    points: np.ndarray, rfl: np.ndarray, edge: float, start: int, table: np.ndarray, used: int
) -> tuple[int, int]:
    """Adds points to a table of voxels until it is 60 % full.

    A slot is half a cache line, since nearly every new voxel is a cache miss; two sums of 32 bits share a word.

    Args:
        points: f8 (N, 3), m; NaN is skipped.
        rfl: u1 (N,).
        edge: of a voxel, m.
        start: the first point to add.
        table: i8 (slot, 4): key (see `numerics.voxel_table`); number of points and sum of reflectivity; sums of x and
            of y; sum of z. Positions are in units within the voxel.
        used: number of voxels in the table.

    Returns:
        The first point that was not added (N at the end), and the number of voxels in the table.
    """
    limit = len(table) * 3 // 5
    last, slot = EMPTY, 0
    scale = 1.0 / edge
    for n in range(start, len(points)):
        if points[n, 0] != points[n, 0]:  # no return
            continue
        x, y, z = points[n, 0] * scale, points[n, 1] * scale, points[n, 2] * scale
        i, j, k = math.floor(x), math.floor(y), math.floor(z)
        key = voxel_key(i, j, k)
        if key != last:  # neighbours in a beam are mostly in the same voxel
            slot = find_slot(table, key)
            if table[slot, 0] == EMPTY:
                if used >= limit:
                    return n, used
                table[slot, 0] = key
                used += 1
            last = key
        table[slot, 1] += (1 << 32) | int(rfl[n])
        table[slot, 2] += (int((x - i) * _UNITS) << 32) | int((y - j) * _UNITS)
        table[slot, 3] += int((z - k) * _UNITS)
    return len(points), used


@compiled
def _add_rows(rows: np.ndarray, start: int, table: np.ndarray, used: int) -> tuple[int, int]:
    """Adds voxels, some of which may be the same, to a table of voxels until it is 60 % full.

    Args:
        rows: i8 (N, 6): key; number of points; sums of x, y, z and of reflectivity.
        start: the first row to add.
        table: i8 (slot, 6).
        used: number of voxels in the table.

    Returns:
        The first row that was not added (N at the end), and the number of voxels in the table.
    """
    limit = len(table) * 3 // 5
    for n in range(start, len(rows)):
        slot = find_slot(table, rows[n, 0])
        if table[slot, 0] == EMPTY:
            if used >= limit:
                return n, used
            table[slot, 0] = rows[n, 0]
            used += 1
        for part in range(1, 6):
            table[slot, part] += rows[n, part]
    return len(rows), used
