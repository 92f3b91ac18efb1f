"""How results were made: what every `provenance.json` of a trace says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.report.summary import StepSummary

#: Figures of provenance that the page shows are short; a list of a thousand numbers is not for people.
_LONGEST = 60


def read_provenances(trace: Path, without: str) -> dict[str, dict[str, Any]]:
    """Folder -> content of its `provenance.json`, of every result of ours but `without`, the one being made."""
    names = sorted(entry.name for entry in os.scandir(trace) if entry.name.startswith("_") and entry.name != without)
    found = {name: read_provenance(trace / name) for name in names}
    return {name: content for name, content in found.items() if content}


def describe(trace: Path, provenances: Mapping[str, Mapping[str, Any]]) -> list[StepSummary]:
    """The steps in the order in which they were started; those that tell no time first."""
    steps = []
    for name, content in provenances.items():
        time = content.get("time")
        took = time if isinstance(time, dict) else {}
        notes = content.get("notes", ())
        steps.append(
            StepSummary(
                sensor=name,
                step=str(content.get("step", "?")),
                version=content.get("version", "?"),
                samples=_count(content, "samples"),
                invalid=_count(content, "invalid"),
                corrupt=_count(content, "corrupt"),
                dropped=_count(content, "dropped"),
                bytes=_folder_bytes(trace / name),
                seconds=took.get("seconds"),
                started=str(took.get("started", "")),
                notes=tuple(map(str, notes)) if isinstance(notes, list) else (),
            )
        )
    return sorted(steps, key=lambda each: (each.started, each.sensor))


def _folder_bytes(folder: Path) -> int:
    """Bytes of the files in a folder, those in its folders included; scratch does not count."""
    found = (path for path in folder.rglob("*") if not path.relative_to(folder).parts[0].startswith("."))
    return sum(path.stat().st_size for path in found if path.is_file())


def packages(provenances: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Package -> versions that took part, more than one when results were made at different times."""
    found: dict[str, set[str]] = {}
    for content in provenances.values():
        for name, version in (content.get("packages") or {}).items():
            found.setdefault(str(name), set()).add(str(version))
    return {name: sorted(versions) for name, versions in sorted(found.items())}


def measured(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The figures a step measured that are short enough to be read, as text."""
    values = content.get("measured")
    if not isinstance(values, dict):
        return []
    texts = {str(name): _text(value) for name, value in values.items()}
    return [(name.replace("_", " "), text) for name, text in texts.items() if len(text) <= _LONGEST]


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _count(content: Mapping[str, Any], key: str) -> int:
    value = content.get(key, 0)
    return value if isinstance(value, int) else 0
