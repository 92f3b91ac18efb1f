"""Rerun recordings of a trace, opened again by Rerun."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import simplejpeg

from rover_pipeline.errors import FormatError
from rover_pipeline.export import ExportOptions
from rover_pipeline.export.recording import Recording
from rover_pipeline.export.rrd import write
from rover_pipeline.export.samples import find_sweeps
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.trace import CONFIG
from tests.export.example import FRAMES, INVALID, example_trace
from tests.kit import small_trace, times

rerun = pytest.importorskip("rerun")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return example_trace(tmp_path_factory.mktemp("rrd") / "trace")


def read_recording(path: Path) -> dict[str, list[Any]]:
    """Record batches by entity."""
    recording = rerun.recording.load_recording(path)
    assert [column.name for column in recording.schema().index_columns()] in ([], ["time"])
    batches: dict[str, list[Any]] = {}
    for chunk in recording.chunks():
        batches.setdefault(chunk.entity_path.lstrip("/"), []).append(chunk.to_record_batch())
    return batches


def rows(batches: list[Any], component: str) -> list[Any]:
    """(time, value) of one component of an entity in order of time; static values come first."""
    timed = []
    for batch in batches:
        if component in batch.schema.names:
            stamps = batch.column("time").cast("int64").to_pylist() if "time" in batch.schema.names else [0]
            timed += list(zip(stamps, batch.column(component).to_pylist(), strict=True))
    return sorted(timed, key=lambda row: row[0])


def seconds(timed: list[Any]) -> np.ndarray:
    return np.array([stamp for stamp, _ in timed]) / 1e9


def valid_samples(sensor: str) -> np.ndarray:
    return np.array([i for i in range(FRAMES) if i not in INVALID.get(sensor, ())])


def test_the_bar_counts_the_sensors_of_the_recording_up_to_its_end(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bars = []

    @contextmanager
    def shown(label: str, total: int, unit: str) -> Iterator[Callable[[int], object]]:
        done: list[int] = []
        yield done.append
        bars.append((label, unit, total, sum(done)))

    monkeypatch.setattr("rover_pipeline.export.rrd.progress", shown)
    write(trace, tmp_path / "out.rrd", ExportOptions())
    ((label, unit, total, done),) = bars
    assert label == "export rrd trace" and unit == "sensor" and done == total > 1


def test_every_sensor_is_there_at_the_times_of_its_valid_samples(trace: Path, tmp_path: Path) -> None:
    write(trace, tmp_path / "x.rrd", ExportOptions())
    entities = read_recording(tmp_path / "x.rrd")
    for entity, component, sensor in (
        ("world/lidar/points", "Points3D:positions", "lidar"),
        ("world/lidar/camera/image", "EncodedImage:blob", "camera"),
        ("radar/range_doppler", "Tensor:data", "radar"),
        ("radar/range_azimuth", "Tensor:data", "radar"),
        ("world/lidar/radar/points", "Points3D:positions", "radar"),
        ("world/lidar", "Transform3D:translation", "odom"),
        ("imu/acc_m_s2/z", "Scalars:scalars", "imu"),
        ("imu/avel_rad_s/x", "Scalars:scalars", "imu"),
    ):
        np.testing.assert_allclose(
            seconds(rows(entities[entity], component)), times(FRAMES)[valid_samples(sensor)], rtol=0, atol=1e-6
        )
    assert {"world", "world/trajectory", "world/lidar/radar", "world/lidar/camera", "odom/vel_m_s/x"} <= set(entities)


def verified(path: Path) -> str:
    """What Rerun's own program says of a file; empty when it finds nothing wrong."""
    program = Path(sys.executable).with_name("rerun")
    done = subprocess.run([program, "rrd", "verify", path], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_reruns_own_program_finds_nothing_wrong_with_a_file(trace: Path, tmp_path: Path) -> None:
    write(trace, tmp_path / "x.rrd", ExportOptions())
    assert verified(tmp_path / "x.rrd") == ""
    write(small_trace(tmp_path / "trace", sensors=("imu",)), tmp_path / "y.rrd", ExportOptions())
    assert verified(tmp_path / "y.rrd") == ""
    with (tmp_path / "y.rrd").open("r+b") as file:
        file.truncate(2000)
    assert verified(tmp_path / "y.rrd"), "it would find a damaged one"


def test_a_full_disk_is_an_error_and_no_hang(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        write(trace, Path("/dev/full"), ExportOptions())
    with pytest.raises(OSError, match="No such file"):
        write(trace, tmp_path / "absent" / "x.rrd", ExportOptions())


def test_values_are_those_of_the_trace(trace: Path, tmp_path: Path) -> None:
    write(trace, tmp_path / "x.rrd", ExportOptions(max_points=None))
    entities = read_recording(tmp_path / "x.rrd")
    video: Any = Sensor(trace / "camera").channel("video.avi")
    blobs = [
        np.array(row[1][0], "u1").tobytes() for row in rows(entities["world/lidar/camera/image"], "EncodedImage:blob")
    ]
    assert blobs == [video.jpeg(int(i)) for i in valid_samples("camera")]

    sweeps = find_sweeps(Recording.of(trace))
    assert sweeps is not None
    points = [np.array(row[1]) for row in rows(entities["world/lidar/points"], "Points3D:positions")]
    for at, cloud in enumerate(points):
        expected = sweeps.points(at)
        assert expected is not None
        np.testing.assert_allclose(cloud, expected, atol=1e-6)
    ranges = Sensor(trace / "lidar").channel("rng").read()[valid_samples("lidar")]
    assert [len(cloud) for cloud in points] == [int(((r > 0) & (r < 65535)).sum()) for r in ranges]

    power = Sensor(trace / "_radar_range_doppler").channel("power").read()[valid_samples("radar")]
    tensors = [row[1][0] for row in rows(entities["radar/range_doppler"], "Tensor:data")]
    assert tensors[0]["names"] == ["doppler", "range"]
    assert [tensor["shape"] for tensor in tensors] == [list(power.shape[1:])] * len(power)
    np.testing.assert_array_equal(np.array([tensor["buffer"] for tensor in tensors]).ravel(), power.ravel())

    acc = Sensor(trace / "imu").channel("acc").read()
    z = [row[1][0] for row in rows(entities["imu/acc_m_s2/z"], "Scalars:scalars")]
    np.testing.assert_array_equal(z, acc[:, 2].astype("f8"))
    count = Sensor(trace / "_radar_points").channel("count").read()[valid_samples("radar")]
    dots = rows(entities["world/lidar/radar/points"], "Points3D:positions")
    assert [len(row[1] or ()) for row in dots] == count.tolist()


def test_poses_carry_lidar_coordinates_to_the_world(trace: Path, tmp_path: Path) -> None:
    write(trace, tmp_path / "x.rrd", ExportOptions())
    batches = read_recording(tmp_path / "x.rrd")["world/lidar"]
    rot = Sensor(trace / "_odom").channel("rot").read()
    columns = np.array([row[1][0] for row in rows(batches, "Transform3D:mat3x3")])  # column by column
    np.testing.assert_allclose(columns.reshape(-1, 3, 3).transpose(0, 2, 1), rot, atol=1e-6)


def test_options_leave_out_samples_and_points_and_shrink_pictures(trace: Path, tmp_path: Path) -> None:
    write(trace, tmp_path / "x.rrd", ExportOptions(every=2, max_points=64, width=16))
    entities = read_recording(tmp_path / "x.rrd")
    points = rows(entities["world/lidar/points"], "Points3D:positions")
    assert len(points) == 3 and all(20 < len(row[1]) <= 64 for row in points)
    blobs = [np.array(row[1][0], "u1") for row in rows(entities["world/lidar/camera/image"], "EncodedImage:blob")]
    assert [simplejpeg.decode_jpeg(blob.tobytes()).shape for blob in blobs] == [(11, 16, 3)] * 3
    assert len(rows(entities["imu/acc_m_s2/z"], "Scalars:scalars")) == FRAMES


def test_the_camera_looks_ahead_through_its_own_lens(trace: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(trace, tmp_path / "trace"))
    (copy / "camera" / "camera.json").write_text(json.dumps({"fx": 20.0, "fy": 21.0, "cx": 11.5, "cy": 7.5}))
    write(copy, tmp_path / "x.rrd", ExportOptions())
    batches = read_recording(tmp_path / "x.rrd")["world/lidar/camera/image"]
    matrix = np.array(rows(batches, "Pinhole:image_from_camera")[0][1][0]).reshape(3, 3).T
    np.testing.assert_allclose(matrix, np.array([[20, 0, 11.5], [0, 21, 7.5], [0, 0, 1]]))
    assert rows(batches, "Pinhole:camera_xyz")[0][1][0] == list(rerun.ViewCoordinates.FLU.coordinates)


def test_pictures_of_a_distorted_lens_are_straightened_as_the_viewer_knows_only_pinholes(
    trace: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(trace, tmp_path / "trace"))
    lens = {"fx": 9.0, "fy": 9.0, "cx": 11.5, "cy": 7.5, "k": [0.0, 0.01, 0.0, -0.02], "p": [0, 0]}
    stored = Sensor(copy / "camera").channel("video.avi").read()
    (copy / "camera" / "camera.json").write_text(json.dumps(lens))
    write(copy, tmp_path / "x.rrd", ExportOptions())
    batches = read_recording(tmp_path / "x.rrd")["world/lidar/camera/image"]
    found = simplejpeg.decode_jpeg(np.array(rows(batches, "EncodedImage:blob")[0][1][0], "u1").tobytes())
    matrix = np.array([[9.0, 0, 11.5], [0, 9.0, 7.5], [0, 0, 1]])
    expected = cv2.fisheye.undistortImage(stored[0], matrix, np.array(lens["k"]), Knew=matrix)
    bent, straight = (np.abs(found.astype("f8") - other).mean() for other in (stored[0], expected))
    assert straight < 0.5 * bent


def test_a_recording_holds_only_what_the_trace_has(tmp_path: Path) -> None:
    write(small_trace(tmp_path / "trace", sensors=("imu",)), tmp_path / "x.rrd", ExportOptions())
    assert {entity.split("/")[0] for entity in read_recording(tmp_path / "x.rrd")} == {"__properties", "world", "imu"}
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / CONFIG).touch()
    with pytest.raises(FormatError, match=r"empty: has no sensor that can be shown"):
        write(empty, tmp_path / "y.rrd", ExportOptions())


def test_a_sample_that_cannot_be_decoded_is_left_out_and_counted(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(trace, tmp_path / "trace"))
    index = np.fromfile(copy / "lidar" / "rng_i", "<u8").astype(int)
    data = bytearray((copy / "lidar" / "rng").read_bytes())
    data[index[3] + 40] ^= 0xFF
    (copy / "lidar" / "rng").write_bytes(data)
    write(copy, tmp_path / "x.rrd", ExportOptions())
    points = rows(read_recording(tmp_path / "x.rrd")["world/lidar/points"], "Points3D:positions")
    np.testing.assert_allclose(seconds(points), times(FRAMES)[[0, 2, 4, 5]], rtol=0, atol=1e-6)
    assert "left out: 1 sample that cannot be decoded" in capsys.readouterr().err
