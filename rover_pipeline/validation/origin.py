"""Checks of the provenance of our results: their files exist, their inputs are unchanged, invalid stays invalid."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.engine.instances import entry_of
from rover_pipeline.errors import short, unless_damaged
from rover_pipeline.format.files import exists, is_plain, plain_names
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import PROVENANCE, omission, read_provenance
from rover_pipeline.format.sensor import TS, VALID, Sensor
from rover_pipeline.format.stale import MAX_LISTED, changed_inputs, recorded_inputs
from rover_pipeline.format.trace import Trace
from rover_pipeline.table import TABLE


def origin_problems(trace: Trace, sensor: Sensor) -> Iterator[str]:
    """Files that one of our virtual sensors lacks, and inputs that have changed since it was made."""
    provenance = read_provenance(sensor.path)
    if provenance is None:
        return
    yield from _version_problems(sensor.path, provenance)
    yield from _file_problems(sensor.path, provenance)
    yield from _stale(sensor.path, provenance)
    yield from _validity_problems(trace, sensor, recorded_inputs(sensor.path, provenance))


def product_problems(trace: Trace, name: str) -> Iterator[str]:
    """Files that one of our results without channels lacks, and inputs that have changed since it was made."""
    path = trace.path / name
    provenance = read_provenance(path)
    if provenance is None:
        return
    declared = tuple(TABLE[name].products) if name in TABLE else _declared(provenance)
    if not declared:
        yield f"{path}: lost its {META}; run the workflow again"
        return
    yield from _version_problems(path, provenance)
    if not omission(provenance):
        yield from _file_problems(path, {**provenance, "files": [*declared, *_files(provenance)]})
        for file in plain_names(declared):
            if (path / file).exists() and not (path / file).stat().st_size:
                yield f"{path / file}: is empty; run the workflow again"
    yield from _stale(path, provenance)


def _declared(provenance: dict[str, Any]) -> tuple[str, ...]:
    """Files that the step of a user declares as products; none when it makes a sensor.

    The step itself is not asked: a file of a trace must not choose a module to import.
    """
    products = provenance.get("products")
    return tuple(map(str, products[:MAX_LISTED])) if isinstance(products, list) else ()


def _version_problems(path: Path, provenance: dict[str, Any]) -> Iterator[str]:
    step = entry_of(TABLE, path.name, path.parent)
    if step is not None and step.name == provenance.get("step") and provenance.get("version") != step.version:
        version = short(provenance.get("version"))
        now = f"its step, which is version {step.version} now; run the workflow again"
        yield f"{path}: was made by version {version} of {now}"


def _files(provenance: dict[str, Any]) -> list[str]:
    files = provenance.get("files")
    return [str(name) for name in files[:MAX_LISTED]] if isinstance(files, list) else []


def _file_problems(path: Path, provenance: dict[str, Any]) -> Iterator[str]:
    if not isinstance(provenance.get("files", []), list):
        yield f"{path / PROVENANCE}: is damaged: files is no list; run the workflow again"
    for name in dict.fromkeys(_files(provenance)):
        if not is_plain(name):
            yield f"{path / PROVENANCE}: is damaged: {short(name)} is no name of a file; run the workflow again"
        elif not exists(path / name):
            yield f"{path / name}: is missing although provenance lists it; run the workflow again"


def _stale(result: Path, provenance: dict[str, Any]) -> Iterator[str]:
    for reference in changed_inputs(result, provenance, thorough=True):
        yield f"{result}: was made from other bytes of {reference}; run the workflow again"


def _validity_problems(trace: Trace, sensor: Sensor, inputs: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Times that differ from those of the sensor's input, and valid samples whose input is not valid."""
    if VALID not in sensor.specs or not inputs:
        return
    parts = [reference.partition("/") for reference in inputs]
    clock = parts[0][0]
    raw = [name for name, _, _ in parts if not name.startswith("_")]
    for name in list(dict.fromkeys((clock, *raw)))[:MAX_LISTED]:
        if not is_plain(name) or not exists(trace.path / name / META):
            continue
        with unless_damaged():  # the check of that sensor reports it
            count = len(sensor.channel(TS))
            parent = trace.sensor(name)
            samples = {channel for other, _, channel in parts if other == name} & set(parent.specs) - {TS, VALID}
            if name != clock and not samples:
                continue  # only its times or a sidecar were read
            shared = min(count, len(parent.channel(TS)))
            ts, parent_ts = sensor.channel(TS).read_whole(), parent.channel(TS).read_whole(shared)
            if not np.array_equal(ts, parent_ts):
                if name == clock:
                    yield f"{sensor.path / TS}: differs from that of {name}; run the workflow again"
                continue  # an input with times of its own, whose nearest samples were used
            bad = (sensor.valid(count) != 0) & (parent.valid(count) == 0)
            if bad.any():
                at = int(np.argmax(bad))
                yield f"{sensor.path / VALID}: sample {at} is 1, it is 0 in {name}; run the workflow again"
