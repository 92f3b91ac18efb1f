"""The light that surfaces send to a camera, for tiles of pixels.

All pixels of a tile that show one primitive are shaded together, in loops without branches, which are compiled to
vector instructions.
"""

from __future__ import annotations

import math

import numpy as np

from rover_pipeline.numerics.compiled import compiled, inlined
from rover_pipeline.simulate.scene.materials import MaterialTable, f4, i4
from rover_pipeline.simulate.scene.raycast import in_own_axes
from rover_pipeline.simulate.scene.surfaces import Points, look_along, pick
from rover_pipeline.simulate.scene.tiles import NOTHING, RAYS
from rover_pipeline.simulate.scene.world import Light, Solids


@compiled
def shade_tile(
    solids: Solids, materials: MaterialTable, light: Light, eye: np.ndarray, focal: float, rays: np.ndarray,
    distance: np.ndarray, index: np.ndarray, points: Points, levels: np.ndarray,
) -> None:  # fmt: skip
    """Find the colours of a tile's pixels.

    Args:
        eye: of the camera, (3,), metres.
        focal: length of the lens, pixels.
        rays: f8 (3, RAYS), unit directions in the scene frame, NaN where the lens sees nothing.
        distance, index: as `first_hits` finds them; the indices are used up.
        points: memory.
        levels: u1 (3, RAYS), takes the colours.
    """
    first, done = int(np.int64(0)), 0  # a plain 0 is a constant to Numba, for which it would compile `pick` once more
    while done < RAYS:
        first, i, count = pick(index, first, points.ray)
        if i == NOTHING:
            _shade_sky(light, rays, points.ray, count, levels)
        else:
            _shade_pixels(solids, materials, light, i, eye, focal, rays, distance, count, points, levels)
        done += count


@compiled
def _shade_sky(light: Light, rays: np.ndarray, pixel: np.ndarray, count: int, levels: np.ndarray) -> None:
    """Find the colours of the first `count` of `pixel`, which show no primitive."""
    for n in range(count):
        up = rays[2, pixel[n]]
        haze = min(1.0, 0.25 + 1.2 * max(up, 0.0))
        for k in range(3):
            sky = light.sky[k] * haze + (1.0 - haze) * (0.55 + 0.45 * light.sky[k])
            levels[k, pixel[n]] = int(255.0 * math.sqrt(min(max(sky, 0.0), 1.0)) + 0.5) if up == up else 0


@compiled
def _shade_pixels(
    solids: Solids, materials: MaterialTable, light: Light, i: int, eye: np.ndarray, focal: float, rays: np.ndarray,
    distance: np.ndarray, count: int, points: Points, levels: np.ndarray,
) -> None:  # fmt: skip
    """Find the colours of the first `count` pixels of `points`, which show primitive `i`."""
    pixel, a, m = points.ray, solids.axes, solids.material[i]
    own_x, own_y, own_z, t = points.exact[0], points.exact[1], points.exact[2], points.exact[3]
    nx, ny, nz, texture = points.rough[0], points.rough[1], points.rough[2], points.rough[3]
    ox, oy, oz = in_own_axes(
        solids, i, eye[0] - solids.centre[i, 0], eye[1] - solids.centre[i, 1], eye[2] - solids.centre[i, 2]
    )
    xx, xy, xz = a[i, 0, 0], a[i, 0, 1], a[i, 0, 2]
    yx, yy, yz = a[i, 1, 0], a[i, 1, 1], a[i, 1, 2]
    zx, zy, zz = a[i, 2, 0], a[i, 2, 1], a[i, 2, 2]
    if count == RAYS:
        for n in range(RAYS):
            own_x[n], own_y[n], own_z[n], t[n] = rays[0, n], rays[1, n], rays[2, n], distance[n]
    else:
        for n in range(count):
            p = pixel[n]
            own_x[n], own_y[n], own_z[n], t[n] = rays[0, p], rays[1, p], rays[2, p], distance[p]
    # A texture that is finer than a pixel would flicker, so it fades out with the distance.
    contrast, per_finest = f4(materials.contrast[m]), 1.0 / (focal * 0.25 * materials.grain[m])
    for n in range(count):
        x, y, z = own_x[n], own_y[n], own_z[n]
        own_x[n] = ox + t[n] * (xx * x + xy * y + xz * z)
        own_y[n] = oy + t[n] * (yx * x + yy * y + yz * z)
        own_z[n] = oz + t[n] * (zx * x + zy * y + zz * z)
        texture[n] = t[n] * per_finest
    for n in range(count):
        texture[n] = contrast / (f4(1.0) + texture[n] * texture[n])
    hx, hy, hz = solids.half[i, 0], solids.half[i, 1], solids.half[i, 2]
    texture_kind, grain = materials.texture[m], materials.grain[m]
    look_along(solids.kind[i], i, solids.depth[i], hx, hy, hz, texture_kind, grain, count, points)
    px, py, pz, lit = points.rough[4], points.rough[5], points.rough[6], points.rough[7]
    for n in range(count):
        px[n], py[n], pz[n] = own_x[n], own_y[n], own_z[n]
    # Lamps and sun are turned into the primitive's own axes, which is less than turning every normal into the scene's.
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
        if count == RAYS:
            for n in range(RAYS):
                levels[k, n] = _level(colour * lit[n])
        else:
            for n in range(count):
                levels[k, pixel[n]] = _level(colour * lit[n])


@inlined
def _level(light: float) -> int:
    """A display's level for linear light, f4, 0 to 255, with a gamma of 2."""
    return i4(f4(255.0) * math.sqrt(min(max(light, f4(0.0)), f4(1.0))) + f4(0.5))
