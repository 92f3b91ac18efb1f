"""A camera with a global shutter: shaded and textured pictures of the world through one of several lenses.

The camera frame is front-left-up like that of every sensor; (0, 0) is the middle of the first pixel.
"""

from __future__ import annotations

import functools
import threading

import numpy as np

from rover_pipeline.camera.lens import Lens
from rover_pipeline.numerics.compiled import compiled, inlined
from rover_pipeline.simulate.scene.materials import MATERIAL_TABLE, MaterialTable, shade
from rover_pipeline.simulate.scene.raycast import TILE, cull, first_hit, surface, widen
from rover_pipeline.simulate.scene.world import Light, Solids, World


def pinhole(width: int, height: int, field_of_view: float) -> Lens:
    """A lens without distortion with a horizontal field of view in degrees."""
    focal = width / 2 / np.tan(np.radians(field_of_view) / 2)
    return Lens(width, height, focal, focal, (width - 1) / 2, (height - 1) / 2)


#: Lenses by name, for pictures of 1920x1080. The fisheye is that of the I/Q-1M recordings (RadarML/red-rover,
#: iq1m/camera.json, rounded). Brown's has the coefficients and the focal length, 0.707 widths, of KITTI's first grey
#: camera (A. Geiger et al., Vision meets robotics: the KITTI dataset, 2013; calib_cam_to_cam.txt).
LENSES = {
    "fisheye": Lens(
        1920, 1080, 987.68, 985.31, 956.14, 534.49, (0.00605, 0.00806, -0.00187, -0.02294), (0.0, 0.0), "fisheye"
    ),
    "brown": Lens(1920, 1080, 1357.6, 1357.6, 959.5, 539.5, (-0.3729, 0.2037, -0.0723, 0.0), (0.00222, 0.00138)),
    "pinhole": pinhole(1920, 1080, 80.0),
}


#: Threads that start together would each compute the rays.
_ONE_AT_A_TIME = threading.Lock()


def picture(world: World, lens: Lens, time: float, pos: np.ndarray, rot: np.ndarray) -> np.ndarray:
    """The picture through a lens from a pose, scene-from-camera: u1 RGB (height, width, 3).

    Pixels in which no light falls through the lens are black.
    """
    image = np.empty((lens.height, lens.width, 3), "u1")
    with _ONE_AT_A_TIME:
        rays = _rays(lens)
    _render(world.at(time), MATERIAL_TABLE, world.light, pos, rot, rays, lens.fx, image)
    return image


@functools.lru_cache(maxsize=2)
def _rays(lens: Lens) -> np.ndarray:
    return lens.rays().astype("f4")


@compiled
def _render(
    solids: Solids, materials: MaterialTable, light: Light, eye: np.ndarray, rot: np.ndarray,
    rays: np.ndarray, focal: float, image: np.ndarray,
) -> None:  # fmt: skip
    """Draw what a camera sees, tile by tile.

    Args:
        eye, rot: pose of the camera, scene-from-camera.
        rays: f4 (height, width, 3), unit vectors in the camera frame, NaN where the lens sees nothing.
        focal: length of the lens, pixels.
        image: u1 (height, width, 3), takes the picture.
    """
    height, width = image.shape[:2]
    candidates = np.empty(len(solids.kind), np.int64)
    bounds, spread = np.empty(len(solids.kind)), np.empty(4)
    axis, d, normal = np.empty(3), np.empty(3), np.empty(3)
    for top in range(0, height, TILE):
        for left in range(0, width, TILE):
            bottom, right = min(top + TILE, height), min(left + TILE, width)
            # The pyramid around all rays of the tile. Those at its corners are not always the outermost ones.
            axis[:] = 0.0
            for v in range(top, bottom):
                for u in range(left, right):
                    if _ray(rot, rays, v, u, d):
                        axis += d
            length = np.sqrt(axis[0] * axis[0] + axis[1] * axis[1] + axis[2] * axis[2])
            if length == 0.0:
                image[top:bottom, left:right] = 0
                continue
            axis /= length
            spread[0::2], spread[1::2] = np.inf, -np.inf
            for v in range(top, bottom):
                for u in range(left, right):
                    if _ray(rot, rays, v, u, d):
                        widen(axis, d, spread)
            near = cull(solids, eye, 0.0, axis, spread, 0.0, candidates, bounds)
            for v in range(top, bottom):
                for u in range(left, right):
                    if not _ray(rot, rays, v, u, d):
                        image[v, u] = 0
                        continue
                    t, i = first_hit(solids, near, bounds, eye, d, 0.0)
                    if i < 0:
                        haze = min(1.0, 0.25 + 1.2 * max(d[2], 0.0))
                        for k in range(3):
                            image[v, u, k] = _level(light.sky[k] * haze + (1.0 - haze) * (0.55 + 0.45 * light.sky[k]))
                        continue
                    x, y, z = eye[0] + t * d[0], eye[1] + t * d[1], eye[2] + t * d[2]
                    a, b = surface(solids, i, x, y, z, normal)
                    m = solids.material[i]
                    # A texture that is finer than a pixel would flicker, so it fades out with the distance.
                    fine = t / (focal * 0.25 * materials.grain[m])
                    contrast = materials.contrast[m] / (1.0 + fine * fine)
                    texture = shade(materials.texture[m], materials.grain[m], contrast, a, b)
                    # Indirect light: faces that look up are a little brighter than those that look down.
                    lit = light.ambient * (1.0 + 0.25 * normal[2])
                    if light.strength > 0.0:
                        sun = normal[0] * light.sun[0] + normal[1] * light.sun[1] + normal[2] * light.sun[2]
                        lit += light.strength * max(0.0, sun)
                    for n in range(len(light.lamps)):
                        lx, ly, lz = light.lamps[n, 0] - x, light.lamps[n, 1] - y, light.lamps[n, 2] - z
                        square = lx * lx + ly * ly + lz * lz
                        facing = lx * normal[0] + ly * normal[1] + lz * normal[2]
                        if facing > 0.0:
                            lit += 1.6 * facing / np.sqrt(square) / (1.5 + square)
                    glow = materials.glow[m]
                    for k in range(3):
                        image[v, u, k] = _level(materials.colour[m, k] * (texture * lit * (1.0 - glow) + glow))


@inlined
def _ray(rot: np.ndarray, rays: np.ndarray, v: int, u: int, out: np.ndarray) -> bool:
    """Turn the ray of a pixel into the scene frame; False where the lens sees nothing."""
    for k in range(3):
        out[k] = rot[k, 0] * rays[v, u, 0] + rot[k, 1] * rays[v, u, 1] + rot[k, 2] * rays[v, u, 2]
    return not np.isnan(rays[v, u, 0])


@inlined
def _level(light: float) -> int:
    """A display's level for linear light, 0 to 255, with a gamma of 2."""
    return int(255.0 * np.sqrt(min(max(light, 0.0), 1.0)) + 0.5)
