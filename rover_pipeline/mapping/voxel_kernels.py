"""Compiled inner loops of the voxel map."""

from __future__ import annotations

import numpy as np

from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.numerics.voxel_table import EMPTY, find_slot, voxel_key

#: Units in which positions within a voxel are summed, per edge of a voxel before any doubling.
UNITS = 1024


@compiled
def add_points(
    points: np.ndarray, rfl: np.ndarray, start: int, edge: float, table: np.ndarray, used: int
) -> tuple[int, int]:
    """Adds points to a table of voxels until it is 60 % full.

    A slot is half a cache line, since nearly every new voxel is a cache miss; two sums of 32 bits share a word.

    Args:
        points: f8 (N, 3), m; NaN is skipped.
        rfl: u1 (N,).
        start: the first point to add.
        edge: of a voxel, m.
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
        if np.isnan(points[n, 0]):
            continue
        x, y, z = points[n, 0] * scale, points[n, 1] * scale, points[n, 2] * scale
        i, j, k = int(np.floor(x)), int(np.floor(y)), int(np.floor(z))
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
        table[slot, 2] += (int((x - i) * UNITS) << 32) | int((y - j) * UNITS)
        table[slot, 3] += int((z - k) * UNITS)
    return len(points), used


@compiled
def add_rows(rows: np.ndarray, start: int, table: np.ndarray, used: int) -> tuple[int, int]:
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
