"""Mirrors are found where the map has a mirror image, and not where a place only repeats itself."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from rover_pipeline.mapping import mirrors
from rover_pipeline.mapping.options import MapOptions

#: A lidar that walks along x.
PATH = np.column_stack([np.linspace(2, 14, 40), 0.3 * np.sin(np.linspace(0, 6, 40)), np.full(40, 1.4)])


def find_mirrors(points: np.ndarray, positions: np.ndarray = PATH) -> list[mirrors.Mirror]:
    return mirrors.find_mirrors(points, positions, (MapOptions().z_min, MapOptions().z_max))


def boxes(rng: np.random.Generator, places: np.ndarray, size: float = 0.5) -> np.ndarray:
    """Returns from the surfaces of upright boxes, 1.5 m high, at places (N, 2), f8 (M, 3) m."""
    sizes = rng.uniform(0.6 * size, 1.4 * size, len(places))
    parts = []
    for (x, y), edge in zip(places, sizes, strict=True):
        around = rng.uniform(-edge / 2, edge / 2, (600, 2))
        side = rng.integers(0, 2, 600)
        around[np.arange(600), side] = np.sign(around[np.arange(600), side]) * edge / 2
        parts.append(np.column_stack([around + np.array([x, y]), rng.uniform(0, 1.5, 600)]))
    return np.concatenate(parts)


def room(rng: np.random.Generator) -> np.ndarray:
    """Four walls, a floor and furniture, f8 (N, 3) m; y is from -6 to 6."""
    walls = np.concatenate([np.column_stack([rng.uniform(0, 20, 9000), np.full(9000, y)]) for y in (-6.0, 6.0)])
    ends = np.concatenate([np.column_stack([np.full(6000, x), rng.uniform(-6, 6, 6000)]) for x in (0.0, 20.0)])
    upright = np.concatenate([walls, ends])
    upright = np.column_stack([upright, rng.uniform(0, 3, len(upright))])
    floor = np.column_stack([rng.uniform(0, 20, 9000), rng.uniform(-6, 6, 9000), np.zeros(9000)])
    places = np.column_stack([rng.uniform(1, 19, 40), rng.choice([-1, 1], 40) * rng.uniform(1.5, 4.5, 40)])
    return np.concatenate([upright, floor, boxes(rng, places)])


def seen_in(points: np.ndarray, angle: float, distance: float) -> np.ndarray:
    """The mirror image of points about an upright plane."""
    normal = np.array([np.cos(angle), np.sin(angle), 0.0])
    return points - 2 * ((points * normal).sum(axis=1) - distance)[:, None] * normal


@pytest.mark.parametrize("degrees", [90.0, 88.0, -90.0])
def test_a_mirror_is_found_where_it_is(degrees: float) -> None:
    rng = np.random.default_rng(5)
    world, angle = room(rng), np.deg2rad(degrees)
    image = seen_in(world, angle, 7.0)
    image = image[rng.random(len(image)) < 0.7] + rng.normal(0, 0.02, (1, 3))
    points = np.concatenate([world, image])
    (mirror,) = find_mirrors(points)
    assert (mirror.normal * [np.cos(angle), np.sin(angle)]).sum() > np.cos(np.deg2rad(0.6))
    assert mirror.distance == pytest.approx(7.0, abs=0.1)
    seen = mirror.seen_in(points)
    assert seen[len(world) :].mean() > 0.5 and seen[: len(world)].mean() < 0.02


def test_a_room_without_a_mirror_has_none() -> None:
    for seed in range(5):
        assert not find_mirrors(room(np.random.default_rng(seed)))


def test_rows_of_equal_pillars_are_no_mirror_image() -> None:
    rng = np.random.default_rng(1)
    places = np.stack(np.meshgrid(np.arange(-10, 31, 5.0), np.arange(2.5, 20, 5.0)), -1).reshape(-1, 2)
    pillars = np.tile(boxes(rng, np.zeros((1, 2))), (len(places), 1, 1)) + np.insert(places, 2, 0, axis=1)[:, None]
    assert not find_mirrors(pillars.reshape(-1, 3))


def test_a_lidar_that_went_to_the_other_side_saw_no_mirror_but_a_place_that_is_built_symmetrically() -> None:
    rng = np.random.default_rng(5)
    world = room(rng)
    both = np.concatenate([world, seen_in(world, np.pi / 2, 7.0)])
    assert find_mirrors(both)
    assert not find_mirrors(both, np.concatenate([PATH, PATH + np.array([0.0, 12.0, 0.0])]))


def test_a_map_of_nothing_has_no_mirror() -> None:
    assert not find_mirrors(np.empty((0, 3)))
    assert not find_mirrors(np.zeros((5, 3)))


def test_a_map_of_streets_takes_no_more_memory_than_a_room() -> None:
    """The bounding box of two ends of a town has billions of cells."""
    world = room(np.random.default_rng(0))
    tracemalloc.start()
    assert not find_mirrors(np.concatenate([world, world + np.array([9e4, 9e4, 0.0])]))
    assert tracemalloc.get_traced_memory()[1] < 200e6
    tracemalloc.stop()
