"""The inputs of a step in one trace, opened and checked before any work begins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.engine.step import Step
from rover_pipeline.errors import FormatError
from rover_pipeline.format.channels import Channel
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import fingerprint
from rover_pipeline.format.sensor import TS, VALID, Sensor
from rover_pipeline.format.trace import Trace
from rover_pipeline.options import InputOptions, Options

#: Stands for every raw sensor of a trace.
EVERY = "*"


@dataclass
class Nearest:
    """A channel of a sensor with times of its own.

    Attributes:
        samples: i8, (frame,), its sample nearest in time to each frame; of two as near the earlier one.
    """

    channel: Channel
    samples: np.ndarray


@dataclass
class Source:
    """What a step reads.

    Attributes:
        channels: argument -> channel that blocks of frames are read from.
        nearest: argument -> channel that is read at other times.
        whole: argument -> array, or arrays by sensor.
        texts: argument -> text of a file.
        count: number of frames.
        ts: f8, (frame,), s.
        valid: u1, (frame,).
        fingerprints: `sensor/channel` or file -> what provenance says of it.
        shapes: argument -> shape of a sample as it is stored, which a view may read in another.
        notes: what was noticed in the inputs.
        dropped: samples past the last frame that all channels have.
    """

    channels: dict[str, Channel]
    nearest: dict[str, Nearest]
    whole: dict[str, Any]
    texts: dict[str, str]
    count: int
    ts: np.ndarray
    valid: np.ndarray
    fingerprints: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]
    notes: list[str]
    dropped: int

    @property
    def frame_bytes(self) -> int:
        """Bytes that are read for a frame."""
        channels = [*self.channels.values(), *(each.channel for each in self.nearest.values())]
        return sum(channel.spec.sample_bytes for channel in channels)

    @property
    def place(self) -> str:
        """Paths of the channels, for messages."""
        channels = [*self.channels.values(), *(each.channel for each in self.nearest.values())]
        return ", ".join(str(channel.path) for channel in channels)


def open_source(described: Step, trace: Path, policy: InputOptions, options: Options | None = None) -> Source:
    """Open what a step declares.

    Args:
        options: of the step, which its views are made for.

    Raises:
        FormatError: something is missing, or is not what its metadata says.
    """
    opened = _Opener(described, trace, policy)
    sensors, channels = opened.parents()
    counts, times = {}, {}
    for name, sensor in sensors.items():
        counts[name] = opened.length(sensor, [ref.partition("/")[2] for ref in opened.references(name)])
        times[name] = sensor.times(counts[name])
    parent = next(iter(sensors), "")
    for name, ts in times.items():
        if not np.array_equal(ts, times[parent]):
            raise FormatError(
                f"{trace / name}: its ts differs from that of {parent}; {described.name} takes equal times"
            )
    count = counts.get(parent, 0)
    ts = times.get(parent, np.empty(0))
    valid = np.min([sensor.valid(count) for sensor in sensors.values()], axis=0, initial=1).astype("u1")
    longest = max((len(sensors[name].channel(channel)) for name, channel in opened.used), default=0)
    nearest, near_valid = opened.nearest(ts)
    opened.note_reads()
    views = {argument: view(channels[argument], options=options) for argument, view in described.views.items()}
    return Source(
        channels={**channels, **views},
        nearest=nearest,
        whole=opened.whole(),
        texts=opened.texts(),
        count=count,
        ts=ts,
        valid=np.min([np.broadcast_to(valid, (count,)), *near_valid], axis=0).astype("u1"),
        fingerprints=opened.fingerprints,
        shapes={argument: channel.spec.shape for argument, channel in channels.items()},
        notes=opened.notes,
        dropped=longest - count,
    )


class _Opener:
    """Opens sensors of a trace for one step, and keeps what provenance says of all it opened."""

    def __init__(self, described: Step, trace: Path, policy: InputOptions) -> None:
        self.described, self.trace, self.policy = described, trace, policy
        self.recording = Trace(trace)
        self.fingerprints: dict[str, Any] = {}
        self.notes: list[str] = []
        self.used: list[tuple[str, str]] = []

    def references(self, sensor: str) -> list[str]:
        return [ref for ref in self.described.inputs.values() if ref.partition("/")[0] == sensor]

    def parents(self) -> tuple[dict[str, Sensor], dict[str, Channel]]:
        """The sensors that the inputs are of, by name, and the inputs' channels, by argument."""
        sensors: dict[str, Sensor] = {}
        channels: dict[str, Channel] = {}
        for argument, reference in self.described.inputs.items():
            name, _, channel = reference.partition("/")
            sensor = sensors.setdefault(name, self.sensor(reference))
            channels[argument] = sensor.channel(channel)
            self.used += [(name, TS), (name, channel)]
            self.note(name, sensor, channel)
        return sensors, channels

    def sensor(self, reference: str) -> Sensor:
        name, _, channel = reference.partition("/")
        if not (self.trace / name).is_dir():
            raise FormatError(f"{self.trace / name}: no such sensor; {self.described.name} needs {reference}")
        return self.recording.source(name, channel)

    def length(self, sensor: Sensor, channels: Iterable[str]) -> int:
        wanted = [name for name in channels if name != VALID or VALID in sensor.specs]
        wanted += [VALID] if VALID in sensor.specs else []
        return sensor.length(truncate=self.policy.truncate, channels=tuple(dict.fromkeys(wanted)))

    def nearest(self, ts: np.ndarray) -> tuple[dict[str, Nearest], list[np.ndarray]]:
        """Channels that are read at times of their own, and which of the samples that are read are valid."""
        found, valid = {}, []
        for argument, reference in self.described.nearest.items():
            if self.lacks(argument, reference):
                continue
            name, _, channel = reference.partition("/")
            sensor = self.sensor(reference)
            count = self.length(sensor, [channel])
            samples = nearest_samples(sensor.times(count), ts)
            found[argument] = Nearest(sensor.channel(channel), samples)
            valid.append(sensor.valid(count)[samples])
            self.note(name, sensor, channel)
        return found, valid

    def whole(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for argument, reference in self.described.whole.items():
            name, _, channel = reference.partition("/")
            if name == EVERY:
                found[argument] = {
                    sensor: self.read_whole(f"{sensor}/{channel}")
                    for sensor in self.recording.sensors()
                    if not sensor.startswith("_")
                    and channel in self.recording.sensor(sensor).specs
                    and not self.is_empty(self.recording.sensor(sensor))
                }
            elif not self.lacks(argument, reference):
                found[argument] = self.read_whole(reference)
        return found

    def lacks(self, argument: str, reference: str) -> bool:
        """Whether a channel is not there and the function does without it."""
        name, _, channel = reference.partition("/")
        if not self.described.is_optional(argument):
            return False
        if not (self.trace / name / META).exists():
            return True
        sensor = self.recording.source(name, channel)
        return channel not in {*sensor.specs, VALID} or self.is_empty(sensor)

    def is_empty(self, sensor: Sensor) -> bool:
        """Whether a sensor was there but recorded nothing, of which a note is made."""
        ts = sensor.channel(TS)
        empty = not len(ts) and (self.policy.truncate or not ts.leftover)
        note = f"{sensor.name}/{TS} holds no samples; done without"
        if empty and note not in self.notes:
            self.notes.append(note)
        return empty

    def read_whole(self, reference: str) -> np.ndarray:
        name, _, channel = reference.partition("/")
        sensor = self.sensor(reference)
        count = self.length(sensor, [] if channel == VALID else [channel])
        self.note(name, sensor, channel)
        if channel == TS:
            return sensor.times(count)
        return sensor.valid(count) if channel == VALID else sensor.channel(channel).read(0, count)

    def texts(self) -> dict[str, str]:
        texts = {}
        for argument, reference in self.described.files.items():
            path = self.trace / reference
            if self.described.is_optional(argument) and not path.exists():
                continue
            try:
                texts[argument] = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "is not text"
                raise FormatError(f"{path}: {reason}; {self.described.name} needs it") from error
            self.fingerprints[reference] = fingerprint(path)
        return texts

    def note_reads(self) -> None:
        """Keep fingerprints of the files that the function reads by itself, as far as they are there."""
        for pattern in self.described.reads:
            for path in sorted(self.trace.glob(pattern)):
                if path.is_file() and not path.relative_to(self.trace).parts[0].startswith("."):
                    self.fingerprints[str(path.relative_to(self.trace))] = fingerprint(path)

    def note(self, name: str, sensor: Sensor, channel_name: str) -> None:
        """Keep fingerprints of a channel and of the times it comes with, and what was noticed in them."""
        for key in dict.fromkeys((TS, *((VALID,) if VALID in sensor.specs else ()), channel_name)):
            if key not in sensor.specs or f"{name}/{key}" in self.fingerprints:
                continue
            channel = sensor.channel(key)
            self.fingerprints[f"{name}/{key}"] = {"samples": len(channel), **fingerprint(channel.path)}
            # Paths differ from machine to machine; provenance names places within the trace.
            self.notes += [note.replace(f"{self.trace}/", "") for note in (*channel.notes, channel.leftover) if note]


def nearest_samples(times: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """Index of the time nearest to each of `ts`, both f8 seconds and increasing; of two as near the earlier."""
    after = np.clip(np.searchsorted(times, ts), 1, max(1, len(times) - 1))
    before = after - 1
    if len(times) == 1:
        return np.zeros(len(ts), "i8")
    return np.where(ts - times[before] <= times[after] - ts, before, after)
