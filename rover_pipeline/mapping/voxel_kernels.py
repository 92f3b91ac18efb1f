"""Compiled inner loops of the voxels. Kernels that call one another belong in one file: Numba's cache on disk notices a
changed file only for the kernel that Python calls."""

from __future__ import annotations

import numpy as np

from rover_pipeline.numerics.compiled import compiled

#: Voxel coordinates are packed into one integer, 21 bits each.
BITS = 21
BIAS = 1 << (BITS - 1)
#: Units in which places within a voxel are summed, of its edge before any doubling.
UNITS = 1024
#: Key of an empty place in a table.
EMPTY = -1


@compiled
def _hash(key: int, size: int) -> int:
    """First place to look for `key` in an open-addressed table whose size is a power of two (Fibonacci hashing)."""
    return ((key * 0x1E3779B97F4A7C15) >> 32) & (size - 1)


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
        table: i8 (slot, 4): key; number of points and sum of reflectivity; sums of x and of y; sum of z. Places are in
            units within the voxel.
        used: slots that are taken.

    Returns:
        The point that stopped it (N at the end), and the slots taken now.
    """
    size = len(table)
    limit = size * 3 // 5
    last, at = EMPTY, 0
    scale = 1.0 / edge
    for n in range(start, len(points)):
        if np.isnan(points[n, 0]):
            continue
        x, y, z = points[n, 0] * scale, points[n, 1] * scale, points[n, 2] * scale
        i, j, k = int(np.floor(x)), int(np.floor(y)), int(np.floor(z))
        key = ((i + BIAS) << (2 * BITS)) | ((j + BIAS) << BITS) | (k + BIAS)
        if key != last:  # neighbours in a beam are mostly in the same voxel
            at = _hash(key, size)
            while table[at, 0] != key:
                if table[at, 0] == EMPTY:
                    if used >= limit:
                        return n, used
                    table[at, 0] = key
                    used += 1
                    break
                at = (at + 1) & (size - 1)
            last = key
        table[at, 1] += (1 << 32) | int(rfl[n])
        table[at, 2] += (int((x - i) * UNITS) << 32) | int((y - j) * UNITS)
        table[at, 3] += int((z - k) * UNITS)
    return len(points), used


@compiled
def add_rows(
    new_keys: np.ndarray, new_sums: np.ndarray, start: int, keys: np.ndarray, sums: np.ndarray, used: int
) -> tuple[int, int]:
    """Adds voxels, some of which may be the same, to a table of voxels until it is 60 % full.

    Args:
        new_keys, new_sums: i8 (N,) and (N, 5): points, sums of x, y, z and of reflectivity.
        start: the first row to add.
        keys, sums: i8 (slot,) and (slot, 5).
        used: slots that are taken.

    Returns:
        The row that stopped it (N at the end), and the slots taken now.
    """
    size = len(keys)
    limit = size * 3 // 5
    for n in range(start, len(new_keys)):
        key = new_keys[n]
        at = _hash(key, size)
        while keys[at] != key:
            if keys[at] == EMPTY:
                if used >= limit:
                    return n, used
                keys[at] = key
                used += 1
                break
            at = (at + 1) & (size - 1)
        for part in range(5):
            sums[at, part] += new_sums[n, part]
    return len(new_keys), used


@compiled
def move_slots(old: np.ndarray, table: np.ndarray) -> None:
    """Copies the taken slots of a table of points to an empty larger one."""
    size = len(table)
    for n in range(len(old)):
        if old[n, 0] != EMPTY:
            at = _hash(old[n, 0], size)
            while table[at, 0] != EMPTY:
                at = (at + 1) & (size - 1)
            table[at] = old[n]
