"""The alignment of two surfel maps."""

from __future__ import annotations

import numpy as np

from rover_pipeline.kinematics.rotation import exp, log
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.numerics.linear import matmul, solve
from rover_pipeline.odometry.registration.point_terms import GATE, SCALE, PointWeights, Statistics
from rover_pipeline.odometry.registration.point_to_plane import pose_equations
from rover_pipeline.odometry.surfels import SurfelTables

#: Standard deviation of the centre of a plane, metres. Tuned: by hand.
CENTRE_NOISE = 0.004
#: Largest distance of a centre from its plane in the first iteration, metres. Tuned: by hand.
WIDEST_GATE = 0.5
#: Iterations with the last gate. Schedule.
_FINEST_ITERATIONS = 3


def align(
    centres: np.ndarray,
    tables: SurfelTables,
    *,
    guess: Poses,
    expected: Poses,
    deviations: np.ndarray,
) -> tuple[Poses, np.ndarray, Statistics]:
    """The pose of a map in another one, by Gauss-Newton on the distances of its centres from the other's planes.

    Args:
        centres: (N, 3), metres, of the planes of the map.
        tables: the other map.
        guess: where the iterations begin, (3, 3) and (3,). Their gate is halved: outliers must not decide in the end.
        expected, deviations: mean of the prior, and its standard deviations, f8 (6,), metres and radians. It decides in
            directions that the planes leave open.

    Returns:
        The pose, (3, 3) and (3,); the information of a displacement (1/m2) and of a rotation after it (1/rad2), with
        the prior's, f8 (6, 6); the statistics of the last iteration.
    """
    information = deviations**-2
    pos, rot = guess.pos[None].copy(), guess.rot[None].copy()
    halvings = int(np.ceil(np.log2(WIDEST_GATE / GATE)))
    for each in [*(WIDEST_GATE * 0.5 ** np.arange(halvings)).tolist(), *[GATE] * _FINEST_ITERATIONS]:
        noise = each / 5 if each > GATE else CENTRE_NOISE
        matrix, right, statistics = plane_distances(centres, tables, pos, rot, each, noise)
        deviation = np.concatenate([pos[0] - expected.pos, log(matmul(expected.rot.T[None], rot))[0]])
        update = solve(matrix[0] + np.diag(information), right[0] - information * deviation)
        pos, rot = pos + update[:3], matmul(rot, exp(update[None, 3:]))
    return Poses(rot[0], pos[0]), matrix[0] + np.diag(information), statistics


def plane_distances(
    centres: np.ndarray, tables: SurfelTables, pos: np.ndarray, rot: np.ndarray, gate: float, noise: float
) -> tuple[np.ndarray, np.ndarray, Statistics]:
    """Normal equations of one pose, (1, 3) and (1, 3, 3), of a map in another; see `pose_equations`."""
    column, no_depth = np.zeros(len(centres), "i4"), np.zeros(0)
    weights = PointWeights(gate, noise, SCALE, 1, 0.0, 0.0, no_depth)
    matrix, right, statistics, _ = pose_equations(centres.astype("f4"), column, pos, rot, tables, weights)
    return matrix, right, statistics
