"""Peak memory of every step on one minute and on twenty: `python -m benchmarks.memory [--minutes 1 20] [NAME ...]`.

The recording is half a minute of a slow ride at the real rig's rates and at small shapes, there and back again. What a
step holds for each frame, whatever the size of its frame, is seen best where the frames are small. Twenty minutes and
what is made of them take 6 GB below /tmp, which are removed afterwards.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np

from benchmarks.data import FOLDER, START_S
from benchmarks.measure import print_versions, run, step_command
from benchmarks.results import record
from rover_pipeline.format.channels.jpeg import MjpgChannel
from rover_pipeline.format.sensor import TS, Sensor, SensorWriter
from rover_pipeline.format.trace import new_trace
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.record import simulate
from rover_pipeline.table import TABLE

HALF_S = 30.0
#: Exports of a whole recording, each to a file or folder.
EXPORTS = {"tum": "poses.tum", "kitti": "kitti", "ply": "ply", "edgefirst": "edgefirst", "roverp": "roverp"}
_SENSORS = ("lidar", "radar", "camera", "imu")


def ride() -> Path:
    """Half a minute on a trolley, so slow that a sweep on the way back is hardly distorted by its order of columns."""
    path = FOLDER / "ride"
    if not path.exists():
        tiny = PRESETS["tiny"]
        changes = {
            "carrier": "trolley",
            "speed": 0.15,
            "camera_rate": 30.0,
            "radar": tiny.radar.model_copy(update={"frame_period": 50.0}),
        }
        simulate(path, preset=tiny.model_copy(update=changes), duration=HALF_S)
    return path


def there_and_back(minutes: float) -> Path:
    """A trace of so many minutes: the frames of `ride`, forward and backward in turn."""
    source, path = ride(), FOLDER / f"ride_{minutes:g}min"
    if path.exists():
        return path
    with new_trace(path) as trace:
        for name in _SENSORS:
            sensor = Sensor(source / name)
            _repeat(sensor, trace / name, round(60 * minutes / HALF_S))
            for file in sensor.path.glob("*.json"):
                if file.name != "meta.json":
                    shutil.copy(file, trace / name / file.name)
        shutil.copy(source / "config.yaml", trace / "config.yaml")
    return path


def _repeat(source: Sensor, target: Path, blocks: int) -> None:
    """Write a sensor whose frames are those of another one, `blocks` times, every other time backward."""
    count = source.length()
    ts = source.times(count)
    step = (ts[-1] - ts[0]) / (count - 1)
    first = START_S + ts[0] - round(ts[0])  # sensors keep what is between their first frames
    with SensorWriter(target, source.specs) as writer:
        for block in range(blocks):
            order = slice(None, None, -1 if block % 2 else 1)
            raw = {name: source.channel(name).read() for name in source.specs if _is_plain(source, name)}
            if "avel" in raw and block % 2:
                raw["avel"] = -raw["avel"]
            raw = {name: values[order] for name, values in raw.items()}
            writer.append(**{**raw, TS: first + step * (block * count + np.arange(count))})
            for name in source.specs.keys() - raw.keys():
                for sample in list(_encoded(source, name, count))[order]:
                    writer.append(**{name: sample})


def _is_plain(source: Sensor, name: str) -> bool:
    return str(source.specs[name].format) == "raw"


def _encoded(source: Sensor, name: str, count: int) -> Iterator[bytes]:
    """The samples of a compressed channel as they are stored."""
    channel = source.channel(name)
    if isinstance(channel, MjpgChannel):
        yield from (bytes(channel.jpeg(at)) for at in range(count))
        return
    data = (source.path / name).read_bytes()
    offsets = np.fromfile(source.path / f"{name}_i", "<u8").astype(int)
    yield from (data[begin:end] for begin, end in itertools.pairwise(offsets))


def in_order() -> list[str]:
    """Virtual sensors that need no option, each after those that it is made from."""
    left = {name: step for name, step in TABLE.items() if step.shown.needs_option is None}
    done: list[str] = []
    while left:
        ready = [name for name, step in left.items() if not _made_from(name) & (left.keys() - {name})]
        done += sorted(ready, key=lambda name: (TABLE[name].run.waits_for_all, name))
        left = {name: step for name, step in left.items() if name not in ready}
    return done


def _made_from(name: str) -> set[str]:
    step = TABLE[name]
    if step.run.waits_for_all:
        return set(TABLE) - {name}
    step = step.for_options(step.options() if step.options else None)
    return {reference.partition("/")[0] for reference in step.references()}


def needed(names: Collection[str]) -> set[str]:
    """Steps and those that they are made from; the page shows what there is."""
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name in TABLE and name not in found:
            found.add(name)
            todo += [] if TABLE[name].run.waits_for_all else _made_from(name) & TABLE.keys()
    return found


def peaks(trace: Path, names: list[str]) -> dict[str, float]:
    """Peak memory of each step's process, MiB. What those that are asked for are made from is made too."""
    found = {}
    for name in in_order():
        if name in needed(names):
            shutil.rmtree(trace / name, ignore_errors=True)
            product = next(iter(TABLE[name].products), "meta.json")
            command = [part.replace("meta.json", product) for part in step_command(name, trace)]
            found[name] = run(command).peak_mib
            print(f"{trace.name} {name} {found[name]:.0f} MiB", file=sys.stderr, flush=True)
    for name, target in EXPORTS.items():
        if name in names:
            place = FOLDER / "exported"
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            command = [sys.executable, "-m", "rover_pipeline", "export", name, str(trace), "-o", str(place / target)]
            found[name] = run(command).peak_mib
            shutil.rmtree(place, ignore_errors=True)
    return {name: peak for name, peak in found.items() if name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, nargs=2, default=(1, 20), metavar=("SHORT", "LONG"))
    parser.add_argument("--keep", action="store_true", help="leave the recordings and their results")
    parser.add_argument("names", nargs="*", help="virtual sensors and formats of exports (default: all)")
    given = parser.parse_args()
    names = given.names or [*in_order(), *EXPORTS]
    print_versions("numpy", "numba")
    traces = [there_and_back(minutes) for minutes in given.minutes]
    try:
        short, long = (peaks(trace, names) for trace in traces)
    finally:
        for trace in traces:
            if not given.keep:
                shutil.rmtree(trace, ignore_errors=True)
    brief, lasting = given.minutes
    for name in sorted(short, key=lambda each: -long[each] / short[each]):
        of = f"peak memory of `{name}` at small shapes and the real rig's rates, {lasting:g} minutes beside {brief:g}"
        record(f"memory/{name}", f"{long[name] / short[name]:.2f}x ({long[name]:.0f} MiB)", of=of)


if __name__ == "__main__":
    main()
