"""A sensor: a directory with a `meta.json` and one file or folder per channel, all with as many samples as `ts`.

Beside the channels of a product, `axes.json` has the values of the bins along their axes.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from rover_pipeline.errors import FormatError, RoverError, counted, did_you_mean, short
from rover_pipeline.format.channels import Channel, create_channel, open_channel
from rover_pipeline.format.channels.base import EncodedWriter, sync_file
from rover_pipeline.format.descriptions import AXES
from rover_pipeline.format.meta import ChannelSpec, raw, read_meta, write_meta
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.texts import read_json

TS = "ts"
VALID = "valid"
TS_SPEC = raw("f8", (), "Time of each sample, seconds since the Unix epoch.")
VALID_SPEC = raw("u1", (), "1 = sample can be trusted, 0 = it cannot.")
_TRUNCATE = (
    "If the recording was interrupted, set `input.truncate: true` (in Python: truncate=True) to use its whole samples"
)


class Sensor:
    """A sensor on disk, in the directory `path`, opened for reading. `specs`: what `meta.json` says of each channel."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.specs = read_meta(path)
        self._channels: dict[str, Channel] = {}

    @property
    def name(self) -> str:
        return self.path.name

    def channel(self, name: str) -> Channel:
        """One channel. Raises FormatError when `meta.json` does not list it or it is not on disk."""
        if name not in self.specs:
            hint = did_you_mean(name, self.specs) if self.specs else "it lists none"
            raise FormatError(f"{self.path}: meta.json lists no channel {name!r}; {hint}")
        if name not in self._channels:
            self._channels[name] = open_channel(self.path / name, self.specs[name])
        return self._channels[name]

    def length(self, *, truncate: bool = False, channels: tuple[str, ...] | None = None) -> int:
        """Number of samples that `ts` and the given channels (all of them unless given) have in common.

        `truncate`: accept a partial last sample and channels of unequal length, as a power cut leaves them, and count
        the whole samples that all channels have. Raises FormatError where there is no sample at all, and for different
        lengths without `truncate`.
        """
        names = dict.fromkeys((TS, *(self.specs if channels is None else channels)))
        opened = {name: self.channel(name) for name in names}
        counts = {name: len(channel) for name, channel in opened.items()}
        for name, channel in opened.items():
            if not counts[name] and not (channel.leftover and not truncate):
                raise channel.fail(f"holds no samples; {self._remedy('record again or leave this sensor out')}")
        if not truncate:
            for channel in opened.values():
                if channel.leftover:
                    raise channel.fail(f"{channel.leftover}. {self._remedy(_TRUNCATE)}")
            for name, count in counts.items():
                if count != counts[TS]:
                    short = f"has {counted(count, 'sample')} where ts has {counts[TS]}"
                    raise opened[name].fail(f"{short}. {self._remedy(_TRUNCATE)}")
        return min(counts.values())

    def times(self, count: int) -> np.ndarray:
        """The first `count` times, f8 seconds. Raises FormatError where `ts` is not f8 of shape [], or its times are
        not finite and strictly increasing."""
        channel = self._scalars(TS, "f8")
        ts = channel.read_whole(count)
        if problem := time_problem(ts):
            remedy = self._remedy("correct ts (a copy of the trace keeps the original)")
            raise channel.fail(f"{problem}; {remedy}")
        return ts

    def recorded_times(self) -> np.ndarray:
        """All times as they are stored, f8 seconds, in order or not. Raises FormatError when `ts` is not f8 of []."""
        return self._scalars(TS, "f8").read_whole()

    def _scalars(self, name: str, type: str) -> Channel:
        channel = self.channel(name)
        if (channel.spec.type, channel.spec.shape) != (type, ()):
            raise channel.fail(f"must be {type} of [], is {channel.spec.type} of {list(channel.spec.shape)}")
        return channel

    def _remedy(self, raw: str) -> str:
        """What the user can do about a damaged channel: `raw` when it was recorded; a result can be made again."""
        try:
            ours = read_provenance(self.path) is not None
        except RoverError:  # the damage that is reported comes first
            ours = self.name.startswith("_")
        return f"remove {self.path} and make it again" if ours else raw

    def valid(self, count: int) -> np.ndarray:
        """The first `count` entries of `valid`, u1; all 1 for a sensor without that channel."""
        if VALID not in self.specs:
            return np.ones(count, "u1")
        channel = self._scalars(VALID, "u1")
        valid = channel.read_whole(count)
        if valid.max(initial=0) > 1:
            at = int(np.argmax(valid > 1))
            raise channel.fail(f"sample {at} at byte {at}: is {valid[at]}, must be 0 or 1")
        return valid


def time_problem(ts: np.ndarray) -> str:
    """A message where and why times, f8 seconds, are not finite and strictly increasing; empty when they are."""
    bad = ~np.isfinite(ts)
    if bad.any():
        at = int(np.argmax(bad))
        return f"sample {at} at byte {at * 8}: is {ts[at]}, not a time"
    steps = np.diff(ts)
    if (steps <= 0).any():
        at = 1 + int(np.argmax(steps <= 0))
        return f"sample {at} at byte {at * 8}: {ts[at]:.6f} s does not come after {ts[at - 1]:.6f} s"
    return ""


class Closing:
    """A writer that is closed where its block ends without an error, and released in any case."""

    def close(self) -> None:
        """Write what is left."""

    def release(self) -> None:
        """Give back what it holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        self.release()


class SensorWriter(Closing):
    """Writes a new sensor by appending to all its channels together. Closing it writes `meta.json` last. `specs`: its
    channels; `ts`, which every sensor has, need not be among them.

    Use it inside `new_trace` or `VirtualWriter`, which make the finished directory visible at once.
    """

    def __init__(self, path: Path, specs: dict[str, ChannelSpec]) -> None:
        path.mkdir(parents=True)
        self.path = path
        self.specs = {TS: TS_SPEC, **specs}
        self._writers = {name: create_channel(path / name, spec) for name, spec in self.specs.items()}

    def append(self, **samples: np.ndarray | float | bytes) -> None:
        """Add samples, (frame, *shape) each, to every channel; a scalar is one sample of a scalar channel, and bytes
        are one that was encoded already, for example in another thread."""
        for name, values in samples.items():
            writer = self._writers[name]
            if not isinstance(values, bytes):
                writer.append(np.atleast_1d(np.asarray(values, writer.spec.dtype)))
            elif isinstance(writer, EncodedWriter):
                writer.append_encoded(values)
            else:
                raise FormatError(f"{writer.path}: {writer.spec.format} does not encode samples one by one")

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        counts = {name: writer.count for name, writer in self._writers.items()}
        if len(set(counts.values())) > 1:
            raise FormatError(f"{self.path}: channels were written with unequal lengths: {counts}")
        write_meta(self.path, self.specs)
        sync_file(self.path)


class Axis(NamedTuple):
    """One axis of a product."""

    values: np.ndarray | None  #: of every bin, f8 (bin,); None where the recording does not state their size.
    unit: str  #: `m`, `m/s` or `rad`.
    positive: str  #: where values grow to: `away`, `recedes`, `right` or `up`.


def read_axes(folder: Path) -> dict[str, Axis]:
    """The axes of the sensor in `folder` by name; empty when it has no `axes.json`. Raises FormatError where the file
    is not what `axes.json` must be."""
    try:
        content = read_json(folder / AXES)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    try:
        axes = {}
        for name, entry in content.items():
            values = None if entry["values"] is None else np.asarray(entry["values"], "f8")
            if values is not None and values.ndim != 1:
                raise ValueError("values must be a list of numbers")
            axes[name] = Axis(values, str(entry.get("unit", "")), str(entry.get("positive", "")))
        return axes
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise FormatError(f"{folder / AXES}: does not describe axes ({short(str(error))}); make it again") from error
