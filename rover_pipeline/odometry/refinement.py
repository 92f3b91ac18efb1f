"""The whole trajectory at once: it is refined against the map of all its sweeps, and judged.

Segments contribute to one map and to one system of equations, in any process, so that the result has no seams.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rover_pipeline.engine.exchange import Exchange
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.registration.batch import SplineSystem, normal_equations
from rover_pipeline.odometry.registration.covariance import covariances
from rover_pipeline.odometry.registration.judge import (
    NO_FIT,
    SweepFit,
    TwoMaps,
    is_worse,
    judge,
    noise_scale,
    world_rays,
)
from rover_pipeline.odometry.registration.register import batch_passes, has_settled
from rover_pipeline.odometry.registration.spline_equations import SplineEquations
from rover_pipeline.odometry.segments import SweepReader
from rover_pipeline.odometry.spline import SplineTrajectory
from rover_pipeline.odometry.surfels import SurfelMap


class Batch(NamedTuple):
    """A trajectory, and what is known about it from all sweeps at once.

    Attributes:
        trajectory: which `fits` and `equations` belong to.
        fits: of each frame.
        information: f8 (frame, 6, 6), of the sweep alone; see `registration.batch.normal_equations`.
        system: the equations of all control points.
        noise: variance of the points' distances from their planes, relative to the expected one.
    """

    trajectory: SplineTrajectory
    fits: list[SweepFit]
    information: np.ndarray
    system: SplineSystem
    noise: float

    def covariances(self, ts: np.ndarray) -> np.ndarray:
        """Of the poses at some instants, f8 (frame, 6, 6); see `registration.covariance.covariances`."""
        return covariances(self.system, self.noise, ts)


def refine_in_batch(reader: SweepReader, trajectory: SplineTrajectory, ranges: Sequence[tuple[int, int]]) -> Batch:
    """The trajectory after the batch passes that the options ask for; a pass that makes it worse is not kept.

    A segment is registered to its own map and to those of its neighbours, which are kept outside of memory: memory does
    not grow with the recording.

    Args:
        ranges: frames of the segments, each frame in one of them.
    """
    best, refined = _at_once(reader, trajectory, ranges)
    for _ in range(batch_passes(reader.options)):
        before = best
        batch, refined = _at_once(reader, refined, ranges)
        if is_worse(before.fits, batch.fits):
            break
        best = batch
        if has_settled(reader.options, before.trajectory, batch.trajectory, reader.times):
            break
    return best


def _at_once(
    reader: SweepReader, trajectory: SplineTrajectory, ranges: Sequence[tuple[int, int]]
) -> tuple[Batch, SplineTrajectory]:
    """What all sweeps at once say about a trajectory, and the trajectory that fits them best."""
    recording, options = reader.recording, reader.options
    fits: list[SweepFit] = []
    information: list[np.ndarray] = []
    system = SplineSystem(trajectory, options)
    with recording.exchange() as store:
        segments = _BatchPass(reader, trajectory, ranges, store)
        deque(recording.map(segments.put_map, ranges, "map", processes=True), maxlen=0)
        for equations, part_fits, part in recording.map(segments.equations, ranges, "refine", processes=True):
            system.add(equations)
            fits += part_fits
            information += part
    scale = noise_scale(fits)
    return Batch(trajectory, fits, np.array(information) / scale, system, scale), system.solve(scale)


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
        reader = self.reader
        _, trajectory = self.trajectory.window(*reader.span(start, stop))
        maps = TwoMaps(reader.options, len(reader.times))
        for number, (sweep, _) in enumerate(reader.read(start, stop), start):
            if sweep:
                maps.insert(number, world_rays(sweep, trajectory))
        segment = self.ranges.index((start, stop))
        for half, surfels in enumerate(maps.maps):
            self.store.put(f"{segment}-{half}", surfels.sums())

    def equations(self, start: int, stop: int) -> tuple[SplineEquations, list[SweepFit], list[np.ndarray]]:
        """Normal equations of a segment, how well each of its sweeps fits the others, and its information."""
        reader, options = self.reader, self.reader.options
        maps = TwoMaps(options, len(reader.times))
        segment = self.ranges.index((start, stop))
        for near in range(max(0, segment - 1), min(segment + 2, len(self.ranges))):
            for half, surfels in enumerate(maps.maps):
                surfels.add(self.store.get(f"{near}-{half}"))
        begin, end = reader.span(start, stop)
        low, trajectory = self.trajectory.window(begin, end)
        # Each rate belongs to one segment only. Otherwise it would count twice.
        until = reader.times[stop] + reader.begin if stop < len(reader.times) else end
        gyro = reader.gyro.between(begin, until).without_bias(trajectory)
        fits: list[SweepFit] = []

        def sweeps() -> Iterator[tuple[Sweep | None, SurfelMap]]:
            for number, (sweep, _) in enumerate(reader.read(start, stop), start):
                fits.append(judge(sweep, trajectory, maps.others(number), options) if sweep else NO_FIT)
                yield sweep, maps.target(number)

        equations, information = normal_equations(sweeps(), trajectory, options, gyro)
        return equations._replace(first=equations.first + low), fits, information
