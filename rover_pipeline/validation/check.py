"""Full validation of a trace by the rules of the format and those of our own results.

The validation of the published reader checks only that files exist and are not empty.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

from rover_pipeline.clocks.options import RawSensor
from rover_pipeline.engine.parallel import frame_ranges, ordered_map
from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import ConfigError, FormatError, RoverError, counted, describe, require_damage
from rover_pipeline.format.attempt import unfinished
from rover_pipeline.format.channels import Channel
from rover_pipeline.format.channels.jpeg import FACTORS, PictureChannel
from rover_pipeline.format.failures import read_memory
from rover_pipeline.format.files import exists
from rover_pipeline.format.meta import META
from rover_pipeline.format.rig import TYPES, Rig, layout_problems
from rover_pipeline.format.sensor import TS, VALID, Sensor
from rover_pipeline.format.texts import parse_collection, read_json, read_text, read_yaml
from rover_pipeline.format.trace import CONFIG, Trace, require_trace
from rover_pipeline.kinematics.options import RigOptions
from rover_pipeline.kinematics.stated import find_own, find_stated, misspelt
from rover_pipeline.numerics.jumps import is_set, jumps
from rover_pipeline.options import DaskOptions
from rover_pipeline.validation import contents

#: Problems of one kind of one channel that are reported. A file of zeros has as many as samples. Layout.
_MAX_SHOWN = 100
#: Memory for samples that are decoded at once, in bytes. Decoding takes three times that of a sample. Schedule.
_DECODED_BYTES = 1 << 28


def problems(path: Path, threads: int = 1, *, decode: Callable[[str], bool] | None = None) -> Iterator[str]:
    """Everything that is wrong with a trace, one line for each problem. No line comes twice. `decode`: says of a
    channel, `sensor/channel`, whether its compressed samples are decoded, as many `threads` at once; None = all are. A
    check that decodes nothing takes seconds, however long the recording is."""
    reported: set[str] = set()  # several checks read `ts`, `valid` and the sidecars, and each would report them
    for line in _problems(path, threads, decode):
        if line not in reported:
            reported.add(line)
            yield line


def _problems(path: Path, threads: int, decode: Callable[[str], bool] | None) -> Iterator[str]:
    trace = Trace(require_trace(path))
    if not exists(path / CONFIG):
        yield f"{path}: has no {CONFIG}; readers that search directories will not find this trace"
    else:
        yield from _with_error(_config_problems(path))
    yield from _with_error(lambda: read_memory(path))
    names = trace.sensors()
    if not names:
        yield f"{path}: holds no sensor"
    for name in get_args(RawSensor):
        if (path / name).is_dir() and name not in names:
            yield f"{path / name}: has no {META}; readers ignore it"
    for result in unfinished(path):
        yield f"{result}: is unfinished; run the command that makes it again"
    for name in names:
        yield from _with_error(_sensor_problems(trace, name, threads, decode))
    for entry in _folders(path):
        if entry.startswith("_") and entry not in names:
            yield from _with_error(contents.product_problems(trace, entry))


def _config_problems(path: Path) -> Iterator[str]:
    text, sensors = read_text(path / CONFIG), Rig(path).types
    parse_collection(text, str(path / CONFIG))
    try:
        if line := misspelt([*sensors, *TYPES], text):
            yield f"{path}/{line}"
        for sensor in sensors:
            find_stated(sensor, RigOptions(), text)
        find_own(RigOptions(), text)
    except ConfigError as error:
        yield f"{path}/{error}"


def _folders(path: Path) -> list[str]:
    """Names of the folders of a trace, sorted, without looking into the files that may be there by the million."""
    with os.scandir(path) as entries:
        return sorted(entry.name for entry in entries if not entry.is_file(follow_symlinks=False))


def _with_error(found: Iterator[str] | Callable[[], object]) -> Iterator[str]:
    """Problems that are found, or none where a file is read, and the error that ended it: others are checked too."""
    try:
        if callable(found):
            found()
        else:
            yield from found
    except (RoverError, OSError) as error:
        require_damage(error)
        yield describe(error)


def _sensor_problems(trace: Trace, name: str, threads: int, decode: Callable[[str], bool] | None) -> Iterator[str]:
    path = trace.path / name
    sensor = Sensor(path)
    if TS not in sensor.specs:
        yield f"{path}: {META} does not list ts; every sensor needs one"
        return
    count = len(sensor.channel(TS))
    if count == 0:
        yield f"{path / TS}: holds no samples"
    for channel_name in sensor.specs:
        try:
            if trace.source(name, channel_name).path != path:
                continue  # the channel is in the published copy `_camera/`, which is a sensor of its own
            channel = sensor.channel(channel_name)
        except FormatError as error:
            require_damage(error)
            yield str(error)
            continue
        yield from channel.notes
        if channel.leftover:
            yield f"{channel.path}: {channel.leftover}"
        if len(channel) != count:
            yield f"{channel.path}: has {counted(len(channel), 'sample')} where ts has {count}"
        if decode is None or decode(f"{name}/{channel_name}"):
            yield from _undecodable(channel, threads)
    yield from _with_error(_time_problems(sensor, count, _has_own_clock(trace.path)))
    yield from _with_error(
        lambda: sensor.valid(min(count, len(sensor.channel(VALID))) if VALID in sensor.specs else count)
    )
    found = list(layout_problems(trace.path, name, sensor.specs, missing_sidecars=True))
    yield from found
    sidecar = path / Rig(trace.path).sidecar(name)
    if not any(problem.startswith(str(sidecar)) for problem in found) and exists(sidecar):
        yield from _with_error(lambda: read_json(sidecar))
    yield from contents.channel_problems(sensor)
    yield from contents.content_problems(trace, sensor)
    if decode is None or decode(f"{name}/xyz"):
        yield from contents.point_problems(sensor)
    yield from contents.origin_problems(trace, sensor)


def _has_own_clock(trace: Path) -> bool:
    """Whether an import said that the clock of a trace does not count since 1970: a simulation's, or a sensor's own."""
    try:
        return bool(read_yaml(trace / CONFIG)["imported"]["options"]["clock"] == "own")
    except (OSError, FormatError, LookupError, TypeError):
        return False


def _time_problems(sensor: Sensor, count: int, own_clock: bool) -> Iterator[str]:
    ts = sensor.times(count)
    if count and not own_clock and not is_set(ts):
        yield (
            f"{sensor.path / TS}: runs from {ts[0]:.3f} to {ts[-1]:.3f}, not seconds since 1970 between 1990 and 2100"
        )
    for at in jumps(ts)[:_MAX_SHOWN].tolist():
        step = ts[at] - ts[at - 1]
        yield (
            f"{sensor.path / TS}: sample {at} at byte {at * 8}: comes {step:.3f} s ({step / 86400:.2f} days) after the "
            "one before: the clock was set, or the recording stopped; split it there"
        )


def _undecodable(channel: Channel, threads: int) -> Iterator[str]:
    if channel.spec.format == "raw" or not channel.random_access or not len(channel):
        return  # any bytes are valid samples, or all of them were decoded when the channel was opened
    if isinstance(channel, PictureChannel):
        channel = channel.reduced(max(FACTORS), 1)  # every bit is decoded all the same, in a third of the time
    threads = max(1, min(threads, _DECODED_BYTES // (3 * channel.spec.sample_bytes)))
    ranges = frame_ranges(len(channel), channel.spec.sample_bytes, DaskOptions(), threads)
    found = 0
    with progress(f"check {'/'.join(channel.path.parts[-3:])}", len(channel)) as advance:
        decode = functools.partial(_decode_errors, channel)
        for errors in ordered_map(decode, ranges, threads=threads, done=lambda part: advance(part[1] - part[0])):
            yield from errors[: _MAX_SHOWN - found]
            found += len(errors)
            if found >= _MAX_SHOWN:
                many = f"has {_MAX_SHOWN} or more samples that cannot be decoded; the rest was not looked at"
                yield f"{channel.path}: {many}"
                return


def _decode_errors(channel: Channel, frames: tuple[int, int]) -> list[str]:
    """Decodes a range of samples and returns the errors."""
    start, stop = frames
    errors = []
    for sample in range(start, stop):
        try:
            channel.read(sample, sample + 1)
        except FormatError as error:
            require_damage(error)
            errors.append(str(error))
            if len(errors) >= _MAX_SHOWN:
                break
    return errors
