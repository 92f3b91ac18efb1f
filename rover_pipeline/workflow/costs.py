"""What the outputs of a recording cost: time of a processor, memory, and bytes. Computed from the sizes of its files.

The rates were measured on recordings at the real rig's shapes (benchmarks/README.md), on one processor of a machine
with other work. They are estimates: a cluster's jobs ask for several times as much, and more when they are retried.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Rate(NamedTuple):
    """What an output costs for each byte of the raw files that it is made from.

    Attributes:
        sensors: raw sensors whose size it grows with.
        ns: nanoseconds of one processor for a byte.
        written: bytes for a byte.
        memory_mb: peak of its process with small chunks, MB.
        frames: memory of each thread in chunks: input, output and what is computed between.
    """

    sensors: tuple[str, ...]
    ns: float
    written: float
    memory_mb: int = 300
    frames: int = 6


#: Two minutes of `indoor` have 0.46 GB of lidar, 1.9 GB of radar, 1.1 GB of camera. Times were measured on 25 s of it.
_RATES: dict[str, Rate] = {
    "_lidar_image": Rate(("lidar",), 80, 2.4),
    "_lidar_points": Rate(("lidar",), 90, 7.0),
    "_odom": Rate(("lidar",), 100, 0.002, 900),
    "_map": Rate(("lidar",), 35, 0.1, 900),
    "_bev": Rate(("lidar",), 28, 0.1, 400),
    "_occupancy": Rate(("lidar",), 65, 0.05, 400),
    "_objects": Rate(("lidar",), 300, 0.01, 500),
    "_radar_range_doppler": Rate(("radar",), 3, 0.1),
    "_radar_range_azimuth": Rate(("radar",), 5, 0.1),
    "_radar_spectrum": Rate(("radar",), 8, 0.7),
    "_radar_points": Rate(("radar",), 14, 0.01),
    "_radar_quality": Rate(("radar",), 33, 0.01),
    "_camera_frames": Rate(("camera",), 16, 1.9),
    "_camera_depth": Rate(("lidar", "camera"), 30, 0.7, 400),
    "_camera_model": Rate(("camera",), 100, 1.0, 2000),
}
#: Poses, times, velocities, the page: their time is that of starting a process.
_SMALL = Rate(("imu",), 50, 1.0)
#: Seconds that every step takes to start and to be planned.
_START_S = 2.0
#: Memory of Snakemake beside the steps, MB, and what an estimate is multiplied with.
_SNAKEMAKE_MB = 250
_MARGIN = 1.4


@dataclass(frozen=True)
class Cost:
    """The cost of some outputs. Costs are added up.

    Attributes:
        seconds: of one processor.
        read, written: bytes; what is read by several steps counts once.
        steps: peak of a step's process, MB, and chunks that each of its threads holds, by step.
    """

    seconds: float = 0.0
    read: int = 0
    written: int = 0
    steps: tuple[tuple[int, int], ...] = ()

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.seconds + other.seconds,
            self.read + other.read,
            self.written + other.written,
            tuple(sorted({*self.steps, *other.steps})),
        )

    def memory_mb(self, threads: int, chunk: int) -> int:
        """Memory of a job that makes them with so many threads: as many steps as threads at once, the largest ones."""
        worst = sorted((base + threads * frames * chunk / 1e6 for base, frames in self.steps), reverse=True)
        return round(_MARGIN * (_SNAKEMAKE_MB + sum(worst[: max(1, threads)])))


def cost_of(source: Path, outputs: Iterable[str]) -> Cost:
    """The cost of the outputs of a recording in `source`."""
    sizes: dict[str, int] = {}
    seconds, written = 0.0, 0.0
    steps = []
    for output in outputs:
        rate = _RATES.get(output, _SMALL)
        for sensor in rate.sensors:
            if sensor not in sizes:
                sizes[sensor] = _size(source / sensor)
        size = sum(sizes[sensor] for sensor in rate.sensors)
        seconds += _START_S + 1e-9 * rate.ns * size
        written += rate.written * size
        steps.append((rate.memory_mb, rate.frames))
    return Cost(seconds, sum(sizes.values()), round(written), tuple(steps))


def work_s(source: Path, outputs: Collection[str]) -> float:
    """Seconds of one processor that the outputs of a recording take, besides the start of their processes."""
    return cost_of(source, outputs).seconds - _START_S * len(outputs)


def memory_mb(output: str) -> int:
    """Peak of the process that makes an output with small chunks, MB."""
    return _RATES.get(output, _SMALL).memory_mb


def _size(folder: Path) -> int:
    """Bytes of the files of a sensor, and of those in its folders of pictures."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.stat(f"{place}/{name}").st_size
    return size
