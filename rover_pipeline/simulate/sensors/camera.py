"""A pinhole camera with a global shutter: shaded and textured pictures of the world.

The camera frame is front-left-up like that of every sensor: a point (x, y, z) appears at u = cx - fx y / x,
v = cy - fy z / x, with (0, 0) the middle of the first pixel.
"""

from __future__ import annotations

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


def picture(world: World, lens: Lens, time: float, pos: np.ndarray, rot: np.ndarray) -> np.ndarray:
    """The picture through a lens without distortion from a pose, scene-from-camera: u1 RGB (height, width, 3)."""
    image = np.empty((lens.height, lens.width, 3), "u1")
    intrinsics = np.array([lens.fx, lens.fy, lens.cx, lens.cy])
    _render(world.at(time), MATERIAL_TABLE, world.light, pos, rot, intrinsics, image)
    return image


@compiled
def _render(
    solids: Solids, materials: MaterialTable, light: Light, eye: np.ndarray, rot: np.ndarray,
    intrinsics: np.ndarray, image: np.ndarray,
) -> None:  # fmt: skip
    """Draw what a pinhole camera sees, tile by tile.

    Args:
        eye, rot: pose of the camera, scene-from-camera.
        intrinsics: fx, fy, cx, cy, pixels.
        image: u1 (height, width, 3), takes the picture.
    """
    height, width = image.shape[:2]
    candidates = np.empty(len(solids.kind), np.int64)
    bounds, spread = np.empty(len(solids.kind)), np.empty(4)
    axis, d, normal = np.empty(3), np.empty(3), np.empty(3)
    for top in range(0, height, TILE):
        for left in range(0, width, TILE):
            bottom, right = min(top + TILE, height), min(left + TILE, width)
            _ray(rot, intrinsics, (left + right - 1) / 2, (top + bottom - 1) / 2, axis)
            spread[0::2], spread[1::2] = np.inf, -np.inf
            for v in (top, bottom - 1):
                for u in (left, right - 1):
                    _ray(rot, intrinsics, u, v, d)
                    widen(axis, d, spread)
            near = cull(solids, eye, 0.0, axis, spread, 0.0, candidates, bounds)
            for v in range(top, bottom):
                for u in range(left, right):
                    _ray(rot, intrinsics, u, v, d)
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
                    fine = t / (intrinsics[0] * 0.25 * materials.grain[m])
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
def _ray(rot: np.ndarray, intrinsics: np.ndarray, u: float, v: float, out: np.ndarray) -> None:
    """Unit direction in the scene frame of the ray through a pixel."""
    y, z = (intrinsics[2] - u) / intrinsics[0], (intrinsics[3] - v) / intrinsics[1]
    scale = 1.0 / np.sqrt(1.0 + y * y + z * z)
    for k in range(3):
        out[k] = (rot[k, 0] + rot[k, 1] * y + rot[k, 2] * z) * scale


@inlined
def _level(light: float) -> int:
    """A display's level for linear light, 0 to 255, with a gamma of 2."""
    return int(255.0 * np.sqrt(min(max(light, 0.0), 1.0)) + 0.5)
