"""The command of a rule: one step on one recording, and those steps that are made along with it."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from rover_pipeline.engine.apart import DiedError, error_as_json, error_from_json, run_apart
from rover_pipeline.engine.execute import Request, StepResult
from rover_pipeline.engine.plan import OURS, Plan
from rover_pipeline.engine.progress import say
from rover_pipeline.engine.step import Step, loaded
from rover_pipeline.engine.together import ResultRequest, run_together
from rover_pipeline.errors import ConfigError, ReportedError, RoverError, describe, may_pass, naming, show_traceback
from rover_pipeline.format.attempt import PARTIAL, remove_left, unfinished, wait_for_others
from rover_pipeline.format.failures import clear_failure, record_failure
from rover_pipeline.format.trace import link_trace
from rover_pipeline.format.virtual import begin_ahead, discard, end_ahead
from rover_pipeline.options import DASK_VARIABLE, DaskOptions, InputOptions

#: Results, or why they were not made, by the name of the virtual sensor.
Outcomes = dict[str, StepResult | Exception]


class StepCommand(NamedTuple):
    """What the command `step` is called with."""

    step: Step
    #: the stamp, and any other files, of the one virtual sensor, or folder, that the step makes.
    outputs: tuple[Path, ...]
    #: JSON with `options` of the step, `input` policy, and `recording`, where the raw sensors are elsewhere.
    request: str
    version: int | None  #: of the step where the workflow was read; None = any.

    @property
    def sensor(self) -> str:
        """Name of the virtual sensor, or folder."""
        return self.outputs[0].parent.name


def run_command(
    command: StepCommand, trace: Path, *, find: Callable[[str], Step], threads: int, log: TextIO | None
) -> None:
    """Make a result in the directory `trace`, and others that the run wants and that are made along with it.

    Their own jobs report what becomes of the others.

    Args:
        find: gives the step of a name.

    Raises:
        ConfigError: the request is no JSON, or versions differ.
        RoverError: the step failed, or did not make one of its outputs.
    """
    folders = {path.parent for path in command.outputs}
    if {folder.parent for folder in folders} != {trace} or len(folders) > 1:
        raise ConfigError(f"--output: must be files of one virtual sensor in {trace}")
    plan = Plan.read(trace)
    job = _Job(command, plan, find, threads, log)
    try:
        outcomes = job.run()
    except DiedError as error:
        for name in {command.sensor, *plan.outputs}:
            remove_left(trace / name, partial(discard, trace / name))
        is_made, several = plan.is_made(command.sensor), len(plan.pass_of(command.sensor)) > 1
        if is_made or several:
            plan.part()
        if several and not is_made:
            run_command(command, trace, find=find, threads=threads, log=log)
            return
        failure = ReportedError(f"{trace / command.sensor}: {error}", error.passes)
        outcomes = {} if is_made else {command.sensor: failure}
    for name, result in outcomes.items():
        if not isinstance(result, Exception):
            clear_failure(trace, name)
            continue
        record_failure(trace, name, describe(result), may_pass=may_pass(result))
        if name != command.sensor:
            show_traceback(result)
            traceback.print_exception(result, file=log)
    if isinstance(made := outcomes.get(command.sensor), Exception):
        raise made


class _Job:
    """A job of one result, and of those that are made along with it."""

    def __init__(
        self, own: StepCommand, plan: Plan, find: Callable[[str], Step], threads: int, log: TextIO | None
    ) -> None:
        self.own, self.plan, self._find, self._threads, self._log = own, plan, find, threads, log
        self.trace = own.outputs[0].parent.parent
        self._dask = DaskOptions.model_validate_json(os.environ.get(DASK_VARIABLE, "{}"))
        self._others: list[StepCommand] = []
        self._is_done = False

    def run(self) -> Outcomes:
        """Work in a cage, unless a step is one of the user, who may do there what they may do."""
        with suppress(Exception):  # it is reported where the result is made
            _requested(self.own, self.trace)
        pass_of = self.plan.pass_of(self.own.sensor)
        ours = self.own.step.name.startswith(OURS) and all(each.is_ours for each in pass_of.values())
        if not self.trace.is_dir() or not ours:
            self._claim()
            return self._make()
        made = run_apart(self._make_as_json, self._claim, publishes=[self.trace], network=self._dask.elsewhere)
        return {name: error_from_json(each) if "text" in each else StepResult(**each) for name, each in made.items()}

    def _claim(self) -> list[Path]:
        """Take the locks of all results that are made. Returns what is written to."""
        own = self.own.sensor
        # Jobs of one pass take the lock of its first result before their own, so that one of them makes all.
        first = next(iter(self.plan.pass_of(own)), own)
        for name in dict.fromkeys((first, own)):
            if not begin_ahead(self.trace / name, wait=False):
                wait_for_others(self.trace / name)
                begin_ahead(self.trace / name)
        self._is_done = self.plan.is_made(own, confirm=True)  # by the process that had the lock

        def claim(sensor: str) -> bool:
            if self.plan.is_made(sensor) or not begin_ahead(self.trace / sensor, wait=False):
                return False
            if made := self.plan.is_made(sensor):  # between these two calls
                end_ahead(self.trace / sensor)
            return not made

        for name in () if self._is_done else self.plan.beside(own, claim):
            each = self.plan.outputs[name]
            outputs = (self.trace / name / each.stamp,)
            self._others.append(StepCommand(self._find(each.step), outputs, each.request, each.version))
        names = [*([] if self._is_done else [own]), *(each.sensor for each in self._others)]
        for name in {first, own} - {*names}:
            end_ahead(self.trace / name)
        # The results that are there are exchanged with new ones, and then removed.
        return [self.trace / name for name in (PARTIAL, *names)]

    def _make(self) -> Outcomes:
        """First what shares raw bytes with the own result, together, then the others one by one."""
        if self._is_done:
            return {}
        commands = [self.own, *self._others]
        pass_of = self.plan.pass_of(self.own.sensor)
        together = [each for each in commands if each.sensor in {self.own.sensor, *pass_of}]
        stages = [together, *([each] for each in commands if each not in together)]
        outcomes: Outcomes = {}
        kept_back: set[str] = set()
        try:
            for command in self._others and commands:
                with suppress(Exception):  # modules are loaded before any work begins; the work reports an error
                    loaded(command.step.function)
            for stage in stages:
                ready = [each for each in stage if self._is_ready(each, kept_back)]
                outcomes |= self._make_stage(ready) if ready else {}
                # What needs a result that failed is not made from an older one of it. Its own job reports that.
                made = {sensor for sensor, each in outcomes.items() if isinstance(each, StepResult)}
                kept_back |= {each.sensor for each in stage} - made
        finally:
            end_ahead()
        return outcomes

    def _is_ready(self, command: StepCommand, kept_back: set[str]) -> bool:
        """Whether the results that one is made from are there. For those that other jobs make now this one waits."""
        sources, begun = self.plan.after(command.sensor), unfinished(self.trace)
        if command is self.own or not command.step.run.waits_for_all or kept_back & {*sources}:
            return not kept_back & {*sources}
        left = [name for name in sources if not self.plan.is_made(name)]
        if not all(self.trace / name in begun for name in left):
            return False  # a job that has not begun may be waiting for the processor that this job has
        for name in left:
            wait_for_others(self.trace / name)
            self._threads = command.step.run.threads  # the other job has ended, so that its processor is free
        return all(map(self.plan.is_made, left))

    def _make_stage(self, commands: Sequence[StepCommand]) -> Outcomes:
        """Results, or why they were not made, by the name of the virtual sensor."""
        outcomes: Outcomes = {}
        asked = []
        for command in commands:
            try:
                asked.append(_requested(command, self.trace))
            except Exception as error:
                outcomes[command.sensor] = error
        outcomes |= run_together(asked, self.trace, threads=self._threads, dask=self._dask, log=self._log)
        for command in commands:
            folder, result = command.outputs[0].parent, outcomes[command.sensor]
            if not isinstance(result, StepResult):
                continue
            # What a recording cannot give has a stamp, and says why.
            needed = [path for path in command.outputs if path.name.startswith(".") or not result.omitted]
            lacking = [path for path in needed if not path.exists()]
            # Snakemake removes stamps of others before it starts their jobs, which put them back; see `Plan.is_made`.
            if lacking and command is self.own:
                text = f"{lacking[0]}: is an output of the rule, but {command.step.name} did not make it"
                outcomes[command.sensor] = RoverError(text)
                continue
            made = ", ".join(command.step.products) or str(result)
            line = f"{folder}: {f'is left out: {result.omitted}' if result.omitted else made}, {result.seconds:.2f} s"
            say(line, sys.stderr, self._log)
        return outcomes

    def _make_as_json(self) -> dict[str, Any]:
        return {
            name: error_as_json(each) if isinstance(each, Exception) else each._asdict()
            for name, each in self._make().items()
        }


def _requested(command: StepCommand, trace: Path) -> ResultRequest:
    """What the runner is asked for. The recording is linked to the results where it is elsewhere."""
    step, outputs, request, version = command
    if version is not None and version != step.version:
        raise ConfigError(
            f"step {step.name} is version {step.version} here, version {version} where the workflow was read; "
            "install the same rover-pipeline on every node"
        )
    with naming("--request: is not valid JSON", ValueError, made=ConfigError):
        content: dict[str, Any] = json.loads(request)
    recording = Path(content.get("recording") or trace)
    if recording != trace:
        link_trace(recording, trace)
    policy = InputOptions.parse(content.get("input", {}), "input")
    asked = Request(content.get("options", {}), policy, content.get("sensors"))
    stamps = tuple(path.name for path in outputs if path.name.startswith("."))
    return ResultRequest(step, command.sensor, asked, stamps)
