"""All sweeps of a recording in one batch: their map, and the trajectory that fits it best.

Both are sums over sweeps. Segments of a recording contribute to one map and to one system of equations, in any process
and in any order, so that the result has no seams.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy

import numpy as np

from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.numerics import linear
from rover_pipeline.odometry.observations import NO_GYRO, Gyro, Sweep
from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.registration.judge import TwoMaps, world_rays
from rover_pipeline.odometry.registration.point_to_plane import (
    NO_ERRORS,
    SCALE,
    THICK,
    Depth,
    PointErrors,
    PointWeights,
    pose_equations,
)
from rover_pipeline.odometry.registration.spline_equations import (
    AngularRates,
    SplineEquations,
    add_poses,
    add_rates,
    add_smoothness,
    add_vectors,
)
from rover_pipeline.odometry.spline import ORDER, SplineTrajectory
from rover_pipeline.odometry.surfels import SurfelMap

#: Control points whose prior is computed at once.
_CONTROLS = 1024
#: How far rays get into thick planes, in thicknesses (see `Depth`): standard deviation before anything is measured, and
#: the most. Where leaves are all alike, and all rays are from one side, it is 1.
_DEPTH, _MAX_DEPTH = 1.0, 4.0
#: Edge of the largest voxels whose planes can be leaves, metres. In larger ones they are of several bodies.
_LEAVES = 1.0
#: Largest distance of a point from its plane, metres. The trajectory is nearly right before a batch pass.
_GATE = 0.05


def build_map(sweeps: Iterable[Sweep], trajectory: SplineTrajectory, options: OdometrySection) -> SurfelMap:
    """The map of sweeps whose trajectory is known."""
    surfels = SurfelMap(options.voxels)
    for sweep in sweeps:
        surfels.insert(world_rays(sweep, trajectory))
    return surfels


def on_others(
    sweeps: Sequence[Sweep], trajectory: SplineTrajectory, options: OdometrySection
) -> Iterator[tuple[Sweep, SurfelMap]]:
    """Sweeps whose trajectory is known, each with the map that it is registered to: that of others."""
    maps = TwoMaps(options, len(sweeps))
    for number, sweep in enumerate(sweeps):
        maps.insert(number, world_rays(sweep, trajectory))
    return ((sweep, maps.target(number)) for number, sweep in enumerate(sweeps))


def normal_equations(
    sweeps: Iterable[tuple[Sweep | None, SurfelMap]],
    trajectory: SplineTrajectory,
    options: OdometrySection,
    gyro: Gyro = NO_GYRO,
    errors: PointErrors = NO_ERRORS,
) -> tuple[SplineEquations, list[np.ndarray], Depth]:
    """Normal equations of the trajectory's control points from sweeps and rates, and the information of each sweep.

    Args:
        sweeps: each with the map that it is registered to; None for those that must not be used, whose information
            is 0. A sweep that is in its own map attracts itself, which holds it where it is.
        errors: of the points, as far as they are known.

    Returns:
        The equations; for each sweep, f8 (6, 6), the information of a displacement in the world (1/m2) and of a
        rotation in the lidar frame (1/rad2) of all of its poses; and those of the depth, with the control points of the
        equations.
    """
    equations = _no_equations(trajectory)
    depth = errors.depth
    weights = PointWeights(_GATE, options.range_noise, SCALE, 1, THICK, 0.0, *errors)
    cross = np.zeros((len(depth), *equations.right.shape))
    alone = np.zeros((2, len(depth)))
    information: list[np.ndarray] = []
    ranges: list[tuple[int, int]] = []
    for sweep, surfels in sweeps:
        if sweep is None:
            information.append(np.zeros((6, 6)))
            continue
        instants = trajectory.locate(sweep.times)
        pos, rot = trajectory.poses(instants)
        matrix, right, _, deep = pose_equations(sweep.points, sweep.column, pos, rot, surfels.tables, weights)
        add_poses(matrix, right, instants.first, instants.weights(), equations)
        add_vectors(deep.cross, instants.first, instants.weights(), cross)
        alone += deep.information, deep.right
        ranges.append(instants.control_range())
        information.append(matrix.sum(0))
    if len(gyro.times):
        rates = gyro_rates(trajectory, gyro)
        add_rates(trajectory, rates, equations)
        ranges.append(rates.instants.control_range())
    low = min((first for first, _ in ranges), default=0)
    part = slice(low, max((end for _, end in ranges), default=0))
    found = SplineEquations(low, equations.blocks[part].copy(), equations.right[part].copy())
    return found, information, Depth(cross[:, part].copy(), *alone)


def gyro_rates(trajectory: SplineTrajectory, gyro: Gyro) -> AngularRates:
    """The rates of a gyroscope as the kernels take them."""
    return AngularRates(gyro.rates, trajectory.locate(gyro.times), gyro.noise**-2)


def rate_equations(trajectory: SplineTrajectory, gyro: Gyro) -> SplineEquations:
    """Normal equations of the control points that a gyroscope's rates, of which there are some, act on."""
    low, part = trajectory.window(gyro.times[0], gyro.times[-1])
    equations = _no_equations(part)
    add_rates(part, gyro_rates(part, gyro), equations)
    return equations._replace(first=low)


class SplineSystem:
    """The equations of all control points of a trajectory: of the measurements, and of a prior without jerk.

    Those of the measurements are kept in the lower banded form of LAPACK, f8 (24, M, 6) for M control points, and
    f8 (M, 6). The prior is computed where it is needed.

    Args:
        depth: f8 (level,), how far rays get into thick planes, which the equations are about as well; see `Depth`.
    """

    def __init__(self, trajectory: SplineTrajectory, options: OdometrySection, depth: np.ndarray | None = None) -> None:
        count, levels = len(trajectory.pos), len(options.voxels)
        self.depth = np.zeros(levels) if depth is None else depth
        self.cross, self.deep = np.zeros((levels, count, 6)), np.zeros((2, levels))
        self.deepest = np.where(np.array(options.voxels) > _LEAVES, 0.0, _MAX_DEPTH)
        self.trajectory, self.information = trajectory, 1 / (options.jerk * trajectory.step**3) ** 2
        self.band, self.right = np.zeros((6 * ORDER, count, 6)), np.zeros((count, 6))

    @property
    def too_deep(self) -> bool:
        """Whether planes of all sizes seem to be deeper than the prior allows: by four standard deviations.

        Leaves are not. What moves is blurred in the map, and looks so. Of one size alone a few points may say so.
        """
        bound = self.deepest > 0
        return bool(bound.any() and (self.depth >= self.deepest)[bound].all())

    def copy(self) -> SplineSystem:
        """The same equations, to which others can be added, but none of the depth."""
        other = copy(self)
        other.band, other.right = self.band.copy(), self.right.copy()
        return other

    def add(self, part: SplineEquations, weight: float = 1.0) -> None:
        """Add normal equations of some control points, times a weight."""
        rows = slice(part.first, part.first + len(part.right))
        self.band[:, rows] += weight * _banded(part.blocks)
        self.right[rows] += weight * part.right

    def add_depth(self, part: Depth, first: int) -> None:
        """Add the equations of the depth, with control points from number `first` on."""
        self.cross[:, first : first + part.cross.shape[1]] += part.cross
        self.deep += part.information, part.right

    def matrix(self, scale: float) -> np.ndarray:
        """The information of all control points, f8 (24, 6 M), in the order of memory in which LAPACK works in place.

        Args:
            scale: variance of the measurements, relative to the expected one.
        """
        matrix = np.empty((6 * ORDER, self.right.size), order="F")
        for start, stop in self._parts():
            # Block [m, k] is in column m - k: what is in the last columns is of the next control points.
            band = _banded(self._prior(start, min(stop + ORDER, len(self.right))).blocks)[:, : stop - start]
            part = band + self.band[:, start:stop] / scale
            matrix[:, 6 * start : 6 * stop] = part.reshape(len(part), -1)
        return matrix

    def solve(self, scale: float = 1.0) -> tuple[SplineTrajectory, np.ndarray]:
        """The trajectory and the depth after one step of Gauss-Newton, which minimises the sum of all equations.

        Args:
            scale: as above.
        """
        known = np.flatnonzero((self.deep[0] > 0) & (self.deepest > 0))
        right = np.empty((1 + len(known), *self.right.shape))
        for start, stop in self._parts():
            right[0, start:stop] = self._prior(start, stop).right + self.right[start:stop] / scale
            right[1:, start:stop] = self.cross[known, start:stop] / scale
        flat = right.reshape(len(right), -1)
        solved = linear.solveh_banded(self.matrix(scale), flat.T).T
        # Schur complement: what is left of the equations of the depth once the control points are solved for.
        deeper, depth = self.depth.copy(), self.depth[known]
        information = np.diag(self.deep[0, known] / scale + _DEPTH**-2) - linear.matmul(flat[1:], solved[1:].T)
        wanted = self.deep[1, known] / scale - linear.matmul(solved[1:], flat[0]) - depth * _DEPTH**-2
        deeper[known] = np.clip(depth + linear.solve(information, wanted), 0.0, self.deepest[known])
        update = (solved[0] - linear.matmul(deeper[known] - depth, solved[1:])).reshape(-1, 6)
        before = self.trajectory
        pos, rot = before.pos + update[:, :3], linear.matmul(before.rot, exp(update[:, 3:]))
        return SplineTrajectory(before.start, before.step, pos, rot), deeper

    def _parts(self) -> Iterator[tuple[int, int]]:
        """Control points whose prior is computed at once: the first one, and one after the last."""
        for start in range(0, len(self.right), _CONTROLS):
            yield start, min(start + _CONTROLS, len(self.right))

    def _prior(self, start: int, stop: int) -> SplineEquations:
        """The prior of the control points from `start` until before `stop`."""
        low, high = max(0, start - ORDER + 1), min(stop + ORDER - 1, len(self.right))
        prior = _no_equations(part := self.trajectory.part(low, high).in_order())
        add_smoothness(part, self.information, 0, prior)
        prior.blocks[:, 0] += 1e-6 * np.eye(6)
        chosen = slice(start - low, stop - low)
        return SplineEquations(start, prior.blocks[chosen], prior.right[chosen])


def solve(
    trajectory: SplineTrajectory, equations: SplineEquations, options: OdometrySection, scale: float = 1.0
) -> SplineTrajectory:
    """The trajectory after one step of Gauss-Newton on the equations of all its control points."""
    system = SplineSystem(trajectory, options)
    system.add(equations)
    return system.solve(scale)[0]


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
