"""Outputs that a recording should have and has not, raw channels that results were made of, and exported files."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from rover_pipeline.engine.step import EVERY, OPTIONAL, Has, Step
from rover_pipeline.errors import ConfigError, one_line
from rover_pipeline.table import REPORT, TABLE, asked_outputs

#: Suffix of a file -> what it is.
_KINDS = {".mp4": "video", ".rrd": "Rerun recording"}


def missing_outputs(
    sensors: Collection[str], provenances: Mapping[str, Mapping[str, Any]], outputs: Sequence[str] | None, has: Has
) -> dict[str, list[str]]:
    """Outputs that were asked for, or by default, and are not there although the recording has all that they need.

    Args:
        sensors: names of all sensors of the trace, raw and virtual.
        provenances: of the results, by folder.
        outputs: `outputs` of the configuration; None = not known, as for a page that no workflow asked for. The default
            outputs are expected then, if the recording has any result of this package.
        has: whether the recording has a channel, for outputs that only some kinds of sensors give.

    Returns:
        Folder of the output -> raw sensors that it is made from, in the order of the table.
    """
    if outputs is None and not any(name in TABLE for name in provenances):
        return {}
    known = [name.removeprefix("_") for name in (*TABLE, *provenances)]
    try:
        asked = [f"_{name}" for name in asked_outputs(outputs or ["default"], known)]
    except ConfigError:  # an output of a user's rule that is not there; it has its own error
        asked = [step.sensor for step in TABLE.values() if step.shown.default]
    there = {*sensors, *provenances}
    lacking = [name for name in asked if name not in (*there, REPORT.sensor) and name in TABLE]
    possible = [name for name in lacking if _can_be_made(name, there, has)]
    return {name: sorted(each for each in needed_sensors(name, has) if each not in TABLE) for name in possible}


def _always(reference: str) -> bool:
    return True


def needed_sensors(name: str, has: Has = _always) -> set[str]:
    """Sensors without which an output cannot be made, raw and virtual, and those that they are made from in turn.

    Args:
        has: whether the recording has a channel; unless given, it has all, a lidar of images too.
    """
    found = _needed(TABLE[name].for_recording(has))
    return found.union(*(needed_sensors(sensor, has) for sensor in found if sensor in TABLE))


def _needed(step: Step) -> set[str]:
    """Sensors that an output is made from."""
    entries = (entry for entry in step.references() if not entry.endswith(OPTIONAL) and "/" in entry)
    return {entry.partition("/")[0] for entry in entries} - {EVERY}


def _can_be_made(name: str, there: Collection[str], has: Has) -> bool:
    step = TABLE[name].for_recording(has)
    needed = _needed(step)
    return not step.unfit and all(
        each in there or (each in TABLE and _can_be_made(each, there, has)) for each in needed
    )


def used_channels(provenances: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Raw channels, `sensor/channel`, of which a result was made, so that every sample was decoded."""
    references = (str(reference) for content in provenances.values() for reference in content.get("inputs", ()))
    return {reference for reference in references if not reference.startswith("_")}


class ExportedFile(NamedTuple):
    """A file that was exported from a trace.

    Attributes:
        kind: what it is; href: its address, from the page.
    """

    name: str
    kind: str
    href: str
    bytes: int


def exported_files(trace: Path, page: Path) -> list[ExportedFile]:
    """Files in the folder of a trace, and those beside it that are named like it, sorted.

    Args:
        page: folder of the page, which addresses start from.
    """
    trace, at = trace.absolute(), bytes(page)
    inside = [entry.name for entry in os.scandir(trace) if entry.name[-4:] in _KINDS and not entry.name.startswith(".")]
    places = [*(trace / name for name in inside), *(trace.parent / f"{trace.name}{suffix}" for suffix in _KINDS)]
    found = [
        ExportedFile(
            one_line(each.name), _KINDS[each.suffix], quote(os.path.relpath(bytes(each), at)), each.stat().st_size
        )
        for each in places
        if each.is_file()
    ]
    return sorted(found, key=lambda each: (each.kind, each.href))
