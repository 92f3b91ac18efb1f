"""A pinhole camera with a global shutter: shaded and textured pictures of the world.

Camera frame front-left-up like every sensor's: a point (x, y, z) appears at u = cx - fx y / x, v = cy - fy z / x,
with (0, 0) the middle of the first pixel.
"""

from __future__ import annotations

import numpy as np

from rover_pipeline.camera.lens import Lens
from rover_pipeline.simulate.materials import LOOK
from rover_pipeline.simulate.raycast import render
from rover_pipeline.simulate.world import World


def wide(width: int, height: int, view: float) -> Lens:
    """A lens without distortion that sees `view` degrees from left to right."""
    focal = width / 2 / np.tan(np.radians(view) / 2)
    return Lens(width, height, focal, focal, (width - 1) / 2, (height - 1) / 2)


def picture(world: World, lens: Lens, time: float, pos: np.ndarray, rot: np.ndarray) -> np.ndarray:
    """What the camera sees at an instant from a pose, scene-from-camera: u1 RGB (height, width, 3).

    Args:
        lens: without distortion.
    """
    image = np.empty((lens.height, lens.width, 3), "u1")
    light = world.light
    render(
        world.at(time), LOOK, pos, rot, np.array([lens.fx, lens.fy, lens.cx, lens.cy]),
        light.sun, light.strength, light.lamps, light.ambient, np.array(light.sky), image,
    )  # fmt: skip
    return image
