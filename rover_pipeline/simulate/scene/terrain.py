"""What grows, and the ground that it grows on.

Foliage is an ellipsoid that is full of small discs. Its volume is divided into cubic cells. A hash of the cell gives
its leaf: a disc at a fixed position with a fixed direction. So the leaves stand still from sweep to sweep, and a ray
from elsewhere meets other leaves. How far rays get is close to exponentially distributed, as in the turbid-medium model
of canopies (Ross, The Radiation Regime and Architecture of Plant Stands, 1981).

Terrain is undulating ground, a height field with grass on it: a sum of waves, with no plane anywhere and exact slopes.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.simulate.scene.world import TERRAIN, Part

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


#: Waves of 41, 23, 13, 6.1 and 1.9 m: direction times wave number (1/m, x and y), phase, share of the height. Layout.
_WAVES = np.array([
    (0.118, 0.097, 0.3, 0.60), (-0.121, 0.245, 1.9, 0.27), (0.453, 0.171, 4.0, 0.10), (0.35, -0.969, 2.6, 0.035),
    (2.9, 1.57, 5.1, 0.006),
])  # fmt: skip
#: The largest height, the steepest slope and the strongest curvature (1/m), for an undulation of 1 m. Layout.
_HIGHEST = float(_WAVES[:, 3].sum())
_STEEPEST = float((np.hypot(_WAVES[:, 0], _WAVES[:, 1]) * _WAVES[:, 3]).sum())
_MAX_CURVATURE = float(((_WAVES[:, 0] ** 2 + _WAVES[:, 1] ** 2) * _WAVES[:, 3]).sum())
#: Metres above the ground that count as on it, the shortest step, and the largest number of steps. Schedule.
_ON_GROUND, _SHORTEST, _STEPS = 1e-5, 1e-5, 500
#: Grass: edge of the cells that have one blade each, and how far a ray gets through it on average, metres. Layout.
_BLADE, _THROUGH_GRASS = 0.02, 0.1
#: Metres. A ray along the ground is in the grass no longer than this. Layout.
_LONGEST_IN_GRASS = 0.5


def terrain(half_x: float, half_y: float, undulation: float, grass: float, material: str) -> Part:
    """The ground around the origin; it rises and falls by about `undulation` metres; height of its grass in metres."""
    return Part(TERRAIN, (0.0, 0.0, 0.0), (half_x, half_y, undulation), material, np.eye(3), grass)


def on_terrain(points: ArrayLike, undulation: float) -> np.ndarray:
    """Points (x, y) of an array (N, 2) with the height of the ground there, (N, 3)."""
    points = np.asarray(points, "f8")
    heights = [undulation * height(float(x), float(y))[0] for x, y in points]
    return np.column_stack([points, heights])


@compiled
def height(x: float, y: float) -> tuple[float, float, float]:
    """Height of the ground at a point, and its slopes along x and y, for an undulation of 1 m."""
    z, slope_x, slope_y = 0.0, 0.0, 0.0
    for n in range(len(_WAVES)):
        angle = _WAVES[n, 0] * x + _WAVES[n, 1] * y + _WAVES[n, 2]
        z += _WAVES[n, 3] * np.sin(angle)
        slope = _WAVES[n, 3] * np.cos(angle)
        slope_x += _WAVES[n, 0] * slope
        slope_y += _WAVES[n, 1] * slope
    return z, slope_x, slope_y


@compiled
def distance_to_ground(
    ox: float, oy: float, oz: float, dx: float, dy: float, dz: float, half_x: float, half_y: float, undulation: float,
    grass: float, limit: float,
) -> float:  # fmt: skip
    """Metres along a unit ray to the ground or a blade of grass; infinite when it meets none before `limit`.

    The ray goes on in steps that cannot miss the ground, as sphere tracing does (Hart, The Visual Computer 12, 1996).
    Near the ground the bound of the curvature makes them as long as Newton's.

    Args:
        ox, oy, oz, dx, dy, dz: origin and direction in the terrain's own axes.
        grass: height of the grass, metres.
    """
    # The height over the ground falls by at most this for each metre of the ray.
    fastest = undulation * _STEEPEST * math.sqrt(dx * dx + dy * dy) - dz
    if fastest <= 0.0:
        return np.inf
    # A blade of grass may be nearer than `limit` where the soil behind it is not.
    farthest = limit + _LONGEST_IN_GRASS
    top, curvature = undulation * _HIGHEST, undulation * _MAX_CURVATURE * (dx * dx + dy * dy) + 1e-9
    t = (top - oz) / dz if oz > top and dz < 0.0 else 0.0
    for _ in range(_STEPS):
        x, y, z = ox + t * dx, oy + t * dy, oz + t * dz
        if t >= farthest or abs(x) > half_x or abs(y) > half_y or (dz >= 0.0 and z > top):
            return np.inf
        level, slope_x, slope_y = height(x, y)
        gap = z - undulation * level
        falling = undulation * (slope_x * dx + slope_y * dy) - dz
        if gap < _ON_GROUND:
            return t - _above_soil(x, y, grass, max(falling, 1e-3))
        # The height over the ground after a step s is at least gap - falling s - curvature s^2 / 2.
        bent = (math.sqrt(falling * falling + 2.0 * curvature * gap) - falling) / curvature
        t += max(bent, gap / fastest, _SHORTEST)
    return np.inf


@compiled
def _above_soil(x: float, y: float, grass: float, falling: float) -> float:
    """Metres before the soil at which the ray that ends at (x, y) meets a blade of grass; 0 when it meets none."""
    in_grass = min(grass / falling, _LONGEST_IN_GRASS)
    number = scattered(math.floor(x / _BLADE), math.floor(y / _BLADE), int(np.int64(0)), int(np.int64(1)))
    free = -_THROUGH_GRASS * np.log((number + 0.5) / 4294967296.0)
    return max(in_grass - free, 0.0)
