"""Ray casting on solids, foliage and terrain: the kernels that the models of all sensors share.

A few dozen to a few hundred analytic primitives need neither a mesh nor a tree. The sensors take rays in tiles of
neighbours: each tile looks only at the primitives that its pyramid touches, and all its rays are tested against one of
them after the other. A loop over rays that has no branches is compiled to vector instructions; a loop over primitives
is not. Each ray gets what it would get alone, whatever tile it is in.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.compiled import compiled, inlined
from rover_pipeline.simulate.scene.materials import shade_along
from rover_pipeline.simulate.scene.terrain import distance_to_ground, distance_to_leaf, height, leaf_normal
from rover_pipeline.simulate.scene.world import BOX, CYLINDER, FOLIAGE, RECTANGLE, TERRAIN, Solids

#: Metres. A hit that is nearer than this is on the surface that the ray starts from, after rounding to f4. Layout.
NEAR = 1e-4
#: Metres. What is this near to a tile's pyramid counts as inside, whatever its sides are rounded to. Layout.
_CULL_TOLERANCE = 1e-6
#: Rays that approach a face more slowly than this, metres per metre, or not at all, may count as this fast. Layout.
_SLOWEST = 1e-6


@inlined
def in_own_axes(solids: Solids, i: int, x: float, y: float, z: float) -> tuple[float, float, float]:
    """A vector of the scene frame in the axes of primitive `i`."""
    a = solids.axes
    return (
        a[i, 0, 0] * x + a[i, 0, 1] * y + a[i, 0, 2] * z,
        a[i, 1, 0] * x + a[i, 1, 1] * y + a[i, 1, 2] * z,
        a[i, 2, 0] * x + a[i, 2, 1] * y + a[i, 2, 2] * z,
    )


@compiled
def pyramid(rays: np.ndarray, frame: np.ndarray, spread: np.ndarray) -> bool:
    """Find the pyramid that holds all rays of a tile. Those at its corners are not always the outermost ones.

    Args:
        rays: f8 (3, N), unit directions from the apex; NaN where there is no ray.
        frame: f8 (3, 3), takes the pyramid's axis and two directions across it, unit vectors in its rows.
        spread: f8 (4,), takes the least and largest tangents of the rays along both directions across; infinite where
            a ray is not ahead: the pyramid is open then, and holds everything.

    Returns:
        Whether there are any rays.
    """
    sx, sy, sz = 0.0, 0.0, 0.0
    for n in range(rays.shape[1]):
        is_ray = rays[0, n] == rays[0, n]
        sx += rays[0, n] if is_ray else 0.0
        sy += rays[1, n] if is_ray else 0.0
        sz += rays[2, n] if is_ray else 0.0
    length = math.sqrt(sx * sx + sy * sy + sz * sz)
    if length == 0.0:
        return False
    ax, ay, az = sx / length, sy / length, sz / length
    flat = math.sqrt(ax * ax + ay * ay)
    ux, uy = (-ay / flat, ax / flat) if flat > 1e-6 else (1.0, 0.0)
    vx, vy, vz = -az * uy, az * ux, ax * uy - ay * ux
    frame[0, 0], frame[0, 1], frame[0, 2] = ax, ay, az
    frame[1, 0], frame[1, 1], frame[1, 2] = ux, uy, 0.0
    frame[2, 0], frame[2, 1], frame[2, 2] = vx, vy, vz
    spread[0], spread[1] = np.inf, -np.inf
    spread[2], spread[3] = np.inf, -np.inf
    for n in range(rays.shape[1]):
        x, y, z = rays[0, n], rays[1, n], rays[2, n]
        ahead = x * ax + y * ay + z * az
        if ahead < 0.1:
            spread[0], spread[1] = -np.inf, np.inf
            spread[2], spread[3] = -np.inf, np.inf
            break
        if ahead == ahead:
            along_u, along_v = (x * ux + y * uy) / ahead, (x * vx + y * vy + z * vz) / ahead
            spread[0], spread[1] = min(spread[0], along_u), max(spread[1], along_u)
            spread[2], spread[3] = min(spread[2], along_v), max(spread[3], along_v)
    return True


@compiled
def cull(
    solids: Solids, among: np.ndarray, apex: np.ndarray, slack: float, frame: np.ndarray, spread: np.ndarray,
    lag: float, candidates: np.ndarray, bounds: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Indices of the primitives that the rays of a tile can touch, the nearest ones first.

    Args:
        among: i8, the primitives to look at.
        apex: of the tile's pyramid, (3,).
        slack: the largest distance of the rays' own origins from it, metres.
        frame, spread: of the pyramid, in the scene frame, as `pyramid` makes them.
        lag: the longest time between the rays and the instant of `solids`, seconds.
        candidates: i8 (P,), takes the indices.
        bounds: f8 (P,), takes for each candidate metres that every ray has to go to it at least.

    Returns:
        The used part of `candidates`.
    """
    count = 0
    is_open = abs(spread[0]) == np.inf
    normals = np.empty((4, 4))
    for side in range(4):
        # The normal of a side points into the pyramid.
        sign, tangent, across = (1.0 if side % 2 == 0 else -1.0), spread[side], 1 + side // 2
        for k in range(3):
            normals[side, k] = sign * (frame[across, k] - tangent * frame[0, k])
        normals[side, 3] = math.sqrt(1.0 + tangent * tangent)
    for i in among:
        x, y, z = solids.centre[i, 0] - apex[0], solids.centre[i, 1] - apex[1], solids.centre[i, 2] - apex[2]
        v = solids.velocity[i]
        room = slack + lag * math.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]) + _CULL_TOLERANCE
        bound = 0.0
        if solids.kind[i] != TERRAIN:
            outside = False
            for side in range(0 if is_open else 4):
                nx, ny, nz = normals[side, 0], normals[side, 1], normals[side, 2]
                ox, oy, oz = in_own_axes(solids, i, nx, ny, nz)
                reach = abs(ox) * solids.half[i, 0] + abs(oy) * solids.half[i, 1] + abs(oz) * solids.half[i, 2]
                if nx * x + ny * y + nz * z + reach < -room * normals[side, 3]:
                    outside = True
                    break
            if outside:
                continue
            lx, ly, lz = in_own_axes(solids, i, x, y, z)
            gx = max(abs(lx) - solids.half[i, 0], 0.0)
            gy = max(abs(ly) - solids.half[i, 1], 0.0)
            gz = max(abs(lz) - solids.half[i, 2], 0.0)
            bound = math.sqrt(gx * gx + gy * gy + gz * gz) - room
            if not is_open:
                # A ray takes longer to a face that it runs along: to most floors and walls that others hide.
                bound = max(bound, (gx - room) / _approach(solids, i, 0, lx, frame, spread))
                bound = max(bound, (gy - room) / _approach(solids, i, 1, ly, frame, spread))
                bound = max(bound, (gz - room) / _approach(solids, i, 2, lz, frame, spread))
            bound = max(bound, 0.0)
        place = count
        while place > 0 and bounds[place - 1] > bound:
            candidates[place], bounds[place] = candidates[place - 1], bounds[place - 1]
            place -= 1
        candidates[place], bounds[place] = i, bound
        count += 1
    return candidates[:count]


@inlined
def _approach(solids: Solids, i: int, axis: int, side: float, frame: np.ndarray, spread: np.ndarray) -> float:
    """How fast rays of a pyramid approach primitive `i` along one of its own axes at most, metres per metre.

    Args:
        side: the primitive's place along the axis; its sign counts.
        frame, spread: as `cull` takes them.
    """
    sign = 1.0 if side > 0.0 else -1.0
    x, y, z = sign * solids.axes[i, axis, 0], sign * solids.axes[i, axis, 1], sign * solids.axes[i, axis, 2]
    ahead = frame[0, 0] * x + frame[0, 1] * y + frame[0, 2] * z
    u = frame[1, 0] * x + frame[1, 1] * y + frame[1, 2] * z
    v = frame[2, 0] * x + frame[2, 1] * y + frame[2, 2] * z
    # The rays of the pyramid are (1, u, v) or longer before they get their unit length.
    fastest = ahead + max(u * spread[0], u * spread[1]) + max(v * spread[2], v * spread[3])
    return max(fastest, _SLOWEST)


@compiled
def _own_surface(
    kind: int, i: int, depth: float, hx: float, hy: float, hz: float, lx: float, ly: float, lz: float
) -> tuple[float, float, float, float, float]:
    """Unit normal and surface coordinates of a point on any primitive but a box, all in its own axes."""
    # All arrays of `Solids` as arguments would cost more than the arithmetic.
    nx, ny, nz, u, v = 0.0, 0.0, 1.0, lx, ly
    if kind == CYLINDER:
        if abs(abs(lz) - hz) < abs(math.sqrt(lx * lx + ly * ly) - hx):
            nz = np.sign(lz)
        else:
            nx, ny, nz, u, v = lx / hx, ly / hx, 0.0, np.arctan2(ly, lx) * hx, lz
    elif kind == FOLIAGE:
        nx, ny, nz = leaf_normal(lx, ly, lz, depth, i)
        v = ly + lz
    elif kind == TERRAIN:
        _, slope_x, slope_y = height(lx, ly)
        nx, ny = -hz * slope_x, -hz * slope_y
        nz = 1.0 / math.sqrt(1.0 + nx * nx + ny * ny)
        nx, ny = nx * nz, ny * nz
    return nx, ny, nz, u, v


# What a tile of rays sees on the surfaces that it meets: their normals and textures.
#
# All points of a tile that are on one primitive are looked at together, in loops without branches, which are compiled
# to vector instructions.

#: Index of a ray whose point has been looked at. Layout.
DONE = -2


class Points(NamedTuple):
    """Points of a tile on one primitive, and memory."""

    #: u4 (N,), numbers of the points' rays in the tile. Unsigned: a negative index, from the end, takes longer.
    ray: np.ndarray
    exact: np.ndarray  #: f8 (5, N): position in the primitive's own axes, and surface coordinates, metres.
    rough: np.ndarray  #: f4 (8, N): normal in its own axes, texture, and memory.
    cell: np.ndarray  #: i4 (2, N), memory.


def points_of_a_tile(rays: int) -> Points:
    """Memory for the points of a tile with this many rays."""
    return Points(np.empty(rays, "u4"), np.empty((5, rays)), np.empty((8, rays), "f4"), np.empty((2, rays), "i4"))


@compiled
def pick(index: np.ndarray, first: int, ray: np.ndarray) -> tuple[int, int, int]:
    """Find the rays that meet what the first ray meets that is not done, and mark them as done.

    Args:
        index: i8 (N,), the primitives that the rays meet.
        first: all rays before this one are done.
        ray: u4 (N,), takes the numbers of the rays.

    Returns:
        The first ray, the primitive, and how many rays meet it.
    """
    while index[first] == DONE:
        first += 1
    i, count = index[first], 0
    for n in range(len(index)):
        ray[count] = n
        is_own = index[n] == i
        count += 1 if is_own else 0
        index[n] = DONE if is_own else index[n]
    return first, i, count


@compiled
def look_along(
    kind: int, i: int, depth: float, hx: float, hy: float, hz: float, texture: int, grain: float, count: int,
    points: Points,
) -> None:  # fmt: skip
    """Find normals and textures at `count` points on a primitive. Their contrasts are in the place of the textures. All
    arrays of `Solids` as arguments would take longer than those of the primitive, and of its material."""
    exact, rough = points.exact, points.rough
    own_x, own_y, own_z, u, v = exact[0], exact[1], exact[2], exact[3], exact[4]
    nx, ny, nz = rough[0], rough[1], rough[2]
    if kind == BOX:
        for n in range(count):
            x, y, z = own_x[n], own_y[n], own_z[n]
            # The point belongs to the face whose plane is nearest.
            gx, gy, gz = abs(abs(x) - hx), abs(abs(y) - hy), abs(abs(z) - hz)
            on_x = (gx <= gy) & (gx <= gz)
            on_y = (not on_x) & (gy <= gz)
            on_z = not (on_x | on_y)
            nx[n] = (1.0 if x > 0.0 else -1.0) if on_x else 0.0
            ny[n] = (1.0 if y > 0.0 else -1.0) if on_y else 0.0
            nz[n] = (1.0 if z > 0.0 else -1.0) if on_z else 0.0
            u[n] = y if on_x else x
            v[n] = y if on_z else z
    else:
        for n in range(count):
            x, y, z = own_x[n], own_y[n], own_z[n]
            nx[n], ny[n], nz[n], u[n], v[n] = _own_surface(kind, i, depth, hx, hy, hz, x, y, z)
    shade_along(texture, grain, rough[3], u, v, count, rough[4:], points.cell)


#: Rays along each side of a tile, and rays of a tile. Schedule.
TILE = 16
RAYS = TILE * TILE
#: Index of the primitive that a ray meets where it meets none. Layout.
NOTHING = -1
#: Metres. A point is visible when the first hit is not more than this in front of it: points lie on surfaces. Layout.
_SURFACE_TOLERANCE = 0.02


@compiled
def first_hits(
    solids: Solids, candidates: np.ndarray, bounds: np.ndarray, origins: np.ndarray, lags: np.ndarray,
    rays: np.ndarray, distance: np.ndarray, index: np.ndarray,
) -> None:  # fmt: skip
    """Find what the rays of a tile meet first. They come in groups; a group has one origin and one instant.

    Args:
        candidates, bounds: of the tile, as `cull` sorts them.
        origins: f8 (group, 3), metres.
        lags: f8 (group,), seconds from the instant of `solids` to that of the group.
        rays: f8 (3, RAYS), unit directions, NaN where there is no ray.
        distance: f8 (RAYS,), takes metres; infinite where a ray meets nothing.
        index: i8 (RAYS,), takes the primitive that is met, or `NOTHING`.
    """
    width = RAYS // len(lags)
    own, along, met = np.empty((3, RAYS)), np.empty((3, RAYS)), np.empty(RAYS)
    for n in range(RAYS):
        # Where there is no ray, nothing is nearer than this: it must not keep the tile from being finished.
        distance[n] = np.inf if rays[0, n] == rays[0, n] else -np.inf
        index[n] = NOTHING
    for c in range(len(candidates)):
        unfinished = 0
        for n in range(RAYS):
            unfinished += 1 if distance[n] > bounds[c] else 0
        if unfinished == 0:
            break
        i = candidates[c]
        kind = solids.kind[i]
        a, hx, hy, hz = solids.axes, solids.half[i, 0], solids.half[i, 1], solids.half[i, 2]
        xx, xy, xz = a[i, 0, 0], a[i, 0, 1], a[i, 0, 2]
        yx, yy, yz = a[i, 1, 0], a[i, 1, 1], a[i, 1, 2]
        zx, zy, zz = a[i, 2, 0], a[i, 2, 1], a[i, 2, 2]
        vx, vy, vz = solids.velocity[i, 0], solids.velocity[i, 1], solids.velocity[i, 2]
        for g in range(len(lags)):
            # The primitive moves by lag * velocity; the rays are moved back instead.
            x = origins[g, 0] - lags[g] * vx - solids.centre[i, 0]
            y = origins[g, 1] - lags[g] * vy - solids.centre[i, 1]
            z = origins[g, 2] - lags[g] * vz - solids.centre[i, 2]
            lx, ly, lz = in_own_axes(solids, i, x, y, z)
            for k in range(width):
                # An index that may be negative would count from the end, which vector instructions do not.
                at = np.uint64(g * width + k)
                own[0, at], own[1, at], own[2, at] = lx, ly, lz
        for n in range(RAYS):
            dx, dy, dz = rays[0, n], rays[1, n], rays[2, n]
            along[0, n], along[1, n] = xx * dx + xy * dy + xz * dz, yx * dx + yy * dy + yz * dz
            along[2, n] = zx * dx + zy * dy + zz * dz
        if kind == BOX:
            for n in range(RAYS):
                lx, ly, lz = own[0, n], own[1, n], own[2, n]
                ux, uy, uz = along[0, n], along[1, n], along[2, n]
                # The slab method (Kay and Kajiya, SIGGRAPH 1986). Division by zero gives the infinities it needs.
                ix, iy, iz = 1.0 / ux, 1.0 / uy, 1.0 / uz
                mx, my, mz = abs(ix) * hx, abs(iy) * hy, abs(iz) * hz
                enter = max(-lx * ix - mx, -ly * iy - my, -lz * iz - mz)
                leave = min(-lx * ix + mx, -ly * iy + my, -lz * iz + mz)
                met[n] = enter if (enter > NEAR) & (enter <= leave) else np.inf
        elif kind == RECTANGLE:
            for n in range(RAYS):
                lx, ly, lz = own[0, n], own[1, n], own[2, n]
                ux, uy, uz = along[0, n], along[1, n], along[2, n]
                t = -lz / uz
                x, y = lx + t * ux, ly + t * uy
                met[n] = t if (t > NEAR) & (abs(x) <= hx) & (abs(y) <= hy) else np.inf
        elif kind == CYLINDER:
            for n in range(RAYS):
                lx, ly, lz = own[0, n], own[1, n], own[2, n]
                ux, uy, uz = along[0, n], along[1, n], along[2, n]
                a2, b = ux * ux + uy * uy, lx * ux + ly * uy
                root = b * b - a2 * (lx * lx + ly * ly - hx * hx)
                side = (-b - math.sqrt(max(root, 0.0))) / a2
                is_met = (root >= 0.0) & (a2 > 0.0) & (side > NEAR) & (abs(lz + side * uz) <= hz)
                side = side if is_met else np.inf
                cap = ((hz if uz < 0.0 else -hz) - lz) / uz
                x, y = lx + cap * ux, ly + cap * uy
                is_met = (uz != 0.0) & (cap > NEAR) & (cap < side) & (x * x + y * y <= hx * hx)
                met[n] = cap if is_met else side
        else:
            depth = solids.depth[i]
            for n in range(RAYS):
                lx, ly, lz = own[0, n], own[1, n], own[2, n]
                ux, uy, uz = along[0, n], along[1, n], along[2, n]
                # Neither need be found behind what is met already, nor where there is no ray.
                if not distance[n] > bounds[c]:
                    met[n] = np.inf
                elif kind == FOLIAGE:
                    met[n] = distance_to_leaf(lx, ly, lz, ux, uy, uz, hx, hy, hz, depth, i, distance[n])
                else:
                    met[n] = distance_to_ground(lx, ly, lz, ux, uy, uz, hx, hy, hz, depth, distance[n])
        for n in range(RAYS):
            # Of two primitives at one distance the first of all counts, in whatever order they come here.
            closer = (met[n] < distance[n]) | ((met[n] == distance[n]) & (i < index[n]))
            distance[n] = met[n] if closer else distance[n]
            index[n] = i if closer else index[n]


def visible(solids: Solids, eye: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Whether nothing hides points on surfaces, (N, 3), from the eye, (3,), at the instant of `solids`. bool (N,)."""
    x, y, z = (points - eye).T
    length = np.sqrt(x * x + y * y + z * z)
    everything, bounds = np.arange(len(solids.kind)), np.zeros(len(solids.kind))
    origin, now = np.ascontiguousarray(eye[None]), np.zeros(1)
    distance, index = np.empty(RAYS), np.empty(RAYS, "i8")
    result = np.empty(len(points), bool)
    for begin in range(0, len(points), RAYS):
        part = slice(begin, begin + RAYS)
        count = len(length[part])
        rays = np.full((3, RAYS), np.nan)
        rays[:, :count] = x[part] / length[part], y[part] / length[part], z[part] / length[part]
        first_hits(solids, everything, bounds, origin, now, rays, distance, index)
        result[part] = distance[:count] > length[part] - _SURFACE_TOLERANCE
    return result
