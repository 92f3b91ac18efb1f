"""How the results of a trace were processed: what the `provenance.json` of each says."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from rover_pipeline.errors import unless_damaged
from rover_pipeline.format.provenance import left_out, read_provenance
from rover_pipeline.report.summary import StepSummary

#: Longest text of a measured value on the page, characters: a list of a thousand numbers is not for people.
_MAX_TEXT = 60


def read_provenances(trace: Path, without: str) -> dict[str, dict[str, Any]]:
    """Content of `provenance.json` of every result of this package by folder name; `without` is left out."""
    names = sorted(entry.name for entry in os.scandir(trace) if entry.name.startswith("_") and entry.name != without)
    provenances: dict[str, dict[str, Any]] = {}
    for name in names:
        with unless_damaged():  # `check`, whose lines are on the page, names the damaged ones
            if content := read_provenance(trace / name):
                provenances[name] = {key: value for key, value in content.items() if _is_whole(key, value)}
    return provenances


def _is_whole(key: str, value: object) -> bool:
    """Whether a part of a provenance is of the type that it has in ours. A damaged part is left out of the page."""
    if key in ("time", "options", "input", "inputs", "measured", "packages"):
        return isinstance(value, dict)
    return not isinstance(value, dict) and (key != "version" or isinstance(value, (int, str)))


def summarise_steps(trace: Path, provenances: Mapping[str, Mapping[str, Any]]) -> list[StepSummary]:
    """The steps in the order in which they were started; those without a start time come first."""
    steps = []
    for name, content in provenances.items():
        time, notes = content.get("time", {}), content.get("notes")
        seconds = time.get("seconds")
        counts = {key: content.get(key) for key in ("samples", "invalid", "corrupt", "dropped")}
        steps.append(
            StepSummary(
                sensor=name,
                step=str(content.get("step", "?")),
                version=content.get("version", "?"),
                bytes=_folder_bytes(trace / name),
                seconds=seconds if isinstance(seconds, (int, float)) else None,
                started=str(time.get("started", "")),
                notes=tuple(map(str, notes)) if isinstance(notes, list) else (),
                left_out=left_out(content),
                **{key: count for key, count in counts.items() if isinstance(count, int)},
            )
        )
    return sorted(steps, key=lambda step: (step.started, step.sensor))


def working_seconds(steps: Sequence[StepSummary]) -> float:
    """How long the steps took together, s. What was made at the same time counts once."""
    total, until = 0.0, 0.0
    for step in steps:
        with suppress(ValueError):
            begin = max(until, datetime.fromisoformat(step.started).timestamp())
            end = datetime.fromisoformat(step.started).timestamp() + (step.seconds or 0.0)
            total, until = total + max(0.0, end - begin), max(until, end)
    return total


def _folder_bytes(folder: Path) -> int:
    """Bytes of all files in a folder and its subfolders. Hidden files at its top are temporary and do not count."""
    paths = (path for path in folder.rglob("*") if not path.relative_to(folder).parts[0].startswith("."))
    return sum(path.stat().st_size for path in paths if path.is_file())


def package_versions(provenances: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Versions of each package; several if the package was updated between two steps."""
    packages: dict[str, set[str]] = {}
    for content in provenances.values():
        for name, version in (content.get("packages") or {}).items():
            packages.setdefault(str(name), set()).add(str(version))
    return {name: sorted(versions) for name, versions in sorted(packages.items())}


def measured_values(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """What a step measured, by name."""
    values = provenance.get("measured")
    return values if isinstance(values, dict) else {}


def measured_texts(provenance: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and values, as text, of what a step measured, as far as the text is short."""
    values = measured_values(provenance).items()
    known = ((name, "not known" if value is None else value) for name, value in values)
    texts = [(str(name), f"{value:.4g}" if isinstance(value, float) else str(value)) for name, value in known]
    return [(name.replace("_", " "), text) for name, text in texts if len(text) <= _MAX_TEXT]
