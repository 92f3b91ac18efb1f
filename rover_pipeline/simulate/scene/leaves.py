"""Leaves: what a ray meets in foliage, an ellipsoid that is full of small discs.

The volume is divided into cubic cells. A hash of the cell gives its leaf: a disc at a fixed position with a fixed
direction. So the leaves stand still from sweep to sweep, and a ray from elsewhere meets other leaves. How far rays get
is close to exponentially distributed, as in the turbid-medium model of canopies (Ross, The Radiation Regime and
Architecture of Plant Stands, 1981).
"""

from __future__ import annotations

import math

import numpy as np

from rover_pipeline.numerics.compiled import compiled

#: Edge of a cell, as a fraction of the mean free path. Discs at random would give pi / 8; one disc in every cell, cut
#: off at its faces, gives what rays through such cells show. Physics: geometry, measured by `test_leaves.py`.
_CELL = 0.415
#: Radius of a leaf, and how far its centre is from the middle of its cell at most, in edges of the cell. Layout.
_RADIUS, _SHIFT = 0.5, 0.25
#: Metres. A lidar in the middle of a bush still sees its nearest leaves from outside. Layout.
_NEAR = 1e-4


@compiled
def distance_to_leaf(
    lx: float, ly: float, lz: float, ux: float, uy: float, uz: float, hx: float, hy: float, hz: float,
    depth: float, seed: int, limit: float,
) -> float:  # fmt: skip
    """Metres along a unit ray to the first leaf of an ellipsoid; infinite when it meets none before `limit`.

    Args:
        lx, ly, lz, ux, uy, uz: origin and direction in the ellipsoid's own axes.
        hx, hy, hz: half axes, metres.
        depth: mean free path, metres.
        seed: gives each ellipsoid other leaves.
    """
    # The ray in a frame in which the ellipsoid is the unit sphere.
    px, py, pz = lx / hx, ly / hy, lz / hz
    qx, qy, qz = ux / hx, uy / hy, uz / hz
    a, b, c = qx * qx + qy * qy + qz * qz, px * qx + py * qy + pz * qz, px * px + py * py + pz * pz - 1.0
    root = b * b - a * c
    if root <= 0.0:
        return np.inf
    root = math.sqrt(root)
    t, leave = max((-b - root) / a, _NEAR), min((-b + root) / a, limit)
    if t >= leave:
        return np.inf
    # From cell to cell (Amanatides and Woo, Eurographics 1987).
    edge = _CELL * depth
    i, j, k = _cell_of(lx + t * ux, edge), _cell_of(ly + t * uy, edge), _cell_of(lz + t * uz, edge)
    step_i, step_j, step_k = (1 if ux > 0.0 else -1), (1 if uy > 0.0 else -1), (1 if uz > 0.0 else -1)
    width_x = edge / abs(ux) if ux != 0.0 else np.inf
    width_y = edge / abs(uy) if uy != 0.0 else np.inf
    width_z = edge / abs(uz) if uz != 0.0 else np.inf
    next_x = ((i + (ux > 0.0)) * edge - lx) / ux if ux != 0.0 else np.inf
    next_y = ((j + (uy > 0.0)) * edge - ly) / uy if uy != 0.0 else np.inf
    next_z = ((k + (uz > 0.0)) * edge - lz) / uz if uz != 0.0 else np.inf
    radius2 = (_RADIUS * edge) * (_RADIUS * edge)
    while t < leave:
        end = min(next_x, next_y, next_z)
        sx, sy, sz, nx, ny, nz = _leaf(i, j, k, seed)
        cx, cy, cz = (i + 0.5 + sx) * edge - lx, (j + 0.5 + sy) * edge - ly, (k + 0.5 + sz) * edge - lz
        along = nx * ux + ny * uy + nz * uz
        if along != 0.0:
            hit = (nx * cx + ny * cy + nz * cz) / along
            if t <= hit < min(end, leave):
                x, y, z = hit * ux - cx, hit * uy - cy, hit * uz - cz
                if x * x + y * y + z * z <= radius2:
                    return hit
        if next_x == end:
            i, next_x = i + step_i, next_x + width_x
        elif next_y == end:
            j, next_y = j + step_j, next_y + width_y
        else:
            k, next_z = k + step_k, next_z + width_z
        t = end
    return np.inf


@compiled
def leaf_normal(lx: float, ly: float, lz: float, depth: float, seed: int) -> tuple[float, float, float]:
    """Unit normal of the leaf at a point in the ellipsoid's own axes."""
    edge = _CELL * depth
    _, _, _, x, y, z = _leaf(_cell_of(lx, edge), _cell_of(ly, edge), _cell_of(lz, edge), seed)
    length = math.sqrt(x * x + y * y + z * z)
    return x / length, y / length, z / length


@compiled
def scattered(i: int, j: int, k: int, seed: int) -> int:
    """A fixed random number of 32 bits for a cell of the integer grid."""
    h = (i * 374761393 + j * 668265263 + k * 2246822519 + seed * 3266489917) & 0xFFFFFFFF
    return _mixed(_mixed(h))


@compiled
def _mixed(h: int) -> int:
    h = ((h ^ (h >> 15)) * 2246822519) & 0xFFFFFFFF
    h = ((h ^ (h >> 13)) * 3266489917) & 0xFFFFFFFF
    return h ^ (h >> 16)


@compiled
def _cell_of(position: float, edge: float) -> int:
    return math.floor(position / edge)


@compiled
def _leaf(i: int, j: int, k: int, seed: int) -> tuple[float, float, float, float, float, float]:
    """The leaf of a cell: the offset of its centre in edges of the cell, and its normal, which has no unit length."""
    first = scattered(i, j, k, seed)
    second = _mixed(first + 1)
    third = _mixed(second + 1)
    scale = 1.0 / 65536.0
    return (
        _SHIFT * (2.0 * scale * (first & 0xFFFF) - 1.0),
        _SHIFT * (2.0 * scale * (first >> 16) - 1.0),
        _SHIFT * (2.0 * scale * (second & 0xFFFF) - 1.0),
        # Halves of a step keep the normal from being zero.
        scale * ((second >> 16) + 0.5) - 0.5,
        scale * ((third & 0xFFFF) + 0.5) - 0.5,
        scale * ((third >> 16) + 0.5) - 0.5,
    )
