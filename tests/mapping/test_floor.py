"""The floor below a lidar that does not stand level."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rover_pipeline.errors import FormatError
from rover_pipeline.mapping.floor import find_floor, levelling, turned_up


def room(tilt_deg: float, height: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points of a room with a table in the frame of a tilted lidar, and the direction of up in that frame."""
    rng = np.random.default_rng(seed)
    floor = np.column_stack([rng.uniform(-5, 5, (4000, 2)), np.full(4000, -height)])
    table = np.column_stack([rng.uniform(1, 2.5, (1500, 2)), np.full(1500, 0.72 - height)])
    ceiling = np.column_stack([rng.uniform(-5, 5, (6000, 2)), np.full(6000, 2.6 - height)])
    wall = np.column_stack([np.full(4000, 5.0), rng.uniform(-5, 5, 4000), rng.uniform(0, 2.6, 4000) - height])
    points = np.concatenate([floor, table, ceiling, wall]) + rng.normal(0, 0.005, (15500, 3))
    points[rng.integers(0, len(points), 300)] = np.nan
    rotation = Rotation.from_euler("xyz", [tilt_deg, -0.7 * tilt_deg, 30], degrees=True).as_matrix()
    return points @ rotation.T, rotation[:, 2]


@pytest.mark.parametrize("tilt_deg", [0.0, 5.0, 12.0])
def test_the_floor_is_found_to_a_centimetre_and_a_tenth_of_a_degree_below_a_tilted_lidar(tilt_deg: float) -> None:
    points, up = room(tilt_deg, 1.3)
    floor = find_floor([points, *(room(tilt_deg, 1.3, seed)[0] for seed in (1, 2))])
    assert floor.is_plane
    assert floor.height == pytest.approx(1.3, abs=0.01)
    assert np.degrees(np.arccos(min(1.0, floor.up @ up))) < 0.1
    rotation = levelling(floor.up)
    np.testing.assert_allclose(rotation @ floor.up, [0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("turn", [[180, 0, 0], [0, 180, 40], [90, 0, 0], [0, -90, 20], [60, 10, 0], [130, -40, 200]])
def test_the_floor_is_below_a_lidar_that_hangs_upside_down_or_lies_on_its_side(turn: list[float]) -> None:
    points, up = room(0.0, 1.0)
    hung = Rotation.from_euler("xyz", turn, degrees=True).as_matrix()
    up = hung @ up
    felt = up + np.random.default_rng(0).normal(0, 0.02, 3)
    turn_up = turned_up(json.dumps({"up": (felt / np.linalg.norm(felt)).tolist()}))
    floor = find_floor([points @ hung.T @ turn_up.T])
    assert np.degrees(np.arccos(min(1.0, turn_up.T @ floor.up @ up))) < 0.1
    assert floor.height == pytest.approx(1.0, abs=0.01), "the ceiling is 1.6 m away"
    level = levelling(turn_up.T @ floor.up)
    np.testing.assert_allclose(level @ turn_up.T @ floor.up, [0, 0, 1], atol=1e-12)
    assert np.linalg.det(level) == pytest.approx(1.0), "a map is no mirror image"


@pytest.mark.parametrize("known", [None, '{"up": [0.3, 0.0, 0.95]}'])
def test_a_world_whose_z_is_rather_up_stays_as_it_is(known: str | None) -> None:
    np.testing.assert_array_equal(turned_up(known), np.eye(3))


def test_a_pavement_beside_the_road_does_not_tilt_the_floor() -> None:
    rng = np.random.default_rng(0)
    positions = rng.uniform(-12, 12, (8000, 2))
    step = np.where(positions[:, 1] > 1.5, 0.1, 0.0)
    points = np.column_stack([positions, step - 1.2]) + rng.normal(0, 0.005, (8000, 3))
    floor = find_floor([points])
    assert np.degrees(np.arccos(min(1.0, floor.up[2]))) < 0.1
    assert floor.height == pytest.approx(1.2, abs=0.01)


def test_without_a_plane_below_the_lowest_points_count_as_the_floor() -> None:
    cloud = np.random.default_rng(0).uniform(-10, 10, (5000, 3))
    floor = find_floor([cloud])
    assert not floor.is_plane and floor.height == pytest.approx(9.8, abs=0.1)
    np.testing.assert_array_equal(levelling(floor.up), np.eye(3))


def test_sweeps_without_any_return_have_no_floor() -> None:
    assert find_floor([np.full((100, 3), np.nan)]).is_plane is False


@pytest.mark.parametrize("given", ["{}", '{"up": [0, 1]}', '{"up": "x"}', '{"up": [NaN, 0, 0]}', '{"up": [0, 0, 0]}'])
def test_a_damaged_direction_of_up_is_an_error_in_one_line(given: str) -> None:
    with pytest.raises(FormatError, match=r"^_odom/up.json: `up` is no direction: .*; make _odom again$"):
        turned_up(given)
