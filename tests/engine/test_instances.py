"""Sensors of any name, and several of a type: the same results under other names."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import yaml

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.engine.instances import (
    OF_ALL,
    as_types,
    damage_of,
    for_sensors,
    instances,
    roles_of,
    type_of,
    with_names,
)
from rover_pipeline.errors import FormatError, RoverError
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import PROVENANCE, read_provenance
from rover_pipeline.format.rig import Rig
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.trace import Trace
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.record import simulate
from rover_pipeline.table import TABLE, find_step
from rover_pipeline.validation.against import Against, compare_trace
from rover_pipeline.validation.check import problems
from tests.kit import small_trace

NAMES = {"lidar": "top", "radar": "radar_front", "camera": "cam", "imu": "mti"}
_ONLY_TS = json.dumps({"ts": {"format": "raw", "type": "f8", "shape": [], "desc": "Times."}})


def rename(trace: Path, out: Path, names: Mapping[str, str]) -> Path:
    """A copy of the raw sensors of a recording under other names; sidecars keep theirs."""
    config = yaml.safe_load((trace / "config.yaml").read_text())
    for name in (name for name in NAMES if (trace / name).is_dir()):
        shutil.copytree(trace / name, out / names.get(name, name))
    renamed = {names.get(name, name): value for name, value in config.items()}
    if "rig" in config:
        renamed["rig"] = {names.get(name, name): value for name, value in config["rig"].items()}
    (out / "config.yaml").write_text(yaml.safe_dump(renamed))
    return out


def named(product: str, names: Mapping[str, str] = NAMES) -> str:
    """The virtual sensor of a recording whose sensors have other names."""
    type, _, rest = product[1:].partition("_")
    return f"_{names[type]}_{rest}" if type in names and rest else product


def test_sensors_of_other_names_give_the_same_bytes_under_their_names(
    drive: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    products = (
        *("_lidar_image", "_lidar_points", "_imu_filtered", "_imu_pose", "_radar_points", "_radar_velocity"),
        *("_radar_times", "_radar_pose", "_camera_frames", "_camera_pose", "_bev", "_sync"),
    )
    usual = rename(drive, tmp_path / "usual", {})
    other = rename(drive, tmp_path / "other", NAMES)
    for trace in (usual, other):
        shutil.copytree(drive / "_odom", trace / "_odom")
    for product in products:
        for trace, name in ((usual, product), (other, named(product))):
            run_step(find_step(product), trace, name, Request())
        with subtests.test(product):
            assert {*Sensor(usual / product).specs} - {*NAMES} - {f"{name}_dt" for name in NAMES} == {
                *Sensor(other / named(product)).specs
            } - {*NAMES.values()} - {f"{name}_dt" for name in NAMES.values()}
            for channel in Sensor(usual / product).specs:
                same = channel
                if product == "_sync":
                    same = NAMES.get(channel.removesuffix("_dt"), channel) + "_dt" * channel.endswith("_dt")
                whole, renamed = (usual / product / channel).read_bytes(), other / named(product) / same
                assert whole == renamed.read_bytes(), channel
    roles = {"radar": "radar_front", "lidar": "top", "camera": "cam", "imu": "mti"}
    assert (read_provenance(other / "_radar_front_points") or {})["sensors"] == roles
    assert "sensors" not in (read_provenance(usual / "_radar_points") or {}), "names of types say nothing new"
    assert not [each for each in problems(other) if "/_odom: lacks" not in each]


def test_each_sensor_of_a_type_is_read_with_its_own_sidecar_section_and_pose(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("radar", "lidar"))
    shutil.copytree(trace / "radar", trace / "radar_rear")
    (trace / "radar_rear" / "radar.json").rename(trace / "radar_rear" / "radar_rear.json")
    assert Rig(trace).of("radar") == ["radar", "radar_rear"], "by its channels"
    text = yaml.safe_dump(
        {"radar": {"type": "radar", "args": 1}, "radar_rear": {"type": "radar", "args": 2}, "rig": {"radar_rear": 3}}
    )
    (trace / "config.yaml").write_text(text)
    rig = Rig(trace)
    assert instances("_radar_points", rig) == ["_radar_points", "_radar_rear_points"]
    assert rig.sidecar("radar_rear") == "radar_rear.json"
    roles = roles_of(find_step("_radar_points"), "_radar_rear_points", rig)
    assert roles == {"radar": "radar_rear", "main": "radar"}
    named = yaml.safe_load(as_types(text.replace("rig:\n", "rig:\n  name: iq1m\n"), roles))
    assert named["rig"] == {"radar": 3}, "the poses of a rig that is named are those of the main radar"
    assert "rig" not in yaml.safe_load(as_types("radar_rear: {}\nrig: iq1m\n", roles))
    seen = yaml.safe_load(as_types(text, roles))
    assert (seen["radar"]["args"], seen["radar_rear"]["args"], seen["rig"]) == (2, 1, {"radar": 3})
    for name in instances("_radar_points", rig):
        run_step(find_step("_radar_points"), trace, name, Request())
    assert (trace / "_radar_points/xyz").read_bytes() == (trace / "_radar_rear_points/xyz").read_bytes()
    assert "radar_rear/iq" in (read_provenance(trace / "_radar_rear_points") or {})["inputs"]


def test_the_type_of_a_sensor_is_its_name_or_what_config_says_or_what_its_channels_say(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("radar", "lidar", "imu", "camera"))
    for name, other in (("radar", "a"), ("lidar", "b"), ("imu", "c"), ("camera", "d"), ("imu", "radar_x")):
        shutil.copytree(trace / name, trace / other)
    (trace / "e").mkdir()
    (trace / "e" / META).write_text(_ONLY_TS)
    types = {"a": "radar", "b": "lidar", "c": "imu", "d": "camera", "e": "", "radar_x": "imu"}
    assert {name: type for name, type in Rig(trace).types.items() if name not in NAMES} == types
    (trace / "config.yaml").write_text("c: {type: GNSS}\ne: {type: sonar}\n")
    assert (Rig(trace).types["c"], Rig(trace).types["e"]) == ("gnss", "")
    (trace / "config.yaml").write_text("{")
    assert Rig(trace).types["c"] == "imu", "a damaged config.yaml says nothing"


def test_the_main_sensor_is_the_one_that_is_asked_for_or_called_as_its_type_or_the_largest(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("lidar",))
    for name in ("front", "rear"):
        shutil.copytree(trace / "lidar", trace / name)
    assert Rig(trace).main("lidar") == "lidar" and Rig(trace).main("lidar", "rear") == "rear"
    assert Rig(trace).main("lidar", "roof") == "lidar" and Rig(trace).main("radar") == "radar"
    shutil.rmtree(trace / "lidar")
    assert Rig(trace).main("lidar") == "front", "the first by name of equals"
    with (trace / "rear" / "rng").open("ab") as file:
        file.write(b"more")
    assert Rig(trace).main("lidar") == "rear"


def test_points_of_a_lidar_of_which_the_odometry_says_nothing_are_not_deskewed(drive: Path, tmp_path: Path) -> None:
    trace = rename(drive, tmp_path / "rec", {})
    shutil.copytree(trace / "lidar", trace / "lidar_rear")
    shutil.copytree(drive / "_odom", trace / "_odom")
    run_step(find_step("_lidar_points"), trace, "_lidar_points", Request({"compensate": True}))
    with pytest.raises(RoverError, match=r"_odom is of another lidar and does not say where lidar_rear is; state its"):
        run_step(find_step("_lidar_points"), trace, "_lidar_rear_points", Request({"compensate": True}))


def test_the_reference_of_sync_is_any_sensor_with_samples(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("imu",))
    (trace / "imu").rename(trace / "sonar")
    for name in ("acc", "avel", "rot"):
        (trace / "sonar" / name).unlink()
    (trace / "sonar" / META).write_text(_ONLY_TS)
    run_step(find_step("_sync"), trace, "_sync", Request())
    assert {*Sensor(trace / "_sync").specs} >= {"sonar", "sonar_dt"}
    assert json.loads((trace / "_sync" / PROVENANCE).read_text())["measured"]["reference"] == "sonar"


def test_every_step_that_is_made_for_each_sensor_of_a_type_reads_this_sensor() -> None:
    rig = Rig(Path("/nowhere"), {"a": "radar", "b": "lidar", "c": "camera", "d": "imu"})
    for name in TABLE:
        product = instances(name, rig)[0]
        roles = roles_of(TABLE[name], product, rig)
        assert rig.declared(product) == name
        assert {roles[type] for type in ("radar", "lidar", "camera", "imu")} == {"a", "b", "c", "d"}


def test_a_channel_of_which_ranges_are_read_is_that_of_the_sensor_of_the_recording(tmp_path: Path) -> None:
    step = for_sensors(find_step("_objects"), {"radar": "front"}, Rig(tmp_path, {"front": "radar"}))
    assert step.by_range == ("_front_points/xyz", "_front_points/doppler")


def test_several_radars_and_an_imu_give_one_trajectory_and_the_poses_of_all_where_there_is_no_lidar(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, usual = tmp_path / "car", PRESETS["car"]
    kept = [each for each in usual.sensors if each.name in ("lidar_top", "radar_front", "radar_left", "imu")]
    simulate(trace, preset=usual.model_copy(update={"sensors": tuple(kept), "columns": 16}), seed=3, duration=5.0)
    for folder in ("lidar_top", "_truth"):  # nothing but radars and an IMU
        shutil.rmtree(trace / folder)
    for name in ("radar_front", "radar_left"):
        for product in ("points", "velocity"):
            run_step(find_step(f"_radar_{product}"), trace, f"_{name}_{product}", Request())
    run_step(find_step("_imu_filtered"), trace, "_imu_filtered", Request())
    assert instances("_radar_odom", Rig(trace)) == ["_radar_odom"]
    run_step(step := find_step("_radar_odom"), trace, "_radar_odom", Request())
    made = read_provenance(trace / "_radar_odom")
    assert made and "_radar_left_velocity/vel" in made["inputs"]
    assert made["measured"]["others"]["radar_left"]["velocities_used"] > 30
    assert not list(problems(trace))
    sensor, truth = Sensor(trace / "_radar_odom"), Sensor(trace / "_truth_radar_front")
    vel, rot, cov, valid = (sensor.channel(name).read_whole() for name in ("vel", "rot", "vel_cov", "valid"))
    at = np.flatnonzero(valid)
    true = np.einsum("nji,nj->ni", *(truth.channel(name).read_whole() for name in ("rot", "vel")))
    error = np.einsum("nji,nj->ni", rot, vel)[at] - true[at]
    assert len(at) > 40 and np.abs(error).max() < 0.2
    assert np.einsum("ni,nij,nj->n", error, np.linalg.inv(cov[at].astype("f8")), error).mean() / 3 < 2
    # Without a lidar that is the trajectory of all sensors.
    for name in ("radar_front", "radar_left", "imu"):
        run_step(find_step(f"_{name.partition('_')[0]}_pose"), trace, f"_{name}_pose", Request())
    accuracies = [each.accuracy for each in compare_trace(trace, Against()) if each.against.endswith(each.sensor[1:-5])]
    assert len(accuracies) == 3
    assert all(each and each.compared > 40 and each.ate_m is not None and each.ate_m < 0.15 for each in accuracies)
    # The pose of the other radar is its own, from wherever it is stated; what is said names the sensors.
    left = yaml.safe_load((trace / "config.yaml").read_text())["rig"]["radar_left"]
    turned = {
        **left,
        "rotation": (np.array(left["rotation"]) @ [[0.9986, -0.0523, 0], [0.0523, 0.9986, 0], [0, 0, 1]]).tolist(),
    }
    capsys.readouterr()
    run_step(step, trace, "_radar_odom", Request(options={"others": {"radar_left": {"rig": {"radar": turned}}}}))
    assert "_radar_odom: radar_left: contradicts the other radars" in capsys.readouterr().err
    made = read_provenance(trace / "_radar_odom")
    assert made and abs(made["measured"]["others"]["radar_left"]["turned_deg"][2] + 3) < 1


def test_results_that_a_rig_has_once_are_of_steps_that_read_all_sensors_of_the_type() -> None:
    assert {name for name, step in TABLE.items() if type_of(name) in step.run.beside} == {*OF_ALL}


def test_a_sensor_that_the_disk_could_not_read_is_not_left_out_as_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("lidar",))
    assert damage_of("lidar", trace) == ""
    (trace / "lidar/ts").write_bytes(b"")
    assert damage_of("lidar", trace) != ""

    def fail(*_: object) -> None:
        raise FormatError("lidar/ts: cannot be read") from OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Trace, "sensor", fail)
    with pytest.raises(FormatError, match="cannot be read"):
        damage_of("lidar", trace)


def test_messages_of_steps_name_the_sensor_and_not_its_type() -> None:
    roles = {"radar": "radar_left", "imu": "mti", "main": "radar_front"}
    said = "imu: 3 gaps; imu/acc is in g; nothing says where the radar is; set `rig.radar`, or radar.points.cfar"
    assert with_names(said, roles) == (
        "mti: 3 gaps; mti/acc is in g; nothing says where radar_left is; set `instances.radar_left.rig`, or "
        "radar.points.cfar"
    )
    assert with_names(said, {}) == said
    assert with_names("`_radar_times` has them", roles) == "`_radar_left_times` has them"
    assert with_names("radar_imu: 1; /x/imu/acc", roles) == "radar_imu: 1; /x/imu/acc"


def test_poses_are_those_in_the_frame_of_the_lidar_that_is_the_main_one() -> None:
    quarter = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
    text = yaml.safe_dump(
        {
            "top": {"type": "lidar"},
            "rear": {"type": "lidar"},
            "rig": {
                "rear": {"translation": [-2, 0, 1], "rotation": quarter, "time_offset": 0.01},
                "imu": {"translation": [-2, 3, 1], "time_offset": 0.03},
            },
        }
    )
    usual = yaml.safe_load(as_types(text, {"lidar": "top"}))["rig"]
    assert usual["rear"]["translation"] == [-2, 0, 1], "the lidar that has no pose is the origin"
    rig = yaml.safe_load(as_types(text, {"lidar": "rear"}))["rig"]
    np.testing.assert_allclose(rig["imu"]["translation"], [3, 0, 0])
    np.testing.assert_allclose(rig["imu"]["rotation"], np.transpose(quarter))
    np.testing.assert_allclose(rig["top"]["translation"], [0, -2, -1])
    np.testing.assert_allclose([rig["imu"]["time_offset"], rig["top"]["time_offset"]], [0.02, -0.01])
    assert "rear" not in rig and "lidar" not in rig
    other = yaml.safe_load(as_types(text, {"lidar": "rear", "main": "top"}))["rig"]
    assert other["lidar"]["translation"] == [-2, 0, 1], "a step for another lidar has the pose of this one"
