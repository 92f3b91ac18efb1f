"""Terrain: undulating ground, a height field with grass on it.

The height is a sum of waves, with no plane anywhere and exact slopes.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.simulate.scene.leaves import scattered
from rover_pipeline.simulate.scene.world import TERRAIN, Part

#: Waves: direction times wave number (1/m, x and y), phase, and amplitude for an undulation of 1 m. Wavelengths are 41,
#: 23, 13, 6.1 and 1.9 m. Layout.
_WAVES = np.array([
    (0.118, 0.097, 0.3, 0.60), (-0.121, 0.245, 1.9, 0.27), (0.453, 0.171, 4.0, 0.10), (0.35, -0.969, 2.6, 0.035),
    (2.9, 1.57, 5.1, 0.006),
])  # fmt: skip
#: The largest height, the steepest slope and the strongest curvature (1/m), for an undulation of 1 m. Layout.
_HIGHEST = float(_WAVES[:, 3].sum())
_STEEPEST = float((np.hypot(_WAVES[:, 0], _WAVES[:, 1]) * _WAVES[:, 3]).sum())
_MAX_CURVATURE = float(((_WAVES[:, 0] ** 2 + _WAVES[:, 1] ** 2) * _WAVES[:, 3]).sum())
#: Metres above the ground that count as on it, the shortest step, and the largest number of steps. Schedule.
_ON_GROUND, _SHORTEST, _STEPS = 1e-5, 1e-5, 500
#: Grass: edge of the cells that have one blade each, and how far a ray gets through the blades on average, metres.
#: Layout.
_BLADE, _THROUGH_GRASS = 0.02, 0.1
#: Metres. A ray along the ground is in the grass no longer than this. Layout.
_LONGEST_IN_GRASS = 0.5


def terrain(half_x: float, half_y: float, undulation: float, grass: float, material: str) -> Part:
    """The ground around the origin; it rises and falls by about `undulation` metres; height of its grass in metres."""
    return Part(TERRAIN, (0.0, 0.0, 0.0), (half_x, half_y, undulation), material, np.eye(3), grass)


def on_terrain(points: ArrayLike, undulation: float) -> np.ndarray:
    """Points (x, y) of an array (N, 2) with the height of the ground there, (N, 3)."""
    points = np.asarray(points, "f8")
    heights = [undulation * height(float(x), float(y))[0] for x, y in points]
    return np.column_stack([points, heights])


@compiled
def height(x: float, y: float) -> tuple[float, float, float]:
    """Height of the ground at a point, and its slopes along x and y, for an undulation of 1 m."""
    z, slope_x, slope_y = 0.0, 0.0, 0.0
    for n in range(len(_WAVES)):
        angle = _WAVES[n, 0] * x + _WAVES[n, 1] * y + _WAVES[n, 2]
        z += _WAVES[n, 3] * np.sin(angle)
        slope = _WAVES[n, 3] * np.cos(angle)
        slope_x += _WAVES[n, 0] * slope
        slope_y += _WAVES[n, 1] * slope
    return z, slope_x, slope_y


@compiled
def distance_to_ground(
    ox: float, oy: float, oz: float, dx: float, dy: float, dz: float, half_x: float, half_y: float, undulation: float,
    grass: float, limit: float,
) -> float:  # fmt: skip
    """Metres along a unit ray to the ground or a blade of grass; infinite when it meets none before `limit`.

    The ray goes on in steps that cannot miss the ground, as sphere tracing does (Hart, The Visual Computer 12, 1996).
    Near the ground the bound of the curvature makes them as long as Newton's.

    Args:
        ox, oy, oz, dx, dy, dz: origin and direction in the terrain's own axes.
        grass: height of the grass, metres.
    """
    # The height over the ground falls by at most this for each metre of the ray.
    fastest = undulation * _STEEPEST * math.sqrt(dx * dx + dy * dy) - dz
    if fastest <= 0.0:
        return np.inf
    # A blade of grass may be nearer than `limit` where the soil behind it is not.
    farthest = limit + _LONGEST_IN_GRASS
    top, curvature = undulation * _HIGHEST, undulation * _MAX_CURVATURE * (dx * dx + dy * dy) + 1e-9
    t = (top - oz) / dz if oz > top and dz < 0.0 else 0.0
    for _ in range(_STEPS):
        x, y, z = ox + t * dx, oy + t * dy, oz + t * dz
        if t >= farthest or abs(x) > half_x or abs(y) > half_y or (dz >= 0.0 and z > top):
            return np.inf
        level, slope_x, slope_y = height(x, y)
        gap = z - undulation * level
        falling = undulation * (slope_x * dx + slope_y * dy) - dz
        if gap < _ON_GROUND:
            return t - _above_soil(x, y, grass, max(falling, 1e-3))
        # The height over the ground after a step s is at least gap - falling s - curvature s^2 / 2.
        bent = (math.sqrt(falling * falling + 2.0 * curvature * gap) - falling) / curvature
        t += max(bent, gap / fastest, _SHORTEST)
    return np.inf


@compiled
def _above_soil(x: float, y: float, grass: float, falling: float) -> float:
    """Metres before the soil at which the ray that ends at (x, y) meets a blade of grass; 0 when it meets none."""
    in_grass = min(grass / falling, _LONGEST_IN_GRASS)
    number = scattered(math.floor(x / _BLADE), math.floor(y / _BLADE), int(np.int64(0)), int(np.int64(1)))
    free = -_THROUGH_GRASS * np.log((number + 0.5) / 4294967296.0)
    return max(in_grass - free, 0.0)
