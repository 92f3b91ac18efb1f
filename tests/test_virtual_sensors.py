"""Every virtual sensor: what the contract promises of all of them, and bytes that change only with the version."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.table import find_step
from tests.kit import check_virtual_sensor, small_trace, write_lidar_image, write_odometry
from tests.odometry.room import write_room
from tests.radar.scenes import write_targets

SENSORS = {
    "_lidar_image": "_lidar_image",
    "_lidar_points": "_lidar_points",
    "_odom": "_odom",
    "_radar_range_doppler": "_radar_range_doppler",
    "_radar_range_azimuth": "_radar_range_azimuth",
    "_radar_spectrum": "_radar_spectrum",
    "_radar_points": "_radar_points",
    "_radar_velocity": "_radar_velocity",
    "_radar_pose": "_radar_pose",
    "_camera_pose": "_camera_pose",
    "_imu_pose": "_imu_pose",
    "_sync": "_sync",
    "_lidar_times": "_lidar_times",
    "_radar_times": "_radar_times",
    "_camera_times": "_camera_times",
    "_imu_times": "_imu_times",
    "_occupancy": "_occupancy",
    "_bev": "_bev",
    "_camera_depth": "_camera_depth",
    "_camera_frames": "_camera_frames",
    "_imu_filtered": "_imu_filtered",
}
#: Virtual sensors that others are made from.
FIRST = {
    "_radar_velocity": ("_radar_points",),
    "_occupancy": ("_lidar_image",),
    "_bev": ("_lidar_image",),
    "_camera_depth": ("_lidar_image",),
}
#: Those made from poses of the lidar, which random ranges do not give.
FROM_POSES = {"_radar_pose", "_camera_pose", "_imu_pose", "_occupancy", "_camera_depth"}
#: Sensors of the small trace, for those that are not made from lidar and radar.
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
}
#: Those that are written like another one here, which is killed in their place.
TWINS = {
    "_odom",
    "_lidar_points",
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
    "_occupancy": {"elevation_bins": 4, "azimuth_bins": 16, "level": True},
    "_camera_depth": {"width": 24, "height": 16},
    "_camera_frames": {"width": 12, "height": 8},
}
#: Of those whose iterations pass small differences on, relative and absolute.
TOLERANCE = {"_odom": 1e-2}
REFERENCE = Path(__file__).parent / "reference"


def trace_for(sensor: str, path: Path) -> Path:
    """The small trace, with what the virtual sensor is made from."""
    sensors = RECORDED.get(sensor, ("lidar", "radar"))
    trace = small_trace(path, sensors=sensors, invalid={"lidar": (1,), "radar": (2,), "camera": (3,), "imu": (2,)})
    if sensor == "_odom":
        write_room(trace)
        write_lidar_image(trace)
    if sensor in ("_radar_points", "_radar_velocity"):
        write_targets(trace)
    if sensor in FROM_POSES:
        write_odometry(trace, invalid=(4,))
    if sensor == "_camera_depth":
        write_lens(trace)
    for name in FIRST.get(sensor, ()):
        run_step(find_step(SENSORS[name]), trace, name, Request())
    return trace


def write_lens(trace: Path) -> None:
    """Give the camera of a small trace its intrinsics."""
    lens = {"fx": 20.0, "fy": 20.0, "cx": 11.5, "cy": 7.5, "k": [0.1, 0.0, 0.0, 0.0], "p": [0.01, 0.0]}
    (trace / "camera" / "camera.json").write_text(json.dumps(lens))


@pytest.mark.parametrize(("sensor", "step"), SENSORS.items())
def test_every_virtual_sensor_keeps_the_promises_of_the_contract(sensor: str, step: str, tmp_path: Path) -> None:
    kills = 0 if sensor in TWINS else 12
    check_virtual_sensor(step, trace_for(sensor, tmp_path / "trace"), sensor, options=OPTIONS.get(sensor), kills=kills)


@pytest.mark.parametrize(("sensor", "step"), SENSORS.items())
def test_results_change_only_with_the_version_of_their_step(sensor: str, step: str, tmp_path: Path) -> None:
    """Stored results of the small trace; kinds of processor differ in the last bits of floating point.

    After a change on purpose raise the step's version, delete the old file and run this once to write the new one.
    """
    described = find_step(step)
    trace = trace_for(sensor, tmp_path / "trace")
    run_step(described, trace, sensor, Request(OPTIONS.get(sensor, {})))
    channels = Sensor(trace / sensor)
    made = {name: channels.channel(name).read() for name in sorted(set(channels.specs) - {"ts", "valid"})}
    stored = REFERENCE / f"{sensor}.v{described.version}.npz"
    if not stored.exists():
        np.savez_compressed(stored, **made)  # type: ignore[arg-type]  # numpy's stubs take the names for flags
        pytest.fail(f"{stored.name} was not there and has been written; look at it and commit it")
    with np.load(stored) as expected:
        assert set(expected) == set(made)
        for name, array in made.items():
            tolerance = TOLERANCE.get(sensor, 1e-4)
            absolute = tolerance if array.dtype.kind == "f" else 0
            np.testing.assert_allclose(array, expected[name], rtol=tolerance, atol=absolute)


def test_references_of_the_radar_have_points_and_velocities_but_in_the_frame_that_is_not_valid() -> None:
    stored = {path.name.split(".")[0]: path for path in REFERENCE.glob("_radar_*.npz")}
    with np.load(stored["_radar_points"]) as points, np.load(stored["_radar_velocity"]) as found:
        good = points["count"] > 0
        assert good.tolist() == [True, True, False, True, True, True]
        np.testing.assert_allclose(found["vel"][good][:, :2], [[1.9, 0.6]] * 5, atol=0.1)
        assert (found["inliers"][good] >= 6).all() and np.isnan(found["vel"][~good]).all()
