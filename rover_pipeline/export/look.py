"""The commands `info` and `check`, for traces and for exported datasets."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rover_pipeline.draw.formatting import count
from rover_pipeline.errors import ConfigError, RoverError, describe, one_line, printable
from rover_pipeline.export.read_back import as_text as dataset_as_text
from rover_pipeline.export.read_back import dataset_info, dataset_problems, recognise
from rover_pipeline.format.trace import is_trace, locate_traces
from rover_pipeline.lookup import load

if TYPE_CHECKING:
    from rover_pipeline.validation.against import Against


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
        described.append(dataset_info(dataset))
        texts.append(dataset_as_text(described[-1]))
    print(json.dumps(described, indent=2) if as_json else printable("\n".join(texts)))
    return int(failed)


def print_problems(entries: Sequence[str], as_json: bool, threads: int, against: Against | None = None) -> int:
    """Print one line for each problem of traces and datasets. Returns the exit status.

    Args:
        against: what the trajectories of the traces are compared with, if they are; a line each is printed too.

    Raises:
        ConfigError: one reference is given for several traces.
    """
    problems = load("rover_pipeline.validation.check:problems")
    traces, datasets = _traces_and_datasets(entries)
    if against is not None and against.path is not None and len(traces) != 1:
        raise ConfigError(f"check: --against {against.path} is of one trace, and {len(traces)} are given")
    found = [(trace, problems(trace, threads)) for trace in traces]
    found += [(each, dataset_problems(each)) for each in datasets]
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
        kinds = [count(len(traces), "trace")] if traces or not datasets else []
        kinds += [count(len(datasets), "dataset")] if datasets else []
        print(f"rover-pipeline: {', '.join(kinds)}, {count(printed, 'problem')}", file=sys.stderr)
    return 1 if printed else 0


def _compared(trace: Path, against: Against, comparisons: dict[str, Any], as_json: bool) -> Iterator[str]:
    """Compare a trace with its reference, print what is found or put it into `comparisons`, and give the problems."""
    compare_trace, text_of = (
        load(f"rover_pipeline.validation.against:{name}") for name in ("compare_trace", "text_of")
    )
    for each in compare_trace(trace, against):
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


def _traces_and_datasets(entries: Sequence[str]) -> tuple[list[Path], list[Path]]:
    """The traces and the exported datasets that entries stand for. A trace may hold a dataset's files too."""
    datasets = [Path(os.path.normpath(entry)) for entry in entries if recognise(Path(entry)) is not None]
    rest = [entry for entry in entries if Path(os.path.normpath(entry)) not in datasets or is_trace(Path(entry))]
    traces = locate_traces(rest, Path(), None) if rest else ()
    return list(traces), datasets
