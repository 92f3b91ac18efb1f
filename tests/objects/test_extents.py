"""Headings by flat sides, and points of a body that moves while the lidar turns."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.objects.extents import Headings, PlanePoses, deskewed
from tests.objects.synthetic import PERIOD, Way, bend, seen, velocities

STAMPS = PERIOD * np.arange(1, 31)


def poses_of(way: Way, times: np.ndarray) -> PlanePoses:
    place, yaw = way(times)
    turn = (way(times + 1e-4)[1] - way(times - 1e-4)[1]) / 2e-4
    return PlanePoses(place, yaw, velocities(way, times), turn)


def test_headings_are_known_to_2_degrees_whatever_way_was_expected_in_single_sweeps() -> None:
    way = bend(7.0, 6.0)
    clusters = seen(way, (4.2, 1.75), STAMPS, (8.0, -10.0), seed=1)
    poses, rng = poses_of(way, clusters.time), np.random.default_rng(2)
    off = rng.normal(0, np.radians(15), len(poses.yaw)) + np.where(rng.random(len(poses.yaw)) < 0.15, np.pi / 2, 0)
    found = Headings.of(clusters, poses._replace(yaw=poses.yaw + off))
    assert found.known.mean() > 0.9
    assert np.abs(found.yaw - poses.yaw)[found.known].max() < np.radians(2)
    assert (found.sd[found.known] < np.radians(3)).all()


def test_what_is_small_has_no_flat_side() -> None:
    clusters = seen(bend(1.3, 4.0), (0.3, 0.5), STAMPS, (2.0, -4.0), seed=3)
    assert not Headings.of(clusters, poses_of(bend(1.3, 4.0), clusters.time)).known.any()


@pytest.mark.parametrize("lidar", [(30.0, 3.0), (12.0, -9.0)])
def test_points_of_the_beginning_and_the_end_of_a_revolution_are_on_one_box(lidar: tuple[float, float]) -> None:
    way = bend(7.0, 5.0, begin=0.3)
    clusters = seen(way, (4.2, 1.75), STAMPS, lidar, seed=4)
    poses = poses_of(way, clusters.time)
    sample = clusters.sample.astype("f8")
    placed = deskewed(sample[..., :2], sample[..., 2], poses) - poses.centre[:, None]
    cos, sin = np.cos(poses.yaw)[:, None], np.sin(poses.yaw)[:, None]
    along = np.abs(cos * placed[..., 0] + sin * placed[..., 1])
    left = np.abs(cos * placed[..., 1] - sin * placed[..., 0])
    # Where a bend begins and ends within a revolution, one turn rate does not tell all.
    steady = np.abs(np.gradient(poses.turn)) < 1e-6
    on = np.maximum(along - 2.1, left - 0.875)[steady]
    assert np.nanpercentile(np.abs(on), 99) < 0.08
