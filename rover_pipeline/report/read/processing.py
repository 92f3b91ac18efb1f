"""How the results of a trace were made, by the `provenance.json` of each; which are missing; and exported files."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rover_pipeline.engine.instances import entry_of, instances
from rover_pipeline.engine.step import EVERY, OPTIONAL, Step
from rover_pipeline.errors import ConfigError, one_line, unless_damaged
from rover_pipeline.format.provenance import omission, read_provenance
from rover_pipeline.format.rig import Rig
from rover_pipeline.report.summary import StepSummary
from rover_pipeline.table import REPORT, TABLE, asked_outputs
from rover_pipeline.validation.rig import section

#: Longest text of a measured value on the page, characters: a list of a thousand numbers is not for people. Layout.
_MAX_TEXT = 60
#: Suffix of a file -> what it is.
_KINDS = {".mp4": "video", ".rrd": "Rerun recording"}


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
        time, notes, folder = content.get("time", {}), content.get("notes"), trace / name
        # Hidden files at the top of a folder are temporary.
        paths = (path for path in folder.rglob("*") if not path.relative_to(folder).parts[0].startswith("."))
        seconds = time.get("seconds")
        counts = {key: content.get(key) for key in ("samples", "invalid", "corrupt", "dropped")}
        steps.append(
            StepSummary(
                sensor=name,
                step=str(content.get("step", "?")),
                version=content.get("version", "?"),
                bytes=sum(path.stat().st_size for path in paths if path.is_file()),
                seconds=seconds if isinstance(seconds, (int, float)) else None,
                started=str(time.get("started", "")),
                notes=tuple(map(str, notes)) if isinstance(notes, list) else (),
                left_out=omission(content),
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


def package_versions(provenances: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Versions of each package; several if the package was updated between two steps."""
    packages: dict[str, set[str]] = {}
    for content in provenances.values():
        for name, version in (content.get("packages") or {}).items():
            packages.setdefault(str(name), set()).add(str(version))
    return {name: sorted(versions) for name, versions in sorted(packages.items())}


def measured_texts(provenance: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and values, as text, of what a step measured, as far as the text is short."""
    values = section(provenance, "measured").items()
    known = ((name, "not known" if value is None else value) for name, value in values)
    texts = [(str(name), f"{value:.4g}" if isinstance(value, float) else str(value)) for name, value in known]
    return [(name.replace("_", " "), text) for name, text in texts if len(text) <= _MAX_TEXT]


def missing_outputs(
    trace: Path, sensors: Collection[str], provenances: Mapping[str, Mapping[str, Any]], outputs: Sequence[str] | None
) -> dict[str, set[str]]:
    """Outputs that were asked for, or by default, and are not there although the recording has all that they need.

    Args:
        sensors: names of all sensors of the trace, raw and virtual.
        provenances: of the results, by folder.
        outputs: `outputs` of the configuration; None = not known, as for a page that no workflow asked for. The default
            outputs are expected then, if the recording has any result of this package.

    Returns:
        Folder of the output -> sensors that it is made from, raw and virtual, and that these are made from in turn.
    """
    rig = Rig(trace)
    if outputs is None and not any(rig.declared(name) in TABLE for name in provenances):
        return {}
    products = {name: instances(name, rig) for name in TABLE}
    of_sensors = (product for each in products.values() for product in each)
    known = [name.removeprefix("_") for name in dict.fromkeys((*TABLE, *of_sensors, *provenances))]
    try:
        asked = [f"_{name}" for name in asked_outputs(outputs or ["default"], known)]
    except ConfigError:  # an output of a user's rule that is not there; it has its own error
        asked = [step.sensor for step in TABLE.values() if step.shown.default]
    there = {*sensors, *provenances, REPORT.sensor}
    lacking = [product for name in asked for product in products.get(name, [name]) if product not in there]
    entries = {name: entry_of(TABLE, name, trace) for name in dict.fromkeys(lacking)}
    # Where an option is not set without which an output does not exist, `all` does not ask for it. Where it is, and its
    # job failed, the failure is known.
    possible = {name: step for name, step in entries.items() if step and not step.shown.needs_option}
    return {name: _all_needed(step, trace) for name, step in possible.items() if _can_be_made(step, trace, there)}


def _needed(step: Step, trace: Path) -> dict[str, Step | None]:
    """Sensors that an output is made from -> what makes them; None of a raw one."""
    entries = (entry for entry in step.references() if not entry.endswith(OPTIONAL) and "/" in entry)
    return {name: entry_of(TABLE, name, trace) for name in {entry.partition("/")[0] for entry in entries} - {EVERY}}


def _all_needed(step: Step, trace: Path) -> set[str]:
    """Sensors without which an output cannot be made, raw and virtual, and those that they are made from in turn."""
    found = _needed(step, trace)
    return {*found}.union(*(_all_needed(each, trace) for each in found.values() if each))


def _can_be_made(step: Step, trace: Path, there: Collection[str]) -> bool:
    found = _needed(step, trace).items()
    return not step.unfit and all(name in there or (each and _can_be_made(each, trace, there)) for name, each in found)


def used_channels(provenances: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Raw channels, `sensor/channel`, of which a result was made, so that every sample was decoded."""
    references = (str(reference) for content in provenances.values() for reference in content.get("inputs", ()))
    return {reference for reference in references if not reference.startswith("_")}


def exported_files(trace: Path, page: Path) -> list[dict[str, Any]]:
    """Files that were exported from a trace, in its folder, and beside it where they are named like it, sorted: the
    `name`, `kind` and `bytes` of each, and `href`, its address from the folder of the page."""
    trace, at = trace.absolute(), bytes(page)
    inside = [entry.name for entry in os.scandir(trace) if entry.name[-4:] in _KINDS and not entry.name.startswith(".")]
    places = [*(trace / name for name in inside), *(trace.parent / f"{trace.name}{suffix}" for suffix in _KINDS)]
    found = []
    for path in (each for each in places if each.is_file()):
        address, size = quote(os.path.relpath(bytes(path), at)), path.stat().st_size
        found.append({"name": one_line(path.name), "kind": _KINDS[path.suffix], "href": address, "bytes": size})
    return sorted(found, key=lambda each: (each["kind"], each["href"]))
