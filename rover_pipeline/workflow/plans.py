"""What the jobs of a run are given: what the run wants of each recording, and what one job may make along with its own.

`engine/plan.py` has what a job does with the plan. The plan is written when Snakemake knows its jobs, so that
`--until`, `--omit-from` and forced rules mean what they mean without it.
"""

from __future__ import annotations

import functools
import math
import os
import secrets
import shutil
import struct
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from graphlib import TopologicalSorter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from rover_pipeline.engine.plan import OURS, PLAN_VARIABLE, Plan, Planned
from rover_pipeline.engine.step import SMALL, Run, Step
from rover_pipeline.errors import FormatError
from rover_pipeline.format.files import opened_file
from rover_pipeline.format.info import stored_bytes
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.sensor import TS
from rover_pipeline.lookup import start_collector
from rover_pipeline.workflow.flow import Flow
from rover_pipeline.workflow.needs import made_by

# What the outputs of a recording cost: time of a processor, memory, and bytes. Computed from the sizes of its files.
#
# The rates of the table of steps are estimates: a cluster's jobs ask for several times as much, and more in a retry.

#: A time stamp, s. Layout.
_TIME = struct.Struct("<d")
#: Seconds that every step takes to start and to be planned. Schedule.
_START_S = 2.0
#: Memory of Snakemake beside the steps, MB, and what an estimate is multiplied with. Schedule.
_SNAKEMAKE_MB = 250
_MARGIN = 1.4


class Cost(NamedTuple):
    """The cost of some outputs."""

    seconds: float  #: of one processor.
    read: int  #: bytes; what is read by several steps counts once.
    written: int
    steps: tuple[tuple[int, int], ...]  #: peak of a step's process, MB, and chunks that each of its threads holds.

    def memory_mb(self, threads: int, chunk: int) -> int:
        """Memory of a job that makes them with so many threads: as many steps as threads at once, the largest ones."""
        worst = sorted((base + threads * frames * chunk / 1e6 for base, frames in self.steps), reverse=True)
        return round(_MARGIN * (_SNAKEMAKE_MB + sum(worst[: max(1, threads)])))


def cost_of(source: Path, made: Iterable[Step]) -> Cost:
    """The cost of some steps for the recording in `source`, whose sensors they name."""
    sizes: dict[str, int] = {}
    seconds, written = 0.0, 0.0
    steps = []
    for step in made:
        rate = step.run.cost or SMALL
        for sensor in rate.sensors:
            if sensor not in sizes:
                sizes[sensor] = _size(source / sensor)
        size = sum(sizes[sensor] for sensor in rate.sensors)
        seconds += _START_S + 1e-9 * rate.ns * size
        written += rate.written * size
        steps.append((rate.memory_mb, rate.frames))
    return Cost(seconds, sum(sizes.values()), round(written), tuple(steps))


def _length_s(source: Path, sensors: Iterable[str]) -> float:
    """Seconds from the first to the last sample of the longest of some sensors; infinity where no time can be read."""
    lengths = []
    for sensor in sensors:
        with suppress(OSError, struct.error, FormatError), opened_file(source / sensor / TS) as file:
            (first,) = _TIME.unpack(file.read(_TIME.size))
            file.seek(-_TIME.size, os.SEEK_END)
            lengths.append(_TIME.unpack(file.read(_TIME.size))[0] - first)
    return max((each for each in lengths if math.isfinite(each)), default=math.inf)


def _size(folder: Path) -> int:
    """Bytes of the channels of a sensor."""
    with suppress(OSError):
        return sum(map(stored_bytes, folder.iterdir()))
    return 0


#: Folder of the plans of a run, in the working directory.
RUNS = Path(".snakemake", "plans")
#: A recording is short where all that has to be made takes less than this, s: as starts of a few processes. Schedule.
_SHORT_S = 5.0
#: Steps that need more memory than this, MB, have a process of their own. Schedule.
_MAX_MB = 1000


class Plans:
    """The plans of a run, which its jobs read in `folder`."""

    def __init__(self, flow: Flow, pending: Callable[[Path], Iterable[str]], *, begins: bool, away: bool) -> None:
        # `pending`: names of the outputs of a recording that have no stamp, or are made from one without; `begins`:
        # whether this is the process that the user started, and not one of its jobs; `away`: whether jobs run on other
        # machines: the groups of their profile, not we, join brief steps.
        self.flow, self._pending, self._away = flow, pending, away
        self.folder = Path((None if begins else os.environ.get(PLAN_VARIABLE)) or RUNS / secrets.token_hex(6))
        os.environ[PLAN_VARIABLE] = str(self.folder)

    def begin(self, jobs: Iterable[Any]) -> None:
        """Write the plan of each recording: the outputs that Snakemake has jobs for."""
        start_collector()
        wanted: dict[Path, set[str]] = {}
        for job in jobs:
            own = getattr(job.wildcards, "product", None)
            for product in [own] if own else made_by(job.rule):
                wanted.setdefault(self.flow.results(job.wildcards.trace), set()).add(f"_{product}")
        for results, sensors in wanted.items():
            self.of(results, sensors).write()

    def of(self, results: Path, sensors: Iterable[str]) -> Plan:
        """The plan that makes some virtual sensors of a recording."""
        wanted = {*sensors}
        below = {
            each: sorted({f"_{name}" for name in self.flow.needs_of.made_from(each[1:], results)} & wanted)
            for each in sorted(wanted)
        }
        last = [each for each in below if self.flow.steps[each].run.waits_for_all]
        below |= dict.fromkeys(last, sorted(wanted - {*last}))
        order = TopologicalSorter(below).static_order()
        planned = {each: self._planned(each, results, below[each]) for each in order}
        passes = [each.shares for each in planned.values()]
        for name, each in planned.items():
            if passes.count(each.shares) == 1:
                planned[name] = each._replace(shares="")
            elif each.shares:
                planned[name] = each._replace(brief=False)
        return Plan(results, self.flow.started, planned)

    def _planned(self, sensor: str, results: Path, after: list[str]) -> Planned:
        wildcards = SimpleNamespace(trace=str(results).lstrip("/"), product=sensor[1:])
        flow, step = self.flow, self.flow.step_of(sensor, results)
        is_brief = self._is_brief(sensor, results)
        try:
            before = (read_provenance(results / sensor) or {}).get("time")
        except FormatError:
            before = None
        return Planned(
            step=flow.step_name(wildcards),
            stamp=flow.made[sensor],
            request=flow.step_options(wildcards),
            version=flow.step_version(wildcards),
            source=str(flow.source(results)),
            identity=step.identity,
            before=before,
            after=after,
            shares=step.run.shares if step.in_pass and sensor in flow.inputs else "",
            brief=is_brief and not step.run.waits_for_all,
            last=is_brief and step.run.waits_for_all,
        )

    def _is_brief(self, sensor: str, results: Path) -> bool:
        """Whether its work is shorter than the start of a process: in a short recording nearly all steps of ours."""
        step = self.flow.steps[sensor]
        # A rule that lists its inputs by itself may read what no plan knows.
        if self._away or sensor not in self.flow.inputs:
            return False
        fits = step.name.startswith(OURS) and (step.run.cost or SMALL).memory_mb <= _MAX_MB
        return step.run.brief or (fits and self.is_short(results))

    @functools.cache  # noqa: B019, there is one object
    def is_short(self, results: Path) -> bool:
        """Whether all that has to be made of a recording takes a few seconds."""
        names = {f"_{each}" for each in self._pending(results) or self.flow.reach(results)} & {*self.flow.steps}
        ours = [
            self.flow.step_of(each, results) for each in sorted(names) if self.flow.steps[each].name.startswith(OURS)
        ]
        work_s = cost_of(self.flow.source(results), ours).seconds - _START_S * len(ours)  # without starts of processes
        return self.flow.is_demo(results) or work_s <= _SHORT_S

    # --- How jobs share the processors ------------------------------------------------------------------------------

    def priority(self, rule: Any) -> int:
        """Priority of a rule. What others wait for comes first, what others make along with their own comes last: a job
        whose result another one is still making takes a processor and waits."""
        names = [f"_{product}" for product in made_by(rule)]
        if not names or names[0] not in self.flow.steps:
            return 0
        step = self.flow.steps[names[0]]
        together = [
            name for name, each in self.flow.steps.items() if step.run.shares and each.run.shares == step.run.shares
        ]
        return 1 if step.run.first else -2 if names[0] in together[1:] else -1 if step.run.brief else 0

    def threads(self, wildcards: Any, cores: int | None) -> int:
        """Threads of a job, so that others run beside it. `cores`: of this machine; None = the job runs on another one.

        Two jobs with one thread each do more than one after the other with two: they wait at different moments. So jobs
        that begin together share the processors, where others are asked for that need not wait for this one.
        """
        flow, name = self.flow, getattr(wildcards, "product", "")
        results = flow.results(wildcards.trace) if f"_{name}" in flow.steps else None
        run = self._run(name, results) if results else Run()  # a dataset is made by no step
        if cores is None:
            return run.threads
        if results and not run.waits_for_all and self._is_brief(f"_{name}", results):
            return 1  # seconds of data
        if run.first:
            return run.threads
        alone = len(flow.traces) == 1
        if alone and results and not run.waits_for_all:
            above = functools.partial(flow.needs_of.closure, results=results)
            others = [
                self._run(each, results)
                for each in {*(self._pending(results) or flow.reach(results))} - above([name])
                if f"_{each}" in flow.steps and name not in above([each])
            ]
            alone = not any(
                each.threads < cores if each.first else each.threads > 1 and not each.waits_for_all
                for each in others
                if not run.shares or each.shares != run.shares
            )
        return max(1, min(run.threads, cores if alone else cores // 2))

    def _run(self, name: str, results: Path) -> Run:
        """How an output is made, with as many threads as the recording has parts: more of them would wait."""
        step = self.flow.step_of(f"_{name}", results)
        if not step.run.part:
            return step.run
        seconds = self.flow.request(self.flow.steps[f"_{name}"], f"_{name}")["options"][step.run.part]
        parts = _length_s(self.flow.source(results), (step.run.cost or SMALL).sensors) / seconds
        return replace(step.run, threads=max(1, round(min(step.run.threads, parts))))

    def finish(self) -> None:
        """Remove what only this run needed, and end the timers of Snakemake's scheduler."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for thread in threading.enumerate():
            # They wake the scheduler, which has ended, and would keep the process for another second.
            if isinstance(thread, threading.Timer):
                owner = getattr(thread.function, "__module__", None) or ""
                if owner.startswith("snakemake.scheduling."):
                    thread.cancel()
