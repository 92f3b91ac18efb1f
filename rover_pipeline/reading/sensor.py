"""One sensor of a recording, raw or virtual: its channels by name, its samples by number."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from rover_pipeline.errors import FormatError, UnknownAttributeError, UnknownNameError, counted, did_you_mean
from rover_pipeline.format.descriptions import recorded_channels
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import PROVENANCE, read_provenance
from rover_pipeline.format.sensor import TS, VALID, Axis, read_axes
from rover_pipeline.format.sensor import Sensor as StoredSensor
from rover_pipeline.format.texts import read_json
from rover_pipeline.format.trace import Trace as StoredTrace
from rover_pipeline.lookup import load, optional
from rover_pipeline.reading.channel import Channel, Record, select

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import Dataset


class Sensor:
    """A sensor: `sensor.pos` and `sensor["pos"]` are channels, `sensor[5]` is sample 5 of all channels.

    `len(sensor)` is its number of samples, iteration gives them one after the other. `"pos" in sensor` asks for a
    channel. A channel with a suffix is found without it: `camera.video` is `camera["video.avi"]`.

    Attributes:
        path: its directory.
    """

    def __init__(self, trace: Path, name: str, *, truncate: bool = False) -> None:
        self.path = trace / name
        self._stored = StoredSensor(self.path)
        self._published = StoredTrace(trace)
        self._truncate = truncate
        self._channels: dict[str, Channel] = {}

    @property
    def name(self) -> str:
        """Name of its directory, such as `radar` or `_odom`."""
        return self.path.name

    @cached_property
    def channels(self) -> tuple[str, ...]:
        """Names of its channels."""
        # Published recordings keep the pictures of `camera` in `_camera`, and `camera` may not even list them.
        elsewhere = [name for name in recorded_channels(self.name) if self._source(name) is not self._stored]
        return tuple(dict.fromkeys([*self._stored.specs, *elsewhere]))

    @cached_property
    def ts(self) -> np.ndarray:
        """Time of each sample, f8 (sample,), s since the Unix epoch, strictly increasing.

        `sensor["ts"]` has the times as they are stored, in order or not.

        Raises:
            FormatError: the times are not finite and increasing.
        """
        return _fixed(self._stored.times(len(self)))

    @cached_property
    def valid(self) -> np.ndarray:
        """Whether each sample can be trusted, bool (sample,); all true for a sensor without that channel."""
        return _fixed(self._stored.valid(len(self)) != 0)

    @cached_property
    def coordinates(self) -> dict[str, Axis]:
        """Values of the bins along axes of its channels, by the name of the axis, from `axes.json`."""
        return read_axes(self.path)

    @property
    def provenance(self) -> dict[str, Any] | None:
        """What made it: inputs, options, versions, measured figures. None for what this program did not make."""
        return read_provenance(self.path)

    @property
    def sidecars(self) -> tuple[str, ...]:
        """Names of the JSON files beside the channels, such as `radar.json`."""
        with os.scandir(self.path) as entries:
            names = [entry.name for entry in entries if entry.name.endswith(".json")]
        return tuple(sorted(set(names) - {META, PROVENANCE, *self.channels}))

    def sidecar(self, name: str = "") -> Any:
        """The content of a JSON file beside the channels.

        Args:
            name: such as `axes.json`; unless given, the file that is named like the sensor (`radar.json`).

        Raises:
            UnknownNameError: there is no such file.
            FormatError: it is no JSON.
        """
        name = name or f"{self.name.removeprefix('_')}.json"
        if name not in self.sidecars:
            raise UnknownNameError(f"{self.path}: has no sidecar {name!r}; {did_you_mean(name, self.sidecars)}")
        return read_json(self.path / name)

    def channel(self, name: str) -> Channel:
        """One channel, by its name with or without its suffix.

        Raises:
            UnknownNameError: there is none of that name.
            FormatError: its file is missing, damaged or of another length than `ts`.
        """
        stored = self._stored_name(name)
        if stored not in self._channels:
            self._channels[stored] = self._open(stored)
        return self._channels[stored]

    def plot(self, sample: int = 0, channel: str | None = None) -> Figure:
        """A figure of one sample, with labelled axes.

        Args:
            sample: its number; negative ones count from the end.
            channel: draw this channel alone; unless given, the figure is that of `rover-pipeline picture`, which shows
                trajectories and curves whole.

        Raises:
            SampleIndexError: there is no such sample.
            FormatError: the channel cannot be drawn.
        """
        selected = select(sample, len(self), 0, str(self.path)).samples
        if not isinstance(selected, int):
            raise FormatError(f"{self.path}: a figure shows one sample; give its number")
        if channel is None:
            return load("rover_pipeline.export.picture:draw")(self.path.parent, self.name, selected)
        return load("rover_pipeline.export.picture:draw_sample")(self.path, selected, self.channel(channel).name)

    def to_xarray(self, samples: Any = None, channels: tuple[str, ...] = ()) -> Dataset:
        """Channels as an `xarray.Dataset` over `time`, with units, and values of bins as coordinates (extra `xarray`).

        Args:
            samples: a slice, a list of numbers or a mask; unless given, all samples are read.
            channels: names; unless given, all that have the same axes for the same names.

        Returns:
            Variables by channel over `time` (datetime64[ns], UTC), with `units`, `long_name` and `description`;
            coordinates `ts` (f8, s, as it is stored), `valid` (bool), and the values of the bins of axes that
            `axes.json` describes.
        """
        xarray = optional("xarray", "to_xarray", "xarray")
        key = slice(None) if samples is None else samples
        ts = np.atleast_1d(self.ts[key])
        whole = np.floor(ts)  # and the fractions apart, for a product would be 256 ns coarse
        nanoseconds = whole.astype("i8") * 1_000_000_000 + np.rint((ts - whole) * 1e9).astype("i8")
        coordinates: dict[str, Any] = {
            TIME: (TIME, nanoseconds.astype("datetime64[ns]"), {"long_name": "time of the sample, UTC"}),
            TS: (TIME, ts, {"units": "s", "long_name": "time of the sample since the Unix epoch"}),
            VALID: (TIME, np.atleast_1d(self.valid[key]), {"long_name": "whether the sample can be trusted"}),
        }
        variables: dict[str, Any] = {}
        sizes: dict[str, int] = {}
        for name in channels or [each for each in self.channels if each not in (TS, VALID)]:
            channel = self.channel(name)
            values = channel[key]
            values = values if values.ndim == channel.ndim else values[None]
            axes = _distinct(name, channel.axes[1:], channel.shape[1:], sizes)
            sizes |= dict(zip(axes, channel.shape[1:], strict=True))
            # Figures write the long name beside their axes.
            short = channel.description.partition(", ")[0].partition(". ")[0]
            about = {"units": channel.unit, "long_name": short, "description": channel.description}
            variables[channel.name] = ((TIME, *axes), values, {what: text for what, text in about.items() if text})
            coordinates |= {axis: labels for axis in axes if (labels := _labels(self, axis, sizes[axis])) is not None}
        return xarray.Dataset(variables, coordinates, {"sensor": self.name, "recording": str(self.path.parent)})

    def close(self) -> None:
        """Give up what is mapped into memory. The sensor can be read again."""
        for channel in self._channels.values():
            channel.close()

    def __getstate__(self) -> dict[str, Any]:
        # Times and flags of a whole recording are read again by who needs them, not sent.
        return {name: value for name, value in self.__dict__.items() if name not in ("ts", "valid")}

    @cached_property
    def _count(self) -> int:
        # A recording that was cut off has channels of several lengths, so all of them must be opened to know.
        return self._stored.length(truncate=True) if self._truncate else self._stored.length(channels=())

    def _stored_name(self, name: str) -> str:
        known = self.channels
        if name in known:
            return name
        if len(stems := [each for each in known if each.partition(".")[0] == name]) == 1:
            return stems[0]
        raise UnknownNameError(f"{self.path}: has no channel {name!r}; {did_you_mean(name, known)}")

    def _source(self, channel: str) -> StoredSensor:
        """The sensor that holds a channel of this one."""
        if self.name.startswith("_"):
            return self._stored
        source = self._published.source(self.name, channel)
        return self._stored if source.path == self.path or channel not in source.specs else source

    def _open(self, name: str) -> Channel:
        source = self._source(name)
        if source is not self._stored and not np.array_equal(source.recorded_times(), self._stored.recorded_times()):
            raise FormatError(f"{source.path}: has other times than {self.path}, whose {name} it should hold")
        if not self._truncate:
            source.length(channels=(name,))
        return Channel(self, name, source.channel(name), len(self))

    def __getattr__(self, name: str) -> Channel:
        if name.startswith("_"):  # pickle and IPython look for such names before there are any channels
            raise AttributeError(name)
        try:
            return self.channel(name)
        except UnknownNameError as error:
            raise UnknownAttributeError(str(error)) from error

    @overload
    def __getitem__(self, key: str) -> Channel: ...
    @overload
    def __getitem__(self, key: Any) -> Record: ...
    def __getitem__(self, key: Any) -> Channel | Record:
        """A `Channel` for a name; for samples (a number, slice, list or mask) a `Record` of all channels' arrays."""
        if isinstance(key, str):
            return self.channel(key)
        return Record({name: self.channel(name)[key] for name in self.channels})

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Record]:
        return (self[sample] for sample in range(len(self)))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.channels

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name in self.channels if name.isidentifier())]

    def __repr__(self) -> str:
        specs = self._stored.specs.items()
        held = ", ".join(f"{name} {spec.type}{list(spec.shape) or ''}" for name, spec in specs if name != TS)
        try:
            return f"<Sensor {self.name}: {counted(len(self), 'sample')} of {held}>"
        except FormatError as error:
            return f"<Sensor {self.name}: {held}; {error}>"


def _fixed(array: np.ndarray) -> np.ndarray:
    """The same array, which nobody can change any more: it is handed out many times."""
    array.flags.writeable = False
    return array


TIME = "time"
#: What stands along axes that have the same meaning everywhere.
_LABELS = {"xyz": ["x", "y", "z"], "xyzw": ["x", "y", "z", "w"], "colour": ["red", "green", "blue"]}


def _distinct(channel: str, axes: tuple[str, ...], shape: tuple[int, ...], sizes: dict[str, int]) -> list[str]:
    """Names of axes, each once, and none of another size than the same name has in another channel."""
    names: list[str] = []
    for axis, size in zip(axes, shape, strict=True):
        name = axis if sizes.get(axis, size) == size and not axis.startswith("axis_") else f"{channel}_{axis}"
        while name in names:  # xarray refuses the axes of a covariance, which have one name
            name += "_2"
        names.append(name)
    return names


def _labels(sensor: Sensor, axis: str, size: int) -> Any:
    """The coordinate along an axis; None where nothing is known."""
    if (known := sensor.coordinates.get(axis)) is not None and known.values is not None and len(known.values) == size:
        return (axis, known.values, {"units": known.unit, "positive": known.positive})
    labels = _LABELS.get(axis.removesuffix("_2"), [])
    return (axis, labels) if len(labels) == size else None
