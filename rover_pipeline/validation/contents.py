"""Checks of our virtual sensors: declared channels, rotations, NaN without a result, indices; and their provenance.

Of a lidar that is points, its points are checked too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.draw.formatting import join
from rover_pipeline.engine.instances import entry_of
from rover_pipeline.engine.step import Output
from rover_pipeline.errors import short, unless_damaged
from rover_pipeline.format.files import exists, is_plain, plain_names
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import (
    MAX_LISTED,
    PROVENANCE,
    changed_inputs,
    omission,
    read_provenance,
    recorded_inputs,
)
from rover_pipeline.format.rig import Rig
from rover_pipeline.format.sensor import TS, VALID, Sensor
from rover_pipeline.format.trace import Trace
from rover_pipeline.kinematics.state import State
from rover_pipeline.table import TABLE
from rover_pipeline.validation.accuracy import ROUNDING, are_rotations

#: Gives problems of a range of samples, and which samples have them, bool (sample,); `valid` is given too.
Check = Callable[[Sensor, slice, np.ndarray], Iterator[tuple[str, np.ndarray]]]
#: Channels of points -> whether places past `count` hold NaN.
_POINTS = {"xyz": True, "intensity": True, "time": True, "ring": False}
#: Number of samples that are checked at once, and bytes of a channel of them. Schedule.
_BLOCK, _BLOCK_BYTES = 4096, 1 << 25
#: Channels that a virtual sensor must have besides `ts` and `valid`. The truth of a simulation has the channels of the
#: odometry that is compared with it.
CHANNELS = {name: step.typed for name, step in TABLE.items() if step.outputs}
CHANNELS["_truth"] = {name: CHANNELS["_odom"][name] for name in State._fields}


def content_problems(trace: Trace, sensor: Sensor) -> Iterator[str]:
    """For each rule that samples of one of our virtual sensors break, the first such sample."""
    if read_provenance(sensor.path) is None or VALID not in sensor.specs:
        return
    made, specs = channels_made(sensor), sensor.specs
    if any(name not in specs or not output.fits(specs[name]) for name, output in made.items()):
        return  # `channel_problems` reports it
    checks: list[Check] = []
    checks += [_poses] if {"pos", "rot"} <= set(made) else []
    declared = Rig(trace.path).declared(sensor.name)
    checks += [_BY_NAME[declared]] if declared in _BY_NAME else []
    if checks:
        yield from first_bad_samples(sensor, sensor.specs, lambda *part: chain(*(each(*part) for each in checks)))
    if sensor.name == "_sync":
        with unless_damaged():  # the check of the channel itself reports it
            yield from _sync(trace, sensor, min(len(sensor.channel(name)) for name in sensor.specs))


def first_bad_samples(sensor: Sensor, channels: Collection[str], check: Check, place: str = "") -> Iterator[str]:
    """For each rule that samples break, the first such sample. Samples are read in blocks, for bounded memory.
    `channels`: those that the check reads; `place`: the channel that is to blame, where it is one."""
    reported: set[str] = set()
    with unless_damaged():  # the check of the channel itself reports it
        count = min(len(sensor.channel(name)) for name in channels)
        valid = sensor.valid(count).astype(bool)
        widest = max(sensor.specs[name].sample_bytes for name in channels)
        block = max(1, min(_BLOCK, _BLOCK_BYTES // widest))
        for start in range(0, count, block):
            part = slice(start, min(start + block, count))
            for problem, bad in check(sensor, part, valid[part]):
                if bad.any() and problem not in reported:
                    reported.add(problem)
                    yield f"{sensor.path / place}: sample {start + int(np.argmax(bad))}: {problem}"


def _read(sensor: Sensor, name: str, part: slice) -> np.ndarray:
    return sensor.channel(name).read(part.start, part.stop)


def _poses(sensor: Sensor, part: slice, valid: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    rot = _read(sensor, "rot", part)
    with np.errstate(invalid="ignore", over="ignore"):
        reflected = np.linalg.det(rot) < 0
        orthogonal = are_rotations(np.where(reflected[:, None, None], -rot, rot))
        yield "rot is no rotation: its columns are not orthogonal unit vectors", valid & ~orthogonal
        yield "rot is a reflection: its determinant is negative", valid & orthogonal & reflected
    yield from _finite(("pos", "vel", "acc", "avel"), sensor, part, valid)


def _finite(names: Collection[str], sensor: Sensor, part: slice, valid: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    for name in (each for each in names if each in sensor.specs):
        bad = ~np.isfinite(_read(sensor, name, part)).reshape(len(valid), -1).all(1)
        yield f"{name} is not finite although valid is 1", valid & bad


def _radar_points(sensor: Sensor, part: slice, valid: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    count = _read(sensor, "count", part).astype(int)
    capacity = sensor.specs["doppler"].shape[0]
    yield f"count is more than the {capacity} points of a sample", count > capacity
    unused = (np.arange(capacity) >= count[:, None])[..., None]
    for name in ("xyz", "doppler", "snr"):
        values = _read(sensor, name, part).reshape(len(valid), capacity, -1)
        infinite = ~np.isfinite(values)
        yield f"{name} is not NaN past count", (unused & ~np.isnan(values)).any((1, 2))
        yield f"{name} is not finite before count although valid is 1", valid & (~unused & infinite).any((1, 2))


def _radar_velocity(sensor: Sensor, part: slice, valid: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    yield from _finite(("vel", "cov"), sensor, part, valid)
    cov = _read(sensor, "cov", part).astype("f8")
    safe = np.where(np.isfinite(cov).all((1, 2))[:, None, None], cov, 0)
    scale = np.abs(safe).max((1, 2)) + 1e-30
    bad = np.abs(safe - np.swapaxes(safe, 1, 2)).max((1, 2)) > 1e-4 * scale
    bad |= np.linalg.eigvalsh((safe + np.swapaxes(safe, 1, 2)) / 2)[:, 0] < -1e-4 * scale
    yield "cov is no covariance: it is not symmetric, or a variance is negative", valid & bad


def _imu_filtered(sensor: Sensor, part: slice, valid: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    length = np.linalg.norm(_read(sensor, "quat", part).astype("f8"), axis=1)
    yield "quat is no rotation: its length is not 1", valid & ~(np.abs(length - 1) < 2 * ROUNDING)
    yield from _finite(("acc", "avel"), sensor, part, valid)


_BY_NAME: dict[str, Any] = {
    "_radar_points": _radar_points,
    "_radar_velocity": _radar_velocity,
    "_imu_filtered": _imu_filtered,
}


def _sync(trace: Trace, sensor: Sensor, count: int) -> Iterator[str]:
    """Matches with samples that do not exist, and matches without a residual."""
    for name in sensor.specs:
        if name in (TS, VALID) or name.endswith("_dt") or f"{name}_dt" not in sensor.specs:
            continue
        match, residual = (sensor.channel(channel).read_whole(count) for channel in (name, f"{name}_dt"))
        if exists(trace.path / name / META):
            with unless_damaged():
                samples = len(trace.sensor(name).channel(TS))
                bad = (match < -1) | (match >= samples)
                if bad.any():
                    at = int(np.argmax(bad))
                    yield f"{sensor.path / name}: sample {at}: is {match[at]}, {name} has samples 0 to {samples - 1}"
        bad = (match >= 0) & ~np.isfinite(residual)
        if bad.any():
            yield f"{sensor.path / f'{name}_dt'}: sample {int(np.argmax(bad))}: is not finite although there is a match"


def point_problems(sensor: Sensor) -> Iterator[str]:
    """For each rule that sweeps of a lidar break, the first such sweep, if it is a lidar that is points."""
    if "xyz" not in sensor.specs or Rig(sensor.path.parent).declared(sensor.name) != "lidar":
        return
    if "count" not in sensor.specs:
        yield f"{sensor.path}: has xyz but no channel count, which says how many of its points there are"
        return
    for name in (each for each in _POINTS if each in sensor.specs):
        yield from first_bad_samples(sensor, ("count", name), partial(_points, name), name)


def _points(name: str, sensor: Sensor, part: slice, valid: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Problems of a channel, and the sweeps that have them, bool (frame,)."""
    count, values = (_read(sensor, each, part) for each in ("count", name))
    places = values.shape[1] if values.ndim > 1 else 0
    if name == "xyz":
        yield f"count is more than the {places} points of a sample", count > places
        yield "count is 0 although valid is 1", valid & (count == 0)
    if values.dtype.kind != "f":
        return
    per_place = values.reshape(len(values), places, -1)
    unused = np.arange(places) >= count[:, None]
    if _POINTS[name]:
        yield f"{name} is not NaN past count", (unused & ~np.isnan(per_place).all(2)).any(1)
    if name in ("xyz", "time"):
        yield f"{name} is not finite before count", (~unused & ~np.isfinite(per_place).all(2)).any(1)


def channels_made(sensor: Sensor) -> dict[str, Output]:
    """Channels that one of our virtual sensors must have, of the kind of recording that it is in."""
    if sensor.name == "_sync":
        partners = [name for name in sensor.specs if name not in (TS, VALID) and not name.endswith("_dt")]
        return {each: Output("", type=type) for name in partners for each, type in ((name, "i4"), (f"{name}_dt", "f4"))}
    step = entry_of(TABLE, sensor.name, sensor.path.parent)
    return step.typed if step and step.outputs else CHANNELS.get(sensor.name, {})


def channel_problems(sensor: Sensor) -> Iterator[str]:
    """Channels of one of our virtual sensors that are missing, of another kind, or without a description."""
    provenance = read_provenance(sensor.path)
    if provenance is None:
        if Rig(sensor.path.parent).declared(sensor.name) in CHANNELS:
            yield (
                f"{sensor.path}: has no {PROVENANCE} of ours, so its inputs are not known; if it is our result, move "
                "it away and run the workflow again"
            )
        return
    if VALID not in sensor.specs:
        yield f"{sensor.path}: has a {PROVENANCE} of ours but no channel valid"
    own = {TS: Output("", type="f8"), VALID: Output("", type="u1")}
    for name, output in {**own, **channels_made(sensor)}.items():
        spec = sensor.specs.get(name)
        if spec is None and name not in (TS, VALID):
            yield f"{sensor.path}: lacks the channel {name}, {output.kind}; run the workflow again"
        elif spec is not None and not output.fits(spec):
            must = f"is {spec.type} of {list(spec.shape)}, must be {output.kind}"
            yield f"{sensor.path / name}: {must}; run the workflow again"
    for name, spec in sensor.specs.items():
        text = spec.desc or spec.description or ""
        if not text:
            yield f"{sensor.path / name}: has no desc in meta.json; add one that says what the channel is"
        elif spec.shape and "[" not in text:
            yield f"{sensor.path / name}: its desc does not list the axes of {list(spec.shape)} in brackets"


# Provenance: files exist, inputs are unchanged, invalid stays invalid.


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
    if changed := list(changed_inputs(result, provenance, thorough=True)):
        yield f"{result}: was made from other bytes of {join(changed)}; run the workflow again"


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
