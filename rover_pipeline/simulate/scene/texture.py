"""Procedural textures of materials, compiled: functions of two surface coordinates, without stored images."""

from __future__ import annotations

import numpy as np

from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.simulate.scene.materials import BRICK, PLAIN, PLANK, STRIPE, TILE


@compiled
def _cell(i: int, j: int) -> float:
    """A fixed random number in [0, 1) for a cell of the integer grid."""
    h = (i * 374761393 + j * 668265263) & 0xFFFFFFFF
    h = ((h ^ (h >> 13)) * 1274126177) & 0xFFFFFFFF
    return ((h ^ (h >> 16)) & 0xFFFF) / 65536.0


@compiled
def _noise(u: float, v: float) -> float:
    """Value noise: a smooth random field in [0, 1) with features of size 1."""
    i, j = int(np.floor(u)), int(np.floor(v))
    x, y = u - i, v - j
    x, y = x * x * (3.0 - 2.0 * x), y * y * (3.0 - 2.0 * y)
    low = _cell(i, j) * (1.0 - x) + _cell(i + 1, j) * x
    high = _cell(i, j + 1) * (1.0 - x) + _cell(i + 1, j + 1) * x
    return low * (1.0 - y) + high * y


@compiled
def shade(texture: int, grain: float, contrast: float, u: float, v: float) -> float:
    """Fraction of a surface's reflectivity that its texture leaves at a point, `1 - contrast` to 1.

    Args:
        texture, grain, contrast: as in `Material`.
        u, v: surface coordinates, metres.
    """
    if texture == PLAIN:
        return 1.0
    u, v = u / grain, v / grain
    dark = 0.6 * _noise(u, v) + 0.4 * _noise(4.1 * u, 4.1 * v)
    if texture == STRIPE:
        dark = 0.75 * _cell(int(np.floor(u)), 7) + 0.25 * dark
    elif texture == PLANK:
        row = int(np.floor(v))
        along = u / 7.0 + _cell(row, 3)
        joint = v - row < 0.06 or along - np.floor(along) < 0.01
        dark = 1.0 if joint else 0.5 * _cell(row, int(np.floor(along))) + 0.5 * _noise(0.6 * u, 9.0 * v)
    elif texture == TILE:
        joint = u - np.floor(u) < 0.035 or v - np.floor(v) < 0.035
        dark = 1.0 if joint else 0.4 * _cell(int(np.floor(u)), int(np.floor(v))) + 0.3 * dark
    elif texture == BRICK:
        row = int(np.floor(3.0 * v))
        along = u + 0.5 * (row % 2)
        joint = 3.0 * v - row < 0.12 or along - np.floor(along) < 0.04
        dark = 0.0 if joint else 0.35 + 0.45 * _cell(int(np.floor(along)), row) + 0.2 * dark
    return 1.0 - contrast * dark
