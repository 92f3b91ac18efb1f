"""Ray casting on solids, foliage and terrain: the kernels that the models of all sensors share.

A few dozen to a few hundred analytic primitives need neither a mesh nor a tree. The sensors take rays in tiles of
neighbours: each tile looks only at the primitives that its cone touches, and every ray of it takes the nearest one.
"""

from __future__ import annotations

import numpy as np

from rover_pipeline.numerics.compiled import compiled, inlined
from rover_pipeline.simulate.scene.leaves import distance_to_leaf, leaf_normal
from rover_pipeline.simulate.scene.terrain import distance_to_ground, height
from rover_pipeline.simulate.scene.world import BOX, CYLINDER, FOLIAGE, TERRAIN, Solids

#: Metres. A hit that is nearer than this is on the surface that the ray starts from.
_NEAR = 1e-4
#: Metres. A point is visible when the first hit is not more than this in front of it: points lie on surfaces.
_SURFACE_TOLERANCE = 0.02
#: Metres. What is this near to a tile's pyramid counts as inside, whatever its sides are rounded to.
_CULL_TOLERANCE = 1e-6
#: Rays along each side of a tile.
TILE = 16


@inlined
def _in_own_axes(solids: Solids, i: int, x: float, y: float, z: float) -> tuple[float, float, float]:
    """A vector of the scene frame in the axes of primitive `i`."""
    a = solids.axes
    return (
        a[i, 0, 0] * x + a[i, 0, 1] * y + a[i, 0, 2] * z,
        a[i, 1, 0] * x + a[i, 1, 1] * y + a[i, 1, 2] * z,
        a[i, 2, 0] * x + a[i, 2, 1] * y + a[i, 2, 2] * z,
    )


@inlined
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
        return enter if _NEAR < enter <= leave else np.inf
    if solids.kind[i] == CYLINDER:
        best = np.inf
        a2, b, c = ux * ux + uy * uy, lx * ux + ly * uy, lx * lx + ly * ly - hx * hx
        root = b * b - a2 * c
        if root >= 0.0 and a2 > 0.0:
            t = (-b - np.sqrt(root)) / a2
            if t > _NEAR and abs(lz + t * uz) <= hz:
                best = t
        if uz != 0.0:
            t = ((hz if uz < 0.0 else -hz) - lz) / uz
            x, y = lx + t * ux, ly + t * uy
            if _NEAR < t < best and x * x + y * y <= hx * hx:
                best = t
        return best
    if solids.kind[i] == FOLIAGE:
        return distance_to_leaf(lx, ly, lz, ux, uy, uz, hx, hy, hz, solids.depth[i], i, limit)
    if solids.kind[i] == TERRAIN:
        return distance_to_ground(lx, ly, lz, ux, uy, uz, hx, hy, hz, solids.depth[i], limit)
    t = -lz / uz
    return t if t > _NEAR and abs(lx + t * ux) <= hx and abs(ly + t * uy) <= hy else np.inf


@compiled
def widen(axis: np.ndarray, d: np.ndarray, spread: np.ndarray) -> None:
    """Widen the pyramid of a tile so that it holds a ray.

    Args:
        axis: of the tile, unit vector, (3,).
        d: unit direction of the ray, (3,).
        spread: (4,), the least and largest tangents of the rays along both sides of the tile; begins as
            (inf, -inf, inf, -inf).
    """
    ux, uy, uz, vx, vy, vz = _across(axis)
    ahead = d[0] * axis[0] + d[1] * axis[1] + d[2] * axis[2]
    if ahead < 0.1:
        # A ray that is not ahead has no tangent: the pyramid is open then, and holds everything.
        spread[0] = spread[2] = -np.inf
        spread[1] = spread[3] = np.inf
        return
    along_u, along_v = (d[0] * ux + d[1] * uy + d[2] * uz) / ahead, (d[0] * vx + d[1] * vy + d[2] * vz) / ahead
    spread[0], spread[1] = min(spread[0], along_u), max(spread[1], along_u)
    spread[2], spread[3] = min(spread[2], along_v), max(spread[3], along_v)


@inlined
def _across(axis: np.ndarray) -> tuple[float, float, float, float, float, float]:
    """Two unit vectors across a unit vector and across one another."""
    flat = np.sqrt(axis[0] * axis[0] + axis[1] * axis[1])
    ux, uy = (-axis[1] / flat, axis[0] / flat) if flat > 1e-6 else (1.0, 0.0)
    return ux, uy, 0.0, -axis[2] * uy, axis[2] * ux, axis[0] * uy - axis[1] * ux


@compiled
def cull(
    solids: Solids, apex: np.ndarray, slack: float, axis: np.ndarray, spread: np.ndarray, lag: float,
    candidates: np.ndarray, bounds: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Indices of the primitives that the rays of a tile can touch, the nearest ones first.

    Args:
        apex: of the tile's pyramid, (3,).
        slack: the largest distance of the rays' own origins from it, metres.
        axis, spread: of the pyramid, as `widen` makes it.
        lag: the longest time between the rays and the instant of `solids`, seconds.
        candidates: i8 (P,), takes the indices.
        bounds: f8 (P,), takes for each candidate metres that every ray has to go to it at least.

    Returns:
        The used part of `candidates`.
    """
    count = 0
    ux, uy, uz, vx, vy, vz = _across(axis)
    is_open = not np.isfinite(spread[0])
    for i in range(len(solids.kind)):
        x, y, z = solids.centre[i, 0] - apex[0], solids.centre[i, 1] - apex[1], solids.centre[i, 2] - apex[2]
        v = solids.velocity[i]
        room = slack + lag * np.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]) + _CULL_TOLERANCE
        bound = 0.0
        if solids.kind[i] != TERRAIN:
            outside = False
            for side in range(0 if is_open else 4):
                # The normal of a side points into the pyramid.
                sign, tangent = (1.0 if side % 2 == 0 else -1.0), spread[side]
                wx, wy, wz = (ux, uy, uz) if side < 2 else (vx, vy, vz)
                nx, ny, nz = (
                    sign * (wx - tangent * axis[0]), sign * (wy - tangent * axis[1]), sign * (wz - tangent * axis[2])
                )  # fmt: skip
                length = np.sqrt(1.0 + tangent * tangent)
                ox, oy, oz = _in_own_axes(solids, i, nx, ny, nz)
                reach = abs(ox) * solids.half[i, 0] + abs(oy) * solids.half[i, 1] + abs(oz) * solids.half[i, 2]
                if nx * x + ny * y + nz * z + reach < -room * length:
                    outside = True
                    break
            if outside:
                continue
            lx, ly, lz = _in_own_axes(solids, i, x, y, z)
            gx = max(abs(lx) - solids.half[i, 0], 0.0)
            gy = max(abs(ly) - solids.half[i, 1], 0.0)
            gz = max(abs(lz) - solids.half[i, 2], 0.0)
            bound = max(np.sqrt(gx * gx + gy * gy + gz * gz) - room, 0.0)
        place = count
        while place > 0 and bounds[place - 1] > bound:
            candidates[place], bounds[place] = candidates[place - 1], bounds[place - 1]
            place -= 1
        candidates[place], bounds[place] = i, bound
        count += 1
    return candidates[:count]


@inlined
def first_hit(
    solids: Solids, candidates: np.ndarray, bounds: np.ndarray, o: np.ndarray, d: np.ndarray, lag: float
) -> tuple[float, int]:
    """What `nearest` gives, for candidates that `cull` has sorted: it stops where the others are farther away."""
    best, index = np.inf, -1
    for n in range(len(candidates)):
        if bounds[n] > best:
            break
        i = candidates[n]
        # Views of single rows would cost more than the arithmetic: each is counted as a reference.
        x, y, z = solids.velocity[i, 0], solids.velocity[i, 1], solids.velocity[i, 2]
        t = _distance_to(solids, i, o[0] - lag * x, o[1] - lag * y, o[2] - lag * z, d[0], d[1], d[2], best)
        # Of two primitives at one distance the first of all counts, in whatever order they come here.
        if t < best or (t == best and i < index):
            best, index = t, i
    return best, index


@compiled
def nearest(solids: Solids, candidates: np.ndarray, o: np.ndarray, d: np.ndarray, lag: float) -> tuple[float, int]:
    """Metres to the first candidate that a ray meets `lag` seconds after the instant of `solids`, and its index.

    Args:
        o, d: origin and unit direction of the ray, (3,).

    Returns:
        Infinite and -1 when the ray meets none.
    """
    best, index = np.inf, -1
    for i in candidates:
        # The primitive moves by lag * velocity; the ray is moved back instead.
        v = solids.velocity[i]
        t = _distance_to(solids, i, o[0] - lag * v[0], o[1] - lag * v[1], o[2] - lag * v[2], d[0], d[1], d[2], best)
        if t < best:
            best, index = t, i
    return best, index


@inlined
def surface(solids: Solids, i: int, x: float, y: float, z: float, normal: np.ndarray) -> tuple[float, float]:
    """Two surface coordinates, metres, of a point on primitive `i`; `normal`, (3,), takes the unit normal there."""
    hx, hy, hz = solids.half[i, 0], solids.half[i, 1], solids.half[i, 2]
    lx, ly, lz = _in_own_axes(solids, i, x - solids.centre[i, 0], y - solids.centre[i, 1], z - solids.centre[i, 2])
    nx, ny, nz, u, v = 0.0, 0.0, 1.0, lx, ly
    if solids.kind[i] == BOX:
        # The point belongs to the face whose plane is nearest.
        gx, gy, gz = abs(abs(lx) - hx), abs(abs(ly) - hy), abs(abs(lz) - hz)
        if gx <= gy and gx <= gz:
            nx, nz, u, v = np.sign(lx), 0.0, ly, lz
        elif gy <= gz:
            ny, nz, u, v = np.sign(ly), 0.0, lx, lz
        else:
            nz = np.sign(lz)
    elif solids.kind[i] == CYLINDER:
        if abs(abs(lz) - hz) < abs(np.sqrt(lx * lx + ly * ly) - hx):
            nz = np.sign(lz)
        else:
            nx, ny, nz, u, v = lx / hx, ly / hx, 0.0, np.arctan2(ly, lx) * hx, lz
    elif solids.kind[i] == FOLIAGE:
        nx, ny, nz = leaf_normal(lx, ly, lz, solids.depth[i], i)
        v = ly + lz
    elif solids.kind[i] == TERRAIN:
        _, slope_x, slope_y = height(lx, ly)
        nx, ny = -hz * slope_x, -hz * slope_y
        nz = 1.0 / np.sqrt(1.0 + nx * nx + ny * ny)
        nx, ny = nx * nz, ny * nz
    for k in range(3):
        normal[k] = solids.axes[i, 0, k] * nx + solids.axes[i, 1, k] * ny + solids.axes[i, 2, k] * nz
    return u, v


@compiled
def visible(solids: Solids, eye: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Whether nothing hides points on surfaces, (N, 3), from the eye, (3,), at the instant of `solids`. bool (N,)."""
    result = np.ones(len(points), np.bool_)
    everything = np.arange(len(solids.kind))
    d = np.empty(3)
    for n in range(len(points)):
        d[:] = points[n] - eye
        length = np.sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2])
        d /= length
        t, _ = nearest(solids, everything, eye, d, 0.0)
        result[n] = t > length - _SURFACE_TOLERANCE
    return result
