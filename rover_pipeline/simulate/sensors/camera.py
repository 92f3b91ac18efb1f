"""A camera with a global shutter: shaded and textured pictures of the world through one of several lenses.

The camera frame is front-left-up like that of every sensor; (0, 0) is the middle of the first pixel.
"""

from __future__ import annotations

import functools
import math
import threading
from typing import NamedTuple

import cv2
import numpy as np

from rover_pipeline.camera.lens import Lens
from rover_pipeline.numerics.compiled import compiled, inlined
from rover_pipeline.simulate.scene.materials import MATERIAL_TABLE, MaterialTable, f4, i4
from rover_pipeline.simulate.scene.raycast import (
    NOTHING,
    RAYS,
    TILE,
    Points,
    cull,
    first_hits,
    in_own_axes,
    look_along,
    pick,
    points_of_a_tile,
    pyramid,
)
from rover_pipeline.simulate.scene.world import Light, Solids, World

# The light that surfaces send to a camera, for tiles of pixels.


@compiled
def _shade_tile(
    solids: Solids, materials: MaterialTable, light: Light, eye: np.ndarray, focal: float, rays: np.ndarray,
    distance: np.ndarray, index: np.ndarray, points: Points, levels: np.ndarray,
) -> None:  # fmt: skip
    """Find the colours of a tile's pixels, u1 (3, RAYS), for `levels`. A ray is NaN where the lens sees nothing.

    What the rays meet is as `first_hits` finds it; its indices are used up. `points` is memory.
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
        for n in range(count):
            # A display's level for linear light, with a gamma of 2.
            levels[k, pixel[n]] = i4(f4(255.0) * math.sqrt(min(max(colour * lit[n], zero), one)) + f4(0.5))


#: Lenses by name, for pictures of 1920x1080. The fisheye is that of the I/Q-1M recordings (RadarML/red-rover,
#: iq1m/camera.json, rounded). Brown's has the coefficients and the focal length, 0.707 widths, of KITTI's first grey
#: camera (A. Geiger et al., Vision meets robotics: the KITTI dataset, 2013; calib_cam_to_cam.txt). The pinhole sees 80
#: degrees from left to right. Layout.
LENSES = {
    "fisheye": Lens(
        1920, 1080, 987.68, 985.31, 956.14, 534.49, (0.00605, 0.00806, -0.00187, -0.02294), (0.0, 0.0), "fisheye"
    ),
    "brown": Lens(1920, 1080, 1357.6, 1357.6, 959.5, 539.5, (-0.3729, 0.2037, -0.0723, 0.0), (0.00222, 0.00138)),
    "pinhole": Lens(1920, 1080, 1144.0834488904418, 1144.0834488904418, 959.5, 539.5),
}


#: Tiles along each side of a block. Schedule.
_BLOCK = 8
#: Threads that start together would each compute the rays.
_ONE_AT_A_TIME = threading.Lock()


def picture(world: World, lens: Lens, time: float, pos: np.ndarray, rot: np.ndarray) -> np.ndarray:
    """The picture through a lens from a pose, scene-from-camera: u1 RGB (height, width, 3).

    Pixels in which no light falls through the lens are black.
    """
    with _ONE_AT_A_TIME:
        tiles = _tiles(lens)
    # Planes of whole tiles: each tile is written with a few long stores.
    planes = np.empty((3, TILE * tiles.is_used.shape[0], TILE * tiles.is_used.shape[1]), "u1")
    size = lens.height, lens.width
    _render(world.at(time), MATERIAL_TABLE, world.light, pos, rot, tiles, lens.fx, points_of_a_tile(RAYS), size, planes)
    return cv2.merge([plane[: lens.height, : lens.width] for plane in planes])


class Tiles(NamedTuple):
    """The rays of a lens in square tiles, row by row, and the pyramids around them, in the camera frame."""

    #: f4 (row of tiles, tile, 3, RAYS), unit vectors; NaN where the lens sees nothing, and beyond the picture.
    rays: np.ndarray
    #: f8 (row of tiles, tile, 3, 3) and (row of tiles, tile, 4), as `pyramid` makes them.
    frame: np.ndarray
    spread: np.ndarray
    is_used: np.ndarray  #: bool (row of tiles, tile), whether the lens sees anything there.
    #: the same for blocks of `_BLOCK` by `_BLOCK` tiles.
    block_frame: np.ndarray
    block_spread: np.ndarray


@functools.lru_cache(maxsize=2)
def _tiles(lens: Lens) -> Tiles:
    rays = lens.rays().astype("f4")
    side = TILE * _BLOCK
    rows, columns = -(-lens.height // side), -(-lens.width // side)
    padded = np.full((rows * side, columns * side, 3), np.nan, "f4")
    padded[: lens.height, : lens.width] = rays
    blocks = padded.reshape(rows, side, columns, side, 3).transpose(0, 2, 4, 1, 3).reshape(rows, columns, 3, -1)
    tiles = padded.reshape(rows * _BLOCK, TILE, columns * _BLOCK, TILE, 3).transpose(0, 2, 4, 1, 3)
    tiles = np.ascontiguousarray(tiles).reshape(rows * _BLOCK, columns * _BLOCK, 3, RAYS)
    return Tiles(tiles, *_pyramids(tiles), *_pyramids(np.ascontiguousarray(blocks))[:2])


def _pyramids(rays: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Frames, spreads and whether there are any rays, for rays (row, column, 3, N)."""
    shape = rays.shape[:2]
    frame, spread, is_used = np.zeros((*shape, 3, 3)), np.zeros((*shape, 4)), np.empty(shape, "?")
    for place in np.ndindex(*shape):
        # A second type of rays would be compiled once more.
        is_used[place] = pyramid(rays[place].astype("f8"), frame[place], spread[place])
    return frame, spread, is_used


@compiled
def _render(
    solids: Solids, materials: MaterialTable, light: Light, eye: np.ndarray, rot: np.ndarray,
    tiles: Tiles, focal: float, points: Points, size: tuple[int, int], planes: np.ndarray,
) -> None:  # fmt: skip
    """Draw what a camera sees, tile by tile, from its pose, scene-from-camera. `focal`: length of the lens, pixels;
    `size`: height and width of the picture; `planes`: u1 (3, rows, columns) of all tiles, take red, green and blue."""
    height, width = size
    everything, origins, lags = np.arange(len(solids.kind)), eye.copy().reshape(1, 3), np.zeros(1)
    ahead, ahead_bounds = np.empty(len(solids.kind), np.int64), np.empty(len(solids.kind))
    candidates, bounds = np.empty(len(solids.kind), np.int64), np.empty(len(solids.kind))
    rays, distance, index = np.empty((3, RAYS)), np.empty(RAYS), np.empty(RAYS, np.int64)
    levels = np.empty((3, RAYS), np.uint8)
    frame = np.empty((3, 3))
    for block_row in range(tiles.block_spread.shape[0]):
        for block_column in range(tiles.block_spread.shape[1]):
            # Most primitives are outside of a whole block of tiles.
            _turned(rot, tiles.block_frame[block_row, block_column], frame)
            spread = tiles.block_spread[block_row, block_column]
            in_block = cull(solids, everything, eye, 0.0, frame, spread, 0.0, ahead, ahead_bounds)
            for row in range(block_row * _BLOCK, (block_row + 1) * _BLOCK):
                for column in range(block_column * _BLOCK, (block_column + 1) * _BLOCK):
                    top, left = row * TILE, column * TILE
                    if top >= height or left >= width:
                        continue
                    if not tiles.is_used[row, column]:
                        planes[:, top : top + TILE, left : left + TILE] = 0
                        continue
                    _turned(rot, tiles.frame[row, column], frame)
                    spread = tiles.spread[row, column]
                    near = cull(solids, in_block, eye, 0.0, frame, spread, 0.0, candidates, bounds)
                    in_camera = tiles.rays[row, column]
                    for k in range(3):
                        rx, ry, rz = rot[k, 0], rot[k, 1], rot[k, 2]
                        for n in range(RAYS):
                            rays[k, n] = rx * in_camera[0, n] + ry * in_camera[1, n] + rz * in_camera[2, n]
                    first_hits(solids, near, bounds, origins, lags, rays, distance, index)
                    _shade_tile(solids, materials, light, eye, focal, rays, distance, index, points, levels)
                    for k in range(3):
                        for v in range(TILE):
                            for u in range(TILE):
                                # Unsigned, as in `Points`.
                                planes[k, np.uint64(top + v), np.uint64(left + u)] = levels[k, np.uint64(v * TILE + u)]


@inlined
def _turned(rot: np.ndarray, frame: np.ndarray, out: np.ndarray) -> None:
    """Turn the rows of a frame from the camera frame into the scene frame."""
    for r in range(3):
        for k in range(3):
            out[r, k] = rot[k, 0] * frame[r, 0] + rot[k, 1] * frame[r, 1] + rot[k, 2] * frame[r, 2]
