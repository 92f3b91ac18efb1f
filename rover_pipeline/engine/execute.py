"""How a step is run: its inputs opened and checked, its function called, its sensor or its files published."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from rover_pipeline.engine.inputs import open_inputs
from rover_pipeline.engine.options import DaskOptions
from rover_pipeline.engine.parallel import frame_ranges, ordered_map
from rover_pipeline.engine.progress import progress
from rover_pipeline.engine.recording import opened_recording
from rover_pipeline.engine.step import EVERY, Inspection, Step
from rover_pipeline.engine.task import FrameTask, Part
from rover_pipeline.errors import FormatError, RoverError, UnfitError, named_if_not_written
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import LEFT_OUT, read_provenance, versions
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC
from rover_pipeline.format.trace import channels_of
from rover_pipeline.format.virtual import VirtualWriter
from rover_pipeline.options import InputOptions


class StepResult(NamedTuple):
    """Counts of a finished step, and why it made no files if the recording cannot give them."""

    samples: int
    invalid: int
    seconds: float
    left_out: str = ""


@dataclass
class Request:
    """What is asked of a step besides where: everything that may change its bytes."""

    options: Mapping[str, Any] = field(default_factory=dict)
    input: InputOptions = field(default_factory=InputOptions)


def run_step(
    step: Step,
    trace: Path,
    sensor: str,
    request: Request,
    *,
    threads: int = 1,
    dask: DaskOptions | None = None,
    stamps: tuple[str, ...] = (),
    log: TextIO | None = None,
) -> StepResult:
    """Make the virtual sensor, or the folder of files, `trace/sensor` by a step.

    Args:
        trace: directory that holds the inputs, where the result goes too.
        threads: ranges of frames worked on at once.
        stamps: names of empty files to publish with the sensor.
        log: gets a line of progress now and then.

    Raises:
        RoverError: the input is unusable, a directory is in the way, or the disk is full. Nothing is left behind.
    """
    begin, started = time.monotonic(), datetime.now(UTC)
    path = trace / sensor
    options = step.options.parse(request.options, step.name) if step.options else None
    step = step.for_options(options).for_recording(channels_of(trace))
    if step.unfit:
        raise FormatError(f"{trace}: {step.unfit}, which {sensor} needs")
    identity = {
        "step": step.name,
        "version": step.version,
        "options": options.model_dump(mode="json") if options else {},
        "input": request.input.model_dump(),
    }
    before = read_provenance(path)
    with named_if_not_written(path), VirtualWriter(path, stamps, _declared(step)) as writer:
        published = (*stamps, *(step.products or (META,)))
        if writer.waited and (made := _made_meanwhile(path, before, identity, published)):
            return made
        inputs = open_inputs(step, trace, request.input, options)
        task = FrameTask(step, inputs, options, writer.partial, {}, request.input.mark_corrupt)
        run = _Run(task, writer, trace, f"{trace.name}/{sensor}", threads, dask or DaskOptions(), log)
        left_out = ""
        if step.products:
            left_out = run.make_files()
        elif step.recording:
            run.make_at_once()
        else:
            run.make_by_ranges()
        seconds = time.monotonic() - begin
        writer.commit(
            {
                **identity,
                "inputs": inputs.fingerprints,
                "samples": inputs.count,
                "invalid": run.invalid,
                "corrupt": run.corrupt,
                "dropped": inputs.dropped,
                "measured": run.measured,
                "notes": [*inputs.notes, *run.warnings],
                **({"products": [*step.products]} if step.products else {}),
                **({LEFT_OUT: left_out} if left_out else {}),
                "packages": versions(),
                "time": {
                    "started": started.isoformat(timespec="seconds"),
                    "seconds": round(seconds, 3),
                    "inputs": inputs.states,
                },
            }
        )
    return StepResult(inputs.count, run.invalid, seconds, left_out)


def _declared(step: Step) -> set[str] | None:
    """Names of all files of a result; None where the function, or a user's `inspect`, names some of them."""
    if EVERY in step.outputs or (step.inspect and not isinstance(step.function, str)):
        return None
    return {TS, VALID, *step.outputs, *step.products, *step.sidecars}


def _made_meanwhile(
    path: Path, before: dict[str, Any] | None, identity: dict[str, Any], published: tuple[str, ...]
) -> StepResult | None:
    """The result of the process that held the lock before us, when that finished and made just what we are to make."""
    made = read_provenance(path)
    if made is None or made == before or not all((path / name).exists() for name in published):
        return None
    return StepResult(made["samples"], made["invalid"], 0.0) if made.items() >= identity.items() else None


@dataclass
class _Run:
    """One run of a step, and what is to be said of it afterwards."""

    task: FrameTask
    writer: VirtualWriter
    trace: Path
    label: str
    threads: int
    dask: DaskOptions
    log: TextIO | None
    invalid: int = 0
    corrupt: int = 0
    measured: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def make_by_ranges(self) -> None:
        """Blocks of frames, in parallel, or in order with a state."""
        task, inputs = self.task, self.task.inputs
        task.prepare()
        task.probe()
        self._take(task.inspect())
        _start_collector()
        self._create()
        frame_bytes = inputs.frame_bytes + sum(spec.sample_bytes for spec in self.writer.specs.values())
        ranges = frame_ranges(inputs.count, frame_bytes, self.dask, self.threads)
        # An ordered step hands a state from each range to the next, so it cannot be spread over workers.
        work, threads, dask = (_InOrder(task), 1, None) if task.step.ordered else (task, self.threads, self.dask)
        with progress(self.label, inputs.count, log=self.log) as advance:

            def done(frames: tuple[int, int]) -> None:
                advance(frames[1] - frames[0])

            for part in ordered_map(work, ranges, threads=threads, dask=dask, done=done):
                self._append(part)

    def make_at_once(self) -> None:
        """All frames by one call of the function."""
        returned, readable = self._call()
        result = self.task.as_channels(returned, self.task.inputs.count)
        self.task.specs.update(self.task.specs_of(result))
        self._create()
        self._append(self.task.write(0, result, readable))

    def make_files(self) -> str:
        """Files instead of channels. Returns why there are none if the recording cannot give them."""
        try:
            returned, readable = self._call()
        except UnfitError as error:
            return str(error)
        declared = self.task.step.products
        if set(returned) != set(declared):
            raise RoverError(f"{self.task.step.name}: made {sorted(returned)}, declares {sorted(declared)}")
        for name, content in returned.items():
            self.writer.add_file(name, content)
        self.corrupt = int((~readable).sum())
        return ""

    def _call(self) -> tuple[Any, Any]:
        """What the function returns for the whole recording, and which frames could be decoded."""
        task = self.task
        task.prepare()
        self._take(task.inspect())
        _start_collector()
        with opened_recording(task, label=self.label, threads=self.threads, dask=self.dask, log=self.log) as recording:
            arguments: dict[str, Any] = {"recording": recording}
            if task.step.takes("trace"):
                arguments["trace"] = self.trace
            returned = task.call_function(arguments, 0, task.inputs.count)
        if isinstance(returned, tuple):
            returned, inspection = returned
            self._take(inspection)
        return returned, recording.readable

    def _take(self, inspection: Inspection) -> None:
        for warning in inspection.warnings:
            for stream in filter(None, (sys.stderr, self.log)):
                print(f"{self.writer.path}: {warning}", file=stream, flush=True)
        for name, text in inspection.files.items():
            self.writer.add_file(name, text.encode())
        self.measured |= inspection.measured
        self.warnings += inspection.warnings

    def _create(self) -> None:
        inputs = self.task.inputs
        self.writer.create({TS: TS_SPEC, VALID: VALID_SPEC, **self.task.specs}, inputs.count)
        self.writer.fill(TS, inputs.ts)

    def _append(self, part: Part) -> None:
        self.invalid, self.corrupt = self.invalid + part.invalid, self.corrupt + part.corrupt
        for name, samples in part.encoded.items():
            for data in samples:
                self.writer.stream(name).append_encoded(data)


def _start_collector() -> None:
    """Start the garbage collector where the command has stopped it while modules were loaded; they are no garbage."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


class _InOrder:
    """An ordered step: hands the state that the function returns on to its next call."""

    def __init__(self, task: FrameTask) -> None:
        self.task = task
        self.state: Any = None

    def __call__(self, frames: tuple[int, int]) -> Part:
        part, self.state = self.task.advance_state(self.state, *frames)
        return part
