"""Further lidars of a rig: each contributes its sweeps at its own instants, once its mount is known to fit.

A sweep of another lidar lies on the trajectory of the main one by the other's pose on the rig, its mount. What a mount
declares is corrected first by what the recording shows: points of the other lidar are registered to the map of the main
one, with the mount and the delay of its clock as the only unknowns (surfels as in the odometry itself; the main lidar's
trajectory stays). The correction is estimated once, so its error is common to all sweeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.clocks.clock import clock
from rover_pipeline.engine.recording import Recording
from rover_pipeline.kinematics.mount import Mount, find_mount
from rover_pipeline.kinematics.mounts import TOLERANCE, MountEstimate, changed, compare, difference, prior_covariance
from rover_pipeline.kinematics.rotation import exp, skew
from rover_pipeline.numerics.jumps import jumps
from rover_pipeline.numerics.linear import inv, matmul, solve
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.registration.batch import build_map
from rover_pipeline.odometry.registration.point_terms import ELEVATION, GATE, SCALE, THICK, Nuisance, PointWeights
from rover_pipeline.odometry.registration.point_to_plane import pose_equations
from rover_pipeline.odometry.registration.transforms import transform_rays
from rover_pipeline.odometry.segments import SweepReader
from rover_pipeline.odometry.spline import SplineTrajectory
from rover_pipeline.odometry.surfels import SurfelMap
from rover_pipeline.odometry.vibration import NO_VIBRATION, Vibration

#: Stretches of a recording by which a mount is estimated, which is the number of parts of a sweep by direction and by
#: distance as well; and sweeps of each, of which every other one has a neighbour that is not used. Schedule.
_STRETCHES, _SWEEPS = 12, 8
#: Largest distances of points from the map in turn, m, steps with each, and the squared size of a step, in standard
#: deviations, that is the last one. Schedule.
_GATES, _STEPS, _SETTLED = (1.0, 0.3, 0.1, GATE), 8, 0.01


class MountFit(NamedTuple):
    """What a recording shows of the mount of another lidar."""

    declared: Mount  #: the mount from which the estimate started.
    estimate: MountEstimate  #: see there; its covariance is that of the recording and of a wide prior.
    inliers: float  #: fraction of its points that lie on the map of the main lidar.

    @property
    def contradiction(self) -> str:
        """What the recording says against the declared mount, at a stated rate of false alarms; "" = nothing."""
        deviation = compare(self.declared, self.estimate)
        return f"by its points it is not where `rig` says ({deviation})" if deviation.is_wrong else ""

    @property
    def mount(self) -> Mount:
        """The mount by the recording and by what is declared, which a good rig keeps to."""
        good = np.diag(TOLERANCE**2)
        error = difference(self.declared, self.estimate.mount)
        return changed(self.declared, matmul(good, solve(good + self.estimate.covariance, error)))

    def summary(self) -> dict[str, Any]:
        """For provenance: the error of the declared mount, rad, m and s, as `mounts` has it, and its covariance."""
        covariance = [[float(f"{value:.4g}") for value in row] for row in self.estimate.covariance]
        error = difference(self.declared, self.estimate.mount).round(7).tolist()
        return {"error": error, "covariance": covariance, "inliers": round(self.inliers, 3)}


@dataclass(frozen=True)
class OtherLidar:
    """A lidar beside the main one, whose sweeps are registered along its trajectory."""

    name: str
    reader: SweepReader  #: of its sweeps; its times are those of the main lidar's clock, by the mount's time offset.
    mount: Mount  #: its pose in the main lidar's frame.
    #: i8 (frame,), the sweep of the main lidar that ends next to each of its sweeps; -1 = none does.
    frames: np.ndarray
    vibration: Vibration = NO_VIBRATION  #: rotations of the main lidar about the trajectory.

    @classmethod
    def of(cls, name: str, recording: Recording, mount: Mount, main: SweepReader, origin: float) -> OtherLidar:
        """A lidar of a recording.

        Args:
            origin: what the times of `main` are counted from, s.
        """
        options, metadata = main.options, recording.texts["metadata"]
        times = clock("lidar", recording.ts, options.times).best - origin + mount.time_offset
        reader = SweepReader(recording, options, metadata, times=times)
        return cls(name, reader, mount, np.zeros(0, "i8"))._beside(main)

    def _beside(self, main: SweepReader) -> OtherLidar:
        """The same with its sweeps numbered by those of the main lidar that end next to them."""
        times, last = self.reader.times, len(main.times) - 1
        after = np.clip(np.searchsorted(main.times, times), 1, last)
        nearest = np.where(np.abs(main.times[after - 1] - times) < np.abs(main.times[after] - times), after - 1, after)
        first, end = main.span(0, last + 1)
        start, stop = times + self.reader.begin, times + self.reader.begin + self.reader.period
        apart = np.abs(main.times[nearest] - times) > 1.5 * float(np.median(np.diff(main.times)))
        outside = apart | (np.minimum(start, times) < first) | (np.maximum(stop, times) > end)
        usable = ~outside & (main.recording.valid[nearest] != 0)
        return replace(self, frames=np.where(usable, nearest, -1))

    def at(self, mount: Mount, main: SweepReader) -> OtherLidar:
        """The same with another mount."""
        later = mount.time_offset - self.mount.time_offset
        return replace(self, reader=replace(self.reader, times=self.reader.times + later), mount=mount)._beside(main)

    def sweeps(self, start: int, stop: int) -> Iterator[tuple[int, Sweep]]:
        """Its sweeps that end next to the main lidar's `start:stop`, with the numbers of those."""
        for number in np.flatnonzero((self.frames >= start) & (self.frames < stop)).tolist():
            for sweep in self.reader.select([number]):
                yield int(self.frames[number]), sweep

    def on_rig(self, pos: np.ndarray, rot: np.ndarray, ts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Its poses at some instants, s, where the trajectory has others: f8 (C, 3), m, and f8 (C, 3, 3), world."""
        if len(self.vibration.times):
            rot = matmul(rot, exp(self.vibration.at(ts)[0]))
        return pos + matmul(rot, self.mount.translation), matmul(rot, self.mount.rotation)

    def rays(self, sweep: Sweep, trajectory: SplineTrajectory) -> np.ndarray:
        """Points of a sweep in the world, f8 (N, 10), as a map takes them. Its beams are others."""
        poses = self.on_rig(*trajectory.poses(trajectory.locate(sweep.times)), sweep.times)
        rays = transform_rays(sweep.points, sweep.column, *poses)
        rays[:, 7:] = 0.0
        return rays

    def of_main(
        self, matrix: np.ndarray, right: np.ndarray, rot: np.ndarray, found: Nuisance
    ) -> tuple[np.ndarray, np.ndarray, Nuisance]:
        """Equations of the main lidar's poses from those of its own.

        Args:
            matrix, right: f8 (C, 6, 6), (C, 6); rot: f8 (C, 3, 3), of the main lidar.
            found: of the same poses. What it says of the elevation of beams is about this lidar's, and left out.
        """
        by = np.zeros((len(rot), 6, 6))
        by[:, :3, :3], by[:, 3:, 3:] = np.eye(3), self.mount.rotation.T
        by[:, :3, 3:] = -matmul(rot, skew(self.mount.translation))
        back = np.swapaxes(by, 1, 2)
        cross = matmul(back[None], found.cross[..., None])[..., 0]
        information, wanted = found.information.copy(), found.right.copy()
        if len(cross):
            cross[ELEVATION], information[ELEVATION], information[:, ELEVATION], wanted[ELEVATION] = 0.0, 0.0, 0.0, 0.0
        turned = matmul(back, right[..., None])[..., 0]
        return matmul(back, matrix, by), turned, Nuisance(cross, information, wanted, np.zeros_like(found.of_beams))


def other_lidars(
    recording: Recording, main: SweepReader, config: str | None, origin: float
) -> tuple[list[OtherLidar], dict[str, str]]:
    """The lidars beside the main one whose mounts are declared, and why each other one is left out, by name.

    Args:
        config: `config.yaml`, which may hold the mounts.
        origin: what the times of `main` are counted from, s.
    """
    found, left_out = [], {}
    lidars = {name: other for name, other in recording.others.items() if other.arguments}  # others are no lidars
    jumps_back = bool(lidars) and bool(len(jumps(recording.ts)))
    for name, other in lidars.items():
        mount = find_mount(name, main.options.rig, config)
        if not mount.known:
            left_out[name] = f"nothing says where it is; set `rig.{name}` in the recording's config.yaml"
        elif jumps_back or not other.count or len(main.times) < 2:
            left_out[name] = "the clock jumps" if jumps_back else "there are too few sweeps"
        else:
            found.append(OtherLidar.of(name, other, mount, main, origin))
    return found, left_out


def estimate_mount(other: OtherLidar, trajectory: SplineTrajectory, main: SweepReader) -> MountFit:
    """Where another lidar is by its points on the map of the main one, whose trajectory is known.

    Short stretches of the recording, spread over it, have a map each, so that memory does not grow with the recording.
    Errors of points are not independent, so how much groups of points differ shows what remains (sandwich estimator;
    P. J. Huber, 1967).
    """
    stretches = list(_stretches(other, trajectory, main))
    declared, mount, inliers, covariance = other.mount, other.mount, 0.0, prior_covariance(other.mount)
    prior = inv(covariance)
    for gate in _GATES:
        for _ in range(_STEPS):
            moved, information, right, points, on_map = other.at(mount, main), np.zeros((7, 7)), np.zeros(7), 0.0, 0.0
            for _, sweep, surfels in _later(stretches, mount.time_offset - declared.time_offset):
                matrix, wanted, statistics = _equations(moved, sweep, trajectory, surfels, gate)
                information, points, on_map = information + matrix, points + statistics[0], on_map + statistics[1]
                right += wanted.sum(0)
            inliers = on_map / max(points, 1.0)
            step = solve(information + prior, right + matmul(prior, difference(mount, declared)))
            mount = changed(mount, step)
            if matmul(step, information + prior, step) < _SETTLED:
                break
    back = inv(information + prior)
    late = _later(stretches, mount.time_offset - declared.time_offset)
    found = back + matmul(back, _common_errors(other.at(mount, main), late, trajectory, len(stretches)), back)
    return MountFit(declared, MountEstimate(mount, found, covariance), inliers)


def _stretches(
    other: OtherLidar, trajectory: SplineTrajectory, main: SweepReader
) -> Iterator[tuple[list[Sweep], SurfelMap]]:
    """Sweeps of another lidar, and the map of the main one's sweeps around them, of some stretches of a recording."""
    usable = np.flatnonzero(other.frames >= 0)
    parts = np.array_split(usable, min(_STRETCHES, max(1, len(usable) // (2 * _SWEEPS))))
    for part in parts:
        middle = max(0, (len(part) - 2 * _SWEEPS) // 2)
        chosen = part[middle : middle + 2 * _SWEEPS]
        if len(chosen):
            frames = range(other.frames[chosen].min(), other.frames[chosen].max() + 1)
            yield (
                list(other.reader.select(chosen[::2].tolist())),
                build_map(main.select(frames), trajectory, main.options.voxels),
            )


def _later(stretches: Sequence[tuple[list[Sweep], SurfelMap]], delay: float) -> Iterator[tuple[int, Sweep, SurfelMap]]:
    """The sweeps of some stretches, s later, each with the number and the map of its stretch."""
    for number, (sweeps, surfels) in enumerate(stretches):
        for sweep in sweeps:
            yield number, sweep._replace(times=sweep.times + delay), surfels


def _common_errors(
    other: OtherLidar, sweeps: Iterable[tuple[int, Sweep, SurfelMap]], trajectory: SplineTrajectory, stretches: int
) -> np.ndarray:
    """Covariance of the right side of the equations by the errors that many points have in common, f8 (7, 7).

    Points of one stretch of the recording have an error in common (of the trajectory and of the place), points in one
    direction another one (of the surfaces beside the rig), and points at one distance a third one (of ranges, of beams,
    and of surfaces that are seen at that angle). So the covariances of the three add up; each is estimated from how
    much the right sides of its groups differ. And all ranges may be too long by as much as the noise of one.
    """
    groups, longer = [np.zeros((count, 7)) for count in (stretches, _STRETCHES, _STRETCHES)], np.zeros(7)
    for number, sweep, surfels in sweeps:
        distance = np.linalg.norm(sweep.points, axis=1)
        of_distance = np.argsort(np.argsort(distance, kind="stable")) * _STRETCHES // max(len(distance), 1)
        of_direction = np.arange(len(sweep.times)) * _STRETCHES // max(len(sweep.times), 1)
        for ring in range(_STRETCHES):
            chosen = of_distance == ring
            part = sweep._replace(points=sweep.points[chosen], column=sweep.column[chosen])
            _, right, _ = _equations(other, part, trajectory, surfels, GATE)
            groups[0][number] += right.sum(0)
            np.add.at(groups[1], of_direction, right)
            groups[2][ring] += right.sum(0)
        farther = 1 + other.reader.options.range_noise / np.maximum(distance[:, None], 1e-3)
        moved = sweep._replace(points=(sweep.points * farther).astype("f4"))
        longer += _equations(other, moved, trajectory, surfels, GATE)[1].sum(0)
    differences = [right - right.mean(0) for right in groups]
    covariances = [matmul(each.T, each) * len(each) / max(len(each) - 1, 1) for each in differences]
    longer -= groups[2].sum(0)
    return np.sum(covariances, axis=0) + np.outer(longer, longer)


def _equations(
    other: OtherLidar, sweep: Sweep, trajectory: SplineTrajectory, surfels: SurfelMap, gate: float
) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    """Normal equations of a correction of the mount: the matrix, f8 (7, 7), and the right side of each column, f8
    (C, 7); and numbers of points and of those on the map."""
    state = trajectory.at(sweep.times)
    pos, rot = other.on_rig(state.pos, state.rot, sweep.times)
    noise = other.reader.options.range_noise
    weights = PointWeights(gate, noise, SCALE * gate / GATE, 1, THICK, 0.0, np.zeros(0))
    matrix, right, statistics, _ = pose_equations(sweep.points, sweep.column, pos, rot, surfels.tables, weights)
    by = np.zeros((len(pos), 6, 7))
    by[:, 3:, :3], by[:, :3, 3:6] = other.mount.rotation.T, state.rot
    by[:, :3, 6] = state.vel + np.einsum("nij,nj->ni", state.rot, np.cross(state.avel, other.mount.translation))
    by[:, 3:, 6] = matmul(state.avel, other.mount.rotation)
    back = np.swapaxes(by, 1, 2)
    wanted = matmul(back, right[..., None])[..., 0]
    return matmul(back, matrix, by).sum(0), wanted, (statistics.points, statistics.inliers)
