"""Imports into one trace, one after the other: the lidar today, the radar tomorrow."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from rover_pipeline.errors import InTheWayError, named_if_not_written
from rover_pipeline.format.attempt import scratch
from rover_pipeline.format.channels.base import sync_folders, sync_new_name
from rover_pipeline.format.files import replace_file
from rover_pipeline.format.provenance import fingerprint
from rover_pipeline.format.texts import MAX_YAML_BYTES, parse_collection, read_text
from rover_pipeline.format.trace import CONFIG, has_files, is_trace, new_trace

#: Traces that are begun for a process in a cage -> the folder to build each in.
_lent: dict[Path, Path | None] = {}


def lend(path: Path, folder: Path | None) -> None:
    """Let `imported_trace` of `path` give a folder of whoever publishes it; None = no more."""
    _lent[path.absolute()] = folder


@contextmanager
def imported_trace(path: Path) -> Iterator[Path]:
    """A directory to build a trace in. It becomes `path`, or its sensors go to the trace that is there already.

    A sensor is moved by one rename, so that it is there whole or not at all, and `config.yaml` last. After a kill in
    between, the same import finishes: a sensor with the bytes that it is about to have stays.

    Raises:
        InTheWayError: `path` holds anything else than a trace, or the trace has one of the sensors already.
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
    config = _merged(_config(trace), _config(made))
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


def _config(trace: Path) -> dict[str, Any]:
    path = trace / CONFIG
    return parse_collection(read_text(path, MAX_YAML_BYTES), str(path)) if path.exists() else {}


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Two configurations: extrinsics are joined, what they were imported from is listed one after the other."""
    merged = {**old, **new}
    if isinstance(old.get("rig"), dict) and isinstance(new.get("rig"), dict):
        merged["rig"] = {**old["rig"], **new["rig"]}
    origins = [each for config in (old, new) for each in _listed(config.get("imported"))]
    unique = [each for number, each in enumerate(origins) if each not in origins[:number]]
    merged |= {"imported": unique} if unique else {}
    if old.get("comment") and new.get("comment") and old["comment"] != new["comment"]:
        merged["comment"] = f"{old['comment']}; {new['comment']}"
    return merged


def _listed(origin: Any) -> list[Any]:
    if origin is None:
        return []
    return list(origin) if isinstance(origin, list) else [origin]
