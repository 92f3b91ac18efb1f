"""Floor plans and the view of the map show everything at its true position."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from rover_pipeline.report.read.motion import read_floor_plan, read_map_view
from tests.draw.test_pixels import decode


def test_a_floor_plan_has_the_extent_that_its_yaml_tells(scene: Path) -> None:
    plan = read_floor_plan(scene / "_map")
    assert plan is not None
    np.testing.assert_allclose(plan.low, [-1, -2], atol=1e-9)
    np.testing.assert_allclose(plan.high, [5, 4], atol=1e-9)
    walls = plan.image[..., 3] > 128
    assert walls[0].all() and walls[-1].all() and walls[:, 0].all() and walls[:, -1].all()
    assert not walls[1:-1, 1:-1].any()


def test_a_floor_plan_and_the_view_of_the_map_are_not_mirrored(tmp_path: Path) -> None:
    (tmp_path / "occupancy.yaml").write_text("resolution: 1.0\norigin: [2, 3, 0]\n")
    grid = np.full((4, 6), 254, "u1")
    grid[0, 4] = 0  # the first row has the largest y
    view = np.zeros((40, 60, 3), "u1")
    view[:10, 40:50] = 255
    (tmp_path / "occupancy.pgm").write_bytes(cv2.imencode(".pgm", grid)[1].tobytes())
    (tmp_path / "bev.png").write_bytes(cv2.imencode(".png", view)[1].tobytes())
    plan, embedded = read_floor_plan(tmp_path), read_map_view(tmp_path)
    assert plan is not None and embedded is not None
    np.testing.assert_allclose([plan.low, plan.high], [[2, 3], [8, 7]])
    np.testing.assert_array_equal(np.argwhere(plan.image[..., 3] > 128), [[0, 4]])
    assert np.abs(decode(embedded).astype(int) - view).mean() < 5


def test_a_damaged_floor_plan_is_left_out(tmp_path: Path) -> None:
    assert read_floor_plan(tmp_path) is None
    (tmp_path / "occupancy.yaml").write_text("resolution: 0.1\norigin: [0, 0, 0]\n")
    (tmp_path / "occupancy.pgm").write_bytes(b"P5 nothing")
    assert read_floor_plan(tmp_path) is None
