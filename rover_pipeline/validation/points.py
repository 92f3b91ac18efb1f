"""Checks of the samples of a lidar that is points: as many as `count` says, and nothing past them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from rover_pipeline.format.sensor import Sensor
from rover_pipeline.validation.contents import first_bad_samples

#: Channels of points -> whether places past `count` hold NaN.
_CHANNELS = {"xyz": True, "intensity": True, "time": True, "ring": False}


def point_problems(sensor: Sensor) -> Iterator[str]:
    """For each rule that sweeps of the sensor `lidar` break, the first such sweep, if it is a lidar that is points."""
    if sensor.name != "lidar" or "xyz" not in sensor.specs:
        return
    if "count" not in sensor.specs:
        yield f"{sensor.path}: has xyz but no channel count, which says how many of its points there are"
        return
    for name in (each for each in _CHANNELS if each in sensor.specs):
        yield from first_bad_samples(sensor, ("count", name), partial(_broken, name), name)


def _broken(name: str, sensor: Sensor, part: slice, valid: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Problems of a channel, and the sweeps that have them, bool (frame,)."""
    count, values = (sensor.channel(each).read(part.start, part.stop) for each in ("count", name))
    places = values.shape[1] if values.ndim > 1 else 0
    if name == "xyz":
        yield f"count is more than the {places} points of a sample", count > places
        yield "count is 0 although valid is 1", valid & (count == 0)
    if values.dtype.kind != "f":
        return
    per_place = values.reshape(len(values), places, -1)
    unused = np.arange(places) >= count[:, None]
    if _CHANNELS[name]:
        yield f"{name} is not NaN past count", (unused & ~np.isnan(per_place).all(2)).any(1)
    if name in ("xyz", "time"):
        yield f"{name} is not finite before count", (~unused & ~np.isfinite(per_place).all(2)).any(1)
