"""The boxes of objects, as annotations need them: along a sensor's axes, and in a picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rover_pipeline.camera.lens import Lens
from rover_pipeline.export.objects import Objects
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.numerics.linear import matmul

#: Points along each edge of a box whose projections bound it: lenses bend its edges.
_ALONG = 5
#: A box must be so far ahead of the camera, m, to be projected.
_LEAST_DEPTH = 0.1


def corners(boxes: Objects, along: int = 2) -> np.ndarray:
    """Points of each box in the world, f8 (N, along^3, 3): its corners, or a grid of `along` points a side."""
    unit = np.linspace(-0.5, 0.5, along)
    grid = np.stack(np.meshgrid(unit, unit, unit, indexing="ij"), -1).reshape(-1, 3)
    local = grid * boxes.extent[:, None]
    cos, sin = np.cos(boxes.yaw)[:, None], np.sin(boxes.yaw)[:, None]
    x, y = local[..., 0] * cos - local[..., 1] * sin, local[..., 0] * sin + local[..., 1] * cos
    return np.stack([x, y, local[..., 2]], -1) + boxes.centre[:, None]


def enclosing(boxes: Objects, pose: Poses) -> np.ndarray:
    """Centre and extents, along the axes of a sensor, of the smallest boxes around the boxes; f8 (N, 6), m.

    Args:
        pose: of the sensor in the world, (3, 3) and (3,).
    """
    seen = matmul(corners(boxes) - pose.pos, pose.rot)
    low, high = seen.min(1), seen.max(1)
    return np.concatenate([(low + high) / 2, high - low], axis=1)


def in_picture(boxes: Objects, lens: Lens, pose: Poses) -> np.ndarray:
    """Boxes around the boxes in a picture, f8 (N, 4): left, top, right, bottom, pixels from the picture's corner; NaN
    where the camera sees no part of one.

    Args:
        pose: of the camera in the world, front-left-up, (3, 3) and (3,).
    """
    out = np.full((len(boxes.centre), 4), np.nan)
    if not len(out):
        return out
    seen = matmul(corners(boxes, _ALONG) - pose.pos, pose.rot)
    ahead = np.where(seen[..., 0] > _LEAST_DEPTH, seen[..., 0], np.nan)
    column, row = lens.pixels(-seen[..., 1] / ahead, -seen[..., 2] / ahead)
    for number in range(len(out)):
        known = np.isfinite(column[number]) & np.isfinite(row[number])
        if not known.any():
            continue
        # (0, 0) is the middle of the first pixel, half a pixel away from the corner of the picture.
        x = np.clip(np.array(_bounds(column[number][known])) + 0.5, 0, lens.width)
        y = np.clip(np.array(_bounds(row[number][known])) + 0.5, 0, lens.height)
        if x[1] - x[0] >= 1 and y[1] - y[0] >= 1:
            out[number] = x[0], y[0], x[1], y[1]
    return out


def _bounds(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    return float(np.min(values)), float(np.max(values))
