"""Pictures made of pixels show everything at its true position, in the colours of its value."""

from __future__ import annotations

import base64

import cv2
import numpy as np
import pytest

from rover_pipeline.draw.pixels import (
    EmbeddedImage,
    ViewFromAbove,
    blank,
    colourise,
    decibel_limits,
    embed_image,
    polar_to_cartesian,
    radar_points_picture,
    resize_image,
    velocity_colours,
)
from rover_pipeline.draw.theme import APPROACHING, RECEDING, STILL


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


def test_images_are_resized_and_keep_their_colours() -> None:
    image = np.zeros((300, 900, 3), "u1")
    image[:, :450] = (200, 40, 90)
    embedded = embed_image(resize_image(image, 300))
    assert (embedded.width, embedded.height) == (300, 100)
    decoded = decode(embedded)
    assert np.abs(decoded[50, 50].astype(int) - [200, 40, 90]).max() < 12
    assert np.abs(decoded[50, 250].astype(int)).max() < 12


def test_a_point_ahead_is_above_the_sensor_and_one_to_the_left_is_left_of_it() -> None:
    view = ViewFromAbove(blank(200, 100), (100, 50), 10)
    np.testing.assert_allclose(
        view.pixels(np.array([[2.0, 0, 0], [0, 3, 1], [-1, -1, 0]])), [[100, 30], [70, 50], [110, 60]]
    )


def test_a_radar_is_below_its_points_and_those_that_recede_are_red() -> None:
    points, doppler = np.array([[6.0, 4, 0], [3, -4, 0], [np.nan] * 3, [1e9, 0, 0]]), np.array([5.0, -5, 0, 0])
    picture = radar_points_picture(points, doppler, 10, 400)[..., :3].astype(int)
    for colour, (x, y, _) in zip((RECEDING, APPROACHING), points, strict=False):
        rows, columns = np.nonzero(np.abs(picture - colour).max(-1) < 20)
        np.testing.assert_allclose([columns.mean(), rows.mean()], [200 - 20 * y, 200 - 20 * x], atol=1)


def test_speeds_and_power_have_the_colours_of_the_table_and_what_is_not_known_is_black() -> None:
    np.testing.assert_array_equal(
        velocity_colours(np.array([-3.0, 0, 3, np.nan])), [APPROACHING, STILL, RECEDING, STILL]
    )
    power = np.array([[-40.0, 30, np.nan], [0, 0, 0]])
    assert decibel_limits(power) == (0, 30)  # the noise is dark
    np.testing.assert_array_equal(colourise(power, 0, 30, "power")[0], [[0, 0, 3], [252, 254, 164], [0, 0, 0]])
