"""Points of a sweep in the world: compiled kernels."""

from __future__ import annotations

import math

import numpy as np

from rover_pipeline.numerics.compiled import compiled, inlined


@compiled
def transform_points(points: np.ndarray, column: np.ndarray, pos: np.ndarray, rot: np.ndarray) -> np.ndarray:
    """Points in the world, f8 (N, 3).

    Args:
        points: f4 (N, 3), lidar frame.
        column: i4 (N,), which of the poses each point was measured from.
        pos, rot: f8 (C, 3), (C, 3, 3).
    """
    out = np.empty((len(points), 3))
    for n in range(len(points)):
        c = column[n]
        for i in range(3):
            out[n, i] = (
                pos[c, i] + rot[c, i, 0] * points[n, 0] + rot[c, i, 1] * points[n, 1] + rot[c, i, 2] * points[n, 2]
            )
    return out


@inlined
def raised_by(x: float, y: float, z: float) -> tuple[float, float]:
    """How a point of the lidar frame moves if its beam is raised: by a number times (-x, -y), and up, m/rad."""
    horizontal = math.sqrt(x * x + y * y)
    return z / max(horizontal, 1e-9), horizontal


@compiled
def transform_rays(points: np.ndarray, column: np.ndarray, pos: np.ndarray, rot: np.ndarray) -> np.ndarray:
    """Points in the world as a map takes them, f8 (N, 10); see `surfels.SurfelMap.insert`.

    Args:
        points, column, pos, rot: as in `transform_points`.
    """
    out = np.empty((len(points), 10))
    for n in range(len(points)):
        c = column[n]
        x, y, z = np.float64(points[n, 0]), np.float64(points[n, 1]), np.float64(points[n, 2])
        scale = 1 / max(math.sqrt(x * x + y * y + z * z), 1e-9)
        out[n, 6] = z * scale
        level, rise = raised_by(x, y, z)
        for i in range(3):
            ray = rot[c, i, 0] * x + rot[c, i, 1] * y + rot[c, i, 2] * z
            out[n, i], out[n, 3 + i] = pos[c, i] + ray, scale * ray
            out[n, 7 + i] = rot[c, i, 2] * rise - level * (rot[c, i, 0] * x + rot[c, i, 1] * y)
    return out
