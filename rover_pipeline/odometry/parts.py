"""Parts of a recording worked on at once: what is sent to threads, processes or other machines."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rover_pipeline.engine.recording import Recording
from rover_pipeline.lidar.geometry import rays, sensor_info, stagger
from rover_pipeline.odometry.observations import Fit, Gyro, Sweep
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.odometry.register import is_of_use, refinement, register, rounds, without_bias
from rover_pipeline.odometry.segments import Segment
from rover_pipeline.odometry.surfels import SurfelMap
from rover_pipeline.odometry.sweeps import Selection
from rover_pipeline.odometry.together import Normal, map_of, normal_equations, solve
from rover_pipeline.odometry.trajectory import Trajectory

#: Sweeps read at once.
_BLOCK = 8


@dataclass
class Reader:
    """Sweeps of a recording, as the odometry takes them.

    Attributes:
        times: f8 (frame,), stamps of the sweeps, seconds since the first one.
        begin, period: of a sweep: its first column after its stamp, and its length; seconds.
        gyro: of the whole recording.
    """

    recording: Recording
    times: np.ndarray
    begin: float
    period: float
    options: OdometryOptions
    metadata: str
    gyro: Gyro

    def read(self, start: int, stop: int) -> Iterator[tuple[Sweep | None, np.ndarray | None]]:
        """Sweeps, with the images they are from; None for those that are not valid."""
        info, selection = sensor_info(self.metadata), self._selection()
        for first in range(start, stop, _BLOCK):
            last = min(first + _BLOCK, stop)
            for number, ranges in enumerate(stagger(self.recording.read("rng", first, last), info), first):
                if self.recording.valid[number]:
                    yield selection.sweep(ranges, number, self.times[number]), ranges
                else:
                    yield None, None

    def some(self, numbers: Iterable[int]) -> Iterator[Sweep]:
        """Sweeps of some frames, valid or not."""
        info, selection = sensor_info(self.metadata), self._selection()
        for number in numbers:
            (ranges,) = stagger(self.recording.read("rng", number, number + 1), info)
            yield selection.sweep(ranges, number, self.times[number])

    def _selection(self) -> Selection:
        options = self.options
        return Selection(
            *rays(self.metadata),
            points=options.points,
            reach=(options.min_range, options.max_range),
            begin=self.begin,
            period=self.period,
        )

    def span(self, start: int, stop: int) -> tuple[float, float]:
        """When some sweeps began and ended, seconds."""
        first, last = self.times[start] + self.begin, self.times[stop - 1] + self.begin + self.period
        return float(min(first, self.times[start])), float(max(last, self.times[stop - 1]))


@dataclass
class Registration:
    """Registers a part on its own."""

    reader: Reader

    def __call__(self, start: int, stop: int) -> Segment:
        reader = self.reader
        ends = reader.times[start:stop]
        return register(
            reader.read(start, stop), ends, reader.options, metadata=reader.metadata, gyro=reader.gyro, start=start
        )


def refined(
    recording: Recording, reader: Reader, trajectory: Trajectory, ranges: Sequence[tuple[int, int]]
) -> tuple[Trajectory, list[Fit | None]]:
    """The trajectory moved, as often as the options say, against a map of all parts; how well each sweep lies on it.

    A part is held against its own map and those of its neighbours, which lie on the disk meanwhile: memory does not
    grow with the recording.

    Args:
        ranges: frames of the parts, each frame in one of them.
    """
    options = reader.options
    for _ in range(max(1, rounds(options))):
        with recording.scratch() as folder:
            work = _Refinement(reader, trajectory, ranges, folder)
            for _ in recording.map(work.write_map, ranges, "map", processes=True):
                pass
            fits: list[Fit | None] = []
            normals = _normals(recording.map(work.equations, ranges, "refine", processes=True), fits)
            if rounds(options):
                trajectory = solve(trajectory, normals, refinement(options))
            else:
                deque(normals, maxlen=0)
    return trajectory, fits


def _normals(found: Iterable[tuple[Normal, list[Fit | None]]], fits: list[Fit | None]) -> Iterator[Normal]:
    """The equations of part after part, whose fits are appended."""
    for normal, part in found:
        fits += part
        yield normal


@dataclass
class _Refinement:
    """Contributes a part to the map, then to the equations of the trajectory."""

    reader: Reader
    trajectory: Trajectory
    ranges: Sequence[tuple[int, int]]
    folder: Path

    def write_map(self, start: int, stop: int) -> None:
        _, here = self.trajectory.window(*self.reader.span(start, stop))
        sweeps = (sweep for sweep, _ in self.reader.read(start, stop) if is_of_use(sweep, self.reader.options))
        np.savez(self._path(start), *map_of(sweeps, here, refinement(self.reader.options)).sums())

    def equations(self, start: int, stop: int) -> tuple[Normal, list[Fit | None]]:
        reader, options = self.reader, self.reader.options
        surfels = SurfelMap(options.voxels)
        own = self.ranges.index((start, stop))
        for first, _ in self.ranges[max(0, own - 1) : own + 2]:
            with np.load(self._path(first)) as arrays:
                surfels.add([arrays[name] for name in arrays.files])
        begin, end = reader.span(start, stop)
        low, here = self.trajectory.window(begin, end)
        used: list[int] = []

        def sweeps() -> Iterator[Sweep]:
            for number, (sweep, _) in enumerate(reader.read(start, stop)):
                if is_of_use(sweep, options):
                    used.append(number)
                    yield sweep

        # Every rate belongs to one part, or it would count twice.
        until = reader.times[stop] + reader.begin if stop < len(reader.times) else end
        gyro = without_bias(reader.gyro.between(begin, until), here)
        normal, found = normal_equations(sweeps(), here, surfels, refinement(options), gyro)
        fits: list[Fit | None] = [None] * (stop - start)
        for number, fit in zip(used, found, strict=True):
            fits[number] = fit
        return normal._replace(first=normal.first + low), fits

    def _path(self, start: int) -> Path:
        return self.folder / f"{start}.npz"
