"""The light that surfaces send to a camera, for tiles of pixels.

All pixels of a tile that show one primitive are shaded together, in loops without branches, which are compiled to
vector instructions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.compiled import compiled, inlined
from rover_pipeline.simulate.scene.materials import MaterialTable, shade_along
from rover_pipeline.simulate.scene.raycast import in_own_axes, own_surface
from rover_pipeline.simulate.scene.tiles import NOTHING, RAYS
from rover_pipeline.simulate.scene.world import BOX, RECTANGLE, Light, Solids

#: Index of a pixel that is shaded.
_SHADED = -2


class Work(NamedTuple):
    """Memory for the pixels of a tile.

    Attributes:
        exact: f8 (5, RAYS): position in the primitive's own axes, and surface coordinates, metres.
        rough: f4 (8, RAYS): position and normal in the primitive's own axes, texture, and light.
        pixel: i8 (RAYS,), the pixels that show the primitive.
    """

    exact: np.ndarray
    rough: np.ndarray
    pixel: np.ndarray


@compiled
def shade_tile(
    solids: Solids, materials: MaterialTable, light: Light, eye: np.ndarray, focal: float, rays: np.ndarray,
    distance: np.ndarray, index: np.ndarray, work: Work, levels: np.ndarray,
) -> None:  # fmt: skip
    """Find the colours of a tile's pixels.

    Args:
        eye: of the camera, (3,), metres.
        focal: length of the lens, pixels.
        rays: f8 (3, RAYS), unit directions in the scene frame, NaN where the lens sees nothing.
        distance, index: as `first_hits` finds them; the indices are used up.
        levels: u1 (RAYS, 3), takes the colours.
    """
    for n in range(RAYS):
        if index[n] == NOTHING:
            haze = min(1.0, 0.25 + 1.2 * max(rays[2, n], 0.0))
            is_sky = rays[2, n] == rays[2, n]
            for k in range(3):
                sky = light.sky[k] * haze + (1.0 - haze) * (0.55 + 0.45 * light.sky[k])
                levels[n, k] = _level(sky) if is_sky else 0
            index[n] = _SHADED
    first = 0
    while True:
        while first < RAYS and index[first] == _SHADED:
            first += 1
        if first == RAYS:
            break
        i, count = index[first], 0
        for n in range(first, RAYS):
            work.pixel[count] = n
            is_own = index[n] == i
            count += 1 if is_own else 0
            index[n] = _SHADED if is_own else index[n]
        _shade_pixels(solids, materials, light, i, eye, focal, rays, distance, count, work, levels)


@compiled
def _shade_pixels(
    solids: Solids, materials: MaterialTable, light: Light, i: int, eye: np.ndarray, focal: float, rays: np.ndarray,
    distance: np.ndarray, count: int, work: Work, levels: np.ndarray,
) -> None:  # fmt: skip
    """Find the colours of the first `count` pixels of `work`, which show primitive `i`."""
    pixel, a, m = work.pixel, solids.axes, solids.material[i]
    hx, hy, hz = solids.half[i, 0], solids.half[i, 1], solids.half[i, 2]
    exact, rough = work.exact, work.rough
    own_x, own_y, own_z = exact[0], exact[1], exact[2]
    u, v = exact[3], exact[4]
    nx, ny, nz = rough[0], rough[1], rough[2]
    texture, lit = rough[3], rough[4]
    px, py, pz = rough[5], rough[6], rough[7]
    ox, oy, oz = in_own_axes(
        solids, i, eye[0] - solids.centre[i, 0], eye[1] - solids.centre[i, 1], eye[2] - solids.centre[i, 2]
    )
    xx, xy, xz = a[i, 0, 0], a[i, 0, 1], a[i, 0, 2]
    yx, yy, yz = a[i, 1, 0], a[i, 1, 1], a[i, 1, 2]
    zx, zy, zz = a[i, 2, 0], a[i, 2, 1], a[i, 2, 2]
    for n in range(count):
        u[n] = distance[pixel[n]]
        own_x[n], own_y[n], own_z[n] = rays[0, pixel[n]], rays[1, pixel[n]], rays[2, pixel[n]]
    for n in range(count):
        x, y, z = own_x[n], own_y[n], own_z[n]
        own_x[n] = ox + u[n] * (xx * x + xy * y + xz * z)
        own_y[n] = oy + u[n] * (yx * x + yy * y + yz * z)
        own_z[n] = oz + u[n] * (zx * x + zy * y + zz * z)
    # A texture that is finer than a pixel would flicker, so it fades out with the distance.
    contrast, finest = materials.contrast[m], focal * 0.25 * materials.grain[m]
    for n in range(count):
        fine = u[n] / finest
        texture[n] = contrast / (1.0 + fine * fine)
    for n in range(count):
        px[n], py[n], pz[n] = own_x[n], own_y[n], own_z[n]
    if solids.kind[i] == BOX:
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
    elif solids.kind[i] == RECTANGLE:
        for n in range(count):
            nx[n], ny[n], nz[n] = 0.0, 0.0, 1.0
            u[n], v[n] = own_x[n], own_y[n]
    else:
        for n in range(count):
            nx[n], ny[n], nz[n], u[n], v[n] = own_surface(
                solids.kind[i], i, solids.depth[i], hx, hy, hz, own_x[n], own_y[n], own_z[n]
            )
    # The positions are not needed any more.
    shade_along(materials.texture[m], materials.grain[m], texture, u, v, count, own_x, own_y)
    # Lamps and sun are turned into the primitive's own axes, which is less than turning every normal into the scene's.
    f4 = np.float32
    sx, sy, sz = in_own_axes(solids, i, light.sun[0], light.sun[1], light.sun[2])
    sun_x, sun_y, sun_z, strength = f4(sx), f4(sy), f4(sz), f4(light.strength)
    up_x, up_y, up_z = f4(0.25 * a[i, 0, 2]), f4(0.25 * a[i, 1, 2]), f4(0.25 * a[i, 2, 2])
    ambient, one, zero = f4(light.ambient), f4(1.0), f4(0.0)
    for n in range(count):
        # Indirect light: faces that look up are a little brighter than those that look down.
        sun = nx[n] * sun_x + ny[n] * sun_y + nz[n] * sun_z
        indirect = ambient * (one + (up_x * nx[n] + up_y * ny[n] + up_z * nz[n]))
        lit[n] = indirect + strength * max(zero, sun)
    power, softness = f4(1.6), f4(1.5)
    for lamp in range(len(light.lamps)):
        x, y, z = (
            light.lamps[lamp, 0] - solids.centre[i, 0],
            light.lamps[lamp, 1] - solids.centre[i, 1],
            light.lamps[lamp, 2] - solids.centre[i, 2],
        )
        qx, qy, qz = in_own_axes(solids, i, x, y, z)
        lamp_x, lamp_y, lamp_z = f4(qx), f4(qy), f4(qz)
        for n in range(count):
            lx, ly, lz = lamp_x - px[n], lamp_y - py[n], lamp_z - pz[n]
            square = lx * lx + ly * ly + lz * lz
            facing = lx * nx[n] + ly * ny[n] + lz * nz[n]
            lit[n] += max(zero, power * facing / (math.sqrt(square) * (softness + square)))
    glow = f4(materials.glow[m])
    for n in range(count):
        lit[n] = texture[n] * lit[n] * (one - glow) + glow
    for k in range(3):
        colour = f4(materials.colour[m, k])
        for n in range(count):
            levels[pixel[n], k] = _level(colour * lit[n])


@inlined
def _level(light: float) -> int:
    """A display's level for linear light, 0 to 255, with a gamma of 2."""
    return int(255.0 * math.sqrt(min(max(light, 0.0), 1.0)) + 0.5)
