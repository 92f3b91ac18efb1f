"""The floor below the lidar, and with it the direction of up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rover_pipeline.errors import FormatError, short
from rover_pipeline.format.texts import parse_json
from rover_pipeline.mapping.tuning import TUNING
from rover_pipeline.numerics.linear import eigh, matmul

#: Points of a sweep, and planes that RANSAC tries. Schedule.
_POINTS, _TRIALS = 3000, 300


class Floor(NamedTuple):
    """The floor as the lidar sees it."""

    up: np.ndarray  #: f8 (3,), unit normal, in the world frame.
    height: float  #: of the lidar above it, m.
    #: True when the sweeps show a plane. Else `up` is the world's z, and the lowest points are the floor.
    is_plane: bool


def find_floor(sweeps: Sequence[np.ndarray]) -> Floor:
    """The floor below the lidar: in each sweep the plane with most points by RANSAC, then the median of the sweeps.

    Args:
        sweeps: f (N, 3) each, metres, relative to the lidar in the axes of the world frame; NaN = no return.
    """
    planes = [plane for points in sweeps if (plane := _plane(points)) is not None]
    if 2 * len(planes) >= max(1, len(sweeps)):
        normal = np.median([normal for normal, _ in planes], axis=0)
        return Floor(normal / np.linalg.norm(normal, axis=0), float(np.median([height for _, height in planes])), True)
    heights = np.concatenate([points[np.isfinite(points[:, 2]), 2] for points in sweeps] or [np.empty(0)])
    lowest = float(np.percentile(heights, 1)) if len(heights) else 0.0
    return Floor(np.array([0.0, 0.0, 1.0]), -lowest, False)


def direction_up(known: str | None) -> np.ndarray:
    """The unit vector against gravity in the world of `_odom`, f8 (3,).

    Args:
        known: its `up.json`; None = nothing shows the direction, and z is up.

    Raises:
        FormatError: the file holds no direction.
    """
    given = [0.0, 0.0, 1.0] if known is None else parse_json(known, "_odom/up.json").get("up")
    try:
        up = np.array(given, "f8")
    except (TypeError, ValueError):
        up = np.zeros(3)
    length = np.sqrt((up**2).sum())
    if up.shape != (3,) or not 0 < length < np.inf:
        raise FormatError(f"_odom/up.json: `up` is no direction: {short(given)}; make _odom again")
    return up / length


def turned_up(known: str | None) -> np.ndarray:
    """A rotation, f8 (3, 3), of the world, after which its z is within 45 degrees of up: floors are found there.
    Argument and error as of `direction_up`."""
    up = direction_up(known)
    return np.eye(3) if up[2] > np.hypot(up[0], up[1]) else levelling(up)


def levelling(up: np.ndarray) -> np.ndarray:
    """A rotation, (3, 3), that takes the unit vector `up` to z: the smallest, or one after half a turn about x."""
    if up[2] < 0:
        return matmul(levelling(up * [1, -1, -1]), np.diag([1.0, -1.0, -1.0]))
    x, y, z = up
    cross = np.array([[0.0, 0.0, -x], [0.0, 0.0, -y], [x, y, 0.0]])
    return np.eye(3) + cross + matmul(cross, cross) / (1 + z)


def _plane(points: np.ndarray) -> tuple[np.ndarray, float] | None:
    """Normal of the floor in one sweep and height of the lidar above it; None when no plane has enough inliers."""
    distance = np.hypot(points[:, 0], points[:, 1])
    with np.errstate(invalid="ignore"):
        below = points[(points[:, 2] < -0.1) & (distance < TUNING.floor_range_m)].astype("f8")
    if len(below) < 50:
        return None
    below = below[np.linspace(0, len(below) - 1, min(len(below), _POINTS)).astype(int)]
    rng = np.random.default_rng(0)
    a, b, c = below[rng.integers(0, len(below), (3, _TRIALS))]
    normals = np.cross(b - a, c - a)
    size = np.linalg.norm(normals, axis=1, keepdims=True)
    normals = normals / np.where(size > 0, size, 1) * np.where(normals[:, 2:] < 0, -1, 1)
    usable = normals[:, 2] > np.hypot(normals[:, 0], normals[:, 1])  # rather level than upright
    if not usable.any():
        return None
    normals, heights = normals[usable], -np.einsum("ij,ij->i", normals, a)[usable]
    residuals = np.abs(matmul(below, normals.T) + heights) / TUNING.floor_inlier_m
    # The score of an inlier falls with its residual (MSAC: Torr and Zisserman, MLESAC, 2000).
    best = int(np.maximum(0, 1 - residuals**2).sum(0).argmax())
    inliers = below[residuals[:, best] < 1]
    if len(inliers) < max(30, TUNING.min_floor_inliers * len(below)):
        return None
    centre = inliers.mean(0)
    normal = eigh(matmul((inliers - centre).T, inliers - centre))[1][:, 0]
    normal = normal * np.sign(normal[2])
    return normal, -float(matmul(normal, centre))
