"""What the outputs of a recording cost: time of a processor, memory, and bytes. Computed from the sizes of its files.

The rates of the table of steps are estimates: a cluster's jobs ask for several times as much, and more when they are
retried.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rover_pipeline.engine.step import SMALL, Rate, Step
from rover_pipeline.errors import ConfigError
from rover_pipeline.table import TABLE

#: Seconds that every step takes to start and to be planned. Schedule.
_START_S = 2.0
#: Memory of Snakemake beside the steps, MB, and what an estimate is multiplied with. Schedule.
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


def cost_of(source: Path, made: Iterable[Step]) -> Cost:
    """The cost of some steps for the recording in `source`, whose sensors they name."""
    sizes: dict[str, int] = {}
    seconds, written = 0.0, 0.0
    steps = []
    for step in made:
        rate = rate_of(step)
        for sensor in rate.sensors:
            if sensor not in sizes:
                sizes[sensor] = _size(source / sensor)
        size = sum(sizes[sensor] for sensor in rate.sensors)
        seconds += _START_S + 1e-9 * rate.ns * size
        written += rate.written * size
        steps.append((rate.memory_mb, rate.frames))
    return Cost(seconds, sum(sizes.values()), round(written), tuple(steps))


def work_s(source: Path, made: Collection[Step]) -> float:
    """Seconds of one processor that some steps take for a recording, besides the start of their processes."""
    return cost_of(source, made).seconds - _START_S * len(made)


def rate_of(step: Step) -> Rate:
    """What a step costs. Raises ConfigError for a step of the table that does not say it."""
    if step.run.cost is None and step.sensor in TABLE:
        raise ConfigError(f"step {step.sensor}: its entry of the table declares no cost")
    return step.run.cost or SMALL


def _size(folder: Path) -> int:
    """Bytes of the files of a sensor, and of those in its folders of pictures."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.stat(f"{place}/{name}").st_size
    return size
