"""What the segments of a recording contribute to one batch pass, in any process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np

from rover_pipeline.engine.shared import Exchange
from rover_pipeline.lookup import load
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.other_lidars import OtherLidar
from rover_pipeline.odometry.registration.batch import normal_equations
from rover_pipeline.odometry.registration.cross_validation import (
    BLOCK,
    NO_FIT,
    SweepFit,
    TwoMaps,
    evaluate,
    world_rays,
)
from rover_pipeline.odometry.registration.point_terms import Nuisance, PointErrors
from rover_pipeline.odometry.registration.register import FIRST_SWEEPS
from rover_pipeline.odometry.registration.speeds import open_direction
from rover_pipeline.odometry.registration.spline_equations import SplineEquations
from rover_pipeline.odometry.registration.sweep_information import NO_INFORMATION, SweepInformation, information_of
from rover_pipeline.odometry.segments import SweepReader
from rover_pipeline.odometry.spline import SplineTrajectory
from rover_pipeline.odometry.surfels import SurfelMap
from rover_pipeline.odometry.vibration import Vibration


@dataclass
class BatchPass:
    """What each segment contributes to one batch pass: first its map, then normal equations."""

    reader: SweepReader
    trajectory: SplineTrajectory
    store: Exchange  #: the sums of the segments' maps, by the number of the segment.
    errors: PointErrors  #: of points, as far as they are known.
    vibration: Vibration  #: rotations of the lidar about the trajectory.

    def put_map(self, start: int, stop: int) -> None:
        """Make the map of a segment and put it into the store."""
        reader = self.reader
        _, trajectory = self.trajectory.window(*reader.span(start, stop))
        maps = TwoMaps(reader.options, len(reader.times))
        for number, sweep in self._sweeps(start, stop):
            if sweep:
                maps.insert(number, world_rays(sweep, trajectory))
        for other in self._others():
            part = self._around(start, stop)[1]
            for number, sweep in other.sweeps(start, stop):
                maps.insert(number, other.rays(sweep, part))
        segment = reader.ranges.index((start, stop))
        for half, surfels in enumerate(maps.maps):
            self.store.put(f"{segment}-{half}", surfels.sums())

    def in_one_world(self, segment: int) -> range:
        """A segment and its neighbours, without those that nothing connects it with."""
        first = max(segment - (segment not in self.reader.apart), 0)
        return range(first, min(segment + (segment + 1 not in self.reader.apart) + 1, len(self.reader.ranges)))

    def equations(
        self, start: int, stop: int
    ) -> tuple[list[tuple[SplineEquations, Nuisance, list[SweepFit]]], list[np.ndarray]]:
        """For each lidar normal equations of a segment, and how well its sweeps fit the others; and the information of
        the sweeps of the main one."""
        options, maps = self.reader.options, self._maps(start, stop)
        low, trajectory = self.trajectory.window(*self.reader.span(start, stop))
        sweeps = self._sweeps(start, stop)
        fits: list[SweepFit] = []
        fitted = self._evaluated(sweeps, trajectory, maps, self.errors, fits)
        equations, information, nuisance = normal_equations(fitted, trajectory, options, errors=self.errors)
        found = [(equations._replace(first=equations.first + low), nuisance, fits)]
        low, trajectory = self._around(start, stop)
        for number, other in enumerate(self._others()):
            errors, own = self.errors.of_other(number), list[SweepFit]()
            fitted = self._evaluated(other.sweeps(start, stop), trajectory, maps, errors, own, other)
            equations, _, nuisance = normal_equations(fitted, trajectory, options, errors=errors, other=other)
            found.append((equations._replace(first=equations.first + low), nuisance, own))
        return found, information

    def information(self, start: int, stop: int) -> SweepInformation:
        """What the sweeps of the main lidar say about where they are; see `SweepInformation.stacked`."""
        reader, maps = self.reader, self._maps(start, stop)
        _, trajectory = self.trajectory.window(*reader.span(start, stop))
        sweeps, recent = [], SurfelMap(reader.options.voxels)
        for number, sweep in self._sweeps(start, stop):
            # The first half of ten sweeps is compared with the first half of the ten before.
            among = (number - start) % (2 * BLOCK)
            if among == 0:
                earlier, recent = recent, SurfelMap(reader.options.voxels)
            elif among == BLOCK:
                earlier = None
            if not sweep:
                sweeps.append(NO_INFORMATION)
                continue
            if earlier:
                recent.insert(world_rays(sweep, trajectory))
            others, options = maps.others(number), reader.options
            sweeps.append(information_of(sweep, trajectory, others, options, self.errors, reader.spacing, earlier))
        found = SweepInformation.stacked(sweeps)
        ambiguity = self._ambiguity(start, found.information[:, 0], trajectory, maps)
        return found._replace(ambiguity=found.ambiguity + ambiguity)

    def _ambiguity(self, start: int, information: np.ndarray, trajectory: SplineTrajectory, maps: TwoMaps) -> float:
        """See `SweepInformation.ambiguity`.

        Sweeps that seem to stand may follow others that are lost. So those are taken, of each two hundred, that agree
        the most with one another along a direction that hardly any surface faces, and the next such ones. Where equal
        things pass, any two seconds show it, and an accident is one of a single stretch. So the less clear one counts.
        """
        starts = range(max(1, len(information) - FIRST_SWEEPS + 1))
        parts = [information[first : first + FIRST_SWEEPS].sum(axis=0) for first in starts]
        found, weights = [0.0], self.errors.weights(self.reader.options, np.zeros(0))
        for begin in range(0, len(starts), 10 * FIRST_SWEEPS):
            near = [
                (float(matmul(axes[0], parts[first][:3, :3], axes[0])), first, axes)
                for first in starts[begin : begin + 10 * FIRST_SWEEPS]
                if (axes := open_direction(parts[first])) is not None
            ]
            of_stretches: list[float] = []
            # Where the first one agrees at no other speed, no second one is needed.
            while near and len(of_stretches) < 2 and min(of_stretches, default=1.0) >= 1:
                _, first, axes = max(near, key=itemgetter(0))
                near = [each for each in near if abs(each[1] - first) >= FIRST_SWEEPS]
                numbered = self._sweeps(start + first, start + min(first + FIRST_SWEEPS, len(information)))
                sweeps = [(sweep, maps.others(number)) for number, sweep in numbered if sweep]
                if len(sweeps) > 1:
                    # Its library takes half a second to be imported, and most places do not need it.
                    ambiguity = load("rover_pipeline.odometry.registration.aliasing:ambiguity")
                    of_stretches.append(ambiguity(sweeps, trajectory, axes, weights))
            if of_stretches:
                found.append(min(of_stretches))
        return max(found)

    def _maps(self, start: int, stop: int) -> TwoMaps:
        """The two maps of a segment and its neighbours."""
        maps = TwoMaps(self.reader.options, len(self.reader.times))
        for near in self.in_one_world(self.reader.ranges.index((start, stop))):
            for half, surfels in enumerate(maps.maps):
                surfels.add(self.store.get(f"{near}-{half}"))
        return maps

    def _sweeps(self, start: int, stop: int) -> Iterator[tuple[int, Sweep | None]]:
        """The sweeps of the main lidar with their numbers."""
        for number, sweep in enumerate(self.reader.sweeps(start, stop), start):
            yield number, sweep and self.vibration.removed(self.errors.removed(sweep))

    def _evaluated(
        self,
        sweeps: Iterable[tuple[int, Sweep | None]],
        trajectory: SplineTrajectory,
        maps: TwoMaps,
        errors: PointErrors,
        fits: list[SweepFit],
        other: OtherLidar | None = None,
    ) -> Iterator[tuple[Sweep | None, SurfelMap]]:
        """Sweeps, each with the map that it is registered to. How well each fits the others is added to `fits`.

        Args:
            sweeps: each with the number of the sweep of the main lidar that it is, or is next to.
        """
        for number, sweep in sweeps:
            others, options = maps.others(number), self.reader.options
            fits.append(evaluate(sweep, trajectory, others, options, errors, other=other) if sweep else NO_FIT)
            yield sweep, maps.target(number)

    def _others(self) -> Iterator[OtherLidar]:
        return (replace(other, vibration=self.vibration) for other in self.reader.others)

    def _around(self, start: int, stop: int) -> tuple[int, SplineTrajectory]:
        """The trajectory over a segment and a sweep before and after it, and the number of its first control point."""
        times = self.reader.times
        return self.trajectory.window(
            times[max(start - 3, 0)] + self.reader.begin,
            times[min(stop + 2, len(times) - 1)] + self.reader.begin + self.reader.period,
        )
