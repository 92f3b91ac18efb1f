"""Checks of the samples of a lidar that is points: as many as `count` says, and nothing past them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rover_pipeline.errors import FormatError, require_damage
from rover_pipeline.format.sensor import Sensor

#: Bytes of a channel that are read at once.
_BLOCK_BYTES = 1 << 25
#: Channels of points -> whether places past `count` hold NaN.
_CHANNELS = {"xyz": True, "intensity": True, "time": True, "ring": False}


def point_problems(sensor: Sensor) -> Iterator[str]:
    """For each rule that sweeps of the sensor `lidar` break, the first such sweep, if it is a lidar that is points."""
    if sensor.name != "lidar" or "xyz" not in sensor.specs:
        return
    if "count" not in sensor.specs:
        yield f"{sensor.path}: has xyz but no channel count, which says how many of its points there are"
        return
    names = [name for name in _CHANNELS if name in sensor.specs]
    reported: set[str] = set()
    try:
        sweeps = min(len(sensor.channel(name)) for name in ("count", *names))
        valid = sensor.valid(sweeps).astype(bool)
        block = max(1, _BLOCK_BYTES // max(sensor.specs[name].sample_bytes for name in names))
        for start in range(0, sweeps, block):
            part = slice(start, min(start + block, sweeps))
            count = sensor.channel("count").read(part.start, part.stop).astype("i8")
            for name in names:
                values = sensor.channel(name).read(part.start, part.stop)
                for problem, bad in _broken(name, values, count, valid[part]):
                    if bad.any() and problem not in reported:
                        reported.add(problem)
                        yield f"{sensor.path / name}: sample {start + int(np.argmax(bad))}: {problem}"
    except FormatError as error:
        require_damage(error)
        return  # the check of the channel itself reports it


def _broken(name: str, values: np.ndarray, count: np.ndarray, valid: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Problems of a channel, and the sweeps that have them, bool (frame,)."""
    places = values.shape[1] if values.ndim > 1 else 0
    yield f"count is more than the {places} points of a sample", count > places
    if name == "xyz":
        yield "count is 0 although valid is 1", valid & (count == 0)
    if values.dtype.kind != "f":
        return
    per_place = values.reshape(len(values), places, -1)
    unused = np.arange(places) >= count[:, None]
    if _CHANNELS[name]:
        yield f"{name} is not NaN past count", (unused & ~np.isnan(per_place).all(2)).any(1)
    if name in ("xyz", "time"):
        yield f"{name} is not finite before count", (~unused & ~np.isfinite(per_place).all(2)).any(1)
