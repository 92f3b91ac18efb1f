"""EdgeFirst datasets, read by others' code where there is some: Pillow, OpenCV, pypcd4, pyarrow, NumPy's FFT.

`tests/consumers/` opens them with edgefirst-client itself.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow.ipc
import pytest
from PIL import ExifTags, Image
from pypcd4 import PointCloud
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from rover_pipeline.camera.intrinsics import read_intrinsics
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import FormatError, MissingExtraError
from rover_pipeline.export.dataset import export_dataset
from rover_pipeline.export.edgefirst import describe
from rover_pipeline.export.edgefirst.layout import track_id
from rover_pipeline.export.output import tree_files
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.table import find_step
from rover_pipeline.validation.rig import sensor_mount
from tests.export.objects import EXTENT, write_objects
from tests.export.rules import problems

SETTINGS = {"splits": {"block_s": 0.5, "gap_s": 0.1}}
STEPS = ("_lidar_image", "_sync", "_camera_pose", "_radar_points", "_camera_depth")


@pytest.fixture(scope="module")
def trace(drive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("edgefirst") / "walk"
    shutil.copytree(drive, path)
    for step in STEPS:
        run_step(find_step(step), path, step, Request())
    write_objects(path)
    return path


@pytest.fixture(scope="module")
def dataset(trace: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_dataset("edgefirst", [str(trace)], tmp_path_factory.mktemp("sets") / "rooms", settings=SETTINGS)


@pytest.fixture(scope="module")
def rows(dataset: Path) -> list[dict[str, Any]]:
    with pyarrow.OSFile(str(dataset / "rooms.arrow")) as file:
        listed: list[dict[str, Any]] = pyarrow.ipc.open_file(file).read_all().to_pylist()
    return listed


def samples(dataset: Path) -> dict[int, str]:
    """Number of each sweep -> path of its files, without the suffix."""
    pictures = sorted((dataset / dataset.name).glob("*/*.camera.jpeg"))
    return {int(path.name.split(".")[0].rsplit("_", 1)[1]): str(path)[: -len(".camera.jpeg")] for path in pictures}


def cloud(path: str) -> dict[str, np.ndarray]:
    read = PointCloud.from_path(path)
    return dict(zip(read.fields, read.numpy().T, strict=True))


def xyz(path: str) -> np.ndarray:
    read = cloud(path)
    return np.stack([read[name] for name in "xyz"], -1).astype("f8")


def test_pictures_are_the_recorded_ones_with_their_time_in_exif(dataset: Path, trace: Path) -> None:
    camera, sync = Sensor(trace / "camera"), Sensor(trace / "_sync").channel("camera").read()
    for number, stem in list(samples(dataset).items())[::6]:
        picture = Image.open(f"{stem}.camera.jpeg")
        recorded = camera.channel("video.avi").read(sync[number], sync[number] + 1)[0]
        assert np.abs(np.asarray(picture).astype(int) - recorded).max() <= 1
        exif = picture.getexif().get_ifd(ExifTags.IFD.Exif)
        text = f"{exif[ExifTags.Base.DateTimeOriginal]}.{exif[ExifTags.Base.SubsecTimeOriginal]}"
        text += exif[ExifTags.Base.OffsetTimeOriginal]
        when = datetime.strptime(text, "%Y:%m:%d %H:%M:%S.%f%z").timestamp()
        assert when == pytest.approx(camera.channel("ts").read()[sync[number]], abs=2e-6)


def test_a_radar_cube_is_the_range_doppler_transform_of_the_samples(dataset: Path, trace: Path) -> None:
    radar, sync = Sensor(trace / "radar"), Sensor(trace / "_sync").channel("radar").read()
    about = json.loads((dataset / "sensors.json").read_text())
    scale = next(iter(about.values()))["radar"]["scale"]
    largest = 0
    for number, stem in list(samples(dataset).items())[::7]:
        words = radar.channel("iq").read(sync[number], sync[number] + 1)[0].astype("f8")
        chirps, tx, rx, count = words.shape
        group = words.reshape(chirps, tx, rx, count // 4, 4)  # Q Q I I
        iq = (group[..., 2:] + 1j * group[..., :2]).reshape(chirps, tx, rx, count // 2)
        windows = [np.hanning(size + 2)[1:-1] for size in (chirps, count // 2)]
        iq = iq * windows[0][:, None, None, None] * windows[1] / windows[0].sum() / windows[1].sum()
        wanted = np.fft.fftshift(np.fft.fft2(iq, axes=(0, 3)), axes=0)[:, :2].transpose(1, 2, 3, 0)
        image = np.asarray(Image.open(f"{stem}.radar.png")).astype(int)
        cells = (image - 32768).reshape(2, count // 2, rx, chirps, 2).transpose(0, 2, 1, 3, 4)
        assert np.abs(cells[..., 0] / scale - wanted.real).max() < 1 / scale
        assert np.abs(cells[..., 1] / scale - wanted.imag).max() < 1 / scale
        largest = max(largest, int(np.abs(cells).max()))
    assert 1000 < largest < 32767  # 16 bits are used, and not exceeded


def test_radar_points_have_the_doppler_of_the_rigs_motion_and_the_power_of_their_cell(
    dataset: Path, trace: Path
) -> None:
    truth, sync = Sensor(trace / "_truth_radar"), Sensor(trace / "_sync").channel("radar").read()
    about = next(iter(json.loads((dataset / "sensors.json").read_text()).values()))
    mount = about["extrinsics, lidar from sensor, front-left-up, m"]["radar"]
    wanted, found = [], []
    for number, stem in samples(dataset).items():
        points = cloud(f"{stem}.radar.pcd")
        sensor = (xyz(f"{stem}.radar.pcd") - mount["translation"]) @ np.array(mount["rotation"])
        distance = np.linalg.norm(sensor, axis=1)
        ego = truth.channel("ego_vel").read(sync[number], sync[number] + 1)[0]
        wanted.append(-(sensor / distance[:, None]) @ ego)
        found.append(points["speed"])
        snr = Sensor(trace / "_radar_points").channel("snr").read(sync[number], sync[number] + 1)[0]
        np.testing.assert_allclose(points["power"] - points["noise"], snr[: len(distance)], atol=1e-3)
        np.testing.assert_allclose(points["rcs"] - points["power"], 40 * np.log10(distance), atol=1e-3)
    difference = np.abs(np.concatenate(found) - np.concatenate(wanted))
    assert np.median(difference) < 0.15 < np.median(np.abs(np.concatenate(found) + np.concatenate(wanted)))


def test_radar_points_are_where_they_are_at_the_time_of_the_sweep(trace: Path, tmp_path: Path) -> None:
    moving = tmp_path / "moving"
    shutil.copytree(trace, moving)
    run_step(find_step("_radar_pose"), moving, "_radar_pose", Request())
    settings = {**SETTINGS, "options": {"files": ["camera.jpeg", "radar.pcd"], "zip": False, "annotations": False}}
    out = export_dataset("edgefirst", [str(moving)], tmp_path / "set", settings=settings)
    points, sync = Sensor(moving / "_radar_points"), Sensor(moving / "_sync").channel("radar").read()
    lidar, radar = Sensor(moving / "_truth"), Sensor(moving / "_radar_pose")
    moved = []
    for number, stem in samples(out).items():
        at = sync[number]
        count = int(points.channel("count").sample(at))
        world = points.channel("xyz").sample(at)[:count].astype("f8") @ radar.channel("rot").sample(at).T
        world += radar.channel("pos").sample(at) - lidar.channel("pos").sample(number)
        found = xyz(f"{stem}.radar.pcd")
        np.testing.assert_allclose(found, world @ lidar.channel("rot").sample(number), atol=0.02)
        mount = sensor_mount(moving, "radar")
        still = points.channel("xyz").sample(at)[:count] @ mount.rotation.T + mount.translation
        moved.append(np.abs(found - still).max(initial=0.0))
    assert max(moved) > 0.03, "the rig has moved between the frame and the sweep"


def misfit(dataset: Path, trace: Path, change: Callable[[np.ndarray], np.ndarray] = lambda points: points) -> float:
    """Median distance of a sweep's points from those of six sweeps later, in the true world, m."""
    truth = Sensor(trace / "_truth")
    pos, rot = truth.channel("pos").read(), truth.channel("rot").read()
    listed = list(samples(dataset).items())[::5]
    clouds = [change(xyz(f"{stem}.lidar.pcd")) @ rot[at].T + pos[at] for at, stem in listed]
    return float(np.median(np.concatenate([cKDTree(a).query(b[::9])[0] for a, b in itertools.pairwise(clouds)])))


def test_lidar_clouds_fit_the_true_poses_and_not_when_an_axis_is_mirrored(dataset: Path, trace: Path) -> None:
    good = misfit(dataset, trace)
    assert good < 0.06
    assert misfit(dataset, trace, lambda points: points * [1, -1, 1]) > 1.5 * good


def test_range_images_are_destaggered_and_reflectivity_lies_on_them(dataset: Path, trace: Path) -> None:
    image, stored = Sensor(trace / "_lidar_image"), samples(dataset)
    for number, stem in list(stored.items())[::9]:
        ranges = image.channel("rng").read(number, number + 1)[0].copy()
        ranges[ranges == 65535] = 0
        assert np.array_equal(np.asarray(Image.open(f"{stem}.lidar.png")), ranges)
        reflectivity = image.channel("rfl").read(number, number + 1)[0].astype(float)
        jpeg = np.asarray(Image.open(f"{stem}.lidar.jpeg")).astype(float)
        assert np.corrcoef(jpeg.ravel(), reflectivity.ravel())[0, 1] > 0.95


def depth_error(dataset: Path, trace: Path, shift: int = 0, side: float = 1.0) -> float:
    """Median difference between the depth picture and the cloud projected into it by what `sensors.json` says, m."""
    about = next(iter(json.loads((dataset / "sensors.json").read_text()).values()))
    mount = about["extrinsics, lidar from sensor, front-left-up, m"]["camera"]
    differences, stems = [], list(samples(dataset).values())
    for at in range(0, len(stems) - shift, 3):
        depth = np.asarray(cv2.imread(f"{stems[at]}.depth.png", cv2.IMREAD_UNCHANGED)) / 1000
        lens = read_intrinsics(json.dumps(about["camera"]), 256, 144).lens.resized(*depth.shape[::-1])
        points = xyz(f"{stems[at + shift]}.lidar.pcd") * [1, side, 1]
        x, y, z = ((points - mount["translation"]) @ np.array(mount["rotation"])).T
        ahead = x > 0.5
        column, row = lens.pixels(-y[ahead] / x[ahead], -z[ahead] / x[ahead])
        inside = (column > 0) & (row > 0) & (column < depth.shape[1] - 1) & (row < depth.shape[0] - 1)
        seen = depth[np.round(row[inside]).astype(int), np.round(column[inside]).astype(int)]
        differences.append(np.abs(seen - x[ahead][inside])[seen > 0])
    return float(np.median(np.concatenate(differences)))


def test_depth_pictures_agree_with_the_clouds_and_not_when_mirrored_or_a_second_late(
    dataset: Path, trace: Path
) -> None:
    good = depth_error(dataset, trace)
    assert good < 0.05
    assert depth_error(dataset, trace, side=-1.0) > 4 * good and depth_error(dataset, trace, shift=8) > 4 * good


def test_rows_hold_the_pose_and_boxes_around_the_true_bodies(
    dataset: Path, trace: Path, rows: list[dict[str, Any]]
) -> None:
    truth = Sensor(trace / "_truth")
    pos, rot, bodies = (truth.channel(name).read() for name in ("pos", "rot", "bodies"))
    assert len(rows) == 3 * len(samples(dataset)) and {row["label"] for row in rows} == {"pedestrian"}
    ids = {row["object_id"] for row in rows}
    assert len(ids) == 3 and {row["label_index"] for row in rows} == {1}
    for at, row in enumerate(rows):
        number = row["frame"]
        turned = Rotation.from_euler("ZYX", row["pose"], degrees=True).as_matrix()
        np.testing.assert_allclose(turned, rot[number], atol=1e-5)
        assert row["timestamp"] == truth.channel("ts").read()[number]
        centre = (bodies[number, at % 3, :3] - pos[number]) @ rot[number]
        np.testing.assert_allclose(row["box3d"][:3], centre, atol=1e-4)
        reach = np.hypot(EXTENT[0], EXTENT[1]) + 0.3 * EXTENT[2]
        assert min(EXTENT) - 1e-3 < min(row["box3d"][3:]) and max(row["box3d"][3:5]) < reach


def test_boxes_in_pictures_hold_the_projection_of_the_body_at_the_pictures_instant(
    dataset: Path, trace: Path, rows: list[dict[str, Any]]
) -> None:
    camera, sync = Sensor(trace / "_truth_camera"), Sensor(trace / "_sync").channel("camera").read()
    pos, rot = camera.channel("pos").read(), camera.channel("rot").read()
    bodies = Sensor(trace / "_truth").channel("bodies").read()
    lens = read_intrinsics((trace / "camera" / "camera.json").read_text(), 256, 144).lens
    seen = 0
    for at, row in enumerate(rows):
        centre = (bodies[row["frame"], at % 3, :3] - pos[sync[row["frame"]]]) @ rot[sync[row["frame"]]]
        if centre[0] < 1.5:
            continue
        column, vertical = lens.pixels(np.array([-centre[1] / centre[0]]), np.array([-centre[2] / centre[0]]))
        if not (0 < column[0] < 255 and 0 < vertical[0] < 143):
            continue
        x, y, width, height = row["box2d"]
        assert abs((column[0] + 0.5) / 256 - x) < width / 2 and abs((vertical[0] + 0.5) / 144 - y) < height / 2
        assert 0.5 < height * 144 / (lens.fy * EXTENT[2] / centre[0]) < 2 or height > 0.8
        seen += 1
    assert seen >= 5


def test_check_passes_it_and_the_archive_holds_the_same(dataset: Path) -> None:
    assert list(problems("edgefirst", dataset)) == []
    held = describe(dataset)
    assert held["archive"] is True and held["boxes"] == {"pedestrian": 3 * len(samples(dataset))}


def swapped(path: Path) -> None:
    image = np.asarray(cv2.imread(str(path), cv2.IMREAD_UNCHANGED))
    cv2.imwrite(str(path), image.byteswap())


def swapped_cloud(path: Path) -> None:
    header, mark, body = path.read_bytes().partition(b"DATA binary\n")
    path.write_bytes(header + mark + np.frombuffer(body, "<f4").byteswap().tobytes())


def smaller(path: Path) -> None:
    Image.new("RGB", (64, 32)).save(path)


def unlink(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("pattern", "damage", "problem"),
    [
        ("*.radar.png", swapped, "is the byte order right?"),
        ("*.lidar.pcd", swapped_cloud, "not finite|is the byte order right?"),
        ("*.camera.jpeg", smaller, "the table says 256x144"),
        ("*.camera.jpeg", unlink, "has no camera picture"),
        ("*.depth.png", smaller, "must be greyscale of 16 bits"),
    ],
)
def test_check_finds_damage(
    pattern: str, damage: Callable[[Path], None], problem: str, dataset: Path, tmp_path: Path
) -> None:
    shutil.copytree(dataset, tmp_path / "rooms")
    for path in (tmp_path / "rooms").rglob(pattern):
        damage(path)
    found = "\n".join(problems("edgefirst", tmp_path / "rooms"))
    assert any(part in found for part in problem.split("|")) and "rooms.zip: does not hold" in found


def test_a_table_of_another_schema_or_name_is_named(dataset: Path, tmp_path: Path) -> None:
    copy = tmp_path / "rooms"
    shutil.copytree(dataset, copy)
    with pyarrow.OSFile(str(copy / "rooms.arrow")) as file:
        read = pyarrow.ipc.open_file(file).read_all()
    column = read.schema.get_field_index("frame")
    other = read.set_column(column, "frame", read.column("frame").cast(pyarrow.float32())).replace_schema_metadata({})
    with pyarrow.OSFile(str(copy / "rooms.arrow"), "wb") as out, pyarrow.ipc.new_file(out, other.schema) as writer:
        writer.write_table(other)
    found = "\n".join(problems("edgefirst", copy))
    assert "schema_version is missing" in found and "column frame is float, must be uint32" in found
    copy.rename(tmp_path / "other")
    assert f"{tmp_path / 'other'}: has no other.arrow; export it again" in problems("edgefirst", tmp_path / "other")
    (tmp_path / "other" / "other.arrow").write_bytes(b"ARROW1")
    assert any("other.arrow: is no Arrow file" in line for line in problems("edgefirst", tmp_path / "other"))


def test_threads_give_the_same_bytes(dataset: Path, trace: Path, tmp_path: Path) -> None:
    again = export_dataset("edgefirst", [str(trace)], tmp_path / "rooms", settings=SETTINGS, threads=3)
    assert {name: (again / name).read_bytes() for name in tree_files(again)} == {
        name: (dataset / name).read_bytes() for name in tree_files(dataset)
    }


def test_what_is_missing_is_named_and_files_can_be_left_out(trace: Path, tmp_path: Path) -> None:
    left_out = shutil.ignore_patterns("_radar_points", "_camera_depth", "_objects")
    shutil.copytree(trace, tmp_path / "walk", ignore=left_out)
    with pytest.raises(FormatError, match=r"virtual sensor _camera_depth \(depth\).*--outputs camera_depth"):
        export_dataset("edgefirst", [str(tmp_path / "walk")], tmp_path / "set", settings=SETTINGS)
    options = {"files": ["camera.jpeg", "lidar.pcd"], "zip": False}
    out = export_dataset("edgefirst", [str(tmp_path / "walk")], tmp_path / "set", settings={"options": options})
    assert describe(out)["files"] == {"camera.jpeg": 24, "lidar.pcd": 24} and not list(problems("edgefirst", out))


def test_without_pyarrow_the_error_names_the_extra(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"rover-pipeline\[edgefirst\]"):
        export_dataset("edgefirst", [str(trace)], tmp_path / "set", settings=SETTINGS)
    assert not list(tmp_path.iterdir())


def test_names_of_tracks_are_the_same_in_every_export() -> None:
    assert track_id("walk", 3) == track_id("walk", 3) != track_id("walk", 4)
