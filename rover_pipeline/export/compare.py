"""`compare`: two runs beside one another, or a recording and a reference trajectory, as a page and as figures."""

from __future__ import annotations

import filecmp
import json
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.draw import charts
from rover_pipeline.errors import ConfigError, FormatError
from rover_pipeline.export.output import new_output
from rover_pipeline.format.files import exists
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import PROVENANCE, is_source, read_provenance
from rover_pipeline.format.trace import find_traces, is_trace
from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.report.templating import environment
from rover_pipeline.validation.accuracy import MIN_ALIGNED, compare, errors, relative_by_way
from rover_pipeline.validation.against import Against, Given, beside, fitting, plain, references, trajectories
from rover_pipeline.workflow.worlds import flat

#: How paths are laid over one another, for the page.
ALIGNED = "moved and turned as one, without a scale, so that its positions fit those of B best (Umeyama)"


def compare_command(a: Path, b: Path, out: Path | None, as_json: bool, offset: float = 0.0) -> None:
    """Write the page of a comparison to `out`, and print its figures if they are wanted. Raises ConfigError and
    FormatError where they cannot be compared, and InTheWayError where `out` is there already.

    Args:
        a: a recording with results, or a folder of them; b: another one of the same kind, or a path of the recording:
            a file (TUM, KITTI) or a sensor with `pos` and `rot`.
        offset: seconds that are added to the times of B.
    """
    if out is None and not as_json:
        raise ConfigError("compare: give a file for the page, -o OUT.html, or --json for figures")
    found, numbers = [], count()
    for name, first, second in _pairs(a, b):
        trajectories = dict(_trajectories(first, second, offset, draw=out is not None, numbers=numbers))
        runs = _runs(first, second) if _is_run(second) else {}
        found.append({"recording": name, "trajectories": trajectories, **runs})
    if not any(each["trajectories"] or each.get("results") for each in found):
        raise FormatError(f"{a}, {b}: have no result in common that could be compared")
    if out is not None:
        html = environment().get_template("compare.html").render(a=a, b=b, recordings=found, aligned=ALIGNED)
        with new_output(out) as scratch:
            scratch.write_text(html, encoding="utf-8")
    if as_json:
        for each in found:
            for figures in each["trajectories"].values():
                figures.pop("charts", None)
        print(json.dumps({"a": str(a), "b": str(b), "aligned": ALIGNED, "recordings": found}, indent=2))
    else:
        print(out)


def _pairs(a: Path, b: Path) -> list[tuple[str, Path, Path]]:
    """Recordings that are in both, by their names below the folders given."""
    if not a.is_dir() or exists(a / META):
        raise ConfigError(f"compare: {a}: the first one must be a recording with results, or a folder of them")
    if is_trace(a) and (not b.is_dir() or exists(b / META) or is_trace(b)):
        return [(a.resolve().name, a, b)]
    first, second = ({str(each.relative_to(path)): each for each in find_traces(path)} for path in (a, b))
    if not (common := sorted(first.keys() & second.keys())):
        raise FormatError(f"{a}, {b}: have no recording of the same name")
    return [(name, first[name], second[name]) for name in common]


def _trajectories(
    a: Path, b: Path, offset: float, *, draw: bool, numbers: Iterator[int]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Figures, and charts if wanted, of each trajectory of `a` that something in `b` can be compared with."""
    is_run = _is_run(b)
    for name in trajectories(a):
        if is_run and not exists(b / name / META):
            continue
        try:
            given = list(references(a, Against(b / name if is_run else b, offset)))
            found = (given[0], None, ()) if is_run else next(fitting(a, name, given), None)
        except FormatError as error:  # no pose of it is valid
            if not is_run:
                raise
            yield name, {"notes": [str(error)]}
            continue
        if found:
            yield name, _figures(a, name, *found, next(numbers) if draw else None)


def _is_run(path: Path) -> bool:
    """Whether a path is a recording with results, and no file or sensor with poses."""
    return path.is_dir() and not exists(path / META)


def _figures(
    trace: Path, name: str, given: Given, mount: Mount | None, notes: tuple[str, ...], number: int | None
) -> dict[str, Any]:
    """How far one trajectory is from another one; charts are drawn where they have a number."""
    found, wanted, known = beside(trace, name, given, mount)
    both = found.valid & known
    figures = plain(compare(found.ts, found.poses, found.valid, wanted, known))
    figures |= {"against": given.name, "notes": [*notes]}
    if both.sum() < MIN_ALIGNED:
        figures["notes"].append("fewer than three poses are valid in A at times that B knows: nothing can be compared")
        return figures
    ours, theirs = found.poses.select(both), wanted.select(both)
    alignment, apart, turned = errors(ours, theirs)
    by_way = relative_by_way(found.ts[both], ours, theirs)
    figures["turned_deg"] = float(np.degrees(np.arccos(np.clip((np.trace(alignment.rot) - 1) / 2, -1, 1))))
    figures["relative"] = {f"{metres:g}": plain(each) for metres, each in by_way.items()}
    if number is not None:
        over_time = np.full((2, len(found.ts)), np.nan)
        over_time[:, both] = np.round((apart, turned), 6)  # what is less is rounding
        path = np.where(both[:, None], alignment.of(found.poses.pos), np.nan)
        other = np.where(known[:, None], wanted.pos, np.nan)
        curves = [
            charts.Curve(title, found.ts, values, "accent")
            for title, values in zip(("distance, m", "angle, degrees"), over_time, strict=True)
        ]
        span = float(found.ts[0]), float(found.ts[-1])
        label = f"Distance and angle between both, {name}, over time"
        figures["charts"] = [
            charts.paths(path[:, :2], other[:, :2], ("A", "B"), f"paths-{number}"),
            charts.curve_rows(f"errors-{number}", label, curves, span),
        ]
    return figures


def _runs(a: Path, b: Path) -> dict[str, Any]:
    """What differs between the results of two runs."""
    made = [_results(each) for each in (a, b)]
    common = [name for name in made[0] if name in made[1]]
    return {
        "only_a": [name for name in made[0] if name not in made[1]],
        "only_b": [name for name in made[1] if name not in made[0]],
        "results": {name: _differences(a / name, b / name, made[0][name], made[1][name]) for name in common},
    }


def _results(trace: Path) -> dict[str, dict[str, Any]]:
    """Results of the workflow, but the page -> their provenance."""
    names = sorted(entry.name for entry in os.scandir(trace) if entry.name.startswith("_") and entry.is_dir())
    found = {name: read_provenance(trace / name) for name in names if name != "_report"}
    return {name: each for name, each in found.items() if each and not is_source(each)}


def _differences(a: Path, b: Path, made_a: dict[str, Any], made_b: dict[str, Any]) -> dict[str, Any]:
    """What differs between two results of one name: files, options, versions, and shares of valid samples."""
    files = [{path.name for path in folder.iterdir() if path.is_file() and path.name[0] != "."} for folder in (a, b)]
    names = sorted((files[0] | files[1]) - {PROVENANCE})
    same = [name for name in names if name in files[0] & files[1] and filecmp.cmp(a / name, b / name, shallow=False)]
    options = [flat(each.get("options", {})) for each in (made_a, made_b)]
    versions = [{"step": each.get("version"), **each.get("packages", {})} for each in (made_a, made_b)]
    return {
        "files_that_differ": [name for name in names if name not in same],
        "valid": [1 - each["invalid"] / each["samples"] if each.get("samples") else None for each in (made_a, made_b)],
        "options": _unlike(*options),
        "versions": _unlike(*versions),
    }


def _unlike(a: dict[str, Any], b: dict[str, Any]) -> dict[str, list[Any]]:
    """Keys whose values differ -> both values; None = it has none."""
    return {key: [a.get(key), b.get(key)] for key in {**a, **b} if a.get(key) != b.get(key)}
