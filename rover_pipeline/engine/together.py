"""Several steps in one pass over the raw channels that they read.

Each frame is read once and handed to all steps of the pass, which may share what they compute from it (`shared.py`).
Each result stays its own: it has its lock, its scratch folder and its provenance, is published alone, and has the bytes
that its step gives when it is made alone. A step that fails leaves the pass, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

from rover_pipeline.engine.execute import Request, StepResult, StepRun, start_collector
from rover_pipeline.engine.parallel import Failure, frame_ranges, over_frames
from rover_pipeline.engine.shared import Shared
from rover_pipeline.engine.step import Step
from rover_pipeline.engine.task import FrameTask, Part
from rover_pipeline.errors import named_if_not_written
from rover_pipeline.options import DaskOptions


class ResultRequest(NamedTuple):
    """A result that is asked for; see `run_step`."""

    step: Step
    sensor: str
    request: Request
    stamps: tuple[str, ...] = ()


def run_together(
    asked: Sequence[ResultRequest],
    trace: Path,
    *,
    threads: int = 1,
    dask: DaskOptions | None = None,
    log: TextIO | None = None,
) -> dict[str, StepResult | Exception]:
    """Make several results of a recording, in one pass over the raw channels those whose steps share one.

    Args:
        asked: at most one for each sensor.
        trace, threads, dask, log: see `run_step`.

    Returns:
        For each sensor the counts of its result, or why it was not made.
    """
    spread = dask or DaskOptions()
    # Locks are taken in one order, or two passes could wait for one another.
    members = [_Member(each, trace) for each in sorted(asked, key=lambda each: each.sensor)]
    try:
        looked = Shared()  # fingerprints, and the few frames that all steps look at before the work
        for member in members:
            member.attempt(partial(member.open, log, looked))
        passes = _passes(members)
        for each in passes.values():
            for member in each:
                member.attempt(member.step_run.begin)
        del looked
        start_collector()
        together = [member for each in passes.values() for member in each]
        for each in passes.values():
            _run_pass(each, threads, spread, log)
        for member in _alive(members):
            if member not in together:
                member.attempt(partial(member.step_run.make, threads, spread))
        for member in _alive(members):
            member.attempt(member.step_run.commit)
        return {member.asked.sensor: member.error or member.step_run.result for member in members}
    finally:
        for member in members:
            member.held.close()


class _Member:
    """One of the results, as far as it got."""

    step_run: StepRun  #: once it is opened.

    def __init__(self, asked: ResultRequest, trace: Path) -> None:
        self.asked, self.trace = asked, trace
        self.error: Exception | None = None  #: why it is not made; None = it did not fail.
        self.held = ExitStack()  #: the lock, and what is written.

    def attempt(self, work: Callable[[], object]) -> None:
        """Do a part of the work, unless an earlier one failed. An error ends this result alone."""
        if self.error is not None:
            return
        try:
            with named_if_not_written(self.trace / self.asked.sensor):
                work()
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Give up. What was written is removed at once: it may be why the disk is full, which others need too."""
        self.error = self.error or error
        self.held.close()

    def open(self, log: TextIO | None, looked: Shared) -> None:
        step, sensor, request, stamps = self.asked
        self.step_run = self.held.enter_context(StepRun(step, self.trace, sensor, request, stamps, log))
        if self.step_run.finished is None:
            self.step_run.open(looked)


def _alive(members: Sequence[_Member]) -> list[_Member]:
    """Those that did not fail and are not finished."""
    return [member for member in members if member.error is None and member.step_run.finished is None]


def _passes(members: Sequence[_Member]) -> dict[tuple[str, Path, int], list[_Member]]:
    """Members that are made together: of one name, from the same channel, and of the same number of frames."""
    passes: dict[tuple[str, Path, int], list[_Member]] = {}
    for member in _alive(members):
        step, inputs = member.step_run.step, member.step_run.task.inputs
        if step.in_pass and inputs.channels:
            first = next(iter(inputs.channels.values()))
            passes.setdefault((step.run.shares, first.path, inputs.count), []).append(member)
    return passes


def _run_pass(members: Sequence[_Member], threads: int, dask: DaskOptions, log: TextIO | None) -> None:
    """All frames of some members, which have begun. What a member raises ends that member alone."""
    members = _alive(members)
    if not members:
        return
    tasks = [member.step_run.task for member in members]
    count, label = tasks[0].inputs.count, members[0].step_run.label
    if others := len(members) - 1:
        label += f" and {others} more"
    # Members read the same channels.
    written = sum(task.frame_bytes - task.inputs.frame_bytes for task in tasks)
    ranges = frame_ranges(count, max(task.inputs.frame_bytes for task in tasks) + written, dask, threads)
    work = _Pass(tasks)
    try:
        for parts in over_frames(label, work, ranges, log, threads=threads, dask=dask):
            for number, (member, part) in enumerate(zip(members, parts, strict=True)):
                if isinstance(part, Failure):
                    work.failed.add(number)
                    member.fail(part.error)
                elif part is not None:
                    member.attempt(partial(member.step_run.append, part))
            if all(member.error for member in members):
                return
    except Exception as error:  # of the executor: it concerns all of them
        for member in members:
            member.fail(error)
    for member in members:
        member.attempt(member.step_run.end)


class _Pass:
    """The tasks of a pass on a range of frames. It is called in threads or in other processes."""

    def __init__(self, tasks: Sequence[FrameTask]) -> None:
        self.tasks = list(tasks)
        self.failed: set[int] = set()  #: numbers of tasks that are not worked on any more.
        self.modules = {name for task in tasks for name in task.modules}

    def __call__(self, frames: tuple[int, int]) -> list[Part | Failure | None]:
        """For each task what it gave, or its error; None where it has failed on other frames."""
        blocks = Shared()
        outcomes: list[Part | Failure | None] = [None for _ in self.tasks]
        left = [number for number in range(len(self.tasks)) if number not in self.failed]
        works = {number: _work(self.tasks[number], *frames, blocks) for number in left}
        # Frame by frame: what steps share of one is still in the processor's cache. All read before, and write after.
        for shared in chain([None], (Shared() for _ in range(*frames)), [None]):
            for number, work in works.items():
                if outcomes[number]:
                    continue
                try:
                    work.send(shared)
                except StopIteration as end:
                    outcomes[number] = end.value
                except Exception as error:
                    outcomes[number] = Failure(error)
        self.failed |= {number for number, outcome in enumerate(outcomes) if isinstance(outcome, Failure)}
        return outcomes


def _work(task: FrameTask, start: int, stop: int, blocks: Shared) -> Generator[None, Shared | None, Part]:
    """One task of a pass on a range of frames. It reads them, computes one whenever it is sent what steps share of this
    frame, and writes the results when it is sent None. Returns the summary of the range."""
    task.check_run()
    arrays, readable = task.read(start, stop, blocks)
    results: list[dict[str, np.ndarray]] = []
    while (shared := (yield)) is not None:
        frame = len(results)
        given: dict[str, Any] = {name: array[frame : frame + 1] for name, array in arrays.items()}
        if task.step.takes("shared"):
            given["shared"] = shared
        returned = task.call_function(given, start + frame, start + frame + 1)
        results.append(task.as_channels(returned, 1))
        del shared, given  # what is shared of a frame is large
    result = {name: np.concatenate([each[name] for each in results]) for name in results[0]}
    return task.write(start, result, readable)
