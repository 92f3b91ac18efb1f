"""Ray casting one ray after the other, in plain Python: what the simulator's tiles of rays are compared with."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from rover_pipeline.simulate.scene.leaves import distance_to_leaf
from rover_pipeline.simulate.scene.raycast import NEAR, in_own_axes
from rover_pipeline.simulate.scene.terrain import distance_to_ground
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
