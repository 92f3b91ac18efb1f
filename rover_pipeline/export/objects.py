"""The objects of a recording, from its `_objects`, for formats with annotations, and the boxes around them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rover_pipeline.camera.lens import Lens
from rover_pipeline.errors import FormatError
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.mapping.floor import direction_up
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.validation.rig import read_optional, section

OBJECTS = "_objects"
#: Shapes of the channels after the axis of objects. Of `probability` the number of classes follows from the channel.
#: Layout.
_SHAPES: dict[str, tuple[int, ...]] = {"centre": (3,), "extent": (3,), "yaw": (), "vel": (3,), "track": ()}
_CHANNELS = (*_SHAPES, "probability")
#: The classes stand in the description of their channel: `...: car, pedestrian, other. [object, class]`.
_CLASSES = re.compile(r":\s*([^:.\[\]]+)\.\s*\[object, class\]")
#: Samples that are read at once. Schedule.
_SAMPLES = 256
#: Points along each edge of a box whose projections bound it, against edges that the lens bends, and those of which it
#: sees a part only. Tuned: by hand.
_EDGE_POINTS = 5


class Objects(NamedTuple):
    """Objects, one row for each object of each sample, in the order of time."""

    ts: np.ndarray  #: f8 (row,), s.
    centre: np.ndarray  #: f8 (row, 3), m, in the world of `_odom`, as all that follows.
    extent: np.ndarray  #: f8 (row, 3), length, width and height, m.
    yaw: np.ndarray  #: f8 (row,), rad, of the length, from x to y.
    vel: np.ndarray  #: f8 (row, 3), m/s.
    track: np.ndarray  #: i8 (row,), not negative.
    probability: np.ndarray  #: f8 (row, class).

    def select(self, chosen: slice | np.ndarray) -> Objects:
        """Some of the rows."""
        return Objects(*(each[chosen] for each in self))

    def moved(self, later: np.ndarray | float) -> Objects:
        """The objects some seconds later, f8 (row,) or for all of them, moved on along their velocities."""
        by = np.broadcast_to(later, self.ts.shape)
        return self._replace(ts=self.ts + by, centre=self.centre + self.vel * by[:, None])

    def levelled(self, up: np.ndarray, level: np.ndarray) -> Objects:
        """The objects in a world whose z is up, (3, 3) that-from-world, where `yaw` turns boxes about z.

        `up`: f8 (3,), in the world, along which the boxes stand. `yaw` gives two parts of the direction of the length
        there, and that this is square to `up` gives the third.
        """
        flat = np.stack([np.cos(self.yaw), np.sin(self.yaw)], 1)
        ahead = np.column_stack([flat * abs(up[2]), -matmul(flat, up[:2]) * np.copysign(1.0, up[2])])
        ahead = matmul(ahead, level.T)
        yaw = np.arctan2(ahead[:, 1], ahead[:, 0])
        return self._replace(centre=matmul(self.centre, level.T), yaw=yaw, vel=matmul(self.vel, level.T))


def world_up(trace: Path, boxes: bool = False) -> np.ndarray:
    """The direction of up in the world of `_odom`, f8 (3,): square to the floor that the boxes of `_objects` stand on,
    if that is asked for and known, else against gravity as `_odom` knows it, else z. Raises FormatError where what is
    stored is no direction."""
    measured = section(read_provenance(trace / OBJECTS) if boxes else None, "measured")
    known = json.dumps(measured) if "up" in measured else read_optional(trace / "_odom" / "up.json")
    return direction_up(known)


class ObjectReader:
    """Reads the objects of a recording, some samples at a time. Raises FormatError where a channel is missing, or has
    another shape.

    Attributes:
        ts: f8 (N,), times of the samples as they are stored, s.
        valid: bool (N,), samples that can be trusted; another one says nothing about objects.
        classes: names, in the order of the probabilities.
        up: f8 (3,), along which the boxes stand, see `world_up`.
    """

    def __init__(self, trace: Path) -> None:
        self._sensor = Sensor(trace / OBJECTS)
        specs = self._sensor.specs
        self.classes, self.up = object_classes(self._sensor), world_up(trace, boxes=True)
        for name, shape in (*_SHAPES.items(), ("probability", (len(self.classes),))):
            if (specs[name].shape[1:] if name in specs else None) != shape:
                raise FormatError(
                    f"{self._sensor.path}: has no channel {name} of [object{''.join(f', {n}' for n in shape)}]; "
                    "make _objects again"
                )
        count = self._sensor.length(channels=(*_CHANNELS, "count"))
        self.ts, self.valid = self._sensor.times(count), self._sensor.valid(count).astype(bool)

    def read(self, start: int, stop: int, ts: np.ndarray) -> Objects:
        """The objects of the valid ones among the samples `start` to `stop`, but for those without a finite box that
        has a size. `ts`: f8 (N,), times of all samples that the objects get, s."""
        starts = range(start, max(stop, start + 1), _SAMPLES)
        parts = [self._read(at, min(stop, at + _SAMPLES), ts) for at in starts]
        return Objects(*(np.concatenate(each) for each in zip(*parts, strict=True)))

    def _read(self, start: int, stop: int, ts: np.ndarray) -> Objects:
        values = {name: self._sensor.channel(name).read(start, stop) for name in (*_CHANNELS, "count")}
        slots = values["track"].shape[1]
        used = (np.arange(slots) < values["count"][:, None]) & self.valid[start:stop, None] & (values["track"] >= 0)
        used &= (values["extent"] > 0).all(2)
        for name in ("centre", "extent", "yaw", "vel", "probability"):
            finite = np.isfinite(values[name])
            used &= finite if finite.ndim == 2 else finite.all(2)
        columns = {name: values[name][used].astype("i8" if name == "track" else "f8") for name in _CHANNELS}
        return Objects(ts[start:stop][np.nonzero(used)[0]], **columns)


def object_classes(objects: Sensor) -> tuple[str, ...]:
    """The names of the classes, which the channel's description gives."""
    spec = objects.specs.get("probability")
    found = _CLASSES.search((spec.desc or "") if spec else "")
    if not found:
        raise FormatError(f"{objects.path}: the description of probability names no classes; make _objects again")
    return tuple(name.strip() for name in found[1].split(","))


def corners(boxes: Objects, along: int = 2) -> np.ndarray:
    """Points of each box in a level world, f8 (N, along^3, 3): its corners, or a grid of `along` points a side."""
    unit = np.linspace(-0.5, 0.5, along)
    grid = np.stack(np.meshgrid(unit, unit, unit, indexing="ij"), -1).reshape(-1, 3)
    local = grid * boxes.extent[:, None]
    cos, sin = np.cos(boxes.yaw)[:, None], np.sin(boxes.yaw)[:, None]
    x, y = local[..., 0] * cos - local[..., 1] * sin, local[..., 0] * sin + local[..., 1] * cos
    return np.stack([x, y, local[..., 2]], -1) + boxes.centre[:, None]


def enclosing(boxes: Objects, pose: Poses) -> np.ndarray:
    """Centre and extents, along the axes of a sensor, of the smallest boxes around the boxes; f8 (N, 6), m. `pose`: of
    the sensor in the level world of the boxes, (3, 3) and (3,)."""
    seen = matmul(corners(boxes) - pose.pos, pose.rot)
    low, high = seen.min(1), seen.max(1)
    return np.concatenate([(low + high) / 2, high - low], axis=1)


def in_picture(boxes: Objects, lens: Lens, pose: Poses) -> np.ndarray:
    """Boxes around the boxes in a picture, f8 (N, 4): left, top, right, bottom, pixels from the picture's corner; NaN
    where the camera sees no part of one. `pose`: of the camera in the level world of the boxes, front-left-up."""
    seen = matmul(corners(boxes, _EDGE_POINTS) - pose.pos, pose.rot)
    ahead = np.where(seen[..., 0] > 0, seen[..., 0], np.nan)
    column, row = lens.pixels(-seen[..., 1] / ahead, -seen[..., 2] / ahead)
    points, known = np.stack([column, row], -1), (np.isfinite(column) & np.isfinite(row))[..., None]
    low, high = np.where(known, points, np.inf).min(1), np.where(known, points, -np.inf).max(1)
    # (0, 0) is the middle of the first pixel, half a pixel away from the corner of the picture.
    low, high = (np.clip(each + 0.5, 0, (lens.width, lens.height)) for each in (low, high))
    return np.where((high - low >= 1).all(1)[:, None], np.concatenate([low, high], 1), np.nan)
