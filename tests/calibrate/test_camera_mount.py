"""The mount of a camera from outlines on edges: boards in front of a wall, seen by a lidar and a camera."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.calibrate.camera_mount import _Points, _State, estimate_camera
from rover_pipeline.calibrate.groups import excess
from rover_pipeline.calibrate.outlines import Album, Outlines, Pair, outlines
from rover_pipeline.camera.lens import Lens, LensModel
from rover_pipeline.kinematics.mount import IDENTITY, Mount
from rover_pipeline.kinematics.mounts import changed, compare, difference
from rover_pipeline.kinematics.rotation import exp

LENS = Lens(480, 300, 400.0, 400.0, 239.5, 149.5)
TRUE = changed(Mount(np.array([0.1, -0.05, -0.1]), np.eye(3)), np.radians([2.0, -3, 4, 0, 0, 0, 0]))
#: A start that is some degrees and centimetres off.
ERROR = np.append(np.radians([2.0, -3.0, 2.5]), [0.1, -0.12, 0.08, 0.0])


def boards(rng: np.random.Generator, near: float = 1.0) -> np.ndarray:
    """Distance, left and lower edge, width, height and brightness of boards, and of the wall."""
    far = rng.uniform(4, 25, 24) * near
    left, low = rng.uniform(-0.7, 0.6, 24) * far, rng.uniform(-0.4, 0.2, 24) * far
    size = rng.uniform(0.05, 0.12, (2, 24)) * far
    found = np.stack([far, left, low, *size, rng.uniform(40, 255, 24)], axis=1)
    return np.vstack([found, [45 * near, -500, -500, 1000, 1000, 120]])


def hit(origin: np.ndarray, ray: np.ndarray, scene: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Range and brightness that rays (N, 3) see."""
    with np.errstate(divide="ignore", invalid="ignore"):
        along = (scene[:, 0] - origin[0]) / ray[:, :1]
    y, z = origin[1] + along * ray[:, 1:2], origin[2] + along * ray[:, 2:]
    inside = (y > scene[:, 1]) & (y < scene[:, 1] + scene[:, 3]) & (z > scene[:, 2]) & (z < scene[:, 2] + scene[:, 4])
    along = np.where(inside & (along > 0), along, np.inf)
    first = along.argmin(axis=1)
    return along.min(axis=1), scene[first, 5]


def pairs(count: int, seed: int = 0, near: float = 1.0, late: float = 0.0, speed: float = 0.0) -> list[Pair]:
    """`near`: how far boards are, less than the usual. `late`: s, after the sweep each picture was taken, by a rig that
    turns and moves to a side, another one in each pair, at `speed`, rad/s and m/s."""
    rng = np.random.default_rng(seed)
    azimuth, elevation = np.meshgrid(np.radians(np.arange(-50, 50, 0.2)), np.radians(np.arange(-24, 24, 0.4)))
    rays = np.stack([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)], -1)
    found = []
    for _ in range(count):
        scene = boards(rng, near)
        twist = np.array([0, 0, 1, 1, 1, 0]) * speed * rng.choice([-1, 1], 6)
        moved = exp(late * twist[None, :3])[0]
        distance, _ = hit(np.zeros(3), rays.reshape(-1, 3), scene)
        xyz = (distance * rng.normal(1, 1e-3, distance.shape))[:, None] * rays.reshape(-1, 3)
        look = (LENS.rays() @ TRUE.rotation.T @ moved.T).reshape(-1, 3)
        grey = hit(moved @ TRUE.translation + late * twist[3:], look, scene)[1].reshape(LENS.height, LENS.width)
        found.append(Pair(xyz, np.clip(grey + rng.normal(0, 2, grey.shape), 0, 255).astype("u1"), LENS, twist))
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


def test_near_things_show_a_translation_to_a_centimetre() -> None:
    start = changed(TRUE, np.array([0, 0, 0, 0.05, 0, 0, 0.0]))
    found = estimate_camera(pairs(5, near=0.15), start)
    assert found.adopted
    assert np.abs(difference(TRUE, found.mount)[3:6]).max() < 0.01
    assert found.sigma[3:6].max() < 0.02
    deviation = compare(start, found)
    assert deviation.is_wrong
    assert deviation.component == 3
    assert deviation.error[3] < 0


def test_pictures_of_a_rig_that_moves_show_their_time_offset() -> None:
    found = estimate_camera(pairs(6, late=0.03, speed=0.5), TRUE)
    assert found.adopted
    assert abs(found.mount.time_offset - 0.03) < min(3 * found.sigma[6], 0.005)


def test_pictures_of_a_rig_that_stands_do_not_show_their_time_offset(seen: list[Pair]) -> None:
    found = estimate_camera(seen, TRUE)
    assert found.adopted
    assert not found.observed[6]
    assert found.mount.time_offset == TRUE.time_offset


def test_what_a_nearer_board_hides_from_the_camera_is_no_background_of_outlines() -> None:
    azimuth, elevation = np.meshgrid(np.arange(-0.5, 0.5, 0.003), np.arange(-0.6, 0.6, 0.012))
    rays = np.stack([np.ones_like(azimuth), azimuth, elevation], axis=-1).reshape(-1, 3)
    # A board to the left. The lidar, to the right of the camera, sees the wall behind its edge.
    scene = np.array([[1.0, 0.0, -9, 9, 18, 200], [4.0, -99, -99, 198, 198, 50]])
    distance, _ = hit(np.zeros(3), rays, scene)
    mount = Mount(np.array([0.0, 0.05, -0.03]), np.eye(3))
    pair = Pair(distance[:, None] * rays, np.zeros((300, 480), "u1"), LENS)
    found = outlines(pair, 0, LENS, mount)
    inside = np.abs(found.point[:, 2]) < 0.3
    assert inside.sum() > 40
    np.testing.assert_array_equal(found.kind[inside], 0)


def grid(across: float, up: float, highest: float) -> np.ndarray:
    """Directions (N, 3) of beams ahead, whose tangents are these apart."""
    azimuth, elevation = np.meshgrid(np.arange(-0.3, 0.3, across), np.arange(-highest, highest, up))
    return np.stack([np.ones_like(azimuth), azimuth, elevation], axis=-1).reshape(-1, 3)


def test_a_wall_along_which_a_lidar_looks_has_no_outline_before_its_end() -> None:
    rays = grid(0.006, 0.006, 0.3)
    with np.errstate(divide="ignore"):
        along = np.where(rays[:, 1] > 0, 0.1 / rays[:, 1], np.inf)
    xyz = np.where(along > 9.0, 30.0, along)[:, None] * rays
    found = outlines(Pair(xyz, np.zeros((300, 480), "u1"), LENS), 0, LENS, IDENTITY)
    assert not (found.point[:, 0] < 5.0).any()


def test_the_underside_of_what_is_seen_from_below_has_no_outline_before_its_far_rim() -> None:
    rays = grid(0.006, 0.02, 0.3)
    with np.errstate(divide="ignore"):
        below = np.where(rays[:, 2] > 0, 0.5 / rays[:, 2], np.inf)
    distance = np.select([below < 4.0, below < 7.0], [4.0, below], 12.0)  # the face, the underside, the wall behind
    found = outlines(Pair(distance[:, None] * rays, np.zeros((300, 480), "u1"), LENS), 0, LENS, IDENTITY)
    assert not (found.point[:, 0] < 6.0).any()


def test_a_covariance_of_few_groups_is_no_noise_and_that_of_many_is_theirs() -> None:
    rng = np.random.default_rng(3)
    few = [rng.normal(size=(8, 8)) for _ in range(30)]
    ways = (lambda x: excess(x) + np.eye(8), lambda x: x.T @ x)
    largest = [np.mean([np.linalg.eigvalsh(each(x)).max() for x in few]) / 8 for each in ways]
    assert largest[0] < 2.3 < 3.0 < largest[1]
    together = rng.normal(size=(200, 8)) * np.array([5.0, 1, 1, 1, 1, 1, 1, 1])
    assert 20 < np.linalg.eigvalsh(excess(together)).max() / 200 < 32


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


@pytest.mark.parametrize("model", ["brown", "fisheye"])
def test_slopes_are_the_differences_of_values_through_any_lens(model: LensModel) -> None:
    rng = np.random.default_rng(0)
    lens = Lens(80, 60, 50.0, 52.0, 40.0, 29.0, (-0.1, 0.02, 0.005, 0.0), (1e-3, -2e-3), model)
    # Edges whose value is linear between pixels of the whole picture, so that differences are exact.
    edges = (np.arange(60)[:, None] * 0.02 + np.arange(80) * 0.03)[None, None].repeat(2, 1).astype("f4")
    point = np.stack([rng.uniform(4, 9, 200), *rng.uniform(-2, 2, (2, 200))], axis=1)
    lines = Outlines(
        point, rng.normal(0, 0.05, (200, 3)), rng.integers(0, 4, 200), point[:, 0], np.zeros(200, int), point
    )
    points = _Points(lens, edges, lines, np.array([0.2, 0.5, 0.8]))
    at = changed(Mount(np.array([0.1, 0.2, -0.1]), np.eye(3)), np.array([0.05, -0.1, 0.02, 0, 0, 0, 0.01]))
    value, slopes, _ = points.sample(_State(at, 0.01), 0.7, True)
    assert np.isfinite(value).mean() > 0.9
    for k in range(8):
        step = np.eye(8)[k] * 1e-4
        before, after = (points.sample(_State(at, 0.01).moved(each), 0.7, False)[0] for each in (-step, step))
        good = np.isfinite(before + after)
        np.testing.assert_allclose(
            slopes[good, k], (after - before)[good] / 2e-4, atol=2e-3 * np.abs(slopes[:, k]).max()
        )


def test_a_point_at_the_rim_of_what_a_lens_sees_has_slopes() -> None:
    # Beyond a tangent of 1.2 this distortion takes points back towards the middle: there it sees nothing.
    lens = Lens(480, 300, 200.0, 200.0, 239.5, 149.5, (-0.2, 0.0, 0.0, 0.0))
    x = np.array([1, -1, 0.7, -0.7]) * lens.max_tangent * (1 - 1e-6)
    y = np.array([0, 0, -0.714, 0.714]) * lens.max_tangent * (1 - 1e-6)
    point = 3 * np.stack([np.ones(4), -x, -y], axis=1)
    none = np.zeros((4, 3))
    points = Outlines(point, none, np.arange(4), np.full(4, 3.0), np.zeros(4, "i8"), none)
    edges = np.random.default_rng(0).random((1, 2, 300, 480), "f4")
    part = _Points(lens, edges, points, np.zeros(1))
    value, slopes, _ = part.sample(_State(IDENTITY), 0.7, True)
    assert np.isfinite(value).all() and np.isfinite(slopes).all() and (np.abs(slopes[:, :3]).max(axis=1) > 0).all()


@pytest.mark.parametrize("width", range(470, 490))
def test_edges_at_every_blur_are_those_of_a_picture_of_that_size(width: int) -> None:
    """Each is made from the one before, whose size was rounded."""
    rng, lens = np.random.default_rng(0), LENS.resized(width, round(width * 5 / 8))
    pair, blurs = (
        Pair(np.zeros((0, 3)), rng.integers(0, 255, (lens.height, lens.width), "u1"), lens),
        (0.3, 0.37, 0.5, 1.1),
    )
    album = Album([pair], [blurs])
    for blur in blurs:
        _, edges = album.edges(album.lenses[0], blur)
        assert np.isfinite(edges).all() and (edges >= 0).all()
        assert abs(float(np.exp(-edges).mean()) - 0.5) < 0.02  # ranks are uniform
