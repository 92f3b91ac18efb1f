"""The commands `info` and `check`, for traces and for exported datasets."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rover_pipeline.datasets.table import DATASETS, DatasetFormat
from rover_pipeline.draw.formatting import count as counted
from rover_pipeline.errors import ConfigError, FormatError, RoverError, describe, naming, one_line, printable
from rover_pipeline.export.contents import MAX_BYTES
from rover_pipeline.export.layout import Layout
from rover_pipeline.export.output import known_states, merged_provenance, tree_state
from rover_pipeline.format.files import regular_size
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.trace import is_trace, locate_traces
from rover_pipeline.lookup import load

if TYPE_CHECKING:
    from rover_pipeline.validation.against import Against


# Exported datasets read back: which format a folder has, what it holds, and whether it follows its format's rules.

#: Endings of files that are read by parts.
_ANY_SIZE = (".zip", ".arrow")


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
        found = (glob.iglob(mark, root_dir=folder, include_hidden=True) for mark in marks)
        if marks and not (is_recording and each.kind == "merge") and all(next(paths, None) for paths in found):
            return each
    return None


def _loaded(name: str) -> DatasetFormat | None:
    """A format, unless its package is broken: it need not be the one of the folder that is looked at."""
    with contextlib.suppress(ConfigError):
        return DATASETS[name]
    return None


def dataset_info(folder: Path, format: DatasetFormat) -> dict[str, Any]:
    """What a dataset of a format holds, as JSON can hold it."""
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


def dataset_problems(folder: Path, format: DatasetFormat) -> Iterator[str]:
    """One line for each rule of its format that a dataset breaks, and for files that changed after the export."""
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
                f"{folder}: is not as it was exported: {counted(now['count'], 'file')} of {now['bytes']:,} bytes, "
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
    for path in (Path(place, name) for place, _, names in os.walk(folder) for name in names):
        with naming(f"{path}: cannot be read", OSError, remedy="; export it again"):
            size = regular_size(path)
        if size > MAX_BYTES and path.suffix not in _ANY_SIZE:
            text = f"has {size:,} bytes, more than the {MAX_BYTES:,} of any such file; export it again"
            raise FormatError(f"{path}: {text}")


@contextlib.contextmanager
def _of_others(folder: Path, format: DatasetFormat) -> Iterator[None]:
    """Turns what a parser raises into FormatError. Any program may have written the files, and each library that parses
    them raises errors of its own classes. So everything that reading raises is about the dataset."""
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


def print_info(entries: Sequence[str], as_json: bool) -> int:
    """Print what is in traces and datasets. Returns the exit status."""
    describe_trace = load("rover_pipeline.format.info:trace_info")
    described, failed = [], False
    traces, datasets = _traces_and_datasets(entries)
    for trace in traces:
        try:
            described.append(describe_trace(trace))
        except (RoverError, OSError) as error:  # the other traces are described all the same
            print(f"rover-pipeline: {trace}: {describe(error)}", file=sys.stderr)
            failed = True
    texts = list(map(load("rover_pipeline.format.info:as_text"), described))
    for dataset in datasets:
        described.append(dataset_info(*dataset))
        texts.append(as_text(described[-1]))
    print(json.dumps(described, indent=2) if as_json else printable("\n".join(texts)))
    return int(failed)


def print_problems(entries: Sequence[str], as_json: bool, threads: int, against: Against | None = None) -> int:
    """Print one line for each problem of traces and datasets, and for each trajectory of the traces that is compared
    with another one, `against`. Returns the exit status. Raises ConfigError where one reference is given for several
    traces."""
    problems = load("rover_pipeline.validation.check:problems")
    traces, datasets = _traces_and_datasets(entries)
    if against is not None and against.path is not None and len(traces) != 1:
        raise ConfigError(f"check: --against {against.path} is of one trace, and {len(traces)} are given")
    found = [(trace, problems(trace, threads)) for trace in traces]
    found += [(folder, dataset_problems(folder, format)) for folder, format in datasets]
    printed = 0
    by_folder: dict[str, Any] = {}
    for folder, lines in found:
        listed: list[str] = []
        comparisons: dict[str, Any] = {}
        if against is not None and folder in traces:
            lines = chain(lines, _compared(folder, against, comparisons, as_json))
        for problem in _until_error(lines, folder):
            printed += 1
            listed.append(problem)
            if not as_json:
                print(problem, flush=True)
        by_folder[str(folder)] = listed if against is None else {"problems": listed, "against": comparisons}
    if as_json:
        print(json.dumps(by_folder, indent=2))
    else:
        unused = load("rover_pipeline.validation.unused:unused_sensors")
        for note in (note for trace in traces for note in unused(trace)):
            print(printable(f"rover-pipeline: {note}"), file=sys.stderr)
        kinds = [counted(len(traces), "trace")] if traces or not datasets else []
        kinds += [counted(len(datasets), "dataset")] if datasets else []
        print(f"rover-pipeline: {', '.join(kinds)}, {counted(printed, 'problem')}", file=sys.stderr)
    return 1 if printed else 0


def _compared(trace: Path, against: Against, comparisons: dict[str, Any], as_json: bool) -> Iterator[str]:
    """Compare a trace with its reference, print what is found or put it into `comparisons`, and give the problems."""
    text_of = load("rover_pipeline.validation.against:text_of")
    for each in load("rover_pipeline.validation.against:compare_trace")(trace, against):
        other = f"{each.sensor} against {Path(each.against).name}" if each.sensor in comparisons else each.sensor
        comparisons[other] = each.as_json()
        if not as_json:
            print(text_of(each, trace), flush=True)
        yield from each.problems


def _until_error(problems: Iterator[str], trace: Path) -> Iterator[str]:
    """Problems of a trace as single lines, and the error that ended its check, if one did."""
    try:
        yield from map(one_line, problems)
    except (RoverError, OSError) as error:
        yield f"{trace}: cannot be checked further: {describe(error)}"


def _traces_and_datasets(entries: Sequence[str]) -> tuple[list[Path], list[tuple[Path, DatasetFormat]]]:
    """The traces, and the exported datasets with their formats, that entries stand for. A trace may hold a dataset's
    files too."""
    formats = {entry: recognise(Path(entry)) for entry in entries}
    datasets = [(Path(os.path.normpath(entry)), format) for entry in entries if (format := formats[entry])]
    rest = [entry for entry in entries if not formats[entry] or is_trace(Path(entry))]
    traces = locate_traces(rest, Path(), None) if rest else ()
    return list(traces), datasets
