"""The boxes of `_objects`, as annotations need them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rover_pipeline.camera.lens import Lens
from rover_pipeline.format.meta import META
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.kinematics.state import Poses

#: The classes stand in the description of the channel: `...: car, pedestrian, other. [object, class]`.
_CLASSES = re.compile(r":\s*([^:.\[\]]+)\.\s*\[object, class\]")
#: Points along each edge of a box whose projections bound it: lenses bend its edges.
_ALONG = 5
#: A box must be so far ahead of the camera, m, to be projected.
_LEAST_DEPTH = 0.1


class Boxes(NamedTuple):
    """The objects of one sweep.

    Attributes:
        centre, extent: f8 (N, 3), m, in the world and along the box's own axes (length, width, height).
        yaw: f8 (N,), rad, heading in the world. vel: f8 (N, 3), m/s, in the world.
        track: i8 (N,). probability: f8 (N, class).
    """

    centre: np.ndarray
    extent: np.ndarray
    yaw: np.ndarray
    vel: np.ndarray
    track: np.ndarray
    probability: np.ndarray

    def corners(self, along: int = 2) -> np.ndarray:
        """Points of each box in the world, f8 (N, along^3, 3): its corners, or a grid of `along` points a side."""
        unit = np.linspace(-0.5, 0.5, along)
        grid = np.stack(np.meshgrid(unit, unit, unit, indexing="ij"), -1).reshape(-1, 3)
        local = grid * self.extent[:, None]
        cos, sin = np.cos(self.yaw)[:, None], np.sin(self.yaw)[:, None]
        x, y = local[..., 0] * cos - local[..., 1] * sin, local[..., 0] * sin + local[..., 1] * cos
        return np.stack([x, y, local[..., 2]], -1) + self.centre[:, None]

    def at(self, later: float) -> Boxes:
        """The same boxes some seconds later, moved on by their velocities."""
        return self._replace(centre=self.centre + self.vel * later)


class Objects:
    """The objects of a recording.

    Attributes:
        classes: names, in the order of the probabilities.
        valid: bool (N,), samples that can be trusted; another one tells nothing about objects.
    """

    def __init__(self, trace: Path) -> None:
        self._sensor = Sensor(trace / "_objects")
        spec = self._sensor.specs["probability"]
        found = _CLASSES.search(spec.desc or "")
        names = [name.strip() for name in found[1].split(",")] if found else []
        count = spec.shape[-1]
        self.classes = names if len(names) == count else [f"class{number}" for number in range(count)]
        length = self._sensor.length()
        self.ts, self.valid = self._sensor.times(length), self._sensor.valid(length).astype(bool)

    def read(self, number: int) -> Boxes:
        """The objects of a sample; none where it is not valid."""
        count = int(self._sensor.channel("count").read(number, number + 1)[0]) if self.valid[number] else 0
        arrays = [self._sensor.channel(name).read(number, number + 1)[0][:count] for name in Boxes._fields]
        boxes = Boxes(*(array.astype("i8" if array.dtype.kind == "i" else "f8") for array in arrays))
        good = np.isfinite(boxes.centre).all(1) & (boxes.extent > 0).all(1) & (boxes.track >= 0)
        good &= np.isfinite(boxes.yaw) & np.isfinite(boxes.vel).all(1)
        return Boxes(*(array[good] for array in boxes))


def find_objects(trace: Path) -> Objects | None:
    """The objects of a recording; None where it has no `_objects`."""
    return Objects(trace) if (trace / "_objects" / META).exists() else None


def enclosing(boxes: Boxes, pose: Poses) -> np.ndarray:
    """Centre and extents, along the axes of a sensor, of the smallest boxes around the boxes; f8 (N, 6), m.

    Args:
        pose: of the sensor in the world, (3, 3) and (3,).
    """
    seen = (boxes.corners() - pose.pos) @ pose.rot
    low, high = seen.min(1), seen.max(1)
    return np.concatenate([(low + high) / 2, high - low], axis=1)


def in_picture(boxes: Boxes, lens: Lens, pose: Poses) -> np.ndarray:
    """Boxes around the boxes in a picture, f8 (N, 4): left, top, right, bottom, pixels from the picture's corner; NaN
    where the camera sees no part of one.

    Args:
        pose: of the camera in the world, front-left-up, (3, 3) and (3,).
    """
    out = np.full((len(boxes.centre), 4), np.nan)
    if not len(out):
        return out
    seen = (boxes.corners(_ALONG) - pose.pos) @ pose.rot
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
