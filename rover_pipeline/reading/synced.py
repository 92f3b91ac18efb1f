"""Samples of several sensors at the same instants, from the indices in `_sync`."""

from __future__ import annotations

import bisect
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from rover_pipeline.errors import ConfigError, FormatError, counted
from rover_pipeline.format.provenance import require_fresh, run_command
from rover_pipeline.format.sensor import TS, VALID
from rover_pipeline.format.texts import section
from rover_pipeline.numerics.nearest import nearest_samples
from rover_pipeline.reading.channel import Channel, Record, select
from rover_pipeline.reading.sensor import Sensor
from rover_pipeline.sync.options import MatchOptions

if TYPE_CHECKING:
    from rover_pipeline.reading.trace import Trace

SYNC = "_sync"
_DT = "_dt"
#: What is said of each sensor's sample, besides its channels.
_ABOUT = (TS, "dt", VALID, "index")


@dataclass(frozen=True, eq=False)
class Member:
    """One of the sensors whose samples are put together."""

    sensor: Sensor  #: the sensor.
    channels: tuple[Channel, ...]  #: those that are read.
    index: np.ndarray  #: its sample at each instant of `_sync`, i8 (instant,); -1 = none within the tolerance.
    dt: np.ndarray  #: time of that sample minus that of the instant, s, f8 (instant,); NaN where there is none.

    def read(self, instant: int) -> Record | None:
        """Its sample at an instant; None where there is none."""
        if (at := int(self.index[instant])) < 0:
            return None
        about = (float(self.sensor.ts[at]), float(self.dt[instant]), bool(self.sensor.valid[at]), at)
        channels = {channel.name: channel.take(at) for channel in self.channels}
        return Record({**channels, **dict(zip(_ABOUT, about, strict=True))})


class Synced(Sequence[Any]):
    """Samples of several sensors that belong together, a `Record` for each instant, read when they are asked for.

    `synced[5]` has `recording`, `ts` (s, of the instant) and a record for each sensor: its channels as arrays (*shape),
    `ts`, `dt` (its time minus that of the instant, s), `valid` and `index` (its sample). A slice, a list of numbers or
    a mask gives fewer instants. It is a map-style dataset for `torch.utils.data.DataLoader`, which can be pickled.

    Attributes:
        trace: the recording.
        members: the sensors by name, as they were asked for.
        omitted: how many instants of `_sync` are not given because a sensor has no sample there (`absent`) or one that
            is not to be trusted (`invalid`), by sensor. One instant can count for several sensors.
        instants: number in `_sync` of each instant that is given, i8.
        all_ts: time of every instant of `_sync`, whether it is given or not, f8, s.
    """

    def __init__(
        self, trace: Trace, names: Sequence[str], *, complete: bool, valid: bool, max_dt: float | None, reduced: int
    ) -> None:
        if not names:
            raise ConfigError(f"{trace.path}: synced: name the sensors, such as synced('camera', 'lidar_image')")
        self.trace = trace
        sync = trace[SYNC]
        require_fresh(trace.path, [SYNC, *(trace.find(name.partition("/")[0]) for name in names)], "synced")
        self.all_ts = sync.ts
        wanted: dict[str, list[str]] = {}
        for name in names:
            sensor, _, channel = name.partition("/")
            wanted.setdefault(sensor, []).append(channel)
        self.members = {name: _member(trace, sync, name, channels, reduced) for name, channels in wanted.items()}
        keep = np.ones(len(sync), bool)
        if valid:
            keep &= sync.valid
        self.omitted: dict[str, dict[str, int]] = {}
        present = np.zeros(len(sync), bool)
        for name, member in self.members.items():
            if max_dt is not None:
                member.index[~(np.abs(member.dt) <= max_dt)] = -1
            absent = member.index < 0
            invalid = ~absent & ~member.sensor.valid[np.maximum(member.index, 0)]
            self.omitted[name] = {
                "absent": int(absent.sum()) if complete else 0,
                "invalid": int(invalid.sum()) if valid else 0,
            }
            keep &= ~(absent & complete) & ~(invalid & valid)
            present |= ~absent
        self.instants = np.flatnonzero(keep & present)

    @property
    def ts(self) -> np.ndarray:
        """Time of each instant that is given, f8, s since the Unix epoch, by the clock of the reference sensor."""
        return self.all_ts[self.instants]

    def map(self, transform: Callable[[Record], Any]) -> Samples:
        """The same samples after a function, which is called when a sample is read."""
        return Samples([self], transform)

    def only(self, chosen: np.ndarray) -> Synced:
        """Those instants that a mask over all instants of `_sync` chooses, bool (instant,)."""
        return self._with(self.instants[chosen[self.instants]])

    def __len__(self) -> int:
        return len(self.instants)

    @overload
    def __getitem__(self, key: int) -> Record: ...
    @overload
    def __getitem__(self, key: Any) -> Synced: ...
    def __getitem__(self, key: Any) -> Record | Synced:
        samples = select(key, len(self), 0, f"{self.trace.path}: synced").samples
        if not isinstance(samples, int):
            return self._with(self.instants[np.asarray(samples, "i8")])
        instant = int(self.instants[samples])
        values = {name: member.read(instant) for name, member in self.members.items()}
        return Record({"recording": self.trace.name, TS: float(self.all_ts[instant]), **values})

    def __iter__(self) -> Iterator[Record]:
        return (self[at] for at in range(len(self)))

    def _with(self, instants: np.ndarray) -> Synced:
        fewer = copy.copy(self)
        fewer.instants = instants
        return fewer

    def __repr__(self) -> str:
        return f"<Synced {self.trace.name}: {len(self)} of {len(self.all_ts)} instants of {', '.join(self.members)}>"


class Samples(Sequence[Any]):
    """Samples of one or many recordings, one after the other: a map-style dataset for `torch.utils.data.DataLoader`.

    Attributes:
        parts: the samples of each recording.
        missing: recordings that were skipped because they lack something, and what.
    """

    def __init__(
        self,
        parts: Sequence[Synced],
        transform: Callable[[Record], Any] | None = None,
        missing: dict[str, str] | None = None,
    ) -> None:
        self.parts, self.missing = list(parts), missing or {}
        self._transforms: tuple[Callable[[Any], Any], ...] = () if transform is None else (transform,)
        self._ends = list(accumulate(map(len, self.parts)))
        self._numbers = np.arange(self._ends[-1] if self._ends else 0)

    @property
    def ts(self) -> np.ndarray:
        """Time of each sample, f8, s since the Unix epoch, recording after recording."""
        return np.concatenate([part.ts for part in self.parts])[self._numbers] if self.parts else np.empty(0)

    def map(self, transform: Callable[[Any], Any]) -> Samples:
        """The same samples after one more function, which is called when a sample is read."""
        changed = copy.copy(self)
        changed._transforms = (*self._transforms, transform)
        return changed

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, key: Any) -> Any:
        """A sample for a number; fewer samples, or the same in another order, for a slice, a list or a mask."""
        chosen = select(key, len(self), 0, "samples").samples
        if not isinstance(chosen, int):
            fewer = copy.copy(self)
            fewer._numbers = self._numbers[np.asarray(chosen, "i8")]
            return fewer
        number = int(self._numbers[chosen])
        part = bisect.bisect_right(self._ends, number)
        record = self.parts[part][number - self._ends[part] + len(self.parts[part])]
        for transform in self._transforms:
            record = transform(record)
        return record

    def __iter__(self) -> Iterator[Any]:
        return (self[at] for at in range(len(self)))

    def __repr__(self) -> str:
        return f"<Samples: {len(self)} of {counted(len(self.parts), 'recording')}>"


def _member(trace: Trace, sync: Sensor, name: str, channels: Sequence[str], reduced: int) -> Member:
    sensor = trace[name]
    wanted = dict.fromkeys(channels)
    if "" in wanted:
        wanted = dict.fromkeys(each for each in sensor.channels if each not in (TS, VALID))
    opened = [sensor.channel(each) for each in wanted]
    if clash := {each.name for each in opened} & {"dt", "index"}:
        raise ConfigError(
            f"{sensor.path}: synced has a {min(clash)!r} of its own; name the channels, as {name}/CHANNEL"
        )
    if reduced != 1:
        opened = [each.reduced(reduced) if each.is_picture else each for each in opened]
    index, dt = _indices(trace, sync, sensor)
    return Member(sensor, tuple(opened), index, dt)


def _indices(trace: Trace, sync: Sensor, sensor: Sensor) -> tuple[np.ndarray, np.ndarray]:
    """The sample of a sensor at each instant of `_sync`, -1 = none, and its time minus that of the instant.

    A raw sensor has its own channel in `_sync`. A virtual sensor has the times of the raw one that it is made of, and
    so the same indices. A sensor with times of its own is matched here, within the tolerance of `_sync`.
    """
    raw = [name for name in sync.channels if name not in (TS, VALID) and not name.endswith(_DT)]
    source = sensor.name if sensor.name in raw else None
    for name in () if source else raw:
        if name in trace and np.array_equal(np.asarray(trace[name][TS])[: len(sensor)], np.asarray(sensor[TS])):
            source = name
            break
    if source is None:
        tolerance = section(sync.provenance, "options").get("tolerance")
        tolerance = tolerance if isinstance(tolerance, (int, float)) else MatchOptions().tolerance
        found = nearest_samples(sensor.ts, sync.ts)
        away = sensor.ts[found] - sync.ts
        near = np.abs(away) <= tolerance
        return np.where(near, found, -1), np.where(near, away, np.nan)
    index = np.array(sync[source][:], "i8")
    if len(index) and index.max() >= len(trace[source]):
        raise FormatError(
            f"{sync.path}/{source}: names sample {index.max()}, {trace[source].path} has {len(trace[source])}; make "
            f"_sync again: {run_command(trace.path, [SYNC])}"
        )
    index[index >= len(sensor)] = -1  # a result of the part of a recording that was whole
    return index, np.where(index >= 0, np.asarray(sync[f"{source}{_DT}"], "f8"), np.nan)
