"""Projection of returns into the camera's pixels, compared with a direct construction."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from scipy.spatial.transform import Rotation, Slerp

from rover_pipeline.camera.lens import Lens
from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.mounts import changed
from rover_pipeline.kinematics.state import Poses, State
from rover_pipeline.lidar.sweeps import Sweep
from rover_pipeline.occupancy.depth_steps import depth_image

BENT = Lens(64, 48, 40.0, 38.0, 30.37, 24.19, (-0.12, 0.03, 0.01, -0.004), (0.004, -0.003))
STRAIGHT = BENT.undistorted()
#: The published camera's, in small pictures.
FISHEYE = Lens(64, 48, 32.9, 32.8, 31.4, 23.3, (0.00605, 0.00806, -0.00187, -0.02294), model="fisheye")
#: A camera with the pose of the lidar.
AT_LIDAR = Mount(np.zeros(3), np.eye(3))


def still(columns: int) -> Poses:
    """A lidar that does not move."""
    return Poses(np.tile(np.eye(3), (columns, 1, 1)), np.zeros((columns, 3)))


def scene(beams: int = 16, columns: int = 192) -> tuple[np.ndarray, np.ndarray]:
    """Ranges and points all round the lidar. Some ranges are clipped, and some pixels have no return."""
    rng = np.random.default_rng(0)
    azimuth = 2 * np.pi * np.arange(columns) / columns
    altitude = np.linspace(0.6, -0.6, beams)[:, None]
    metres = rng.uniform(1.0, 20.0, (beams, columns))
    direction = np.stack(
        [np.cos(altitude) * np.cos(azimuth), np.cos(altitude) * np.sin(azimuth), np.sin(altitude) + 0 * azimuth], -1
    )
    ranges = np.rint(metres * 1000).astype("u2")
    ranges[rng.random(ranges.shape) < 0.1] = 0
    ranges[rng.random(ranges.shape) < 0.1] = 65535
    return ranges, (direction * metres[..., None]).astype("f4")


@pytest.mark.parametrize("lens", [STRAIGHT, BENT, FISHEYE], ids=["straight", "bent", "fisheye"])
def test_the_nearest_return_wins_in_every_pixel_of_a_camera_that_moves(lens: Lens) -> None:
    ranges, points = scene()
    columns = ranges.shape[1]
    rotations = Slerp([0, 1], Rotation.from_rotvec([[0, 0, 0.0], [0.002, 0.003, 0.01]]))(
        np.linspace(0, 1, columns)
    ).as_matrix()
    shifts = np.linspace([0.1, 0.0, -0.2], [0.2, 0.1, -0.25], columns)
    found = depth_image(Sweep(points, ranges), lens, Poses(rotations, shifts), AT_LIDAR, 0.3)
    expected = np.zeros((48, 64), "u2")
    for column in range(columns):
        in_camera = points[:, column].astype("f8") @ rotations[column].T + shifts[column]
        ahead = in_camera[:, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            x, y = -in_camera[:, 1] / ahead, -in_camera[:, 2] / ahead
        across, down = lens.pixels(x, y)
        good = (ahead > 0.3) & (ranges[:, column] > 0) & (ranges[:, column] < 65535)
        for u, v, depth in zip(across[good], down[good], ahead[good], strict=True):
            if -0.5 <= u < 63.5 and -0.5 <= v < 47.5:
                pixel, mm = (round(v), round(u)), round(depth * 1000)
                if expected[pixel] == 0 or mm < expected[pixel]:
                    expected[pixel] = mm
    assert (expected > 0).sum() > 300
    np.testing.assert_array_equal(found, expected)


def test_a_return_that_is_farther_than_the_channel_holds_has_no_depth() -> None:
    ranges = np.full((1, 1), 1000, "u2")
    found = [
        depth_image(Sweep(np.array([[[metres, 0, 0]]], "f4"), ranges), STRAIGHT, still(1), AT_LIDAR, 0.3).max()
        for metres in (60.0, 65.534, 65.536, 120.0)
    ]
    assert found == [60000, 65534, 0, 0]


def test_returns_at_the_rim_of_a_fisheye_are_where_opencv_puts_them_and_those_beyond_it_nowhere() -> None:
    angle = np.radians([0.0, 20.0, -40.0, 55.0, -65.0, 69.0, 75.0, 85.0, 95.0, 180.0])
    points = np.stack([5 * np.cos(angle), -5 * np.sin(angle), np.zeros(len(angle))], -1)
    optical = points @ np.array([[0.0, 0, 1], [-1, 0, 0], [0, -1, 0]])
    lens = Lens(96, 3, 42.0, 42.0, 47.5, 1.0, FISHEYE.k, model="fisheye")
    matrix, none = np.array([[42.0, 0, 47.5], [0, 42.0, 1], [0, 0, 1]]), np.zeros(3)
    pixels = cv2.fisheye.projectPoints(optical[:, None], none, none, matrix, np.array(lens.k))[0][:, 0]
    # The picture is wide enough for 85 degrees, were it not for the polynomial, which turns at 70.4.
    assert ((pixels[:8, 0] > -0.5) & (pixels[:8, 0] < 95.5)).all()
    ranges = np.full((10, 1), 5000, "u2")
    found = depth_image(Sweep(points[:, None].astype("f4"), ranges), lens, still(1), AT_LIDAR, 0.3)
    expected = np.zeros((3, 96), "u2")
    expected[1, np.rint(pixels[:6, 0]).astype(int)] = np.rint(5000 * np.cos(angle[:6]))
    np.testing.assert_allclose(found.astype(int), expected, atol=1)
    assert ((found > 0) == (expected > 0)).all()


def test_points_that_a_distortion_folds_back_into_the_picture_are_left_out() -> None:
    # Beyond a tangent of 1.2 this distortion maps points back towards the centre of the picture.
    lens = Lens(64, 48, 20.0, 20.0, 31.5, 23.5, (-0.2, 0.0, 0.0, 0.0))
    points = np.array([[[1.0, 2.2, 0.0]], [[1.0, 0.5, 0.0]]], "f4")
    ranges = np.full((2, 1), 2000, "u2")
    across = 31.5 - 20.0 * (2.2 - 0.2 * 2.2**3)
    assert -0.5 < across < 63.5
    assert (depth_image(Sweep(points, ranges), lens, still(1), AT_LIDAR, 0.3) > 0).sum() == 1


def test_returns_of_the_rig_itself_do_not_become_obstacles_when_the_rig_moves() -> None:
    # The handlebar is 0.25 m ahead whenever it is measured. A wall is 2 m ahead, and the rig comes 0.5 m nearer.
    ranges = np.array([[250, 2000]], "u2")
    points = np.array([[[0.25, 0.0, 0.0], [2.0, 0.1, 0.0]]], "f4")
    for moved in (0.5, -0.5):
        poses = Poses(np.tile(np.eye(3), (2, 1, 1)), np.tile([moved, 0.0, 0.0], (2, 1)))
        found = depth_image(Sweep(points, ranges), STRAIGHT, poses, AT_LIDAR, 0.3)
        assert found[found > 0].tolist() == [2000 + 1000 * moved]


def posts(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A wall 12 m ahead and posts before it at 3 to 6 m, seen by 64 beams with 0.2 degrees between columns."""
    azimuth, altitude = np.radians(np.arange(-45, 45, 0.2)), np.radians(np.linspace(30, -30, 64))[:, None]
    metres = np.full(len(azimuth), 12.0)
    for _ in range(8):
        metres[np.abs(azimuth - rng.uniform(-0.7, 0.7)) < 0.03] = rng.uniform(3, 6)
    forward = np.stack([np.ones_like(azimuth), np.tan(azimuth), 0 * azimuth], -1)
    points = np.repeat((metres[:, None] * forward)[None], 64, axis=0)
    points[..., 2] = np.hypot(points[..., 0], points[..., 1]) * np.tan(altitude)
    return np.ones(points.shape[:2], "u2"), points.astype("f4")


def test_pixels_that_the_error_of_the_mount_leaves_open_have_no_depth() -> None:
    rng = np.random.default_rng(3)
    ranges, points = posts(rng)
    sigma = np.array([0.003, 0.003, 0.008, 0.01, 0.02, 0.01, 0.0])
    declared = Mount(np.array([0.1, 0.2, -0.1]), np.eye(3), covariance=np.diag(sigma**2))
    errors = declared.errors(State.standing(1))[0]
    wrong: dict[bool, list[float]] = {True: [], False: []}

    def seen(mount: Mount, errors: np.ndarray) -> np.ndarray:
        lidar = Poses(
            np.tile(mount.rotation.T, (ranges.shape[1], 1, 1)),
            np.tile(-mount.rotation.T @ mount.translation, (ranges.shape[1], 1)),
        )
        return depth_image(Sweep(points, ranges), STRAIGHT, lidar, mount, 0.3, errors, 0.1).astype("f8")

    plain, certain = seen(declared, 0 * errors), seen(declared, errors)
    assert (certain[certain > 0] == plain[certain > 0]).all()
    assert 0.2 < (certain > 0).sum() / (plain > 0).sum() < 0.9
    for _ in range(40):
        error = np.clip(rng.normal(size=7), -2, 2) * sigma
        true = seen(changed(declared, error), 0 * errors)
        for masked, depth in ((True, certain), (False, plain)):
            both = (depth > 0) & (true > 0)
            wrong[masked].append((np.abs(depth - true)[both] > 0.12 * depth[both]).mean())
    assert np.mean(wrong[True]) < 0.01 < 0.03 < np.mean(wrong[False])


def test_a_pixel_that_a_mount_of_five_degrees_leaves_open_everywhere_has_no_depth() -> None:
    ranges, points = posts(np.random.default_rng(0))
    errors = np.diag([0.0, 0, 0, 0, 0, np.radians(10.0) ** 2])
    sweep, lidar = Sweep(points, ranges), still(ranges.shape[1])
    assert not depth_image(sweep, STRAIGHT, lidar, AT_LIDAR, 0.3, errors, 0.1).any()
