"""The floor below a lidar that does not stand level."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rover_pipeline.mapping.floor import find_floor, level


def room(tilt_deg: float, height: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points of a room with a table seen by a tilted lidar, and the direction of up there."""
    rng = np.random.default_rng(seed)
    floor = np.column_stack([rng.uniform(-5, 5, (4000, 2)), np.full(4000, -height)])
    table = np.column_stack([rng.uniform(1, 2.5, (1500, 2)), np.full(1500, 0.72 - height)])
    ceiling = np.column_stack([rng.uniform(-5, 5, (6000, 2)), np.full(6000, 2.6 - height)])
    wall = np.column_stack([np.full(4000, 5.0), rng.uniform(-5, 5, 4000), rng.uniform(0, 2.6, 4000) - height])
    points = np.concatenate([floor, table, ceiling, wall]) + rng.normal(0, 0.005, (15500, 3))
    points[rng.integers(0, len(points), 300)] = np.nan
    turn = Rotation.from_euler("xyz", [tilt_deg, -0.7 * tilt_deg, 30], degrees=True).as_matrix()
    return points @ turn.T, turn[:, 2]


@pytest.mark.parametrize("tilt_deg", [0.0, 5.0, 12.0])
def test_the_floor_is_found_to_a_centimetre_and_a_tenth_of_a_degree_below_a_tilted_lidar(tilt_deg: float) -> None:
    points, up = room(tilt_deg, 1.3)
    found = find_floor([points, *(room(tilt_deg, 1.3, seed)[0] for seed in (1, 2))])
    assert found.found
    assert found.height == pytest.approx(1.3, abs=0.01)
    assert np.degrees(np.arccos(min(1.0, found.up @ up))) < 0.1
    np.testing.assert_allclose(level(found.up) @ found.up, [0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(level(found.up) @ level(found.up).T, np.eye(3), atol=1e-12)


def test_a_pavement_beside_the_road_does_not_tilt_it() -> None:
    rng = np.random.default_rng(0)
    places = rng.uniform(-12, 12, (8000, 2))
    step = np.where(places[:, 1] > 1.5, 0.1, 0.0)
    points = np.column_stack([places, step - 1.2]) + rng.normal(0, 0.005, (8000, 3))
    found = find_floor([points])
    assert np.degrees(np.arccos(min(1.0, found.up[2]))) < 0.1
    assert found.height == pytest.approx(1.2, abs=0.01)


def test_without_a_plane_below_the_lowest_points_count_as_the_floor() -> None:
    cloud = np.random.default_rng(0).uniform(-10, 10, (5000, 3))
    found = find_floor([cloud])
    assert not found.found and found.height == pytest.approx(9.8, abs=0.1)
    np.testing.assert_array_equal(level(found.up), np.eye(3))


def test_sweeps_without_any_return_have_no_floor() -> None:
    assert find_floor([np.full((100, 3), np.nan)]).found is False
