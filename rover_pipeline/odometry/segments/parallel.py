"""Segments of a recording that are worked on at once: what is sent to threads, processes or other machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rover_pipeline.engine.exchange import Exchange
from rover_pipeline.engine.recording import Recording
from rover_pipeline.lidar.geometry import rays, sensor_info, stagger
from rover_pipeline.odometry.observations import Gyro, Sweep
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.odometry.registration.batch import SweepFit, build_map, normal_equations, solve
from rover_pipeline.odometry.registration.point_selection import PointSelection
from rover_pipeline.odometry.registration.register import batch_passes, is_usable, register
from rover_pipeline.odometry.registration.spline_equations import SplineEquations
from rover_pipeline.odometry.segments.merge import Segment
from rover_pipeline.odometry.spline.bspline import SplineTrajectory
from rover_pipeline.odometry.surfels.surfel_map import SurfelMap

#: Number of sweeps that are read at once.
_BLOCK = 8


@dataclass
class SweepReader:
    """Sweeps of a recording, as the odometry takes them.

    Attributes:
        times: f8 (frame,), time stamps of the sweeps, seconds since the first one.
        begin, period: of a sweep: its first column after its time stamp, and its length; seconds.
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
        """Sweeps with the range images they are from; None for those that are not valid."""
        info, selection = sensor_info(self.metadata), self._selection()
        for first in range(start, stop, _BLOCK):
            last = min(first + _BLOCK, stop)
            for number, ranges in enumerate(stagger(self.recording.read("rng", first, last), info), first):
                if self.recording.valid[number]:
                    yield selection.sweep(ranges, number, self.times[number]), ranges
                else:
                    yield None, None

    def select(self, numbers: Iterable[int]) -> Iterator[Sweep]:
        """The sweeps of some frames, valid or not."""
        info, selection = sensor_info(self.metadata), self._selection()
        for number in numbers:
            (ranges,) = stagger(self.recording.read("rng", number, number + 1), info)
            yield selection.sweep(ranges, number, self.times[number])

    def span(self, start: int, stop: int) -> tuple[float, float]:
        """First and last instant of some sweeps, seconds."""
        first, last = self.times[start] + self.begin, self.times[stop - 1] + self.begin + self.period
        return float(min(first, self.times[start])), float(max(last, self.times[stop - 1]))

    def _selection(self) -> PointSelection:
        options = self.options
        return PointSelection(
            *rays(self.metadata),
            points=options.points,
            min_range=options.min_range,
            max_range=options.max_range,
            begin=self.begin,
            period=self.period,
        )


@dataclass
class SegmentRegistration:
    """Registers a segment independently of the others."""

    reader: SweepReader

    def __call__(self, start: int, stop: int) -> Segment:
        reader = self.reader
        trajectory, surfels = register(
            reader.read(start, stop),
            reader.times[start:stop],
            reader.options,
            metadata=reader.metadata,
            gyro=reader.gyro,
        )
        return Segment(start, stop, trajectory, surfels.thin())


def refine_in_batch(
    reader: SweepReader, trajectory: SplineTrajectory, ranges: Sequence[tuple[int, int]]
) -> tuple[SplineTrajectory, list[SweepFit | None]]:
    """The trajectory after the batch passes that the options ask for, and how well each sweep fits the map.

    A segment is registered to its own map and to those of its neighbours, which are kept outside of memory: memory does
    not grow with the recording.

    Args:
        ranges: frames of the segments, each frame in one of them.
    """
    recording, options = reader.recording, reader.options
    for _ in range(max(1, batch_passes(options))):
        with recording.exchange() as store:
            segments = _BatchPass(reader, trajectory, ranges, store)
            for _ in recording.map(segments.put_map, ranges, "map", processes=True):
                pass
            fits: list[SweepFit | None] = []
            equations = _collected(recording.map(segments.equations, ranges, "refine", processes=True), fits)
            if batch_passes(options):
                trajectory = solve(trajectory, equations, options)
            else:
                for _ in equations:
                    pass  # the fits are wanted
    return trajectory, fits


def _collected(
    results: Iterable[tuple[SplineEquations, list[SweepFit | None]]], fits: list[SweepFit | None]
) -> Iterator[SplineEquations]:
    """The equations of one segment after the other. Appends the fits of each to `fits`."""
    for equations, part in results:
        fits += part
        yield equations


@dataclass
class _BatchPass:
    """What each segment contributes to one batch pass: first its map, then normal equations.

    Attributes:
        store: the sums of the segments' maps, by the number of the segment.
    """

    reader: SweepReader
    trajectory: SplineTrajectory
    ranges: Sequence[tuple[int, int]]
    store: Exchange

    def put_map(self, start: int, stop: int) -> None:
        """Make the map of a segment and put it into the store."""
        reader, options = self.reader, self.reader.options
        _, trajectory = self.trajectory.window(*reader.span(start, stop))
        sweeps = (sweep for sweep, _ in reader.read(start, stop) if is_usable(sweep, options))
        surfels = build_map(sweeps, trajectory, options)
        self.store.put(str(self.ranges.index((start, stop))), surfels.sums())

    def equations(self, start: int, stop: int) -> tuple[SplineEquations, list[SweepFit | None]]:
        """Normal equations of a segment, and how well each of its frames fits; None for sweeps that are not used."""
        reader, options = self.reader, self.reader.options
        surfels, segment = SurfelMap(options.voxels), self.ranges.index((start, stop))
        for near in range(max(0, segment - 1), min(segment + 2, len(self.ranges))):
            surfels.add(self.store.get(str(near)))
        begin, end = reader.span(start, stop)
        low, trajectory = self.trajectory.window(begin, end)
        used: list[int] = []

        def sweeps() -> Iterator[Sweep]:
            for number, (sweep, _) in enumerate(reader.read(start, stop)):
                if is_usable(sweep, options):
                    used.append(number)
                    yield sweep

        # Each rate belongs to one segment only. Otherwise it would count twice.
        until = reader.times[stop] + reader.begin if stop < len(reader.times) else end
        gyro = reader.gyro.between(begin, until).without_bias(trajectory)
        equations, results = normal_equations(sweeps(), trajectory, surfels, options, gyro)
        fits: list[SweepFit | None] = [None] * (stop - start)
        for number, fit in zip(used, results, strict=True):
            fits[number] = fit
        return equations._replace(first=equations.first + low), fits
