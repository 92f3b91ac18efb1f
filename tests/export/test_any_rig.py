"""Exports do not depend on the names of sensors, and hold all sensors of a type that their formats have places for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
import rasterio

from rover_pipeline.datasets.table import DATASETS
from rover_pipeline.export import FORMATS, ExportOptions, export
from rover_pipeline.export.dataset import export_dataset
from rover_pipeline.export.mda.files import Item, decode, text_of
from rover_pipeline.export.mp4 import Picture
from rover_pipeline.export.picture import draw
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.workflow.exports import Exports
from rover_pipeline.workflow.flow import Flow
from tests.export.rigs import recording
from tests.export.rules import problems
from tests.kit import START_S

NAMES = {"lidar": "top", "radar": "radar_front", "camera": "cam", "imu": "mti"}
FURTHER = {"lidar_low": "lidar", "radar_rear": "radar", "camera_left": "camera"}
OPTIONS: dict[str, dict[str, object]] = {
    "l5kit": {"min_frames": 2},
    "nerfstudio": {"every": 2, "points": 100},
    "rslearn": {"slice_s": 0.7, "every": 1, "tile_px": 64, "resolution": 0.5, "min_share": 1e-3},
    "mda": {"period": 0.4},
}


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recording(tmp_path_factory.mktemp("usual") / "walk")


@pytest.fixture(scope="module")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recording(tmp_path_factory.mktemp("renamed") / "walk", names=NAMES)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recording(tmp_path_factory.mktemp("several") / "walk", further=FURTHER)


def made(name: str, trace: Path, out: Path, **options: object) -> Path:
    if name not in DATASETS:
        return export(name, [str(trace)], out, ExportOptions())[0]
    settings = {"options": {**OPTIONS.get(name, {}), **options}}
    settings |= {"splits": {"block_s": 0.4, "gap_s": 0.0}} if DATASETS[name].splits else {}
    return export_dataset(name, [str(trace)], out, settings=settings)


def notes(folder: Path) -> list[str]:
    return list((read_provenance(folder) or {})["notes"])


def as_types(text: str) -> str:
    """A text with the names of types in the place of those of the renamed sensors."""
    for type, name in NAMES.items():
        text = re.sub(rf"(?<![a-z]){name}(?![a-z])", type, text)
    return text


def entities(path: Path) -> list[str]:
    """What a Rerun recording holds, by entity, with its numbers."""
    rerun = pytest.importorskip("rerun")
    chunks = [each.to_record_batch() for each in rerun.recording.load_recording(path).chunks()]
    names = [each.entity_path for each in rerun.recording.load_recording(path).chunks()]
    columns = [
        {name: each.column(name).to_pylist() for name in each.schema.names if "RowId" not in name} for each in chunks
    ]
    return sorted(f"{name} {values}" for name, values in zip(names, columns, strict=True) if name != "/__properties")


def neutral(path: Path) -> Any:
    """What a file holds, with the names of types."""
    if path.suffix == ".npz":
        return {key: as_types(str(values.tolist())) for key, values in np.load(path).items()}
    if path.suffix == ".mda":
        item: Item = decode(path.read_bytes())
        texts = {name: as_types(text_of(each, -1)) for name, each in item.groups.items()}
        return item.payload, as_types(item.metadata), [as_types(each) for each in item.tags], texts
    if path.suffix == ".rrd":
        return [as_types(each) for each in entities(path)]
    if path.suffix in (".json", ".yaml"):  # sensors are in the order of their names
        return sorted(as_types(line.rstrip(",").lower()) for line in path.read_text().splitlines())
    if path.suffix in (".ply", ".pcd", ".txt"):
        head, mark, body = path.read_bytes().partition(b"end_header\n")
        return as_types(head.decode("latin1")), mark, body
    return path.read_bytes()


def contents(out: Path) -> dict[str, Any]:
    """What an export holds, by the path of each file, with the names of types in the place of those of sensors."""
    if out.is_file():
        return {"": neutral(out)}
    files = [path for path in out.rglob("*") if path.is_file() and path.name != "provenance.json"]
    return {as_types(path.relative_to(out).as_posix()): neutral(path) for path in files}


@pytest.mark.parametrize("name", [*DATASETS.own, *FORMATS])
def test_an_export_of_renamed_sensors_is_that_of_the_usual_names(
    name: str, usual: Path, renamed: Path, tmp_path: Path
) -> None:
    endings = {"rrd": ".rrd"}
    ours, theirs = (
        contents(made(name, trace, tmp_path / folder / f"out{endings.get(name, '')}"))
        for folder, trace in (("a", usual), ("b", renamed))
    )
    assert ours == theirs and ours
    if name in DATASETS:
        assert problems(name, tmp_path / "b" / "out") == []
        theirs_noted = [each.replace(str(renamed), str(usual)) for each in notes_of(name, tmp_path / "b" / "out")]
        assert theirs_noted == notes_of(name, tmp_path / "a" / "out")


def notes_of(name: str, folder: Path) -> list[str]:
    return notes(folder / f".{name}" if DATASETS[name].kind == "merge" else folder)


@pytest.mark.parametrize("sensor", ["camera", "lidar", "radar"])
def test_a_key_frame_of_each_kind_is_that_of_the_usual_names(
    sensor: str, usual: Path, renamed: Path, tmp_path: Path
) -> None:
    a, b = (made("mda", trace, tmp_path / trace.parent.name, sensor=sensor) for trace in (usual, renamed))
    assert contents(a) == contents(b)


@pytest.mark.parametrize(
    ("name", "absent"),
    [
        ("kitti", {"lidar_low", "camera_left"}),
        ("edgefirst", {"lidar_low", "radar_rear", "camera_left"}),
        ("nerfstudio", set()),
        ("roverp", {"lidar_low"}),
        ("l5kit", {"lidar_low"}),
        ("rslearn", {"lidar_low"}),
        ("mda", {"lidar_low", "radar_rear"}),
    ],
)
def test_the_notes_of_a_dataset_name_the_sensors_that_it_does_not_hold(
    name: str, absent: set[str], several: Path, tmp_path: Path
) -> None:
    out = made(name, several, tmp_path / "set")
    assert problems(name, out) == []
    said = [each for each in notes_of(name, out) if "not in the dataset" in each]
    assert {sensor for sensor in FURTHER if any(sensor in each for each in said)} == absent
    files = " ".join(path.as_posix() for path in out.rglob("*"))
    if name in ("nerfstudio", "roverp", "mda"):
        assert "camera_left" in files
    if name in ("roverp", "rslearn"):
        assert "radar_rear" in files


def test_pictures_of_both_cameras_have_their_own_pose_and_lens_and_the_splits_are_those_of_one_recording(
    several: Path, tmp_path: Path
) -> None:
    out = made("nerfstudio", several, tmp_path / "scene")
    content = json.loads((out / "transforms.json").read_text())
    assert not {"fl_x", "w", "k1"} & content.keys(), "the parser would take what the file has for all frames"
    assert {frame["fl_x"] for frame in content["frames"]} == {9.0, 8.0}
    splits = {name: {Path(each).stem for each in content[f"{name}_filenames"]} for name in ("train", "val", "test")}
    for frame in content["frames"]:
        stem = Path(frame["file_path"]).stem
        camera, number = (stem.rpartition("_")[0] or "camera"), int(stem.rpartition("_")[2])
        assert frame["fl_x"] == (8.0 if camera == "camera_left" else 9.0)
        pose = Sensor(several / f"_{camera}_pose")
        rot, pos = (pose.channel(each).read(number, number + 1)[0] for each in ("rot", "pos"))
        matrix = np.array(frame["transform_matrix"])
        np.testing.assert_allclose(-matrix[:3, 2], rot[:, 0], atol=1e-6)
        np.testing.assert_allclose(matrix[:3, 3], pos, atol=1e-6)
        assert np.asarray(cv2.imread(str(out / frame["file_path"]))).shape == (frame["h"], frame["w"], 3)
        same = [name for name, each in splits.items() if stem in each]
        assert same == [name for name, each in splits.items() if f"camera_left_{number:06d}" in each]


def test_an_undistorted_scene_has_a_mask_for_all_frames_or_none(several: Path, tmp_path: Path) -> None:
    out = made("nerfstudio", several, tmp_path / "scene", undistort=True)
    frames = json.loads((out / "transforms.json").read_text())["frames"]
    masks = {frame.get("mask_path") for frame in frames}
    assert None not in masks or masks == {None}
    assert all((out / each).is_file() for each in masks if each)


def test_each_radar_has_a_layer_of_its_own_power_from_above(several: Path, tmp_path: Path) -> None:
    out = made("rslearn", several, tmp_path / "ground")
    assert {"radar_power", "radar_rear_power"} <= json.loads((out / "config.json").read_text())["layers"].keys()
    windows = list(out.glob("windows/*/*"))
    power = {}
    for layer in ("radar_power", "radar_rear_power"):
        files = [each / "layers" / layer / "power" / "geotiff.tif" for each in windows]
        power[layer] = [rasterio.open(each).read(1) for each in files]
    ahead, behind = (np.concatenate([each.ravel() for each in power[layer]]) for layer in power)
    assert (ahead > -9999).any() and (behind > -9999).any()
    assert ((ahead > -9999) & (behind > -9999)).mean() < 0.5 * (ahead > -9999).mean(), "they look to other sides"


def test_key_frames_and_poses_of_both_cameras_are_their_own(several: Path, tmp_path: Path) -> None:
    out = made("mda", several, tmp_path / "items")
    for camera in ("camera", "camera_left"):
        paths = sorted((out / "walk").glob(f"walk_{camera}_0*.mda"))
        assert len(paths) > 2
        item = decode(paths[1].read_bytes())
        number, metadata = int(paths[1].stem[-6:]), json.loads(item.metadata)
        video: Any = Sensor(several / camera).channel("video.avi")
        assert item.payload == video.jpeg(number) and metadata["channel"] == f"{camera}/video.avi"
        assert metadata["intrinsics"]["fx"] == (9.0 if camera == "camera" else 8.0) and camera in item.tags
        pose = json.loads(text_of(item.groups["pose"], -1))
        wanted = Sensor(several / f"_{camera}_pose").channel("pos").read(number, number + 1)[0]
        np.testing.assert_allclose(pose["pos_m"], wanted, atol=1e-3)
    ranges = made("mda", several, tmp_path / "ranges", sensor="lidar")
    names = {each.stem[:-7] for each in (ranges / "walk").glob("*.mda")}
    assert names == {"walk_lidar"}, "`_odom` has the poses of one lidar"
    poses = made("roverp", several, tmp_path / "poses")
    for sensor in ("radar", "radar_rear", "camera", "camera_left"):
        pose = Sensor(several / f"_{sensor}_pose")
        pos = pose.channel("pos").read()[pose.channel("valid").read() != 0]
        np.testing.assert_array_equal(np.load(poses / f"_{sensor}" / "pose.npz")["pos"], pos)
    assert {"radar_rear", "camera_left"} < set(np.load(poses / "_fusion" / "indices.npz")["sensors"].tolist())


def test_previews_show_each_sensor_of_a_type(several: Path, tmp_path: Path) -> None:
    areas = Picture(several, START_S).areas
    assert {"camera", "camera camera_left", "range_doppler radar_rear", "range_image lidar_low"} <= set(areas)
    assert areas["camera"][2] == areas["camera camera_left"][2]
    with av.open(str(made("mp4", several, tmp_path / "x.mp4"))) as video:
        assert next(video.decode(video=0)).width == 1280
    shown = {each.split(" ")[0] for each in entities(made("rrd", several, tmp_path / "x.rrd"))}
    for name in ("camera/image", "camera_left/image", "radar/points", "radar_rear/points"):
        assert f"/world/lidar/{name}" in shown
    assert {"/radar_rear/range_azimuth", "/radar/range_azimuth", "/lidar_low/points", "/world/lidar/points"} <= shown


def test_a_picture_of_a_renamed_sensor_is_drawn_as_that_of_the_usual_name(usual: Path, renamed: Path) -> None:
    for sensor in ("lidar", "_lidar_image", "_radar_range_azimuth", "_radar_points"):
        plain = sensor.removeprefix("_")
        type = plain.partition("_")[0]
        name = sensor.replace(type, NAMES[type])
        figures = [draw(usual, sensor, 3), draw(renamed, name, 3)]
        ours, theirs = ([(axes.get_xlabel(), axes.get_ylabel()) for axes in each.axes] for each in figures)
        assert ours == theirs and ours[0][0], name


def test_the_workflow_makes_what_a_format_reads_of_each_sensor_by_its_name(
    renamed: Path, several: Path, tmp_path: Path
) -> None:
    def inputs(trace: Path, name: str) -> set[str]:
        flow = Flow({"traces": str(trace), "exports": name}, tmp_path)
        return {Path(each).parent.name for each in Exports(flow, tmp_path)._files(name, trace)}

    assert {"cam", "_cam_pose", "_map"} <= inputs(renamed, "nerfstudio")
    assert not {"camera", "_camera_pose"} & inputs(renamed, "nerfstudio")
    assert {"_camera_pose", "camera_left", "_camera_left_pose"} <= inputs(several, "nerfstudio")
    assert {"_radar_range_azimuth", "_radar_rear_range_azimuth"} <= inputs(several, "rslearn")
    assert "_camera_left_pose" not in inputs(several, "kitti")
