"""Bodies that move are found, tracked and measured; what stands is none of them."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.objects.options import CLASSES
from rover_pipeline.simulate.scene.props import person
from rover_pipeline.simulate.scene.world import cylinder, standing_box
from tests.objects.scene import Watched, straight, watch

PATH = straight((-9.0, 0.0), (9.0, 0.0))
#: Posts, cupboards and a pillar hide what is behind them, and are seen from other sides as the lidar passes.
STANDING = [
    cylinder(-4.0, 2.5, 0.0, 3.0, 0.3, "plaster"),
    cylinder(-6.0, -2.0, 0.0, 2.0, 0.05, "metal"),
    cylinder(-2.0, -2.5, 0.0, 2.0, 0.05, "metal"),
    standing_box(-1.0, 3.5, (1.5, 0.6, 1.8), "wood", 20.0),
    standing_box(-5.5, -4.5, (0.8, 3.0, 2.4), "wood"),
]
WALKERS = (
    person("across", straight((-6.5, 5.0), (2.0, 5.0)), 1.3, coat="coat", start=0.5),
    person("towards", straight((2.0, -1.2), (-9.0, -1.2)), 1.1, coat="cloth", start=0.2),
)


@pytest.fixture(scope="module")
def walk() -> Watched:
    return watch(STANDING, WALKERS, PATH, 0.8)


@pytest.fixture(scope="module")
def found(walk: Watched) -> dict[str, np.ndarray]:
    return walk.objects()[0]


def test_walkers_are_tracked_without_switches_also_behind_a_pillar(walk: Watched, found: dict[str, np.ndarray]) -> None:
    score = walk.score(found, least=12)
    assert score.bodies > 40
    assert score.mota >= 0.9 and score.switches == 0 and score.motp < 0.25
    assert len(set(found["track"][found["track"] >= 0].tolist())) == 2


def test_walkers_are_tracked_as_well_by_a_lidar_that_sends_points(walk: Watched) -> None:
    found, inspection = walk.objects_of_points()
    score = walk.score(found, least=12)
    assert score.mota >= 0.85 and score.switches == 0 and score.motp < 0.25
    assert found["valid"].all() and inspection.measured["tracks"] == 2 and not inspection.warnings


def test_velocities_and_headings_are_those_of_the_walkers(walk: Watched, found: dict[str, np.ndarray]) -> None:
    errors, turns = [], []
    for sweep, body, track in walk.score(found).matches:
        row = int(np.flatnonzero(found["track"][sweep] == track)[0])
        true = walk.bodies[sweep, body, 3:5]
        errors.append(found["vel"][sweep, row, :2] - true)
        turns.append(np.exp(1j * (found["yaw"][sweep, row] - np.arctan2(true[1], true[0]))))
    assert np.sqrt(np.mean(np.sum(np.square(errors), axis=1))) < 0.15
    assert np.abs(np.angle(turns)).max() < np.radians(25)


def test_an_object_keeps_its_size_its_class_and_a_steady_heading(found: dict[str, np.ndarray]) -> None:
    for track in set(found["track"][found["track"] >= 0].tolist()):
        sweep, row = np.nonzero(found["track"] == track)
        assert (np.diff(sweep) == 1).all()
        extent, probability = found["extent"][sweep, row], found["probability"][sweep, row]
        np.testing.assert_array_equal(extent, np.broadcast_to(extent[0], extent.shape))
        assert 1.3 < extent[0, 2] < 2.0 and extent[0, :2].max() < 1.0
        assert CLASSES[int(probability[0].argmax())] == "pedestrian"
        np.testing.assert_allclose(probability.sum(axis=1), 1, atol=1e-5)
        assert probability[0, CLASSES.index("other")] >= 0.05  # rules are never sure
        assert np.abs(np.diff(np.unwrap(found["yaw"][sweep, row].astype("f8")))).max() < np.radians(30)


def test_what_stands_does_not_move_when_it_is_seen_from_other_sides_or_comes_into_view() -> None:
    """Nothing has moved. On request there are boxes of what stands, such as the cupboard at (-1, 3.5) in the scene."""
    still = watch(STANDING, (), PATH, 0.8)
    found, inspection = still.objects(still=True, max_objects=32)
    assert found["valid"].all()
    assert inspection.measured["tracks"] == 0 and inspection.measured["tracks_standing"] >= 2
    listed = found["track"] >= 0
    assert (found["vel"][listed] == 0).all() and (found["vel_sd"][listed] > 0).all()
    # The world is that of the first pose, which heads elsewhere than the scene: distances from its place are the same.
    away = np.linalg.norm(found["centre"][listed][:, :2], axis=1) - np.linalg.norm([-1.0, 3.5] - still.begin)
    like = np.abs(found["extent"][listed] - [1.5, 0.6, 1.8]).max(axis=1)
    assert ((np.abs(away) < 0.3) & (like < 0.1)).any()


def test_a_sweep_without_a_valid_pose_has_no_objects_and_the_nearest_ones_are_kept(walk: Watched) -> None:
    odometry = {name: array.copy() for name, array in walk.odometry.items()}
    odometry["valid"][10] = 0
    odometry["pos"][20] = np.nan
    found, inspection = walk._replace(odometry=odometry).objects(max_objects=1)
    assert np.flatnonzero(~found["valid"]).tolist() == [10, 20]
    assert (found["count"][[10, 20]] == 0).all() and np.isnan(found["centre"][[10, 20]]).all()
    assert (found["track"][[10, 20]] == -1).all()
    assert found["count"][[9, 11, 19, 21]].all()
    assert found["centre"].shape[1] == 1 and inspection.measured["dropped_beyond_max_objects"] > 0
