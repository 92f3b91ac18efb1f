"""Images, floor plans and bird's-eye views show everything at its true position."""

from __future__ import annotations

import base64
from pathlib import Path

import cv2
import numpy as np
import pytest

from rover_pipeline.draw.pixels import EmbeddedImage, embed_image, polar_to_cartesian, resize_image
from rover_pipeline.report.read.map import read_floor_plan, read_map_view


def decode(image: EmbeddedImage) -> np.ndarray:
    """The pixels of an image, u1 (row, column, 3) RGB or (row, column, 4) RGBA."""
    data = np.frombuffer(base64.b64decode(image.url.partition(",")[2]), "u1")
    pixels = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
    assert pixels is not None and pixels.shape[:2] == (image.height, image.width)
    return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB if pixels.shape[2] == 3 else cv2.COLOR_BGRA2RGBA)


@pytest.mark.parametrize(("degrees", "metres"), [(30, 8), (-45, 5), (0, 9), (60, 3)])
def test_a_target_is_shown_at_its_azimuth_and_range(degrees: float, metres: float) -> None:
    azimuth, ranges = np.radians(np.arange(-80, 81)), np.arange(0, 10.1, 0.1)
    values = np.zeros((161, 101))
    values[80 + int(degrees), int(metres * 10)] = 1
    image, inside = polar_to_cartesian(values, azimuth, ranges, 800)
    rows, columns = np.nonzero(image * inside)
    pixel_m = 2 * np.sin(np.radians(80)) * 10 / 800
    right = (columns.mean() + 0.5) * pixel_m - np.sin(np.radians(80)) * 10
    ahead = 10 - (rows.mean() + 0.5) * pixel_m
    assert np.hypot(right, ahead) == pytest.approx(metres, abs=0.1)
    assert np.degrees(np.arctan2(right, ahead)) == pytest.approx(degrees, abs=1)


def test_a_birds_eye_view_is_symmetric() -> None:
    azimuth = np.arcsin((np.arange(64) - 32) / 32)  # the radar's: from -90 degrees to 75.6
    _, inside = polar_to_cartesian(np.ones((64, 10)), azimuth, np.arange(10.0), 400)
    assert (inside == inside[:, ::-1]).all()


def test_a_field_of_view_of_360_degrees_is_a_full_disc() -> None:
    azimuth = np.radians(np.arange(-180, 180, 2))
    _, inside = polar_to_cartesian(np.ones((180, 50)), azimuth, np.arange(50.0), 200)
    assert inside.shape == (200, 200)
    assert inside.mean() == pytest.approx(np.pi / 4, abs=0.02)


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


def test_images_are_resized_and_keep_their_colours() -> None:
    image = np.zeros((300, 900, 3), "u1")
    image[:, :450] = (200, 40, 90)
    embedded = embed_image(resize_image(image, 300))
    assert (embedded.width, embedded.height) == (300, 100)
    decoded = decode(embedded)
    assert np.abs(decoded[50, 50].astype(int) - [200, 40, 90]).max() < 12
    assert np.abs(decoded[50, 250].astype(int)).max() < 12
