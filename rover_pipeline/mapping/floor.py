"""Where the floor is below the lidar, and which way is up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_TILT_DEG = 20.0  # the first pose, and with it the world, is level within this
_REACH_M = 15.0
_THICKNESS_M = 0.03  # more, and a tilted plane takes in a road and its pavements
_SHARE = 0.1
_POINTS, _TRIALS = 3000, 300


class Floor(NamedTuple):
    """The floor as the lidar sees it.

    Attributes:
        up: f8 (3,), unit, in the world.
        height: of the lidar above it, m.
        found: whether it is a plane in the sweeps; else `up` is the world's z and the lowest points are the floor.
    """

    up: np.ndarray
    height: float
    found: bool


def find_floor(sweeps: Sequence[np.ndarray]) -> Floor:
    """The floor below the lidar in some sweeps: the plane with most points below it, by RANSAC, median of the sweeps.

    Args:
        sweeps: f (N, 3) each, metres, turned as the world, with the lidar in the origin; NaN = no return.
    """
    planes = [plane for points in sweeps if (plane := _plane(points)) is not None]
    if 2 * len(planes) >= max(1, len(sweeps)):
        normal = np.median([normal for normal, _ in planes], axis=0)
        return Floor(normal / np.linalg.norm(normal), float(np.median([height for _, height in planes])), True)
    heights = np.concatenate([points[np.isfinite(points[:, 2]), 2] for points in sweeps] or [np.empty(0)])
    lowest = float(np.percentile(heights, 1)) if len(heights) else 0.0
    return Floor(np.array([0.0, 0.0, 1.0]), -lowest, False)


def level(up: np.ndarray) -> np.ndarray:
    """The smallest rotation, (3, 3), that takes the unit vector `up` to z."""
    x, y, z = up
    cross = np.array([[0.0, 0.0, -x], [0.0, 0.0, -y], [x, y, 0.0]])
    return np.eye(3) + cross + cross @ cross / (1 + z)


def _plane(points: np.ndarray) -> tuple[np.ndarray, float] | None:
    """Normal and height of the lidar of the floor in one sweep, None when none stands out."""
    distance = np.hypot(points[:, 0], points[:, 1])
    with np.errstate(invalid="ignore"):
        below = points[(points[:, 2] < -0.1) & (distance < _REACH_M)].astype("f8")
    if len(below) < 50:
        return None
    below = below[np.linspace(0, len(below) - 1, min(len(below), _POINTS)).astype(int)]
    rng = np.random.default_rng(0)
    a, b, c = below[rng.integers(0, len(below), (3, _TRIALS))]
    normals = np.cross(b - a, c - a)
    size = np.linalg.norm(normals, axis=1, keepdims=True)
    normals = normals / np.where(size > 0, size, 1) * np.where(normals[:, 2:] < 0, -1, 1)
    usable = normals[:, 2] > np.cos(np.radians(_TILT_DEG))
    if not usable.any():
        return None
    normals, heights = normals[usable], -np.einsum("ij,ij->i", normals, a)[usable]
    misfit = np.abs(below @ normals.T + heights) / _THICKNESS_M
    # Near points count for more than those that are just within: Torr and Zisserman, MLESAC, 2000.
    best = int(np.maximum(0, 1 - misfit**2).sum(0).argmax())
    chosen = below[misfit[:, best] < 1]
    if len(chosen) < max(30, _SHARE * len(below)):
        return None
    centre = chosen.mean(0)
    normal = np.linalg.svd(chosen - centre, full_matrices=False)[2][2]
    normal = normal * np.sign(normal[2])
    return normal, -float(normal @ centre)
