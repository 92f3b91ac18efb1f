"""Options that stand outside of the section of the step that uses them."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from rover_pipeline.errors import ConfigError, RoverError
from rover_pipeline.table import TABLE, find_step
from rover_pipeline.workflow import launch
from rover_pipeline.workflow.flow import Flow
from rover_pipeline.workflow.launch import run_workflow
from tests.conftest import CHECKOUT
from tests.kit import small_trace


def test_the_lens_and_the_named_rig_reach_the_steps_that_use_them_and_no_others(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("lidar", "radar", "camera"))
    (trace / "camera" / "camera.json").write_text("{}")
    flow = Flow({"traces": str(trace), "camera": {"lens": "brown"}, "rig": "iq1m"})
    options = {}
    for name in ("_camera_frames", "_camera_depth", "_camera_pose"):
        flow.makes(name)
        options[name] = json.loads(flow.step_options(SimpleNamespace(trace=str(trace), product=name[1:])))["options"]
        model = find_step(name).options
        assert model is not None and model.parse(options[name])
    assert [values.get("lens") for values in options.values()] == ["brown", "brown", None]
    assert [values.get("rig", {}).get("name") for values in options.values()] == [None, "iq1m", "iq1m"]
    with pytest.raises(ConfigError, match=r"options\('camera\.lens'\): is an option of the config and no section"):
        flow.config.section("camera.lens")
    with pytest.raises(ConfigError, match=r"camera\.lens.*'fisheye' or 'brown'"):
        Flow({"traces": str(trace), "camera": {"lens": "fish"}})


def test_a_section_of_extra_that_no_rule_reads_is_an_error(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("lidar",))
    flow = Flow({"traces": str(trace), "extra": {"energi": {}, "energy": {}}})
    flow.options_of(["extra.energy"])
    with pytest.raises(ConfigError, match=r"config: extra\.energi: no rule reads it; did you mean 'energy'\?"):
        flow.targets([])
    with pytest.raises(
        ConfigError, match=r"extra\.energy: no rule reads it; name the file of your rules in extra_rules"
    ):
        Flow({"traces": str(trace), "extra": {"energy": {}}}).targets([])


def test_options_of_a_run_may_have_dots_and_what_cannot_be_understood_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []

    def run(command: list[str], environment: object, folder: Path) -> int:
        started.append(command)
        return 0

    monkeypatch.setattr(launch, "run_group", run)
    common = {"outputs": None, "profile": "local"}
    config = ["odometry.world=gravity", "radar.points.cfar=ca", "radar.board=AWR1843", f"output_root={tmp_path}/x"]
    assert run_workflow([str(tmp_path)], cores="2", config=config, **common) == 0  # type: ignore[arg-type]
    given = started[0][started[0].index("--config") + 2 :]
    radar = json.dumps({"points": {"cfar": "ca"}, "board": "AWR1843"})
    assert sorted(given) == ['odometry={"world": "gravity"}', f'output_root="{tmp_path}/x"', f"radar={radar}"]
    for wrong in ("odometry", "a.=3", "odometry.world=[", ".x=1"):
        with pytest.raises(RoverError, match="--config"):
            run_workflow([str(tmp_path)], cores=None, config=[wrong], **common)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="also given with dots"):
        run_workflow([str(tmp_path)], cores=None, config=["radar={}", "radar.board=x"], **common)  # type: ignore[arg-type]
    for cores in ("0", "-1", "two"):
        with pytest.raises(ConfigError, match=f"--cores {cores}: must be a number of processors"):
            run_workflow([str(tmp_path)], cores=cores, config=[], **common)  # type: ignore[arg-type]
    assert len(started) == 1


def test_a_run_works_in_the_cache_and_neither_beside_recordings_nor_where_it_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    folders: list[Path] = []

    def run(command: list[str], env: Mapping[str, str], folder: Path) -> int:
        assert str(CHECKOUT) in env["PYTHONPATH"].split(os.pathsep), "jobs in another folder find the package"
        assert all(map(os.path.isabs, env["PYTHONPATH"].split(os.pathsep))) and env["PYTHONSAFEPATH"]
        assert command[1:4] == ["-P", "-m", "rover_pipeline.workflow.interruptible"] and "--directory" not in command
        assert command[command.index("--workflow-profile") + 1] == "none"
        assert "--profile" not in command, "a ./local of others is not ours"
        started.append(command)
        folders.append(folder)
        return 0

    def working(*paths: str, config: Sequence[str] = ()) -> Path:
        run_workflow(paths, outputs=None, cores=None, profile="local", config=config)
        return folders[-1]

    here = tmp_path / "here"
    (here / "local").mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("PYTHONPATH", f":.:{os.environ.get('PYTHONPATH', '')}:")
    monkeypatch.setattr(launch, "run_group", run)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(launch, "require_possible", lambda *given: None)  # a calibration that is not there
    one, two = (small_trace(tmp_path / "all" / name, 1, sensors=("imu",)) for name in ("one", "two"))
    alone = working(str(one))
    assert alone.is_dir() and alone.is_relative_to(tmp_path / "cache")
    assert working(str(one)) == alone, "the same run finds its notes again"
    both = working(str(one), str(two))
    assert both == working(f"{tmp_path}/all/*") == working("../all")
    assert (
        len({alone, both, working(str(two)), working(str(one), config=["output_root=out", "export={root: sets}"])}) == 4
    )
    assert not list(tmp_path.rglob(".rover-pipeline*"))
    given = started[-1]
    assert json.dumps(str(here / "out")) in next(each for each in given if each.startswith("output_root="))
    assert f'export={{"root": "{here}/sets"}}' in given, "paths are those from where they were typed"
    working(str(one), config=["exports=kitti", "radar.calibration=a.yaml"])
    assert {f'export={{"root": "{here}/exports"}}', f'radar={{"calibration": "{here}/a.yaml"}}'} <= set(started[-1])
    assert working(str(one), config=["extra_rules=mine.smk"]) == here, (
        "commands of the user's rules may name files here"
    )
    assert f'extra_rules="{here}/mine.smk"' in started[-1]
    assert working(str(one), config=["extra_rules=/elsewhere/mine.smk"]) == alone
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    temporary = working(str(one))
    assert temporary.is_dir() and temporary.stat().st_mode & 0o777 == 0o700, "without a cache it works nevertheless"
    temporary.rmdir()


def test_a_changed_pose_or_tolerance_remakes_what_is_computed_from_it_and_nothing_else(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec")
    names = [name for name, step in TABLE.items() if step.shown.needs_option is None]

    def stamps(**values: object) -> dict[str, str]:
        flow = Flow({"traces": str(trace), **values})
        return {name: flow.makes(name)[0] for name in names}

    before = stamps()

    def changed(**values: object) -> set[str]:
        return {name for name, stamp in stamps(**values).items() if stamp != before[name]}

    pose = {"translation": [0.1, 0, 0], "rotation": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]}
    cells = {"_bev", "_occupancy"}
    radar = {"_radar_pose", "_radar_points", "_radar_quality", "_radar_odom"}
    assert changed(rig={"radar": pose}) == {*radar, "_camera_pose", "_imu_pose", "_objects", *cells, "_sync"}
    assert changed(rig={"camera": pose}) == {"_camera_pose", "_camera_depth", "_sync"}
    assert changed(rig={"imu": pose}) == {"_odom", "_imu_pose", "_radar_odom", *cells, "_sync"}
    assert changed(sync={"tolerance": 0.01}) == {"_sync"}


def test_a_step_is_given_every_pose_that_its_module_looks_up() -> None:
    checked = 0
    for name, step in TABLE.items():
        if "rig" not in step.sections or step.options is None or not isinstance(step.function, str):
            continue
        text = inspect.getsource(importlib.import_module(step.function.partition(":")[0]))
        looked_up = set(re.findall(r'find_mount\("(\w+)"', text))
        variants: list[dict[str, object]] = [{}]
        variants += [{"odometry": "radar"}] if step.sections[0] == "poses" else []
        given = {key for each in variants for key in step.for_options(step.options.parse(each)).uses["rig"]}
        assert looked_up <= given and "name" in given, f"{name} looks up {looked_up - given}, and is not given it"
        checked += len(looked_up)
    assert checked >= 5


def test_poses_of_the_radars_trajectory_depend_on_where_the_radar_is(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("radar", "camera", "imu"))
    pose = {"translation": [0.1, 0, 0], "rotation": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]}

    def given(**values: object) -> tuple[str, object]:
        flow = Flow({"traces": str(trace), "rig": {"radar": pose}, **values})
        (stamp,) = flow.makes("_camera_pose")
        wildcards = SimpleNamespace(trace=str(trace), product="camera_pose")
        return stamp, json.loads(flow.step_options(wildcards))["options"]["rig"].get("radar")

    for values in ({}, {"poses": {"odometry": "radar"}}):  # without a lidar there is no other trajectory
        stamp, stated = given(**values)
        assert stated and stamp != given(**values, rig={})[0]
