"""nerfstudio's transforms.json, checked by OpenCV's own projections of lidar points into the pictures."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from plyfile import PlyData

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import FormatError
from rover_pipeline.export.dataset import export_dataset
from rover_pipeline.export.nerfstudio import describe
from rover_pipeline.export.recording import Recording
from rover_pipeline.export.sweeps import PosedSweeps
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.mapping.ply import ply
from rover_pipeline.table import find_step
from tests.export.rules import problems

OPTIONS = {"every": 2, "points": 20_000}
SPLITS = {"block_s": 0.5, "gap_s": 0.1}


@pytest.fixture(scope="module")
def trace(drive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording with the points of some sweeps as its map."""
    path = tmp_path_factory.mktemp("nerfstudio") / "walk"
    shutil.copytree(drive, path)
    for step in ("_lidar_image", "_camera_pose", "_camera_depth"):
        run_step(find_step(step), path, step, Request())
    sweeps, points, brightness = PosedSweeps(Recording.of(path)), [], []
    for at in (2, 8, 14, 20):
        sweep = sweeps.read(at)
        points.append(sweep.xyz @ sweeps.poses.rot[at].T + sweeps.poses.pos[at])
        assert sweep.rfl is not None
        brightness.append(sweep.rfl)
    (path / "_map").mkdir()
    (path / "_map" / "map.ply").write_bytes(ply(np.concatenate(points), intensity=np.concatenate(brightness)))
    return path


def export(trace: Path, out: Path, **options: object) -> Path:
    settings = {"options": {**OPTIONS, **options}, "splits": SPLITS}
    return export_dataset("nerfstudio", [str(trace)], out, settings=settings)


@pytest.fixture(scope="module")
def scene(trace: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(trace, tmp_path_factory.mktemp("scenes") / "scene")


@pytest.fixture(scope="module")
def straight(trace: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(trace, tmp_path_factory.mktemp("scenes") / "straight", undistort=True)


def projected(content: Mapping[str, Any], matrix: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (N, 2), (0, 0) in the middle of the first, and depths (N,), m, of points in the world, by OpenCV."""
    seen = (points - matrix[:3, 3]) @ matrix[:3, :3] * [1, -1, -1]  # OpenGL's up and back are OpenCV's down and ahead
    seen = seen[seen[:, 2] > 0.3]
    camera = np.array([[content["fl_x"], 0, content["cx"] - 0.5], [0, content["fl_y"], content["cy"] - 0.5], [0, 0, 1]])
    zero = np.zeros(3)
    if content["camera_model"] == "OPENCV_FISHEYE":
        k = np.array([content[f"k{at}"] for at in range(1, 5)])
        pixels, _ = cv2.fisheye.projectPoints(seen[:, None], zero, zero, camera, k)
    else:
        assert content["camera_model"] == "PINHOLE"
        pixels, _ = cv2.projectPoints(seen, zero, zero, camera, None)
    return pixels.reshape(-1, 2), seen[:, 2]


def agreement(scene: Path, trace: Path, *, shift: int = 0, mirror: float = 1.0) -> float:
    """Share of the seed's points before a camera, behind nothing, that have their depth in its picture."""
    content = json.loads((scene / "transforms.json").read_text())
    seed = PlyData.read(str(scene / "seed.ply"))["vertex"].data
    points = np.stack([seed[axis] for axis in "xyz"], -1).astype("f8") * [1, mirror, 1]
    depth = Sensor(trace / "_camera_depth").channel("depth")
    near = total = 0
    for at, frame in enumerate(content["frames"][: len(content["frames"]) - shift]):
        matrix = np.array(content["frames"][at + shift]["transform_matrix"])
        pixels, z = projected(content, matrix, points)
        number = int(Path(frame["file_path"]).stem)
        image = depth.read(number, number + 1)[0] / 1000
        scale = np.array([image.shape[1] / content["w"], image.shape[0] / content["h"]])
        where = np.round((pixels + 0.5) * scale - 0.5).astype(int)
        inside = (where >= 0).all(1) & (where < image.shape[::-1]).all(1)
        found = image[where[inside, 1], where[inside, 0]]
        visible = (found > 0) & (z[inside] < found + 0.5)
        near += int((np.abs(found - z[inside])[visible] < 0.1).sum())
        total += int(visible.sum())
    assert total > 200
    return near / total


def test_lidar_points_project_to_their_depth_and_not_when_mirrored_or_late(scene: Path, trace: Path) -> None:
    good = agreement(scene, trace)
    assert good > 0.7
    assert agreement(scene, trace, mirror=-1.0) < 0.6 * good
    assert agreement(scene, trace, shift=5) < 0.8 * good


def test_poses_are_those_of_the_true_camera_with_opengl_axes(scene: Path, trace: Path) -> None:
    content, truth = json.loads((scene / "transforms.json").read_text()), Sensor(trace / "_truth_camera")
    for frame in content["frames"]:
        number = int(Path(frame["file_path"]).stem)
        matrix = np.array(frame["transform_matrix"])
        rot, pos = (truth.channel(name).read(number, number + 1)[0] for name in ("rot", "pos"))
        front, left, up = rot.T
        np.testing.assert_allclose(matrix[:3, :3], np.stack([-left, up, -front], 1), atol=0.02)
        np.testing.assert_allclose(matrix[:3, 3], pos, atol=0.03)
        assert frame["timestamp"] == truth.channel("ts").read()[number]


def test_pictures_are_the_recorded_bytes_and_undistorted_ones_make_straight_lines(
    scene: Path, straight: Path, trace: Path
) -> None:
    content, other = (json.loads((path / "transforms.json").read_text()) for path in (scene, straight))
    assert (content["camera_model"], other["camera_model"]) == ("OPENCV_FISHEYE", "PINHOLE")
    assert "k1" not in other and other["cx"] == content["cx"]
    recorded = json.loads((trace / "camera" / "camera.json").read_text())
    assert (content["cx"], content["fl_x"]) == (recorded["cx"] + 0.5, recorded["fx"])
    name = content["frames"][3]["file_path"]
    number = int(Path(name).stem)
    picture = cv2.cvtColor(np.asarray(cv2.imread(str(scene / name))), cv2.COLOR_BGR2RGB)
    stored = Sensor(trace / "camera").channel("video.avi").read(number, number + 1)[0]
    assert np.abs(picture.astype(int) - stored).max() <= 2
    camera = np.array([[recorded["fx"], 0, recorded["cx"]], [0, recorded["fy"], recorded["cy"]], [0, 0, 1]])
    wanted = cv2.fisheye.undistortImage(stored, camera, np.array(recorded["k"]), Knew=camera)
    found = cv2.cvtColor(np.asarray(cv2.imread(str(straight / name))), cv2.COLOR_BGR2RGB)
    assert np.abs(found.astype(int) - wanted).mean() < 3 < np.abs(found.astype(int) - stored).mean()


def test_splits_are_three_lists_of_frames_or_none(scene: Path, trace: Path, tmp_path: Path) -> None:
    content = json.loads((scene / "transforms.json").read_text())
    names = {frame["file_path"] for frame in content["frames"]}
    lists = [set(content[f"{split}_filenames"]) for split in ("train", "val", "test")]
    assert all(each and each <= names for each in lists) and not lists[0] & (lists[1] | lists[2])
    settings = {"options": {**OPTIONS, "points": 0}, "splits": {"by": "recording"}}
    whole = export_dataset("nerfstudio", [str(trace)], tmp_path / "whole", settings=settings)
    content = json.loads((whole / "transforms.json").read_text())
    assert "train_filenames" not in content and "ply_file_path" not in content


def test_check_passes_scenes_and_finds_mirrored_poses_other_sizes_and_worlds(
    scene: Path, straight: Path, tmp_path: Path
) -> None:
    assert not list(problems("nerfstudio", scene)) and not list(problems("nerfstudio", straight))
    assert "OPENCV_FISHEYE" in str(describe(scene)["scenes"])
    copy = tmp_path / "scene"
    shutil.copytree(scene, copy)
    path = copy / "transforms.json"
    content = json.loads(path.read_text())

    def turned(axes: list[float]) -> list[dict[str, Any]]:
        """The frames with other axes of the camera."""
        matrices = [np.array(frame["transform_matrix"]) @ np.diag([*axes, 1.0]) for frame in content["frames"]]
        pairs = zip(content["frames"], matrices, strict=True)
        return [{**frame, "transform_matrix": matrix.tolist()} for frame, matrix in pairs]

    path.write_text(json.dumps({**content, "frames": turned([1.0, -1.0, 1.0]), "w": 100}))
    found = "\n".join(problems("nerfstudio", copy))
    assert "is no rotation" in found and "is not of 100x144 pixels" in found
    path.write_text(json.dumps({**content, "frames": turned([1.0, -1.0, -1.0])}))  # OpenCV's axes
    assert any("upside down" in line for line in problems("nerfstudio", copy))


def test_what_is_missing_is_named(trace: Path, tmp_path: Path) -> None:
    shutil.copytree(trace, tmp_path / "walk", ignore=shutil.ignore_patterns("_map"))
    with pytest.raises(FormatError, match=r"virtual sensor _map \(map.ply\).*--outputs map"):
        export(tmp_path / "walk", tmp_path / "out")
