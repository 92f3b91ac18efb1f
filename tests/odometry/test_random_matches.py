"""A sweep whose pose is lost finds planes wherever it is put; one whose pose is right finds them there only."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rover_pipeline.kinematics.state import State
from rover_pipeline.odometry.observations import Points
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.odometry.quality import Quality
from rover_pipeline.odometry.registration.point_terms import PointErrors
from rover_pipeline.odometry.registration.point_to_plane import pose_equations
from rover_pipeline.odometry.registration.sweep_information import _elsewhere
from rover_pipeline.odometry.registration.transforms import transform_rays
from rover_pipeline.odometry.remarks import doubt_warnings
from rover_pipeline.odometry.surfels import SurfelMap

_POSES = np.zeros((1, 3)), np.eye(3)[None]
_VOXELS = (0.25, 0.5, 1.0)


def street(rng: np.random.Generator) -> np.ndarray:
    """Points, f8 (N, 3), m, on the ground and on walls of 60 boxes that stand at all angles."""
    surfaces = [rng.uniform([-30, -30, -1.5], [30, 30, -1.5], (60000, 3))]
    for _ in range(60):
        across, height = rng.uniform([-1.5, -1.0], [1.5, 3.0], (800, 2)).T
        wall = Rotation.from_euler("z", rng.uniform(0, 6.3)).apply(np.stack([across, 0 * across, height], 1))
        surfaces.append(wall + np.append(rng.uniform(-28, 28, 2), 0.0))
    points = np.concatenate(surfaces)
    return np.asarray(points + rng.normal(0, 0.02, points.shape))


def elsewhere(turned: float, moved: np.ndarray, seed: int) -> float:
    """The statistic of a sweep that is turned by so many degrees, and moved by so many metres, from where it is."""
    rng, others, seen = np.random.default_rng(seed), SurfelMap(_VOXELS), street(np.random.default_rng(seed))
    column = np.zeros(len(seen), "i4")
    others.insert(transform_rays((seen + rng.normal(0, 0.02, seen.shape)).astype("f4"), column, *_POSES))
    wrong = moved[None], Rotation.from_euler("z", turned, degrees=True).as_matrix()[None]
    sweep = Points(seen[::20].astype("f4"), column[: len(seen[::20])])
    weights = PointErrors(np.zeros(0), noise=0.02).weights(OdometryOptions(), np.zeros(0))
    information = pose_equations(*sweep, *wrong, others.tables, weights)[0].sum(0)[:3, :3]
    return _elsewhere(sweep, wrong, information, others, weights)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_sweep_in_its_place_would_know_little_of_another_place(seed: int) -> None:
    assert elsewhere(0.0, np.zeros(3), seed) < 0.1


def test_a_lost_sweep_knows_of_its_place_what_it_would_of_any_other() -> None:
    rng = np.random.default_rng(0)
    turned, moved = rng.uniform(10, 350, 12), rng.uniform([-4, -4, 0], [4, 4, 0], (12, 3))
    found = np.array([elsewhere(*pose, seed=0) for pose in zip(turned, moved, strict=True)])
    assert (found >= 1).mean() > 0.75


def test_a_second_wall_a_metre_behind_the_first_does_not_make_a_sweep_lost() -> None:
    rng, others = np.random.default_rng(0), SurfelMap(_VOXELS)
    wall = np.stack([np.full(4000, 5.1), *rng.uniform(-4, 4, (2, 4000))], 1)
    seen = np.concatenate([wall, wall + np.array([1.0, 0.0, 0.0])]) + rng.normal(0, 0.01, (8000, 3))
    others.insert(transform_rays(seen.astype("f4"), np.zeros(len(seen), "i4"), *_POSES))
    sweep = Points(wall[::4].astype("f4"), np.zeros(1000, "i4"))
    weights = PointErrors(np.zeros(0), noise=0.02).weights(OdometryOptions(), np.zeros(0))
    information = np.asarray(pose_equations(*sweep, *_POSES, others.tables, weights)[0].sum(0)[:3, :3])
    known = information[0, 0] * np.diag([1.0, 2.0, 3.0])
    ahead = pose_equations(*sweep, _POSES[0] + [1.0, 0.0, 0.0], _POSES[1], others.tables, weights)[0].sum(0)[0, 0]
    assert ahead > 0.9 * known[0, 0]
    assert _elsewhere(sweep, _POSES, known, others, weights) < 0.1


def test_a_sweep_that_knows_nothing_of_a_direction_is_no_lost_one() -> None:
    points = Points(np.zeros((0, 3), "f4"), np.zeros(0, "i4"))
    weights = PointErrors(np.zeros(0)).weights(OdometryOptions(), np.zeros(0))
    assert _elsewhere(points, _POSES, np.diag([4e4, 3e4, 0.0]), SurfelMap(_VOXELS), weights) == 0


def test_poses_of_lost_sweeps_are_refused_and_part_what_is_before_from_what_is_after() -> None:
    ts, ones, nothing = 0.1 * np.arange(60), np.ones(60), np.zeros((60, 3))
    quality = Quality(ones, 0.01 * ones, 5e6 * ones, 1e-3 * ones, 1e-3 * ones, 1e6 * ones, 1e6 * ones, 1e6 * ones, ones,
                      elsewhere=np.where(np.arange(60) < 3, 1.0, 0.7))  # fmt: skip
    state = State(pos=ts[:, None] * [1.0, 0, 0], rot=np.tile(np.eye(3), (60, 1, 1)), vel=nothing, acc=nothing,
                  avel=nothing + 0.1)  # fmt: skip
    (refusal,) = [each for each in quality.refused(OdometryOptions(), state, ts) if each.frames.any()]
    assert (refusal.rule, refusal.parts) == ("random_matches", True)
    assert np.flatnonzero(refusal.frames).tolist() == [0, 1, 2]
    assert "3 sweeps would fit" in doubt_warnings({"random_matches": refusal.frames})[0]
