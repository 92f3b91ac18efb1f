"""How a step is run: its inputs opened and checked, its function called, its sensor or its files published."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self, TextIO

from rover_pipeline.engine.inputs import open_inputs
from rover_pipeline.engine.instances import Roles, damage_of, for_sensors, roles_of, roles_of_others, with_names
from rover_pipeline.engine.parallel import Processes, frame_ranges, over_frames
from rover_pipeline.engine.progress import say
from rover_pipeline.engine.recording import Recording, Workers
from rover_pipeline.engine.shared import Shared
from rover_pipeline.engine.step import EVERY, REFERENCE, Inspection, Step, loaded
from rover_pipeline.engine.task import FrameTask, Part
from rover_pipeline.errors import FormatError, RoverError, UnfitError, counted, named_if_not_written, require_damage
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import OMITTED, read_provenance, versions
from rover_pipeline.format.rig import Rig
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC
from rover_pipeline.format.trace import channels_of
from rover_pipeline.format.virtual import VirtualWriter
from rover_pipeline.lookup import start_collector
from rover_pipeline.options import DaskOptions, InputOptions


class StepResult(NamedTuple):
    """Counts of a finished step, and why it made no files if the recording cannot give them."""

    samples: int
    invalid: int
    seconds: float
    omitted: str = ""

    def __str__(self) -> str:
        return f"{counted(self.samples, 'sample')}, {self.invalid} invalid"


@dataclass
class Request:
    """What is asked of a step besides where: everything that may change its bytes."""

    options: Mapping[str, Any] = field(default_factory=dict)
    input: InputOptions = field(default_factory=InputOptions)
    roles: Roles | None = None  #: sensors that stand for their types; None = those that the names say, see `roles_of`.


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
    step_run = StepRun(step, trace, sensor, request, stamps, log)
    with named_if_not_written(step_run.path), step_run:
        if step_run.finished is None:
            step_run.open()
            step_run.make(threads, dask or DaskOptions())
            step_run.commit()
    return step_run.result


class StepRun:
    """One run of a step, which makes a result. Use it as a context manager, which holds the lock on the result.

    Then `open`, `make`, `commit`. For a step that is made together with others (`together.py`), `begin` and `append`
    stand for `make`. When the block ends without `commit`, nothing is left behind.

    Args:
        step, trace, sensor, request, stamps, log: see `run_step`.

    Raises:
        RoverError: the options are wrong, or the recording's sensors are of a kind that the step cannot take.
    """

    task: FrameTask  #: the step with its opened inputs.

    def __init__(
        self, step: Step, trace: Path, sensor: str, request: Request, stamps: tuple[str, ...], log: TextIO | None
    ) -> None:
        self._begin, self._started = time.monotonic(), datetime.now(UTC)
        self.trace, self.path, self.label = trace, trace / sensor, f"{trace.name}/{sensor}"
        self.options = step.options.parse(request.options, step.name) if step.options else None
        rig = Rig(trace)
        wanted = {REFERENCE: getattr(self.options, REFERENCE, "")}
        self._roles = roles_of(step, sensor, rig, wanted) if request.roles is None else request.roles
        step = for_sensors(step.for_options(self.options), self._roles, rig)
        self.step = step = step.for_recording(channels_of(trace))
        if step.unfit:
            raise FormatError(f"{trace}: {step.unfit}, which {sensor} needs")
        self._input, self._stamps, self._log = request.input, stamps, log
        self._identity = {
            **step.identity,
            "options": self.options.model_dump(mode="json") if self.options else {},
            "input": request.input.model_dump(),
            **({"sensors": dict(self._roles)} if self._roles else {}),
        }
        self._writer = VirtualWriter(self.path, stamps, _declared(step))
        #: the result of another process, which held the lock before and made just this; None = there is none.
        self.finished: StepResult | None = None
        self.invalid = self.corrupt = 0  #: frames that are not valid, and that could not be decoded.
        self.measured: dict[str, Any] = {}  #: for the provenance, as `warnings`.
        self.warnings: list[str] = []
        self.omitted = ""  #: why there are no files; "" = there are, or the step makes channels.

    def __enter__(self) -> Self:
        self._writer.__enter__()
        published = (*self._stamps, *(self.step.products or (META,)))
        if self._writer.attempt.waited and (made := read_provenance(self.path)) and made != self._writer.before:
            is_same = made.items() >= self._identity.items() and all((self.path / name).exists() for name in published)
            self.finished = StepResult(made["samples"], made["invalid"], 0.0) if is_same else None
        return self

    def __exit__(self, *raised: object) -> None:
        self._writer.__exit__(*raised)

    def open(self, shared: Shared | None = None) -> None:
        """Open and check the inputs. `shared`: by the steps of a job, until the work begins."""
        inputs = open_inputs(self.step, self.trace, self._input, self.options, shared, self._roles)
        corrupt, partial = self._input.mark_corrupt, self._writer.partial
        looked = shared if self.step.in_pass else None
        self.task = FrameTask(self.step, inputs, self.options, partial, {}, corrupt, looked=looked)
        self._others: dict[str, FrameTask] = {}
        for name, roles in roles_of_others(self.step, self._roles, Rig(self.trace)).items():
            damage = damage_of(name, self.trace)
            try:
                if not damage:
                    other = self.step.others[name]
                    found = open_inputs(other, self.trace, self._input, self.options, shared, roles, inputs)
                    inputs.fingerprints.update(found.fingerprints)
                    inputs.states.update(found.states)
                    self._others[name] = FrameTask(other, found, self.options, partial, {}, mark_corrupt=True)
            except FormatError as error:
                require_damage(error)
                damage = str(error)
            if damage:
                self._take(Inspection({}, [f"{name} is left out: {damage}"]))
        if not self.step.run.recording:
            self.task.others = self._others

    def make(self, threads: int, dask: DaskOptions) -> None:
        """All frames, or all files, in the way that the step declares."""
        if self.step.products:
            self._make_files(threads, dask)
        elif self.step.run.recording:
            self._call(threads, dask, self._written)
        else:
            self._make_by_ranges(threads, dask)

    def commit(self) -> None:
        """Publish the result."""
        seconds, inputs = time.monotonic() - self._begin, self.task.inputs
        self._writer.commit(
            {
                **self._identity,
                "inputs": inputs.fingerprints,
                "samples": inputs.count,
                "invalid": self.invalid,
                "corrupt": self.corrupt,
                "dropped": inputs.dropped,
                "measured": self.measured,
                "notes": [*inputs.notes, *self.warnings],
                **({"products": [*self.step.products]} if self.step.products else {}),
                **({OMITTED: self.omitted} if self.omitted else {}),
                "packages": versions(),
                "time": {
                    "started": self._started.isoformat(timespec="seconds"),
                    "seconds": round(seconds, 3),
                    "inputs": inputs.states,
                },
            }
        )
        self.finished = StepResult(inputs.count, self.invalid, seconds, self.omitted)

    @property
    def result(self) -> StepResult:
        """Counts of the result, once it is there."""
        assert self.finished is not None
        return self.finished

    # --- The ways to make a result --------------------------------------------------------------------------------

    def begin(self) -> None:
        """What comes before the frames: look at some of them, and make the channels."""
        self.task.prepare()
        self.task.probe()
        self._take(self.task.inspect())
        self.task.looked = None
        self._create()

    def append(self, part: Part) -> None:
        """Take what a range of frames gave. Ranges come in order."""
        self.invalid, self.corrupt = self.invalid + part.invalid, self.corrupt + part.corrupt
        for name, samples in part.encoded.items():
            for data in samples:
                self._writer.stream(name).append_encoded(data)

    def end(self) -> None:
        """What comes after the frames."""
        self._take(self.task.conclude())

    def _make_by_ranges(self, threads: int, dask: DaskOptions) -> None:
        """Blocks of frames, in parallel, or in order with a state."""
        task = self.task
        self.begin()
        start_collector()
        ranges = frame_ranges(task.inputs.count, task.frame_bytes, dask, threads)
        state = None

        def advance_state(frames: tuple[int, int]) -> Part:
            nonlocal state
            arrays, readable = task.read(*frames)
            returned, state = task.call_function(arrays, *frames, state=state)
            return task.write(frames[0], task.as_channels(returned, len(readable)), readable)

        # An ordered step hands a state from each range to the next, so it cannot be spread over workers.
        work, threads, spread = (advance_state, 1, None) if task.step.run.ordered else (task, threads, dask)
        for part in over_frames(self.label, work, ranges, self._log, threads=threads, dask=spread):
            self.append(part)
        self.end()

    def _written(self, **arguments: Any) -> None:
        """Call the function, and write what it returns, or yields for one range of frames after another."""
        task, recording, start = self.task, arguments["recording"], 0
        returned = loaded(task.step.function)(**arguments)
        by_ranges = isinstance(returned, Generator)
        for part in returned if by_ranges or type(returned) is tuple else (returned,):
            if isinstance(part, Inspection):
                self._take(part)
                continue
            stop = start + len(next(iter(part.values()))) if by_ranges else recording.count
            result = task.as_channels(part, stop - start)
            if not task.specs:
                task.specs.update(task.specs_of(result))
                self._create()
            self.append(task.write(start, result, recording.readable[start:stop]))
            start = stop
        if start != recording.count:
            raise RoverError(f"gave {start} of {counted(recording.count, 'frame')}")

    def _make_files(self, threads: int, dask: DaskOptions) -> None:
        """Files instead of channels, or the reason why the recording cannot give them."""
        try:
            returned, readable = self._call(threads, dask)
        except UnfitError as error:
            self.omitted = str(error)
            return
        declared = self.task.step.products
        if set(returned) != set(declared):
            raise RoverError(f"{self.task.step.name}: made {sorted(returned)}, declares {sorted(declared)}")
        for name, content in returned.items():
            self._writer.add_file(name, content)
        self.corrupt = int((~readable).sum())

    def _call(self, threads: int, dask: DaskOptions, function: Callable[..., Any] | None = None) -> tuple[Any, Any]:
        """What the function returns for the whole recording, and which frames could be decoded."""
        task = self.task
        task.prepare()
        self._take(task.inspect())
        start_collector()
        with closing(Processes(threads)) as processes:
            recording = Recording(task, Workers(self.label, threads, dask, self._log, processes), self._others)
            arguments: dict[str, Any] = {"recording": recording}
            if task.step.takes("trace"):
                arguments["trace"] = self.trace
            returned = task.call_function(arguments, 0, task.inputs.count, function)
        if isinstance(returned, tuple):
            returned, inspection = returned
            self._take(inspection)
        return returned, recording.readable

    def _take(self, inspection: Inspection) -> None:
        warnings, notes = (
            [with_names(each, self._roles) for each in said] for said in (inspection.warnings, inspection.notes)
        )
        for warning in warnings:
            say(f"{self.path}: {warning}", sys.stderr, self._log)
        for name, text in inspection.files.items():
            self._writer.add_file(name, text.encode())
        self.measured |= inspection.measured
        self.warnings += [*warnings, *notes]

    def _create(self) -> None:
        inputs = self.task.inputs
        self._writer.create({TS: TS_SPEC, VALID: VALID_SPEC, **self.task.specs}, inputs.count)
        self._writer.fill(TS, inputs.ts)


def _declared(step: Step) -> set[str] | None:
    """Names of all files of a result; None where the function, or a user's `inspect`, names some of them."""
    if EVERY in step.outputs or (step.run.inspect and not isinstance(step.function, str)):
        return None
    return {TS, VALID, *step.outputs, *step.products, *step.run.sidecars}
