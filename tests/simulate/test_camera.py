"""The camera: marked points of the world appear where the truth says, in a video that OpenCV's reader opens."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from rover_pipeline.errors import ConfigError
from rover_pipeline.format.trace import Trace
from rover_pipeline.simulate.record import simulate
from rover_pipeline.simulate.scene.world import Light, Target, World, box, rectangle
from rover_pipeline.simulate.sensors import camera

DAY = Light(np.array([0.0, 0.0, 1.0]), 0.6, np.zeros((0, 3)), 0.4, (0.4, 0.6, 0.9), 100.0)


def frames(video: Path) -> list[np.ndarray]:
    """All frames by OpenCV's reader, BGR."""
    reader = cv2.VideoCapture(str(video))
    assert reader.isOpened()
    images: list[np.ndarray] = []
    while True:
        more, image = reader.read()
        if not more:
            return images
        images.append(image)


def projected(intrinsics: dict[str, object], points: np.ndarray) -> np.ndarray:
    """Pixels of points in the camera frame, front-left-up, by OpenCV's model of the lens, (N, 2)."""
    matrix = np.array(
        [[intrinsics["fx"], 0, intrinsics["cx"]], [0, intrinsics["fy"], intrinsics["cy"]], [0, 0, 1]], "f8"
    )
    optical = points @ np.array([[0.0, 0, 1], [-1, 0, 0], [0, -1, 0]])  # right, down, front
    k, p = np.array(intrinsics["k"], "f8"), np.array(intrinsics["p"], "f8")
    still = np.zeros(3), np.zeros(3)
    if intrinsics.get("model", "fisheye") == "fisheye":
        return np.array(cv2.fisheye.projectPoints(optical[:, None], *still, matrix, k)[0])[:, 0]
    return np.array(cv2.projectPoints(optical, *still, matrix, np.array([*k[:2], *p, k[2]]))[0])[:, 0]


def magenta_near(image: np.ndarray, u: float, v: float) -> np.ndarray | None:
    """Centre of the magenta area that holds a pixel, weighted by saturation; None when there is none."""
    left, top = max(0, round(u) - 60), max(0, round(v) - 60)
    patch = image[top : round(v) + 61, left : round(u) + 61].astype("f8")
    weight = np.maximum(np.minimum(patch[..., 0], patch[..., 2]) - patch[..., 1] - 80, 0)
    _, areas = cv2.connectedComponents((weight > 0).astype("u1"))
    if not (area := areas[round(v) - top, round(u) - left]):
        return None
    weight[areas != area] = 0
    rows, columns = np.mgrid[: patch.shape[0], : patch.shape[1]]
    return np.array([(weight * columns).sum(), (weight * rows).sum()]) / weight.sum() + [left, top]


def test_marked_points_land_within_1_5_pixels_of_where_the_truth_puts_them(full_hd: Path) -> None:
    truth = Trace(full_hd).sensor("_truth_camera")
    pos, rot = truth.channel("pos").read(), truth.channel("rot").read()
    targets = json.loads((full_hd / "_truth" / "truth.json").read_text())["targets"]
    positions = np.array([target["position"] for target in targets])
    intrinsics = json.loads((full_hd / "camera" / "camera.json").read_text())
    pictures = frames(full_hd / "camera" / "video.avi")
    assert len(pictures) == len(pos) >= 3
    errors = []
    for image, camera_pos, camera_rot in zip(pictures, pos, rot, strict=True):
        assert image.shape == (1080, 1920, 3)
        points = (positions - camera_pos) @ camera_rot
        for u, v in projected(intrinsics, points[points[:, 0] > 0.5]):
            if 80 < u < 1840 and 80 < v < 1000 and (centre := magenta_near(image, u, v)) is not None:
                errors.append(np.hypot(*(centre - [u, v])))
    assert len(errors) >= 3
    assert max(errors) < 1.5


def test_the_channel_and_opencvs_reader_decode_the_same_frames(tiny: Path) -> None:
    ours = Trace(tiny).sensor("camera").channel("video.avi").read()
    theirs = np.stack(frames(tiny / "camera" / "video.avi"))[..., ::-1]
    assert ours.shape == theirs.shape
    assert np.abs(ours.astype("i4") - theirs).mean() < 1.0


@pytest.mark.parametrize("name", camera.LENSES)
def test_what_is_to_the_left_appears_to_the_left_and_what_is_up_appears_up(name: str) -> None:
    lens = camera.LENSES[name].resized(320, 180)
    plates = [rectangle((4.0, 1.0, 0.8), 0.2, 0.2, "-x", "target")]
    world = World(
        [box((5.1, 0.0, 0.0), (0.2, 20.0, 20.0), "black plastic"), *plates], DAY, (), (Target("a", (4, 1, 0.8)),)
    )
    image = camera.picture(world, lens, 0.0, np.zeros(3), np.eye(3))
    rows, columns = np.nonzero((image[..., 0] > 150) & (image[..., 1] < 60))
    assert columns.mean() < lens.cx - 20 and rows.mean() < lens.cy - 20
    expected = projected(lens.describe(), np.array([[4.0, 1.0, 0.8]]))[0]
    assert np.hypot(columns.mean() - expected[0], rows.mean() - expected[1]) < 0.6


def test_a_recording_is_made_with_the_published_fisheye_or_with_another_lens_on_request(tmp_path: Path) -> None:
    sizes = {"preset": "tiny", "duration": 0.5, "sensors": ("camera",), "threads": 1}
    found, pictures = {}, {}
    for name in (None, "brown", "pinhole"):
        simulate(tmp_path / f"{name}", lens=name, **sizes)  # type: ignore[arg-type]
        found[name] = json.loads((tmp_path / f"{name}" / "camera" / "camera.json").read_text())
        pictures[name] = frames(tmp_path / f"{name}" / "camera" / "video.avi")[0]
    # The file of the public data set names no model, in pictures of 1920x1080.
    assert found[None].keys() == {"fx", "fy", "cx", "cy", "k", "p"}
    assert found[None]["fx"] == pytest.approx(987.68 * 256 / 1920) and found[None]["k"][3] == -0.02294
    assert [found["brown"]["model"], found["pinhole"]["model"]] == ["brown", "pinhole"]
    assert any(found["brown"]["k"]) and not any(found["pinhole"]["k"])
    assert all(np.abs(pictures[None].astype(int) - pictures[name]).mean() > 5 for name in ("brown", "pinhole"))
    with pytest.raises(ConfigError, match=r"unknown lens 'fishy'; did you mean 'fisheye'"):
        simulate(tmp_path / "no", lens="fishy", **sizes)  # type: ignore[arg-type]


def test_the_fisheye_sees_what_is_far_from_its_axis_and_nothing_in_its_corners() -> None:
    lens = camera.LENSES["fisheye"].resized(480, 270)
    # 54 degrees to the left: at the rim of the picture, where a pinhole of this focal length shows nothing.
    aside = np.array([2.0, 2.0 * np.tan(np.radians(54.0)), 0.0])
    plate = rectangle((aside[0], aside[1], aside[2]), 0.3, 0.3, "-x", "target")
    world = World([box((2.2, 0.0, 0.0), (0.2, 40.0, 40.0), "black plastic"), plate], DAY, (), ())
    image = camera.picture(world, lens, 0.0, np.zeros(3), np.eye(3))
    rows, columns = np.nonzero((image[..., 0] > 150) & (image[..., 1] < 60))
    expected = projected(lens.describe(), aside[None])[0]
    assert np.hypot(columns.mean() - expected[0], rows.mean() - expected[1]) < 0.6
    assert expected[0] < 8 and lens.cx - lens.fx * aside[1] / aside[0] < -90
    bright = World([box((0.0, 0.0, 0.0), (0.2, 0.2, 0.2), "black plastic")], DAY, (), ())
    sky = camera.picture(bright, lens, 0.0, np.array([0.0, 0.0, 5.0]), np.eye(3))
    assert not sky[-1, -1].any() and sky[135, :].all() and sky[:, 240].all()
