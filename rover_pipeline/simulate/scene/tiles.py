"""What tiles of rays meet: all rays of a tile are tested against one primitive after the other.

A loop over rays that has no branches is compiled to vector instructions; a loop over primitives is not. Each ray gets
what it would get alone, whatever tile it is in.
"""

from __future__ import annotations

import math

import numpy as np

from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.simulate.scene.leaves import distance_to_leaf
from rover_pipeline.simulate.scene.raycast import NEAR, in_own_axes
from rover_pipeline.simulate.scene.terrain import distance_to_ground
from rover_pipeline.simulate.scene.world import BOX, CYLINDER, FOLIAGE, RECTANGLE, Solids

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
