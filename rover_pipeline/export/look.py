"""The commands `info` and `check`, for traces and for exported datasets."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rover_pipeline.errors import RoverError, describe, one_line
from rover_pipeline.export.read_back import as_text as dataset_as_text
from rover_pipeline.export.read_back import dataset_info, dataset_problems, recognise
from rover_pipeline.format.trace import is_trace, locate_traces
from rover_pipeline.lookup import load


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
    print(json.dumps(described, indent=2) if as_json else "\n".join(texts))
    return int(failed)


def print_problems(entries: Sequence[str], as_json: bool, threads: int) -> int:
    """Print one line for each problem of traces and datasets. Returns the exit status."""
    problems = load("rover_pipeline.validation.check:problems")
    traces, datasets = _traces_and_datasets(entries)
    found = [(trace, problems(trace, threads)) for trace in traces]
    found += [(each, dataset_problems(each)) for each in datasets]
    count = 0
    by_folder: dict[str, list[str]] = {}
    for folder, lines in found:
        listed = by_folder.setdefault(str(folder), [])
        for problem in _until_error(lines, folder):
            count += 1
            listed.append(problem)
            if not as_json:
                print(problem, flush=True)
    if as_json:
        print(json.dumps(by_folder, indent=2))
    else:
        kinds = [_count(len(traces), "trace")] if traces or not datasets else []
        kinds += [_count(len(datasets), "dataset")] if datasets else []
        print(f"rover-pipeline: {', '.join(kinds)}, {_count(count, 'problem')}", file=sys.stderr)
    return 1 if count else 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


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
