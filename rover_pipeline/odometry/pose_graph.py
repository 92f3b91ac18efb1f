"""A pose graph: relative poses that the odometry tells, closures that may be wrong, and the poses that suit them.

Solved by GTSAM (Dellaert, "Factor Graphs and GTSAM", 2012) with graduated non-convexity, which gives up closures that
the rest contradicts: Yang, Antonante, Tzoumas, Carlone, "Graduated Non-Convexity for Robust Spatial Perception" (RA-L
2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.spatial.transform import Rotation, RotationSpline

from rover_pipeline.errors import MissingExtraError
from rover_pipeline.kinematics.state import State

#: Share of right closures that are not given up because they are far off by chance.
_KEPT = 0.999


class Closure(NamedTuple):
    """A measured pose of one key pose in the frame of an earlier one.

    Attributes:
        first, second: numbers of the key poses.
        pos: f8 (3,), metres; rot: f8 (3, 3).
        covariance: f8 (6, 6), of a displacement (m2) and a rotation (rad2) in the frame of the second.
    """

    first: int
    second: int
    pos: np.ndarray
    rot: np.ndarray
    covariance: np.ndarray


def library() -> Any:
    """GTSAM.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import gtsam
    except ImportError as error:
        raise MissingExtraError("odometry.loops", "loops") from error
    return gtsam


def optimize(
    pos: np.ndarray, rot: np.ndarray, deviations: np.ndarray, closures: Sequence[Closure]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Key poses that suit the odometry and the closures best, and which closures they suit.

    Args:
        pos, rot: f8 (K, 3), (K, 3, 3), world-from-lidar, as the odometry has them. The first one stays.
        deviations: f8 (K - 1, 2), standard deviations of each pose in the frame of the one before, metres and radians.

    Returns:
        pos, rot; bool (closure,): kept.

    Raises:
        MissingExtraError: GTSAM is not installed.
    """
    gtsam = library()
    poses = [gtsam.Pose3(gtsam.Rot3(r), p) for r, p in zip(rot, pos, strict=True)]
    graph, start = gtsam.NonlinearFactorGraph(), gtsam.Values()
    for number, pose in enumerate(poses):
        start.insert(number, pose)
    graph.add(gtsam.PriorFactorPose3(0, poses[0], gtsam.noiseModel.Isotropic.Sigma(6, 1e-6)))
    for number, (metres, radians) in enumerate(deviations):
        # GTSAM has the rotation first.
        noise = gtsam.noiseModel.Diagonal.Sigmas(np.array([radians] * 3 + [metres] * 3))
        between = poses[number].between(poses[number + 1])
        graph.add(gtsam.BetweenFactorPose3(number, number + 1, between, noise))
    order = [3, 4, 5, 0, 1, 2]
    for each in closures:
        noise = gtsam.noiseModel.Gaussian.Covariance(each.covariance[np.ix_(order, order)])
        measured = gtsam.Pose3(gtsam.Rot3(each.rot), each.pos)
        graph.add(gtsam.BetweenFactorPose3(each.first, each.second, measured, noise))
    params = gtsam.GncLMParams()
    params.setLossType(gtsam.GncLossType.TLS)
    params.setKnownInliers(list(range(len(poses))))
    solver = gtsam.GncLMOptimizer(graph, start, params)
    solver.setInlierCostThresholdsAtProbability(_KEPT)
    result = solver.optimize()
    found = [result.atPose3(number) for number in range(len(poses))]
    kept = np.asarray(solver.getWeights())[len(poses) :] > 0.5
    return (
        np.stack([each.translation() for each in found]),
        np.stack([each.rotation().matrix() for each in found]),
        kept,
    )


def bend(
    state: State,
    times: np.ndarray,
    at: np.ndarray,
    old: tuple[np.ndarray, np.ndarray],
    new: tuple[np.ndarray, np.ndarray],
) -> State:
    """A trajectory whose key poses have moved: a motion that is smooth in time, to the second derivative, is added.

    Around the way m(t) through the old key poses, x becomes m(t) + d(t) + C(t) (x - m(t)): the displacement d and the
    rotation C, splines, act where the lidar is and not with the length of its distance from the origin.

    Args:
        state: at N instants, times: f8 (N,), seconds, within those of the key poses.
        at: f8 (K,), instants of the key poses, rising, at least two.
        old, new: the key poses before and after, f8 (K, 3) and (K, 3, 3) each.
    """
    way, move = (CubicSpline(at, each, bc_type="natural") for each in (old[0], new[0] - old[0]))
    turns = RotationSpline(at, Rotation.from_matrix(new[1] @ np.swapaxes(old[1], 1, 2)))
    turn = turns(times).as_matrix()
    # RotationSpline gives rates in the frame that it turns; they are wanted in the world.
    spin, change = (_turned(turn, turns(times, order)) for order in (1, 2))
    pos_at, vel_at, acc_at = (
        _turned(turn, value - way(times, order)) for order, value in enumerate((state.pos, state.vel, state.acc))
    )
    swing = np.cross(spin, pos_at)
    return State(
        pos=pos_at + way(times) + move(times),
        rot=turn @ state.rot,
        vel=vel_at + swing + way(times, 1) + move(times, 1),
        acc=acc_at
        + 2 * np.cross(spin, vel_at)
        + np.cross(change, pos_at)
        + np.cross(spin, swing)
        + way(times, 2)
        + move(times, 2),
        avel=state.avel + _turned(np.swapaxes(turn @ state.rot, 1, 2), spin),
    )


def _turned(rot: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    turned: np.ndarray = np.einsum("nij,nj->ni", rot, vectors)
    return turned
