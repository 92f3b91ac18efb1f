"""What the jobs of a run tell one another about a pass. Light: it is read before a job imports anything else.

A pass makes several results of a recording in one job (`together.py`). Each of them has a job of its own all the same,
which Snakemake starts after it, and which finds here that its result is there. So each result has its own stamp, its
own error and its own dependents, whatever becomes of the others of its pass.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from rover_pipeline.errors import ERROR_MARK, FormatError, RoverError, describe, show_traceback
from rover_pipeline.format.attempt import open_regular
from rover_pipeline.format.failures import read_failures
from rover_pipeline.format.provenance import files_of, read_provenance
from rover_pipeline.format.texts import read_json

#: Tells the jobs of a run the folder of its passes.
PASSES_VARIABLE = "ROVER_PIPELINE_PASSES"


def plan_file(folder: Path, name: str, trace: str) -> Path:
    """What a pass on a recording is to make, as JSON: for each result its step, stamp, request and version."""
    return folder / name / f"{trace.lstrip('/')}.plan.json"


def marker_file(folder: Path, name: str, trace: str) -> str:
    """What a pass on a recording has made, as JSON: sensor -> `time` of its provenance, null where it failed.

    Args:
        trace: directory of the results, or a wildcard without the slash.
    """
    return f"{folder}/{name}/{trace.lstrip('/')}.json"


def taken_over(trace: Path, outputs: Sequence[Path]) -> bool:
    """Whether a pass of this run has made the result of a job, which puts its stamp back; else the job has to make it.

    Args:
        trace: directory of results.
        outputs: of the job's rule.

    Raises:
        RoverError: the pass has found out that it cannot be made.
    """
    folder = os.environ.get(PASSES_VARIABLE)
    if not folder or len(outputs) != 1 or not outputs[0].name.startswith("."):
        return False
    sensor = outputs[0].parent.name
    for place in sorted(Path(folder).glob("*/")):
        try:
            made = read_json(Path(marker_file(Path(folder), place.name, str(trace))))
        except (OSError, FormatError):
            continue
        if not isinstance(made, dict) or sensor not in made:
            continue
        if made[sensor] is not None and confirm(outputs[0], made[sensor]):
            return True
        failure = next((each for each in read_failures(trace) if each.output == sensor), None)
        if made[sensor] is None and failure and not failure.may_pass:
            raise RoverError(failure.reason)
    return False


@contextmanager
def logged(log: Path | None, result: Path) -> Iterator[TextIO | None]:
    """The opened log of a job that makes `result`. An error goes there with its traceback, and on to who has called.

    Raises:
        SystemExit: after an error in a job of a run, which tells the reason at its end.
    """
    if log is None:
        yield None
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(open_regular(log), "r+", encoding="utf-8") as file:
        file.truncate()
        try:
            yield file
        except Exception as error:
            traceback.print_exc(file=file)
            print(f"{ERROR_MARK}{describe(error)}", file=file, flush=True)
            if PASSES_VARIABLE not in os.environ:
                raise
            show_traceback(error)
            print(f"{result}: failed; why is told at the end", file=sys.stderr)
            raise SystemExit(1) from error


def confirm(stamp: Path, time: Any) -> bool:
    """Put back the stamp of a result, if that is still the one that was made at `time`.

    Snakemake has removed it before it started the job (`workflow/stamps.py`), and the job only says that it is there.

    Args:
        time: what its provenance says under `time`: when it was begun, how long it took, and the states of its inputs.

    Returns:
        False where there is another result, or none, or not the whole of it.
    """
    try:
        folder = os.open(stamp.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        # By the open folder: another process may exchange what is at the path for a result with other options.
        provenance = read_provenance(Path(f"/proc/self/fd/{folder}"))
        listed = files_of(provenance)
        there = {*os.listdir(folder), stamp.name}
        if provenance is None or provenance.get("time") != time or stamp.name not in listed or not listed <= there:
            return False
        os.close(os.open(stamp.name, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666, dir_fd=folder))
        os.fsync(folder)
        return True
    finally:
        os.close(folder)
