"""What a run wants of a recording, as its jobs read it. Light: it is read before a job imports anything else.

A job makes, along with its own output, others that the run wants: those that share a pass over the raw channels with
it (`together.py`), and brief ones. So one may find its result made, or being made, or learn why it cannot be made.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self, TextIO

from rover_pipeline.errors import ERROR_MARK, FormatError, RoverError, describe, show_traceback
from rover_pipeline.format.attempt import open_regular, wait_for_others
from rover_pipeline.format.failures import read_failures
from rover_pipeline.format.files import replace_file
from rover_pipeline.format.provenance import changed_inputs, files_of, read_provenance
from rover_pipeline.format.texts import read_json

#: Names the folder of the plans of a run, for its jobs.
PLAN_VARIABLE = "ROVER_PIPELINE_PLAN"
#: Begins the dotted names of this package's functions.
OURS = "rover_pipeline."


class Planned(NamedTuple):
    """A result that a run wants to make."""

    step: str  #: name of the step, as `rover-pipeline step` takes it.
    stamp: str  #: name of the file that is published with the result.
    request: str  #: as in `command.StepCommand`, as is `version`.
    version: int
    source: str  #: directory of the raw sensors.
    identity: Mapping[str, Any]  #: what the provenance of the new result will say, as far as the run knows it before.
    before: Any  #: `time` in the provenance of the result that was there when the run began; None = there was none.
    after: Sequence[str]  #: results of the same plan that it is made from.
    shares: str  #: name of the pass that it can be made in; "" = it is made alone.
    brief: bool  #: whether its work takes less time than to start a process.
    #: whether the job of a pass also makes it, after it has waited for the results that other jobs make.
    last: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether the step is one of this package, and not of the user."""
        return str(self.identity["step"]).startswith(OURS)


class Plan:
    """What a run wants of one recording."""

    def __init__(self, trace: Path, started: float = 0.0, outputs: Mapping[str, Planned] | None = None) -> None:
        self.trace = trace  #: directory of the results.
        self.started = started  #: when the run began, seconds since the epoch.
        #: virtual sensor, or folder -> what is to be made. Each comes after those that it is made from.
        self.outputs = dict(outputs or {})

    @classmethod
    def read(cls, trace: Path) -> Self:
        """The plan of the run that this process is a job of. It is empty where there is none."""
        try:
            content = read_json(_file(trace))
        except (OSError, FormatError, KeyError):  # Snakemake was started without hooks, or not at all
            return cls(trace)
        return cls(trace, content["started"], {name: Planned(*each) for name, each in content["outputs"].items()})

    def write(self) -> None:
        """Give it to the jobs of this run."""
        path = _file(self.trace)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps({"started": self.started, "outputs": self.outputs}))

    def part(self) -> None:
        """From now on each job makes its own result alone: a process that made several has died."""
        alone = {name: each._replace(shares="", brief=False) for name, each in self.outputs.items()}
        Plan(self.trace, self.started, alone).write()

    def pass_of(self, own: str) -> dict[str, Planned]:
        """The results that are made in one pass with that of a job, its own one among them."""
        name = self.outputs[own].shares if own in self.outputs else ""
        return {other: each for other, each in self.outputs.items() if name and each.shares == name}

    def after(self, sensor: str) -> Sequence[str]:
        """The results of this plan that a result is made from."""
        return self.outputs[sensor].after if sensor in self.outputs else ()

    def beside(self, own: str, claim: Callable[[str], bool]) -> list[str]:
        """Other results that the job of `own` makes, each after those that it is made from.

        Args:
            claim: gives the lock of a result to this process; False where another process has it.
        """
        if (me := self.outputs.get(own)) is None:
            return []
        chosen = [own]
        for name, each in self.outputs.items():
            shared = each.shares and each.shares == me.shares
            awaits = each.last and me.shares
            follows = awaits or (each.brief and (me.brief or {*each.after} & {*chosen}))
            if name == own or not (shared or (follows and each.is_ours == me.is_ours)) or self.failure(name):
                continue
            if (awaits or all(other in chosen or self.is_made(other) for other in each.after)) and claim(name):
                chosen.append(name)
        return chosen[1:]

    def failure(self, sensor: str) -> str:
        """Why this run could not make a result, and cannot if it tries again; "" = nothing speaks against it."""
        failed = (each for each in read_failures(self.trace) if each.output == sensor and each.time >= self.started)
        return next((each.reason for each in failed if not each.may_pass), "")

    def is_made(self, sensor: str, *, confirm: bool = False) -> bool:
        """Whether a result has been made, whole and as it is wanted, since the run began.

        Args:
            confirm: put its stamp back then, which Snakemake has removed before it started the job.
        """
        planned = self.outputs.get(sensor)
        try:
            folder = os.open(self.trace / sensor, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            # By the open folder: another process may exchange what is at the path for a result with other options.
            opened = Path(f"/proc/self/fd/{folder}")
            provenance = read_provenance(opened)
            if planned is None or provenance is None or provenance.get("time") == planned.before:
                return False
            listed = files_of(provenance)
            same = provenance.items() >= planned.identity.items() and planned.stamp in listed
            if not same or not listed <= {*os.listdir(folder), planned.stamp}:
                return False
            if any(changed_inputs(self.trace / sensor, provenance, Path(planned.source))):
                return False
            if confirm:
                os.close(os.open(planned.stamp, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666, dir_fd=folder))
                os.fsync(folder)
            return True
        except FormatError:
            return False  # it is damaged, and made again
        finally:
            os.close(folder)


def _file(trace: Path) -> Path:
    """Raises KeyError in a process of no run."""
    return Path(os.environ[PLAN_VARIABLE], f"{str(trace).lstrip('/')}.json")


def is_done(trace: Path, outputs: Sequence[Path]) -> bool:
    """Whether another job of this run has made the result of a job, whose stamp is put back; else it is to be made.

    Waits while another process makes it.

    Args:
        trace: directory of results.
        outputs: of the job's rule.

    Raises:
        RoverError: the other job has found out that it cannot be made.
    """
    plan, sensor = Plan.read(trace), outputs[0].parent.name
    if sensor not in plan.outputs or [each.name for each in outputs] != [plan.outputs[sensor].stamp]:
        return False
    for name in (*plan.pass_of(sensor), sensor):
        wait_for_others(trace / name)
    if plan.is_made(sensor, confirm=True):
        return True
    if reason := plan.failure(sensor):
        raise RoverError(reason)
    return False


@contextmanager
def logged(log: Path | None, result: Path) -> Iterator[TextIO | None]:
    """The opened log of a job that makes `result`. An error goes there with its traceback, and on to who has called.

    Raises:
        SystemExit: after an error in a job of a run, which gives the reason at its end.
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
            if PLAN_VARIABLE not in os.environ:
                raise
            show_traceback(error)
            print(f"{result}: failed; the end of the run says why", file=sys.stderr)
            raise SystemExit(1) from error
