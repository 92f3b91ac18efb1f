"""Many recordings as one dataset, and how its samples are split so that no split has seen another."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np

from rover_pipeline.datasets.options import SplitOptions
from rover_pipeline.datasets.splits import SPLITS, Course, assign, named_recordings, without_shared
from rover_pipeline.errors import ConfigError, SampleIndexError, UnknownNameError, did_you_mean
from rover_pipeline.format.sensor import VALID
from rover_pipeline.reading.selection import Record
from rover_pipeline.reading.sensor import Sensor
from rover_pipeline.reading.synced import SYNC, Samples, Synced
from rover_pipeline.reading.trace import Trace, results_root

_Entries = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def open_many(
    entries: _Entries, *, output_root: str | os.PathLike[str] | None = None, truncate: bool = False
) -> Traces:
    """Open the recordings in a folder. Nothing is read yet, and nothing is ever written.

    Args:
        entries: a folder of recordings, a recording, a glob pattern, or several of them.
        output_root: tree of results that belongs to the recordings, as in the configuration.
        truncate: see `open`.

    Raises:
        FormatError: there is no recording, or two would have the same name.
    """
    listed = [entries] if isinstance(entries, (str, os.PathLike)) else list(entries)
    root = None if output_root is None else results_root(output_root)
    located = named_recordings([os.fspath(entry) for entry in listed], root)
    return Traces(
        Trace(results if results.is_dir() else source, name=name, truncate=truncate)
        for name, (source, results) in located.items()
    )


class Traces(Sequence[Trace]):
    """Recordings in the order of their names: `traces[0]`, `traces["walk-1"]`, `len`, iteration.

    Attributes:
        names: of the recordings, as exported datasets have them.
    """

    def __init__(self, traces: Iterable[Trace]) -> None:
        self._traces = {trace.name: trace for trace in traces}
        self.names = tuple(self._traces)

    def synced(
        self,
        *names: str,
        split: str | None = None,
        splits: SplitOptions | Mapping[str, Any] | None = None,
        skip_missing: bool = False,
        complete: bool = True,
        valid: bool = True,
        max_dt: float | None = None,
        reduced: int = 1,
        transform: Callable[[Record], Any] | None = None,
    ) -> Samples:
        """Samples of several sensors at the same instants, of all recordings: a dataset for torch's `DataLoader`.

        `names`, `complete`, `valid`, `max_dt` and `reduced` are those of `Trace.synced`.

        Args:
            split: `train`, `validation` or `test`; unless given, all samples.
            splits: how samples are split, by default into contiguous blocks of 20 s of time with gaps between the
                splits; see `SplitOptions`. It is the rule of exported datasets. The same recordings and options always
                give the same splits, whatever sensors are asked for; one recording more or less gives others.
            skip_missing: leave recordings out that lack a sensor or channel. `missing` then names them. They still take
                part in the choice of the splits.
            transform: is called with each record; it must be a function of a module when workers are spawned.

        Raises:
            UnknownNameError: a recording lacks a sensor, or there is no such split.
            ConfigError: `splits` is not what `SplitOptions` takes.
        """
        options = splits if isinstance(splits, SplitOptions) else SplitOptions.parse(splits or {}, "splits")
        if split is None and splits is not None:
            raise ConfigError(f"splits: name the split that is wanted, such as split={SPLITS[0]!r}")
        if split is not None and split not in SPLITS:
            raise UnknownNameError(f"split: there is no {split!r}; {did_you_mean(split, SPLITS)}")
        chosen = self.splits(options, skip_missing=skip_missing) if split is not None else {}
        parts, missing = [], {}
        for trace in self:
            try:
                part = trace.synced(*names, complete=complete, valid=valid, max_dt=max_dt, reduced=reduced)
            except UnknownNameError as error:
                if not skip_missing:
                    raise
                missing[trace.name] = str(error)
                continue
            if split is not None:
                # Sensors that are slower than the reference give neighbouring instants the same sample.
                apart = without_shared(chosen[trace.name], [member.index for member in part.members.values()])
                part = part.only(apart == SPLITS.index(split))
            parts.append(part)
        return Samples(parts, transform, missing)

    def splits(
        self, options: SplitOptions | Mapping[str, Any] | None = None, *, skip_missing: bool = False
    ) -> dict[str, np.ndarray]:
        """The split of every instant of `_sync` of every recording, whatever sensors are wanted.

        Args:
            skip_missing: leave recordings without a `_sync` out.

        Returns:
            By name of the recording, i1 (instant,): 0 = train, 1 = validation, 2 = test, -1 = in none, because a sample
            of another split is too near, in time (`by: time`) or place (`by: place`).

        Raises:
            UnknownNameError: a recording has no `_sync`.
            FormatError: `by: place`, and a recording has no `_odom`.
        """
        parsed = options if isinstance(options, SplitOptions) else SplitOptions.parse(options or {}, "splits")
        courses, indices = [], []
        for trace in self:
            if skip_missing and SYNC not in trace:
                continue
            sync = trace[SYNC]
            courses.append(Course(trace.name, sync.ts, _positions(trace) if parsed.by == "place" else None))
            indices.append(_indices(sync))
        assigned = assign(courses, parsed)
        return {
            course.name: without_shared(split, index)
            for course, split, index in zip(courses, assigned, indices, strict=True)
        }

    @overload
    def __getitem__(self, key: int | str) -> Trace: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[Trace]: ...
    def __getitem__(self, key: int | str | slice) -> Trace | Sequence[Trace]:
        if isinstance(key, str):
            if key not in self._traces:
                raise UnknownNameError(f"there is no recording {key!r}; {did_you_mean(key, self.names)}")
            return self._traces[key]
        traces = list(self._traces.values())
        try:
            return traces[key]
        except IndexError as error:
            raise SampleIndexError(f"there are {len(self)} recordings; there is no number {key}") from error

    def __len__(self) -> int:
        return len(self._traces)

    def __iter__(self) -> Iterator[Trace]:
        return iter(self._traces.values())

    def __repr__(self) -> str:
        return f"<Traces: {', '.join(self.names)}>"


def _indices(sync: Sensor) -> list[np.ndarray]:
    """The sample of each raw sensor at each instant, -1 = none."""
    raw = [name for name in sync.channels if name != VALID and sync[name].dtype.kind == "i"]
    return [np.asarray(sync[name]) for name in raw]


def _positions(trace: Trace) -> np.ndarray | None:
    """Where the rig was at each instant, f8 (instant, 3), m, in the recording's world; NaN where it is not known."""
    if "_odom" not in trace:
        return None
    synced = Synced(trace, ("_odom/pos",), complete=False, valid=False, max_dt=None, reduced=1)
    member = synced.members["_odom"]
    at = np.maximum(member.index, 0)
    known = (member.index >= 0) & member.sensor.valid[at]
    return np.where(known[:, None], np.asarray(member.channels[0])[at], np.nan)
