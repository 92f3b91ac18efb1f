"""Vegetation and terrain: how far rays get into leaves, leaves that stand still, and the surface of the ground."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.simulate.scene.terrain import distance_to_ground, distance_to_leaf, height, leaf_normal, on_terrain

#: An ellipsoid that hardly any ray gets through, as half axes, and distances to it, metres.
HALF = (3.0, 2.5, 2.0)
UNDULATION = 0.9


def to_leaf(o: np.ndarray, d: np.ndarray, half: tuple[float, float, float], leaf_depth: float) -> float:
    return distance_to_leaf(o[0], o[1], o[2], d[0], d[1], d[2], *half, leaf_depth, 3, np.inf)


def to_ground(o: np.ndarray, d: np.ndarray, grass: float) -> float:
    return distance_to_ground(o[0], o[1], o[2], d[0], d[1], d[2], 60.0, 60.0, UNDULATION, grass, np.inf)


def depths(leaf_depth: float, count: int, origin_shift: float = 0.0) -> np.ndarray:
    """How far parallel-less rays towards the middle of an ellipsoid get into it, metres; infinite through it."""
    rng = np.random.default_rng(5)
    result = np.empty(count)
    for n in range(count):
        direction = rng.standard_normal(3)
        direction /= np.linalg.norm(direction)
        aim = rng.uniform(-0.4, 0.4, 3) + origin_shift
        origin = aim - 9.0 * direction
        p, q = origin / HALF, direction / HALF
        enter = (-p @ q - np.sqrt((p @ q) ** 2 - (q @ q) * (p @ p - 1))) / (q @ q)
        result[n] = to_leaf(origin, direction, HALF, leaf_depth) - enter
    return result


@pytest.mark.parametrize("leaf_depth", [0.05, 0.3])
def test_rays_get_into_leaves_exponentially_far(leaf_depth: float) -> None:
    into = depths(leaf_depth, 4000)
    assert np.isfinite(into).mean() > 0.99
    into = into[np.isfinite(into)]
    assert into.mean() == pytest.approx(leaf_depth, rel=0.08)
    # An exponential distribution has the median at ln 2 of its mean, and one in e values beyond it.
    assert np.median(into) == pytest.approx(np.log(2) * leaf_depth, rel=0.12)
    assert (into > leaf_depth).mean() == pytest.approx(np.exp(-1), abs=0.04)
    assert (into > 3 * leaf_depth).mean() == pytest.approx(np.exp(-3), abs=0.02)


def test_the_same_ray_meets_the_same_leaf_and_a_ray_from_elsewhere_another_one() -> None:
    again = depths(0.2, 300) == depths(0.2, 300)
    assert again.all()
    moved = depths(0.2, 300, origin_shift=0.1)
    both = np.isfinite(moved) & np.isfinite(depths(0.2, 300))
    correlation = np.corrcoef(moved[both], depths(0.2, 300)[both])[0, 1]
    assert abs(correlation) < 0.2


def test_leaves_are_discs_at_fixed_places_that_rays_from_all_sides_agree_on() -> None:
    """A point that a ray hits lies on a plane of its leaf: rays that pass close to it hit the same disc."""
    rng = np.random.default_rng(6)
    agree = []
    for _ in range(200):
        direction = rng.standard_normal(3)
        direction /= np.linalg.norm(direction)
        origin = rng.uniform(-0.4, 0.4, 3) - 9.0 * direction
        point = origin + direction * to_leaf(origin, direction, HALF, 0.3)
        if not np.isfinite(point).all():
            continue
        normal = np.array(leaf_normal(point[0], point[1], point[2], 0.3, 3))
        other = direction + 0.05 * rng.standard_normal(3)
        other /= np.linalg.norm(other)
        start = point + 0.002 * rng.standard_normal(3) - 0.02 * other
        second = start + other * to_leaf(start, other, (10.0, 10.0, 10.0), 0.3)
        agree.append(abs((second - point) @ normal) < 1e-6)
    assert np.mean(agree) > 0.8


def test_a_ray_ends_on_the_ground_that_is_first_in_its_way() -> None:
    rng = np.random.default_rng(7)
    for _ in range(150):
        direction = rng.standard_normal(3) * [1.0, 1.0, 0.2]
        direction /= np.linalg.norm(direction)
        origin = on_terrain(rng.uniform(-20, 20, (1, 2)), UNDULATION)[0] + [0.0, 0.0, 1.6]
        t = to_ground(origin, direction, 0.0)
        along = np.linspace(0.0, min(t, 60.0), 200)[:-1]
        points = origin + along[:, None] * direction
        inside = (abs(points[:, :2]) < 60.0).all(1)
        ground = np.array([UNDULATION * height(x, y)[0] for x, y in points[:, :2]])
        assert (points[inside, 2] > ground[inside] - 1e-4).all()
        if np.isfinite(t):
            end = origin + t * direction
            assert end[2] == pytest.approx(UNDULATION * height(end[0], end[1])[0], abs=1e-4)


def test_the_slopes_of_the_ground_are_the_derivatives_of_its_height() -> None:
    for x, y in np.random.default_rng(8).uniform(-50, 50, (20, 2)):
        _, slope_x, slope_y = height(x, y)
        assert (height(x + 1e-5, y)[0] - height(x - 1e-5, y)[0]) / 2e-5 == pytest.approx(slope_x, abs=1e-6)
        assert (height(x, y + 1e-5)[0] - height(x, y - 1e-5)[0]) / 2e-5 == pytest.approx(slope_y, abs=1e-6)


def test_returns_of_grass_are_above_the_soil_and_below_its_tips() -> None:
    rng, grass, above = np.random.default_rng(9), 0.06, []
    for _ in range(1000):
        direction = np.array([*rng.uniform(-1, 1, 2), -rng.uniform(0.15, 1.0)])
        direction /= np.linalg.norm(direction)
        origin = on_terrain(rng.uniform(-20, 20, (1, 2)), UNDULATION)[0] + [0.0, 0.0, 1.6]
        end = origin + direction * to_ground(origin, direction, grass)
        above.append(end[2] - UNDULATION * height(end[0], end[1])[0])
    assert min(above) > -1e-3 and max(above) < grass + 0.02
    assert 0.01 < np.std(above) < 0.03
