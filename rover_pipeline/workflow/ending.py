"""How a run ends: what failed and why, and the pages that were withheld because something before them failed."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

from rover_pipeline.draw.formatting import count as counted
from rover_pipeline.errors import ERROR_MARK, RoverError, one_line, printable
from rover_pipeline.format.failures import clear_failure, read_failures, record_failure
from rover_pipeline.format.files import STAMP, read_bounded
from rover_pipeline.format.provenance import (
    changed_inputs,
    is_source,
    omission,
    read_provenance,
    recorded_inputs,
    run_command,
)
from rover_pipeline.table import TABLE
from rover_pipeline.workflow.flow import Flow
from rover_pipeline.workflow.launch import python
from rover_pipeline.workflow.recording_job import WHOLE
from rover_pipeline.workflow.recordings import RecordingJobs

# Which jobs of a run failed, as Snakemake's log says, and what of that log is not shown.
#
# A step shows its progress, and says in one line what it made or what is wrong. Snakemake would print a dozen lines
# about each job, and of one that failed the whole command, with all options as JSON. Its own log has it all.

#: Name that Snakemake gives to the handler that writes to the terminal.
_TERMINAL = "DefaultStreamHandler"
#: What Snakemake says of a failed command of ours, besides the one line of that command, and of a result that is there
#: before its own job begins, because another job has made it.
_SAID_BETTER = (
    "Exiting because a job execution failed.",
    "WorkflowError:\nAt least one job did not complete successfully.",
    "Removing output files of failed job",
    "Warning: the following output files of rule ",
)
_NOTHING = "Nothing to be done"
#: What it says in a dry run of its own notes. Where they are missing, stamps say whether a result is what would be
#: made, and to wipe them is no advice.
_OF_NOTES = ("provenance/metadata", "--cleanup-metadata")
#: Events that hold the whole command of a job that failed.
_COMMANDS = ("job_error", "group_error")
_COMMAND_FAILED = "RuleException:\nCalledProcessError in file"
_OURS = "-m rover_pipeline "


class FailedJob(NamedTuple):
    """A job that failed, and was not successful since."""

    rule: str  #: its name.
    outputs: tuple[str, ...]  #: paths of them.
    logs: tuple[str, ...]  #: paths of its logs.
    message: str  #: what the executor says, such as the state that Slurm gives; may be empty.


class JobWatch(logging.Filter):
    """Listens to Snakemake's log, of which it drops nothing. `failed`: jobs that failed, by Snakemake's number of them;
    without those that a retry made after all."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: dict[int, FailedJob] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        event, said = _event(record), vars(record)
        if event == "job_error":
            outputs, logs = (tuple(map(str, said.get(name) or ())) for name in ("output", "log"))
            # A group reports all its jobs, and then each of them. `rule_msg` is the executor's message.
            number, message = said.get("jobid", -1), str(said.get("rule_msg") or "")
            self.failed[number] = FailedJob(str(said.get("rule_name")), outputs, logs, message)
        elif event == "job_finished":
            self.failed.pop(said.get("job_id", -1), None)
        return True


def is_shown(record: logging.LogRecord) -> bool:
    """Keeps from the terminal what Snakemake says around the one line of a step."""
    text = str(record.msg or "")
    if record.levelno < logging.WARNING:
        return text.startswith(_NOTHING)
    if _event(record) in _COMMANDS:
        return False
    if text.startswith(_COMMAND_FAILED):
        return _OURS not in text
    return not text.startswith(_SAID_BETTER)


def is_no_note(record: logging.LogRecord) -> bool:
    """Keeps from the terminal what Snakemake says of its own notes."""
    return not any(each in str(record.msg) for each in _OF_NOTES)


def watch(logger: logging.Logger, *, verbose: bool, dry_run: bool) -> JobWatch:
    """Listen to Snakemake's log. The terminal shows all of it with `--verbose`, and most in a dry run."""
    watching = JobWatch()
    logger.addFilter(watching)
    for handler in logger.handlers:
        if handler.name == _TERMINAL and not verbose:
            handler.addFilter(is_no_note if dry_run else is_shown)
    return watching


def _event(record: logging.LogRecord) -> str:
    return str(getattr(getattr(record, "event", None), "value", ""))


_REPORT = "_report"
#: Lines of a list that are shown on the terminal. Layout.
_SHOWN = 40


class Row(NamedTuple):
    """A line of the table: an output that was not made. `recording` is empty for what is made from many of them."""

    recording: str
    output: str
    reason: str


def end_of_run(flow: Flow, each: RecordingJobs, failed: Mapping[int, FailedJob], *, whole: bool) -> int:
    """Report what failed and why, and make the pages that were withheld. Returns the exit status of the run. `each`:
    the jobs of a run that plans one for each recording; `failed`: jobs that failed, by Snakemake's number of them;
    `whole`: whether all jobs were run, as far as Snakemake knows."""
    markers = {each.marker(results): results for results in each.pending} if each.active else {}
    rows = {(row.recording, row.output): row for row in failures(flow, failed.values(), markers)}
    remarks = []
    for trace, name in ((trace, name) for trace, names in sorted(flow.wanted.items()) for name in names):
        if not (reason := _why_omitted(trace, f"_{name}")):
            continue
        row = Row(str(trace), f"_{name}", reason)
        if name in flow.config.outputs:  # what was asked for by its name is not there
            record_failure(trace, row.output, reason, may_pass=False)
            rows[row.recording, row.output] = row
        else:
            clear_failure(trace, row.output)
            made = os.stat(trace / row.output).st_mtime
            if each.away or each.active or made < flow.started:  # else its job has said so, here and now
                remarks.append(row)
    # The page of a recording is withheld where the job that would make it ended too early.
    ended = {results for marker, results in markers.items() if os.path.exists(marker)}
    for trace in sorted({Path(row.recording) for row in rows.values() if row.recording} - ended):
        if "report" in flow.wanted.get(trace, ()):
            _make_page(flow, trace)
    if remarks:
        say("left out:", table(remarks))
    if rows:
        say("failed:", table(sorted(rows.values())))
        lacking = {recording for recording, _ in rows if recording}
        lacking |= {str(trace) for trace in flow.wanted if not os.path.isdir(flow.source(trace))}  # was not simulated
        total = f"{len(lacking)} of {counted(len(flow.traces), 'recording lacks', 'recordings lack')} outputs"
        total = total if lacking else f"{len(rows)} of the other jobs failed"
        print(f"rover-pipeline: {total}; {_advice(rows)}", file=sys.stderr)
    if flow.refused:
        say("not done:", flow.refused)
    if rows or flow.refused:
        return 1
    if whole:
        forget_failures(flow, {})
        places = [str(trace) for trace in flow.wanted]
        say(f"done: {counted(sum(map(len, flow.wanted.values())), 'output')} in", places + flow.datasets)
    return 0 if whole else 1


def _advice(rows: Collection[tuple[str, str]]) -> str:
    """Whether the same command may make what failed: the recording, or "", and the output of each."""
    lasting = {
        (recording, each.output)
        for recording in {recording for recording, _ in rows if recording}
        for each in read_failures(Path(recording))
        if not each.may_pass
    }
    count = len(lasting & {*rows})
    if not all(recording for recording, _ in rows):
        return "the same command makes what is missing when the cause above is mended"
    if not count:
        return "the same command again makes what is missing"
    which = "what failed fails" if count == len(rows) else f"{count} of {len(rows)} outputs that failed fail"
    return f"{which} in the same way each time, until the cause above is mended"


def forget_failures(flow: Flow, pending: Mapping[Path, Collection[str]]) -> None:
    """Forget why outputs were not made that are there and up to date: an option that failed was taken back.

    Snakemake calls no hook where it finds nothing to do. So this is done when a run begins, and when it ends.
    `pending`: directory of results -> names of the outputs that have to be made there.
    """
    for trace, names in flow.wanted.items():
        made = {f"_{name}" for name in names if name not in pending.get(trace, ())}
        made |= {WHOLE} if trace not in pending else set()
        for each in read_failures(trace):
            # What was asked for by its name may still not be there.
            if each.output in made and not (
                each.output[1:] in flow.config.outputs and _why_omitted(trace, each.output)
            ):
                clear_failure(trace, each.output)


def _why_omitted(trace: Path, output: str) -> str:
    """Why a result says that its recording cannot give it; "" where it does not."""
    if output not in TABLE or not TABLE[output].products or output == _REPORT:
        return ""
    try:
        return omission(read_provenance(trace / output))
    except (RoverError, OSError):
        return ""  # whatever needs it reports that it is damaged


def failures(flow: Flow, failed: Iterable[FailedJob], markers: Mapping[str, Path]) -> list[Row]:
    """The outputs that were not made. A job that was killed reported nothing: what is known of it is kept. `markers`:
    file of each job that makes all of a recording, not empty where it failed -> directory of its results."""
    reported = [(trace, each) for trace in flow.traces for each in read_failures(trace) if each.time >= flow.started]
    rows = [Row(str(trace), each.output, each.reason) for trace, each in reported]
    known = {(row.recording, row.output) for row in rows} | {(row.recording, WHOLE) for row in rows}
    unsaid = [path for path in markers if os.path.isfile(path) and os.path.getsize(path)]
    for job in [*failed, *(FailedJob(WHOLE, (path,), (), "its marker says so") for path in unsaid)]:
        outputs = [(markers[path], WHOLE) for path in job.outputs if path in markers]
        stamps = (Path(path) for path in job.outputs if STAMP in path)
        outputs += [(stamp.parents[1], stamp.parent.name) for stamp in stamps if stamp.parents[1] in flow.traces]
        reason = _last_words(job, flow.started) or _silence(job)
        rows += [] if outputs else [Row("", job.rule, reason)]
        for trace, output in outputs:
            if (str(trace), output) not in known:
                record_failure(trace, output, reason, may_pass=True)
                rows.append(Row(str(trace), output, reason))
    return sorted(rows)


def _last_words(job: FailedJob, started: float) -> str:
    """The error that the log of a job ends with; empty where it has none of this run."""
    for log in map(Path, job.logs):
        if log.is_file() and log.stat().st_mtime >= started:
            last = read_bounded(log, 1 << 28, "a log").decode("utf-8", "replace").rstrip().rpartition("\n")[2]
            if last.startswith(ERROR_MARK):
                return last.removeprefix(ERROR_MARK)
    return ""


def _silence(job: FailedJob) -> str:
    """What can be said of a job that ended without a word."""
    log = f"; see {os.path.abspath(job.logs[0])}" if job.logs else ""
    said = f": {one_line(job.message)}" if job.message else ", as when it is killed for its memory or its time"
    return f"the job ended without an error of its own{said}{log}"


def table(rows: Sequence[Row]) -> list[str]:
    """The lines of the table of what failed, in columns."""
    common = os.path.commonpath([os.path.dirname(row.recording) for row in rows if row.recording] or ["/"])
    names = [os.path.relpath(row.recording, common) if row.recording else "" for row in rows]
    wide, output = (max(map(len, column)) for column in (names, [row.output for row in rows]))
    return [f"{name:{wide}}  {row.output:{output}}  {row.reason}" for name, row in zip(names, rows, strict=True)]


def _make_page(flow: Flow, trace: Path) -> None:
    """Make the page of a recording of what there is. It gets no stamp, so the next run makes it once more."""
    wildcards = SimpleNamespace(trace=str(trace).lstrip("/"), product=_REPORT[1:])
    own = flow.of(trace)
    command = python("rover_pipeline", "step", own.step_name(wildcards), "--trace", str(trace))
    command += ["--output", str(trace / _REPORT / "index.html"), "--request", own.step_options(wildcards)]
    log = Path("logs", wildcards.trace, "report.log")
    subprocess.run([*command, "--log", str(log)], check=False)


def say(title: str, lines: Sequence[str]) -> None:
    """Print a list on the terminal, cut off where it is long."""
    shown = lines if len(lines) <= _SHOWN else [*lines[:_SHOWN], f"and {len(lines) - _SHOWN} more"]
    print(printable("\n  ".join([f"rover-pipeline: {title}", *shown])), file=sys.stderr)


def report_stale(flow: Flow) -> None:
    """Name the results that a run leaves stale, and the command that makes them again, in a line for a recording."""
    lines = []
    for results in flow.wanted:
        if names := left_stale(flow, results):
            known = [name for name in names if name in flow.made]
            command = f"make them again: {run_command(results, known)}" if known else "run their rules again"
            lines.append(f"{results}: {', '.join(names)}: {command}")
    if lines:
        say("stale results stay, of other options or made from older ones:", lines)


def left_stale(flow: Flow, results: Path) -> list[str]:
    """Results of a recording that the run does not make, and that are not what it would make, in order."""
    own, source = flow.of(results), flow.source(results)
    inputs: dict[str, set[str]] = {}
    stale: set[str] = set()
    there = {name[1:] for name in (os.listdir(results) if results.is_dir() else ()) if name.startswith("_")}
    others = there - {*flow.wanted[results]}
    for name in (f"_{each}" for each in others - (flow.reach(results) if others else set())):
        with suppress(RoverError):  # `check` reports what is damaged
            result = results / name
            if not (provenance := read_provenance(result)) or is_source(provenance):
                continue
            inputs[name] = {each.partition("/")[0] for each in recorded_inputs(result, provenance)}
            # The stamp of what shows all results depends on those that are asked for.
            has_stamp = name in own.made and not own.steps[name].run.waits_for_all
            other_options = has_stamp and not os.path.exists(result / own.made[name])
            if other_options or any(changed_inputs(result, provenance, source)):
                stale.add(name)
    made = stale | ({f"_{name}" for name in flow.pending(results)} if inputs else set())
    while more := {name for name, each in inputs.items() if name not in stale and each & made}:
        stale, made = stale | more, made | more
    return sorted(stale)
