"""A capture in the place of a recording: it is imported beside itself, once, and then a recording as any other."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from itertools import islice
from pathlib import Path

from rover_pipeline.caches import can_be_written
from rover_pipeline.errors import InTheWayError, RoverError, one_line
from rover_pipeline.format.files import make_folders, opened_regular
from rover_pipeline.format.provenance import fingerprint
from rover_pipeline.format.texts import MAX_YAML_BYTES, parse_collection, read_text
from rover_pipeline.format.trace import CONFIG, has_files, is_trace
from rover_pipeline.lookup import load

#: Endings of captures -> the import that takes them.
_ENDINGS = {".osf": "ouster", ".pcap": "pcap", ".bag": "ros", ".mcap": "ros", ".db3": "ros"}
#: Files and folders that a folder is known by.
_FOLDERS = {"metadata.yaml": "ros", "velodyne_points": "kitti", "image_00": "kitti", "image_02": "kitti"}
#: Number of packets of a capture that are looked at: other devices may have sent the first ones. Tuned: by hand.
_PACKETS = 1000


def kind_of(path: Path) -> str:
    """The import that takes a path: `ouster`, `velodyne`, `ros` or `kitti`; "" where it is no capture."""
    if path.is_dir():
        found = [kind for name, kind in _FOLDERS.items() if (path / name).exists()]
        return found[0] if found and not is_trace(path) else ""
    kind = _ENDINGS.get(path.suffix.lower(), "") if path.is_file() else ""
    return ("velodyne" if _is_velodyne(path) else "ouster") if kind == "pcap" else kind


def trace_of(capture: Path, folder: Path | None) -> Path:
    """Where the recording of a capture goes: `NAME.trace` in a folder, or beside it, NAME without the file's ending."""
    return (folder or capture.parent) / f"{capture.name if capture.is_dir() else capture.stem}.trace"


def with_imports(paths: Sequence[str], kinds: Mapping[str, str], root: Path | None, *, dry_run: bool) -> list[str]:
    """Paths with the recordings of captures in the places of these.

    Args:
        kinds: path of a capture -> the import that takes it.
        root: folder that the imports go to; None = beside the captures.
        dry_run: only say what would be imported.
    """
    found = []
    for path in paths:
        if path not in kinds:
            found.append(path)
            continue
        trace = trace_of(Path(path), root)
        if dry_run and not has_files(trace):
            _say(f"rover-pipeline: would import {path} as {trace}")
        else:
            found.append(str(imported(Path(path), kinds[path], trace)))
    return found


def imported(capture: Path, kind: str, trace: Path) -> Path:
    """The recording of a capture, which is imported unless it is there already.

    Raises:
        InTheWayError: there is something else, or what was imported from another capture.
        RoverError: nothing can be written there, or the capture cannot be imported.
    """
    if has_files(trace):
        if not _is_from(trace, capture):
            raise InTheWayError(f"{trace}: was not imported from {capture} as it is now; move it away")
        return trace
    if not can_be_written(trace.parent):
        command = f"rover-pipeline import {kind} {capture} -o TRACE"
        raise RoverError(
            f"{trace.parent}: cannot be written to; `--config output_root=DIR` puts the recording into DIR, "
            f"or `{command}` where you like"
        )
    make_folders(trace.parent)
    words = ["import", kind, str(capture), "-o", str(trace)]
    with redirect_stdout(sys.stderr):
        load("rover_pipeline.importers.apart:run_import")(load("rover_pipeline.cli:build_parser")().parse_args(words))
    _say(f"{trace}: imported from {capture.name}")
    return trace


def _is_from(trace: Path, capture: Path) -> bool:
    """Whether a recording was made from a capture as it is now, as its `config.yaml` and the fingerprints say."""
    path = trace / CONFIG
    origins = parse_collection(read_text(path, MAX_YAML_BYTES), str(path)).get("imported") if path.is_file() else None
    for origin in origins if isinstance(origins, list) else [origins]:
        sources = origin.get("from") if isinstance(origin, dict) else None
        if isinstance(sources, dict) and sources:
            return all(_is_as_it_was(capture, str(name), state) for name, state in sources.items())
    return False


def _is_as_it_was(capture: Path, name: str, state: object) -> bool:
    places = [capture] if name == capture.name else [capture.parent / name, *capture.glob(f"*/{name}")]
    return any(fingerprint(place) == state for place in places if place.exists())


def _is_velodyne(capture: Path) -> bool:
    """Whether one of the first packets of a `.pcap` is of a Velodyne."""
    datagrams, is_data = (load(f"rover_pipeline.importers.velodyne:{name}") for name in ("datagrams", "is_data"))
    with opened_regular(capture) as descriptor, open(descriptor, "rb", closefd=False) as file:
        found = datagrams(file, capture, os.fstat(descriptor).st_size, True, lambda text: None)
        return any(is_data(each.data) for each in islice(found, _PACKETS))


def _say(text: str) -> None:
    print(one_line(text), file=sys.stderr, flush=True)
