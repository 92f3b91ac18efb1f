"""Rays and textures one after the other, in plain Python: what the simulator's tiles of rays are compared with."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from rover_pipeline.simulate.scene.materials import BRICK, PLAIN, PLANK, STRIPE, TILE
from rover_pipeline.simulate.scene.raycast import NEAR, in_own_axes
from rover_pipeline.simulate.scene.terrain import distance_to_ground, distance_to_leaf
from rover_pipeline.simulate.scene.world import BOX, CYLINDER, FOLIAGE, TERRAIN, Solids

_in_own_axes = cast(Any, in_own_axes).py_func


def nearest(solids: Solids, o: np.ndarray, d: np.ndarray, lag: float) -> tuple[float, int]:
    """Metres to the first primitive that a ray meets `lag` seconds after the instant of `solids`, and its index.

    Args:
        o, d: origin and unit direction of the ray, (3,).

    Returns:
        Infinite and -1 when the ray meets none.
    """
    best, index = np.inf, -1
    for i in range(len(solids.kind)):
        # The primitive moves by lag * velocity; the ray is moved back instead.
        x, y, z = o - lag * solids.velocity[i]
        with np.errstate(divide="ignore", invalid="ignore"):
            t = _distance_to(solids, i, x, y, z, d[0], d[1], d[2], best)
        if t < best:
            best, index = float(t), i
    return best, index


def _distance_to(
    solids: Solids, i: int, ox: float, oy: float, oz: float, dx: float, dy: float, dz: float, limit: float
) -> float:
    """Metres along a unit ray to the outside of primitive `i`; infinite when it misses or starts inside.

    Foliage may be entered. Beyond `limit` metres it and terrain need not be found.
    """
    px, py, pz = ox - solids.centre[i, 0], oy - solids.centre[i, 1], oz - solids.centre[i, 2]
    lx, ly, lz = _in_own_axes(solids, i, px, py, pz)
    ux, uy, uz = _in_own_axes(solids, i, dx, dy, dz)
    hx, hy, hz = solids.half[i, 0], solids.half[i, 1], solids.half[i, 2]
    if solids.kind[i] == BOX:
        # The slab method (Kay and Kajiya, SIGGRAPH 1986). Division by zero gives the infinities that it needs.
        ix, iy, iz = 1.0 / ux, 1.0 / uy, 1.0 / uz
        mx, my, mz = abs(ix) * hx, abs(iy) * hy, abs(iz) * hz
        enter = max(-lx * ix - mx, -ly * iy - my, -lz * iz - mz)
        leave = min(-lx * ix + mx, -ly * iy + my, -lz * iz + mz)
        return enter if NEAR < enter <= leave else np.inf
    if solids.kind[i] == CYLINDER:
        best = np.inf
        a2, b, c = ux * ux + uy * uy, lx * ux + ly * uy, lx * lx + ly * ly - hx * hx
        root = b * b - a2 * c
        if root >= 0.0 and a2 > 0.0:
            t = (-b - np.sqrt(root)) / a2
            if t > NEAR and abs(lz + t * uz) <= hz:
                best = t
        if uz != 0.0:
            t = ((hz if uz < 0.0 else -hz) - lz) / uz
            x, y = lx + t * ux, ly + t * uy
            if NEAR < t < best and x * x + y * y <= hx * hx:
                best = t
        return best
    if solids.kind[i] == FOLIAGE:
        return distance_to_leaf(lx, ly, lz, ux, uy, uz, hx, hy, hz, solids.depth[i], i, limit)
    if solids.kind[i] == TERRAIN:
        return distance_to_ground(lx, ly, lz, ux, uy, uz, hx, hy, hz, solids.depth[i], limit)
    t = -lz / uz
    return t if t > NEAR and abs(lx + t * ux) <= hx and abs(ly + t * uy) <= hy else np.inf


def shade(texture: int, grain: float, contrast: float, u: float, v: float) -> float:
    """Fraction of a surface's reflectivity that its texture leaves at a point, `1 - contrast` to 1.

    Args:
        texture, grain, contrast: as in `Material`.
        u, v: surface coordinates, metres.
    """
    u, v = u / grain, v / grain
    i, j = math.floor(u), math.floor(v)
    dark = 0.6 * _noise(u, v) + 0.4 * _noise(4.1 * u, 4.1 * v)
    if texture == PLAIN:
        return 1.0
    if texture == PLANK:
        along = u / 7.0 + _cell(j, 3)
        is_joint = v - j < 0.06 or along % 1 < 0.01
        dark = 1.0 if is_joint else 0.5 * _cell(j, math.floor(along)) + 0.5 * _noise(0.6 * u, 9.0 * v)
    elif texture == STRIPE:
        dark = 0.75 * _cell(i, 7) + 0.25 * dark
    elif texture == TILE:
        dark = 1.0 if u - i < 0.035 or v - j < 0.035 else 0.4 * _cell(i, j) + 0.3 * dark
    elif texture == BRICK:
        row = math.floor(3.0 * v)
        along = u + 0.5 * (row % 2)
        is_joint = 3.0 * v - row < 0.12 or along % 1 < 0.04
        dark = 0.0 if is_joint else 0.35 + 0.45 * _cell(math.floor(along), row) + 0.2 * dark
    return 1.0 - contrast * dark


def _cell(i: int, j: int) -> float:
    h = (i * 374761393 + j * 668265263) & 0xFFFFFFFF
    h = ((h ^ (h >> 13)) * 1274126177) & 0xFFFFFFFF
    return ((h ^ (h >> 16)) & 0xFFFF) / 65536.0


def _noise(u: float, v: float) -> float:
    i, j = math.floor(u), math.floor(v)
    x, y = u - i, v - j
    x, y = x * x * (3.0 - 2.0 * x), y * y * (3.0 - 2.0 * y)
    low = _cell(i, j) * (1.0 - x) + _cell(i + 1, j) * x
    high = _cell(i, j + 1) * (1.0 - x) + _cell(i + 1, j + 1) * x
    return low * (1.0 - y) + high * y
