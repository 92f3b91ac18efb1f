"""The surfel map."""

from __future__ import annotations

import numpy as np

from rover_pipeline.odometry.registration.point_terms import PointWeights
from rover_pipeline.odometry.registration.point_to_plane import match_points
from rover_pipeline.odometry.registration.transforms import transform_rays
from rover_pipeline.odometry.surfels import FITTED, IS_PLANE, SurfelMap


def wall(rng: np.random.Generator, count: int) -> np.ndarray:
    """Points of a wall through (1, 2, 0.5) that faces (0.6, 0.8, 0), 5 mm thick."""
    along = np.array([-0.8, 0.6, 0.0])
    points = np.array([1.0, 2.0, 0.5]) + rng.uniform(-1, 1, (count, 1)) * along
    points[:, 2] += rng.uniform(-1, 1, count)
    points += rng.normal(0, 0.005, (count, 1)) * np.array([0.6, 0.8, 0.0])
    return points


def seen(points: np.ndarray, eye: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> np.ndarray:
    """Points as a level lidar sees them, f8 (N, 10)."""
    rays = (points - eye).astype("f4")
    return transform_rays(rays, np.zeros(len(rays), "i4"), np.array([eye]), np.eye(3)[None])


def test_planes_lie_in_a_wall_and_face_as_it_does() -> None:
    surfels = SurfelMap((0.25, 0.5))
    for block in np.split(wall(np.random.default_rng(0), 20_000), 10):
        surfels.insert(seen(block))
    for level in surfels.levels:
        planes = level.planes()
        assert len(planes) > 20
        assert np.abs((planes[:, :3] - [1.0, 2.0, 0.5]) @ [0.6, 0.8, 0.0]).max() < 0.003
        assert np.abs(planes[:, 3:6] @ [0.6, 0.8, 0.0]).min() > 0.99
        assert np.median(planes[:, 6]) < 0.006


def test_points_that_fill_a_volume_have_no_plane() -> None:
    surfels = SurfelMap((0.5,))
    surfels.insert(seen(np.random.default_rng(1).uniform(-1, 1, (50_000, 3)), (0.0, 0.0, 9.0)))
    # Voxels at the border of the volume hold a thin slice of it, which may look like a plane.
    assert len(surfels.centres) < 0.05 * surfels.levels[0].count


def test_a_beam_that_turns_through_leaves_draws_no_plane_and_beams_on_a_floor_do() -> None:
    rng = np.random.default_rng(4)
    azimuth, depth = rng.uniform(-0.3, 0.3, 8000), rng.uniform(4, 6, 8000)
    fan = np.column_stack([depth * np.cos(azimuth), depth * np.sin(azimuth), rng.normal(0, 0.004, 8000)])
    leaves, floor = SurfelMap((0.25, 0.5, 1.0)), SurfelMap((0.25, 0.5, 1.0))
    leaves.insert(seen(fan))
    floor.insert(seen(fan, (0.0, 0.0, 1.5)))
    for level, fan_level in zip(floor.levels, leaves.levels, strict=True):
        assert len(level.planes()) > 3 * len(fan_level.planes())


def test_a_map_of_planes_alone_has_the_same_planes() -> None:
    surfels = SurfelMap((0.25, 0.5))
    surfels.insert(seen(wall(np.random.default_rng(2), 20_000)))
    thin = SurfelMap.of_planes(surfels.planes())
    assert [level.size for level in thin.levels] == [0.25, 0.5]
    np.testing.assert_array_equal(thin.centres, surfels.centres)


def test_the_plane_of_a_point_does_not_depend_on_the_points_around_it() -> None:
    rng = np.random.default_rng(6)
    surfels = SurfelMap((0.25, 0.5, 1.0))
    surfels.insert(seen(wall(rng, 20_000)))
    points = (wall(rng, 1300) + rng.normal(0, 0.05, (1300, 3))).astype("f4")
    column, pos, rot = np.arange(1300, dtype="i4"), np.zeros((1300, 3)), np.tile(np.eye(3), (1300, 1, 1))
    for stride in (1, 3):
        weights = PointWeights(0.1, 0.01, 2.0, stride, 3.0, 0.0, np.array([1.0, 0.5, 0.2]))
        together = match_points(points, column, pos, rot, surfels.tables, weights)
        assert len({*together.number[:, 1]}) > 1 and together.fit[0] == len(points[::stride])
        alone = [
            match_points(points[n : n + 1], column[:1], pos, rot, surfels.tables, weights)
            for n in range(0, 1300, stride)
        ]
        np.testing.assert_array_equal(together.values, np.concatenate([each.values for each in alone]))
        planes = together.planes[together.number[:, 2]]
        np.testing.assert_array_equal(planes, np.concatenate([each.planes for each in alone]))


def test_the_sums_do_not_depend_on_the_size_of_the_blocks_that_are_inserted() -> None:
    points = wall(np.random.default_rng(3), 5000)
    once, often = SurfelMap((0.5,)), SurfelMap((0.5,))
    once.insert(seen(points))
    for block in np.split(points, 50):
        often.insert(seen(block))
    count = once.levels[0].count
    assert often.levels[0].count == count
    one, other = once.levels[0].voxels, often.levels[0].voxels
    np.testing.assert_array_equal(one.keys[:count], other.keys[:count])
    np.testing.assert_array_equal(one.sums[:count, :13], other.sums[:count, :13])


def test_the_maps_of_segments_add_up_to_the_map_of_all_points() -> None:
    points = np.split(wall(np.random.default_rng(2), 6_000), 3)
    sizes = (0.25, 0.5)
    whole, added = SurfelMap(sizes), SurfelMap(sizes)
    for part in points:
        whole.insert(seen(part))
        own, unfitted = SurfelMap(sizes), SurfelMap(sizes)
        own.insert(seen(part))
        unfitted.insert(seen(part), fit=False)
        assert len(own.levels[0].planes()) and not len(unfitted.levels[0].planes())
        for fitted, sums in zip(own.sums()[1::2], unfitted.sums()[1::2], strict=True):
            np.testing.assert_array_equal(fitted[:, :FITTED], sums[:, :FITTED])
        added.add(unfitted.sums())
    assert not len(added.levels[0].planes())
    added.fit()
    for one, other in zip(whole.levels, added.levels, strict=True):
        rows, twins = (np.argsort(each.voxels.keys[: each.count]) for each in (one, other))
        np.testing.assert_array_equal(one.voxels.keys[rows], other.voxels.keys[twins])
        np.testing.assert_allclose(one.voxels.sums[rows, :13], other.voxels.sums[twins, :13], atol=1e-9)
        assert (other.voxels.planes[twins, IS_PLANE] >= one.voxels.planes[rows, IS_PLANE]).all()
        assert len(other.planes()) > 20
