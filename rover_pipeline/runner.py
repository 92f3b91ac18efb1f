"""How a step is run: its inputs opened and checked, its function called on ranges of frames, its sensor published."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from pydantic import ValidationError

from rover_pipeline.chunks import DaskOptions, frame_ranges, run_ranges, scan_ranges
from rover_pipeline.errors import (
    FormatError,
    MissingExtraError,
    RoverError,
    SampleError,
    explain,
    named_if_not_written,
)
from rover_pipeline.format.channels import Channel, encode_sample
from rover_pipeline.format.channels.raw import write_at
from rover_pipeline.format.meta import META, ChannelSpec, spec_for
from rover_pipeline.format.provenance import fingerprint, read_provenance, versions
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, Sensor
from rover_pipeline.format.trace import Trace
from rover_pipeline.format.virtual import VirtualWriter
from rover_pipeline.options import InputOptions, Options
from rover_pipeline.progress import progress
from rover_pipeline.steps import Inspection, Step

#: Frames that a step's `inspect` is shown.
_INSPECTED = 4


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
) -> StepResult:
    """Make the virtual sensor `trace/sensor` by a step.

    Args:
        trace: directory that holds the inputs, where the result goes too.
        threads: ranges of frames worked on at once.
        stamps: names of empty files to publish with the sensor.
        log: gets a line of progress now and then.

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
    with named_if_not_written(place), VirtualWriter(place) as writer:
        if writer.waited and (made := _made_meanwhile(place, before, identity, stamps)):
            return made
        source = _open_source(described, trace, request.input)
        job = _FrameJob(described, source, options, writer.partial, {}, request.input.mark_corrupt)
        job.specs.update(_probe(job))
        inspection = _inspect(job)
        for warning in inspection.warnings:
            for stream in filter(None, (sys.stderr, log)):
                print(f"{place}: {warning}", file=stream, flush=True)
        for name, text in inspection.files.items():
            (writer.partial / name).write_text(text, encoding="utf-8")
        specs = {TS: TS_SPEC, VALID: VALID_SPEC, **job.specs}
        writer.create(specs, source.count)
        writer.fill(TS, source.ts)
        for stamp in stamps:
            (writer.partial / stamp).touch()

        settings = dask or DaskOptions()
        frame_bytes = sum(c.spec.sample_bytes for c in source.channels.values())
        frame_bytes += sum(spec.sample_bytes for spec in specs.values())
        ranges = frame_ranges(source.count, frame_bytes, settings, threads)
        invalid = corrupt = 0
        with progress(f"{trace.name}/{sensor}", source.count, log=log) as advance:
            if described.ordered:
                parts = scan_ranges(job.advance_state, ranges, advance=advance)
            else:
                parts = run_ranges(job, ranges, threads=threads, options=settings, advance=advance)
            for part in parts:
                invalid, corrupt = invalid + part.invalid, corrupt + part.corrupt
                for name, samples in part.encoded.items():
                    for data in samples:
                        writer.stream(name).append_encoded(data)
        seconds = time.monotonic() - begin
        writer.commit(
            {
                **identity,
                "inputs": source.fingerprints,
                "samples": source.count,
                "invalid": invalid,
                "corrupt": corrupt,
                "dropped": source.dropped,
                "measured": dict(inspection.measured),
                "notes": [*source.notes, *inspection.warnings],
                "packages": versions(),
                "time": {"started": started.isoformat(timespec="seconds"), "seconds": round(seconds, 3)},
            }
        )
    return StepResult(source.count, invalid, seconds)


def _made_meanwhile(
    place: Path, before: dict[str, Any] | None, identity: dict[str, Any], stamps: tuple[str, ...]
) -> StepResult | None:
    """The result of the process that held the lock before us, when that finished and made just what we are to make."""
    made = read_provenance(place)
    if made is None or made == before or not all((place / name).exists() for name in (META, *stamps)):
        return None
    return StepResult(made["samples"], made["invalid"], 0.0) if made.items() >= identity.items() else None


@dataclass
class _Source:
    """The inputs of a step in one trace, opened and checked."""

    channels: dict[str, Channel]
    texts: dict[str, str]
    count: int
    ts: np.ndarray
    valid: np.ndarray
    fingerprints: dict[str, Any]
    notes: list[str]
    dropped: int


def _open_source(described: Step, trace: Path, policy: InputOptions) -> _Source:
    recording = Trace(trace)
    sensors: dict[str, Sensor] = {}
    channels: dict[str, Channel] = {}
    used: dict[str, list[str]] = {}
    for argument, reference in described.inputs.items():
        sensor_name, _, channel_name = reference.partition("/")
        if sensor_name not in sensors and not (trace / sensor_name).is_dir():
            raise FormatError(f"{trace / sensor_name}: no such sensor; {described.name} needs {reference}")
        sensor = recording.source(sensor_name, channel_name)
        sensor = sensors.setdefault(sensor_name, sensor)
        channels[argument] = sensor.channel(channel_name)
        used.setdefault(sensor_name, []).append(channel_name)

    counts, times = {}, {}
    for name, sensor in sensors.items():
        wanted = (*used[name], *((VALID,) if VALID in sensor.specs else ()))
        counts[name] = sensor.length(truncate=policy.truncate, channels=wanted)
        times[name] = sensor.times(counts[name])
    parent = next(iter(sensors))
    for name, ts in times.items():
        if not np.array_equal(ts, times[parent]):
            raise FormatError(
                f"{trace / name}: its ts differs from that of {parent}; {described.name} takes equal times"
            )
    count = counts[parent]
    valid = np.min([sensor.valid(count) for sensor in sensors.values()], axis=0).astype("u1")

    texts, fingerprints, notes = {}, {}, []
    for name, sensor in sensors.items():
        for channel_name in dict.fromkeys((TS, *((VALID,) if VALID in sensor.specs else ()), *used[name])):
            channel = sensor.channel(channel_name)
            fingerprints[f"{name}/{channel_name}"] = {"samples": len(channel), **fingerprint(channel.path)}
            # Paths differ from machine to machine; provenance names places within the trace.
            notes += [note.replace(f"{trace}/", "") for note in (*channel.notes, channel.leftover) if note]
    for argument, reference in described.files.items():
        path = trace / reference
        if argument in described.optional_files and not path.exists():
            continue
        try:
            texts[argument] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not text"
            raise FormatError(f"{path}: {reason}; {described.name} needs it") from error
        fingerprints[reference] = fingerprint(path)
    longest = max(len(sensor.channel(channel)) for name, sensor in sensors.items() for channel in (TS, *used[name]))
    return _Source(channels, texts, count, times[parent], valid, fingerprints, notes, longest - count)


class _Part(NamedTuple):
    """What comes back from a range of frames: counts, and samples of channels that are appended to in order."""

    invalid: int
    corrupt: int
    encoded: dict[str, list[bytes]]


@dataclass
class _FrameJob:
    """A step on a range of frames: reads its slice, calls the function, writes its slice."""

    described: Step
    source: _Source
    options: Options | None
    partial: Path
    specs: dict[str, ChannelSpec]
    mark_corrupt: bool

    def __call__(self, start: int, stop: int) -> _Part:
        first, last = max(0, start - self.described.halo), min(self.source.count, stop + self.described.halo)
        arrays, readable = self._read(first, last)
        result = self.call(arrays, first, last)
        keep = slice(start - first, stop - first)
        return self._write(start, {name: array[keep] for name, array in result.items()}, readable[keep])

    def advance_state(self, state: Any, start: int, stop: int) -> tuple[_Part, Any]:
        """The same for an ordered step."""
        arrays, readable = self._read(start, stop)
        returned, state = self._call_function(arrays, start, stop, state=state)
        result = self._as_channels(returned, stop - start)
        return self._write(start, result, readable), state

    def call(self, arrays: dict[str, np.ndarray], start: int, stop: int) -> dict[str, np.ndarray]:
        """Results of the function on blocks of the inputs, checked for length, type and shape."""
        returned = self._call_function(arrays, start, stop)
        return self._as_channels(returned, stop - start)

    def _call_function(
        self,
        arrays: dict[str, np.ndarray],
        start: int,
        stop: int,
        function: Callable[..., Any] | None = None,
        **extra: Any,
    ) -> Any:
        keywords = {**arrays, **self.source.texts, **extra}
        if self.options is not None:
            keywords["options"] = self.options
        try:
            return (function or self.described.function)(**keywords)
        except MissingExtraError:
            raise
        except RoverError as error:
            raise RoverError(f"{self._place(start, stop)}: {error}") from error
        except (ValueError, TypeError, ArithmeticError, LookupError, RuntimeError, AssertionError) as error:
            problem = str(error) or "no message"
            raise RoverError(f"{self._place(start, stop)}: {type(error).__name__}: {problem}") from error

    def _place(self, start: int, stop: int) -> str:
        inputs = ", ".join(str(channel.path) for channel in self.source.channels.values())
        return f"{inputs}: samples {start} to {stop - 1}: {self.described.name}"

    def _as_channels(self, returned: Any, count: int) -> dict[str, np.ndarray]:
        outputs = self.described.outputs
        result = dict(returned) if isinstance(returned, Mapping) else {next(iter(outputs)): returned}
        if missing := set(outputs) - set(result):
            raise RoverError(f"{self.described.name}: did not return the channel {min(missing)!r} it declares")
        if unknown := set(result) - set(outputs) - {VALID}:
            raise RoverError(f"{self.described.name}: returned {min(unknown)!r}, which it does not declare")
        for name, array in result.items():
            result[name] = array = np.asarray(array)
            spec = self.specs.get(name)
            if array.shape[:1] != (count,) or (name == VALID and array.shape != (count,)):
                raise RoverError(f"{self.described.name}: {name}: {array.shape} is not one sample for {count} frames")
            if spec and (array.shape[1:] != spec.shape or array.dtype != spec.dtype):
                raise RoverError(
                    f"{self.described.name}: {name}: {list(array.shape[1:])} of {array.dtype} after "
                    f"{list(spec.shape)} of {spec.type} for the first frame"
                )
        return result

    def _read(self, start: int, stop: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Blocks of the inputs and, (frame,) bool, which frames could be decoded."""
        readable = np.ones(stop - start, bool)
        return {
            name: self._read_channel(channel, start, stop, readable) for name, channel in self.source.channels.items()
        }, readable

    def _read_channel(self, channel: Channel, start: int, stop: int, readable: np.ndarray) -> np.ndarray:
        try:
            return channel.read(start, stop)
        except SampleError as error:
            if not self.mark_corrupt:
                raise SampleError(
                    f"{error}. To keep the others, set `input.mark_corrupt: true`", error.sample
                ) from error
        block = np.zeros((stop - start, *channel.spec.shape), channel.spec.dtype)
        for frame in range(start, stop):
            try:
                block[frame - start] = channel.read(frame, frame + 1)[0]
            except SampleError:
                readable[frame - start] = False
        return block

    def _write(self, start: int, result: dict[str, np.ndarray], readable: np.ndarray) -> _Part:
        count = len(readable)
        valid = self.source.valid[start : start + count] * readable.astype("u1")
        if VALID in result:
            valid *= (result[VALID] != 0).astype("u1")
        write_at(self.partial / VALID, VALID_SPEC, start, valid)
        encoded = {}
        for name, spec in self.specs.items():
            if spec.format == "raw":
                write_at(self.partial / name, spec, start, result[name])
            else:
                encoded[name] = [encode_sample(spec.format, sample) for sample in result[name]]
        return _Part(int((valid == 0).sum()), int((~readable).sum()), encoded)


def _inspect(job: _FrameJob) -> Inspection:
    """What the step's own look at a few valid frames, spread over the recording, tells."""
    look = job.described.inspect
    if look is None:
        return Inspection({})
    usable = np.flatnonzero(job.source.valid)
    chosen = usable[np.unique(np.linspace(0, len(usable) - 1, _INSPECTED).astype(int))] if len(usable) else usable
    blocks = [job._read(int(frame), int(frame) + 1) for frame in chosen]
    whole = [arrays for arrays, readable in blocks if readable.all()]
    arrays = {
        name: np.concatenate([np.empty((0, *channel.spec.shape), channel.spec.dtype), *(each[name] for each in whole)])
        for name, channel in job.source.channels.items()
    }
    return job._call_function(arrays, int(chosen[0]) if len(chosen) else 0, job.source.count, function=look)


def _probe(job: _FrameJob) -> dict[str, ChannelSpec]:
    """Type and shape of every output, from the result on the first frame."""
    arrays, _ = job._read(0, 1)
    if job.described.ordered:
        returned, _state = job._call_function(arrays, 0, 1, state=None)
        result = job._as_channels(returned, 1)
    else:
        result = job.call(arrays, 0, 1)
    specs = {}
    for name, output in job.described.outputs.items():
        try:
            specs[name] = spec_for(result[name], output.desc, output.format)
        except ValidationError as error:
            raise RoverError(
                f"{job.described.name}: {name}: no channel holds {result[name].shape[1:]} of {result[name].dtype}: "
                f"{explain(error)}"
            ) from error
    return specs
