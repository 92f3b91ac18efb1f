"""Poses of a trace, and the mounts of the sensors that have them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rover_pipeline.errors import FormatError
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.texts import read_text
from rover_pipeline.format.trace import CONFIG
from rover_pipeline.kinematics.mount import Mount, find_mount
from rover_pipeline.kinematics.options import Mounted, RigOptions
from rover_pipeline.kinematics.state import Poses


class SensorPoses(NamedTuple):
    """All poses of a sensor: times, f8 (N,), s; poses, f8, world-from-sensor; and `valid`, bool (N,)."""

    ts: np.ndarray
    poses: Poses
    valid: np.ndarray


def read_sensor_poses(folder: Path) -> SensorPoses:
    """The poses of a sensor, such as `_odom`. Raises FormatError when it holds none."""
    sensor = Sensor(folder)
    for channel, shape in (("pos", (3,)), ("rot", (3, 3))):
        if channel not in sensor.specs or sensor.specs[channel].shape != shape:
            raise FormatError(f"{sensor.path}: holds no poses: it has no channel {channel} of shape {list(shape)}")
    count = sensor.length(channels=("pos", "rot"))
    pos, rot = sensor.channel("pos").read().astype("f8"), sensor.channel("rot").read().astype("f8")
    return SensorPoses(sensor.times(count), Poses(rot, pos), sensor.valid(count).astype(bool))


def made_with(trace: Path, sensor: str) -> Mapping[str, Any]:
    """The options that a virtual sensor was made with; empty where it is not ours, or not there."""
    options = (read_provenance(trace / sensor) or {}).get("options")
    return options if isinstance(options, Mapping) else {}


def sensor_mount(trace: Path, sensor: Mounted, made: str = "") -> Mount:
    """Pose of a sensor in the lidar frame: by the rig that its `_pose` was made with, else the recording's own.

    Args:
        made: the result whose rig it is; unless given, the `_pose` of the sensor.
    """
    rig = made_with(trace, made or f"_{sensor}_pose").get("rig")
    options = RigOptions.parse(rig if isinstance(rig, Mapping) else {}, "rig")
    return find_mount(sensor, options, read_optional(trace / CONFIG))


def read_optional(path: Path) -> str | None:
    """The text of a sidecar; None when it does not exist."""
    try:
        return read_text(path)
    except FileNotFoundError:
        return None
