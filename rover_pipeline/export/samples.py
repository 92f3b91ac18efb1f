"""Samples of a trace that can be shown: they are valid and can be decoded; and how long it takes to export them."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rover_pipeline.draw.formatting import duration
from rover_pipeline.errors import FormatError, SampleError, counted, naming
from rover_pipeline.export.recording import Recording
from rover_pipeline.format.meta import META
from rover_pipeline.format.rig import Rig, layout_problems
from rover_pipeline.format.sensor import VALID, Sensor
from rover_pipeline.format.texts import read_text
from rover_pipeline.format.trace import is_empty
from rover_pipeline.lidar.geometry import CLIPPED, projection
from rover_pipeline.options import ReportOptions

#: A shorter time is not printed: the export is there before the line is read, s. Schedule.
_MIN_PRINTED_S = 5.0


class Samples:
    """The valid samples of a sensor.

    Attributes:
        ts: f8 (N,), s; indices: i8 (N,), of the valid samples among all samples of the sensor.
        channels: what is read, by name.
        undecodable: number of samples that were read so far and could not be decoded.
    """

    def __init__(self, sensor: Sensor, channels: tuple[str, ...]) -> None:
        self.sensor = sensor
        specs = {name: sensor.specs[name] for name in channels if name in sensor.specs}
        for problem in layout_problems(sensor.path.parent, sensor.name, specs, missing_sidecars=False):
            raise FormatError(problem)
        needed = (*channels, *((VALID,) if VALID in sensor.specs else ()))
        count = sensor.length(truncate=True, channels=needed)  # a recording that was cut off is shown up to its end
        self.indices = np.flatnonzero(sensor.valid(count))
        self.ts = sensor.times(count)[self.indices]
        self.undecodable = 0
        self.channels = {name: sensor.channel(name) for name in channels}

    def __len__(self) -> int:
        return len(self.ts)

    def read(self, at: int) -> dict[str, np.ndarray] | None:
        """The channels of valid sample `at`, 0 to N - 1; None when it cannot be decoded."""
        index = int(self.indices[at])
        try:
            return {name: channel.sample(index) for name, channel in self.channels.items()}
        except SampleError:
            self.undecodable += 1
            return None

    def read_all(self, name: str) -> np.ndarray:
        """A small channel of all N valid samples, (N, *shape)."""
        return self.sensor.channel(name).read_whole(int(self.indices[-1]) + 1 if len(self) else 0)[self.indices]

    def latest(self, time: float) -> int | None:
        """The last of the N samples up to a time; None when there is none, or the sensor is silent since then."""
        at = int(np.searchsorted(self.ts, time, side="right")) - 1
        return at if at >= 0 and time - self.ts[at] <= ReportOptions().max_gap_s else None


def find_samples(recording: Recording, sensor: str, *channels: str) -> Samples | None:
    """Samples of some channels of a sensor, named by types as in `Recording`; None when one of them is not there."""
    folder = recording.folder(sensor)
    if not (folder / META).exists() or is_empty(folder):
        return None
    source = recording.sensor(sensor, channels[0])
    if any(name not in source.specs or not (source.path / name).exists() for name in channels):
        return None
    return Samples(source, channels)


def read_evenly(samples: Samples | None, count: int) -> Iterator[dict[str, np.ndarray]]:
    """About `count` samples at even distances from the first to the last, without those that cannot be decoded."""
    if not samples:
        return
    for at in np.unique(np.linspace(0, len(samples) - 1, count).astype(int)).tolist():
        if (sample := samples.read(at)) is not None:
            yield sample


def find_radar_points(recording: Recording) -> Samples | None:
    """The radar's points: `_radar_points`, or those that a radar itself sends; None when there are none."""
    channels = ("xyz", "doppler", "count")
    return find_samples(recording, "_radar_points", *channels) or find_samples(recording, "radar", *channels)


class Sweeps(NamedTuple):
    """The lidar's points, from `_lidar_points` when the trace has it, else projected from the raw ranges: the samples
    that they are read from, and a function that takes one of them."""

    samples: Samples
    to_points: Callable[[dict[str, np.ndarray]], np.ndarray]

    def points(self, at: int, max_points: int | None = None) -> np.ndarray | None:
        """Points of a sweep in the lidar frame, f4 (M, 3), m; None when it cannot be decoded. `max_points`: keep only
        every n-th column, so that about so many points remain; None = keep all."""
        sample = self.samples.read(at)
        if sample is None:
            return None
        xyz = self.to_points(sample)
        step = max(1, math.ceil(xyz.size / 3 / max_points)) if max_points else 1
        points = xyz[..., ::step, :].reshape(-1, 3)  # every n-th column, or every n-th of unordered points
        return points[np.isfinite(points).all(axis=1)]


def find_sweeps(recording: Recording) -> Sweeps | None:
    """The lidar's points; None when the recording has neither points nor ranges with a `lidar.json`."""
    if (points := find_samples(recording, "_lidar_points", "xyz")) is not None:
        return Sweeps(points, lambda sample: sample["xyz"])
    ranges = find_samples(recording, "lidar", "rng")
    if ranges is None and (points := find_samples(recording, "lidar", "xyz")) is not None:
        return Sweeps(points, lambda sample: sample["xyz"])
    if ranges is None or not recording.has("lidar/lidar.json"):
        return None
    project = range_projector(recording.folder("lidar"))
    return Sweeps(ranges, lambda sample: project(sample["rng"]))


def range_projector(lidar: Path) -> Callable[[np.ndarray], np.ndarray]:
    """A function from staggered ranges, (beam, column), mm, to points in the sensor frame, f4 (beam, column, 3), m, NaN
    without a return. It raises FormatError for ranges of another size; so does this one where `lidar.json` is missing
    or is not the metadata of an Ouster lidar."""
    rig = Rig(lidar.parent)
    sidecar = lidar / (rig.sidecar(lidar.name) if lidar.name in rig.types else "lidar.json")
    with naming(sidecar, OSError, remedy="; without it ranges cannot become points"), naming(lidar, ValueError):
        project = projection(read_text(sidecar))

    def to_points(ranges: np.ndarray) -> np.ndarray:
        with naming(f"{lidar / 'rng'}: cannot be projected", ValueError, RuntimeError):
            xyz = np.array(project(ranges.astype("u4")), "f4").reshape(*ranges.shape, 3)
        xyz[(ranges == 0) | (ranges == CLIPPED)] = np.nan
        return xyz

    return to_points


def print_duration(label: str, work: Sequence[tuple[int, str, Callable[[], object]]], threads: int = 1) -> None:
    """Print to stderr how long an export, `label`, will take on so many threads, by what one sample of each kind takes
    now. `work`: number of samples, what they are called, and a function that does what one of them takes."""
    total = 0.0
    for count, _, probe in work:
        if count:
            probe()  # the first one opens files and compiles kernels
            begin = time.monotonic()
            probe()
            total += count * (time.monotonic() - begin) / threads
    if total >= _MIN_PRINTED_S:
        parts = ", ".join(counted(count, name) for count, name, _ in work if count)
        print(f"{label}: {parts} will take about {duration(total)}", file=sys.stderr, flush=True)
