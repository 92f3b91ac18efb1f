"""Exported datasets read back: which format a folder has, what it holds, and whether it follows its format's rules."""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rover_pipeline.datasets.table import DATASETS, DatasetFormat
from rover_pipeline.errors import ConfigError, FormatError, RoverError, one_line
from rover_pipeline.export.dataset_output import known_states, merged_provenance, tree_state
from rover_pipeline.export.layout import Layout
from rover_pipeline.format.files import regular_size
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.trace import is_trace
from rover_pipeline.lookup import load

#: Bytes of a file that parsers may read whole. Ten hours of poses as text have 60 MB. Others are read by parts.
#: Schedule.
_MAX_BYTES, _ANY_SIZE = 1 << 27, (".zip", ".arrow")


def recognise(folder: Path) -> DatasetFormat | None:
    """The format of a dataset, ours or somebody else's; None when it is none of the known ones."""
    if not folder.is_dir():
        return None
    # Published recordings have files of a format that merges, and are traces first of all.
    is_recording = is_trace(folder)
    formats = [each for name in (DATASETS.own if is_recording else DATASETS) if (each := _loaded(name))]
    for each in formats:
        with contextlib.suppress(FormatError):  # `dataset_problems` reports a provenance that cannot be read
            if (_provenance(folder, each) or {}).get("format") == each.name:
                return each
    for each in formats:
        marks = [mark.replace("{name}", glob.escape(folder.resolve().name)) for mark in each.marks]
        if marks and not (is_recording and each.kind == "merge") and all(_matches(folder, mark) for mark in marks):
            return each
    return None


def _loaded(name: str) -> DatasetFormat | None:
    """A format, unless its package is broken: it need not be the one of the folder that is looked at."""
    with contextlib.suppress(ConfigError):
        return DATASETS[name]
    return None


def _matches(folder: Path, pattern: str) -> bool:
    return next(glob.iglob(pattern, root_dir=folder, include_hidden=True), None) is not None


def dataset_info(folder: Path) -> dict[str, Any]:
    """What a dataset holds, as JSON can hold it. Raises FormatError when it is no dataset of a known format."""
    format = _require(folder)
    provenance = _provenance(folder, format) or {}
    with _of_others(folder, format):
        figures = _of_module(format, "describe", load(f"{format.module}:LAYOUT").counts)(folder)
    return {
        "path": str(folder),
        "format": format.name,
        **figures,
        "recordings": sorted(provenance.get("recordings", {})),
        "notes": provenance.get("notes", []),
    }


def as_text(info: dict[str, Any]) -> str:
    """The same for people."""
    lines = [f"{info['path']}: {info['format']} dataset"]
    for key, value in info.items():
        if key in ("path", "format") or value in ([], {}, None):
            continue
        if isinstance(value, dict):
            shown = ", ".join(f"{name} {_number(each)}" for name, each in value.items())
        elif isinstance(value, list):
            shown = ", ".join(map(str, value[:8])) + (f" and {len(value) - 8} more" if len(value) > 8 else "")
        else:
            shown = _number(value)
        lines.append(f"  {key.replace('_', ' ')}: {shown}")
    return "\n".join(lines)


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def dataset_problems(folder: Path) -> Iterator[str]:
    """One line for each rule of its format that a dataset breaks, and for files that changed after the export."""
    format = _require(folder)
    provenance = None
    try:
        provenance = _provenance(folder, format)
    except FormatError as error:
        yield str(error)
    if provenance is not None and format.kind != "merge":
        then, now = provenance.get("files"), tree_state(folder)
        if now not in known_states(provenance):
            before = then.get("count") if isinstance(then, dict) else None
            yield (
                f"{folder}: is not as it was exported: {now['count']} files of {now['bytes']:,} bytes, "
                f"{before} files were written; export it again"
            )
    try:
        with _of_others(folder, format):
            yield from format_problems(format, folder)
    except FormatError as error:
        yield str(error)


def format_problems(format: DatasetFormat, folder: Path) -> Iterator[str]:
    """One line for each rule of its format that a folder breaks."""
    layout: Layout = load(f"{format.module}:LAYOUT")
    yield from layout.problems(folder, _of_module(format, "relations", None))


def _of_module(format: DatasetFormat, name: str, otherwise: Any) -> Any:
    """A function that the module of a format need not have."""
    try:
        return load(f"{format.module}:{name}")
    except AttributeError:
        return otherwise


def _require_readable(folder: Path) -> None:
    """Raise FormatError for what no parser should open: named pipes, devices, and files larger than any of ours."""
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            try:
                size = regular_size(path)
            except OSError as error:
                raise FormatError(f"{path}: cannot be read: {error.strerror or error}; export it again") from error
            if size > _MAX_BYTES and path.suffix not in _ANY_SIZE:
                raise FormatError(
                    f"{path}: has {size:,} bytes, more than the {_MAX_BYTES:,} of any such file; export it again"
                )


@contextlib.contextmanager
def _of_others(folder: Path, format: DatasetFormat) -> Iterator[None]:
    """Turns what a parser raises into FormatError.

    Any program may have written the files, and each library that parses them raises errors of its own classes. So
    everything that reading raises is about the dataset.
    """
    _require_readable(folder)
    try:
        yield
    except RoverError:
        raise
    except Exception as error:
        raise FormatError(
            f"{folder}: cannot be read as {format.name}: {type(error).__name__} {one_line(str(error))}; export it again"
        ) from error


def _provenance(folder: Path, format: DatasetFormat) -> dict[str, Any] | None:
    own = merged_provenance(folder, format.name) if format.kind == "merge" else folder
    return read_provenance(own) if os.path.isdir(own) else None


def _require(folder: Path) -> DatasetFormat:
    if (format := recognise(folder)) is None:
        known = ", ".join(DATASETS)
        raise FormatError(f"{folder}: is neither a trace nor a dataset of a known format ({known})")
    return format
