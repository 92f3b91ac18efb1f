"""What the results of a recording were made with: its rig, its lens, its clocks. Exports must use the same.

The options of a run of the workflow stand in the provenance of its results. So an export needs no configuration that
could differ from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.camera.intrinsics import read_intrinsics
from rover_pipeline.camera.lens import Lens
from rover_pipeline.clocks.clock import corrected, odometry_clock
from rover_pipeline.engine.instances import as_types
from rover_pipeline.engine.step import MAIN
from rover_pipeline.errors import FormatError
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.rig import Rig
from rover_pipeline.format.sensor import TS, VALID, Sensor
from rover_pipeline.format.texts import read_text, section
from rover_pipeline.format.trace import CONFIG, Trace
from rover_pipeline.kinematics.mount import Mount, find_mount
from rover_pipeline.kinematics.options import RigOptions
from rover_pipeline.kinematics.state import Poses, State
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.lidar.options import PointsOptions

#: From the axes of a picture (right, down, front) to those of a sensor (front, left, up), and back. Physics: REP 103.
FLU_FROM_OPTICAL = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
OPTICAL_FROM_FLU = FLU_FROM_OPTICAL.T
#: How long after its time a pose of a radar's frame is: what the step measured.
_INSTANT = "radar_instant_after_ts_s"


def made_with(trace: Path, sensor: str) -> Mapping[str, Any]:
    """The options that a virtual sensor was made with; empty where it is not ours, or not there."""
    return section(read_provenance(trace / sensor), "options")


def sensor_mount(trace: Path, sensor: str, made: str = "") -> Mount:
    """Pose of a radar, camera or IMU in the lidar frame: by the rig that the result `made`, unless given its `_pose`,
    was made with, else the recording's own."""
    options = RigOptions.parse(section(made_with(trace, made or f"_{sensor}_pose"), "rig"), "rig")
    return find_mount(Rig(trace).types.get(sensor, sensor), options, config_of(trace, sensor))


def config_of(trace: Path, sensor: str) -> str | None:
    """`config.yaml` with a sensor and the lidar of `_odom` called like their types; None when there is none."""
    sensors, recorded = Rig(trace), read_optional(trace / CONFIG)
    type, made = sensors.types.get(sensor, sensor), (read_provenance(trace / "_odom") or {}).get("sensors")
    lidar = str(made.get("lidar", "lidar")) if isinstance(made, Mapping) else sensors.main("lidar")
    main = lidar if type == "lidar" else sensors.main(type)
    roles = {"lidar": lidar, type: sensor, **({MAIN: main} if main != sensor else {})}
    return recorded and as_types(recorded, {key: name for key, name in roles.items() if key != name})


def pose_delay(trace: Path, sensor: str) -> float:
    """Seconds from the times of poses, such as `_radar_pose`, to their instants: a radar's are in the middle of its
    chirps."""
    value = section(read_provenance(trace / sensor), "measured").get(_INSTANT) if sensor.endswith("_pose") else None
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0.0


def clock_options(trace: Path) -> PointsOptions:
    """How sweeps were recorded and their times are corrected, as `_odom` was made with; with the deskew asked for."""
    options = made_with(trace, "_odom")
    made = {"ts_reference": section(options, "lidar").get("ts_reference"), "times": section(options, "times")}
    values = {key: value for key, value in made.items() if value}
    return PointsOptions.parse({"compensate": True, **values}, "lidar.points")


def camera_lens(trace: Path, camera: str = "camera") -> Lens:
    """Intrinsics of the recorded pictures of a camera, from its sidecar, such as `camera/camera.json`. Raises
    FormatError where there is none, or it is not the camera's."""
    sidecar = trace / camera / Rig(trace).sidecar(camera)
    height, width = Trace(trace).source(camera, "video.avi").specs["video.avi"].shape[:2]
    chosen = (made_with(trace, each).get("lens") for each in (f"_{camera}_depth", f"_{camera}_frames"))
    model = next(filter(None, chosen), None)
    try:
        return read_intrinsics(read_text(sidecar), width, height, model).lens
    except FileNotFoundError as error:
        raise FormatError(f"{sidecar}: is missing; put the camera's intrinsics there") from error
    except ValueError as error:
        raise FormatError(f"{sidecar.parent}: {error}") from error


def read_optional(path: Path) -> str | None:
    """The text of a sidecar; None when it does not exist."""
    try:
        return read_text(path)
    except FileNotFoundError:
        return None


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
    read = whole_sensor(folder, "pos", "rot")
    return SensorPoses(read[TS], Poses(read["rot"].astype("f8"), read["pos"].astype("f8")), read[VALID].astype(bool))


def whole_sensor(path: Path, *channels: str) -> dict[str, np.ndarray]:
    """Small channels of a sensor, with its `ts` and `valid`, read whole."""
    sensor = Sensor(path)
    count = sensor.length(channels=channels)
    arrays = {name: sensor.channel(name).read_whole(count) for name in channels}
    return {TS: sensor.times(count), VALID: sensor.valid(count), **arrays}


def is_plausible(values: np.ndarray) -> np.ndarray:
    """Which values can be measured ones: finite, with squares that an f4 holds."""
    return np.asarray(np.abs(values) < np.sqrt(np.finfo("f4").max))


def read_states(trace: Path) -> dict[str, np.ndarray]:
    """The states of `_odom`, and its `ts` and `valid`. Raises FormatError where a valid one has implausible values."""
    odometry = whole_sensor(trace / "_odom", *State._fields)
    for name in State._fields:
        if not is_plausible(odometry[name][odometry[VALID] != 0]).all():
            raise FormatError(f"{trace / '_odom' / name}: holds values that no motion has; make it again")
    return odometry


def read_trajectory(trace: Path, max_gap: float = np.inf) -> Trajectory:
    """The lidar's motion at times without the jitter of their arrival, as `_odom` was made with. It is not known
    between states with more than `max_gap` seconds between them. Raises FormatError where no pose is valid."""
    odometry = read_states(trace)
    trajectory = Trajectory.of(odometry, odometry_clock(odometry, clock_options(trace).times), max_gap=max_gap)
    if not trajectory.valid.any():
        raise FormatError(f"{trace / '_odom'}: none of its {len(odometry['ts'])} poses is valid")
    return trajectory


def lidar_clock(trace: Path, ts: np.ndarray, trajectory: Trajectory) -> np.ndarray:
    """Times of a sensor that has those of the lidar, f8 (N,), s, without the jitter of their arrival."""
    return corrected("lidar", ts, trajectory.stamps, clock_options(trace).times)
