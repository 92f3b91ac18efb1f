"""How a step is run: its inputs opened and checked, its function called, its sensor or its files published."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from rover_pipeline.engine.inputs import open_source
from rover_pipeline.engine.parallel import DaskOptions, frame_ranges, run_ranges, scan_ranges
from rover_pipeline.engine.progress import progress
from rover_pipeline.engine.recording import opened_recording
from rover_pipeline.engine.step import Inspection, Step
from rover_pipeline.engine.task import FrameJob, Part
from rover_pipeline.errors import RoverError, named_if_not_written
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import read_provenance, versions
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC
from rover_pipeline.format.virtual import VirtualWriter
from rover_pipeline.options import InputOptions


class StepResult(NamedTuple):
    """Counts of a finished step."""

    samples: int
    invalid: int
    seconds: float


@dataclass
class Request:
    """What is asked of a step besides where: everything that may change its bytes."""

    options: Mapping[str, Any] = field(default_factory=dict)
    input: InputOptions = field(default_factory=InputOptions)


def run_step(
    described: Step,
    trace: Path,
    sensor: str,
    request: Request,
    *,
    threads: int = 1,
    dask: DaskOptions | None = None,
    stamps: tuple[str, ...] = (),
    log: TextIO | None = None,
    loaded: Callable[[], object] = lambda: None,
) -> StepResult:
    """Make the virtual sensor, or the folder of files, `trace/sensor` by a step.

    Args:
        trace: directory that holds the inputs, where the result goes too.
        threads: ranges of frames worked on at once.
        stamps: names of empty files to publish with the sensor.
        log: gets a line of progress now and then.
        loaded: called before the bulk of the work; a step of frames has then seen one, and imported what it needs.

    Raises:
        RoverError: the input is unusable, a directory is in the way, or the disk is full. Nothing is left behind.
    """
    begin, started = time.monotonic(), datetime.now(UTC)
    place = trace / sensor
    model = described.options_model
    options = model.parse(request.options, described.name) if model else None
    identity = {
        "step": described.name,
        "version": described.version,
        "options": options.model_dump(mode="json") if options else {},
        "input": request.input.model_dump(),
    }
    before = read_provenance(place)
    with named_if_not_written(place), VirtualWriter(place, stamps) as writer:
        whole = (*stamps, *(described.products or (META,)))
        if writer.waited and (made := _made_meanwhile(place, before, identity, whole)):
            return made
        source = open_source(described, trace, request.input, options)
        job = FrameJob(described, source, options, writer.partial, {}, request.input.mark_corrupt)
        run = _Run(job, writer, trace, f"{trace.name}/{sensor}", threads, dask or DaskOptions(), log, loaded)
        if described.products:
            run.make_files()
        elif described.recording:
            run.make_at_once()
        else:
            run.make_by_ranges()
        seconds = time.monotonic() - begin
        writer.commit(
            {
                **identity,
                "inputs": source.fingerprints,
                "samples": source.count,
                "invalid": run.invalid,
                "corrupt": run.corrupt,
                "dropped": source.dropped,
                "measured": run.measured,
                "notes": [*source.notes, *run.warnings],
                "packages": versions(),
                "time": {"started": started.isoformat(timespec="seconds"), "seconds": round(seconds, 3)},
            }
        )
    return StepResult(source.count, run.invalid, seconds)


def _made_meanwhile(
    place: Path, before: dict[str, Any] | None, identity: dict[str, Any], whole: tuple[str, ...]
) -> StepResult | None:
    """The result of the process that held the lock before us, when that finished and made just what we are to make."""
    made = read_provenance(place)
    if made is None or made == before or not all((place / name).exists() for name in whole):
        return None
    return StepResult(made["samples"], made["invalid"], 0.0) if made.items() >= identity.items() else None


@dataclass
class _Run:
    """One run of a step, and what is to be said of it afterwards."""

    job: FrameJob
    writer: VirtualWriter
    trace: Path
    label: str
    threads: int
    dask: DaskOptions
    log: TextIO | None
    loaded: Callable[[], object]
    invalid: int = 0
    corrupt: int = 0
    measured: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def make_by_ranges(self) -> None:
        """Blocks of frames, in parallel, or in order with a state."""
        job, source = self.job, self.job.source
        job.probe()
        self._take(job.inspect())
        self.loaded()
        self._create()
        frame_bytes = source.frame_bytes + sum(spec.sample_bytes for spec in self.writer.specs.values())
        ranges = frame_ranges(source.count, frame_bytes, self.dask, self.threads)
        with progress(self.label, source.count, log=self.log) as advance:
            if job.described.ordered:
                parts = scan_ranges(job.advance_state, ranges, advance=advance)
            else:
                parts = run_ranges(job, ranges, threads=self.threads, options=self.dask, advance=advance)
            for part in parts:
                self._append(part)

    def make_at_once(self) -> None:
        """All frames by one call of the function."""
        returned, readable = self._call()
        result = self.job.as_channels(returned, self.job.source.count)
        self.job.specs.update(self.job.specs_of(result))
        self._create()
        self._append(self.job.write(0, result, readable))

    def make_files(self) -> None:
        """Files instead of channels."""
        returned, readable = self._call()
        declared = self.job.described.products
        if set(returned) != set(declared):
            raise RoverError(f"{self.job.described.name}: made {sorted(returned)}, declares {sorted(declared)}")
        for name, content in returned.items():
            (self.writer.partial / name).write_bytes(content)
        self.corrupt = int((~readable).sum())

    def _call(self) -> tuple[Any, Any]:
        """What the function returns for the whole recording, and which frames could be decoded."""
        job = self.job
        self._take(job.inspect())
        self.loaded()
        ways: dict[str, Any] = {"label": self.label, "threads": self.threads, "dask": self.dask, "log": self.log}
        with opened_recording(job, **ways) as recording:
            arguments: dict[str, Any] = {"recording": recording}
            if job.described.takes("trace"):
                arguments["trace"] = self.trace
            returned = job.call_function(arguments, 0, job.source.count)
        if isinstance(returned, tuple):
            returned, told = returned
            self._take(told)
        return returned, recording.readable

    def _take(self, told: Inspection) -> None:
        for warning in told.warnings:
            for stream in filter(None, (sys.stderr, self.log)):
                print(f"{self.writer.path}: {warning}", file=stream, flush=True)
        for name, text in told.files.items():
            (self.writer.partial / name).write_text(text, encoding="utf-8")
        self.measured |= told.measured
        self.warnings += told.warnings

    def _create(self) -> None:
        source = self.job.source
        self.writer.create({TS: TS_SPEC, VALID: VALID_SPEC, **self.job.specs}, source.count)
        self.writer.fill(TS, source.ts)

    def _append(self, part: Part) -> None:
        self.invalid, self.corrupt = self.invalid + part.invalid, self.corrupt + part.corrupt
        for name, samples in part.encoded.items():
            for data in samples:
                self.writer.stream(name).append_encoded(data)
