"""All sweeps of a recording in one batch: their map, and the trajectory that fits it best.

Both are sums over sweeps. Segments of a recording contribute to one map and to one system of equations, in any process
and in any order, so that the result has no seams.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.numerics import linear
from rover_pipeline.numerics.blocks import IN_MEMORY, Memory, blocks
from rover_pipeline.odometry.observations import Gyro, Sweep
from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.registration.cross_validation import TwoMaps, world_rays
from rover_pipeline.odometry.registration.point_terms import (
    DEPTH,
    ELEVATION,
    NO_ERRORS,
    Nuisance,
    PointErrors,
)
from rover_pipeline.odometry.registration.point_to_plane import pose_equations
from rover_pipeline.odometry.registration.spline_equations import (
    SplineEquations,
    add_poses,
    add_smoothness,
    add_vectors,
)
from rover_pipeline.odometry.spline import ORDER, SplineTrajectory
from rover_pipeline.odometry.surfels import LARGE, SurfelMap

if TYPE_CHECKING:
    from rover_pipeline.odometry.other_lidars import OtherLidar

#: Control points whose prior is computed at once, or poses that depend on as many. Schedule.
CONTROLS = 1024
#: How far rays get into thick planes, in thicknesses (see `Nuisance`): standard deviation before anything is measured,
#: and the largest. Where leaves are all alike, and all rays are from one side, it is 1. Tuned: by hand.
_DEPTH, _MAX_DEPTH = 1.0, 4.0
#: Standard deviations, degrees: of the elevation of all beams before anything is measured; and of its mean, by which
#: poses are off, if single beams differ by 0.05 degrees and 25 independent ones measure it. What beams really pull on
#: the estimate, `Batch.beams` measures. Noise: data sheets of rotating lidars.
ELEVATION_DEGREES, MEAN_DEGREES = 0.1, 0.01


def build_map(sweeps: Iterable[Sweep], trajectory: SplineTrajectory, sizes: tuple[float, ...]) -> SurfelMap:
    """The map of sweeps whose trajectory is known; sizes: of its voxels, m, finest first. None: a map of nothing."""
    surfels = SurfelMap(sizes)
    for sweep in sweeps if sizes else ():
        surfels.insert(world_rays(sweep, trajectory), fit=False)
    surfels.fit()
    return surfels


def on_others(
    sweeps: Sequence[Sweep], trajectory: SplineTrajectory, maps: TwoMaps
) -> Iterator[tuple[Sweep, SurfelMap]]:
    """Sweeps whose trajectory is known, each with the map that it is registered to: that of others.

    Args:
        maps: for as many sweeps; they are filled with these.
    """
    maps.fill(sweeps, trajectory)
    return ((sweep, maps.target(number)) for number, sweep in enumerate(sweeps))


def normal_equations(
    sweeps: Iterable[tuple[Sweep | None, SurfelMap]],
    trajectory: SplineTrajectory,
    options: OdometrySection,
    errors: PointErrors = NO_ERRORS,
    other: OtherLidar | None = None,
) -> tuple[SplineEquations, list[np.ndarray], Nuisance]:
    """Normal equations of the trajectory's control points from sweeps, and the information of each sweep.

    Args:
        sweeps: each with the map that it is registered to; None for those that must not be used, whose information
            is 0. A sweep that is in its own map attracts itself, which holds it where it is.
        errors: of the points, as far as they are known.
        other: the lidar that the sweeps are of; None = the one whose trajectory it is.

    Returns:
        The equations; for each sweep, f8 (6, 6), the information of a displacement in the world (1/m2) and of a
        rotation in the lidar frame (1/rad2) of all of its poses; and those of what all points have in common, with the
        control points of the equations.
    """
    equations = _no_equations(trajectory)
    weights = errors.weights(options, errors.depth)
    count = len(errors.nuisance)
    nuisance = Nuisance.nothing(count, len(equations.right))
    information: list[np.ndarray] = []
    ranges: list[tuple[int, int]] = []
    for sweep, surfels in sweeps:
        if sweep is None:
            information.append(np.zeros((6, 6)))
            continue
        instants = trajectory.locate(sweep.times)
        pos, rot = trajectory.poses(instants)
        poses = other.on_rig(pos, rot, sweep.times) if other else (pos, rot)
        matrix, right, _, found = pose_equations(sweep.points, sweep.column, *poses, surfels.tables, weights)
        if other:
            matrix, right, found = other.of_main(matrix, right, rot, found)
        basis = instants.weights()
        add_poses(matrix, right, instants.first, basis, equations)
        add_vectors(found.cross, instants.first, basis, nuisance.cross)
        nuisance.information[:] += found.information
        nuisance.right[:] += found.right
        nuisance.of_beams[:] += found.of_beams
        ranges.append(instants.control_range())
        information.append(matrix.sum(0))
    low = min((first for first, _ in ranges), default=0)
    part = slice(low, max((end for _, end in ranges), default=0))
    of_part = SplineEquations(low, equations.blocks[part].copy(), equations.right[part].copy())
    return of_part, information, nuisance._replace(cross=nuisance.cross[:, part].copy())


def rate_equations(trajectory: SplineTrajectory, gyro: Gyro) -> SplineEquations:
    """Normal equations of the control points that a gyroscope's rates, of which there are some, act on."""
    low, part = trajectory.window(gyro.times[0], gyro.times[-1])
    equations = _no_equations(part)
    instants, information = part.locate(gyro.times), gyro.noise**-2
    u = instants.fraction[:, None]
    weights = np.concatenate([-((1 - u) ** 2), 3 * u**2 - 4 * u, 1 + 2 * u - 3 * u**2, u**2], axis=1) / (2 * part.step)
    matrix, right = np.zeros((len(u), 6, 6)), np.zeros((len(u), 6))
    matrix[:, 3:, 3:], right[:, 3:] = information * np.eye(3), information * (gyro.rates - part.at(gyro.times).avel)
    add_poses(matrix, right, instants.first, weights, equations)
    return equations._replace(first=low)


class SplineSystem:
    """The equations of all control points of a trajectory: of the measurements, and of a prior without jerk.

    Those of the measurements are kept in the lower banded form of LAPACK, f8 (24, M, 6) for M control points, and
    f8 (M, 6). The prior is computed where it is needed.

    Args:
        nuisance: f8 (K,), what all points have in common, which the equations are about as well; see `Nuisance`.
        unknown: first and last instant, s, of spans in which the motion is not known and has no prior either.
        memory: for what is as large as the matrix.
    """

    def __init__(
        self,
        trajectory: SplineTrajectory,
        options: OdometrySection,
        nuisance: np.ndarray | None = None,
        unknown: Iterable[tuple[float, float]] = (),
        memory: Memory = IN_MEMORY,
    ) -> None:
        count, unknowns = len(trajectory.pos), DEPTH + len(options.voxels)
        # The third difference of four control points is the jerk between the two in the middle.
        self.known = [0]
        for first, last in unknown:
            stop = int(np.ceil((first - trajectory.start) / trajectory.step))
            start = int(np.floor((last - trajectory.start) / trajectory.step))
            self.known += [stop + ORDER - 1, max(start, stop)]
        self.known += [count]
        self.nuisance = np.zeros(unknowns) if nuisance is None else nuisance
        self.of_nuisance = Nuisance.nothing(unknowns, 0)._replace(cross=memory.zeros(unknowns, count, 6))
        self.expected = np.full(unknowns, _DEPTH)
        self.expected[ELEVATION] = np.radians(ELEVATION_DEGREES)
        deepest = np.where(np.array(options.voxels) > LARGE, 0.0, _MAX_DEPTH)
        self.max_nuisance = np.concatenate([[np.inf], deepest])
        self.trajectory, self.information = trajectory, 1 / (options.jerk * trajectory.step**3) ** 2
        # In the order of the control points, so that those of a part are near one another.
        self.memory, self.right = memory, memory.zeros(count, 6)
        self.band = memory.zeros(count, 6, 6 * ORDER).transpose(2, 0, 1)

    @property
    def is_too_deep(self) -> bool:
        """Whether planes of all sizes seem to be deeper than the prior allows: by four standard deviations.

        Leaves are not. What moves is blurred in the map, and looks so. Of one size alone a few points may say so, as
        those of edges do while a rig stands.
        """
        bound = self.max_nuisance[DEPTH:] > 0
        return bool(bound.any() and (self.nuisance >= self.max_nuisance)[DEPTH:][bound].all())

    def copy(self) -> SplineSystem:
        """The same equations, to which others can be added, but none of what all points have in common."""
        other = copy(self)
        other.band = self.memory.hold(self.band.transpose(1, 2, 0)).transpose(2, 0, 1)
        other.right = self.memory.hold(self.right)
        return other

    def add(self, part: SplineEquations, weight: float = 1.0) -> None:
        """Add normal equations of some control points, times a weight."""
        rows = slice(part.first, part.first + len(part.right))
        self.band[:, rows] += weight * _banded(part.blocks)
        self.right[rows] += weight * part.right

    def add_nuisance(self, part: Nuisance, first: int) -> None:
        """Add the equations of what all points have in common, with control points from number `first` on."""
        self.of_nuisance.cross[:, first : first + part.cross.shape[1]] += part.cross
        self.of_nuisance.information[:] += part.information
        self.of_nuisance.right[:] += part.right
        self.of_nuisance.of_beams[:] += part.of_beams

    def matrix(self, scale: float) -> np.ndarray:
        """The information of all control points, f8 (24, 6 M), in the order of memory in which LAPACK works in place.

        Args:
            scale: variance of the measurements, relative to the expected one.
        """
        matrix = self.memory.zeros(len(self.right), 6, 6 * ORDER)
        for part in blocks(len(self.right), CONTROLS):
            # Block [m, k] is in column m - k: what is in the last columns is of the next control points.
            prior = self._prior(part.start, min(part.stop + ORDER, len(self.right)))
            band = _banded(prior.blocks)[:, : part.stop - part.start] + self.band[:, part] / scale
            matrix[part] = band.transpose(1, 2, 0)
        return matrix.reshape(-1, 6 * ORDER).T

    def solve(self, scale: float = 1.0) -> tuple[SplineTrajectory, np.ndarray]:
        """The trajectory and what all points have in common after one step of Gauss-Newton on all equations.

        Args:
            scale: as above.
        """
        known, explained, alone, through, information = self._reduced(scale)
        wanted = self.of_nuisance.right[known] / scale - self.nuisance[known] * self.expected[known] ** -2
        wanted -= explained
        nuisance = self.nuisance.copy()
        smallest = np.where(np.arange(len(nuisance)) < DEPTH, -np.inf, 0.0)
        after = nuisance[known] + linear.solve(information, wanted)
        nuisance[known] = np.clip(after, smallest[known], self.max_nuisance[known])
        update = (alone - linear.matmul(through.T, nuisance[known] - self.nuisance[known])).reshape(-1, 6)
        before = self.trajectory
        pos, rot = before.pos + update[:, :3], linear.matmul(before.rot, exp(update[:, 3:]))
        return before._replace(pos=self.memory.hold(pos), rot=self.memory.hold(rot)), nuisance

    def considered(self, scale: float) -> tuple[np.ndarray, np.ndarray]:
        """What the control points do not know because of what all points have in common.

        Returns:
            f8 (K, M, 6), how each unknown moves the control points; f8 (K, K), the covariance of the unknowns.
        """
        known, _, _, through, information = self._reduced(scale)
        moves, cov = self.memory.zeros(*self.of_nuisance.cross.shape), np.diag(self.expected**2)
        moves[known] = -through.reshape(len(known), *self.right.shape)
        cov[np.ix_(known, known)] = linear.inv(information)
        cov[ELEVATION, ELEVATION] += np.radians(MEAN_DEGREES) ** 2
        return moves, cov

    def _reduced(self, scale: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The common unknowns without the control points (Schur complement).

        Returns:
            i8 (L,), numbers of those unknowns that some points depend on; f8 (L,), what the step of the control points
            where the unknowns stay takes from their right side; f8 (6 M,), this step; f8 (L, 6 M), by how much it
            shrinks for each unit of an unknown; f8 (L, L), the information of the unknowns.
        """
        known = np.flatnonzero((np.diagonal(self.of_nuisance.information) > 0) & (self.max_nuisance > 0))
        right = np.empty((1 + len(known), *self.right.shape))
        for part in blocks(len(self.right), CONTROLS):
            right[0, part] = self._prior(part.start, part.stop).right + self.right[part] / scale
            right[1:, part] = self.of_nuisance.cross[known, part] / scale
        flat = right.reshape(len(right), -1)
        solved = linear.solveh_banded(self.matrix(scale), flat.T, overwrite=True)
        information = self.of_nuisance.information[np.ix_(known, known)] / scale + np.diag(self.expected[known] ** -2)
        explained = linear.matmul(flat[1:], solved)
        return known, explained[:, 0], solved[:, 0], solved[:, 1:].T, information - explained[:, 1:]

    def _prior(self, start: int, stop: int) -> SplineEquations:
        """The prior of the control points from `start` until before `stop`."""
        low, high = max(0, start - ORDER + 1), min(stop + ORDER - 1, len(self.right))
        prior = _no_equations(self.trajectory.part(low, high))
        for first, last in np.clip(self.known, low, high).reshape(-1, 2).tolist():
            part = SplineEquations(0, *(each[first - low : last - low] for each in prior[1:]))
            add_smoothness(self.trajectory.part(first, last).in_order(), self.information, 0, part)
        prior.blocks[:, 0] += 1e-6 * np.eye(6)
        chosen = slice(start - low, stop - low)
        return SplineEquations(start, prior.blocks[chosen], prior.right[chosen])


def one_pass(sweeps: Sequence[Sweep], trajectory: SplineTrajectory, maps: TwoMaps) -> SplineTrajectory:
    """The trajectory of sweeps after a batch pass: a step of Gauss-Newton on the equations of all control points.

    Args:
        maps: for as many sweeps; their memory is used again by each of several passes.
    """
    equations, _, _ = normal_equations(on_others(sweeps, trajectory, maps), trajectory, maps.options)
    system = SplineSystem(trajectory, maps.options)
    system.add(equations)
    return system.solve()[0]


def _no_equations(trajectory: SplineTrajectory) -> SplineEquations:
    count = len(trajectory.pos)
    return SplineEquations(0, np.zeros((count, ORDER, 6, 6)), np.zeros((count, 6)))


def _banded(blocks: np.ndarray) -> np.ndarray:
    """The symmetric matrix of blocks (count, 4, 6, 6) in the lower banded form of LAPACK, (24, count, 6).

    Block [m, k] is that of control points m and m - k.
    """
    count = len(blocks)
    band = np.zeros((6 * ORDER, count, 6))
    for k in range(ORDER):
        for a in range(6):
            for b in range(6):
                below = 6 * k + a - b
                if below >= 0:
                    band[below, : count - k, b] += blocks[k:, k, a, b]
    return band
