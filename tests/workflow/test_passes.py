"""What one job makes of a recording, radar products in one pass and brief steps, is asked for and fails one by one."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from graphlib import TopologicalSorter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rover_pipeline.engine.command import run_pass
from rover_pipeline.engine.passes import PASSES_VARIABLE, marker_file, plan_file, taken_over
from rover_pipeline.engine.step import Output, Step
from rover_pipeline.errors import RoverError
from rover_pipeline.format.failures import read_failures, record_failure
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.table import TABLE, find_step
from rover_pipeline.workflow import passes
from rover_pipeline.workflow.flow import Flow
from rover_pipeline.workflow.passes import Passes
from tests.kit import small_trace
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


@pytest.mark.system
def test_a_run_reads_each_raw_byte_once_for_all_radar_outputs(finished: Path) -> None:
    read = sum(map(int, (finished / "read").read_text().split()))
    frames = read / (finished / "one" / "radar" / "iq").stat().st_size * FRAMES
    assert FRAMES <= frames <= FRAMES + 21, "each step looks at 21 frames before the work"
    for name in RADAR.split(","):
        assert Sensor(finished / "one" / f"_{name}").length() == FRAMES
    assert not list((finished / ".snakemake" / "passes").iterdir())


@pytest.mark.system
def test_what_a_pass_made_is_up_to_date_and_one_changed_option_remakes_one_output(
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
    assert rules(planned) == {"brief_steps", "radar_points", "radar_velocity"}, "without what shares its raw bytes"
    forced = snakemake(folder, trace, "--forceall", config={"outputs": RADAR})
    assert forced.returncode == 0 and "radar_pass" in rules(forced), forced.stderr
    assert result_bytes(trace) == before
    until = snakemake(folder, trace, "--until", "radar_points", "--forceall", config={"outputs": RADAR})
    assert until.returncode == 0, until.stderr
    assert rules(until) == {"radar_pass", "radar_points"}


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


def divided(trace: Path, *, away: bool = False, pending: Iterable[str] = (), **values: object) -> dict[str, list[str]]:
    """What each job makes of a recording when these outputs have to be made, or all default ones."""
    flow = Flow({"traces": str(trace), **values})
    names = [name for name, step in TABLE.items() if step.needs_option is None]
    rules = [SimpleNamespace(output=flow.makes(name), input=[flow.needs(name)]) for name in names]
    flow.targets(rules)
    settings = SimpleNamespace(forceall=False, forcerun=())
    found = pending or flow.pending(trace)
    workflow = SimpleNamespace(dag_settings=settings)
    joined = Passes(flow, workflow, lambda _: found, begins=True, away=away)
    jobs = {name: joined.members(name, trace) for name in joined.names}
    marked = {f"_{name}" for name in found}
    below = {each: marked & {*flow.needs_of.sensors_made_from(each, trace)} for each in marked}
    for members in jobs.values():  # each after what it is made from
        for number, each in enumerate(members):
            assert not below[each] & {*members[number:]}
    # What Snakemake sees: an output waits for its job, which waits for what its members are made from.
    job_of = {each: name for name, members in jobs.items() for each in members}
    waits = {each: {*below[each], *([job_of[each]] if each in job_of else [])} & {*below, *jobs} for each in below}
    inputs = {name: {path for each in jobs[name] for path in below[each]} - {*jobs[name]} for name in jobs}
    order = [*TopologicalSorter({**waits, **inputs}).static_order()]  # raises where a job would wait for itself
    needs: dict[str, set[str]] = {name: set() for name in jobs}
    for each in (each for each in order if each in below):
        needs[each] = below[each].union(*(needs.get(other, ()) for other in below[each]))
    for name, members in jobs.items():
        assert all(inputs[name] <= needs[each] for each in members), "a failure keeps back what does not follow from it"
    return jobs


def test_a_short_recording_is_made_by_two_jobs_and_poses_and_times_of_a_long_one_by_one(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("lidar", "radar", "camera", "imu"))
    jobs = divided(trace)
    assert jobs["radar"] == ["_radar_points", "_radar_range_azimuth", "_radar_range_doppler", "_radar_velocity"]
    poses = {"_camera_pose", "_imu_pose", "_radar_pose"}
    assert {*jobs["brief_steps"]} == {"_lidar_image", "_odom", "_bev", "_map", "_sync", *poses}
    assert not divided(trace, away=True)["brief_steps"], "the groups of a cluster's profile join its jobs"
    for name in ("lidar/rng", "radar/iq"):
        with (trace / name).open("r+b") as file:
            file.truncate(10**10)
    jobs = divided(trace)
    assert {*jobs["later_brief_steps"]} == poses and len(jobs["radar"]) == 3
    assert jobs["brief_steps"] == [], "times do not wait for odometry"


@pytest.mark.parametrize("seed", range(4))
def test_no_job_waits_for_itself_whatever_has_to_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("lidar", "radar", "camera", "imu"))
    random = np.random.default_rng(seed)
    names = [name[1:] for name, step in TABLE.items() if step.needs_option is None]
    options: dict[str, Any] = {"radar": {"points": {"odometry": bool(seed % 2)}}, "outputs": "all"}
    for _ in range(10):
        # Which steps are brief is left to chance, so that others stand between them.
        brief = {f"_{name}" for name in names if random.random() < 0.6}
        monkeypatch.setattr(passes, "memory_mb", lambda each, brief=brief: 2000 * (each not in brief))
        divided(trace, pending=[name for name in names if random.random() < 0.8], **options)


def test_what_follows_from_a_brief_step_that_fails_is_not_made_of_an_older_result(tmp_path: Path) -> None:
    trace, folder = small_trace(tmp_path / "rec", 6), tmp_path / "passes"
    outputs = {"a": Output("A.")}

    def copied(a: np.ndarray) -> np.ndarray:
        return a

    steps = {
        "_first": find_step("tests.toy:halting"),
        "_second": Step(copied, 1, inputs={"a": "_first/a"}, outputs=outputs),
        "_third": Step(copied, 1, inputs={"a": "_second/a"}, outputs=outputs),
        "_other": find_step("_lidar_image"),
    }
    after: dict[str, list[str]] = {"_first": [], "_second": ["_first"], "_third": ["_second"], "_other": []}

    def made() -> dict[str, Any]:
        stages = [
            [
                {
                    "step": each,
                    "stamp": f"{trace}/{each}/.options-1",
                    "request": "{}",
                    "version": None,
                    "after": after[each],
                }
            ]
            for each in steps
        ]
        plan = plan_file(folder, "brief_steps", str(trace))
        plan.parent.mkdir(parents=True, exist_ok=True)
        plan.write_text(json.dumps(stages))
        marker = tmp_path / "marker"
        run_pass("brief_steps", folder, trace, marker, find=steps.__getitem__, threads=1, log=tmp_path / "log")
        content: dict[str, Any] = json.loads(marker.read_text())
        return content

    assert all(made().values()) and {*made()} == {*steps}
    times = {each: (trace / each / "provenance.json").stat().st_mtime_ns for each in steps}
    with (trace / "radar" / "iq").open("r+b") as file:
        file.seek(3 * 2048)
        file.write(np.int16(12345).tobytes())
    content = made()
    assert {name: bool(time) for name, time in content.items()} == {"_first": False, "_other": True}
    again = {each for each in steps if (trace / each / "provenance.json").stat().st_mtime_ns != times[each]}
    assert again == {"_other"}, "older results stay"
    assert [(each.output, "12345" in each.reason) for each in read_failures(trace)] == [("_first", True)]


@pytest.mark.system
def test_where_the_process_of_several_steps_is_killed_each_is_made_by_its_own_job(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "it's one", 6)
    (tmp_path / "killing").mkdir()
    killing = 'import os, sys\nif "brief_steps" in sys.orig_argv: os.kill(os.getpid(), 9)\n'
    (tmp_path / "killing" / "sitecustomize.py").write_text(killing)
    env = {"PYTHONPATH": f"{tmp_path / 'killing'}:{Path(__file__).parents[2]}"}
    done = snakemake(tmp_path, trace, env=env)
    assert done.returncode == 0, done.stderr
    assert "brief_steps" in rules(done) and f"{trace} was stopped; its outputs are made one by one" in done.stderr
    assert {path.name for path in trace.glob("_*")} == {"_lidar_image", "_radar_range_doppler"}
    before = result_bytes(trace)
    forced = snakemake(tmp_path, trace, "--forceall")
    assert forced.returncode == 0, forced.stderr
    assert result_bytes(trace) == before


@pytest.mark.parametrize("change", ["", "other result", "no stamp listed", "a file is missing"])
def test_a_stamp_is_put_back_on_the_result_of_the_pass_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    folder, result = tmp_path / "passes", tmp_path / "one" / "_radar_points"
    result.mkdir(parents=True)
    (result / "count").touch()
    provenance = {"made_by": "rover_pipeline", "samples": 3, "invalid": 1, "time": {"seconds": 1.5}}
    provenance["files"] = [".options-1", "count"] if change != "no stamp listed" else ["count"]
    (result / "provenance.json").write_text(json.dumps(provenance))
    marker = Path(marker_file(folder, "radar", str(result.parent)))
    marker.parent.mkdir(parents=True)
    marker.write_text(json.dumps({"_radar_points": provenance["time"], "_bad": None, "_full": None}))
    record_failure(result.parent, "_bad", "why", may_pass=False)
    record_failure(result.parent, "_full", "disk", may_pass=True)
    monkeypatch.setenv(PASSES_VARIABLE, str(folder))
    if change == "other result":
        (result / "provenance.json").write_text(json.dumps({**provenance, "time": {"seconds": 2.0}}))
    if change == "a file is missing":
        (result / "count").unlink()
    found = taken_over(result.parent, [result / ".options-1"])
    assert (result / ".options-1").exists() == found == (not change)
    with pytest.raises(RoverError, match="why"):
        taken_over(result.parent, [result.parent / "_bad" / ".options-1"])
    assert taken_over(result.parent, [result.parent / "_full" / ".options-1"]) is False, "it is tried again"
    monkeypatch.delenv(PASSES_VARIABLE)
    assert taken_over(result.parent, [result / ".options-1"]) is False


@pytest.mark.system
def test_what_begins_together_shares_the_processors_and_what_runs_alone_has_all(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "one", 4)
    # Its steps are brief, and would be made by one job.
    (tmp_path / "sitecustomize.py").write_text("from rover_pipeline.workflow import passes\npasses._SHORT_S = 0.0\n")
    path = f"{tmp_path}:{Path(__file__).parents[2]}"

    def threads(outputs: str) -> dict[str, str]:
        asked = ["--dry-run", "--printshellcmds", "--quiet", "host", "--cores", "2"]
        shown = snakemake(tmp_path, trace, *asked, config={"outputs": outputs}, env={"PYTHONPATH": path})
        assert shown.returncode == 0, shown.stderr
        told = re.findall(r"^rule (\w+):$|--threads (\d+)", shown.stdout, re.M)
        return {rule: number for (rule, _), (_, number) in itertools.pairwise(told) if rule and number}

    all_of_them = threads("radar_points,radar_range_doppler,map,report")
    assert [all_of_them[rule] for rule in ("radar_pass", "map", "lidar_image", "report")] == ["1", "1", "2", "2"]
    assert threads("radar_points,radar_range_doppler")["radar_pass"] == "2"
    assert threads("map")["map"] == "2"
