"""What a tile of rays sees on the surfaces that it meets: their normals and textures.

All points of a tile that are on one primitive are looked at together, in loops without branches, which are compiled to
vector instructions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.simulate.scene.materials import shade_along
from rover_pipeline.simulate.scene.raycast import own_surface
from rover_pipeline.simulate.scene.world import BOX, RECTANGLE

#: Index of a ray whose point has been looked at. Layout.
DONE = -2


class Points(NamedTuple):
    """Points of a tile on one primitive, and memory.

    Attributes:
        ray: u4 (N,), numbers of the points' rays in the tile. They are unsigned: an index that may be negative counts
            from the end, which takes longer.
        exact: f8 (5, N): position in the primitive's own axes, and surface coordinates, metres.
        rough: f4 (8, N): normal in its own axes, texture, and memory.
        cell: i4 (2, N), memory.
    """

    ray: np.ndarray
    exact: np.ndarray
    rough: np.ndarray
    cell: np.ndarray


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
        ray[n] = n
        count += 1 if index[n] == i else 0
    if count == len(index):
        # Most tiles show one primitive only.
        index[:] = DONE
        return first, i, count
    count = 0
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
    """Find normals and textures at `count` points on a primitive. Their contrasts are in the place of the textures.

    Args:
        kind, i, depth, hx, hy, hz: of the primitive, as in `Solids`; all arrays of it as arguments would take longer.
        texture, grain: of its material.
    """
    exact, rough = points.exact, points.rough
    own_x, own_y, own_z, u, v = exact[0], exact[1], exact[2], exact[3], exact[4]
    nx, ny, nz = rough[0], rough[1], rough[2]
    if kind == BOX:
        for n in range(count):
            x, y, z = own_x[n], own_y[n], own_z[n]
            # As in `own_surface`: the point belongs to the face whose plane is nearest.
            gx, gy, gz = abs(abs(x) - hx), abs(abs(y) - hy), abs(abs(z) - hz)
            on_x = (gx <= gy) & (gx <= gz)
            on_y = (not on_x) & (gy <= gz)
            on_z = not (on_x | on_y)
            nx[n] = (1.0 if x > 0.0 else -1.0) if on_x else 0.0
            ny[n] = (1.0 if y > 0.0 else -1.0) if on_y else 0.0
            nz[n] = (1.0 if z > 0.0 else -1.0) if on_z else 0.0
            u[n] = y if on_x else x
            v[n] = y if on_z else z
    elif kind == RECTANGLE:
        for n in range(count):
            nx[n], ny[n], nz[n] = 0.0, 0.0, 1.0
            u[n], v[n] = own_x[n], own_y[n]
    else:
        for n in range(count):
            x, y, z = own_x[n], own_y[n], own_z[n]
            nx[n], ny[n], nz[n], u[n], v[n] = own_surface(kind, i, depth, hx, hy, hz, x, y, z)
    shade_along(texture, grain, rough[3], u, v, count, rough[4:], points.cell)
