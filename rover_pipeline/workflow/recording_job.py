"""The job of one recording: Snakemake on that recording alone, and how it ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from rover_pipeline.engine.plan import logged
from rover_pipeline.format.failures import Failure, clear_failure, read_failures, record_failure
from rover_pipeline.format.files import read_bounded
from rover_pipeline.format.texts import parse_json, read_text
from rover_pipeline.workflow.launch import local_arguments, python, workflow_folder

#: Names the folder of a run that plans one job for each recording, for these jobs.
RUN_VARIABLE = "ROVER_PIPELINE_RUN"
#: In it: the configuration of the run, and the directory of each recording that is not that of its results.
OPTIONS, SOURCES = "options.json", "sources.json"
#: Name under which the failure of a recording's job as a whole is kept.
WHOLE = "recording"
#: Maximum size of a file of the run, and of a log. Schedule.
_MAX_BYTES = 1 << 28
#: Begins the line of an error of ours.
_OURS = "rover-pipeline: "


def run_recording(run: Path, trace: Path, marker: Path, *, threads: int, log: Path) -> int:
    """Make all outputs of a recording. Returns the exit status.

    What cannot succeed with this recording is no failure of the job, which would only be tried again: it is kept beside
    the results, and the run ends with it. A job that was killed, or that the system failed, is an error and is retried.

    Args:
        run: folder of the run, which has its options and the sources of the recordings.
        trace: directory of the results.
        marker: file that is there once the job ended; it is empty where all was made.
        log: of all steps' messages.
    """
    source = parse_json(read_text(run / SOURCES, _MAX_BYTES), str(run / SOURCES)).get(str(trace))
    started = time.time()
    with logged(log, trace) as file:
        command = _command(run / OPTIONS, trace, Path(source) if source else None, threads)
        # Not the environment of a job of the outer run: Snakemake within a Slurm job must not take part in it.
        inner = {name: each for name, each in os.environ.items() if name not in (RUN_VARIABLE, "SNAKEMAKE_PROFILE")}
        status = subprocess.run(command, stdout=file, stderr=file, env=inner, check=False).returncode
    failed = _failures(trace, started) if status else []
    if status and not failed:
        reason, may_pass = _last_words(log)
        record_failure(trace, WHOLE, reason, may_pass=may_pass)
        failed = _failures(trace, started)
    else:
        clear_failure(trace, WHOLE)
    how = "failed; the end of the run says why" if status else "done"
    print(f"{trace}: {how}, {time.time() - started:.0f} s", file=sys.stderr)
    if status and (not failed or any(each.may_pass for each in failed)):
        return 1
    marker.write_text("failed" if status else "")
    return 0


def _failures(trace: Path, started: float) -> list[Failure]:
    return [each for each in read_failures(trace) if each.time >= started]


def _command(options: Path, trace: Path, source: Path | None, threads: int) -> list[str]:
    """Snakemake on one recording. The user's own profiles are for the run that this is a job of."""
    command = python("rover_pipeline.workflow.interruptible", "--snakefile", str(workflow_folder() / "Snakefile"))
    command += ["--profile", "none", "--workflow-profile", "none", *local_arguments(), "--cores", str(threads)]
    command += ["--configfile", str(options), "--config", "plan=steps", f"traces={json.dumps([str(source or trace)])}"]
    return [*command, f"output_root={json.dumps(str(trace.parent))}"] if source else command


def _last_words(log: Path) -> tuple[str, bool]:
    """Why Snakemake itself ended with an error, and whether that may pass."""
    lines = read_bounded(log, _MAX_BYTES, "a log").decode("utf-8", "replace").splitlines()
    ours = [line.removeprefix(_OURS) for line in lines if line.startswith(_OURS)]
    if ours:
        return ours[0], False
    last = next((line for line in reversed(lines) if line.strip()), "it ended without a word")
    return f"{last.strip()}; see {log}", True
