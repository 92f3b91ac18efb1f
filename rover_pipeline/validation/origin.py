"""Where our results are from: provenance, files that are all there, inputs that are still the same, validity kept."""

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
    """A virtual sensor of ours that is not whole, or not what its inputs would give now."""
    provenance = read_provenance(sensor.path)
    if provenance is None:
        return
    yield from _file_problems(sensor.path, provenance)
    inputs = _inputs(provenance)
    if inputs is None:
        yield f"{sensor.path / PROVENANCE}: is damaged; run the workflow again"
        return
    yield from _stale(trace, sensor.path, inputs)
    yield from _kept(trace, sensor, inputs)


def product_problems(trace: Trace, name: str) -> Iterator[str]:
    """A folder of files of ours that is not whole, or not what its inputs would give now."""
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
    inputs = _inputs(provenance)
    if inputs is None:
        yield f"{path / PROVENANCE}: is damaged; run the workflow again"
        return
    yield from _stale(trace, path, inputs)


def _declared(provenance: dict[str, Any]) -> tuple[str, ...]:
    """Files that the step of a user's own product declares; none where the step makes sensors or is not installed."""
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
            yield f"{path / name}: is missing though it was made; run the workflow again"


def _inputs(provenance: dict[str, Any]) -> dict[str, dict[str, Any]] | None:
    """What the result was made from, None when that is not readable."""
    inputs = provenance.get("inputs", {})
    if not isinstance(inputs, dict) or not all(isinstance(recorded, dict) for recorded in inputs.values()):
        return None
    return inputs


def _stale(trace: Trace, made: Path, inputs: dict[str, dict[str, Any]]) -> Iterator[str]:
    for place, recorded in inputs.items():
        name, _, channel = place.partition("/")
        path = trace.path / place
        if not path.exists():
            with contextlib.suppress(FormatError):  # what is wrong with that sensor is said where its turn is
                path = trace.source(name, channel).path / channel
        if not path.exists():
            continue  # raw sensors may be archived once their results are made
        now = fingerprint(path)
        if any(recorded.get(key) != value for key, value in now.items()):
            yield f"{made}: was made from other bytes of {place}; run the workflow again"


def _kept(trace: Trace, sensor: Sensor, inputs: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Times that are not those of the sensor it is made from, and samples that are not trusted there but here."""
    if VALID not in sensor.specs or not inputs:
        return
    parts = [place.partition("/") for place in inputs]
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
            ts, theirs = sensor.channel(TS).read(), parent.channel(TS).read(0, min(count, len(parent.channel(TS))))
            if not np.array_equal(ts, theirs):
                if name == clock:
                    yield f"{sensor.path / TS}: differs from that of {name}; run the workflow again"
                continue  # a sensor with times of its own, of which samples were picked
            lost = (sensor.valid(count) != 0) & (parent.valid(count) == 0)
        except FormatError:
            continue  # said of the sensor itself
        if lost.any():
            yield (
                f"{sensor.path / VALID}: sample {int(np.argmax(lost))} is 1, it is 0 in {name}; run the workflow again"
            )
