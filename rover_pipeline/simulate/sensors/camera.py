"""A camera with a global shutter: shaded and textured pictures of the world through one of several lenses.

The camera frame is front-left-up like that of every sensor; (0, 0) is the middle of the first pixel.
"""

from __future__ import annotations

import functools
import threading
from typing import NamedTuple

import cv2
import numpy as np

from rover_pipeline.camera.lens import Lens
from rover_pipeline.numerics.compiled import compiled, inlined
from rover_pipeline.simulate.scene.materials import MATERIAL_TABLE, MaterialTable
from rover_pipeline.simulate.scene.raycast import cull, pyramid
from rover_pipeline.simulate.scene.surfaces import Points, points_of_a_tile
from rover_pipeline.simulate.scene.tiles import RAYS, TILE, first_hits
from rover_pipeline.simulate.scene.world import Light, Solids, World
from rover_pipeline.simulate.sensors.shading import shade_tile


def pinhole(width: int, height: int, field_of_view: float) -> Lens:
    """A lens without distortion with a horizontal field of view in degrees."""
    focal = width / 2 / np.tan(np.radians(field_of_view) / 2)
    return Lens(width, height, focal, focal, (width - 1) / 2, (height - 1) / 2)


#: Lenses by name, for pictures of 1920x1080. The fisheye is that of the I/Q-1M recordings (RadarML/red-rover,
#: iq1m/camera.json, rounded). Brown's has the coefficients and the focal length, 0.707 widths, of KITTI's first grey
#: camera (A. Geiger et al., Vision meets robotics: the KITTI dataset, 2013; calib_cam_to_cam.txt). Layout.
LENSES = {
    "fisheye": Lens(
        1920, 1080, 987.68, 985.31, 956.14, 534.49, (0.00605, 0.00806, -0.00187, -0.02294), (0.0, 0.0), "fisheye"
    ),
    "brown": Lens(1920, 1080, 1357.6, 1357.6, 959.5, 539.5, (-0.3729, 0.2037, -0.0723, 0.0), (0.00222, 0.00138)),
    "pinhole": pinhole(1920, 1080, 80.0),
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
    image: np.ndarray = cv2.merge([plane[: lens.height, : lens.width] for plane in planes])
    return image


class Tiles(NamedTuple):
    """The rays of a lens in square tiles, row by row, and the pyramids around them, in the camera frame.

    Attributes:
        rays: f4 (row of tiles, tile, 3, RAYS), unit vectors; NaN where the lens sees nothing, and beyond the picture.
        frame, spread: f8 (row of tiles, tile, 3, 3) and (row of tiles, tile, 4), as `pyramid` makes them.
        is_used: bool (row of tiles, tile), whether the lens sees anything there.
        block_frame, block_spread: the same for blocks of `_BLOCK` by `_BLOCK` tiles.
    """

    rays: np.ndarray
    frame: np.ndarray
    spread: np.ndarray
    is_used: np.ndarray
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
    """Draw what a camera sees, tile by tile.

    Args:
        eye, rot: pose of the camera, scene-from-camera.
        focal: length of the lens, pixels.
        points: memory for those of a tile.
        size: height and width of the picture.
        planes: u1 (3, rows, columns) of all tiles, take red, green and blue.
    """
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
                    shade_tile(solids, materials, light, eye, focal, rays, distance, index, points, levels)
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
