"""Compiled inner loops of the map of planes."""

from __future__ import annotations

from typing import Any

import numpy as np

from rover_pipeline.numerics.compiled import compiled, inlined

#: A map: sizes of its voxels, and for each size the hash table, the keys and the planes.
Tables = tuple[np.ndarray, tuple[np.ndarray, ...], tuple[np.ndarray, ...], tuple[np.ndarray, ...]]
#: Key of a place in the table that holds nothing.
EMPTY = -1
#: Where the corner of a voxel lies, in voxels: floors and walls at round coordinates would lie in two voxels at once.
_SHIFT = 0.371
_HALF = 1 << 20
#: Points without which a voxel has no plane.
_LEAST = 8
#: A plane's thickness at most, metres, and its extent across at least, as a share of the voxel's edge.
_THICK, _EXTENT = 0.04, 0.08


@inlined
def _key(x: float, y: float, z: float, size: float) -> Any:
    i = np.int64(np.floor(x / size + _SHIFT)) + _HALF
    j = np.int64(np.floor(y / size + _SHIFT)) + _HALF
    k = np.int64(np.floor(z / size + _SHIFT)) + _HALF
    return (i << 42) | (j << 21) | k


@inlined
def _slot(key: int, mask: int) -> Any:
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed >> np.uint64(20)) & mask


@compiled
def rehash(index: np.ndarray, keys: np.ndarray, count: int) -> None:
    mask = len(index) - 1
    for n in range(count):
        slot = _slot(keys[n], mask)
        while index[slot] >= 0:
            slot = (slot + 1) & mask
        index[slot] = n


@compiled
def gather(
    points: np.ndarray,
    size: float,
    index: np.ndarray,
    keys: np.ndarray,
    sums: np.ndarray,
    planes: np.ndarray,
    count: int,
) -> int:
    """Add points to the sums of their voxels and renew the planes of those that grew. Returns the number of voxels."""
    mask = len(index) - 1
    touched = np.empty(len(points), np.int32)
    number = 0
    for n in range(len(points)):
        x, y, z = points[n, 0], points[n, 1], points[n, 2]
        key = _key(x, y, z, size)
        slot = _slot(key, mask)
        while index[slot] >= 0 and keys[index[slot]] != key:
            slot = (slot + 1) & mask
        at = index[slot]
        if at < 0:
            at = count
            index[slot], keys[at] = at, key
            count += 1
        if sums[at, 10] >= 0:
            # A mark that the voxel is on the list already.
            sums[at, 10] = -sums[at, 10] - 1
            touched[number] = at
            number += 1
        x -= (np.float64(((key >> 42) & 0x1FFFFF) - _HALF) - _SHIFT + 0.5) * size
        y -= (np.float64(((key >> 21) & 0x1FFFFF) - _HALF) - _SHIFT + 0.5) * size
        z -= (np.float64((key & 0x1FFFFF) - _HALF) - _SHIFT + 0.5) * size
        s = sums[at]
        s[0] += 1
        s[1] += x
        s[2] += y
        s[3] += z
        s[4] += x * x
        s[5] += x * y
        s[6] += x * z
        s[7] += y * y
        s[8] += y * z
        s[9] += z * z
    for n in range(number):
        at = touched[n]
        s = sums[at]
        last = -s[10] - 1
        if s[0] >= _LEAST and s[0] > 1.1 * last:
            _plane(keys[at], size, s, planes[at])
            last = s[0]
        s[10] = last
    return count


@compiled
def add_sums(
    other_keys: np.ndarray,
    other_sums: np.ndarray,
    size: float,
    index: np.ndarray,
    keys: np.ndarray,
    sums: np.ndarray,
    planes: np.ndarray,
    count: int,
) -> int:
    """Add the sums of other voxels, and renew the planes of those that grew. Returns the number of voxels."""
    mask = len(index) - 1
    for n in range(len(other_keys)):
        key = other_keys[n]
        slot = _slot(key, mask)
        while index[slot] >= 0 and keys[index[slot]] != key:
            slot = (slot + 1) & mask
        at = index[slot]
        if at < 0:
            at = count
            index[slot], keys[at] = at, key
            count += 1
        for i in range(10):
            sums[at, i] += other_sums[n, i]
        if sums[at, 0] >= _LEAST:
            _plane(key, size, sums[at], planes[at])
            sums[at, 10] = sums[at, 0]
    return count


@compiled
def _plane(key: int, size: float, s: np.ndarray, plane: np.ndarray) -> None:
    """The plane through the points of a voxel; none where they do not lie in one, or along the edge of the voxel."""
    n = s[0]
    mx, my, mz = s[1] / n, s[2] / n, s[3] / n
    a, b, c = s[4] / n - mx * mx, s[5] / n - mx * my, s[6] / n - mx * mz
    d, e, f = s[7] / n - my * my, s[8] / n - my * mz, s[9] / n - mz * mz
    # Eigenvalues of a symmetric 3x3 in closed form.
    mean = (a + d + f) / 3
    p = np.sqrt(((a - mean) ** 2 + (d - mean) ** 2 + (f - mean) ** 2 + 2 * (b * b + c * c + e * e)) / 6)
    plane[7] = 0.0
    if p < 1e-9:
        return
    ua, ud, uf, ub, uc, ue = (a - mean) / p, (d - mean) / p, (f - mean) / p, b / p, c / p, e / p
    half = 0.5 * (ua * (ud * uf - ue * ue) - ub * (ub * uf - ue * uc) + uc * (ub * ue - ud * uc))
    angle = np.arccos(min(1.0, max(-1.0, half))) / 3
    largest = mean + 2 * p * np.cos(angle)
    least = mean + 2 * p * np.cos(angle + 2 * np.pi / 3)
    middle = 3 * mean - largest - least
    if least > _THICK * _THICK or middle < (_EXTENT * size) ** 2 or middle < 4 * least:
        return
    # The normal is across the two rows of A - least I that span the most.
    a, d, f = a - least, d - least, f - least
    x1, y1, z1 = b * e - c * d, c * b - a * e, a * d - b * b
    x2, y2, z2 = b * f - c * e, c * c - a * f, a * e - b * c
    x3, y3, z3 = d * f - e * e, e * c - b * f, b * e - d * c
    q1, q2, q3 = x1 * x1 + y1 * y1 + z1 * z1, x2 * x2 + y2 * y2 + z2 * z2, x3 * x3 + y3 * y3 + z3 * z3
    if q2 > q1:
        x1, y1, z1, q1 = x2, y2, z2, q2
    if q3 > q1:
        x1, y1, z1, q1 = x3, y3, z3, q3
    if q1 <= 0:
        return
    scale = 1 / np.sqrt(q1)
    x1, y1, z1 = x1 * scale, y1 * scale, z1 * scale
    thick = np.sqrt(max(least, 0.0))
    # Points of a surface along a face of the voxel are cut off there: their mean is not on the surface.
    reach = 0.5 * size - max(0.01, 3 * thick)
    if abs(x1) > 0.9 and abs(mx) > reach:
        return
    if (abs(y1) > 0.9 and abs(my) > reach) or (abs(z1) > 0.9 and abs(mz) > reach):
        return
    plane[0] = mx + (np.float64(((key >> 42) & 0x1FFFFF) - _HALF) - _SHIFT + 0.5) * size
    plane[1] = my + (np.float64(((key >> 21) & 0x1FFFFF) - _HALF) - _SHIFT + 0.5) * size
    plane[2] = mz + (np.float64((key & 0x1FFFFF) - _HALF) - _SHIFT + 0.5) * size
    plane[3], plane[4], plane[5], plane[6], plane[7] = x1, y1, z1, thick, 1.0


@compiled
def place_points(points: np.ndarray, column: np.ndarray, pos: np.ndarray, rot: np.ndarray) -> np.ndarray:
    """Points in the world, f8 (N, 3).

    Args:
        points: f4 (N, 3), lidar frame.
        column: i4 (N,), which of the poses each point was seen from.
        pos, rot: f8 (C, 3), (C, 3, 3).
    """
    out = np.empty((len(points), 3))
    for n in range(len(points)):
        c = column[n]
        for i in range(3):
            out[n, i] = (
                pos[c, i] + rot[c, i, 0] * points[n, 0] + rot[c, i, 1] * points[n, 1] + rot[c, i, 2] * points[n, 2]
            )
    return out
