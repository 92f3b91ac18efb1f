"""A small recording whose sensors have rates of their own, with results at the times of some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from rover_pipeline.format.meta import ChannelSpec, Format
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, SensorWriter
from rover_pipeline.numerics.nearest import nearest_samples

START_S = 1_700_000_000.0
TOLERANCE_S = 0.04
#: Rate, first sample after the start, and number of the samples that were lost.
RATES: Mapping[str, tuple[float, float, tuple[int, ...]]] = {
    "lidar": (10.0, 0.1, ()),
    "radar": (20.0, 0.013, (6, 7, 8, 9, 10, 11)),
    "camera": (30.0, 0.007, ()),
}


def times(sensor: str, seconds: float) -> np.ndarray:
    """Times of a sensor, f8 s."""
    rate, first, lost = RATES[sensor]
    ts = START_S + first + np.arange(round(seconds * rate)) / rate
    return np.delete(ts, lost)


def write_rig(
    path: Path, *, seconds: float = 3.0, invalid: Mapping[str, Sequence[int]] | None = None, pictures: Format = "raw"
) -> Path:
    """Make a recording with `lidar`, `radar`, `camera`, `_sync`, `_bev` (of the lidar) and `_power` (of the radar).

    Every value of a channel tells the number of its sample. `_odom` goes along x at 1 m/s.

    Args:
        invalid: sensor -> samples with `valid` = 0.
        pictures: format of `camera/picture`.
    """
    path.mkdir(parents=True)
    (path / "config.yaml").write_text("lidar: {type: lidar}\n")
    invalid = invalid or {}
    ts = {name: times(name, seconds) for name in RATES}
    _write(
        path / "lidar", ts["lidar"], invalid.get("lidar", ()), rng=_numbered(ts["lidar"], (4, 8), "u2"), format="lzmaf"
    )
    _write(path / "radar", ts["radar"], invalid.get("radar", ()), iq=_numbered(ts["radar"], (2, 6), "i2"))
    picture = _numbered(ts["camera"], (16, 16, 3), "u1")
    _write(path / "camera", ts["camera"], invalid.get("camera", ()), format=pictures, picture=picture)
    _write(path / "_bev", ts["lidar"], invalid.get("_bev", ()), occupancy=_numbered(ts["lidar"], (3, 5), "u1"))
    _write(path / "_power", ts["radar"], invalid.get("_power", ()), power=_numbered(ts["radar"], (3, 5), "f4"))
    pos = np.stack([ts["lidar"] - START_S, 0 * ts["lidar"], 0 * ts["lidar"]], 1)
    _write(path / "_odom", ts["lidar"], invalid.get("_odom", ()), pos=pos)
    write_sync(path, ts)
    return path


def write_sync(path: Path, ts: Mapping[str, np.ndarray]) -> None:
    """The `_sync` of a recording, as the step of that name makes it."""
    base, matched = ts["lidar"], {}
    for name, own in ts.items():
        nearest = nearest_samples(own, base)
        dt = own[nearest] - base
        near = np.abs(dt) <= TOLERANCE_S
        matched[name] = np.where(near, nearest, -1).astype("i4")
        matched[f"{name}_dt"] = np.where(near, dt, np.nan).astype("f4")
    _write(path / "_sync", base, (), "raw", **matched)


def _write(
    folder: Path, ts: np.ndarray, invalid: Sequence[int], format: Format = "raw", **channels: np.ndarray
) -> None:
    valid = np.ones(len(ts), "u1")
    valid[list(invalid)] = 0
    specs = {TS: TS_SPEC, VALID: VALID_SPEC}
    for name, values in channels.items():
        kind = f"{values.dtype.kind}{values.dtype.itemsize}"
        specs[name] = ChannelSpec(format=format, type=kind, shape=values.shape[1:])
    with SensorWriter(folder, specs) as writer:
        writer.append(**{TS: ts, VALID: valid}, **channels)


def _numbered(ts: np.ndarray, shape: tuple[int, ...], type: str) -> np.ndarray:
    numbers = np.arange(len(ts)).reshape(-1, *(1,) * len(shape))
    return np.broadcast_to(numbers, (len(ts), *shape)).astype(type)
