"""How a run ends when something failed: one line for each failure, the reason kept, and the page made all the same."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from types import SimpleNamespace

import pytest

from rover_pipeline.errors import RoverError, may_pass
from rover_pipeline.format.failures import FOLDER, clear_failure, read_failures, record_failure
from rover_pipeline.format.provenance import MADE_BY, OMITTED, PROVENANCE
from rover_pipeline.report.fleet import write_fleet
from rover_pipeline.workflow.ending import FailedJob, Row, end_of_run, failures, is_shown, table, watch
from rover_pipeline.workflow.flow import Flow
from rover_pipeline.workflow.recordings import RecordingJobs
from tests.kit import small_trace
from tests.workflow.runs import snakemake


def said(logger: logging.Logger, text: str, event: str, **more: object) -> None:
    logger.error(text, extra={"event": SimpleNamespace(value=event), **more})


def test_a_job_that_a_retry_made_after_all_has_not_failed() -> None:
    logger = logging.Logger("snakemake")
    jobs = watch(logger, verbose=False, dry_run=False)
    for number in (3, 4):
        said(
            logger,
            "Error",
            "job_error",
            jobid=number,
            rule_name="map",
            rule_msg="killed",
            output=["/t/_map/.options-0"],
        )
    said(logger, "Finished", "job_finished", job_id=3)
    assert list(jobs.failed) == [4]
    assert jobs.failed[4].outputs == ("/t/_map/.options-0",) and jobs.failed[4].message == "killed"


def test_only_our_own_commands_are_not_shown_again_when_they_fail() -> None:
    def shown(text: str, level: int = logging.ERROR) -> bool:
        return is_shown(logging.makeLogRecord({"msg": text, "levelno": level}))

    head = 'RuleException:\nCalledProcessError in file "derived.smk", line 15:\nCommand '
    assert not shown(f"{head}'python -m rover_pipeline step _map --request {{}}'")
    assert not shown("WorkflowError:\nAt least one job did not complete successfully.")
    assert shown(f"{head}'mytool --in x'"), "nobody else says what a user's own command was"
    assert shown("RuleException:\nValueError in file mine.smk, line 3:\nno such thing")
    assert shown("WorkflowError:\nTarget rules may not contain wildcards.")
    assert not shown("Building DAG of jobs...", logging.INFO) and shown("Nothing to be done (all", logging.INFO)


def test_a_dry_run_shows_what_snakemake_plans_and_nothing_of_its_own_notes_of_provenance() -> None:
    texts = [
        "Job stats",
        "13 jobs have missing provenance/metadata so that it",
        "wipe by 'snakemake --cleanup-metadata'",
    ]
    for verbose, expected in ((False, texts[:1]), (True, texts)):
        logger, told = logging.Logger("snakemake"), io.StringIO()
        handler = logging.StreamHandler(told)
        handler.name = "DefaultStreamHandler"
        logger.addHandler(handler)
        watch(logger, verbose=verbose, dry_run=True)
        for text in texts:
            logger.info(text)
        assert told.getvalue().splitlines() == expected


def test_the_reason_of_a_failure_is_kept_until_the_output_is_made_and_follows_no_link(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec")
    record_failure(trace, "_map", "no\nspace", may_pass=True)
    ((name, reason, _, again),) = read_failures(trace)
    assert (name, reason, again) == ("_map", "no space", True)
    clear_failure(trace, "_map")
    assert read_failures(trace) == [] and not (trace / FOLDER).exists()
    elsewhere = tmp_path / "precious"
    elsewhere.mkdir()
    (trace / FOLDER).symlink_to(elsewhere)
    record_failure(trace, "_map", "why", may_pass=False)
    clear_failure(trace, "_map")
    assert list(elsewhere.iterdir()) == []


def test_a_damaged_record_of_a_failure_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    for number, text in enumerate(("", "[]", "{}", '{"reason": 3, "time": "x", "may_pass": 1}', "null")):
        (tmp_path / FOLDER / f"_{number}.json").write_text(text)
    assert read_failures(tmp_path) == []


def test_what_the_system_failed_at_may_pass_and_what_the_recording_lacks_may_not() -> None:
    full = RoverError("cannot be written")
    full.__cause__ = OSError(28, "No space left on device")
    assert may_pass(full) and may_pass(MemoryError()) and not may_pass(RoverError("holds no samples"))


def test_a_job_that_was_killed_is_told_with_what_the_cluster_says_and_kept(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec")
    flow = Flow({"traces": str(trace)}, tmp_path)
    logger = logging.Logger("snakemake")
    jobs = watch(logger, verbose=False, dry_run=False)
    state = "SLURM-job '7' failed, SLURM status is: 'OUT_OF_MEMORY'"
    output = [f"{trace}/_odom/.options-0"]
    said(logger, "Error", "job_error", jobid=1, rule_name="odom", rule_msg=state, output=output, log=["x.log"])
    (row,) = failures(flow, jobs.failed.values(), {})
    assert (row.recording, row.output) == (str(trace), "_odom") and state in row.reason and "x.log" in row.reason
    assert read_failures(trace)[0].may_pass
    assert table([row, Row(f"{trace.parent}/longer", "_map", "why")])[1] == "longer  _map   why"


def test_what_a_recording_cannot_give_is_told_and_fails_a_run_only_where_it_was_asked_for_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = small_trace(tmp_path / "rec")
    (trace / "_map").mkdir()
    (trace / "_map" / PROVENANCE).write_text(json.dumps({"made_by": MADE_BY, OMITTED: "no sweep has a pose"}))
    for outputs, status in (("default", 0), ("lidar_image,map", 1), ("default", 0)):
        flow = Flow({"traces": str(trace), "outputs": outputs}, tmp_path)
        flow.wanted[trace] = ["lidar_image", "map"]
        jobs = RecordingJobs(flow, away=False, begins=True)
        assert end_of_run(flow, jobs, {}, whole=True) == status
        told = capsys.readouterr().err
        assert f"rover-pipeline: {'failed' if status else 'left out'}:\n  rec  _map  no sweep has a pose\n" in told
        assert bool(read_failures(trace)) == bool(status), "what was forgiven is not kept as a failure"


@pytest.mark.parametrize(("passing", "advice"), [(True, "the same command again"), (False, "fails in the same way")])
def test_only_what_may_pass_is_advised_to_be_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], passing: bool, advice: str
) -> None:
    trace = small_trace(tmp_path / "rec")
    flow = Flow({"traces": str(trace), "outputs": "lidar_image"}, tmp_path)
    flow.wanted[trace] = ["lidar_image"]
    record_failure(trace, "_lidar_image", "why", may_pass=passing)
    job = FailedJob("lidar_image", (f"{trace}/_lidar_image/.options-0",), (), "")
    flow.started -= 60
    assert end_of_run(flow, RecordingJobs(flow, away=False, begins=True), {1: job}, whole=False) == 1
    assert advice in capsys.readouterr().err


def test_one_output_is_not_called_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = small_trace(tmp_path / "rec")
    flow = Flow({"traces": str(trace), "outputs": "lidar_image"}, tmp_path)
    flow.wanted[trace] = ["lidar_image"]
    assert end_of_run(flow, RecordingJobs(flow, away=False, begins=True), {}, whole=True) == 0
    assert "done: 1 output in\n" in capsys.readouterr().err


def test_an_output_that_is_up_to_date_again_is_no_failure_any_more(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec")
    record_failure(trace, "_lidar_image", "an option was wrong", may_pass=False)
    for whole in (False, True):
        flow = Flow({"traces": str(trace), "outputs": "lidar_image"}, tmp_path)
        flow.wanted[trace] = ["lidar_image"]
        end_of_run(flow, RecordingJobs(flow, away=False, begins=True), {}, whole=whole)
        assert bool(read_failures(trace)) != whole


def test_a_simulation_that_failed_leaves_its_recording_without_outputs_and_no_other_job_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for values, count in (({}, "1 of 1 recording lacks outputs"), ({"traces": "rec"}, "1 of the other jobs failed")):
        small_trace(tmp_path / "rec") if values else None
        flow = Flow({**values, "outputs": "lidar_image"}, tmp_path)
        flow.wanted = {trace: ["lidar_image"] for trace in flow.traces}
        jobs = {1: FailedJob("simulate" if not values else "mine", (), (), "")}
        assert end_of_run(flow, RecordingJobs(flow, away=False, begins=True), jobs, whole=False) == 1
        last = capsys.readouterr().err.splitlines()[-1]
        assert last == f"rover-pipeline: {count}; the same command makes what is missing when the cause above is mended"


@pytest.mark.system
@pytest.mark.parametrize("plan", ["steps", "recordings"])
def test_one_bad_recording_stops_no_other_and_a_map_that_cannot_be_made_withholds_no_page(
    tmp_path: Path, plan: str
) -> None:
    bad, good = (small_trace(tmp_path / "all" / name, sensors=("radar",)) for name in ("bad", "good"))
    (bad / "radar" / "ts").write_bytes(b"")
    outputs = "radar_points,radar_velocity,radar_range_doppler,report"
    done = snakemake(tmp_path, tmp_path / "all", config={"outputs": outputs, "plan": plan})
    assert done.returncode == 1
    reason = f"{bad}/radar/ts: holds no samples"
    told = done.stderr.partition("rover-pipeline: failed:\n")[2].splitlines()
    assert told[0].startswith(f"  bad  _radar_points         {reason}"), "velocities follow from points: not theirs"
    assert told[1].startswith(f"  bad  _radar_range_doppler  {reason}") and not told[2].startswith("  ")
    assert done.stderr.count(reason) == 2, "of each output once"
    for noise in ("RuleException", "--request", "WorkflowError", "Traceback", "Exiting because"):
        assert noise not in done.stderr
    assert (good / "_radar_range_doppler" / "meta.json").exists() and (good / "_report" / "index.html").exists()
    findings = json.loads((bad / "_report" / "summary.json").read_text())["findings"]
    assert ("_radar_range_doppler", "error") in [(each["place"], each["severity"]) for each in findings]
    page, _ = write_fleet([str(tmp_path / "all")])
    assert "was not made: radar/ts: holds no samples" in page.read_text()
