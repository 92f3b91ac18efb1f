"""A recording remembers its options, so that all of its results are of one world; what is in its file is only data."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from rover_pipeline.config import Config
from rover_pipeline.errors import ConfigError, FormatError, RoverError
from rover_pipeline.format.failures import MEMORY, read_memory, write_memory
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.table import TABLE
from rover_pipeline.validation.check import problems
from rover_pipeline.workflow.ending import report_stale
from rover_pipeline.workflow.flow import Flow
from rover_pipeline.workflow.recordings import RecordingJobs
from rover_pipeline.workflow.worlds import is_remembered, recalled
from tests.kit import environment, small_trace
from tests.workflow.runs import snakemake
from tests.workflow.test_recordings import made

GRAVITY = {"odometry": {"world": "gravity"}}


def planned(traces: Path, **values: Any) -> Flow:
    """A run as the rules of the table declare it, without its jobs."""
    flow = Flow({"traces": str(traces), **values}, typed=values)
    names = [name for name, step in TABLE.items() if step.shown.needs_option is None]
    rules = [SimpleNamespace(output=flow.makes(name), input=[flow.needs(name)]) for name in names]
    flow.targets(rules)
    return flow


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rover_pipeline", *arguments]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return small_trace(tmp_path / "all" / "rec", sensors=("lidar", "radar", "imu"))


def test_options_given_once_are_those_of_later_runs_and_given_ones_come_before_remembered_ones(trace: Path) -> None:
    planned(trace, **GRAVITY, outputs="odom").remember_all()
    made(trace, **GRAVITY)
    assert read_memory(trace) == {"odometry.world": "gravity"}
    later = planned(trace, outputs="objects")
    assert later.config.odometry.world == "gravity" and later.pending(trace) == []
    both = planned(trace, outputs="odom", radar={"sample_order": "iiqq"})
    assert (both.config.odometry.world, both.config.radar.sample_order) == ("gravity", "iiqq")
    back = planned(trace, outputs="odom", odometry={"world": "first_pose"})
    assert back.config.odometry.world == "first_pose", "a default that was typed counts too"
    back.remember_all()
    assert not (trace / MEMORY).exists()


def test_a_run_says_which_options_it_takes_and_a_flag_forgets_them(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_memory(trace, {"odometry.world": "gravity", "sync.tolerance": 0.01})
    planned(trace, sync={"tolerance": 0.02}).report_recalled()
    told = f'rover-pipeline: {trace} remembers options: odometry.world="gravity" (--reset-config forgets them)\n'
    assert told in capsys.readouterr().err
    forgotten = planned(trace, reset_config=True, sync={"tolerance": 0.02})
    forgotten.report_recalled()
    forgotten.remember_all()
    assert "remembers" not in capsys.readouterr().err and forgotten.config.odometry.world == "first_pose"
    assert read_memory(trace) == {"sync.tolerance": 0.02}


def test_recordings_with_different_options_are_planned_each_with_its_own(trace: Path) -> None:
    other = small_trace(trace.parent / "other", sensors=("lidar", "radar", "imu"))
    write_memory(trace, {"odometry.world": "gravity", "occupancy.level": True})
    made(trace, occupancy={"level": True}, **GRAVITY)
    made(other)
    flow = planned(trace.parent)
    assert flow.mixed and RecordingJobs(flow, away=False, begins=True).active
    assert flow.pending(trace) == flow.pending(other) == [] and "gravity" not in json.dumps(flow.given)
    changed = planned(trace.parent, map={"voxel": 0.2})
    assert changed.pending(trace) == changed.pending(other) == ["map", "report"]
    changed.remember_all()
    assert read_memory(trace) == {"odometry.world": "gravity", "occupancy.level": True, "map.voxel": 0.2}
    assert read_memory(other) == {"map.voxel": 0.2}
    for refused in ({"exports": "kitti"}, {"plan": "steps"}):
        with pytest.raises(ConfigError, match="the recordings remember different options"):
            assert RecordingJobs(planned(trace.parent, **refused), away=False, begins=True).active
    assert not planned(trace.parent, occupancy={"level": False}, odometry={"world": "first_pose"}).mixed


#: What a file may say that came with a folder of others -> what is told.
REFUSED: dict[str, tuple[Any, str]] = {
    "code": ({"extra_rules": ["/tmp/evil.smk"]}, "extra_rules: is not taken from a recording"),
    "other recordings": ({"traces": ["/"]}, "traces: is not taken"),
    "another place": ({"output_root": "/tmp"}, "output_root: is not taken"),
    "an address": ({"dask.scheduler": "tcp://evil:1"}, "dask.scheduler: is not taken"),
    "a section of it": ({"dask": {"scheduler": "tcp://evil:1"}}, "dask.scheduler: is not taken"),
    "a model": ({"camera.model.path": "/etc/passwd"}, "camera.model.path: is not taken"),
    "a model in its section": ({"camera.model": {"path": "/etc/passwd"}}, "camera.model.path: is not taken"),
    "a model in the section around it": (
        {"camera": {"model": {"path": "/etc/passwd"}}},
        "camera.model.path: is not taken",
    ),
    "a file of mounts": ({"rig": "/etc/passwd.yaml"}, "rig: is not taken"),
    "a calibration": ({"radar.calibration": "/etc/passwd"}, "radar.calibration: is not taken"),
    "a calibration in its section": ({"radar": {"calibration": "/etc/passwd"}}, "radar.calibration: is not taken"),
    "options of rules": ({"extra.mine.file": "/etc/passwd"}, "extra.mine.file: is not taken"),
    "an older option": ({"odometry.wurld": "gravity"}, "odometry.wurld: unknown key; did you mean 'world'"),
    "a wrong value": ({"odometry.world": 3}, "odometry.world"),
    "an option of an option": ({"odometry.world": "gravity", "odometry.world.x": 1}, "is no option of a section"),
}


@pytest.mark.parametrize(("options", "told"), REFUSED.values(), ids=REFUSED)
def test_what_a_recording_may_not_say_is_one_line_that_names_its_file(options: Any, told: str, trace: Path) -> None:
    write_memory(trace, options)
    with pytest.raises(RoverError, match=re.escape(told)) as refused:
        recalled(trace)
    assert str(refused.value).startswith(f"{trace / MEMORY}: config: ") and "\n" not in str(refused.value)
    assert "--reset-config" in str(refused.value)
    other = small_trace(trace.parent / "other", sensors=("lidar",))
    flow = planned(trace.parent, outputs="lidar_image")
    assert list(flow.traces) == [other] and flow.refused == [str(refused.value)]
    planned(trace, outputs="lidar_image", reset_config=True).remember_all()
    assert not (trace / MEMORY).exists()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"options": {}}', '{"made_by": "rover_pipeline", "options": 3}'])
def test_a_file_that_is_not_ours_is_told_by_check_and_never_replaced(content: str, trace: Path) -> None:
    (trace / MEMORY).write_text(content)
    for use in (lambda: planned(trace), lambda: planned(trace, reset_config=True, **GRAVITY).remember_all()):
        with pytest.raises(FormatError, match=str(trace / MEMORY)):
            use()
    assert any(line.startswith(f"{trace / MEMORY}: ") for line in problems(trace))
    assert (trace / MEMORY).read_text() == content


def test_every_text_that_a_recording_may_give_is_known_to_be_no_name_of_a_file() -> None:
    def texts(model: type[BaseModel], begin: str = "") -> list[str]:
        found = []
        for name, field in model.model_fields.items():
            kinds = [field.annotation, *get_args(field.annotation)]
            below = [each for each in kinds if isinstance(each, type) and issubclass(each, BaseModel)]
            found += [text for each in below for text in texts(each, f"{begin}{name}.")]
            is_text = re.search(r"\b(str|Path|Any)\b", str(field.annotation))
            found += [f"{begin}{name}"] if is_text and not below and is_remembered(f"{begin}{name}") else []
        return found

    named = {"radar.board", "camera.model.classes", "odometry.imu", "odometry.lidar", "sync.reference", "instances"}
    of_one = ("left.model.path", "front.calibration", "left.model.digest")
    assert not any(is_remembered(f"instances.{name}") for name in of_one)
    inside = {f"radar.calibration.{name}" for name in ("board", "method", "coupling.sample_order")}
    assert set(texts(Config)) == named | inside


def test_results_that_a_run_leaves_stale_are_named_with_the_command_that_makes_them_again(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(trace)
    report_stale(planned(trace, outputs="odom"))
    assert capsys.readouterr().err == ""
    (trace / "_own").mkdir()
    inputs = {"_odom/pos": {"bytes": 1, "blake2b": "0"}}
    content = {"made_by": "rover_pipeline", "step": "my:own", "version": 1, "inputs": inputs, "time": {"inputs": {}}}
    for name in ("_imu_pose", "_map", "_radar_pose", "_own"):
        (trace / name / PROVENANCE).write_text(json.dumps(content))
    report_stale(planned(trace, outputs="odom", **GRAVITY))
    told = capsys.readouterr().err.splitlines()[-1]
    names, _, command = told.partition(": make them again: ")
    assert names == f"  {trace}: _imu_pose, _map, _own, _radar_pose"
    words = ["rover-pipeline", "run", str(trace), "--outputs", "imu_pose,map,radar_pose"]
    assert shlex.split(command) == words, "the rule of `_own` is not there to make it"


@pytest.mark.system
def test_the_tutorial_and_the_command_that_an_export_suggests_give_one_world(tmp_path: Path) -> None:
    demo = tmp_path / "demo"
    assert run("simulate", str(demo), "--preset", "tiny", "--duration", "3").returncode == 0
    first = run("run", str(demo), "--config", "odometry.world=gravity")
    assert first.returncode == 0, first.stderr
    missing = run("export", "edgefirst", str(demo), "-o", str(tmp_path / "edgefirst"))
    command = missing.stderr.strip().rpartition("make it: ")[2]
    assert missing.returncode == 1 and command.startswith(f"rover-pipeline run {demo} --outputs ")

    second = run(*shlex.split(command)[1:])
    assert second.returncode == 0, second.stderr
    assert 'remembers options: odometry.world="gravity" (--reset-config forgets them)' in second.stderr
    assert "_odom: is made again" not in second.stderr
    assert json.loads((demo / "_odom" / PROVENANCE).read_text())["options"]["world"] == "gravity"
    assert not [line for line in problems(demo) if "was made from other bytes" in line]

    third = run("run", str(demo), "--outputs", "odom", "--config", "odometry.world=first_pose")
    assert third.returncode == 0 and "stale results stay" in third.stderr
    refused = run("export", "tum", str(demo), "--sensor", "_camera_pose", "-o", str(tmp_path / "camera.txt"))
    assert refused.returncode == 1 and len(refused.stderr.splitlines()) == 1, refused.stderr
    assert "_camera_pose was made from other bytes of _odom/" in refused.stderr
    mended = run("export", "tum", str(demo), "--sensor", "_camera_pose", "--make", "-o", str(tmp_path / "camera.txt"))
    assert mended.returncode == 0 and (tmp_path / "camera.txt").exists(), mended.stderr


@pytest.mark.system
def test_a_checkout_remembers_too_and_each_of_several_recordings_has_its_own_options(tmp_path: Path) -> None:
    for name in ("a", "b"):
        small_trace(tmp_path / "all" / name, sensors=("radar",))
    out, none = tmp_path / "out", {"radar": {"range_doppler": {"range_window": "none"}}}
    config = {"outputs": "radar_range_doppler", "output_root": str(out)}
    assert snakemake(tmp_path, tmp_path / "all" / "a", config={**config, **none}).returncode == 0
    assert read_memory(out / "a") == {"radar.range_doppler.range_window": "none"}
    assert not (tmp_path / "all" / "a" / MEMORY).exists()
    both = snakemake(tmp_path, tmp_path / "all", config=config)
    assert both.returncode == 0, both.stderr

    def window(name: str) -> str:
        told = json.loads((out / name / "_radar_range_doppler" / PROVENANCE).read_text())
        return str(told["options"]["range_window"])

    assert (window("a"), window("b")) == ("none", "hann")
    assert snakemake(tmp_path, tmp_path / "all", config={**config, "reset_config": "true"}).returncode == 0
    assert (window("a"), window("b")) == ("hann", "hann") and not (out / "a" / MEMORY).exists()
