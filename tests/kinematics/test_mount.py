"""Extrinsics by the name of a rig."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rover_pipeline.config import Config
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import ConfigError, FormatError
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.kinematics.mount import find_mount, mount_of_entry, mount_warnings
from rover_pipeline.kinematics.options import RigOptions
from rover_pipeline.table import find_step


def rig_of(section: Any) -> RigOptions:
    """The section `rig` of a configuration, as a job is given it."""
    values = Config.parse({"rig": section}).section("rig")
    return RigOptions.model_validate(json.loads(json.dumps(values)))


@pytest.mark.parametrize("section", ["iq1m", {"name": "iq1m"}])
def test_the_named_rig_has_the_positions_of_its_urdf_and_no_camera(section: Any) -> None:
    rig = rig_of(section)
    # Lidar 22 mm above the bottom of its plate, IMU 7 mm below it, radar 60 mm in front of it and 110 mm below.
    for sensor, below in (("radar", [0.06, 0, -0.11]), ("imu", [0, 0, -0.007])):
        mount = find_mount(sensor, rig, None)
        np.testing.assert_allclose(mount.translation, np.array(below) - [0, 0, 0.022], atol=1e-12)
        assert (mount.rotation == np.eye(3)).all() and mount.source == "iq1m" and mount.known
    camera = find_mount("camera", rig, None)
    assert not camera.known
    assert "does not say where the camera is" in mount_warnings("camera", rig, camera)[0]


def test_what_is_given_for_a_sensor_comes_before_the_named_rig() -> None:
    rig = rig_of({"name": "iq1m", "radar": {"translation": [0.1, 0, 0]}, "camera": {"translation": [0, 0, 1]}})
    recorded = "rig: {imu: {translation: [9, 9, 9]}, radar: {translation: [9, 9, 9]}}"
    mounts = [find_mount(sensor, rig, recorded) for sensor in ("radar", "camera", "imu")]
    assert [mount.source for mount in mounts] == ["config", "config", "iq1m"]
    assert mounts[0].translation.tolist() == [0.1, 0, 0] and not mount_warnings("radar", rig, mounts[0])
    from_recording = find_mount("camera", rig_of("iq1m"), "rig: {camera: {translation: [0, 0, 2]}}")
    assert from_recording.source == "config.yaml" and not mount_warnings("camera", rig_of("iq1m"), from_recording)


@pytest.mark.parametrize("recorded", ["rig: iq1m", "rig: {name: iq1m, camera: {translation: [0, 0, 1]}}"])
def test_a_recording_may_name_its_rig_too(recorded: str) -> None:
    mount = find_mount("radar", RigOptions(), recorded)
    assert mount.source == "iq1m" and mount.translation.tolist() == [0.06, 0.0, -0.132]
    assert "in doubt" in mount_warnings("radar", RigOptions(), mount)[0]


def test_an_unknown_rig_is_an_error_of_one_line() -> None:
    with pytest.raises(ConfigError, match=r"config: rig\.name: .*'iq1m' \(got 'iqm1'\)"):
        Config.parse({"rig": "iqm1"})
    with pytest.raises(ConfigError, match=r"config\.yaml: rig\.name: .*set `rig\.radar`"):
        find_mount("radar", RigOptions(), "rig: iqm1")
    # A sensor with a pose of its own does not ask for the name.
    assert find_mount("imu", RigOptions(), "rig: {name: mine, imu: {translation: [1, 0, 0]}}").known


@pytest.mark.parametrize("sensor", ["_radar_pose", "_bev"])
def test_the_doubt_about_the_named_radar_is_told_where_its_pose_is_used(
    sensor: str, drive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = Path(shutil.copytree(drive, tmp_path / "trace"))
    run_step(find_step("_lidar_image"), trace, "_lidar_image", Request())
    run_step(find_step(sensor), trace, sensor, Request({"rig": rig_of("iq1m").model_dump(mode="json")}))
    provenance = json.loads((trace / sensor / PROVENANCE).read_text())
    assert provenance["measured"]["extrinsics"] == "iq1m"
    assert any("the radar's pose is in doubt" in note for note in provenance["notes"])
    assert "the radar's pose is in doubt" in capsys.readouterr().err
    if sensor == "_radar_pose":
        # The simulated radar is 20 mm from where the published one is.
        pos = Sensor(trace / sensor).channel("pos").read()
        true = Sensor(trace / "_truth_radar").channel("pos").read()
        assert 0.01 < np.nanmedian(np.linalg.norm(pos - true, axis=1)) < 0.05


@pytest.mark.parametrize("entry", [5, {"translation": [1]}, {"rotation": np.diag([9, 1, 1]).tolist()}])
def test_an_entry_of_another_lidar_that_is_no_pose_is_an_error_that_names_it(entry: Any) -> None:
    with pytest.raises(FormatError, match=r"lidars\.json: rear: "):
        mount_of_entry(entry, "rear")
