"""What the segments of a recording contribute to one batch pass, in any process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rover_pipeline.engine.shared import Exchange
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.other_lidars import OtherLidar
from rover_pipeline.odometry.registration.batch import normal_equations
from rover_pipeline.odometry.registration.cross_validation import NO_FIT, SweepFit, TwoMaps, evaluate, world_rays
from rover_pipeline.odometry.registration.point_terms import Nuisance, PointErrors
from rover_pipeline.odometry.registration.spline_equations import SplineEquations
from rover_pipeline.odometry.segments import SweepReader
from rover_pipeline.odometry.spline import SplineTrajectory
from rover_pipeline.odometry.surfels import SurfelMap
from rover_pipeline.odometry.vibration import Vibration


@dataclass
class BatchPass:
    """What each segment contributes to one batch pass: first its map, then normal equations.

    Attributes:
        store: the sums of the segments' maps, by the number of the segment.
        errors: of points, as far as they are known.
        vibration: rotations of the lidar about the trajectory.
    """

    reader: SweepReader
    trajectory: SplineTrajectory
    ranges: Sequence[tuple[int, int]]
    store: Exchange
    errors: PointErrors
    vibration: Vibration

    def put_map(self, start: int, stop: int) -> None:
        """Make the map of a segment and put it into the store."""
        reader = self.reader
        _, trajectory = self.trajectory.window(*reader.span(start, stop))
        maps = TwoMaps(reader.options, len(reader.times))
        for number, (sweep, _) in enumerate(reader.read(start, stop), start):
            if sweep:
                maps.insert(number, world_rays(self._corrected(sweep), trajectory))
        for other in self._others():
            part = self._around(start, stop)[1]
            for number, sweep in other.sweeps(start, stop):
                maps.insert(number, other.rays(sweep, part))
        segment = self.ranges.index((start, stop))
        for half, surfels in enumerate(maps.maps):
            self.store.put(f"{segment}-{half}", surfels.sums())

    def equations(
        self, start: int, stop: int
    ) -> tuple[list[tuple[SplineEquations, Nuisance]], list[SweepFit], list[np.ndarray]]:
        """Normal equations of a segment by each lidar, how well sweeps fit the others, and their information."""
        reader, options = self.reader, self.reader.options
        maps = TwoMaps(options, len(reader.times))
        segment = self.ranges.index((start, stop))
        for near in range(max(0, segment - 1), min(segment + 2, len(self.ranges))):
            for half, surfels in enumerate(maps.maps):
                surfels.add(self.store.get(f"{near}-{half}"))
        begin, end = reader.span(start, stop)
        low, trajectory = self.trajectory.window(begin, end)
        fits: list[SweepFit] = []

        def sweeps() -> Iterator[tuple[Sweep | None, SurfelMap]]:
            for number, (sweep, _) in enumerate(reader.read(start, stop), start):
                sweep = self._corrected(sweep) if sweep else None
                others = maps.others(number)
                fits.append(evaluate(sweep, trajectory, others, options, self.errors) if sweep else NO_FIT)
                yield sweep, maps.target(number)

        equations, information, nuisance = normal_equations(sweeps(), trajectory, options, errors=self.errors)
        found = [(equations._replace(first=equations.first + low), nuisance)]
        for other in self._others():
            low, part = self._around(start, stop)
            beside = ((sweep, maps.target(number)) for number, sweep in other.sweeps(start, stop))
            equations, _, nuisance = normal_equations(beside, part, options, errors=self.errors, other=other)
            found.append((equations._replace(first=equations.first + low), nuisance))
        return found, fits, information

    def _others(self) -> Iterator[OtherLidar]:
        return (replace(other, vibration=self.vibration) for other in self.reader.others)

    def _around(self, start: int, stop: int) -> tuple[int, SplineTrajectory]:
        """The trajectory over a segment and a sweep before and after it, and the number of its first control point."""
        times = self.reader.times
        return self.trajectory.window(
            times[max(start - 3, 0)] + self.reader.begin,
            times[min(stop + 2, len(times) - 1)] + self.reader.begin + self.reader.period,
        )

    def _corrected(self, sweep: Sweep) -> Sweep:
        return self.vibration.removed(self.errors.removed(sweep))
