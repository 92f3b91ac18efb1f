"""Both models of a lens, compared with OpenCV's, and which of them a `camera.json` means."""

from __future__ import annotations

import json
from typing import Any

import cv2
import numpy as np
import pytest

from rover_pipeline.camera.intrinsics import read_intrinsics
from rover_pipeline.camera.lens import Lens
from rover_pipeline.camera.pictures import undistort

#: The `camera.json` of the I/Q-1M recordings, and the same as it stands beside it in nerfstudio's words.
PUBLISHED: dict[str, Any] = {
    "fx": 987.68, "fy": 985.31, "cx": 956.14, "cy": 534.49, "k": [0.00605, 0.00806, -0.00187, -0.02294], "p": [0, 0]
}  # fmt: skip
NERFSTUDIO: dict[str, Any] = {
    "w": 1920, "h": 1080, "fl_x": 987.68, "fl_y": 985.31, "cx": 956.14, "cy": 534.49, "k1": 0.00605, "k2": 0.00806,
    "k3": -0.00187, "k4": -0.02294, "p1": 0, "p2": 0, "camera_model": "OPENCV_FISHEYE",
}  # fmt: skip
FISHEYE = read_intrinsics(json.dumps(PUBLISHED), 1920, 1080).lens
BROWN = Lens(640, 480, 500.0, 505.0, 322.0, 236.0, (-0.3, 0.12, -0.02, 0.0), (0.003, -0.002))
SMALL = {"fx": 50.0, "fy": 50.0, "cx": 31.5, "cy": 23.5}
FOUR = [0.1, 0.01, 0.0, 0.0]


def matrix(lens: Lens) -> np.ndarray:
    return np.array([[lens.fx, 0, lens.cx], [0, lens.fy, lens.cy], [0, 0, 1]])


def projected_by_opencv(lens: Lens, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Pixels of directions, f8 (N, 2)."""
    points, still = np.stack([x, y, np.ones_like(x)], -1)[:, None], (np.zeros(3), np.zeros(3))
    if lens.is_fisheye:
        return np.array(cv2.fisheye.projectPoints(points, *still, matrix(lens), np.array(lens.k))[0])[:, 0]
    coefficients = np.array([*lens.k[:2], *lens.p, lens.k[2]])
    return np.array(cv2.projectPoints(points, *still, matrix(lens), coefficients)[0])[:, 0]


def test_a_ray_40_degrees_off_the_published_cameras_axis_lands_692_pixels_from_the_middle() -> None:
    x, y = np.tan(np.radians([40.0])), np.zeros(1)
    column, row = FISHEYE.pixels(x, y)
    assert column[0] - 956.14 == pytest.approx(692, abs=0.5) and row[0] == pytest.approx(534.49)
    as_brown = read_intrinsics(json.dumps(PUBLISHED), 1920, 1080, "brown").lens
    assert as_brown.pixels(x, y)[0][0] - 956.14 == pytest.approx(830, abs=0.5)


@pytest.mark.parametrize("lens", [FISHEYE, BROWN, Lens(64, 48, 30.0, 30.0, 31.5, 23.5, model="fisheye")])
def test_directions_land_where_opencv_puts_them(lens: Lens) -> None:
    rng = np.random.default_rng(0)
    angle, around = np.radians(rng.uniform(0, 60 if lens.is_fisheye else 38, 500)), rng.uniform(0, 2 * np.pi, 500)
    x, y = np.tan(angle) * np.cos(around), np.tan(angle) * np.sin(around)
    x[0] = y[0] = 0.0
    np.testing.assert_allclose(np.stack(lens.pixels(x, y), -1), projected_by_opencv(lens, x, y), atol=1e-8)


@pytest.mark.parametrize("lens", [FISHEYE.resized(96, 54), BROWN.resized(64, 48)])
def test_rays_of_pixels_are_those_of_opencv_and_land_in_their_pixels(lens: Lens) -> None:
    rays = lens.rays()
    seen = np.isfinite(rays).all(axis=-1)
    assert seen.mean() > 0.99
    x, y = -rays[..., 1][seen] / rays[..., 0][seen], -rays[..., 2][seen] / rays[..., 0][seen]
    columns, rows = (each[seen] for each in np.meshgrid(np.arange(lens.width), np.arange(lens.height)))
    pixels = np.stack([columns, rows], -1).astype("f8")
    np.testing.assert_allclose(np.stack(lens.pixels(x, y), -1), pixels, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(rays[seen], axis=-1), 1.0)
    criteria = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 100, 1e-12)
    if lens.is_fisheye:
        theirs = cv2.fisheye.undistortPoints(pixels[:, None], matrix(lens), np.array(lens.k), criteria=criteria)
    else:
        coefficients = np.array([*lens.k[:2], *lens.p, lens.k[2]])
        # Before OpenCV 4.13 the function that takes criteria had a name of its own.
        iterate = getattr(cv2, "undistortPointsIter", None) or cv2.undistortPoints
        theirs = iterate(pixels[:, None], matrix(lens), coefficients, R=None, P=None, criteria=criteria)
    # OpenCV's iterations do not converge near the turn of the polynomial, at the corners of the picture.
    middle = np.hypot(columns - lens.cx, rows - lens.cy) < 0.45 * lens.width
    np.testing.assert_allclose(np.stack([x, y], -1)[middle], theirs[:, 0][middle], atol=1e-6)


def test_a_fisheye_picture_is_straightened_as_by_opencv() -> None:
    lens = FISHEYE.resized(480, 270)
    picture = cv2.GaussianBlur(np.random.default_rng(1).integers(0, 256, (270, 480, 3)).astype("u1"), (0, 0), 3)
    picture = np.clip((picture.astype("f8") - 127) * 6 + 127, 0, 255).astype("u1")
    theirs = cv2.fisheye.undistortImage(picture, matrix(lens), np.array(lens.k), Knew=matrix(lens))
    ours = undistort(picture, lens)
    assert np.abs(ours.astype(int) - theirs).max() <= 3 and np.abs(picture.astype(int) - theirs).mean() > 10


def test_directions_beyond_the_growing_part_of_the_polynomial_are_not_seen() -> None:
    # Here theta_d of the published camera turns; at 85 degrees it is as large as at 50, within the picture.
    assert np.degrees(FISHEYE.max_radius) == pytest.approx(70.41, abs=0.01)
    theta = np.linspace(0, FISHEYE.max_radius, 2000)
    distorted = theta * np.polyval([*FISHEYE.k[::-1], 1.0], theta**2)
    assert (np.diff(distorted) > 0).all()
    x = np.tan(np.radians([70.3, 70.6, 85.0]))
    assert np.isfinite(FISHEYE.pixels(x, 0 * x)[0]).tolist() == [True, False, False]
    assert 956 < projected_by_opencv(FISHEYE, x, 0 * x)[2, 0] < 1920
    # The corner of the picture is farther from its middle than the largest theta_d.
    rays = FISHEYE.resized(192, 108).rays()
    assert np.isnan(rays[-1, -1]).all() and np.isfinite(rays[54]).all()


def test_a_fisheye_sees_what_is_behind_the_camera() -> None:
    lens = Lens(181, 3, 50.0, 50.0, 90.0, 1.0, model="fisheye")
    angle = np.degrees(np.arctan2(-lens.rays()[1, :, 1], lens.rays()[1, :, 0]))
    np.testing.assert_allclose(angle, np.degrees((np.arange(181) - 90) / 50.0))
    assert angle[-1] > 103 and lens.max_tangent == np.inf


def test_rays_are_right_where_the_distortion_turns_and_where_it_never_does() -> None:
    growing = Lens(64, 48, 3.0, 3.0, 31.5, 23.5, (0.4, 0.0, 0.0, 0.0))
    turning = Lens(64, 48, 40.0, 40.0, 31.5, 23.5, (-0.5, 0.0, 0.0, 0.0), (0.01, -0.02))
    for lens in (growing, turning):
        rays = lens.rays()
        x, y = -rays[..., 1] / rays[..., 0], -rays[..., 2] / rays[..., 0]
        columns, rows = lens.pixels(x, y)
        seen = np.isfinite(x)
        expected = np.meshgrid(np.arange(64.0), np.arange(48.0))
        assert np.hypot(columns - expected[0], rows - expected[1])[seen].max() < 1e-4
        assert seen.all() == (lens is growing) and seen.mean() > 0.3


@pytest.mark.parametrize(
    ("content", "model", "k"),
    [
        (PUBLISHED, "fisheye", PUBLISHED["k"]),
        (NERFSTUDIO, "fisheye", PUBLISHED["k"]),
        ({**SMALL, "k": FOUR}, "fisheye", FOUR),
        ({**SMALL, "k": FOUR, "p": [0.001, 0.0]}, "brown", FOUR),
        ({**SMALL, "k": [-0.3, 0.1]}, "brown", [-0.3, 0.1, 0.0, 0.0]),
        ({**SMALL, "k": [-0.3, 0.1, 0.02]}, "brown", [-0.3, 0.1, 0.02, 0.0]),
        (SMALL, "brown", [0.0] * 4),
        ({**SMALL, "k": FOUR, "model": "brown"}, "brown", FOUR),
        ({**SMALL, "k": FOUR, "camera_model": "OPENCV"}, "brown", FOUR),
        ({**SMALL, "k": FOUR, "distortion_model": "plumb_bob"}, "brown", FOUR),
        ({**SMALL, "k": [0.0] * 4, "model": "Kannala-Brandt"}, "fisheye", [0.0] * 4),
        ({**SMALL, "model": "fisheye"}, "fisheye", [0.0] * 4),
        ({**SMALL, "k": FOUR, "camera_model": "pinhole", "distortion_model": "equidistant"}, "fisheye", FOUR),
        ({**SMALL, "k": [0.0] * 4, "model": "pinhole"}, "brown", [0.0] * 4),
    ],
)
def test_the_model_of_a_lens_is_the_one_that_is_named_or_that_its_numbers_fit(
    content: dict[str, Any], model: str, k: list[float]
) -> None:
    size = (64, 48) if content["cx"] == SMALL["cx"] else (1920, 1080)
    found = read_intrinsics(json.dumps(content), *size)
    assert (found.lens.model, list(found.lens.k)) == (model, k)
    assert not found.warnings
    assert (found.model_from == "numbers") == (not {"model", "camera_model", "distortion_model"} & content.keys())
    again = read_intrinsics(json.dumps(found.lens.describe()), *size)
    assert (again.lens, again.model_from) == (found.lens, "camera.json")


def test_four_zeros_without_a_name_are_a_pinhole_with_a_warning_and_what_the_option_says() -> None:
    text = json.dumps({**SMALL, "k": [0, 0, 0, 0], "p": [0, 0]})
    found = read_intrinsics(text, 64, 48)
    assert not found.lens.is_distorted and "names no model" in found.warnings[0]
    named = read_intrinsics(text, 64, 48, "fisheye")
    assert named.lens.is_fisheye and not named.warnings and named.model_from == "camera.lens"
    assert not read_intrinsics(text, 64, 48, "brown").warnings


@pytest.mark.parametrize(
    ("content", "option", "complaint"),
    [
        ({"k": FOUR, "model": "fisheye"}, "brown", "names the model fisheye, and camera.lens is brown"),
        ({"k": [0.1], "camera_model": "OPENCV"}, "fisheye", "names the model brown, and camera.lens is fisheye"),
        ({"model": "pinhole"}, "fisheye", "names the model pinhole, and camera.lens is fisheye"),
        ({"k": FOUR, "p": [0.1, 0], "model": "fisheye"}, None, "which a fisheye does not have"),
        ({"k": FOUR, "p": [0.1, 0]}, "fisheye", "which a fisheye does not have"),
        ({"k": FOUR, "model": "fisheye", "distortion_model": "plumb_bob"}, None, "names two models of a lens"),
        ({"k": FOUR, "model": "pinhole"}, None, "pinhole, which has no distortion"),
        ({"k": FOUR, "model": "omnidirectional"}, None, "model is 'omnidirectional', and no model of a lens"),
        ({"k": [0.1] * 5}, None, "at most four in k"),
        ({"k": [0.1] * 6}, "brown", "at most four in k"),
        ({"k": FOUR, "p": [0.1]}, None, "two in p"),
        ({"k": [1e300, 0, 0, 0]}, None, "finite"),
        ({"k": FOUR, "w": 1920, "h": 1080}, None, "for pictures of 64x48 .*w is 1920"),
        ({"fx": None}, None, "must give the numbers fx"),
        ({"cx": 15.5, "cy": 11.5}, None, "of pictures 0.48 times as large as 64x48"),
        ({"cx": 63.5, "cy": 47.5}, "fisheye", "of pictures 2 times as large as 64x48"),
    ],
)  # fmt: skip
def test_intrinsics_that_contradict_themselves_or_the_option_are_an_error_of_one_line(
    content: dict[str, Any], option: Any, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        read_intrinsics(json.dumps({**SMALL, **content}), 64, 48, option)
    assert "\n" not in str(caught.value) and str(caught.value).startswith("camera.json")


def test_a_middle_beside_that_of_the_picture_is_accepted_where_the_size_is_given_or_one_axis_has_it() -> None:
    for content in ({"cx": 15.5, "cy": 11.5, "w": 64, "h": 48}, {"cx": 15.5}, {"cy": 47.5}):
        read_intrinsics(json.dumps({**SMALL, **content}), 64, 48)


def test_an_unknown_name_is_accepted_where_the_option_says_what_it_is() -> None:
    text = json.dumps({**SMALL, "k": FOUR, "model": "GoPro HERO9"})
    assert read_intrinsics(text, 64, 48, "fisheye").lens.is_fisheye
