"""Checks of the provenance of our results: their files exist, their inputs are unchanged, invalid stays invalid."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.errors import FormatError, RoverError
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import PROVENANCE, fingerprint, read_provenance
from rover_pipeline.format.sensor import TS, VALID, Sensor
from rover_pipeline.format.trace import Trace
from rover_pipeline.table import TABLE, find_step


def origin_problems(trace: Trace, sensor: Sensor) -> Iterator[str]:
    """Files that one of our virtual sensors lacks, and inputs that have changed since it was made."""
    provenance = read_provenance(sensor.path)
    if provenance is None:
        return
    yield from _file_problems(sensor.path, provenance)
    yield from _stale(trace, sensor.path, _inputs(provenance))
    yield from _validity_problems(trace, sensor, _inputs(provenance) or {})


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
    yield from _file_problems(path, {**provenance, "files": [*declared, *_files(provenance)]})
    for file in declared:
        if (path / file).exists() and not (path / file).stat().st_size:
            yield f"{path / file}: is empty; run the workflow again"
    yield from _stale(trace, path, _inputs(provenance))


def _declared(provenance: dict[str, Any]) -> tuple[str, ...]:
    """Files that the step of a user declares as products; none when it makes a sensor or is not installed."""
    try:
        return tuple(find_step(str(provenance.get("step"))).products)
    except (RoverError, ImportError):
        return ()


def _files(provenance: dict[str, Any]) -> list[str]:
    files = provenance.get("files")
    return [str(name) for name in files] if isinstance(files, list) else []


def _file_problems(path: Path, provenance: dict[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys(_files(provenance)):
        if not (path / Path(name).name).exists():
            yield f"{path / name}: is missing although provenance lists it; run the workflow again"


def _inputs(provenance: dict[str, Any]) -> dict[str, dict[str, Any]] | None:
    """The inputs that provenance lists with their fingerprints; None when that part is damaged."""
    inputs = provenance.get("inputs", {})
    if not isinstance(inputs, dict) or not all(isinstance(recorded, dict) for recorded in inputs.values()):
        return None
    return inputs


def _stale(trace: Trace, result: Path, inputs: dict[str, dict[str, Any]] | None) -> Iterator[str]:
    if inputs is None:
        yield f"{result / PROVENANCE}: is damaged; run the workflow again"
        return
    for reference, recorded in inputs.items():
        name, _, channel = reference.partition("/")
        path = trace.path / reference
        if not path.exists():
            with contextlib.suppress(FormatError):  # the check of that sensor reports it
                path = trace.source(name, channel).path / channel
        if not path.exists():
            continue  # raw sensors may be archived after their results are made
        now = fingerprint(path)
        if any(recorded.get(key) != value for key, value in now.items()):
            yield f"{result}: was made from other bytes of {reference}; run the workflow again"


def _validity_problems(trace: Trace, sensor: Sensor, inputs: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Times that differ from those of the sensor's input, and valid samples whose input is not valid."""
    if VALID not in sensor.specs or not inputs:
        return
    parts = [reference.partition("/") for reference in inputs]
    clock = parts[0][0]
    raw = [name for name, _, _ in parts if not name.startswith("_")]
    for name in dict.fromkeys((clock, *raw)):
        if not (trace.path / name / META).exists():
            continue
        try:
            count = len(sensor.channel(TS))
            parent = trace.sensor(name)
            samples = {channel for other, _, channel in parts if other == name} & set(parent.specs) - {TS, VALID}
            if name != clock and not samples:
                continue  # only its times or a sidecar were read
            ts, parent_ts = sensor.channel(TS).read(), parent.channel(TS).read(0, min(count, len(parent.channel(TS))))
            if not np.array_equal(ts, parent_ts):
                if name == clock:
                    yield f"{sensor.path / TS}: differs from that of {name}; run the workflow again"
                continue  # an input with times of its own, whose nearest samples were used
            bad = (sensor.valid(count) != 0) & (parent.valid(count) == 0)
        except FormatError:
            continue  # the check of that sensor reports it
        if bad.any():
            yield (
                f"{sensor.path / VALID}: sample {int(np.argmax(bad))} is 1, it is 0 in {name}; run the workflow again"
            )
