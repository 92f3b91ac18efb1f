"""The whole trajectory at once: it is refined against the map of all its sweeps, and cross-validated.

Segments contribute to one map and to one system of equations, in any process, so that the result has no seams.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple, cast

import numpy as np

from rover_pipeline.engine.shared import Exchange
from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.kinematics.state import State
from rover_pipeline.numerics.blocks import let_go
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.odometry.batch_pass import BatchPass
from rover_pipeline.odometry.clouds import BLOCK
from rover_pipeline.odometry.inertial import Imu
from rover_pipeline.odometry.observations import Gyro
from rover_pipeline.odometry.other_lidars import MountFit, OtherLidar, estimate_mount
from rover_pipeline.odometry.registration.batch import MEAN_DEGREES, SplineSystem, rate_equations
from rover_pipeline.odometry.registration.convergence import (
    MAX_REMAINING,
    Pass,
    banded_product,
    difference,
    mixed,
    pose_moves,
    rate,
    remaining_moves,
)
from rover_pipeline.odometry.registration.covariance import covariances, in_deviations
from rover_pipeline.odometry.registration.cross_validation import (
    ROW,
    SweepFit,
    correlations,
    is_worse,
    joined,
    mean_difference,
    noise_scale,
    range_noise,
    weakly_constrained,
)
from rover_pipeline.odometry.registration.point_terms import DEPTH, ELEVATION, Nuisance, PointErrors
from rover_pipeline.odometry.registration.register import batch_passes, has_settled
from rover_pipeline.odometry.registration.sweep_information import SweepInformation
from rover_pipeline.odometry.segments import SweepReader
from rover_pipeline.odometry.spline import SplineTrajectory

#: Information by which the gyroscope may move a second of the trajectory against the lidar, for each of its unknowns,
#: before it is asked whether the lidar alone fits better. Tuned: by hand.
_MOVES = 4.0
#: Standard deviations within which two trajectories are one. What further passes would move by less is added to the
#: covariances, and they are not made. Tuned: by hand.
_SAME = 1.0
#: That of a pass without a gyroscope. Layout.
_NO_IMU = Imu("not used")


class Batch(NamedTuple):
    """A trajectory, and what is known about it from all sweeps at once."""

    segments: BatchPass  #: the pass that made this batch. Its maps are kept as long as the batch is.
    fits: Sequence[SweepFit]  #: of each frame.
    information: np.ndarray  #: f8 (frame, 6, 6), of the sweep alone; see `registration.batch.normal_equations`.
    system: SplineSystem  #: the equations of all control points.
    noise: float  #: variance of the points' distances from their planes, relative to the expected one.
    #: share of an error that a pass leaves, because the map follows the trajectory; see `convergence.rate`.
    missing_information: float = 0.0
    #: f8 (frame, 6), how far further passes would move the poses, if there were any, m and then rad, in the lidar
    #: frame.
    remaining: np.ndarray = np.zeros((1, 6))
    remaining_elevation: float = 0.0  #: how far they would raise the beams, rad.
    #: what its sweeps show of the errors of further lidars; see `PointErrors`.
    others: tuple[tuple[tuple[float, float], float], ...] = ()

    @property
    def trajectory(self) -> SplineTrajectory:
        """The trajectory that `fits` and `system` belong to."""
        return self.segments.trajectory

    @property
    def errors(self) -> PointErrors:
        """Errors of points, which the equations took for known."""
        return self.segments.errors

    @property
    def band(self) -> np.ndarray:
        """The lidar's information of all control points, f8 (24, 6 M); see `SplineSystem`."""
        return np.asarray(self.system.matrix(self.noise))

    def covariances(self, ts: np.ndarray) -> np.ndarray:
        """Of the poses of the frames, f8 (frame, 6, 6); ts: their instants, s. See `registration.covariance`."""
        cov = covariances(self.system, self.noise, ts) / (1 - self.missing_information)
        return np.asarray(cov + self.remaining[:, :, None] * self.remaining[:, None])

    @property
    def elevation_deviation(self) -> float:
        """Standard deviation of the elevation of all beams, as the equations of this pass have it, rad."""
        _, cov = self.system.considered(self.noise)
        return float(np.sqrt(cov[ELEVATION, ELEVATION]))

    def beams(self) -> dict[str, float]:
        """By how much all beams point higher than `lidar.json` says, and the standard deviation, degrees."""
        variance = self.elevation_deviation**2 - np.radians(MEAN_DEGREES) ** 2
        # Each beam is off alike in all sweeps, so the pulls of one beam add up (cluster-robust variance; K.-Y. Liang,
        # S. L. Zeger, "Longitudinal data analysis using generalized linear models", Biometrika 1986). Poses would take
        # a part of a pull from the elevation, but the map follows them, and the pull stays: it is counted whole.
        by_beams = variance / self.noise * np.sqrt((self.system.of_nuisance.of_beams**2).sum())
        parts = np.sqrt(variance / (1 - self.missing_information)), by_beams, self.remaining_elevation
        found = {
            "elevation": self.errors.nuisance[ELEVATION],
            "deviation": np.sqrt(sum(part**2 for part in parts)),
        }
        return {name: round(float(np.degrees(value)), 3) for name, value in found.items()}

    def states(self, ts: np.ndarray) -> State:
        """Of the lidar at some instants, f8 (frame,), s."""
        state = self.trajectory.at(ts)
        angle, rate = self.segments.vibration.at(ts)
        turn = exp(angle)
        return state._replace(rot=matmul(state.rot, turn), avel=np.einsum("nji,nj->ni", turn, state.avel) + rate)

    @property
    def shown(self) -> PointErrors:
        """What its fits show of the errors of points, beside the nuisance parameters that it began with."""
        return PointErrors(self.errors.nuisance, correlations(self.fits), range_noise(self.fits), self.others)

    def add_rates(self, gyro: Gyro) -> None:
        """Add angular rates to its equations, each less the bias that it has in its segment."""
        reader = self.segments.reader
        for first, end in reader.ranges:
            start, stop = reader.span(first, end)
            if end < len(reader.times):  # each rate belongs to one segment only
                stop = reader.times[end] + reader.begin
            _, part = self.trajectory.window(start, stop)
            rates = gyro.between(start, stop).without_bias(part)
            if len(rates.times):
                # The solution divides all equations by the noise of the lidar's points, which is not the gyroscope's.
                self.system.add(rate_equations(self.trajectory, rates), self.noise)

    def refined(self) -> tuple[SplineTrajectory, PointErrors]:
        """The trajectory that solves the equations, and what it says about the errors of points."""
        trajectory, nuisance = self.system.solve(self.noise)
        return trajectory, self.shown._replace(nuisance=nuisance)


class Refined(NamedTuple):
    """The trajectory after the batch passes."""

    batch: Batch
    sweeps: SweepInformation  #: of all frames, on the map of the batch; see `SweepInformation.stacked`.
    dropped: str  #: why the gyroscope was dropped; "" if it was not.
    #: what the recording shows of the mount of each other lidar, by name.
    mounts: Mapping[str, MountFit] = MappingProxyType({})
    left_out: Mapping[str, str] = MappingProxyType({})  #: why each other lidar that is not used was left out, by name.
    used: Sequence[OtherLidar] = ()  #: the others, where they were found to be.


def refine_in_batch(
    reader: SweepReader, trajectory: SplineTrajectory, imu: Imu, others: Sequence[OtherLidar]
) -> Refined:
    """The trajectory after the batch passes that the options ask for: of the main lidar, and then with others.

    Other lidars take part where the recording agrees with their mounts, and where held-out points of the main lidar
    do not fit worse with them.

    Args:
        others: lidars beside the main one.
    """
    with reader.recording.exchange() as kept:
        reader, batch, dropped = _refine_main(replace(reader, kept=kept), trajectory, imu)
        passes, usable = batch_passes(reader.options), [each for each in others if (each.frames >= 0).any()]
        left_out = {each.name: "none of its sweeps is beside one of the main lidar" for each in others}
        mounts = {each.name: estimate_mount(each, batch.trajectory, reader) for each in usable if passes}
        left_out = {name: why for name, why in left_out.items() if name not in mounts} | {
            name: mount.contradiction for name, mount in mounts.items() if mount.contradiction
        }
        found = tuple(
            each.at(mounts[each.name].mount, reader) for each in usable if passes and each.name not in left_out
        )
        if found:
            imu, reader = (_NO_IMU if dropped else imu), replace(reader, others=found)
            start = [_at_once(reader, batch.trajectory, batch.errors, imu)]
            together = _repeated(reader, start, passes, imu)
            if is_worse(batch.fits, together.fits):
                left_out |= {each.name: "the main lidar's held-out points fit worse with it" for each in found}
                found = ()
            else:
                batch = together
        parts = reader.recording.map(batch.segments.information, reader.ranges, "judge", processes=True)
        held = map(reader.recording.memory().hold, map(np.concatenate, zip(*parts, strict=True)))
        sweeps = SweepInformation(*held)
        return Refined(batch, sweeps, dropped, mounts, left_out, found)


def _refine_main(reader: SweepReader, trajectory: SplineTrajectory, imu: Imu) -> tuple[SweepReader, Batch, str]:
    """The trajectory after the batch passes that the options ask for; a pass that makes it worse is not kept.

    A segment is registered to its own map and to those of its neighbours, which are kept outside of memory: memory does
    not grow with the recording. The first trajectory knows of no gyroscope. The gyroscope's rates are kept only where
    points that were left out do not fit worse with them.

    Returns:
        The reader with as many points as are worth their time, the result, and why the gyroscope was dropped; "" if it
        was not.
    """
    # A single sweep makes its own map, and has nobody to agree with.
    passes = batch_passes(reader.options) if len(reader.times) > 1 else 0
    # A few sweeps of each segment show how large the errors of points are.
    few = replace(reader, ranges=[(start, min(start + BLOCK, stop)) for start, stop in reader.ranges])
    shown = _at_once(few, trajectory, None).shown if passes else None
    first = _at_once(reader, trajectory, shown)
    if passes and weakly_constrained(first.information):
        reader = replace(reader, density=2)  # twice as many points, because each one says little
        first = _at_once(reader, trajectory, first.shown)
    has_rates = len(imu.gyro.times) > 0
    if not passes or not has_rates:
        found = [first]
        del first
        dropped = "odometry.passes allows no further pass" if has_rates else ""
        return reader, _repeated(reader, found, passes), dropped
    start, fits, found = first.trajectory, first.fits, [first]
    del first
    best, used = _with_gyro(reader, found, imu)
    dropped = "" if used else "points that were left out fit better without it"
    # What turns with a vibration is another trajectory than the first one: nothing can be learned from the two.
    before = [] if len(imu.vibration.times) else [Pass(start, best.trajectory, best.errors)]
    doubtful, found = is_worse(fits, best.fits), [best]
    del best
    batch = _repeated(reader, found, passes - 1, imu if used else _NO_IMU, before)
    # The first of many passes may lead away for a moment: it is their end that is compared with the beginning.
    if doubtful and is_worse(fits, batch.fits):
        first = _at_once(reader, start, shown)
        done, refused = [Pass(start, *first.refined())], Pass(batch.trajectory, *batch.refined())
        kept = _as_settled(first, reader.times, done, MAX_REMAINING, refused)
        return reader, kept, dropped or "points that were left out fit the first trajectory better"
    return reader, batch, dropped


def _repeated(
    reader: SweepReader, found: list[Batch], passes: int, imu: Imu = _NO_IMU, before: Sequence[Pass] = ()
) -> Batch:
    """The trajectory after further passes, until another one would hardly move it.

    Args:
        found: the batch to begin with, which is taken out of the list: it takes kilobytes for each sweep, and must not
            be kept while there are two later ones.
        before: the pass that has led to it, if there was one.
    """
    best = found.pop()
    if not passes:
        return best
    done = [*before, Pass(best.trajectory, *best.refined())]
    cov, deviation = covariances(best.system, best.noise, reader.times), best.elevation_deviation
    for _ in range(passes):
        further, left = mixed(done, band := best.band), remaining_moves(done, band)
        del band  # equations of a long recording are large
        moves = in_deviations(pose_moves(best.trajectory, further, reader.times), cov)
        largest = left * max(moves, _elevation_change(best, done) / deviation)
        settled = largest < _SAME and has_settled(reader.options, best.trajectory, further, reader.times, left)
        if len(done) > 1 and settled:
            return _as_settled(best, reader.times, done, left)
        batch, since = _at_once(reader, further, done[-1].errors, imu), done
        if len(done) > 1 and is_worse(best.fits, batch.fits):
            # The mixture went too far. One step is what the equations themselves ask for.
            del batch
            batch, since = _at_once(reader, done[-1].after, done[-1].errors, imu), done[-1:]
        worse = is_worse(best.fits, batch.fits)
        if not worse:
            best = batch
        last = Pass(batch.trajectory, *batch.refined())
        del batch
        if worse:
            return _as_settled(best, reader.times, done, left, last)
        done = [*since, last]
    # What has not settled in so many passes is not expected to do so in the next ones.
    left = MAX_REMAINING if reader.options.passes is None else remaining_moves(done, best.band)
    return _as_settled(best, reader.times, done, left)


def _as_settled(best: Batch, ts: np.ndarray, done: Sequence[Pass], left: float, refused: Pass | None = None) -> Batch:
    """A trajectory with how the map follows it, and how far further passes would move it.

    Args:
        ts: f8 (frame,), instants of the poses, s.
        done: the passes until the one that begins at this trajectory.
        left: how many times the next move all further passes would move it.
        refused: the next pass, if it is worse. How the map has followed is learned from this one, too.
    """
    band, known = best.band, done if refused is None else [*done, refused]
    remaining = left * pose_moves(best.trajectory, mixed(done, band), ts)
    raised = left * _elevation_change(best, done)
    return best._replace(missing_information=rate(known, band), remaining=remaining, remaining_elevation=raised)


def _elevation_change(best: Batch, done: Sequence[Pass]) -> float:
    """By how much the pass that begins at this trajectory raises the beams, rad."""
    return float(abs(done[-1].errors.nuisance[ELEVATION] - best.errors.nuisance[ELEVATION]))


def _with_gyro(reader: SweepReader, found: list[Batch], imu: Imu) -> tuple[Batch, bool]:
    """The pass after the first trajectory with the gyroscope, or without it where that fits better; and which it is.

    Args:
        found: the batch of the first trajectory, which is taken out of the list, as by `_repeated`.
    """
    first = found.pop()
    fits, plain = first.fits, first.refined()
    both = first._replace(system=first.system.copy())
    both.add_rates(imu.gyro)
    turned = both.refined()
    del both
    moved = _moves(first, plain[0], turned[0])
    del first
    batch = _at_once(reader, *turned, imu)
    differs = len(imu.vibration.times) or moved > _MOVES
    if differs or (moved > _SAME and is_worse(fits, batch.fits)):
        without = _at_once(reader, *plain)
        if len(imu.vibration.times):
            # Turned points change the map so much that one pass does not show which is better.
            without = _at_once(reader, *without.refined())
            batch = _at_once(reader, *batch.refined(), imu)
        if mean_difference(without.fits, batch.fits) > 0:
            return without, False
    return batch, True


def _moves(lidar: Batch, plain: SplineTrajectory, turned: SplineTrajectory) -> float:
    """How far a gyroscope moves a trajectory against the lidar: information for each unknown, the largest of a second.

    Args:
        lidar: with the lidar's equations.
        plain, turned: the trajectories without and with the gyroscope.
    """
    move, band = difference(plain, turned), lidar.system.band.reshape(len(lidar.system.band), -1)
    sums = np.concatenate([[0.0], np.cumsum(move * banded_product(band, move, lidar.noise))])
    second = min(len(sums) - 1, 6 * max(1, round(1 / plain.step)))
    return float((sums[second:] - sums[:-second]).max()) / second


def _at_once(
    reader: SweepReader, trajectory: SplineTrajectory, errors: PointErrors | None, imu: Imu = _NO_IMU
) -> Batch:
    """What all sweeps at once say about a trajectory, and the gyroscope, if there is one."""
    recording, options, memory = reader.recording, reader.options, reader.recording.memory()
    parts: list[list[np.ndarray]] = [[] for _ in (reader, *reader.others)]
    information: list[np.ndarray] = []
    errors = PointErrors(np.zeros(DEPTH + len(options.voxels))) if errors is None else errors
    trajectory = trajectory._replace(pos=memory.hold(trajectory.pos), rot=memory.hold(trajectory.rot))
    expected = [(errors.common, 1.0), *(errors.others or [(errors.common, 1.0)] * len(reader.others))]
    system = SplineSystem(trajectory, options, errors.nuisance, reader.unknown(), memory)
    segments = BatchPass(reader, trajectory, cast(Exchange, reader.kept).part(), errors, imu.vibration)
    deque(recording.map(segments.put_map, reader.ranges, "map", processes=True), maxlen=0)
    for found, part in recording.map(segments.equations, reader.ranges, "refine", processes=True):
        for own, (equations, nuisance, part_fits), (_, variance) in zip(parts, found, expected, strict=True):
            system.add(equations, 1 / variance)
            system.add_nuisance(Nuisance(*(each / variance for each in nuisance)), equations.first)
            own.append(np.array(part_fits, ROW))
        information.append(np.reshape(part, (-1, 6, 6)))
        let_go()
    fits = [joined(each) for each in parts]
    scale = noise_scale(fits[0])
    others = tuple((correlations(each), noise_scale(each) / scale) for each in fits[1:])
    of_sweeps = np.concatenate(information)
    of_sweeps /= scale
    batch = Batch(segments, fits[0], memory.hold(of_sweeps), system, scale, others=others)
    batch.add_rates(imu.gyro)
    return batch
