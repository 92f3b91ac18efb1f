"""All sweeps of a recording in one batch: their map, and the trajectory that fits it best.

Both are sums over sweeps. Segments of a recording contribute to one map and to one system of equations, in any process
and in any order, so that the result has no seams.
"""

from __future__ import annotations

from collections.abc import Iterable

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
from rover_pipeline.odometry.spline import ORDER, SplineTrajectory
from rover_pipeline.odometry.surfels import SurfelMap

#: Largest distance of a point from its plane, metres. The trajectory is nearly right before a batch pass.
_GATE = 0.05

#: How well a sweep lies on the map: inliers, residual and information as in `quality.Quality`.
SweepFit = tuple[float, float, float]
_NO_FIT = (np.nan, np.nan, np.nan)


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
    sweeps: Iterable[Sweep | None],
    trajectory: SplineTrajectory,
    surfels: SurfelMap,
    options: OdometrySection,
    gyro: Gyro = NO_GYRO,
) -> tuple[SplineEquations, list[SweepFit]]:
    """Normal equations of the trajectory's control points from sweeps and rates, and how well each sweep fits.

    Args:
        sweeps: None for those that must not be used, whose fit is NaN.
    """
    equations, weights = _no_equations(trajectory), PointWeights(_GATE, options.range_noise, SCALE, 1)
    fits: list[SweepFit] = []
    ranges: list[tuple[int, int]] = []
    for sweep in sweeps:
        if sweep is None:
            fits.append(_NO_FIT)
            continue
        instants = trajectory.locate(sweep.times)
        pos, rot = trajectory.poses(instants)
        matrix, right, statistics = pose_equations(sweep.points, sweep.column, pos, rot, surfels.tables, weights)
        add_poses(matrix, right, instants.first, instants.weights(), equations)
        ranges.append(instants.control_range())
        fits.append(_fit(matrix.sum(0), *statistics))
    if len(gyro.times):
        instants = trajectory.locate(gyro.times)
        rates = AngularRates(gyro.rates, instants, options.gyro_noise**-2)
        add_rates(trajectory, rates, equations)
        ranges.append(instants.control_range())
    low = min((first for first, _ in ranges), default=0)
    part = slice(low, max((end for _, end in ranges), default=0))
    return SplineEquations(low, equations.blocks[part].copy(), equations.right[part].copy()), fits


def _fit(information: np.ndarray, points: float, inliers: float, squared_distances: float) -> SweepFit:
    """The fit of a sweep, given its `Statistics` and the information of its displacement and rotation."""
    if not np.isfinite(information).all():
        return _NO_FIT
    # A rotation moves a point by its distance times the angle. The mean distance makes both units the same.
    distance = np.sqrt(max(np.trace(information[3:, 3:]), 1e-12) / max(np.trace(information[:3, :3]), 1e-12))
    information[3:] /= distance
    information[:, 3:] /= distance
    residual = float(np.sqrt(squared_distances / max(inliers, 1)))
    return inliers / max(points, 1), residual, float(max(np.linalg.eigvalsh(information)[0], 0.0))


def solve(
    trajectory: SplineTrajectory,
    results: Iterable[tuple[SplineEquations, list[SweepFit]]],
    options: OdometrySection,
) -> tuple[SplineTrajectory, list[SweepFit]]:
    """The trajectory after one step of Gauss-Newton, and how well each sweep fitted before.

    The step minimises the sum of all equations, with a prior without jerk.

    Args:
        results: of `normal_equations`, for all sweeps or for parts of them.
    """
    prior = _no_equations(trajectory)
    add_smoothness(trajectory, 1 / (options.jerk * trajectory.step**3) ** 2, 0, prior)
    prior.blocks[:, 0] += 1e-6 * np.eye(6)
    band, right = _banded(prior.blocks), prior.right
    fits: list[SweepFit] = []
    for part, part_fits in results:
        fits += part_fits
        rows = slice(part.first, part.first + len(part.right))
        band[:, rows] += _banded(part.blocks)
        right[rows] += part.right
        del part  # frees its memory before the next one is made
    flat = band.reshape(len(band), -1)
    update = solveh_banded(flat, right.ravel(), lower=True, overwrite_ab=True, overwrite_b=True).reshape(-1, 6)
    pos, rot = trajectory.pos + update[:, :3], trajectory.rot @ exp(update[:, 3:])
    return SplineTrajectory(trajectory.start, trajectory.step, pos, rot), fits


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
