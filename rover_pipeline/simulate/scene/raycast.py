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
def cull(
    solids: Solids, apex: np.ndarray, slack: float, axis: np.ndarray, cos: float, lag: float, candidates: np.ndarray
) -> np.ndarray:
    """Indices of the primitives that the rays in a cone can touch: the used part of `candidates`.

    Args:
        apex: of the cone, (3,).
        slack: the largest distance of the rays' own origins from it, metres.
        axis: of the cone, unit vector, (3,); `cos` is the cosine of the half angle around it.
        lag: the longest time between the rays and the instant of `solids`, seconds.
        candidates: i8 (P,), takes the indices.
    """
    count, sin = 0, np.sqrt(1.0 - cos * cos)
    for i in range(len(solids.kind)):
        x, y, z = solids.centre[i, 0] - apex[0], solids.centre[i, 1] - apex[1], solids.centre[i, 2] - apex[2]
        v = solids.velocity[i]
        radius = solids.radius[i] + slack + lag * np.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])
        square = x * x + y * y + z * z
        if square > radius * radius:
            along = x * axis[0] + y * axis[1] + z * axis[2]
            across = np.sqrt(max(square - along * along, 0.0))
            if along * cos + across * sin < 0.0 or across * cos - along * sin > radius:
                continue
        candidates[count] = i
        count += 1
    return candidates[:count]


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


@compiled
def surface(solids: Solids, i: int, x: float, y: float, z: float, normal: np.ndarray) -> tuple[float, float]:
    """Two surface coordinates, metres, of a point on primitive `i`; `normal`, (3,), takes the unit normal there."""
    h = solids.half[i]
    lx, ly, lz = _in_own_axes(solids, i, x - solids.centre[i, 0], y - solids.centre[i, 1], z - solids.centre[i, 2])
    nx, ny, nz, u, v = 0.0, 0.0, 1.0, lx, ly
    if solids.kind[i] == BOX:
        # The point belongs to the face whose plane is nearest.
        gx, gy, gz = abs(abs(lx) - h[0]), abs(abs(ly) - h[1]), abs(abs(lz) - h[2])
        if gx <= gy and gx <= gz:
            nx, nz, u, v = np.sign(lx), 0.0, ly, lz
        elif gy <= gz:
            ny, nz, u, v = np.sign(ly), 0.0, lx, lz
        else:
            nz = np.sign(lz)
    elif solids.kind[i] == CYLINDER:
        if abs(abs(lz) - h[2]) < abs(np.sqrt(lx * lx + ly * ly) - h[0]):
            nz = np.sign(lz)
        else:
            nx, ny, nz, u, v = lx / h[0], ly / h[0], 0.0, np.arctan2(ly, lx) * h[0], lz
    elif solids.kind[i] == FOLIAGE:
        nx, ny, nz = leaf_normal(lx, ly, lz, solids.depth[i], i)
        v = ly + lz
    elif solids.kind[i] == TERRAIN:
        _, slope_x, slope_y = height(lx, ly)
        nx, ny = -h[2] * slope_x, -h[2] * slope_y
        nz = 1.0 / np.sqrt(1.0 + nx * nx + ny * ny)
        nx, ny = nx * nz, ny * nz
    a = solids.axes[i]
    for k in range(3):
        normal[k] = a[0, k] * nx + a[1, k] * ny + a[2, k] * nz
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
