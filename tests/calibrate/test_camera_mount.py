"""The mount of a camera from outlines on edges: boards in front of a wall, seen by a lidar and a camera."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.calibrate.camera_mount import Pair, estimate_camera
from rover_pipeline.camera.lens import Lens
from rover_pipeline.kinematics.mount import IDENTITY, Mount
from rover_pipeline.kinematics.mounts import changed, compare, difference

LENS = Lens(480, 300, 400.0, 400.0, 239.5, 149.5)
TRUE = changed(Mount(np.array([0.1, -0.05, -0.1]), np.eye(3)), np.radians([2.0, -3, 4, 0, 0, 0, 0]))
#: A start that is some degrees and centimetres off.
ERROR = np.append(np.radians([2.0, -3.0, 2.5]), [0.1, -0.12, 0.08, 0.0])


def boards(rng: np.random.Generator) -> np.ndarray:
    """Distance, left and lower edge, width, height and brightness of boards, and of the wall."""
    far = rng.uniform(4, 25, 24)
    left, low = rng.uniform(-0.7, 0.6, 24) * far, rng.uniform(-0.4, 0.2, 24) * far
    size = rng.uniform(0.05, 0.12, (2, 24)) * far
    found = np.stack([far, left, low, *size, rng.uniform(40, 255, 24)], axis=1)
    return np.vstack([found, [45, -500, -500, 1000, 1000, 120]])


def hit(origin: np.ndarray, ray: np.ndarray, scene: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Range and brightness that rays (N, 3) see."""
    with np.errstate(divide="ignore", invalid="ignore"):
        along = (scene[:, 0] - origin[0]) / ray[:, :1]
    y, z = origin[1] + along * ray[:, 1:2], origin[2] + along * ray[:, 2:]
    inside = (y > scene[:, 1]) & (y < scene[:, 1] + scene[:, 3]) & (z > scene[:, 2]) & (z < scene[:, 2] + scene[:, 4])
    along = np.where(inside & (along > 0), along, np.inf)
    first = along.argmin(axis=1)
    return along.min(axis=1), scene[first, 5]


def pairs(count: int, seed: int = 0) -> list[Pair]:
    rng = np.random.default_rng(seed)
    azimuth, elevation = np.meshgrid(np.radians(np.arange(-50, 50, 0.2)), np.radians(np.arange(-24, 24, 0.4)))
    rays = np.stack([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)], -1)
    found = []
    for _ in range(count):
        scene = boards(rng)
        distance, _ = hit(np.zeros(3), rays.reshape(-1, 3), scene)
        xyz = (distance * rng.normal(1, 1e-3, distance.shape))[:, None] * rays.reshape(-1, 3)
        look = (LENS.rays() @ TRUE.rotation.T).reshape(-1, 3)
        grey = hit(TRUE.translation, look, scene)[1].reshape(LENS.height, LENS.width)
        found.append(Pair(xyz, np.clip(grey + rng.normal(0, 2, grey.shape), 0, 255).astype("u1"), LENS))
    return found


@pytest.fixture(scope="module")
def seen() -> list[Pair]:
    return pairs(5)


def test_a_mount_degrees_and_centimetres_off_is_found_and_called_wrong(seen: list[Pair]) -> None:
    start = changed(TRUE, ERROR)
    found = estimate_camera(seen, start)
    error = difference(TRUE, found.mount)[:6]
    assert found.adopted
    assert np.degrees(np.abs(error[:3])).max() < 0.2
    assert np.abs(error[3:]).max() < 0.05
    assert error @ np.linalg.solve(found.covariance[:6, :6], error) < 16.8  # 99 % of chi square
    deviation = compare(start, found)
    assert deviation.is_wrong
    assert np.sign(deviation.error[2]) == -np.sign(ERROR[2])


def test_the_true_mount_is_not_called_wrong(seen: list[Pair]) -> None:
    assert not compare(TRUE, estimate_camera(seen, TRUE)).is_wrong


@pytest.mark.parametrize("what", ["night", "one place", "mirrored", "undeclared"])
def test_pictures_that_show_nothing_leave_the_mount_as_it_was_declared(seen: list[Pair], what: str) -> None:
    rng, start = np.random.default_rng(1), changed(TRUE, ERROR)
    if what == "night":
        seen = [pair._replace(grey=rng.integers(0, 4, pair.grey.shape).astype("u1")) for pair in seen]
    if what == "one place":
        seen = seen[:1]
    if what == "mirrored":
        seen = [pair._replace(xyz=pair.xyz * [1, -1, 1]) for pair in seen]
    if what == "undeclared":
        start = IDENTITY
    found = estimate_camera(seen, start)
    assert not found.adopted
    assert len(found.remarks) == 1
    assert not found.observed.any()
    np.testing.assert_array_equal(found.mount.rotation, start.rotation)
