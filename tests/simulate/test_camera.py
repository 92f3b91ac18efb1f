"""The camera: marked points of the world appear where the truth says, in a video that OpenCV's reader opens."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np

from rover_pipeline.format.trace import Trace
from rover_pipeline.simulate import camera
from rover_pipeline.simulate.world import Light, Target, World, box, rectangle

DAY = Light(np.array([0.0, 0.0, 1.0]), 0.6, np.zeros((0, 3)), 0.4, (0.4, 0.6, 0.9), 100.0)


def frames(video: Path) -> list[np.ndarray]:
    """All frames by OpenCV's reader, BGR."""
    reader = cv2.VideoCapture(str(video))
    assert reader.isOpened()
    found: list[np.ndarray] = []
    while True:
        more, image = reader.read()
        if not more:
            return found
        found.append(image)


def projected(intrinsics: dict[str, float], points: np.ndarray) -> np.ndarray:
    """Pixels of points in the camera frame, front-left-up, by OpenCV's pinhole model, (N, 2)."""
    matrix = np.array(
        [[intrinsics["fx"], 0, intrinsics["cx"]], [0, intrinsics["fy"], intrinsics["cy"]], [0, 0, 1]], "f8"
    )
    optical = points @ np.array([[0.0, 0, 1], [-1, 0, 0], [0, -1, 0]])  # right, down, front
    distortion = np.array([*intrinsics["k"][:2], *intrinsics["p"]], "f8")  # type: ignore[index, misc]
    pixels: np.ndarray = cv2.projectPoints(optical, np.zeros(3), np.zeros(3), matrix, distortion)[0][:, 0]
    return pixels


def magenta_near(image: np.ndarray, u: float, v: float) -> np.ndarray | None:
    """Centre of the magenta around a pixel, weighted by how magenta it is; None when there is none."""
    left, top = max(0, round(u) - 60), max(0, round(v) - 60)
    patch = image[top : round(v) + 61, left : round(u) + 61].astype("f8")
    weight = np.maximum(np.minimum(patch[..., 0], patch[..., 2]) - patch[..., 1] - 80, 0)
    if weight.sum() < 3000:
        return None
    rows, columns = np.mgrid[: patch.shape[0], : patch.shape[1]]
    return np.array([(weight * columns).sum(), (weight * rows).sum()]) / weight.sum() + [left, top]


def test_marked_points_land_within_1_5_pixels_of_where_the_truth_puts_them(full_hd: Path) -> None:
    truth = Trace(full_hd).sensor("_truth_camera")
    pos, rot = truth.channel("pos").read(), truth.channel("rot").read()
    targets = json.loads((full_hd / "_truth" / "truth.json").read_text())["targets"]
    places = np.array([target["position"] for target in targets])
    intrinsics = json.loads((full_hd / "camera" / "camera.json").read_text())
    pictures = frames(full_hd / "camera" / "video.avi")
    assert len(pictures) == len(pos) >= 3
    misses = []
    for image, where, turn in zip(pictures, pos, rot, strict=True):
        assert image.shape == (1080, 1920, 3)
        seen = (places - where) @ turn
        seen = seen[seen[:, 0] > 0.5]
        for u, v in projected(intrinsics, seen):
            if 80 < u < 1840 and 80 < v < 1000 and (centre := magenta_near(image, u, v)) is not None:
                misses.append(np.hypot(*(centre - [u, v])))
    assert len(misses) >= 3
    assert max(misses) < 1.5


def test_the_channel_and_opencvs_reader_see_the_same_frames(tiny: Path) -> None:
    ours = Trace(tiny).sensor("camera").channel("video.avi").read()
    theirs = np.stack(frames(tiny / "camera" / "video.avi"))[..., ::-1]
    assert ours.shape == theirs.shape
    assert np.abs(ours.astype("i4") - theirs).mean() < 1.0


def test_what_is_to_the_left_appears_to_the_left_and_what_is_up_appears_up() -> None:
    lens = camera.wide(320, 180, 80.0)
    marks = [rectangle((4.0, 1.0, 0.8), 0.2, 0.2, "-x", "target")]
    world = World(
        [box((5.1, 0.0, 0.0), (0.2, 20.0, 20.0), "black plastic"), *marks], DAY, (), (Target("a", (4, 1, 0.8)),)
    )
    image = camera.picture(world, lens, 0.0, np.zeros(3), np.eye(3))
    rows, columns = np.nonzero((image[..., 0] > 150) & (image[..., 1] < 60))
    assert columns.mean() < lens.cx - 20 and rows.mean() < lens.cy - 20
    expected = lens.cx - lens.fx * 1.0 / 4.0, lens.cy - lens.fy * 0.8 / 4.0
    assert np.hypot(columns.mean() - expected[0], rows.mean() - expected[1]) < 0.6


def test_near_surfaces_hide_what_is_behind_them() -> None:
    lens = camera.wide(160, 90, 60.0)
    behind = box((6.0, 0.0, 0.0), (0.2, 30.0, 30.0), "target")
    screen = box((3.0, 0.0, 0.0), (0.2, 30.0, 30.0), "car blue")
    both = camera.picture(World([behind, screen], DAY), lens, 0.0, np.zeros(3), np.eye(3))
    alone = camera.picture(World([screen], DAY), lens, 0.0, np.zeros(3), np.eye(3))
    assert (both == alone).all()
