"""A step on a range of frames: it reads the frames of the inputs, calls the function, and writes the result."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from rover_pipeline.engine.inputs import Inputs
from rover_pipeline.engine.plan import OURS
from rover_pipeline.engine.shared import Shared
from rover_pipeline.engine.step import EVERY, Inspection, Output, Step, loaded
from rover_pipeline.errors import UNEXPECTED, MissingExtraError, RoverError, SampleError, UnfitError, counted, explain
from rover_pipeline.format.channels import Channel, encode_sample, open_channel
from rover_pipeline.format.channels.base import note_place, write_at
from rover_pipeline.format.meta import ChannelSpec, spec_for
from rover_pipeline.format.sensor import TS_SPEC, VALID, VALID_SPEC
from rover_pipeline.lookup import load
from rover_pipeline.options import Options

#: Numbers of frames that a step's `inspect` and `prepare` are given: no single one decides. Tuned: by hand.
_INSPECTED, PREPARED = 4, 16
#: Channel and type -> the function that finds samples which were not measured as a whole, of samples and up to two that
#: are before them. They are treated like samples that cannot be decoded.
_DAMAGED = {("iq", "i2"): "rover_pipeline.radar.damage:damaged"}
#: The channel that a thread has read last, the end of the block, and its last two samples.
_LAST_READ = threading.local()


class Part(NamedTuple):
    """Summary of a range of frames."""

    invalid: int  #: number of frames that are not valid.
    corrupt: int  #: number of those that could not be decoded or are damaged.
    encoded: dict[str, list[bytes]]  #: channel -> encoded samples, for channels to which samples are appended in order.


@dataclass
class FrameTask:
    """A step and its opened inputs. It is called with ranges of frames, in threads or in other processes.

    A task may outlive the run that began it, on a worker of a scheduler. It makes no files and no folders: it writes
    only to files that its own run made in the scratch folder `partial`, which no other run ever has.
    """

    step: Step
    inputs: Inputs
    options: Options | None
    partial: Path  #: directory of the channels that are being written.
    specs: dict[str, ChannelSpec]  #: of those channels; empty until `probe` is called.
    #: True = frames that cannot be decoded become zeros that are not valid; False = they are an error.
    mark_corrupt: bool
    prepared: Any = None  #: what the step's `prepare` returned.
    #: what steps share of the frames that `prepare`, `probe` and `inspect` look at; None = nothing.
    looked: Shared | None = None
    #: a task like this one for each sensor beside the main one; see `Run.beside`.
    others: Mapping[str, FrameTask] = field(default_factory=dict)

    @property
    def frame_bytes(self) -> int:
        """Bytes that are read and written for a frame, once the channels are known."""
        written = sum(spec.sample_bytes for spec in (TS_SPEC, VALID_SPEC, *self.specs.values()))
        return self.inputs.frame_bytes + written + sum(each.inputs.frame_bytes for each in self.others.values())

    @property
    def modules(self) -> set[str]:
        """Names of the modules that hold what the step declares: the function, its options, its views."""
        step, options = self.step, type(self.options) if self.options else None
        declared = filter(None, (step.name, step.run.prepare, step.run.conclude, *step.views.values(), options))
        return {each.partition(":")[0] if isinstance(each, str) else each.__module__ for each in declared}

    def __call__(self, frames: tuple[int, int]) -> Part:
        self.check_run()
        start, stop = frames
        first, last = max(0, start - self.step.run.halo), min(self.inputs.count, stop + self.step.run.halo)
        arrays, readable = self.read(first, last)
        result = self.as_channels(self.call_function(arrays, first, last), last - first)
        keep = slice(start - first, stop - first)
        return self.write(start, {name: array[keep] for name, array in result.items()}, readable[keep])

    def call_function(
        self,
        arrays: Mapping[str, Any],
        start: int,
        stop: int,
        function: str | Callable[..., Any] | None = None,
        **extra: Any,
    ) -> Any:
        """Call the step's function, or another one with the same arguments. Its errors name the frames."""
        arguments = {**arrays, **self.inputs.whole, **self.inputs.texts, **extra, **self.step.constants}
        if self.prepared is not None:
            arguments["prepared"] = self.prepared
        if self.step.takes("shapes"):
            arguments["shapes"] = self.inputs.shapes
        if self.options is not None:
            arguments["options"] = self.options
        note_place(f"{self.inputs.paths} ({self.step.name})", start, stop - 1)
        try:
            return loaded(function or self.step.function)(**arguments)
        except (MissingExtraError, SampleError, UnfitError, OSError, MemoryError):
            raise
        except RoverError as error:
            raise RoverError(f"{self._location(start, stop)}: {error}") from error
        except Exception as error:
            # A ValueError's message is for users, as functions of maths raise it; of others only the programmer knows.
            kind = "" if type(error) is ValueError and str(error) else f"{type(error).__name__}: "
            text = f"{kind}{error or 'no message'}{f' {UNEXPECTED}' if kind else ''}"
            raise RoverError(f"{self._location(start, stop)}: {text}") from error
        finally:
            note_place()

    def _location(self, start: int, stop: int) -> str:
        frames = f"samples {start} to {stop - 1}" if stop > start else ""
        return ": ".join(filter(None, (self.inputs.paths, frames, self.step.name)))

    def output(self, name: str) -> Output | None:
        """The declaration of a channel; None when it is not declared."""
        outputs = self.step.outputs
        if name in outputs:
            return outputs[name]
        if EVERY not in outputs or name == VALID:
            return None
        return Output(outputs[EVERY].desc.format(name=name), outputs[EVERY].format)

    def as_channels(self, returned: Any, count: int) -> dict[str, np.ndarray]:
        """The function's result by channel. Lengths are checked, and types and shapes if `specs` has them."""
        outputs = self.step.outputs
        result = dict(returned) if isinstance(returned, Mapping) else {next(iter(outputs)): returned}
        if missing := set(outputs) - {EVERY} - set(result):
            raise RoverError(f"{self.step.name}: did not return the channel {min(missing)!r} it declares")
        if unknown := {name for name in result if self.output(name) is None} - {VALID}:
            raise RoverError(f"{self.step.name}: returned {min(unknown)!r}, which it does not declare")
        for name, array in result.items():
            result[name] = array = np.asarray(array)
            spec = self.specs.get(name)
            if array.shape[:1] != (count,) or (name == VALID and array.shape != (count,)):
                raise RoverError(
                    f"{self.step.name}: {name}: an array of {array.shape} does not hold one sample for each of "
                    f"{counted(count, 'frame')}"
                )
            if spec and (array.shape[1:] != spec.shape or array.dtype != spec.dtype):
                raise RoverError(
                    f"{self.step.name}: {name}: samples of {list(array.shape[1:])} and {array.dtype}, but the first "
                    f"frame gave {list(spec.shape)} and {spec.type}"
                )
        return result

    def specs_of(self, result: Mapping[str, np.ndarray]) -> dict[str, ChannelSpec]:
        """Descriptions of the channels that hold a result."""
        specs = {}
        for name in [*self.step.outputs, *result]:
            output = self.output(name)
            if name == EVERY or name in specs or output is None:
                continue
            try:
                format = output.format(self.options) if callable(output.format) else output.format
                spec = specs[name] = spec_for(result[name], output.desc, format)
            except ValidationError as error:
                raise RoverError(
                    f"{self.step.name}: {name}: samples of {result[name].shape[1:]} and {result[name].dtype} cannot be "
                    f"stored in a channel: {explain(error)}"
                ) from error
            axes = output.axes if name in self.step.outputs else ()
            if output.type not in ("", spec.type) or len(axes) not in (0, len(spec.shape)):
                found, declared = f"{list(spec.shape)} {spec.type}", f"[{', '.join(axes)}] {output.type}"
                raise RoverError(f"{self.step.name}: {name}: samples of {found}, its output declares {declared}")
        return specs

    def read(self, start: int, stop: int, blocks: Shared | None = None) -> tuple[dict[str, Any], np.ndarray]:
        """Blocks of the inputs, and bool (frame,), whether a frame could be decoded and was measured as a whole.

        `others` has for each further sensor the same of its samples that are nearest to the frames, with `sample`,
        their numbers, `valid`, the `ts` of all its samples, and its texts. What cannot be decoded is zero there.

        Args:
            blocks: of a pass, where the block of a channel may be already, and is left for others.
        """
        arrays, readable = dict[str, Any](), np.ones(stop - start, bool)
        for argument in (*self.inputs.channels, *self.inputs.nearest):
            arrays[argument], decoded = self.read_input(argument, start, stop, blocks)
            readable &= decoded
        for name, other in self.others.items():
            nearest, valid = next(iter(other.inputs.nearest.values())), other.inputs.valid[start:stop]
            given = {"sample": nearest.samples[start:stop], "valid": valid, "ts": nearest.ts, **other.inputs.texts}
            arrays.setdefault("others", {})[name] = other.read(start, stop)[0] | given
        return arrays, readable

    def read_input(
        self, argument: str, start: int, stop: int, blocks: Shared | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """A block of one input, and which of its frames can be decoded, bool (frame,)."""
        blocks = blocks or self.looked
        if argument in self.inputs.channels:
            channel = self.inputs.channels[argument]
            read = partial(self._read_channel, channel, start, stop)
            if blocks is None or argument in self.step.views:
                return read()
            shared, decoded = blocks.once((str(channel.path), start, stop), read)
            # A user's function may change its arguments, which belong to all steps of the pass.
            return shared if self.step.name.startswith(OURS) else shared.copy(), decoded
        nearest = self.inputs.nearest[argument]
        samples, position = np.unique(nearest.samples[start:stop], return_inverse=True)
        runs = np.split(samples, np.flatnonzero(np.diff(samples) > 1) + 1)  # of samples that follow one another
        parts = [self._read_channel(nearest.channel, int(run[0]), int(run[-1]) + 1) for run in runs]
        block, decoded = map(np.concatenate, zip(*parts, strict=True))
        return block[position], decoded[position]

    def _read_channel(self, channel: Channel, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        block, decoded = self._read_decodable(channel, start, stop)
        if (find := _DAMAGED.get((channel.path.name, channel.spec.type))) is None:
            return block, decoded
        last = getattr(_LAST_READ, "block", None)
        if last is not None and last[0] is channel and last[1] == start:
            before = last[2]
        else:
            before = self._read_decodable(channel, max(0, start - 2), start)[0] if start else block[:0]
        damaged = load(find)(block, before)
        _LAST_READ.block = channel, stop, np.concatenate([before, block[-2:]])[-2:]
        if channel in self.inputs.channels.values():  # what is known to be damaged stays as it is
            damaged &= self.inputs.valid[start:stop] != 0
        block[damaged] = 0
        return block, decoded & ~damaged

    def _read_decodable(self, channel: Channel, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        decoded = np.ones(stop - start, bool)
        try:
            return channel.read(start, stop), decoded
        except SampleError as error:
            if not self.mark_corrupt:
                raise SampleError(
                    f"{error}. To keep the other samples, set `input.mark_corrupt: true`", error.sample
                ) from error
        block = np.zeros((stop - start, *channel.spec.shape), channel.spec.dtype)
        for frame in range(start, stop):
            try:
                block[frame - start] = channel.read(frame, frame + 1)[0]
            except SampleError:
                decoded[frame - start] = False
        return block, decoded

    def write(self, start: int, result: Mapping[str, np.ndarray], readable: np.ndarray) -> Part:
        """Write the results of frames from `start` on. Encoded samples are returned, to be appended in order."""
        count = len(readable)
        valid = self.inputs.valid[start : start + count] * readable.astype("u1")
        if VALID in result:
            valid *= (result[VALID] != 0).astype("u1")
        encoded = {}
        try:
            write_at(self.partial / VALID, VALID_SPEC, start, valid)
            for name, spec in self.specs.items():
                if spec.format == "raw":
                    write_at(self.partial / name, spec, start, result[name])
                else:
                    encoded[name] = [encode_sample(spec.format, sample) for sample in result[name]]
        except FileNotFoundError as error:
            raise self._too_late() from error
        return Part(int((valid == 0).sum()), int((~readable).sum()), encoded)

    def check_run(self) -> None:
        """Raise RoverError when the run that this task belongs to has ended."""
        if not self.partial.is_dir():
            raise self._too_late()

    def _too_late(self) -> RoverError:
        return RoverError(
            f"{self.partial}: is not there on {socket.gethostname()}; the run that this work belongs to has ended, or "
            "workers do not see the same files. Nothing was written"
        )

    def prepare(self) -> None:
        """Call the step's `prepare` with valid frames that are spread over the recording."""
        if self.step.run.prepare is not None:
            arrays, frames = self._sampled(PREPARED)
            if self.looked is not None and self.step.takes("shared", of=self.step.run.prepare):
                # Other steps may look at other frames, if other ones are valid for them.
                arrays["shared"] = self.looked.once(tuple(frames), Shared)
            first = frames[0] if frames else 0
            self.prepared = self.call_function(arrays, first, self.inputs.count, self.step.run.prepare)

    def inspect(self) -> Inspection:
        """Call the step's `inspect` with a few valid frames that are spread over the recording."""
        if self.step.run.inspect is None:
            return Inspection({})
        arrays, frames = self._sampled(_INSPECTED)
        return self.call_function(arrays, frames[0] if frames else 0, self.inputs.count, self.step.run.inspect)

    def conclude(self) -> Inspection:
        """Call the step's `conclude` with the results of all frames, read back from the channels."""
        if self.step.run.conclude is None:
            return Inspection({})
        specs = {VALID: VALID_SPEC, **self.specs}
        results = {name: open_channel(self.partial / name, spec).read() for name, spec in specs.items()}
        return loaded(self.step.run.conclude)(results)

    def _sampled(self, count: int) -> tuple[dict[str, Any], list[int]]:
        """The inputs for at most `count` valid frames that can be decoded, evenly spread, and the frames' numbers."""
        valid = np.flatnonzero(self.inputs.valid)
        frames = valid[np.unique(np.linspace(0, len(valid) - 1, count).astype(int))] if len(valid) else valid
        blocks = [self.read(int(frame), int(frame) + 1) for frame in frames]
        decoded = [arrays for arrays, readable in blocks if readable.all()]
        nearest = {argument: each.channel for argument, each in self.inputs.nearest.items()}
        arrays: dict[str, Any] = {
            name: np.concatenate(
                [np.empty((0, *channel.spec.shape), channel.spec.dtype), *(each[name] for each in decoded)]
            )
            for name, channel in {**self.inputs.channels, **nearest}.items()
        }
        return arrays, frames.tolist()

    def probe(self) -> None:
        """Set type and shape of every channel from the result for the first frame."""
        arrays, _ = self.read(0, 1)
        if self.step.run.ordered:
            returned, _state = self.call_function(arrays, 0, 1, state=None)
        else:
            returned = self.call_function(arrays, 0, 1)
        self.specs.update(self.specs_of(self.as_channels(returned, 1)))
