"""The objects of a recording, from its `_objects`, for formats with annotations."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.format.sensor import Sensor

OBJECTS = "_objects"
#: Classes, in the order of the channel `probability`.
CLASSES = ("car", "pedestrian", "cyclist", "other")
_SHAPES = {"centre": (3,), "extent": (3,), "yaw": (), "vel": (3,), "track": (), "probability": (len(CLASSES),)}
#: Samples that are read at once.
_SAMPLES = 256


class Objects(NamedTuple):
    """Objects, one row for each object of each sample, in the order of time.

    Attributes:
        ts: f8 (row,), s.
        centre: f8 (row, 3), m, in the world of `_odom`, as all that follows.
        extent: f8 (row, 3), length, width and height, m.
        yaw: f8 (row,), rad, of the length, from x to y.
        vel: f8 (row, 3), m/s.
        track: i8 (row,), not negative.
        probability: f8 (row, class).
    """

    ts: np.ndarray
    centre: np.ndarray
    extent: np.ndarray
    yaw: np.ndarray
    vel: np.ndarray
    track: np.ndarray
    probability: np.ndarray

    def select(self, chosen: slice | np.ndarray) -> Objects:
        """Some of the rows."""
        return Objects(*(each[chosen] for each in self))


class ObjectReader:
    """Reads the objects of a recording, some samples at a time.

    Attributes:
        ts: f8 (N,), times of the samples as they are stored, s.
        valid: bool (N,).

    Raises:
        FormatError: a channel is missing, or has another shape.
    """

    def __init__(self, trace: Path) -> None:
        self._sensor = Sensor(trace / OBJECTS)
        for name, shape in _SHAPES.items():
            found = self._sensor.specs[name].shape[1:] if name in self._sensor.specs else None
            if found != shape:
                raise FormatError(
                    f"{self._sensor.path}: has no channel {name} of [object{''.join(f', {n}' for n in shape)}]; "
                    "make _objects again"
                )
        count = self._sensor.length(channels=(*_SHAPES, "count"))
        self.ts, self.valid = self._sensor.times(count), self._sensor.valid(count).astype(bool)

    def read(self, start: int, stop: int, ts: np.ndarray) -> Objects:
        """The objects of the valid ones among the samples `start` to `stop`, without those that have no finite box.

        Args:
            ts: f8 (N,), times of all samples that the objects get, s.
        """
        parts = [self._read(at, min(stop, at + _SAMPLES), ts) for at in range(start, stop, _SAMPLES)]
        if not parts:
            parts = [self._read(start, start, ts)]
        return Objects(*(np.concatenate(each) for each in zip(*parts, strict=True)))

    def _read(self, start: int, stop: int, ts: np.ndarray) -> Objects:
        values = {name: self._sensor.channel(name).read(start, stop) for name in (*_SHAPES, "count")}
        slots = values["track"].shape[1]
        used = (np.arange(slots) < values["count"][:, None]) & self.valid[start:stop, None] & (values["track"] >= 0)
        for name in ("centre", "extent", "yaw", "vel", "probability"):
            finite = np.isfinite(values[name])
            used &= finite if finite.ndim == 2 else finite.all(2)
        columns = {name: values[name][used].astype("i8" if name == "track" else "f8") for name in _SHAPES}
        return Objects(ts[start:stop][np.nonzero(used)[0]], **columns)
