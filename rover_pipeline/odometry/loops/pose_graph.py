"""A pose graph: keyframes, relative poses by the odometry, loops that may be wrong, and the poses that fit them best.

Solved by GTSAM (Dellaert, "Factor Graphs and GTSAM", 2012) with graduated non-convexity, which rejects loops that the
others contradict: Yang, Antonante, Tzoumas, Carlone, "Graduated Non-Convexity for Robust Spatial Perception" (RA-L
2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline

from rover_pipeline.kinematics.rotation import derivatives, exp, log
from rover_pipeline.kinematics.state import State
from rover_pipeline.lookup import optional
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.numerics.robust import FALSE_ALARM
from rover_pipeline.odometry.loops.loop_matching import Match


class Loop(NamedTuple):
    """A keyframe that is matched with an earlier one; numbers of the keyframes."""

    first: int
    second: int
    match: Match

    def covariance(self, rot: np.ndarray) -> np.ndarray:
        """That of the measured pose of the second keyframe in its own frame, f8 (6, 6), rotation first, rad2 and m2.

        Args:
            rot: f8 (3, 3), world-from-lidar, of the second keyframe by the odometry.
        """
        axes = np.zeros((6, 6))
        axes[3:, :3], axes[:3, 3:] = matmul(self.match.rotation, rot).T, rot.T
        return np.asarray(matmul(axes, self.match.covariance, axes.T))


def load_gtsam() -> Any:
    """The module `gtsam`. Raises MissingExtraError where it is not installed."""
    return optional("gtsam", "odometry.loops", "loops")


def optimize(
    pos: np.ndarray, rot: np.ndarray, deviations: np.ndarray, loops: Sequence[Loop]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The poses of the keyframes that fit the odometry and the loops best.

    Args:
        pos, rot: f8 (K, 3), (K, 3, 3), world-from-lidar, by the odometry. The first one is fixed.
        deviations: f8 (K - 1, 2), standard deviations of each pose in the frame of the one before, metres and radians.

    Returns:
        pos, rot; bool (loop,): the loops that are not rejected.

    Raises:
        MissingExtraError: GTSAM is not installed.
    """
    gtsam = load_gtsam()
    poses = [gtsam.Pose3(gtsam.Rot3(r), p) for r, p in zip(rot, pos, strict=True)]
    graph, start = gtsam.NonlinearFactorGraph(), gtsam.Values()
    for number, pose in enumerate(poses):
        start.insert(number, pose)
    # The first keyframe is fixed, to a micrometre and a microradian.
    graph.add(gtsam.PriorFactorPose3(0, poses[0], gtsam.noiseModel.Isotropic.Sigma(6, 1e-6)))
    for number, (metres, radians) in enumerate(deviations):
        noise = gtsam.noiseModel.Diagonal.Sigmas(np.array([radians] * 3 + [metres] * 3))
        between = poses[number].between(poses[number + 1])
        graph.add(gtsam.BetweenFactorPose3(number, number + 1, between, noise))
    for loop in loops:
        noise = gtsam.noiseModel.Gaussian.Covariance(loop.covariance(rot[loop.second]))
        turned = gtsam.Rot3(matmul(loop.match.rotation, rot[loop.second]))
        measured = poses[loop.first].between(gtsam.Pose3(turned, pos[loop.second] + loop.match.shift))
        graph.add(gtsam.BetweenFactorPose3(loop.first, loop.second, measured, noise))
    params = gtsam.GncLMParams()
    params.setLossType(gtsam.GncLossType.TLS)
    params.setKnownInliers(list(range(len(poses))))
    solver = gtsam.GncLMOptimizer(graph, start, params)
    solver.setInlierCostThresholdsAtProbability(1 - FALSE_ALARM)
    result = solver.optimize()
    optimized = [result.atPose3(number) for number in range(len(poses))]
    kept = np.asarray(solver.getWeights())[len(poses) :] > 0.5
    return (
        np.stack([each.translation() for each in optimized]),
        np.stack([each.rotation().matrix() for each in optimized]),
        kept,
    )


def correct_trajectory(
    state: State,
    times: np.ndarray,
    at: np.ndarray,
    old: tuple[np.ndarray, np.ndarray],
    new: tuple[np.ndarray, np.ndarray],
) -> State:
    """A trajectory that follows its keyframes to their new poses. The correction is smooth up to the acceleration.

    With the path m(t) through the old keyframes, a position x becomes m(t) + d(t) + C(t) (x - m(t)). The displacement d
    and the rotation C are splines in time. C acts about the path, since the world's origin may be far away.

    Args:
        state: at N instants, times: f8 (N,), seconds, within those of the keyframes.
        at: f8 (K,), instants of the keyframes, rising, at least two.
        old, new: poses of the keyframes before and after, f8 (K, 3) and (K, 3, 3) each.
    """
    path, shift = (CubicSpline(at, each, bc_type="natural") for each in (old[0], new[0] - old[0]))
    turn = CubicSpline(at, log(matmul(new[1], np.swapaxes(old[1], 1, 2))), bc_type="natural")
    rot = exp(turn(times))
    # The rates are in the rotated frame. Here they are in the world.
    avel, aacc = (_rotated(rot, rate) for rate in derivatives(*(turn(times, order) for order in range(3))))
    pos, vel, acc = (
        _rotated(rot, value - path(times, order)) for order, value in enumerate((state.pos, state.vel, state.acc))
    )
    tangential = np.cross(avel, pos)
    return State(
        pos=pos + path(times) + shift(times),
        rot=matmul(rot, state.rot),
        vel=vel + tangential + path(times, 1) + shift(times, 1),
        acc=acc
        + 2 * np.cross(avel, vel)
        + np.cross(aacc, pos)
        + np.cross(avel, tangential)
        + path(times, 2)
        + shift(times, 2),
        avel=state.avel + _rotated(np.swapaxes(matmul(rot, state.rot), 1, 2), avel),
    )


def _rotated(rot: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("nij,nj->ni", rot, vectors))
