"""All sweeps of a recording in one batch: their map, and the trajectory that fits it best.

Both are sums over sweeps. Segments of a recording contribute to one map and to one system of equations, in any process
and in any order, so that the result has no seams.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.linalg import solveh_banded

from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.odometry.observations import NO_GYRO, Gyro, Sweep
from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.registration.point_to_plane import SCALE, PointWeights, pose_equations, transform_points
from rover_pipeline.odometry.registration.spline_equations import (
    AngularRates,
    SplineEquations,
    add_poses,
    add_rates,
    add_smoothness,
)
from rover_pipeline.odometry.spline.bspline import ORDER, SplineTrajectory, basis, control_range
from rover_pipeline.odometry.surfels.surfel_map import SurfelMap

#: Largest distance of a point from its plane, metres. The trajectory is nearly right before a batch pass.
_GATE = 0.05


class SweepFit(NamedTuple):
    """How well a sweep lies on the map.

    Attributes:
        inliers: fraction of the points that lie on a plane.
        residual: root mean square of their distances from the planes, metres.
        information: f8 (6, 6), information matrix of a displacement (1/m2) and a rotation (1/rad2) of the sweep.
    """

    inliers: float
    residual: float
    information: np.ndarray


def build_map(sweeps: Iterable[Sweep], trajectory: SplineTrajectory, options: OdometrySection) -> SurfelMap:
    """The map of sweeps whose trajectory is known."""
    surfels = SurfelMap(options.voxels)
    for sweep in sweeps:
        surfels.insert(world_points(sweep, trajectory))
    return surfels


def world_points(sweep: Sweep, trajectory: SplineTrajectory) -> np.ndarray:
    """The sweep's points in the world, f8 (N, 3), each transformed by the lidar's pose at its own instant."""
    return transform_points(sweep.points, sweep.column, *trajectory.poses(trajectory.locate(sweep.times)))


def normal_equations(
    sweeps: Iterable[Sweep],
    trajectory: SplineTrajectory,
    surfels: SurfelMap,
    options: OdometrySection,
    gyro: Gyro = NO_GYRO,
) -> tuple[SplineEquations, list[SweepFit]]:
    """Normal equations of the trajectory's control points from sweeps and rates, and how well each sweep fits."""
    count = len(trajectory.pos)
    equations, weights = _no_equations(count), PointWeights(_GATE, options.range_noise, SCALE, 1)
    low, high = count, 0
    fits = []
    for sweep in sweeps:
        instants = trajectory.locate(sweep.times)
        pos, rot = trajectory.poses(instants)
        matrix, right, statistics = pose_equations(sweep.points, sweep.column, pos, rot, surfels.tables, weights)
        add_poses(matrix, right, instants.first, basis(instants.fraction), equations)
        first, end = control_range(instants)
        low, high = min(low, first), max(high, end)
        points, inliers, squared_distances = statistics
        residual = float(np.sqrt(squared_distances / max(inliers, 1)))
        fits.append(SweepFit(inliers / max(points, 1), residual, matrix.sum(0)))
    if len(gyro.times):
        instants = trajectory.locate(gyro.times)
        rates = AngularRates(gyro.rates, instants, options.gyro_noise**-2)
        add_rates(trajectory.control_points, rates, equations)
        first, end = control_range(instants)
        low, high = min(low, first), max(high, end)
    part = slice(min(low, high), high)
    return SplineEquations(part.start, equations.blocks[part].copy(), equations.right[part].copy()), fits


def solve(trajectory: SplineTrajectory, parts: Iterable[SplineEquations], options: OdometrySection) -> SplineTrajectory:
    """The trajectory after one step of Gauss-Newton on the sum of all normal equations and a prior without jerk."""
    count = len(trajectory.pos)
    prior = _no_equations(count)
    add_smoothness(trajectory.control_points, 1 / (options.jerk * trajectory.step**3) ** 2, 0, prior)
    prior.blocks[:, 0] += 1e-6 * np.eye(6)
    band, right = _banded(prior.blocks), prior.right
    for part in parts:
        rows = slice(part.first, part.first + len(part.right))
        band[:, rows] += _banded(part.blocks)
        right[rows] += part.right
        del part  # frees its memory before the next one is made
    flat = band.reshape(len(band), -1)
    update = solveh_banded(flat, right.ravel(), lower=True, overwrite_ab=True, overwrite_b=True).reshape(count, 6)
    return SplineTrajectory(
        trajectory.start, trajectory.step, trajectory.pos + update[:, :3], trajectory.rot @ exp(update[:, 3:])
    )


def _no_equations(count: int) -> SplineEquations:
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
