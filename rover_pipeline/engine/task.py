"""A step on a range of frames: reads its slice of the inputs, calls the function, writes its slice of the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from rover_pipeline.engine.inputs import Inputs
from rover_pipeline.engine.step import EVERY, Inspection, Output, Step
from rover_pipeline.errors import MissingExtraError, RoverError, SampleError, explain
from rover_pipeline.format.channels import Channel, encode_sample
from rover_pipeline.format.channels.raw import write_at
from rover_pipeline.format.meta import ChannelSpec, spec_for
from rover_pipeline.format.sensor import VALID, VALID_SPEC
from rover_pipeline.options import Options

#: Frames that a step's `inspect` is shown.
_INSPECTED = 4


class Part(NamedTuple):
    """What comes back from a range of frames: counts, and samples of channels that are appended to in order."""

    invalid: int
    corrupt: int
    encoded: dict[str, list[bytes]]


@dataclass
class FrameTask:
    """A step and its opened inputs. Called with ranges of frames, in threads or in other processes.

    Attributes:
        partial: folder of the channels that are being written.
        specs: of those channels; empty until `probe` has found them.
        mark_corrupt: frames that cannot be decoded become zeros that are not valid, instead of an error.
    """

    step: Step
    inputs: Inputs
    options: Options | None
    partial: Path
    specs: dict[str, ChannelSpec]
    mark_corrupt: bool

    def __call__(self, frames: tuple[int, int]) -> Part:
        start, stop = frames
        first, last = max(0, start - self.step.halo), min(self.inputs.count, stop + self.step.halo)
        arrays, readable = self.read(first, last)
        result = self.as_channels(self.call_function(arrays, first, last), last - first)
        keep = slice(start - first, stop - first)
        return self.write(start, {name: array[keep] for name, array in result.items()}, readable[keep])

    def advance_state(self, state: Any, start: int, stop: int) -> tuple[Part, Any]:
        """The same for an ordered step."""
        arrays, readable = self.read(start, stop)
        returned, state = self.call_function(arrays, start, stop, state=state)
        result = self.as_channels(returned, stop - start)
        return self.write(start, result, readable), state

    def call_function(
        self,
        arrays: Mapping[str, Any],
        start: int,
        stop: int,
        function: Callable[..., Any] | None = None,
        **extra: Any,
    ) -> Any:
        """What the step's function, or another that takes the same, returns; its errors name the frames."""
        arguments = {**arrays, **self.inputs.whole, **self.inputs.texts, **extra}
        if self.step.takes("shapes"):
            arguments["shapes"] = self.inputs.shapes
        if self.options is not None:
            arguments["options"] = self.options
        try:
            return (function or self.step.call)(**arguments)
        except (MissingExtraError, SampleError):
            raise
        except RoverError as error:
            raise RoverError(f"{self._location(start, stop)}: {error}") from error
        except (ValueError, TypeError, ArithmeticError, LookupError, RuntimeError, AssertionError) as error:
            problem = str(error) or "no message"
            raise RoverError(f"{self._location(start, stop)}: {type(error).__name__}: {problem}") from error

    def _location(self, start: int, stop: int) -> str:
        return f"{self.inputs.paths}: samples {start} to {stop - 1}: {self.step.name}"

    def output(self, name: str) -> Output | None:
        """What is declared of a channel; None when nothing is."""
        outputs = self.step.outputs
        if name in outputs:
            return outputs[name]
        if EVERY not in outputs or name == VALID:
            return None
        return Output(outputs[EVERY].desc.format(name=name), outputs[EVERY].format)

    def as_channels(self, returned: Any, count: int) -> dict[str, np.ndarray]:
        """The function's result by channel, checked for length, and for type and shape once those are known."""
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
                raise RoverError(f"{self.step.name}: {name}: {array.shape} is not one sample for {count} frames")
            if spec and (array.shape[1:] != spec.shape or array.dtype != spec.dtype):
                raise RoverError(
                    f"{self.step.name}: {name}: {list(array.shape[1:])} of {array.dtype} after "
                    f"{list(spec.shape)} of {spec.type} for the first frame"
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
                specs[name] = spec_for(result[name], output.desc, output.stored_as(self.options))
            except ValidationError as error:
                raise RoverError(
                    f"{self.step.name}: {name}: no channel holds {result[name].shape[1:]} of "
                    f"{result[name].dtype}: {explain(error)}"
                ) from error
        return specs

    def read(self, start: int, stop: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Blocks of the inputs and, (frame,) bool, which frames could be decoded."""
        readable = np.ones(stop - start, bool)
        return {
            argument: self.read_input(argument, start, stop, readable)
            for argument in (*self.inputs.channels, *self.inputs.nearest)
        }, readable

    def read_input(self, argument: str, start: int, stop: int, readable: np.ndarray) -> np.ndarray:
        """A block of one input; frames of it that cannot be decoded are cleared in `readable`."""
        if argument in self.inputs.channels:
            return self._read_channel(self.inputs.channels[argument], start, stop, readable)
        near = self.inputs.nearest[argument]
        wanted, position = np.unique(near.samples[start:stop], return_inverse=True)
        decoded = np.ones(len(wanted), bool)
        breaks = [0, *(np.flatnonzero(np.diff(wanted) > 1) + 1), len(wanted)]
        runs = [slice(first, last) for first, last in pairwise(breaks)]
        block = [
            self._read_channel(near.channel, int(wanted[run][0]), int(wanted[run][-1]) + 1, decoded[run])
            for run in runs
        ]
        readable &= decoded[position]
        return np.concatenate(block)[position]

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

    def write(self, start: int, result: Mapping[str, np.ndarray], readable: np.ndarray) -> Part:
        """Write results of frames from `start` on; what is encoded comes back, to be appended in order."""
        count = len(readable)
        valid = self.inputs.valid[start : start + count] * readable.astype("u1")
        if VALID in result:
            valid *= (result[VALID] != 0).astype("u1")
        write_at(self.partial / VALID, VALID_SPEC, start, valid)
        encoded = {}
        for name, spec in self.specs.items():
            if spec.format == "raw":
                write_at(self.partial / name, spec, start, result[name])
            else:
                encoded[name] = [encode_sample(spec.format, sample) for sample in result[name]]
        return Part(int((valid == 0).sum()), int((~readable).sum()), encoded)

    def inspect(self) -> Inspection:
        """What the step's own look at a few valid frames, spread over the recording, shows."""
        if self.step.inspect is None:
            return Inspection({})
        usable = np.flatnonzero(self.inputs.valid)
        chosen = usable[np.unique(np.linspace(0, len(usable) - 1, _INSPECTED).astype(int))] if len(usable) else usable
        blocks = [self.read(int(frame), int(frame) + 1) for frame in chosen]
        whole = [arrays for arrays, readable in blocks if readable.all()]
        near = {argument: each.channel for argument, each in self.inputs.nearest.items()}
        arrays = {
            name: np.concatenate(
                [np.empty((0, *channel.spec.shape), channel.spec.dtype), *(each[name] for each in whole)]
            )
            for name, channel in {**self.inputs.channels, **near}.items()
        }
        return self.call_function(
            arrays, int(chosen[0]) if len(chosen) else 0, self.inputs.count, function=self.step.look
        )

    def probe(self) -> None:
        """Find type and shape of every channel, from the result on the first frame."""
        arrays, _ = self.read(0, 1)
        if self.step.ordered:
            returned, _state = self.call_function(arrays, 0, 1, state=None)
        else:
            returned = self.call_function(arrays, 0, 1)
        self.specs.update(self.specs_of(self.as_channels(returned, 1)))
