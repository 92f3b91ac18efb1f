"""One recording, opened for reading, or many as one dataset, and a step of one's own that is run without a rule."""

from __future__ import annotations

import os
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, overload

import numpy as np

from rover_pipeline.datasets.options import SplitOptions
from rover_pipeline.datasets.splits import SPLITS, Course, assign, named_recordings, without_shared
from rover_pipeline.engine.step import ATTRIBUTE, Step
from rover_pipeline.errors import (
    ConfigError,
    FormatError,
    InTheWayError,
    SampleIndexError,
    UnknownNameError,
    counted,
    did_you_mean,
)
from rover_pipeline.format.attempt import remove_tree
from rover_pipeline.format.files import exists
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import read_provenance, run_command
from rover_pipeline.format.sensor import VALID
from rover_pipeline.format.texts import read_collection
from rover_pipeline.format.trace import Trace as StoredTrace
from rover_pipeline.format.trace import locate_traces, require_trace
from rover_pipeline.lookup import load
from rover_pipeline.options import InputOptions, Options
from rover_pipeline.reading.channel import Record
from rover_pipeline.reading.sensor import Sensor
from rover_pipeline.reading.synced import SYNC, Samples, Synced


def open(
    path: str | os.PathLike[str], *, output_root: str | os.PathLike[str] | None = None, truncate: bool = False
) -> Trace:
    """Open one recording for reading. Nothing is read yet, and nothing is ever written.

    Args:
        path: directory of the recording, or of its results in an `output_root`.
        output_root: tree of results in which those of the recording are looked for, as in the configuration.
        truncate: of a recording that was interrupted, use the whole samples that all channels of a sensor have. Without
            it a cut-off channel is an error.

    Raises:
        FormatError: there is no recording.
    """
    place = require_trace(Path(os.path.expanduser(path)))
    if output_root is not None:
        # A recording that was not processed yet has no results there.
        results = next(iter(locate_traces([str(place.absolute())], Path(), results_root(output_root))))
        place = results if results.is_dir() else place
    return Trace(place, truncate=truncate)


def results_root(path: str | os.PathLike[str]) -> Path:
    """The directory of a tree of results. Raises FormatError when it is not there."""
    root = Path(os.path.expanduser(path)).absolute()
    if not root.is_dir():
        raise FormatError(f"output_root: {root}: no such directory")
    return root


class Trace(Mapping[str, Sensor]):
    """A recording: a mapping from the names of its sensors, raw and virtual, to `Sensor`s.

    A name without the underscore stands for either: `trace["odom"]` is `_odom` where there is no raw sensor `odom`.
    Traces can be pickled, and read by many threads and processes at once.

    Attributes:
        path: directory of the recording.
        name: what it is called; the name of the directory, or the one that `open_many` gives it.
        truncate: whether the whole samples of an interrupted recording are used.
    """

    def __init__(self, path: Path, *, name: str = "", truncate: bool = False) -> None:
        self.path = path.absolute()
        self.name = name or StoredTrace(self.path).name
        self.truncate = truncate
        self._sensors: dict[str, Sensor] = {}

    def __getitem__(self, name: str) -> Sensor:
        """The sensor of that name. Raises UnknownNameError, which says how to make what is not there yet."""
        found = self.find(name)
        if found not in self._sensors:
            self._sensors[found] = Sensor(self.path, found, truncate=self.truncate)
        return self._sensors[found]

    def find(self, name: str) -> str:
        """The whole name of a sensor: the name itself, or with an underscore. Raises UnknownNameError."""
        plain = isinstance(name, str) and name not in ("", ".", "..") and "/" not in name
        for each in (name, f"_{name}") if plain else ():
            if exists(self.path / each / META):
                return each
        raise UnknownNameError(self._unknown(str(name)))

    def synced(
        self, *names: str, complete: bool = True, valid: bool = True, max_dt: float | None = None, reduced: int = 1
    ) -> Synced:
        """Samples of several sensors that belong to the same instants, those of `_sync`.

        Args:
            names: sensors, with or without the underscore, such as `camera`, `lidar_image`; `sensor/channel` for single
                channels, such as `odom/pos`.
            complete: only instants at which every sensor has a sample. Otherwise a sensor without one is None.
            valid: only instants at which every sample can be trusted. Otherwise each sample says whether it can.
            max_dt: largest time between a sample and the instant, s; unless given, the tolerance of `_sync`.
            reduced: pictures are decoded with width and height so many times smaller: 1, 2, 4 or 8.

        Raises:
            UnknownNameError: there is no such sensor or channel, or no `_sync`; the message says how to make it.
            FormatError: `_sync` is not of this recording, or a sensor was made from others than there are now.
        """
        return Synced(self, names, complete=complete, valid=valid, max_dt=max_dt, reduced=reduced)

    @property
    def config(self) -> dict[str, Any]:
        """The recording's `config.yaml`: what the collector was asked for, by sensor, and `rig`; empty without one."""
        return read_collection(self.path)

    @property
    def products(self) -> tuple[str, ...]:
        """Names of the folders of results that are no sensors, such as `_map` and `_report`."""
        with os.scandir(self.path) as entries:
            folders = [entry.name for entry in entries if entry.name.startswith("_") and entry.is_dir()]
        return tuple(sorted(name for name in folders if not exists(self.path / name / META)))

    def product(self, name: str, file: str = "") -> Path:
        """Path of a folder of results, or of a file in it: `trace.product("map", "map.ply")`.

        Raises:
            UnknownNameError: it is not there.
        """
        folder = next((each for each in (name, f"_{name}") if each in self.products), None)
        if folder is None:
            raise UnknownNameError(self._unknown(name))
        path = self.path / folder / file
        if not exists(path):
            names = os.listdir(self.path / folder)
            raise UnknownNameError(f"{path}: no such file; {did_you_mean(file, names)}")
        return path

    def close(self) -> None:
        """Give up what is mapped into memory. The recording can be read again."""
        for sensor in self._sensors.values():
            sensor.close()

    def _unknown(self, name: str) -> str:
        """Why there is no sensor of this name."""
        if any(each in self.products for each in (name, f"_{name}")):
            return f"{self.path}: {name!r} is a folder of files, not a sensor; `trace.product({name!r})` is its path"
        virtual = f"_{name.removeprefix('_')}"
        if virtual in load("rover_pipeline.table:TABLE"):
            return f"{self.path}: has no {virtual} yet; make it: {run_command(self.path, [virtual])}"
        return f"{self.path}: has no sensor {name!r}; {did_you_mean(name, list(self))}"

    def __iter__(self) -> Iterator[str]:
        return iter(StoredTrace(self.path).sensors())

    def __len__(self) -> int:
        return len(StoredTrace(self.path).sensors())

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and bool(self.find(name))
        except UnknownNameError:
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Two traces are the same when they are the same object: comparing all channels would read the whole recording.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __repr__(self) -> str:
        return f"<Trace {self.name}: {', '.join(self)}>"


def run(
    function: Callable[..., Any],
    trace: Trace | str | os.PathLike[str],
    options: Options | Mapping[str, Any] | None = None,
    *,
    write: bool = True,
    threads: int = 1,
) -> Sensor | dict[str, bytes]:
    """Run a function with `@step` on a recording, by the code that the jobs of a run use: the bytes are the same.

    Args:
        function: declared by `@step(sensor="_name", ...)`.
        trace: the recording, opened or as a path. Virtual sensors that the step reads must be there.
        options: of the function; None = its defaults.
        write: put the result beside the raw sensors, where an older one of the same function gives way. Otherwise it is
            in a temporary folder, which is removed when nothing refers to the result any more.
        threads: ranges of frames that are worked on at once.

    Returns:
        The virtual sensor, as `trace["_name"]` gives it; of a step with `products` its files, as bytes by name.

    Raises:
        ConfigError: the function is no step, or the options are wrong.
        InTheWayError: another step has made a result of that name.
        RoverError: the inputs cannot be used, or the function failed.
    """
    step = getattr(function, ATTRIBUTE, None)
    if not isinstance(step, Step) or not step.sensor.startswith("_"):
        raise ConfigError(f'{function!r}: is no step; write @step(sensor="_name", version=1, ...) above the function')
    trace = trace if isinstance(trace, Trace) else open(trace)
    place = trace.path
    values = options.model_dump(mode="json") if isinstance(options, Options) else dict(options or {})
    # A program that only reads recordings, such as a training in an environment of its own, needs no engine.
    run_step, request = (load(f"rover_pipeline.engine.execute:{name}") for name in ("run_step", "Request"))
    with ExitStack() as temporary:
        if write:
            made_by = str((read_provenance(place / step.sensor) or {}).get("step", step.name))
            if made_by.partition(":")[2] != step.name.partition(":")[2]:
                name = f"{place / step.sensor}: was made by the step {made_by}"
                raise InTheWayError(f"{name}; give your step another `sensor`, or use write=False")
        else:
            folder = Path(tempfile.mkdtemp(prefix="rover-pipeline-"))
            temporary.callback(remove_tree, folder)
            place = _linked(trace.path, folder / trace.path.name, step.sensor)
        asked = request(values, InputOptions(truncate=trace.truncate))
        run_step(step, place, step.sensor, asked, threads=threads)
        if step.products:
            return {name: (place / step.sensor / name).read_bytes() for name in step.products}
        made = Sensor(place, step.sensor)
        weakref.finalize(made, temporary.pop_all().close)
        return made


def _linked(recording: Path, folder: Path, besides: str) -> Path:
    """A folder with links to all sensors and files of a recording but one."""
    folder.mkdir()
    for entry in os.scandir(recording):
        if entry.name != besides and not entry.name.startswith("."):
            os.symlink(entry.path, folder / entry.name)
    return folder


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
        if split is None and splits is not None:
            raise ConfigError(f"splits: name the split that is wanted, such as split={SPLITS[0]!r}")
        if split is not None and split not in SPLITS:
            raise UnknownNameError(f"split: there is no {split!r}; {did_you_mean(split, SPLITS)}")
        chosen = self.splits(splits, skip_missing=skip_missing) if split is not None else {}
        parts, missing, some = [], {}, False
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
                some |= len(part) > 0
                part = part.only(apart == SPLITS.index(split))
            parts.append(part)
        samples = Samples(parts, transform, missing)
        if some and not samples:
            blocks = "recordings are shorter than its blocks of time or fewer than its places"
            text = f"no sample is in the split {split!r}: {blocks}; see `splits`, for example splits={{'block_s': 5}}"
            warnings.warn(text, stacklevel=2)
        return samples

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
            raise SampleIndexError(f"has {counted(len(self), 'recording')}; there is no number {key}") from error

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
