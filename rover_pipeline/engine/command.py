"""The command of a rule: one step on one recording, or several that share a pass over its raw channels."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from rover_pipeline.engine.apart import DiedError, as_told, run_apart, told
from rover_pipeline.engine.execute import Request, StepResult
from rover_pipeline.engine.options import DASK_VARIABLE, DaskOptions
from rover_pipeline.engine.passes import logged, plan_file
from rover_pipeline.engine.progress import say
from rover_pipeline.engine.step import Step
from rover_pipeline.engine.task import OURS
from rover_pipeline.engine.together import Asked, run_together
from rover_pipeline.errors import ConfigError, RoverError, ToldError, describe, may_pass, show_traceback
from rover_pipeline.format.attempt import PARTIAL, remove_left
from rover_pipeline.format.failures import clear_failure, record_failure
from rover_pipeline.format.files import replace_file
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.texts import read_json
from rover_pipeline.format.trace import link_trace
from rover_pipeline.format.virtual import begin_ahead, discard, end_ahead
from rover_pipeline.options import InputOptions

#: Results, or why they were not made, by the name of the virtual sensor.
Outcomes = dict[str, StepResult | Exception]


class Order(NamedTuple):
    """What a job is asked for.

    Attributes:
        outputs: the stamp, and any other files, of the one virtual sensor, or folder, that the step makes.
        request: JSON with `options` of the step, `input` policy, and `recording`, the directory of the raw sensors
            where it is another one.
        version: of the step where the workflow was read; None = any.
    """

    step: Step
    outputs: tuple[Path, ...]
    request: str
    version: int | None

    @property
    def sensor(self) -> str:
        """Name of the virtual sensor, or folder."""
        return self.outputs[0].parent.name


def run_command(order: Order, trace: Path, *, threads: int, log: TextIO | None) -> None:
    """Make a result in the directory `trace`.

    Raises:
        ConfigError: the request is no JSON, or versions differ.
        RoverError: the step failed, or did not make one of its outputs.
    """
    if {path.parent.parent for path in order.outputs} != {trace} or len({path.parent for path in order.outputs}) > 1:
        raise ConfigError(f"--output: must be files of one virtual sensor in {trace}")
    (made,) = _apart([order], trace, partial(_make, [order], trace, threads, log)).values()
    if isinstance(made, Exception):
        raise made


def run_pass(
    name: str,
    folder: Path,
    trace: Path,
    marker: Path,
    *,
    find: Callable[[str], Step],
    threads: int,
    log: Path,
) -> None:
    """Make what a run has planned for a pass, or for its brief steps, stage by stage.

    What fails is told by the job that it belongs to.

    Args:
        name: of the pass; folder: of the passes of the run; marker: file that says how it ended.
        find: gives the step of a name.
    """
    try:
        stages = read_json(plan_file(folder, name, str(trace)))
    except FileNotFoundError:
        stages = []  # a run without hooks plans nothing: each job makes its own result
    with logged(log, marker) as file:
        orders = [[(_order(each, find), {*each["after"]}) for each in stage] for stage in stages]

        def make() -> Outcomes:
            outcomes: Outcomes = {}
            kept_back: set[str] = set()
            for order, _ in (each for stage in orders for each in stage):
                with suppress(Exception):  # modules are loaded before any work begins; an error is told in the work
                    order.step.load()
            for stage in orders:
                ready = [order for order, after in stage if not after & kept_back]
                outcomes |= _make(ready, trace, threads, file) if ready else {}
                # What is made from a result that failed is not made from an older one. Its own job tells.
                made = {sensor for sensor, each in outcomes.items() if isinstance(each, StepResult)}
                kept_back |= {order.sensor for order, _ in stage} - made
            return outcomes

        outcomes = _apart([order for stage in orders for order, _ in stage], trace, make)
        for error in outcomes.values():
            if isinstance(error, Exception):
                show_traceback(error)
                traceback.print_exception(error, file=file)
    folders = {each: trace / each for each, made in outcomes.items() if isinstance(made, StepResult)}
    times = {each: (read_provenance(folder) or {}).get("time") for each, folder in folders.items()}
    replace_file(marker, json.dumps(dict.fromkeys(outcomes) | times))


def _order(planned: Mapping[str, Any], find: Callable[[str], Step]) -> Order:
    """What a run has planned for one result."""
    return Order(find(planned["step"]), (Path(planned["stamp"]),), planned["request"], planned["version"])


def _apart(orders: Sequence[Order], trace: Path, make: Callable[[], Outcomes]) -> Outcomes:
    """What `make` makes of orders, in a cage unless one is a step of the user, who may do there what they may do.

    The reasons why results were not made are kept with the results.
    """
    names = [order.sensor for order in orders]

    def before() -> list[Path]:
        for name in sorted(names):  # locks are taken in one order
            begin_ahead(trace / name)
        # The results that are there are exchanged with new ones, and then removed.
        return [trace / name for name in (PARTIAL, *names)]

    def work() -> dict[str, Any]:
        try:
            made = make()
        finally:
            end_ahead()
        return {name: as_told(each) if isinstance(each, Exception) else each._asdict() for name, each in made.items()}

    for order in orders:
        with suppress(Exception):  # it is told where the result is made
            _asked(order, trace)
    if not orders or not trace.is_dir() or not all(order.step.name.startswith(OURS) for order in orders):
        outcomes = make()
    else:
        try:
            network = DaskOptions.model_validate_json(os.environ.get(DASK_VARIABLE, "{}")).elsewhere
            made = run_apart(work, before, publishes=[trace], network=network)
            outcomes = {name: told(each) if "text" in each else StepResult(**each) for name, each in made.items()}
        except DiedError as error:
            for name in names:
                remove_left(trace / name, partial(discard, trace / name))
            # Each of several is tried alone then, by its own job.
            passes = error.passes or len(names) > 1
            outcomes = {name: ToldError(f"{trace / name}: {error}", passes) for name in names}
    for name, result in outcomes.items():
        if isinstance(result, Exception):
            record_failure(trace, name, describe(result), may_pass=may_pass(result))
        else:
            clear_failure(trace, name)
    return outcomes


def _make(orders: Sequence[Order], trace: Path, threads: int, file: TextIO | None) -> Outcomes:
    """Results, or why they were not made, by the name of the virtual sensor."""
    outcomes: Outcomes = {}
    asked = []
    for order in orders:
        try:
            asked.append(_asked(order, trace))
        except Exception as error:
            outcomes[order.sensor] = error
    dask = DaskOptions.model_validate_json(os.environ.get(DASK_VARIABLE, "{}"))
    outcomes |= run_together(asked, trace, threads=threads, dask=dask, log=file)
    for step, outputs, _, _ in orders:
        folder = outputs[0].parent
        result = outcomes[folder.name]
        if isinstance(result, StepResult):
            # What a recording cannot give has a stamp, and says why.
            needed = [path for path in outputs if path.name.startswith(".") or not result.left_out]
            lacking = [path for path in needed if not path.exists()]
            if lacking:
                text = f"{lacking[0]}: is an output of the rule, but {step.name} did not make it"
                outcomes[folder.name] = RoverError(text)
                continue
            made = ", ".join(step.products) or f"{result.samples} samples, {result.invalid} invalid"
            line = f"{folder}: {f'is left out: {result.left_out}' if result.left_out else made}, {result.seconds:.2f} s"
            say(line, sys.stderr, file)
    return outcomes


def _asked(order: Order, trace: Path) -> Asked:
    """What the runner is asked for. The recording is linked to the results where it is elsewhere."""
    step, outputs, request, version = order
    if version is not None and version != step.version:
        raise ConfigError(
            f"step {step.name} is version {step.version} here, version {version} where the workflow was read; "
            "install the same rover-pipeline on every node"
        )
    try:
        content: dict[str, Any] = json.loads(request)
    except ValueError as error:
        raise ConfigError(f"--request: is not valid JSON: {error}") from error
    recording = Path(content.get("recording") or trace)
    if recording != trace:
        link_trace(recording, trace)
    asked = Request(content.get("options", {}), InputOptions.parse(content.get("input", {}), "input"))
    stamps = tuple(path.name for path in outputs if path.name.startswith("."))
    return Asked(step, order.sensor, asked, stamps)
