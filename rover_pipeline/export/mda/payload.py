"""What an item holds: the picture of a key frame, as bytes of a file, and the texts of its annotations.

A text is JSON with sorted keys, and numbers that keep their places. A later revision stores only the blocks of ten
bytes that are new. When a number changes, the text must not shift, or all blocks after it were new. So numbers are
padded with blanks, which JSON allows, to a width that they rarely exceed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, NamedTuple

import numpy as np

from rover_pipeline.camera.pictures import encode_picture
from rover_pipeline.errors import FormatError
from rover_pipeline.export.objects import Objects
from rover_pipeline.export.recording import Recording
from rover_pipeline.export.samples import Samples, find_samples
from rover_pipeline.format.channels.jpeg import PictureChannel
from rover_pipeline.kinematics.rotation import from_matrix

PayloadSensor = Literal["camera", "lidar", "radar"]
#: Sensor -> the channel that pictures are made from, and the sensor that holds its poses.
SOURCES: Mapping[PayloadSensor, tuple[str, str, str]] = {
    "camera": ("camera", "video.avi", "_camera_pose"),
    "lidar": ("_lidar_image", "rng", "_odom"),
    "radar": ("_radar_range_azimuth", "power", "_radar_pose"),
}
#: Decibels of 0 in a picture of the radar, and of one step. 16 bits go from -200 to 455 dB. Layout.
RADAR_ZERO_DB, RADAR_STEP_DB = -200.0, 0.01
#: Characters and decimals of positions and sizes in m, speeds in m/s, parts of a quaternion, angles in rad, shares.
#: Layout.
_METRES, _SPEED, _UNIT, _ANGLE, _SHARE = (12, 4), (9, 3), (10, 7), (8, 4), (6, 3)


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


def find_payloads(recording: Recording, sensor: PayloadSensor) -> Payloads:
    """The pictures of a sensor: the camera's JPEG files as they were recorded; ranges and radar power as 16-bit PNG.

    Args:
        sensor: its type.

    Raises:
        FormatError: the sensor is not there, or holds no pictures.
    """
    name, channel, _ = SOURCES[sensor]
    samples = find_samples(recording, name, channel)
    if samples is None:
        raise FormatError(f"{recording.folder(name)}: has no channel {channel} to make the payloads of key frames from")
    source = samples.sensor.channel(channel)
    metadata: dict[str, Any] = {"channel": f"{samples.sensor.name}/{channel}", "sensor": recording.called(sensor)}
    mount = None if sensor == "lidar" else recording.mount(sensor)
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
        metadata |= _intrinsics(recording)

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
        return encode_picture(".png", values.astype("u2"))

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


def _intrinsics(recording: Recording) -> dict[str, Any]:
    """The lens of the camera, where a `camera.json` describes it."""
    if not recording.has("camera/camera.json"):
        return {}
    return {"intrinsics": dict(sorted(asdict(recording.lens()).items()))}


class Fixed:
    """A number, or an array of numbers, with a width and a number of decimals. What is not finite becomes null."""

    def __init__(self, value: Any, form: tuple[int, int]) -> None:
        self._value, self._form = np.asarray(value, "f8"), form

    def __str__(self) -> str:
        if self._value.ndim:
            return f"[{','.join(str(Fixed(each, self._form)) for each in self._value)}]"
        width, decimals = self._form
        value = round(float(self._value), decimals) if math.isfinite(self._value) else None
        return "null".rjust(width) if value is None else f"{value + 0.0:{width}.{decimals}f}"  # adding 0 turns -0 to 0


def json_text(content: Any) -> str:
    """JSON of one line, ASCII, with sorted keys and without blanks but for those of `Fixed`."""
    if isinstance(content, Mapping):
        return "{" + ",".join(f"{json.dumps(key)}:{json_text(content[key])}" for key in sorted(content)) + "}"
    if isinstance(content, Fixed):
        return str(content)
    if isinstance(content, Sequence) and not isinstance(content, str):
        return f"[{','.join(map(json_text, content))}]"
    return json.dumps(content)


def microseconds(ts: float) -> int:
    """A time, s, as the whole number of microseconds since the epoch; seconds as f8 hold no more."""
    return round(ts * 1e6)


def pose_text(sensor: str, ts: float, valid: bool, pos: np.ndarray, rot: np.ndarray, vel: np.ndarray) -> str:
    """The pose of a sensor.

    Args:
        ts: of the sample, s.
        pos, vel: f8 (3,), m and m/s, in the world of `_odom`; rot: f8 (3, 3), world-from-sensor, front-left-up.
    """
    quat = np.full(4, np.nan)
    if np.isfinite(rot).all():
        quat = from_matrix(rot).as_quat(canonical=True)
    return json_text(
        {
            "frame": "world of _odom, from sensor, front-left-up",
            "pos_m": Fixed(pos, _METRES),
            "quat_xyzw": Fixed(quat, _UNIT),
            "sensor": sensor,
            "time_us": microseconds(ts),
            "valid": int(valid),
            "vel_mps": Fixed(vel, _SPEED),
        }
    )


def objects_text(ts: float, objects: Objects | None, classes: Sequence[str]) -> str:
    """Objects at the time of a sample. They are moved there along their velocities from the sweep that shows them.

    Args:
        ts: of the sample, s.
        objects: of one sweep; None = there is none near enough, and the objects are not known.
    """
    rows = None
    if objects is not None:
        objects = objects.moved(ts - objects.ts)
        rows = [
            {
                "centre_m": Fixed(objects.centre[at], _METRES),
                "extent_m": Fixed(objects.extent[at], _METRES),
                "probability": Fixed(objects.probability[at], _SHARE),
                "track": int(objects.track[at]),
                "vel_mps": Fixed(objects.vel[at], _SPEED),
                "yaw_rad": Fixed(objects.yaw[at], _ANGLE),
            }
            for at in np.argsort(objects.track, kind="stable").tolist()
        ]
    content = {"classes": list(classes), "frame": "world of _odom", "objects": rows, "time_us": microseconds(ts)}
    return json_text(content)


def quality_text(measures: Mapping[str, float | None]) -> str:
    """Measures of quality by name; None or NaN = not known.

    Args:
        measures: standard deviations in m and rad, and shares.
    """
    return json_text({name: Fixed(math.nan if value is None else value, _UNIT) for name, value in measures.items()})
