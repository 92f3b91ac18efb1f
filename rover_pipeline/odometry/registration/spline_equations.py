"""Compiled inner loops of the registration in continuous time: the normal equations of the control points of a spline,
and their solution for one sweep.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.registration.point_terms import SCALE, THICK, PointWeights, Statistics
from rover_pipeline.odometry.registration.point_to_plane import pose_equations
from rover_pipeline.odometry.spline import (
    THIRD_DIFFERENCE,
    Instants,
    SplineTrajectory,
    evaluate_poses,
    exp_so3,
    log_so3,
    multiply,
)
from rover_pipeline.odometry.surfels import SurfelTables

#: Gate and stride of the points (see `PointWeights`) in each iteration of the registration of a sweep. Tuned: by hand.
_GATES, _STRIDES = np.array((1.6, 1.2, 0.8, 0.4, 0.2, 0.1, 0.05, 0.05)), np.array((4, 4, 4, 4, 4, 4, 1, 1))


class SplineEquations(NamedTuple):
    """Normal equations of M neighbouring control points, for a displacement and a rotation as in `pose_equations`."""

    first: int  #: number of the first control point.
    blocks: np.ndarray  #: f8 (M, 4, 6, 6), block [m, k] is that of control points m and m - k.
    right: np.ndarray  #: f8 (M, 6).


@compiled
def add_poses(
    matrix: np.ndarray, right: np.ndarray, first: np.ndarray, weights: np.ndarray, equations: SplineEquations
) -> None:
    """Adds normal equations of C poses to those of the control points that act on the poses (chain rule).

    Args:
        matrix, right: f8 (C, 6, 6), (C, 6).
        first: i8 (C,), first control point of each pose.
        weights: f8 (C, 4), derivatives of a pose by its four control points.
        equations: whose first control point is number 0.
    """
    for c in range(len(first)):
        for k in range(4):
            m, wk = first[c] + k, weights[c, k]
            for a in range(6):
                equations.right[m, a] += wk * right[c, a]
            for other in range(k + 1):
                w = wk * weights[c, other]
                block = equations.blocks[m, k - other]
                for a in range(6):
                    for b in range(6):
                        block[a, b] += w * matrix[c, a, b]


@compiled
def add_vectors(vectors: np.ndarray, first: np.ndarray, weights: np.ndarray, out: np.ndarray) -> None:
    """Adds vectors of C poses, f8 (N, C, 6), to those of the control points that act on them, f8 (N, M, 6)."""
    for n in range(len(vectors)):
        for c in range(len(first)):
            if vectors[n, c, 0] == 0 and vectors[n, c, 1] == 0 and vectors[n, c, 2] == 0:
                continue  # no point of this pose is about it
            for k in range(4):
                for a in range(6):
                    out[n, first[c] + k, a] += weights[c, k] * vectors[n, c, a]


@compiled
def add_smoothness(trajectory: SplineTrajectory, information: float, start: int, equations: SplineEquations) -> None:
    """Adds a prior without jerk: third differences of the control points from number `start` on are zero.

    Args:
        information: of a third difference.
    """
    _, _, pos, rot = trajectory
    differences = np.empty((len(rot), 3))
    for m in range(start, len(rot) - 1):
        log_so3(rot[m], rot[m + 1], differences[m])
    for m in range(start, len(pos) - 3):
        for i in range(6):
            if i < 3:
                error = pos[m + 3, i] - 3 * pos[m + 2, i] + 3 * pos[m + 1, i] - pos[m, i]
            else:
                error = differences[m + 2, i - 3] - 2 * differences[m + 1, i - 3] + differences[m, i - 3]
            for k in range(4):
                equations.right[m + k, i] -= information * THIRD_DIFFERENCE[k] * error
                for other in range(k + 1):
                    value = information * THIRD_DIFFERENCE[k] * THIRD_DIFFERENCE[other]
                    equations.blocks[m + k, k - other, i, i] += value


def widest_gate(reach: float) -> float:
    """The widest gate, m, with which a sweep is searched for within a distance, m."""
    return float(_GATES[reach >= _GATES].max())


@compiled
def register_sweep(
    sweep: Sweep,
    instants: Instants,
    basis: np.ndarray,
    trajectory: SplineTrajectory,
    prior: np.ndarray,
    tables: SurfelTables,
    noise: float,
    jerk: float,
    widest: float,
) -> tuple[np.ndarray, Statistics]:
    """Moves the control points of one sweep, in place, until its points lie on planes of the map (Gauss-Newton).

    Args:
        instants: of the C columns of the sweep.
        basis: f8 (C, 4), weights of the four control points that act on each column.
        trajectory: the M control points that act on the sweep.
        prior: f8 (6 K, 6 K), information matrix of the first K control points about where they are.
        noise: standard deviation of a range, metres.
        jerk: expected of the motion, m/s3 and rad/s3.
        widest: of the gates, m; see `widest_gate`.

    Returns:
        Information matrix of the control points, f8 (6 M, 6 M), and the statistics of the last iteration.
    """
    _, step, pos, rot = trajectory
    count, known = len(pos), len(prior) // 6
    prior_pos, prior_rot = pos[:known].copy(), rot[:known].copy()
    deviation, rotation = np.empty(6 * known), np.empty((3, 3))
    information = np.zeros((6 * count, 6 * count))
    statistics = Statistics(0.0, 0.0, 0.0, 0.0, 0.0, (0.0, 0.0), 0.0, (0.0, 0.0, 0.0, 0.0))
    nothing = np.zeros(0)
    for iteration in range(len(_GATES)):
        gate = _GATES[iteration]
        if gate > widest:
            continue
        # While the gate is wide, the pose is wrong by more than the noise: outliers must not decide yet.
        weights = PointWeights(
            gate, max(noise, gate / 5), SCALE, _STRIDES[iteration], THICK, 0.0, nothing, (0.0, 0.0), 0.0, 0.0, 1.0
        )
        at_pos, at_rot = evaluate_poses(trajectory, instants)
        matrix, right, statistics, _ = pose_equations(sweep.points, sweep.column, at_pos, at_rot, tables, weights)
        equations = SplineEquations(0, np.zeros((count, 4, 6, 6)), np.zeros((count, 6)))
        add_poses(matrix, right, instants.first, basis, equations)
        # Third differences of the first K control points are part of the prior already.
        third = jerk * (step * step * step)
        add_smoothness(trajectory, 1 / (third * third), max(0, known - 3), equations)
        information[:] = 0.0
        for m in range(count):
            for k in range(min(4, m + 1)):
                for a in range(6):
                    for b in range(6):
                        information[6 * m + a, 6 * (m - k) + b] = equations.blocks[m, k, a, b]
                        information[6 * (m - k) + b, 6 * m + a] = equations.blocks[m, k, a, b]
        for m in range(known):
            log_so3(prior_rot[m], rot[m], deviation[6 * m + 3 : 6 * m + 6])
            for a in range(3):
                deviation[6 * m + a] = pos[m, a] - prior_pos[m, a]
        update = equations.right.ravel()
        for i in range(6 * known):
            for j in range(6 * known):
                information[i, j] += prior[i, j]
                update[i] -= prior[i, j] * deviation[j]
        _solve(information, update)
        for m in range(count):
            for a in range(3):
                pos[m, a] += update[6 * m + a]
            exp_so3(update[6 * m + 3], update[6 * m + 4], update[6 * m + 5], rotation)
            multiply(rot[m].copy(), rotation, rot[m])
    return information, statistics


@compiled
def _solve(matrix: np.ndarray, right: np.ndarray) -> None:
    """Replaces `right` by the solution of a positive definite system, by Cholesky decomposition; keeps `matrix`."""
    n = len(right)
    lower = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            if i == j:
                lower[i, i] = math.sqrt(max(total, 1e-6))
            else:
                lower[i, j] = total / lower[j, j]
    for i in range(n):
        for k in range(i):
            right[i] -= lower[i, k] * right[k]
        right[i] /= lower[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            right[i] -= lower[k, i] * right[k]
        right[i] /= lower[i, i]
