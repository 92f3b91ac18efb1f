"""Options that stand outside of the section of the step that uses them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from rover_pipeline.errors import ConfigError, RoverError
from rover_pipeline.table import TABLE, find_step
from rover_pipeline.workflow.flow import Flow
from rover_pipeline.workflow.launch import run_workflow
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
    flow.options("extra.energy")
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

    def run(command: list[str], check: bool) -> SimpleNamespace:
        started.append(command)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", run)
    common = {"outputs": None, "profile": "local"}
    config = ["odometry.world=gravity", "radar.points.cfar=ca", "radar.board=AWR1843", "output_root=/x"]
    assert run_workflow([str(tmp_path)], cores="2", config=config, **common) == 0  # type: ignore[arg-type]
    given = started[0][started[0].index("--config") + 2 :]
    radar = json.dumps({"points": {"cfar": "ca"}, "board": "AWR1843"})
    assert given == ["output_root=/x", 'odometry={"world": "gravity"}', f"radar={radar}"]
    for wrong in ("odometry", "a.=3", "odometry.world=[", ".x=1"):
        with pytest.raises(RoverError, match="--config"):
            run_workflow([str(tmp_path)], cores=None, config=[wrong], **common)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="also given with dots"):
        run_workflow([str(tmp_path)], cores=None, config=["radar={}", "radar.board=x"], **common)  # type: ignore[arg-type]
    for cores in ("0", "-1", "two"):
        with pytest.raises(ConfigError, match=f"--cores {cores}: must be a number of processors"):
            run_workflow([str(tmp_path)], cores=cores, config=[], **common)  # type: ignore[arg-type]
    assert len(started) == 1


def test_a_changed_pose_or_tolerance_remakes_what_is_computed_from_it_and_nothing_else(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec")
    names = [name for name, step in TABLE.items() if step.needs_option is None]

    def stamps(**values: object) -> dict[str, str]:
        flow = Flow({"traces": str(trace), **values})
        return {name: flow.makes(name)[0] for name in names}

    before = stamps()

    def changed(**values: object) -> set[str]:
        return {name for name, stamp in stamps(**values).items() if stamp != before[name]}

    pose = {"translation": [0.1, 0, 0], "rotation": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]}
    cells = {"_bev", "_occupancy"}
    assert changed(rig={"radar": pose}) == {"_radar_pose", "_objects", *cells}
    assert changed(rig={"camera": pose}) == {"_camera_pose", "_camera_depth"}
    assert changed(rig={"imu": pose}) == {"_odom", "_imu_pose", *cells}
    assert changed(sync={"tolerance": 0.01}) == {"_sync"}
