"""KITTI's odometry layout as its readers see it: kiss-icp's loader for the sequences, evo for the poses."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from evo.tools import file_interface
from kiss_icp.datasets.kitti import KITTIOdometryDataset
from scipy.spatial import cKDTree

from rover_pipeline.export.dataset import export_dataset
from rover_pipeline.export.kitti import LAYOUT, describe
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.importers.points import Cloud, PointsWriter
from rover_pipeline.lidar.geometry import returns, sensor_info, sweep_span
from tests.export.rules import problems

#: Splits of a recording of some seconds.
SETTINGS = {"splits": {"block_s": 0.5, "gap_s": 0.2}}


@pytest.fixture(scope="module")
def exported(drive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_dataset("kitti", [str(drive)], tmp_path_factory.mktemp("kitti") / "set", settings=SETTINGS)


def misfit(folder: Path) -> float:
    """Median distance of a sweep's points from those of five sweeps before, in the world, m; by kiss-icp's loader."""
    dataset = KITTIOdometryDataset(folder, "0")
    clouds = []
    for at in (5, 10, 15, 20):
        points = np.fromfile(dataset.scan_files[at], "<f4").reshape(-1, 4)[:, :3].astype("f8")
        clouds.append(points @ dataset.gt_poses[at][:3, :3].T + dataset.gt_poses[at][:3, 3])
    pairs = itertools.pairwise(clouds)
    return float(np.median(np.concatenate([cKDTree(one).query(other[::7])[0] for one, other in pairs])))


def test_kiss_icp_reads_the_poses_times_and_sweeps_that_the_truth_has(exported: Path, drive: Path) -> None:
    dataset, truth = KITTIOdometryDataset(exported, "0"), Sensor(drive / "_truth")
    pos, rot, ts = (truth.channel(name).read() for name in ("pos", "rot", "ts"))
    assert len(dataset) == len(ts) == len(dataset.gt_poses)
    np.testing.assert_allclose(dataset.gt_poses[:, :3, 3], (pos - pos[0]) @ rot[0], atol=1e-5)
    np.testing.assert_allclose(dataset.gt_poses[:, :3, :3], rot[0].T @ rot, atol=1e-5)
    np.testing.assert_allclose(dataset.get_frames_timestamps()[:, 0], ts - ts[0], atol=1e-5)
    points, _ = dataset[3]  # with the correction of KITTI's own lidar, which the loader applies to all
    assert len(points) > 1000 and 0.5 < np.linalg.norm(points, axis=1).mean() < 20


def test_a_lidar_that_is_points_gives_the_same_sequence(exported: Path, drive: Path, tmp_path: Path) -> None:
    trace = tmp_path / "points"
    shutil.copytree(drive, trace, ignore=shutil.ignore_patterns("lidar", "_lidar*", "_map", "radar", "camera"))
    lidar, text = Sensor(drive / "lidar"), (drive / "lidar" / "lidar.json").read_text()
    count, columns = lidar.length(), lidar.specs["rng"].shape[1]
    begin, period = sweep_span(sensor_info(text), "end")
    with PointsWriter(trace / "lidar") as writer:
        for number, (ts, valid) in enumerate(zip(lidar.times(count), lidar.valid(count), strict=True)):
            points, column = returns(lidar.channel("rng").read(number, number + 1)[0], text)
            writer.append(ts, Cloud(points, time=begin + period * column / columns), valid=bool(valid))
    found = export_dataset("kitti", [str(trace)], tmp_path / "set", settings=SETTINGS)
    for name in ("000000.bin", "000007.bin"):
        one, two = (
            np.fromfile(folder / "sequences" / "00" / "velodyne" / name, "<f4").reshape(-1, 4)[:, :3]
            for folder in (exported, found)
        )
        assert len(one) == len(two)
        assert cKDTree(one).query(two)[0].max() < 0.002  # instants of points are rounded to 0.1 ms


def test_sweeps_of_points_without_times_are_noted_and_points_with_damaged_ones_left_out(
    drive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lidar, text = Sensor(drive / "lidar"), (drive / "lidar" / "lidar.json").read_text()
    begin, period = sweep_span(sensor_info(text), "end")
    for timed in (True, False):
        trace = tmp_path / f"{timed}"
        shutil.copytree(drive, trace, ignore=shutil.ignore_patterns("lidar", "_lidar*", "_map", "radar", "camera"))
        with PointsWriter(trace / "lidar") as writer:
            for number, ts in enumerate(lidar.times(lidar.length())):
                points, column = returns(lidar.channel("rng").read(number, number + 1)[0], text)
                times = begin + period * column / lidar.specs["rng"].shape[1]
                times[:3] = np.nan
                writer.append(ts, Cloud(points, time=times if timed else None), valid=True)
        found = export_dataset("kitti", [str(trace)], tmp_path / f"set{timed}", settings=SETTINGS)
        rows = np.fromfile(found / "sequences" / "00" / "velodyne" / "000003.bin", "<f4").reshape(-1, 4)
        assert np.isfinite(rows).all() and not problems("kitti", found)
        assert ("the points of the lidar have no times" in capsys.readouterr().err) != timed


def test_evo_reads_poses_of_a_camera_that_looks_along_its_third_axis(exported: Path, drive: Path) -> None:
    poses = file_interface.read_kitti_poses_file(exported / "poses" / "00.txt")
    assert poses.check()[0]
    truth = Sensor(drive / "_truth_camera")
    way = np.diff(truth.channel("pos").read()[[0, -1]], axis=0)[0]
    right, down, front = (truth.channel("rot").read()[0] @ np.array([[0, 0, 1], [-1, 0, 0], [0, -1, 0.0]])).T
    moved = poses.positions_xyz[-1] - poses.positions_xyz[0]
    np.testing.assert_allclose(moved, [way @ right, way @ down, way @ front], atol=0.15)
    assert abs(moved[2]) > 0.3


def swap_bytes(scan: Path) -> None:
    np.fromfile(scan, "<f4").astype(">f4").tofile(scan)


def mirror(scan: Path) -> None:
    points = np.fromfile(scan, "<f4").reshape(-1, 4)
    points[:, 1] *= -1
    points.tofile(scan)


def test_sweeps_fit_one_another_and_not_when_an_axis_is_mirrored(exported: Path, tmp_path: Path) -> None:
    good = misfit(exported)
    assert good < 0.06
    assert misfit(damaged(exported, tmp_path / "mirrored", mirror)) > 1.5 * good


def test_each_sweep_has_the_returns_that_the_lidar_had_at_its_time_and_no_other(exported: Path, drive: Path) -> None:
    lidar = Sensor(drive / "lidar")
    times = np.loadtxt(exported / "sequences" / "00" / "times.txt") + lidar.channel("ts").read()[0]
    for at, scan in enumerate(sorted((exported / "sequences" / "00" / "velodyne").iterdir())):
        sample = int(np.argmin(np.abs(lidar.channel("ts").read() - times[at])))
        ranges, reflectivity = (lidar.channel(name).read(sample, sample + 1)[0] for name in ("rng", "rfl"))
        points, returns = np.fromfile(scan, "<f4").reshape(-1, 4), (ranges > 0) & (ranges < 65535)
        assert len(points) == returns.sum()
        assert np.array_equal(np.round(points[:, 3] * 255), reflectivity[returns])
        far = np.linalg.norm(points[:, :3], axis=1) - ranges[returns] / 1000
        assert np.abs(np.median(far)) < 0.05 and np.abs(far).max() < 0.3  # a sweep of a walker moves by some cm


def damaged(folder: Path, copy: Path, damage: Callable[[Path], None]) -> Path:
    shutil.copytree(folder, copy)
    for scan in sorted((copy / "sequences" / "00" / "velodyne").iterdir()):
        damage(scan)
    return copy


def test_check_passes_it_and_finds_other_byte_orders_counts_and_frames(exported: Path, tmp_path: Path) -> None:
    assert problems("kitti", exported) == []
    assert "is the byte order right?" in problems("kitti", damaged(exported, tmp_path / "bytes", swap_bytes))[0]
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    (copy / "sequences" / "00" / "velodyne" / "000004.bin").unlink()
    text = "\n".join(problems("kitti", copy))
    assert "not numbered" in text and "times.txt: must hold a time" in text and "poses" in text
    calib = copy / "sequences" / "00" / "calib.txt"
    lines = calib.read_text().splitlines()
    calib.write_text("\n".join([*lines[:4], "Tr: 1 0 0 0 0 1 0 0 0 0 1 0"]) + "\n")
    assert any("does not take the lidar's front" in line for line in problems("kitti", copy))


def test_splits_name_sweeps_and_leave_gaps(exported: Path) -> None:
    splits = describe(exported)["splits"]
    assert isinstance(splits, dict) and splits["train"] > 0 and 0 < sum(splits.values()) < 24


def test_times_of_long_recordings_are_known_to_some_microseconds() -> None:
    times = np.array([[0.0], [0.1], [3600.123456], [36000.100001]])
    content = LAYOUT["times"].content
    np.testing.assert_allclose(content.decode(content.encode(times)), times, rtol=0, atol=5e-6)
