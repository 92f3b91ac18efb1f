"""The files of the public recordings: their keys, shapes and meaning, and that nothing is ever overwritten."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rover_pipeline.cli import main
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import FormatError, InTheWayError, RoverError
from rover_pipeline.export.dataset import export_dataset
from rover_pipeline.export.roverp import describe
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, Sensor, SensorWriter
from rover_pipeline.table import find_step
from tests.export.rules import problems
from tests.kit import small_trace, snapshot, spec_of, write_odometry

FRAMES = 12
INVALID = (0, 5)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = small_trace(
        tmp_path_factory.mktemp("roverp") / "walk", FRAMES, sensors=("lidar", "radar", "camera"), invalid={}
    )
    write_odometry(path, invalid=INVALID)
    for step in ("_sync", "_radar_pose", "_camera_pose"):
        run_step(find_step(step), path, step, Request())
    labels = np.arange(FRAMES * 32 * 64).reshape(FRAMES, 32, 64) % 8
    specs = {TS: TS_SPEC, VALID: VALID_SPEC, "labels": spec_of(labels.astype("u1"))}
    with SensorWriter(path / "_camera_model", specs) as writer:
        ts = Sensor(path / "camera").channel(TS).read()
        writer.append(ts=ts, valid=np.ones(FRAMES, "u1"), labels=labels)
    (path / "_camera_model" / "classes.json").write_text(json.dumps(["ceiling", "flat"]))
    return path


def export(trace: Path, out: Path, **more: bool) -> Path:
    return export_dataset("roverp", [str(trace)], out, settings={}, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def exported(trace: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(trace, tmp_path_factory.mktemp("out") / "set")


def test_poses_have_the_keys_that_the_reader_takes_and_a_mask_over_the_raw_samples(exported: Path, trace: Path) -> None:
    for sensor, source in {"lidar": "_odom", "radar": "_radar_pose", "camera": "_camera_pose"}.items():
        pose, made = np.load(exported / f"_{sensor}" / "pose.npz"), Sensor(trace / source)
        valid = made.channel(VALID).read().astype(bool)
        assert pose["mask"].dtype == bool and np.array_equal(pose["mask"], valid) and 0 < valid.sum() < FRAMES
        assert np.array_equal(pose["t"], Sensor(trace / sensor).channel(TS).read()[valid])
        for name in ("pos", "vel", "acc", "rot"):
            assert pose[name].dtype == np.float64
            np.testing.assert_array_equal(pose[name], made.channel(name).read()[valid])
        assert {"smoothing", "start_threshold", "filter_size"} <= set(pose.files)


def test_the_trajectory_is_the_valid_poses_in_nanoseconds(exported: Path, trace: Path) -> None:
    with (exported / "_slam" / "trajectory.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    odom = Sensor(trace / "_odom")
    valid = odom.channel(VALID).read().astype(bool)
    stamps = np.array([int(row["field.header.stamp"]) for row in rows])
    np.testing.assert_allclose(stamps / 1e9, odom.channel(TS).read()[valid], rtol=0, atol=1e-6)
    pos = np.array([[float(row[f"field.transform.translation.{axis}"]) for axis in "xyz"] for row in rows])
    np.testing.assert_allclose(pos, odom.channel("pos").read()[valid], atol=1e-8)
    quaternions = [[float(row[f"field.transform.rotation.{axis}"]) for axis in "xyzw"] for row in rows]
    np.testing.assert_allclose(
        Rotation.from_quat(quaternions).as_matrix(), odom.channel("rot").read()[valid], atol=1e-7
    )


def test_matched_samples_are_those_of_sync_without_holes(exported: Path, trace: Path) -> None:
    matched, sync = np.load(exported / "_fusion" / "indices.npz"), Sensor(trace / "_sync")
    assert matched["sensors"].tolist() == ["lidar", "radar", "camera"] and matched["indices"].dtype == np.uint32
    for column, name in enumerate(matched["sensors"].tolist()):
        assert set(matched["indices"][:, column]) <= set(sync.channel(name).read())


def test_rows_with_a_raw_sample_that_is_not_valid_are_left_out(exported: Path, trace: Path, tmp_path: Path) -> None:
    other = shutil.copytree(trace, tmp_path / "other")
    valid = np.ones(FRAMES, "u1")
    valid[4:7] = 0
    valid.tofile(other / "radar" / "valid")
    for step in ("_sync", "_radar_pose"):
        run_step(find_step(step), other, step, Request())
    found = export(other, tmp_path / "out")
    usual, less = (np.load(each / "_fusion" / "indices.npz")["indices"] for each in (exported, found))
    assert 0 < len(less) < len(usual) and (less == usual[~np.isin(usual[:, 1], (4, 5, 6))]).all()


def test_labels_keep_their_classes_at_the_size_of_the_public_recordings(exported: Path, trace: Path) -> None:
    camera, labels = Sensor(exported / "_camera"), Sensor(trace / "_camera_model").channel("labels").read()
    segment = camera.channel("segment")
    assert segment.spec.shape == (160, 160) and segment.spec.format == "lzmaf" and len(segment) == FRAMES
    row, column = ((np.arange(160) + 0.5) * size / 160 for size in (32, 64))  # the middles of the new pixels
    assert np.array_equal(segment.read(), labels[:, row.astype(int)][:, :, column.astype(int)])
    assert json.loads((exported / "_camera" / "classes.json").read_text()) == ["ceiling", "flat"]


def test_into_the_recording_itself_it_only_adds_and_says_what_is_in_the_way(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "walk"
    shutil.copytree(trace, own)
    before = {path: path.read_bytes() for path in own.rglob("*") if path.is_file()}
    (own / "_radar").mkdir()
    (own / "_radar" / "pose.npz").write_bytes(b"published")
    with pytest.raises(InTheWayError, match=r"_radar/pose.npz: exists already with other content"):
        export(own, own, replace=True)
    assert not (own / "_lidar").exists() and (own / "_radar" / "pose.npz").read_bytes() == b"published"
    (own / "_radar" / "pose.npz").unlink()
    assert export(own, own) == own == export(own, own)
    assert all(path.read_bytes() == content for path, content in before.items())
    main(["check", str(own)])
    assert not any(name in capsys.readouterr().out for name in ("roverp", "_slam", "_fusion", "pose.npz"))
    odom = own / "_odom" / VALID
    odom.write_bytes(odom.read_bytes()[:-1] + b"\0")
    with pytest.raises(FormatError, match="_radar_pose was made from other bytes of _odom/valid"):
        export(own, own)
    for name in ("_radar_pose", "_camera_pose"):
        run_step(find_step(name), own, name, Request())
    with pytest.raises(InTheWayError, match="exists already with other content"):
        export(own, own)
    export(own, own, replace=True)
    assert np.load(own / "_lidar" / "pose.npz")["mask"].sum() == FRAMES - len(INVALID) - 1


@pytest.mark.parametrize("link", ["_slam", "_lidar/pose.npz", ".roverp", ".roverp/provenance.json", ".options-1"])
def test_nothing_is_written_through_a_link_in_the_recording(link: str, trace: Path, tmp_path: Path) -> None:
    own, outside = tmp_path / "walk", tmp_path / "outside"
    shutil.copytree(trace, own)
    outside.mkdir()
    (own / link).parent.mkdir(exist_ok=True)
    (own / link).symlink_to(outside / "new" if "/" in link or "options" in link else outside)
    before = snapshot(own)
    with pytest.raises(RoverError, match=link.partition("/")[0]):
        export_dataset("roverp", [str(own)], own, settings={}, stamp=".options-1")
    assert list(outside.iterdir()) == []
    if "options" not in link:
        assert snapshot(own) == before, "nothing was added"


def test_several_recordings_have_a_folder_each(trace: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(trace, tmp_path / "in" / name)
    out = export(tmp_path / "in", tmp_path / "out")
    assert sorted(path.name for path in out.iterdir()) == [".roverp", "a", "b"]
    assert not list(problems("roverp", out))


def test_check_finds_rotations_that_are_mirrored_and_times_that_are_no_seconds(exported: Path, tmp_path: Path) -> None:
    assert not list(problems("roverp", exported))
    assert set(describe(exported)["poses"]) == {"_camera", "_lidar", "_radar"}  # type: ignore[call-overload]
    copy = tmp_path / "set"
    shutil.copytree(exported, copy)
    arrays = dict(np.load(copy / "_lidar" / "pose.npz"))
    np.savez(copy / "_lidar" / "pose.npz", **{**arrays, "rot": arrays["rot"] * [1, -1, 1]})
    arrays = dict(np.load(copy / "_radar" / "pose.npz"))
    np.savez(copy / "_radar" / "pose.npz", **{**arrays, "t": arrays["t"] * 1e9})
    text = (copy / "_slam" / "trajectory.csv").read_text().replace("header.stamp", "stamp")
    (copy / "_slam" / "trajectory.csv").write_text(text)
    found = "\n".join(problems("roverp", copy))
    assert "no rotations" in found and "seconds since the epoch" in found and "no column field.header.stamp" in found


def test_a_sensor_without_its_pose_is_named(trace: Path, tmp_path: Path) -> None:
    shutil.copytree(trace, tmp_path / "walk", ignore=shutil.ignore_patterns("_radar_pose"))
    with pytest.raises(FormatError, match=r"needs the virtual sensor _radar_pose \(pos\).*--outputs radar_pose"):
        export(tmp_path / "walk", tmp_path / "out")
    assert not (tmp_path / "out").exists()
