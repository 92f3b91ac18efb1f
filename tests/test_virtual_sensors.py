"""Every virtual sensor of the table obeys the contract, and its results change only with its version."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest

from docs.make_tables import reads
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.engine.step import REFERENCE
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.table import TABLE, find_step
from tests.kit import WHOLE, check_virtual_sensor, declared, small_trace, write_odometry
from tests.objects.passers import write_passers
from tests.odometry.room import write_room
from tests.radar.scenes import write_targets
from tests.references import DIRECTORY, check_reference

#: Every virtual sensor of the table that can be made without a file of the user. Folders of files have tests in their
#: rooms.
SENSORS = [name for name, step in TABLE.items() if not step.products and step.shown.needs_option is None]
#: Raw sensors of the small trace, for virtual sensors that need others than lidar and radar.
RECORDED = {
    "_camera_pose": ("lidar", "camera"),
    "_imu_pose": ("lidar", "imu"),
    "_sync": ("lidar", "radar", "camera", "imu"),
    "_camera_times": ("camera",),
    "_imu_times": ("imu",),
    "_occupancy": ("lidar", "radar", "imu"),
    "_camera_depth": ("lidar", "camera"),
    "_camera_frames": ("camera",),
    "_imu_filtered": ("imu",),
    "_radar_odom": ("radar", "imu"),
}
#: Virtual sensors whose runs are killed in the default suite: by ranges of frames, and all frames at once.
KILLED = {"_radar_range_doppler", "_imu_filtered"}
#: Virtual sensors that are written in the same way as another one, for which the killed runs are tested.
TWINS = {
    "_odom",
    "_objects",
    "_lidar_points",
    "_radar_odom",
    "_camera_pose",
    "_imu_pose",
    "_lidar_times",
    "_radar_times",
    "_camera_times",
    "_imu_times",
    "_occupancy",
    "_camera_depth",
}
OPTIONS: dict[str, dict[str, object]] = {
    "_odom": {"segment": 0.4, "overlap": 0.2},
    "_objects": {"still": True, "min_hits": 3, "min_points": 3, "max_objects": 4},
    "_occupancy": {"elevation_bins": 4, "azimuth_bins": 16, "level": True},
    "_camera_depth": {"width": 24, "height": 16},
    "_camera_frames": {"width": 12, "height": 8},
}
#: Absolute tolerance of results of iterations, in the unit of each channel: 1 mm for positions, 1 mm/s for velocities.
TOLERANCE = {"_odom": 1e-3, "_radar_odom": 1e-3, "_objects": 1e-3}


def trace_for(sensor: str, path: Path) -> Path:
    """The small trace, with the inputs of a virtual sensor."""
    sensors = RECORDED.get(sensor, ("lidar", "radar"))
    trace = small_trace(path, sensors=sensors, invalid={"lidar": (1,), "radar": (2,), "camera": (3,), "imu": (2,)})
    references = declared(sensor, OPTIONS.get(sensor, {})).references()
    inputs = dict.fromkeys(name.partition("/")[0] for name in references if not name.endswith("?"))
    if sensor == "_odom":
        write_room(trace)
    if sensor == "_objects":
        write_passers(trace)
    if sensor in ("_radar_points", "_radar_velocity", "_radar_odom"):
        write_targets(trace)
    if sensor == "_radar_odom":
        inputs = {"_radar_points": None, **inputs}
    if sensor == "_camera_depth":
        write_lens(trace)
    for name in inputs:
        if (trace / name).exists():
            continue
        if name == "_odom":
            write_odometry(trace, invalid=(4,))  # odometry finds no motion in the random ranges of a small trace
        elif name.startswith("_"):
            run_step(find_step(name), trace, name, Request())
    return trace


def write_lens(trace: Path) -> None:
    """Give the camera of a small trace its intrinsics."""
    lens = {"fx": 9.0, "fy": 9.0, "cx": 11.5, "cy": 7.5, "k": [0.006, 0.008, -0.002, -0.023], "p": [0, 0]}
    (trace / "camera" / "camera.json").write_text(json.dumps(lens))


@pytest.mark.parametrize("sensor", SENSORS)
def test_every_virtual_sensor_obeys_the_contract(sensor: str, tmp_path: Path) -> None:
    kills = 0 if sensor in TWINS else 12 if WHOLE else 4 * (sensor in KILLED)
    check_virtual_sensor(sensor, trace_for(sensor, tmp_path / "trace"), sensor, OPTIONS.get(sensor), kills=kills)


@pytest.mark.parametrize("sensor", SENSORS)
def test_results_change_only_with_the_version_of_their_step(sensor: str, tmp_path: Path) -> None:
    """Integers are compared exactly, floating-point numbers bit for bit or to a tolerance; see `check_reference`."""
    trace = trace_for(sensor, tmp_path / "trace")
    run_step(find_step(sensor), trace, sensor, Request(OPTIONS.get(sensor, {})))
    result = Sensor(trace / sensor)
    channels = {name: result.channel(name).read() for name in sorted(set(result.specs) - {"ts", "valid"})}
    check_reference(sensor, channels, TOLERANCE.get(sensor))


@pytest.mark.parametrize("sensor", ["_lidar_image", "_radar_range_azimuth", "_imu_filtered", "_sync", "_bev"])
def test_the_page_names_everything_that_a_step_has_read(sensor: str, tmp_path: Path) -> None:
    trace = trace_for(sensor, tmp_path / "trace")
    run_step(find_step(sensor), trace, sensor, Request())
    named = reads(declared(sensor, {}))
    for reference in (read_provenance(trace / sensor) or {})["inputs"]:
        assert any(fnmatch(reference, each.replace(REFERENCE, "lidar")) for each in named), reference


def test_every_stored_reference_is_of_a_step_of_the_table_and_of_its_version() -> None:
    current = {f"{name}.v{step.version}.npz" for name, step in TABLE.items()}
    assert {path.name for path in DIRECTORY.iterdir()} <= current


def test_the_reference_of_objects_has_bodies_that_move_and_what_stands() -> None:
    (stored,) = DIRECTORY.glob("_objects.*")
    with np.load(stored) as objects:
        listed = np.arange(objects["yaw"].shape[1]) < objects["count"][:, None]
        speed = np.linalg.norm(objects["vel"], axis=-1)[listed]
        moving = {int(track) for track in objects["track"][listed][speed > 0.5]}
        assert len(moving) >= 3 and (speed == 0).any() and (speed > 5).any()
        assert not listed[[1, 4]].any()


def test_references_of_the_radar_have_points_and_velocities_but_in_the_frame_that_is_not_valid() -> None:
    stored = {path.name.split(".")[0]: path for path in DIRECTORY.glob("_radar_*.npz")}
    with np.load(stored["_radar_points"]) as points, np.load(stored["_radar_velocity"]) as estimate:
        good = points["count"] > 0
        assert good.tolist() == [True, True, False, True, True, True]
        np.testing.assert_allclose(estimate["vel"][good][:, :2], [[1.9, 0.6]] * 5, atol=0.1)
        assert (estimate["inliers"][good] >= 6).all() and np.isnan(estimate["vel"][~good]).all()
