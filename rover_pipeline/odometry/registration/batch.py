"""All sweeps of a recording in one batch: their map, and the trajectory that fits it best.

Both are sums over sweeps. Segments of a recording contribute to one map and to one system of equations, in any process
and in any order, so that the result has no seams.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from scipy.linalg import solveh_banded

from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.odometry.observations import NO_GYRO, Gyro, Sweep
from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.registration.judge import TwoMaps, world_rays
from rover_pipeline.odometry.registration.point_to_plane import SCALE, THICK, PointWeights, pose_equations
from rover_pipeline.odometry.registration.spline_equations import (
    AngularRates,
    SplineEquations,
    add_poses,
    add_rates,
    add_smoothness,
)
from rover_pipeline.odometry.spline import ORDER, SplineTrajectory
from rover_pipeline.odometry.surfels import SurfelMap

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
) -> tuple[SplineEquations, list[np.ndarray]]:
    """Normal equations of the trajectory's control points from sweeps and rates, and the information of each sweep.

    Args:
        sweeps: each with the map that it is registered to; None for those that must not be used, whose information
            is 0. A sweep that is in its own map attracts itself, which holds it where it is.

    Returns:
        The equations; for each sweep, f8 (6, 6), the information of a displacement in the world (1/m2) and of a
        rotation in the lidar frame (1/rad2) of all of its poses.
    """
    equations, weights = _no_equations(trajectory), PointWeights(_GATE, options.range_noise, SCALE, 1, THICK, 0.0)
    information: list[np.ndarray] = []
    ranges: list[tuple[int, int]] = []
    for sweep, surfels in sweeps:
        if sweep is None:
            information.append(np.zeros((6, 6)))
            continue
        instants = trajectory.locate(sweep.times)
        pos, rot = trajectory.poses(instants)
        matrix, right, _ = pose_equations(sweep.points, sweep.column, pos, rot, surfels.tables, weights)
        add_poses(matrix, right, instants.first, instants.weights(), equations)
        ranges.append(instants.control_range())
        information.append(matrix.sum(0))
    if len(gyro.times):
        instants = trajectory.locate(gyro.times)
        rates = AngularRates(gyro.rates, instants, options.gyro_noise**-2)
        add_rates(trajectory, rates, equations)
        ranges.append(instants.control_range())
    low = min((first for first, _ in ranges), default=0)
    part = slice(low, max((end for _, end in ranges), default=0))
    return SplineEquations(low, equations.blocks[part].copy(), equations.right[part].copy()), information


class SplineSystem:
    """The equations of all control points of a trajectory: of the measurements, and of a prior without jerk.

    Both are kept in the lower banded form of LAPACK, f8 (24, M, 6) for M control points, and f8 (M, 6).
    """

    def __init__(self, trajectory: SplineTrajectory, options: OdometrySection) -> None:
        prior = _no_equations(trajectory)
        add_smoothness(trajectory, 1 / (options.jerk * trajectory.step**3) ** 2, 0, prior)
        prior.blocks[:, 0] += 1e-6 * np.eye(6)
        self.trajectory, self.prior = trajectory, (_banded(prior.blocks), prior.right)
        self.band, self.right = np.zeros_like(self.prior[0]), np.zeros_like(prior.right)

    def add(self, part: SplineEquations) -> None:
        """Add normal equations of some control points."""
        rows = slice(part.first, part.first + len(part.right))
        self.band[:, rows] += _banded(part.blocks)
        self.right[rows] += part.right

    def matrix(self, scale: float) -> np.ndarray:
        """The information of all control points, f8 (24, 6 M).

        Args:
            scale: variance of the measurements, relative to the expected one.
        """
        return (self.prior[0] + self.band / scale).reshape(len(self.band), -1)

    def solve(self, scale: float = 1.0) -> SplineTrajectory:
        """The trajectory after one step of Gauss-Newton, which minimises the sum of all equations; `scale` as above."""
        right = (self.prior[1] + self.right / scale).ravel()
        update = solveh_banded(self.matrix(scale), right, lower=True, overwrite_ab=True).reshape(-1, 6)
        before = self.trajectory
        pos, rot = before.pos + update[:, :3], before.rot @ exp(update[:, 3:])
        return SplineTrajectory(before.start, before.step, pos, rot)


def solve(
    trajectory: SplineTrajectory, equations: SplineEquations, options: OdometrySection, scale: float = 1.0
) -> SplineTrajectory:
    """The trajectory after one step of Gauss-Newton on the equations of all its control points."""
    system = SplineSystem(trajectory, options)
    system.add(equations)
    return system.solve(scale)


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
