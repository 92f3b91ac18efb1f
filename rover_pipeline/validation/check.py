"""Full validation of a trace by the rules of the format and those of our own results.

The validation of the published reader checks only that files exist and are not empty.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from rover_pipeline.engine.options import DaskOptions
from rover_pipeline.engine.parallel import frame_ranges, ordered_map
from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import FormatError
from rover_pipeline.format.attempt import PARTIAL, unfinished
from rover_pipeline.format.channels import Channel
from rover_pipeline.format.meta import META
from rover_pipeline.format.sensor import TS, VALID, Sensor
from rover_pipeline.format.trace import CONFIG, Trace, require_trace
from rover_pipeline.kinematics.options import RawSensor
from rover_pipeline.validation.channels import channel_problems
from rover_pipeline.validation.contents import content_problems
from rover_pipeline.validation.origin import origin_problems, product_problems

#: Times from 1990 to 2100, seconds since 1970. Those of a clock that was not set, or counts milliseconds, are outside.
_EPOCH_S = (631_152_000.0, 4_102_444_800.0)


def problems(path: Path, threads: int = 1, *, decode: bool = True) -> Iterator[str]:
    """Everything that is wrong with a trace, one line for each problem.

    Args:
        threads: number of samples that are decoded at once.
        decode: False = do not decode compressed samples. The check then takes seconds, however long the recording is.
    """
    trace = Trace(require_trace(path))
    if not (path / CONFIG).exists():
        yield f"{path}: has no {CONFIG}; readers that search directories will not find this trace"
    names = trace.sensors()
    if not names:
        yield f"{path}: holds no sensor"
    for name in get_args(RawSensor):
        if (path / name).is_dir() and name not in names:
            yield f"{path / name}: has no {META}; readers ignore it"
    older = {path / entry for entry in os.listdir(path) if (path / entry / PARTIAL).is_dir()}
    for result in sorted({*unfinished(path), *older}):
        yield f"{result}: is unfinished; run the command that makes it again"
    for name in names:
        yield from _sensor_problems(trace, name, threads, decode)
    for entry in sorted(os.listdir(path)):
        if entry.startswith("_") and entry not in names:
            yield from product_problems(trace, entry)


def _sensor_problems(trace: Trace, name: str, threads: int, decode: bool) -> Iterator[str]:
    path = trace.path / name
    try:
        sensor = Sensor(path)
        if TS not in sensor.specs:
            yield f"{path}: {META} does not list ts; every sensor needs one"
            return
        count = len(sensor.channel(TS))
    except FormatError as error:
        yield str(error)
        return
    if count == 0:
        yield f"{path / TS}: holds no samples"
    for channel_name in sensor.specs:
        try:
            if trace.source(name, channel_name).path != path:
                continue  # the channel is in the published copy `_camera/`, which is a sensor of its own
            channel = sensor.channel(channel_name)
        except FormatError as error:
            yield str(error)
            continue
        yield from channel.notes
        if channel.leftover:
            yield f"{channel.path}: {channel.leftover}"
        if len(channel) != count:
            yield f"{channel.path}: has {len(channel)} samples where ts has {count}"
        if decode:
            yield from _undecodable(channel, threads)
    yield from _time_problems(sensor, count)
    try:
        sensor.valid(min(count, len(sensor.channel(VALID))) if VALID in sensor.specs else count)
    except FormatError as error:
        yield str(error)
    yield from _sidecar_problems(sensor)
    yield from channel_problems(sensor)
    yield from content_problems(trace, sensor)
    yield from origin_problems(trace, sensor)


def _time_problems(sensor: Sensor, count: int) -> Iterator[str]:
    try:
        ts = sensor.times(count)
    except FormatError as error:
        yield str(error)
        return
    if count and not (_EPOCH_S[0] < ts[0] and ts[-1] < _EPOCH_S[1]):
        yield (
            f"{sensor.path / TS}: runs from {ts[0]:.3f} to {ts[-1]:.3f}, not seconds since 1970 between 1990 and 2100"
        )


def _undecodable(channel: Channel, threads: int) -> Iterator[str]:
    if channel.spec.format == "raw" or not len(channel):
        return  # any bytes are valid samples
    ranges = frame_ranges(len(channel), channel.spec.sample_bytes, DaskOptions(), threads)
    with progress(f"check {'/'.join(channel.path.parts[-3:])}", len(channel)) as advance:
        decode = functools.partial(_decode_errors, channel)
        for errors in ordered_map(decode, ranges, threads=threads, done=lambda part: advance(part[1] - part[0])):
            yield from errors


def _decode_errors(channel: Channel, frames: tuple[int, int]) -> list[str]:
    """Decodes a range of samples and returns the errors."""
    start, stop = frames
    errors = []
    if not channel.random_access:  # a range needs all samples before it, so the first range decodes all
        start, stop = (0, len(channel)) if start == 0 else (0, 0)
    step = 1 if channel.random_access else max(1, stop)
    for sample in range(start, stop, step):
        try:
            channel.read(sample, min(sample + step, stop))
        except FormatError as error:
            errors.append(str(error))
    return errors


def _sidecar_problems(sensor: Sensor) -> Iterator[str]:
    """Sidecars that do not describe the channels beside them."""
    expected = {"radar": ("iq", _radar_shapes), "lidar": ("rng", _lidar_shapes)}
    if sensor.name not in expected or expected[sensor.name][0] not in sensor.specs:
        return
    channel, shapes = expected[sensor.name]
    path = sensor.path / f"{sensor.name}.json"
    try:
        allowed = shapes(json.loads(path.read_bytes()))
    except OSError:
        yield f"{path}: is missing; it says what the samples of {channel} mean"
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        yield f"{path}: is not what a {sensor.name} sidecar must be: {error!r}"
    else:
        if list(sensor.specs[channel].shape) not in allowed:
            yield f"{path}: describes samples of {allowed[0]}, {channel} holds {list(sensor.specs[channel].shape)}"


def _radar_shapes(sidecar: Any) -> list[list[int]]:
    *axes, samples = (int(size) for size in sidecar["shape"])
    return [[*axes, 2 * samples], [*axes, samples]]  # complex, or real


def _lidar_shapes(sidecar: Any) -> list[list[int]]:
    layout = sidecar.get("lidar_data_format") or sidecar["data_format"]  # new firmware, old firmware
    return [[int(layout["pixels_per_column"]), int(layout["columns_per_frame"])]]
