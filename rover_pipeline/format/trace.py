"""Traces (each is one recording), folders of traces, and imports into one trace, one after the other."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from rover_pipeline.errors import FormatError, InTheWayError, named_if_not_written, require_damage
from rover_pipeline.format.attempt import scratch
from rover_pipeline.format.channels.base import sync_folders, sync_new_name
from rover_pipeline.format.files import exists, make_folders, replace_file
from rover_pipeline.format.meta import META, read_meta
from rover_pipeline.format.provenance import PROVENANCE, files_of, fingerprint, is_source, read_provenance
from rover_pipeline.format.sensor import TS, Sensor
from rover_pipeline.format.texts import read_collection, read_yaml
from rover_pipeline.format.virtual import in_the_way

CONFIG = "config.yaml"


class Trace:
    """A recording: a directory with a `config.yaml` and one sub-directory per sensor."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        return self.path.resolve().name

    def sensors(self) -> list[str]:
        """Names of all sensors, virtual ones (`_name`) last. A directory without `meta.json` is not a sensor."""
        names = [
            entry.name for entry in os.scandir(self.path) if _is_folder(entry) and _is_sensor(entry.path, True)
        ]  # its reader says that it may not be read
        return sorted(names, key=lambda name: (name.startswith("_"), name))

    def sensor(self, name: str) -> Sensor:
        return Sensor(self.path / name)

    def source(self, sensor: str, channel: str) -> Sensor:
        """The sensor that holds a channel: `sensor`, or `_sensor` where only the published copy has it.

        Public traces keep `camera/ts` but move the anonymised `video.avi` to `_camera/`.
        """
        own = self.sensor(sensor)
        published = self.path / f"_{sensor}"
        if not exists(own.path / channel) and exists(published / channel) and exists(published / META):
            return Sensor(published)
        return own

    def files(self, besides: str) -> Iterator[str]:
        """`folder/file` of all files of sensors and results of ours, without those of the result `besides`."""
        for entry in sorted(os.scandir(self.path), key=lambda entry: entry.name):
            if entry.name in (besides, ".") or entry.name.startswith(".") or not _is_folder(entry):
                continue
            folder, names = self.path / entry.name, {META, PROVENANCE, f"{entry.name}.json"}
            with suppress(FormatError, OSError):
                listed = read_meta(folder) if exists(folder / META) else {}
                names |= {*listed, *(f"{name}_i" for name in listed)}
            with suppress(FormatError, OSError):
                names |= files_of(read_provenance(folder))
            present = (name for name in sorted(names) if not name.startswith(".") and os.path.exists(folder / name))
            yield from (f"{entry.name}/{name}" for name in present)


def channels_of(path: Path) -> Callable[[str], bool]:
    """A function that says whether the recording at `path` has a channel `sensor/channel`.

    A sensor whose `meta.json` is missing or damaged has none: what reads it says why. One without samples has none.
    """
    listed: dict[str, frozenset[str]] = {}

    def has(reference: str) -> bool:
        name, _, channel = reference.partition("/")
        if name not in listed:
            try:
                listed[name] = frozenset() if is_empty(path / name) else frozenset(read_meta(path / name))
            except FormatError as error:
                require_damage(error)
                listed[name] = frozenset()
        return channel in listed[name]

    return has


def is_empty(sensor: Path | str) -> bool:
    """Whether a sensor has no samples: its file of times has no byte."""
    try:
        return os.stat(f"{sensor}/{TS}").st_size == 0
    except OSError:
        return False


def is_trace(path: Path) -> bool:
    """Whether a directory is one recording: it has at least one sensor, or the `config.yaml` of a collector.

    Programs of all kinds have a file of that name. That of a collector lists sensors, or is empty.
    """
    with os.scandir(path) as entries:
        # Others are not: there is `lost+found` in a folder of traces.
        if any(_is_sensor(entry.path, False) for entry in entries if _is_folder(entry)):
            return True
    if not exists(path / CONFIG):
        return False
    try:
        content = read_yaml(path / CONFIG)
    except FormatError as error:
        require_damage(error)
        return False
    listed = content.values() if isinstance(content, dict) else ()
    return content is None or any(isinstance(each, dict) and "type" in each for each in listed)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a directory or a link to one. A link to itself, or to nothing, is not."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_sensor(folder: str, locked: bool) -> bool:
    """Whether a folder is a sensor. `locked`: whether one that may not be looked into counts."""
    try:
        return exists(Path(folder, META))
    except PermissionError:
        return locked


def find_traces(path: Path) -> list[Path]:
    """All traces at or below a directory, sorted. The walk does not go below a trace or into symlinked folders."""
    if is_trace(path):
        return [path]
    traces = []
    for folder, subfolders, files in os.walk(path):
        if CONFIG in files and Path(folder) != path and is_trace(Path(folder)):
            traces.append(Path(folder))
            subfolders.clear()
        # Hidden folders belong to unfinished traces, version control and Snakemake.
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
    return sorted(traces)


def locate_traces(entries: list[str], here: Path, output_root: Path | None) -> dict[Path, Path]:
    """Recordings that the entries of `traces` stand for: directory of results -> directory of the recording.

    With an `output_root` a trace that is an entry itself keeps its name there, one that was found below a folder
    keeps its path from that folder, and one that matches a glob its path from the part without wildcards. Raises
    FormatError where an entry stands for no trace, two traces would have the same directory of results, or that would
    be inside of a sensor.
    """
    located: dict[Path, Path] = {}
    for entry in entries:
        pattern = os.path.join(here, os.path.expanduser(entry))
        is_glob = glob.has_magic(pattern) and not Path(pattern).exists()
        folders = sorted(Path(name) for name in glob.glob(pattern, recursive=True)) if is_glob else [Path(pattern)]
        folders = [Path(os.path.normpath(folder)) for folder in folders if folder.is_dir()]
        if not folders:
            problem = "is a file and no recording" if os.path.isfile(pattern) else "no such directory"
            raise FormatError(f"traces: {entry}: {problem}")
        traces = [trace for folder in folders for trace in find_traces(folder)]
        if not traces:
            raise FormatError(f"traces: {entry}: no folder there has sensors, with their meta.json, or a config.yaml")
        base = Path(os.path.dirname(re.split(r"[*?\[]", pattern)[0])) if is_glob else folders[0]
        for trace in dict.fromkeys(traces):
            relative = trace.relative_to(base) if trace != base else Path(trace.name)
            results = Path(os.path.normpath(output_root / relative)) if output_root else trace
            if output_root and (sensor := enclosing_sensor(results)):
                raise FormatError(f"output_root: {output_root} is inside of the sensor {sensor}; choose another folder")
            if located.get(results, trace) != trace:
                raise FormatError(f"traces: {trace} and {located[results]} would both be called {relative}; rename one")
            located[results] = trace
    return located


def enclosing_sensor(path: Path) -> Path | None:
    """The sensor that a path is in, if it is in one: sensors are only ever read."""
    resolved = path.resolve()
    return next((folder for folder in (resolved, *resolved.parents) if exists(folder / META)), None)


@contextmanager
def new_trace(path: Path) -> Iterator[Path]:
    """A directory to build a new trace in. One rename makes it `path` when the block ends without an error. Raises
    InTheWayError where `path` exists and holds anything (empty folders do not count), or another process is building
    the same trace."""
    path = path.absolute()
    if has_files(path):
        raise InTheWayError(f"{path}: already exists; remove it or choose another name, nothing is overwritten")
    with scratch(path) as made:
        with named_if_not_written(path):
            yield made
            sync_folders(made)
        try:
            # Snakemake makes empty directories before a job starts.
            for folder, _, _ in os.walk(path, topdown=False):
                os.rmdir(folder)
            os.rename(made, path)
        except OSError as error:
            if not has_files(path):
                raise
            raise InTheWayError(f"{path}: appeared while the trace was made ({error.strerror})") from error
        sync_new_name(path)


def link_trace(source: Path, target: Path) -> None:
    """Make `target` a trace with symbolic links to the raw sensors of `source`, so that results can go beside them.

    Every entry of `source` is linked, except the results of this program, which are made again in `target`. A second
    run, even at the same time, changes nothing. Raises InTheWayError where something else is at the path of a link.
    """
    make_folders(target)
    for path in source.absolute().iterdir():
        if path.name.startswith(".") or (path.is_dir() and _is_result(path)):
            continue
        link = target / path.name
        try:
            os.symlink(path, link)
        except FileExistsError as error:
            if not link.is_symlink() or Path(os.readlink(link)) != path:
                raise InTheWayError(f"{link}: is in the way of a link to {path}; move it") from error
    with suppress(FileExistsError):  # readers know a trace by this file
        os.close(os.open(target / CONFIG, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666))


def _is_result(folder: Path) -> bool:
    """Whether one of our steps made a directory, or was killed while it did. A truth, or a reference, is raw data."""
    provenance = read_provenance(folder)
    return not is_source(provenance) if provenance else not in_the_way(folder)


def has_files(path: Path) -> bool:
    """Whether `path` is a file, a link, or a directory that holds more than empty directories."""
    if path.is_symlink() or not path.is_dir():
        return path.is_symlink() or path.exists()
    return any(map(has_files, path.iterdir()))


def require_trace(path: Path) -> Path:
    """The path itself, when it is a trace. Raises FormatError otherwise."""
    if not path.is_dir():
        raise FormatError(f"{path}: no such directory")
    if not is_trace(path):
        raise FormatError(f"{path}: is no trace: it has neither a sensor with a {META} nor a {CONFIG} of sensors")
    return path


#: Traces that are begun for a process in a cage -> the folder to build each in.
_lent: dict[Path, Path | None] = {}


def lend(path: Path, folder: Path | None) -> None:
    """Let `imported_trace` of `path` give a folder of whoever publishes it; None = no more."""
    _lent[path.absolute()] = folder


@contextmanager
def imported_trace(path: Path) -> Iterator[Path]:
    """A directory to build a trace in. It becomes `path`, or its sensors go to the trace that is there already.

    A sensor is moved by one rename, so that it is there whole or not at all, and `config.yaml` last. After a kill in
    between, the same import finishes: a sensor with the bytes that it is about to have stays. Raises InTheWayError
    where `path` holds anything else than a trace, or the trace has one of the sensors already.
    """
    path = path.absolute()
    if lent := _lent.get(path):
        yield lent
        return
    if not has_files(path):
        with new_trace(path) as folder:
            yield folder
        return
    if path.is_symlink() or not path.is_dir() or not is_trace(path):
        raise InTheWayError(f"{path}: already exists and is no trace; remove it or choose another name")
    with scratch(path) as folder, named_if_not_written(path):
        yield folder
        _merge(folder, path)


def _merge(made: Path, trace: Path) -> None:
    sensors = sorted(entry.name for entry in os.scandir(made) if entry.is_dir())
    for name in sensors:
        if os.path.lexists(trace / name) and not _same(made / name, trace / name):
            raise InTheWayError(
                f"{trace / name}: is there already; import into another trace, or move it away. Nothing was changed"
            )
    config = _merged(read_collection(trace), read_collection(made))
    replace_file(made / CONFIG, yaml.safe_dump(config, sort_keys=False))
    moved: list[str] = []
    try:
        for name in sensors:
            if not os.path.lexists(trace / name):
                sync_folders(made / name)
                os.rename(made / name, trace / name)
                moved.append(name)
        os.replace(made / CONFIG, trace / CONFIG)
    except OSError:
        for name in moved:
            os.rename(trace / name, made / name)
        raise
    sync_new_name(trace / CONFIG)


def _same(made: Path, there: Path) -> bool:
    """Whether two sensors have the same files of the same bytes, as far as their fingerprints show."""
    if there.is_symlink() or not there.is_dir() or sorted(os.listdir(made)) != sorted(os.listdir(there)):
        return False
    return all(fingerprint(made / name) == fingerprint(there / name) for name in os.listdir(made))


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Two configurations: extrinsics are joined, what they were imported from is listed one after the other."""
    merged = {**old, **new}
    if isinstance(old.get("rig"), dict) and isinstance(new.get("rig"), dict):
        merged["rig"] = {**old["rig"], **new["rig"]}
    listed = (config.get("imported") or [] for config in (old, new))
    origins = [each for some in listed for each in (some if isinstance(some, list) else [some])]
    unique = [each for number, each in enumerate(origins) if each not in origins[:number]]
    merged |= {"imported": unique} if unique else {}
    if old.get("comment") and new.get("comment") and old["comment"] != new["comment"]:
        merged["comment"] = f"{old['comment']}; {new['comment']}"
    return merged
