"""What one job makes along with its own output, radar products in one pass and brief steps, fails one by one."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rover_pipeline.engine import command
from rover_pipeline.engine.command import StepCommand, run_command
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.engine.plan import PLAN_VARIABLE, Plan, Planned, is_done
from rover_pipeline.engine.step import Output, Run, Step
from rover_pipeline.errors import RoverError
from rover_pipeline.format.attempt import scratch, unfinished
from rover_pipeline.format.failures import read_failures, record_failure
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.trace import CONFIG
from rover_pipeline.table import TABLE, find_step
from rover_pipeline.workflow import plans
from rover_pipeline.workflow.flow import Flow
from rover_pipeline.workflow.plans import Plans
from tests.kit import STAMP, small_trace
from tests.workflow.runs import result_bytes, snakemake

RADAR = "radar_range_doppler,radar_range_azimuth,radar_points,radar_velocity"
FRAMES = 30
#: Counts what every process of a run reads of `radar/iq`, whatever it is.
COUNTING = """
import os
_log = os.open(os.environ["READ_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)  # before its process is confined
_preadv = os.preadv
def preadv(descriptor, buffers, offset, *rest):
    count = _preadv(descriptor, buffers, offset, *rest)
    if os.readlink(f"/proc/self/fd/{descriptor}").endswith("/radar/iq"):
        os.write(_log, f"{count}\\n".encode())
    return count
os.preadv = preadv
"""
#: Writes how each timer of Snakemake's scheduler ended.
TIMERS = """
import os, threading
_run = threading.Timer.run
def run(self):
    _run(self)
    if self.interval >= 1 and self.function.__module__.startswith("snakemake."):
        with open(os.environ["TIMERS_LOG"], "a") as log:
            log.write("cancelled " if self.cancelled else "waited ")
def cancel(self):
    self.cancelled = True
    self.finished.set()
threading.Timer.run, threading.Timer.cancel, threading.Timer.cancelled = run, cancel, False
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a run has made radar outputs of the recording `one`, and counted what it read."""
    folder = tmp_path_factory.mktemp("finished")
    small_trace(folder / "one", FRAMES, sensors=["radar"])
    (folder / "counting").mkdir()
    (folder / "counting" / "sitecustomize.py").write_text(COUNTING)
    path = f"{folder / 'counting'}:{Path(__file__).parents[2]}"
    done = snakemake(
        folder, folder / "one", config={"outputs": RADAR}, env={"PYTHONPATH": path, "READ_LOG": str(folder / "read")}
    )
    assert done.returncode == 0, done.stderr
    return folder


def rules(run: subprocess.CompletedProcess[str]) -> set[str]:
    """Rules that a run, or a dry run, has jobs of."""
    lines = (run.stdout + run.stderr).split("Job stats:")[1].split("total")[0].splitlines()[3:]
    return {line.split()[0] for line in lines if line.strip()} - {"all"}


def made_at(result: Path) -> int:
    return (result / "provenance.json").stat().st_mtime_ns


@pytest.mark.system
def test_a_run_reads_each_raw_byte_once_for_all_radar_outputs(finished: Path) -> None:
    read = sum(map(int, (finished / "read").read_text().split()))
    frames = read / (finished / "one" / "radar" / "iq").stat().st_size * FRAMES
    assert FRAMES <= frames <= FRAMES + 3 * 21, "each step looks at 21 frames before the work, and two before each"
    for name in RADAR.split(","):
        assert Sensor(finished / "one" / f"_{name}").length() == FRAMES
    assert not list((finished / ".snakemake" / "plans").iterdir())


@pytest.mark.system
def test_what_another_job_made_is_up_to_date_and_one_changed_option_remakes_one_output(
    finished: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished, folder)
    trace = folder / "one"
    record_failure(finished / "one", "_radar_points", "an option was wrong and was taken back", may_pass=False)
    again = snakemake(finished, finished / "one", "--dry-run", config={"outputs": RADAR})
    assert "Nothing to be done" in again.stdout and read_failures(finished / "one"), "a dry run changes nothing"
    again = snakemake(finished, finished / "one", config={"outputs": RADAR})
    assert "Nothing to be done" in again.stderr and not read_failures(finished / "one")
    before = result_bytes(trace)
    changed = {"outputs": RADAR, "radar": {"points": {"threshold_db": 9.0}}}
    planned = snakemake(folder, trace, "--dry-run", config=changed)
    assert rules(planned) == {"radar_points", "radar_velocity"}, "without what shares its raw bytes"
    forced = snakemake(folder, trace, "--forceall", config={"outputs": RADAR})
    assert forced.returncode == 0 and rules(forced) == {*RADAR.split(",")}, forced.stderr
    assert result_bytes(trace) == before
    others = {name: made_at(trace / f"_{name}") for name in RADAR.split(",") if name != "radar_points"}
    until = snakemake(folder, trace, "--until", "radar_points", "--forceall", config={"outputs": RADAR})
    assert until.returncode == 0, until.stderr
    assert rules(until) == {"radar_points"}
    assert others == {name: made_at(trace / f"_{name}") for name in others}
    assert "Nothing to be done" in snakemake(folder, trace, config={"outputs": RADAR}).stderr


@pytest.mark.system
def test_an_output_that_fails_keeps_back_only_what_follows_from_it(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "one", 6, sensors=["radar"])
    config = {"outputs": RADAR, "radar": {"range_azimuth": {"azimuth_bins": 1}}}
    failed = snakemake(tmp_path, trace, config=config)
    assert failed.returncode == 1
    made = sorted(path.name for path in trace.glob("_*"))
    assert made == ["_radar_points", "_radar_range_doppler", "_radar_velocity"]
    rows = [line for line in failed.stderr.splitlines() if "azimuth bins are fewer" in line]
    assert rows and all("_radar_range_azimuth" in line or "range_azimuth" in line for line in rows)
    config["radar"] = {}
    mended = snakemake(tmp_path, trace, config=config)
    assert mended.returncode == 0, mended.stderr
    assert rules(mended) == {"radar_range_azimuth"}


def plan_of(trace: Path, *, away: bool = False, cores: int = 2, pending: Iterable[str] = (), **values: object) -> Plan:
    """What a run wants of a recording when these outputs have to be made, or all default ones."""
    flow = Flow({"traces": str(trace), **values})
    names = [name for name, step in TABLE.items() if step.shown.needs_option is None]
    flow.targets([SimpleNamespace(output=flow.makes(name), input=[flow.needs(name)]) for name in names])
    found = list(pending) or flow.pending(trace)
    return Plans(flow, lambda _: found, begins=True, away=away).of(trace, [f"_{name}" for name in found])


def test_a_short_recording_is_made_by_two_jobs_and_the_poses_of_a_long_one_along_with_its_odometry(
    tmp_path: Path,
) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("lidar", "radar", "camera", "imu"))
    plan = plan_of(trace)
    radar = {"_radar_points", "_radar_range_azimuth", "_radar_range_doppler", "_radar_velocity"}
    poses = {"_camera_pose", "_imu_pose", "_radar_pose"}
    assert {*plan.beside("_radar_points", lambda _: True)} == {*radar, "_report"} - {"_radar_points"}
    assert {*plan.beside("_lidar_image", lambda _: True)} == {"_odom", "_bev", "_map", "_sync", *poses}
    assert plan.beside("_lidar_image", lambda name: name != "_odom") == ["_sync"], "another job makes the odometry"
    assert plan.beside("_report", lambda _: True) == [] and not plan_of(trace, away=True).beside("_odom", bool)
    for name in ("lidar/rng", "radar/iq"):
        with (trace / name).open("r+b") as file:
            file.truncate(10**10)
    plan = plan_of(trace)
    assert {*plan.beside("_odom", lambda _: True)} == poses
    assert {*plan.beside("_radar_points", lambda _: True)} == radar - {"_radar_points"}, "a tenth of the pass"
    assert plan.beside("_sync", lambda _: True) == [], "odometry is not there yet"
    assert plan.beside("_map", lambda _: True) == plan.beside("_lidar_image", lambda _: True) == []


@pytest.mark.parametrize("seed", range(4))
def test_whatever_has_to_be_made_each_result_comes_after_what_it_is_made_from(tmp_path: Path, seed: int) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("lidar", "radar", "camera", "imu"))
    random = np.random.default_rng(seed)
    names = [name[1:] for name, step in TABLE.items() if step.shown.needs_option is None]
    options: dict[str, Any] = {"radar": {"points": {"odometry": bool(seed % 2)}}, "outputs": "all"}
    for _ in range(5):
        plan = plan_of(trace, pending=[name for name in names if random.random() < 0.8], **options)
        for own, each in plan.outputs.items():
            done = {own, *each.after}  # Snakemake starts a job when its inputs are there
            along = plan.beside(own, lambda _: random.random() < 0.8)
            if along and plan.outputs[along[-1]].last:  # it waits for other jobs
                along.pop()
            for name in along:
                assert {*plan.outputs[name].after} - {*each.after} <= done
                done.add(name)


def toy_plan(trace: Path, steps: Mapping[str, Step], after: Mapping[str, Sequence[str]], **changes: Any) -> Plan:
    """A plan of steps that are all brief."""
    outputs = {}
    for name, step in steps.items():
        before = (read_provenance(trace / name) or {}).get("time")
        planned = Planned(
            name, STAMP, "{}", step.version, str(trace), step.identity, before, after.get(name, ()), "", True
        )
        outputs[name] = planned._replace(**changes)
    return Plan(trace, time.time(), outputs)


@pytest.fixture
def in_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLAN_VARIABLE, str(tmp_path / "plans"))


def copied(a: np.ndarray) -> np.ndarray:
    return a


def test_what_follows_from_a_brief_step_that_fails_is_not_made_of_an_older_result(tmp_path: Path, in_run: None) -> None:
    trace = small_trace(tmp_path / "rec", 6)
    steps = {
        "_first": find_step("tests.toy:halting"),
        "_second": Step(copied, 1, inputs={"a": "_first/a"}, outputs={"a": Output("A.")}),
        "_third": Step(copied, 1, inputs={"a": "_second/a"}, outputs={"a": Output("A.")}),
        "_other": find_step("tests.toy:smooth"),
    }
    after = {"_second": ["_first"], "_third": ["_second"]}
    given = StepCommand(steps["_first"], (trace / "_first" / STAMP,), "{}", None)

    def make(begun: Plan) -> None:
        begun.write()
        run_command(given, trace, find=steps.__getitem__, threads=1, log=None)

    make(toy_plan(trace, steps, after))
    times = {each: made_at(trace / each) for each in steps}
    for name in steps:
        (trace / name / STAMP).unlink()  # as Snakemake does before it starts the job
        assert is_done(trace, [trace / name / STAMP]) and (trace / name / STAMP).exists()
    with (trace / "radar" / "iq").open("r+b") as file:
        file.seek(3 * 2048)
        file.write(np.int16(12345).tobytes())
    plan = toy_plan(trace, steps, after)
    with pytest.raises(RoverError, match="12345"):
        make(plan)
    assert {each for each in steps if made_at(trace / each) != times[each]} == {"_other"}, "older results stay"
    assert [(each.output, "12345" in each.reason) for each in read_failures(trace)] == [("_first", True)]
    assert not is_done(trace, [trace / "_second" / STAMP])
    with pytest.raises(RoverError, match="12345"):  # its own job does not try once more
        is_done(trace, [trace / "_first" / STAMP])
    record_failure(trace, "_first", "disk full", may_pass=True)
    assert not is_done(trace, [trace / "_first" / STAMP])


def test_a_job_leaves_to_another_one_what_that_makes(tmp_path: Path, in_run: None) -> None:
    trace = small_trace(tmp_path / "rec", 4)
    steps = {"_first": find_step("tests.toy:smooth"), "_second": find_step("tests.toy:smooth")}
    toy_plan(trace, steps, {}).write()
    with scratch(trace / "_second"):
        given = StepCommand(steps["_first"], (trace / "_first" / STAMP,), "{}", None)
        run_command(given, trace, find=steps.__getitem__, threads=1, log=None)
    assert (trace / "_first" / STAMP).exists() and not (trace / "_second").exists()


def slowly(a: np.ndarray) -> np.ndarray:
    time.sleep(0.2)
    return a


def in_vain(a: np.ndarray) -> np.ndarray:
    time.sleep(0.2)
    raise ValueError("no")


def of_radar(function: Callable[..., Any], **more: Any) -> Step:
    return Step(function, 1, inputs={"a": "radar/iq"}, outputs={"a": Output("A. [chirp, tx, rx, word]")}, **more)


@pytest.mark.parametrize("how", ["made meanwhile", "not begun", "fails meanwhile"])
def test_the_job_of_a_pass_makes_what_follows_all_others_and_waits_only_for_what_is_being_made(
    tmp_path: Path, in_run: None, how: str
) -> None:
    trace = small_trace(tmp_path / "rec", 4)
    steps = {
        "_own": of_radar(copied),
        "_other": of_radar(in_vain if how == "fails meanwhile" else slowly),
        "_last": of_radar(copied, run=Run(waits_for_all=True)),
    }
    plan = toy_plan(trace, steps, {"_last": ["_other", "_own"]}, brief=False)
    plan.outputs["_own"] = plan.outputs["_own"]._replace(shares="pass")
    plan.outputs["_last"] = plan.outputs["_last"]._replace(last=True)
    plan.write()

    def make(name: str) -> None:
        given = StepCommand(steps[name], (trace / name / STAMP,), "{}", None)
        run_command(given, trace, find=steps.__getitem__, threads=1, log=None)

    beside = multiprocessing.get_context("fork").Process(target=make, args=("_other",))
    if how != "not begun":
        beside.start()
        while trace / "_other" not in unfinished(trace):
            time.sleep(0.01)
    make("_own")
    assert is_done(trace, [trace / "_own" / STAMP])
    assert is_done(trace, [trace / "_last" / STAMP]) == (how == "made meanwhile")
    assert not unfinished(trace)


def test_where_the_process_of_several_steps_is_killed_each_is_made_by_its_own_job(
    tmp_path: Path, in_run: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = small_trace(tmp_path / "it's one", 6)
    steps = {each: find_step(each) for each in ("_radar_range_doppler", "_radar_range_azimuth")}
    toy_plan(trace, steps, {}, shares="radar", brief=False).write()
    together = command.run_together

    def killed(asked: Sequence[Any], *arguments: Any, **more: Any) -> Any:
        if len(asked) > 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return together(asked, *arguments, **more)

    monkeypatch.setattr(command, "run_together", killed)
    for count, (name, step) in enumerate(steps.items(), 1):
        given = StepCommand(step, (trace / name / STAMP,), "{}", None)
        run_command(given, trace, find=find_step, threads=1, log=None)
        assert len([*trace.glob("_*")]) == count and not read_failures(trace)
    assert not (trace / ".partial").exists()


@pytest.mark.parametrize("change", ["", "before", "other version", "no stamp listed", "a file is missing", "input"])
def test_a_stamp_is_put_back_on_the_result_of_this_run_alone(tmp_path: Path, in_run: None, change: str) -> None:
    trace = small_trace(tmp_path / "one", 3)
    result, step = trace / "_smooth", find_step("tests.toy:smooth")
    plan = toy_plan(trace, {"_smooth": step}, {})
    run_step(step, trace, "_smooth", Request(), stamps=() if change == "no stamp listed" else (STAMP,))
    (result / STAMP).unlink(missing_ok=True)
    if change == "before":
        plan = toy_plan(trace, {"_smooth": step}, {})
    if change == "other version":
        plan = toy_plan(trace, {"_smooth": step}, {}, identity={"step": step.name, "version": 99}, before=None)
    if change == "a file is missing":
        (result / "ts").unlink()
    if change == "input":
        (trace / "radar" / "iq").write_bytes(bytes((trace / "radar" / "iq").stat().st_size))
    plan.write()
    assert is_done(trace, [result / STAMP]) == (result / STAMP).exists() == (not change)
    assert not is_done(trace, [result / "index.html"]), "the page that the end of a run makes"


@pytest.mark.system
def test_what_begins_together_shares_the_processors_and_what_runs_alone_has_all(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "one", 4)
    # Its steps are brief, and would be made by one job.
    (tmp_path / "sitecustomize.py").write_text("from rover_pipeline.workflow import plans\nplans._SHORT_S = 0.0\n")
    path = f"{tmp_path}:{Path(__file__).parents[2]}"

    def threads(outputs: str, **options: object) -> dict[str, str]:
        asked = ["--dry-run", "--printshellcmds", "--quiet", "host", "--cores", "2"]
        config = {"outputs": outputs, **options}
        shown = snakemake(tmp_path, trace, *asked, config=config, env={"PYTHONPATH": path})
        assert shown.returncode == 0, shown.stderr
        told = re.findall(r"^rule (\w+):$|--threads (\d+)", shown.stdout, re.M)
        return {rule: number for (rule, _), (_, number) in itertools.pairwise(told) if rule and number}

    all_of_them = threads("radar_points,radar_range_doppler,map,report")
    assert [all_of_them[rule] for rule in ("radar_points", "map", "lidar_image", "report")] == ["1", "1", "2", "2"]
    assert threads("radar_points,radar_range_doppler")["radar_points"] == "2"
    assert threads("map")["map"] == "2"
    assert all_of_them["odom"] == "1", "a minute is one part, beside which others are made"
    parts = {"segment": 0.1, "overlap": 0.02}
    assert threads("odom,radar_points") == {"lidar_image": "2", "odom": "1", "radar_points": "1"}
    assert threads("odom,radar_points", odometry=parts)["radar_points"] == "2", "the odometry has both before"
    assert threads("map", odometry=parts)["odom"] == "2"
    shutil.move(trace / "lidar", trace / "roof")
    shutil.move(trace / "roof" / "lidar.json", trace / "roof" / "roof.json")
    (trace / CONFIG).write_text("roof: {type: lidar}\nradar: {type: radar}\n")
    assert threads("odom")["odom"] == "1", "whatever the lidar is called"


def test_the_length_of_a_recording_is_that_of_its_longest_sensor_or_not_known(tmp_path: Path) -> None:
    for name, ts in (("lidar", [5.0, 6.0, 65.0]), ("imu", [5.0]), ("radar", []), ("gps", [5.0, np.nan])):
        (tmp_path / name).mkdir()
        np.array(ts, "<f8").tofile(tmp_path / name / "ts")
    for name in ("pipe", "device", "folder", "cut"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "pipe" / "ts")
    (tmp_path / "device" / "ts").symlink_to("/dev/zero")
    (tmp_path / "folder" / "ts").mkdir()
    (tmp_path / "cut" / "ts").write_bytes(bytes(7))
    assert plans._length_s(tmp_path, ["lidar", "imu", "camera", "radar", "gps"]) == 60
    assert plans._length_s(tmp_path, ["imu"]) == 0
    for name in ("radar", "camera", "gps", "pipe", "device", "folder", "cut"):
        assert plans._length_s(tmp_path, [name]) == np.inf, name


def test_the_end_of_a_run_ends_the_timers_of_the_scheduler_and_no_others(tmp_path: Path) -> None:
    def of_the_scheduler() -> None: ...

    of_the_scheduler.__module__ = "snakemake.scheduling.job_scheduler"
    timers = [threading.Timer(600, function) for function in (of_the_scheduler, [].clear)]
    for each in timers:
        each.daemon = True  # or a failure of this test would wait for them
        each.start()
    Plans(Flow({"traces": str(small_trace(tmp_path / "rec"))}), lambda _: [], begins=True, away=False).finish()
    timers[0].join(10)
    assert [each.is_alive() for each in timers] == [False, True]
    timers[1].cancel()


@pytest.mark.system
def test_a_run_leaves_no_timer_for_which_its_process_would_wait(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(TIMERS)
    env = {"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}", "TIMERS_LOG": str(tmp_path / "log")}
    done = snakemake(tmp_path, small_trace(tmp_path / "rec", sensors=["imu"]), config={"outputs": "imu_times"}, env=env)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "log").read_text().split()[-1] == "cancelled"
