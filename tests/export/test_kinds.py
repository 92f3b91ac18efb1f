"""Exports, pictures and the page work from a lidar and a radar that send points, or say in one line what is missing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import cKDTree

from rover_pipeline.datasets.options import RslearnOptions
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import FormatError
from rover_pipeline.export import ExportOptions, export
from rover_pipeline.export.dataset import export_dataset
from rover_pipeline.export.edgefirst.layout import LAYOUT
from rover_pipeline.export.mp4 import Picture, range_image_panel
from rover_pipeline.export.picture import save_picture
from rover_pipeline.export.recording import Recording
from rover_pipeline.export.rslearn.dataset import Ground, Slice
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.report.fleet import make_report
from rover_pipeline.table import find_step
from rover_pipeline.validation.check import problems
from tests.export.kinds import of_points
from tests.export.objects import write_objects
from tests.export.rules import problems as dataset_problems

SPLITS = {"block_s": 0.5, "gap_s": 0.1}


def made(trace: Path, *names: str) -> None:
    for name in names:
        if not (trace / name).exists():
            run_step(find_step(name), trace, name, Request())


@pytest.fixture(scope="module")
def images(drive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace = tmp_path_factory.mktemp("kinds") / "walk"
    shutil.copytree(drive, trace)
    made(trace, "_lidar_image", "_radar_points", "_sync", "_camera_pose", "_camera_depth", "_radar_pose")
    write_objects(trace)
    return trace


@pytest.fixture(scope="module")
def points(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace = of_points(images, tmp_path_factory.mktemp("kinds") / "points" / "walk")
    made(trace, "_radar_points", "_radar_velocity", "_radar_pose", "_sync", "_camera_pose", "_camera_depth")
    write_objects(trace)
    return trace


def test_a_recording_of_points_is_whole_and_its_radar_has_velocities_and_poses(points: Path, images: Path) -> None:
    of_tests = ("/_odom", "/_objects")  # which no step has made
    assert [line for line in problems(points) if not any(name in line for name in of_tests)] == []
    velocity, truth = Sensor(points / "_radar_velocity"), Sensor(points / "_truth_radar")
    valid = velocity.valid(velocity.length()).astype(bool)
    wanted = truth.channel("ego_vel").read()
    assert valid.mean() > 0.5
    apart = np.linalg.norm((velocity.channel("vel").read() - wanted)[valid], axis=1)
    assert np.median(apart) < 0.15
    pose = Sensor(points / "_radar_pose")
    assert pose.valid(pose.length()).mean() > 0.9


def test_the_ground_from_above_is_the_same_from_points_as_from_images(images: Path, points: Path) -> None:
    options = RslearnOptions(radar=False, objects=False, every=4)
    layers = []
    for trace in (images, points):
        ground = Ground(Recording.of(trace), options, {})
        layers.append(ground.rasters(Slice(0, ground.numbers[:12], 0), 1))
    (extent, one), (other_extent, other) = layers
    assert extent == other_extent
    for name, wrong in (("occupancy", 1), ("height", 0.05)):
        both = (one[name] != one[name][0, 0]) & (other[name] != one[name][0, 0])
        assert both.sum() > 500
        assert np.mean(np.abs(one[name][both].astype("f8") - other[name][both]) > wrong) < 0.05, name
    seen = [(each["occupancy"] > 50) & (each["occupancy"] <= 100) for each in (one, other)]
    assert (seen[0] & seen[1]).sum() > 0.95 * (seen[0] | seen[1]).sum()


def test_a_sample_of_edgefirst_has_the_same_cloud_and_a_note_for_each_file_that_is_left_out(
    images: Path, points: Path, tmp_path: Path
) -> None:
    settings = {"splits": SPLITS, "options": {"every": 8, "zip": False}}
    clouds = []
    for trace in (images, points):
        out = export_dataset("edgefirst", [str(trace)], tmp_path / trace.parent.name / "rooms", settings=settings)
        assert dataset_problems("edgefirst", out) == []
        found = {path.name: path for path in (out / "rooms").rglob("*.lidar.pcd")}
        clouds.append(LAYOUT.read("lidar.pcd", found[min(found)]))
    ours, theirs = clouds
    assert ours and theirs
    (one, two) = (np.stack([each[axis] for axis in "xyz"], -1) for each in (ours, theirs))
    distance, nearest = cKDTree(one).query(two)
    assert len(one) == len(two) and distance.max() < 0.002
    share = np.mean(ours["intensity"][nearest] == theirs["intensity"])
    assert share > 0.95  # an intensity is a share of the scale that the points have
    kinds = {path.name.split(".", 1)[1] for path in (out / "rooms").rglob("*_*.*") if path.is_file()}
    assert kinds == {"camera.jpeg", "depth.png", "lidar.pcd"}
    notes = (read_provenance(out) or {})["notes"]
    assert any("lidar.png and lidar.jpeg are left out: the lidar is points" in note for note in notes)
    assert any("radar.png and radar.pcd are left out: the radar is points" in note for note in notes)


def test_the_preview_and_the_page_show_the_ranges_of_points_as_those_of_an_image(
    images: Path, points: Path, tmp_path: Path
) -> None:
    time = float(Sensor(points / "lidar").channel("ts").read()[10])
    panels = [range_image_panel(Recording.of(trace)) for trace in (images, points)]
    one, other = (panel(time, 640, 64).astype(int) for panel in panels if panel)
    both = one.any(axis=2) & other.any(axis=2)
    assert both.mean() > 0.3
    apart, mirrored = (np.abs(each - other).max(axis=2)[both] for each in (one, one[:, ::-1]))
    assert np.median(apart) < 12 and mirrored.mean() > 2 * apart.mean()
    begin = float(Sensor(points / "radar").channel("ts").read()[0])
    assert np.abs(Picture(points, begin)(time).astype(int) - Picture(images, begin)(time)).mean() < 12
    page = make_report(points)
    assert "range, near is red" in page.read_text()


def test_pictures_clouds_and_trajectories_are_made_of_points(points: Path, tmp_path: Path) -> None:
    for name in ("radar", "lidar", "radar_points", "radar_velocity", "radar_pose"):
        save_picture(points, name, tmp_path / f"{name}.png", frame=5)
        assert (tmp_path / f"{name}.png").stat().st_size > 8000
    (written,) = export("ply", [str(points)], tmp_path / "clouds", ExportOptions(every=10))
    assert len(list(written.iterdir())) >= 2
    without = tmp_path / "radar only"
    shutil.copytree(points, without, ignore=shutil.ignore_patterns("lidar", "_*", "camera"))
    made(without, "_radar_points")
    (written,) = export("ply", [str(without)], tmp_path / "radar", ExportOptions(every=10))
    assert len(list(written.iterdir())) >= 2
    for format in ("rrd", "mp4"):
        (written,) = export(format, [str(without)], tmp_path / f"x.{format}", ExportOptions(every=10))
        assert written.stat().st_size > 5000


def test_datasets_of_objects_and_poses_do_not_ask_what_the_lidar_is(points: Path, tmp_path: Path) -> None:
    options: dict[str, dict[str, object]] = {"l5kit": {"min_frames": 2}, "mda": {}, "roverp": {}}
    for name, chosen in {**options, "nerfstudio": {"points": 0}}.items():
        settings: dict[str, object] = {"options": chosen, **({} if name == "roverp" else {"splits": SPLITS})}
        assert export_dataset(name, [str(points)], tmp_path / name, settings=settings).is_dir()


def test_what_needs_an_image_or_samples_says_so_in_one_line(points: Path, tmp_path: Path) -> None:
    for sensor, message in (
        ("lidar", r"needs _lidar_image \(rng\), which cannot be made: the recording has a lidar of points"),
        ("radar", r"needs _radar_range_azimuth \(power\), which cannot be made: the recording has a radar of points"),
    ):
        with pytest.raises(FormatError, match=message):
            export_dataset("mda", [str(points)], tmp_path / sensor, settings={"options": {"sensor": sensor}})
    assert json.loads((points / "radar" / "points.json").read_text())["source"] == "a test"
