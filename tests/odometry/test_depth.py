"""How far rays get into leaves, which makes a way among them seem longer than it is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.odometry.registration.point_terms import DEPTH, SCALE, THICK, PointWeights
from rover_pipeline.odometry.registration.point_to_plane import pose_equations
from rover_pipeline.odometry.registration.transforms import transform_rays
from rover_pipeline.odometry.surfels import SurfelMap
from tests.odometry.test_rough_worlds import recording

VOXELS = (0.5, 1.0)
#: Mean way of a ray among the leaves, m.
WAY = 0.1
#: Positions of the lidar: a bush is ahead of it, and then behind.
POSITIONS = np.array([[0.0, 0.0, 0.0], [10.0, 0.0, 0.0]])
TURN = np.tile(np.eye(3), (2, 1, 1))


def hedge(rng: np.random.Generator, position: np.ndarray) -> np.ndarray:
    """A hedge across x = 5.1 m. Each ray meets a leaf behind the face that it comes from. f4 (N, 3), lidar frame."""
    y, z = rng.uniform(-4, 4, 4000), rng.uniform(-1, 1, 4000)
    points = np.stack([np.full(4000, 5.1), y, z], -1) - position
    rays = points / np.linalg.norm(points, axis=1, keepdims=True)
    return (points + rng.exponential(WAY, (4000, 1)) * rays).astype("f4")


def wall(rng: np.random.Generator, position: np.ndarray) -> np.ndarray:
    """Walls at x = 14.1 m, y = 5.1 m and a floor, which rays do not enter."""
    a, b = rng.uniform(-1, 1, (2, 3, 3000))
    walls = [
        np.stack([np.full(3000, 14.1), 4 * a[0], b[0]], -1),
        np.stack([7 + 6 * a[1], np.full(3000, 5.1), b[1]], -1),
        np.stack([7 + 6 * a[2], 4 * b[2], np.full(3000, -1.4)], -1),
    ]
    points = np.concatenate(walls) + rng.normal(0, 0.004, (9000, 3)) - position
    return points.astype("f4")


@pytest.fixture(scope="module")
def scene() -> tuple[list[np.ndarray], SurfelMap]:
    rng = np.random.default_rng(0)
    sweeps = [np.concatenate([hedge(rng, each), wall(rng, each)]) for each in POSITIONS]
    surfels = SurfelMap(VOXELS)
    for n, points in enumerate(sweeps):
        column = np.zeros(len(points), "i4")
        surfels.insert(transform_rays(points, column, POSITIONS[n, None], TURN[n, None]))
    return sweeps, surfels


def weights(depth: np.ndarray) -> PointWeights:
    return PointWeights(0.05, 0.01, SCALE, 1, THICK, 0.0, depth)


def test_who_takes_the_depth_into_account_moves_neither_before_a_hedge_nor_behind_it(
    scene: tuple[list[np.ndarray], SurfelMap],
) -> None:
    sweeps, surfels = scene

    def moves(depth: np.ndarray) -> tuple[list[float], np.ndarray]:
        """Where each sweep would go along the way by its leaves alone, m, and what it says of the depth."""
        found, told = [], np.zeros((2, len(VOXELS)))
        for n, points in enumerate(sweeps):
            column, leaves = np.zeros(4000, "i4"), points[:4000]
            matrix, right, _, shared = pose_equations(
                leaves, column, POSITIONS[n, None], TURN[n, None], surfels.tables, weights(depth)
            )
            found.append(float(right[0, 0] / matrix[0, 0, 0]))
            told += np.diagonal(shared.information)[DEPTH:], shared.right[DEPTH:]
        return found, told

    depth = np.zeros(len(VOXELS))
    before, _ = moves(depth)
    # The leaves that are seen from before the hedge lie behind its middle, and draw the lidar back; the others ahead.
    assert before[0] < -0.02 and before[1] > 0.02
    for _ in range(10):
        _, (information, right) = moves(depth)
        depth = depth + right / np.maximum(information, 1e-9)
    after, _ = moves(depth)
    assert np.abs(after).max() < 0.3 * np.abs(before).max()
    assert 0.4 < depth[1] < 1.5


def test_the_equations_of_the_depth_are_the_derivatives_of_the_distances(
    scene: tuple[list[np.ndarray], SurfelMap],
) -> None:
    (points, _), surfels = scene
    column, small = np.zeros(len(points), "i4"), 1e-4
    # Without a robust weight and a gate the sum of squares is a parabola.
    plain = PointWeights(10.0, 0.01, 1e6, 1, 0.0, 0.0, np.array([0.3, 0.5]))

    def right(depth: np.ndarray) -> tuple[np.ndarray, ...]:
        _, poses, _, shared = pose_equations(
            points, column, POSITIONS[:1], TURN[:1], surfels.tables, plain._replace(depth=depth)
        )
        return poses[0], shared.right, shared.cross[:, 0], np.diagonal(shared.information)

    for level in range(len(VOXELS)):
        step = np.zeros(len(VOXELS))
        step[level] = small
        pose, alone, cross, information = right(plain.depth)
        pose_after, alone_after, *_ = right(plain.depth + step)
        cross, change = cross[DEPTH + level], (alone - alone_after)[DEPTH + level]
        np.testing.assert_allclose((pose - pose_after) / small, cross, rtol=1e-4, atol=1e-3 * np.abs(cross).max())
        np.testing.assert_allclose(change / small, information[DEPTH + level], rtol=1e-4)


def test_rays_get_into_bushes_and_not_into_walls(tmp_path: Path) -> None:
    found = {}
    for preset in ("bushes", "tiny"):
        trace = recording(tmp_path / preset, preset, 3.0)
        found[preset] = json.loads((trace / "_odom" / PROVENANCE).read_text())["measured"]["depth"]
    assert min(found["bushes"][:2]) > 0.3 and found["bushes"][3] == 0
    assert max(found["tiny"][:2]) < 0.4
