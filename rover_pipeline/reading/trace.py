"""One recording, opened for reading: its sensors by name, its samples in time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from rover_pipeline.errors import FormatError, UnknownNameError, did_you_mean
from rover_pipeline.format.files import exists
from rover_pipeline.format.meta import META
from rover_pipeline.format.stale import run_command
from rover_pipeline.format.texts import read_yaml
from rover_pipeline.format.trace import CONFIG, locate_traces, require_trace
from rover_pipeline.format.trace import Trace as StoredTrace
from rover_pipeline.lookup import load
from rover_pipeline.reading.sensor import Sensor
from rover_pipeline.reading.synced import Synced


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
        try:
            content = read_yaml(self.path / CONFIG)
        except FileNotFoundError:
            return {}
        return content if isinstance(content, dict) else {}

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
