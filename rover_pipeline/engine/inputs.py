"""The inputs of a step in one recording, opened and checked before any work begins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.engine.instances import Roles, as_types, called_as_types, declared_for
from rover_pipeline.engine.shared import Shared
from rover_pipeline.engine.step import EVERY, EVERY_FILE, OPTIONAL, REFERENCE, Reference, Step, step_of_room
from rover_pipeline.errors import FormatError, RoverError
from rover_pipeline.format.channels import Channel
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import file_state, fingerprint, read_provenance
from rover_pipeline.format.rig import Rig, layout_problems
from rover_pipeline.format.sensor import TS, VALID, Sensor
from rover_pipeline.format.texts import parse_json, read_text
from rover_pipeline.format.trace import CONFIG, Trace
from rover_pipeline.lookup import load
from rover_pipeline.numerics.nearest import matching_samples
from rover_pipeline.options import InputOptions, Options

# Results of our steps as inputs: their channels must be of the type and shape that the step declares.

_OURS = re.compile(r"rover_pipeline\.([a-z0-9_]+)\.[a-z0-9_.]+:[a-z0-9_]+")


def declared_problems(sensor: Sensor, channel: str) -> Iterator[str]:
    """Why a channel of one of our virtual sensors is not what the step declares that made it.

    Samples of another type or shape can have as many bytes: a step would read them as other values.
    """
    if not sensor.name.startswith("_") or channel not in sensor.specs:
        return
    rig = Rig(sensor.path.parent)
    ours = _OURS.fullmatch(str((read_provenance(sensor.path) or {}).get("step")))
    try:
        step = step_of_room(f"{ours[1]}/{rig.declared(sensor.name)}") if ours else None
        outputs = declared_for(step, sensor.name, rig).typed if step else {}
    except (RoverError, AttributeError):  # it was made by a step of another version, which had another name
        return
    output, spec = outputs.get(channel), sensor.specs[channel]
    if output and not output.fits(spec):
        must = f"is {spec.type} of {list(spec.shape)}, must be {output.kind}"
        yield f"{sensor.path / channel}: {must}; remove {sensor.path} and make it again"


@dataclass
class Nearest:
    """A channel of a sensor with times of its own."""

    channel: Channel
    samples: np.ndarray  #: i8, (frame,), its sample that belongs to each frame, by the step's `match`.
    ts: np.ndarray  #: f8, (sample,), of all its samples, s.


@dataclass
class Inputs:
    """What a step reads."""

    channels: dict[str, Channel]  #: argument -> channel that blocks of frames are read from.
    nearest: dict[str, Nearest]  #: argument -> channel that is read at other times.
    whole: dict[str, Any]  #: argument -> array, or arrays by channel or by sensor.
    texts: dict[str, str]  #: argument -> text of a file.
    count: int  #: number of frames.
    ts: np.ndarray  #: f8, (frame,), s.
    time_offset: float  #: what is added to have those of the lidar's clock, s.
    valid: np.ndarray  #: u1, (frame,).
    fingerprints: dict[str, Any]  #: `sensor/channel` or file -> what provenance says of it.
    #: `sensor/channel` or file -> its size and the time of its last change; see `file_state`.
    states: dict[str, list[int]]
    #: argument -> shape of a sample as it is stored, which a view may read in another.
    shapes: dict[str, tuple[int, ...]]
    notes: list[str]  #: what was noticed in the inputs.
    dropped: int  #: samples past the last frame that all channels have.

    @property
    def frame_bytes(self) -> int:
        """Bytes that are read for a frame."""
        return sum(channel.spec.sample_bytes for channel in self._all())

    @property
    def paths(self) -> str:
        """Paths of the channels, for messages."""
        return ", ".join(str(channel.path) for channel in self._all())

    def _all(self) -> list[Channel]:
        return [*self.channels.values(), *(each.channel for each in self.nearest.values())]


def open_inputs(
    step: Step,
    trace: Path,
    policy: InputOptions,
    options: Options | None = None,
    shared: Shared | None = None,
    roles: Roles | None = None,
    beside: Inputs | None = None,
) -> Inputs:
    """Open what a step declares.

    Args:
        step: with what depends on its options filled in.
        options: of the step, which its views are made for.
        shared: keeps fingerprints of files, for other steps that read the same.
        roles: sensors that stand for their types. The function is given names of types.
        beside: inputs whose frames these ones have, where the step declares no `inputs`.

    Raises:
        FormatError: something is missing, or is not what its metadata says.
    """
    opened = _Opener(step, trace, policy, shared or Shared(), roles or {})
    sensors, channels = opened.clocks()
    times = {
        name: sensor.times(opened.length(sensor, [channel for used, channel in opened.used if used == name]))
        for name, sensor in sensors.items()
    }
    clock = next(iter(sensors), "")
    for name, ts in times.items():
        if not np.array_equal(ts, times[clock]):
            raise FormatError(f"{trace / name}: its ts differs from that of {clock}; {step.name} takes equal times")
    ts = times.get(clock, beside.ts if beside else np.empty(0))
    count = len(ts)
    valid = np.min([sensor.valid(count) for sensor in sensors.values()], axis=0, initial=1).astype("u1")
    longest = max((len(sensors[name].channel(channel)) for name, channel in opened.used), default=0)
    texts = opened.texts()
    offset = beside.time_offset if beside else opened.time_offset(clock, options, texts.get("config"))
    nearest, nearest_valid = opened.nearest(ts + offset)
    opened.note_reads()
    return Inputs(
        channels={argument: step.view(argument, channel, options) for argument, channel in channels.items()},
        nearest=nearest,
        whole=opened.whole(),
        texts=texts,
        count=count,
        ts=ts,
        time_offset=offset,
        valid=np.min([np.broadcast_to(valid, (count,)), *nearest_valid], axis=0).astype("u1"),
        fingerprints=opened.fingerprints,
        states=opened.states,
        shapes={argument: channel.spec.shape for argument, channel in channels.items()},
        notes=opened.notes,
        dropped=longest - count,
    )


class _Opener:
    """Opens sensors of a recording for one step, and keeps what provenance says of all it opened."""

    def __init__(self, step: Step, path: Path, policy: InputOptions, shared: Shared, roles: Roles) -> None:
        self.step, self.path, self.policy, self.shared, self.roles = step, path, policy, shared, roles
        self.trace = Trace(path)
        self.fingerprints: dict[str, Any] = {}
        self.states: dict[str, list[int]] = {}
        self.notes: list[str] = []
        self.used: list[tuple[str, str]] = []

    def clocks(self) -> tuple[dict[str, Sensor], dict[str, Channel]]:
        """The sensors whose times the frames have, by name, and the channels of the inputs, by argument."""
        sensors: dict[str, Sensor] = {}
        channels: dict[str, Channel] = {}
        for argument, reference in self.step.inputs.items():
            name, _, channel = reference.partition("/")
            sensor = sensors.setdefault(name, self.sensor(reference))
            channels[argument] = sensor.channel(channel)
            self.used += [(name, TS), (name, channel)]
            self.note(name, sensor, channel)
        return sensors, channels

    def sensor(self, reference: str) -> Sensor:
        """The sensor of a reference, for every input. What its sidecar or its step say of the channel is checked."""
        name, _, channel = reference.partition("/")
        if not (self.path / name).is_dir():
            raise FormatError(f"{self.path / name}: no such sensor; {self.step.name} needs {reference}")
        sensor = self.trace.source(name, channel)
        specs = {channel: sensor.specs[channel]} if channel in sensor.specs else {}
        for problem in layout_problems(self.path, sensor.name, specs, missing_sidecars=False):
            raise FormatError(problem)
        for problem in declared_problems(sensor, channel):
            raise FormatError(problem)
        return sensor

    def length(self, sensor: Sensor, channels: Iterable[str]) -> int:
        wanted = [name for name in channels if name != VALID or VALID in sensor.specs]
        wanted += [VALID] if VALID in sensor.specs else []
        return sensor.length(truncate=self.policy.truncate, channels=tuple(dict.fromkeys(wanted)))

    def time_offset(self, clock: str, options: Options | None, config: str | None) -> float:
        """What is added to the times of the frames to have those of the lidar's clock, s: by the section `rig`.

        Args:
            clock: name of the sensor whose times the frames have; config: `config.yaml`.
        """
        rig = getattr(options, "rig", None)
        if rig is None or not self.step.nearest:
            return 0.0
        type = next((type for type, name in self.roles.items() if name == clock), clock)
        return float(load("rover_pipeline.kinematics.stated:time_offsets")([type], rig, config)[type])

    def nearest(self, ts: np.ndarray) -> tuple[dict[str, Nearest], list[np.ndarray]]:
        """Channels that are read at times of their own, and which of the samples that are read are valid."""
        opened, valid = {}, []
        for argument, entry in self.step.nearest.items():
            if (reference := self.present(entry)) is None:
                continue
            name, _, channel = reference.partition("/")
            sensor = self.sensor(reference)
            count = self.length(sensor, [channel])
            times = sensor.times(count)
            samples = matching_samples(times, ts, self.step.match)
            opened[argument] = Nearest(sensor.channel(channel), samples, times)
            valid.append(sensor.valid(count)[samples])
            self.note(name, sensor, channel)
        return opened, valid

    def whole(self) -> dict[str, Any]:
        """Arrays that are given in full, by argument."""
        arrays = {argument: self.read_all(entry) for argument, entry in self.step.whole.items()}
        return {argument: given for argument, given in arrays.items() if given is not None}

    def read_all(self, entry: Reference) -> Any:
        """An array, arrays by channel of one sensor, or arrays by raw sensor; None where it is optional and absent."""
        if isinstance(entry, tuple):
            references = [self.present(each) for each in entry]
            if None in references:
                return None
            return {each.partition("/")[2]: self.read_whole(each) for each in references if each is not None}
        name, _, channel = entry.partition("/")
        if name == EVERY:
            sensors = [each for each in self.trace.sensors() if not each.startswith("_")]
            having = [each for each in sensors if channel in self.trace.sensor(each).specs]
            found = {
                each: self.read_whole(f"{each}/{channel}")
                for each in having
                if not self.is_empty(self.trace.sensor(each))
            }
            return called_as_types(found, self.roles) if REFERENCE not in self.roles else found
        reference = self.present(entry)
        return None if reference is None else self.read_whole(reference)

    def present(self, entry: str) -> str | None:
        """The reference without its mark; None where it is optional and the recording does not have the channel."""
        if not entry.endswith(OPTIONAL):
            return entry
        reference = entry.removesuffix(OPTIONAL)
        name, _, channel = reference.partition("/")
        if not (self.path / name / META).exists():
            return None
        sensor = self.trace.source(name, channel)
        return reference if channel in {*sensor.specs, VALID} and not self.is_empty(sensor) else None

    def is_empty(self, sensor: Sensor) -> bool:
        """Whether a sensor was there but recorded nothing, of which a note is made."""
        ts = sensor.channel(TS)
        empty = not len(ts) and (self.policy.truncate or not ts.leftover)
        note = f"{sensor.name}/{TS} holds no samples; done without"
        if empty and note not in self.notes:
            self.notes.append(note)
        return empty

    def read_whole(self, reference: str) -> np.ndarray | Channel:
        name, _, channel = reference.partition("/")
        sensor = self.sensor(reference)
        count = self.length(sensor, [] if channel == VALID else [channel])
        self.note(name, sensor, channel)
        if channel == TS:
            return sensor.times(count)
        if reference in self.step.by_range:
            return sensor.channel(channel)
        return sensor.valid(count) if channel == VALID else sensor.channel(channel).read_whole(count)

    def texts(self) -> dict[str, str]:
        texts = {}
        for argument, entry in self.step.files.items():
            reference = entry.removesuffix(OPTIONAL)
            path = self.path / reference
            try:
                texts[argument] = read_text(path)
            except FileNotFoundError as error:
                if reference != entry:
                    continue
                raise FormatError(f"{path}: {error.strerror}; {self.step.name} needs it") from error
            # What is optional in it may be missing; a damaged file must not pass for one that says nothing.
            if path.suffix == ".json" and not isinstance(parse_json(texts[argument], str(path)), dict):
                raise FormatError(f"{path}: must be a JSON object, in braces; correct or replace it")
            self.fingerprints[reference] = self.take_state(reference, path)
            if reference == CONFIG and REFERENCE not in self.roles:
                texts[argument] = as_types(texts[argument], self.roles)
        return texts

    def note_reads(self) -> None:
        """Keep fingerprints of the files that the function reads by itself, as far as they are there."""
        for pattern in self.step.reads:
            every = pattern == EVERY_FILE
            found = map(self.path.joinpath, self.trace.files(self.step.sensor)) if every else self.path.glob(pattern)
            for path in sorted(found):
                hidden = path.relative_to(self.path).parts[0].startswith(".")
                if (path.is_file() or (every and path.is_dir())) and not hidden:
                    reference = str(path.relative_to(self.path))
                    self.fingerprints[reference] = self.take_state(reference, path)

    def take_state(self, reference: str, path: Path) -> dict[str, Any]:
        """Keep the state of a file from before it is read: what changes it later is another state.

        Returns the file's fingerprint.
        """
        self.states[reference] = state = file_state(path)
        return self.shared.once((path, tuple(state)), lambda: fingerprint(path))

    def note(self, name: str, sensor: Sensor, channel_name: str) -> None:
        """Keep fingerprints of a channel and of the times it comes with, and what was noticed in them."""
        for key in dict.fromkeys((TS, *((VALID,) if VALID in sensor.specs else ()), channel_name)):
            if key not in sensor.specs or f"{name}/{key}" in self.fingerprints:
                continue
            channel = sensor.channel(key)
            digest = self.take_state(f"{name}/{key}", channel.path)
            self.fingerprints[f"{name}/{key}"] = {"samples": len(channel), **digest}
            # Paths differ from machine to machine; provenance names places within the recording.
            self.notes += [note.replace(f"{self.path}/", "") for note in (*channel.notes, channel.leftover) if note]
