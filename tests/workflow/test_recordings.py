"""One job for each recording: what it is asked to make, how much it asks for, and that its results are the same."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import TextIO

import pytest

from rover_pipeline.engine.instances import Roles, for_sensors
from rover_pipeline.engine.step import Step
from rover_pipeline.errors import ConfigError
from rover_pipeline.format.failures import read_failures, record_failure
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.rig import Rig
from rover_pipeline.table import TABLE
from rover_pipeline.workflow.ending import failures
from rover_pipeline.workflow.flow import Flow
from rover_pipeline.workflow.needs import StepInput
from rover_pipeline.workflow.plans import cost_of
from rover_pipeline.workflow.recording_job import RUN_VARIABLE, SOURCES, run_recording
from rover_pipeline.workflow.recordings import RecordingJobs
from tests.kit import small_trace
from tests.workflow.runs import result_bytes, snakemake


def planned(trace: Path, **values: object) -> list[str]:
    """What would be made of a recording, by the rules of the table."""
    flow = Flow({"traces": str(trace), **values})
    names = [name for name, step in TABLE.items() if step.shown.needs_option is None]
    rules = [SimpleNamespace(output=flow.makes(name), input=[flow.needs(name)]) for name in names]
    assert all(isinstance(rule.input[0], StepInput) for rule in rules)
    flow.targets(rules)
    return flow.pending(trace)


def test_what_a_recording_lacks_is_asked_once_for_each_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        small_trace(tmp_path / name, sensors=("lidar", "radar", "imu"))
    asked: Counter[tuple[str, Path]] = Counter()

    def counted(step: Step, roles: Roles, rig: Rig) -> Step:
        asked[step.sensor, rig.path] += 1
        return for_sensors(step, roles, rig)

    monkeypatch.setattr("rover_pipeline.workflow.flow.for_sensors", counted)
    flow = Flow({"traces": str(tmp_path)})
    names = [name for name, step in TABLE.items() if step.shown.needs_option is None]
    flow.targets([SimpleNamespace(output=flow.makes(name), input=[flow.needs(name)]) for name in names])
    assert all("odom" in flow.pending(tmp_path / name) for name in ("one", "two"))
    assert len(asked) >= 2 * len(names) and set(asked.values()) == {1}


def made(trace: Path, **values: object) -> None:
    """Let all outputs look as if they were made now."""
    flow = Flow({"traces": str(trace), **values})
    for name, step in TABLE.items():
        folder = trace / name
        stamp = flow.makes(name)[0].rpartition("/")[2]
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        content = {"made_by": "rover_pipeline", "step": step.name, "version": step.version, "inputs": {}, "files": []}
        (folder / PROVENANCE).write_text(json.dumps({**content, "time": {"inputs": {}}}))
        (folder / stamp).touch()


def test_a_changed_option_remakes_what_depends_on_it_and_the_page(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("lidar", "radar", "imu"))
    everything = planned(trace)
    assert {"odom", "map", "radar_pose", "sync", "report"} <= set(everything) and "camera_pose" not in everything
    made(trace)
    assert planned(trace) == []
    assert planned(trace, sync={"tolerance": 0.01}) == ["sync", "report"]
    assert planned(trace, map={"voxel": 0.2}) == ["map", "report"]
    after = set(planned(trace, odometry={"passes": 1}))
    assert after == {"odom", "map", "bev", "radar_pose", "imu_pose", "report"}
    assert planned(trace, odometry={"passes": 1}, outputs="radar_points") == []


def test_one_recording_that_cannot_be_processed_is_told_and_stops_no_other(tmp_path: Path) -> None:
    good, bad = (small_trace(tmp_path / "all" / name, sensors=("radar",)) for name in ("good", "bad"))
    shutil.rmtree(bad / "radar")
    flow = Flow({"traces": str(tmp_path / "all"), "outputs": "radar_range_doppler"})
    rules = [SimpleNamespace(output=flow.makes("_radar_range_doppler"), input=[flow.needs("_radar_range_doppler")])]
    assert [Path(path).parents[1] for path in flow.targets(rules)] == [good]
    assert flow.refused == [f"{bad}: has no sensor 'radar', which the output 'radar_range_doppler' needs"]


def test_jobs_are_recordings_on_a_cluster_and_where_there_are_many(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("radar",))

    def active(away: bool, **values: object) -> bool:
        return RecordingJobs(Flow({"traces": str(trace), **values}), away=away, begins=True).active

    assert active(True) and not active(False) and active(False, plan="recordings") and not active(True, plan="steps")
    assert not active(True, exports="kitti"), "a dataset waits for steps of all recordings"
    with pytest.raises(ConfigError, match="plan: a dataset is made from all recordings"):
        active(True, exports="kitti", plan="recordings")
    flow = Flow({"traces": str(trace)})
    flow.traces |= {tmp_path / str(number): trace for number in range(60)}
    jobs = RecordingJobs(flow, away=False, begins=True)
    assert jobs.active
    jobs.pending = {tmp_path / str(number): ["odom"] for number in range(1000)}
    assert not jobs.ends_here, "Snakemake counts the jobs"
    jobs.pending[trace] = ["odom"]
    assert jobs.ends_here


def test_time_grows_with_the_recording_memory_with_the_chunk_and_both_with_every_attempt(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("radar", "lidar"))
    jobs = RecordingJobs(flow := Flow({"traces": str(trace)}), away=True, begins=True)
    jobs.pending[trace] = ["lidar_image", "radar_points"]
    for name in jobs.pending[trace]:
        flow.makes(f"_{name}")
    of = SimpleNamespace(trace=str(trace).lstrip("/"))
    assert jobs.memory_mb(of, attempt=2, threads=2) == 2 * jobs.memory_mb(of, attempt=1, threads=2)
    assert jobs.minutes(of, attempt=3) == 3 * jobs.minutes(of, attempt=1)
    small = cost_of(trace, [TABLE["_lidar_image"], TABLE["_odom"]])
    assert small.memory_mb(2, 8 << 20) < small.memory_mb(2, 256 << 20) < 2 * small.memory_mb(2, 1 << 30)
    with (trace / "lidar" / "rng").open("r+b") as file:
        file.truncate(10**9)
    large = cost_of(trace, [TABLE["_lidar_image"], TABLE["_odom"]])
    assert large.seconds > small.seconds + 60 and large.written > small.written + 10**9
    assert large.memory_mb(2, 8 << 20) == small.memory_mb(2, 8 << 20), "memory is bounded by the chunk"


def test_the_time_of_every_step_that_reads_samples_grows_with_the_recording(tmp_path: Path) -> None:
    large = {"lidar": "rng", "radar": "iq", "camera": "video.avi"}
    short, long = tmp_path / "short", tmp_path / "long"
    for sensor, channel in large.items():
        for trace in (short, long):
            (trace / sensor).mkdir(parents=True)
        with (long / sensor / channel).open("wb") as file:
            file.truncate(10**10)
    samples = {f"{sensor}/{channel}" for sensor, channel in large.items()} | {
        "_lidar_image/rng",
        "_camera_frames/image",
    }
    reading = [name for name, step in TABLE.items() if samples & {*step.references()}]
    assert {"_radar_quality", "_odom", "_objects", "_camera_frames"} <= set(reading)
    made = {name: TABLE[name] for name in reading}
    flat = [name for name, each in made.items() if cost_of(long, [each]).seconds < cost_of(short, [each]).seconds + 20]
    assert not flat, f"the rates of {flat} do not grow"


@pytest.mark.system
def test_a_job_for_each_recording_gives_the_same_bytes_and_selects_the_same_work(tmp_path: Path) -> None:
    outputs = {"outputs": "radar_range_doppler,report", "output_root": str(tmp_path / "out")}
    raw = tmp_path / "all"
    for name in ("a", "cut"):
        small_trace(raw / name, sensors=("radar",))
    (raw / "cut" / "radar" / "ts").write_bytes(b"")
    one = {**outputs, "plan": "recordings"}

    def run(*arguments: str, **more: object) -> tuple[int, str]:
        done = snakemake(tmp_path, raw, *arguments, config={**one, **more})
        return done.returncode, done.stderr

    status, told = run()
    results = tmp_path / "out"
    table = told.partition("rover-pipeline: failed:\n")[2].splitlines()
    assert status == 1 and table[0].startswith("  cut  _radar_range_doppler  "), told
    assert "holds no samples" in table[0] and (results / "cut" / "_report" / "index.html").exists()
    local = snakemake(tmp_path, raw / "a", config={**outputs, "output_root": str(tmp_path / "plain"), "plan": "steps"})
    assert local.returncode == 0, local.stderr
    assert result_bytes(results / "a") == result_bytes(tmp_path / "plain" / "a") != {}
    status, told = run("--dry-run")
    assert "_report: 1 of 2 recordings" in told and "to be written from" in told and "hours of one" in told
    assert not list((tmp_path / ".snakemake" / "recordings").iterdir()), "the notes of a run go with it"


def test_a_run_that_plans_recordings_passes_its_whole_configuration_on(tmp_path: Path) -> None:
    given = {"radar": {"range_doppler": {"range_window": "none"}}, "extra": {"mine": {"tiny": 1e-6, "word": "1e-6"}}}
    trace = small_trace(tmp_path / "rec", sensors=("radar",))
    values = Flow({"traces": str(trace), **given}).config.model_dump(mode="json")
    flows = [Flow(each) for each in ({"traces": str(trace), **given}, json.loads(json.dumps(values)))]
    for name in ("_radar_range_doppler", "_odom", "_report"):
        assert len({flow.makes(name)[0] for flow in flows}) == 1
    assert flows[1].config.extra == given["extra"]


#: What the steps of a recording left behind -> exit status of its job, and what its marker tells.
LOG = Path("logs", "rec.log")
ENDS: dict[str, tuple[list[tuple[str, str, bool]], str, int, dict[str, str]]] = {
    "what the recording lacks is not tried again": ([("_odom", "no", False)], "", 0, {"_odom": "no"}),
    "a killed step is": ([("_odom", "no", False), ("_map", "killed", True)], "", 1, {"_odom": "no", "_map": "killed"}),
    "something in the way is not": ([], "rover-pipeline: in the way\n", 0, {"recording": "in the way"}),
    "an error of nobody's is": ([], "MemoryError\n", 1, {"recording": f"MemoryError; see {LOG}"}),
}


@pytest.mark.parametrize(("failed", "said", "status", "told"), ENDS.values(), ids=ENDS)
def test_a_job_fails_only_where_another_attempt_may_succeed(
    failed: list[tuple[str, str, bool]],
    said: str,
    status: int,
    told: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace, run, marker = small_trace(tmp_path / "rec"), tmp_path / "run", tmp_path / "marker.json"
    run.mkdir()
    (run / SOURCES).write_text("{}")
    record_failure(trace, "_bev", "of an older run", may_pass=True)

    def snakemake_fails(command: list[str], stdout: TextIO, env: dict[str, str], **_: object) -> SimpleNamespace:
        assert "plan=steps" in command and not any(part.startswith("output_root") for part in command)
        assert RUN_VARIABLE not in env and "SNAKEMAKE_PROFILE" not in env
        stdout.write(said)
        stdout.flush()
        for output, reason, may_pass in failed:
            record_failure(trace, output, reason, may_pass=may_pass)
        return SimpleNamespace(returncode=1)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "cluster")
    monkeypatch.setenv(RUN_VARIABLE, str(run))
    monkeypatch.setattr(subprocess, "run", snakemake_fails)
    assert run_recording(run, trace, marker, threads=1, log=LOG) == status
    reasons = {each.output: each.reason for each in read_failures(trace) if each.output != "_bev"}
    assert reasons == told and (marker.read_text() if marker.exists() else "none") == ("none" if status else "failed")


def test_a_job_whose_marker_alone_says_that_it_failed_has_failed(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("radar",))
    for content in ("failed", ""):
        (tmp_path / "marker").write_text(content)
        rows = failures(Flow({"traces": str(trace)}), [], {str(tmp_path / "marker"): trace})
        assert [row.output for row in rows] == (["recording"] if content else [])
