"""Payloads: the picture of a key frame, as bytes of a file, and what is to be known about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.export.rig import camera_lens, sensor_mount
from rover_pipeline.export.samples import Samples, find_samples
from rover_pipeline.format.channels.jpeg import PictureChannel
from rover_pipeline.mapping.grid import encoded

PayloadSensor = Literal["camera", "lidar", "radar"]
#: Sensor -> the channel that pictures are made from, and the sensor that holds its poses.
SOURCES: Mapping[PayloadSensor, tuple[str, str, str]] = {
    "camera": ("camera", "video.avi", "_camera_pose"),
    "lidar": ("_lidar_image", "rng", "_odom"),
    "radar": ("_radar_range_azimuth", "power", "_radar_pose"),
}
#: Decibels of 0 in a picture of the radar, and of one step. 16 bits go from -200 to 455 dB.
RADAR_ZERO_DB, RADAR_STEP_DB = -200.0, 0.01


class Payloads(NamedTuple):
    """The pictures of one sensor.

    Attributes:
        samples: the valid ones.
        metadata: of all pictures.
        read: gives the file of a sample by its number among these, and raises SampleError when it is damaged.
    """

    samples: Samples
    metadata: dict[str, Any]
    read: Callable[[int], bytes]


def find_payloads(trace: Path, sensor: PayloadSensor) -> Payloads:
    """The pictures of a sensor: the camera's JPEG files as they were recorded; ranges and radar power as 16-bit PNG.

    Raises:
        FormatError: the sensor is not there, or holds no pictures.
    """
    name, channel, _ = SOURCES[sensor]
    samples = find_samples(trace, name, channel)
    if samples is None:
        raise FormatError(f"{trace / name}: has no channel {channel} to make the payloads of key frames from")
    source = samples.sensor.channel(channel)
    metadata: dict[str, Any] = {"channel": f"{samples.sensor.name}/{channel}", "sensor": sensor}
    mount = None if sensor == "lidar" else sensor_mount(trace, sensor)
    if mount is not None:
        metadata["extrinsics"] = {
            "frame": "lidar from sensor, front-left-up",
            "rotation": np.round(mount.rotation, 9).tolist(),
            "source": mount.source,
            "translation_m": np.round(mount.translation, 6).tolist(),
        }
    if sensor == "camera":
        if not isinstance(source, PictureChannel):
            raise FormatError(f"{source.path}: holds no pictures, but {source.spec.format}")
        metadata |= _intrinsics(trace)

        def read_jpeg(at: int) -> bytes:
            index = int(samples.indices[at])
            source.read(index, index + 1)  # whoever trains must be able to decode it
            return source.jpeg(index)

        return Payloads(samples, metadata, read_jpeg)
    if len(source.spec.shape) != 2:
        raise FormatError(f"{source.path}: has samples of {list(source.spec.shape)}, which are no pictures")
    metadata["unit"] = "mm, 0 = no return, 65535 = clipped" if sensor == "lidar" else _radar_unit()

    def read_png(at: int) -> bytes:
        index = int(samples.indices[at])
        values = source.read(index, index + 1)[0]
        if sensor == "radar":
            steps = (np.nan_to_num(values.astype("f8"), nan=RADAR_ZERO_DB) - RADAR_ZERO_DB) / RADAR_STEP_DB
            values = np.clip(np.rint(steps), 0, 65535)
        return encoded(".png", values.astype("u2"))

    return Payloads(samples, metadata, read_png)


def key_frames(ts: np.ndarray, period: float) -> np.ndarray:
    """The first sample in each period of time, i8.

    Key frames depend on the recorded times only. A choice by distance would be another one after each processing, and
    the revisions of an item would be lost.

    Args:
        ts: f8 (N,), s, increasing; period: s.
    """
    number = np.floor(ts / period)
    return np.flatnonzero(np.r_[True, number[1:] != number[:-1]][: len(ts)])


def _radar_unit() -> str:
    return (
        f"power in steps of {RADAR_STEP_DB:g} dB above {RADAR_ZERO_DB:g} dB, rows = azimuth from left, columns = range"
    )


def _intrinsics(trace: Path) -> dict[str, Any]:
    """The lens of the camera, where a `camera.json` describes it."""
    if not (trace / "camera" / "camera.json").exists():
        return {}
    return {"intrinsics": dict(sorted(asdict(camera_lens(trace)).items()))}
