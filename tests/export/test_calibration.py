"""Exported calibrations: independent readers project the same points to the same pixels."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml
from scipy.spatial.transform import Rotation

from rover_pipeline.errors import RoverError
from rover_pipeline.export import ExportOptions, export
from rover_pipeline.validation.rig import camera_lens, sensor_mount


@pytest.fixture(scope="module")
def files(drive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("calibration") / "out"
    export("calibration", [str(drive)], out, ExportOptions())
    return out


def pixels(trace: Path, points: np.ndarray) -> np.ndarray:
    """Where the camera of a recording sees points in the lidar frame, (N, 2)."""
    mount, lens = sensor_mount(trace, "camera"), camera_lens(trace)
    ahead, left, up = ((points - mount.translation) @ mount.rotation).T
    return np.stack(lens.pixels(-left / ahead, -up / ahead), axis=1)


POINTS = np.array([[4.0, 0.3, 0.2], [6.0, -1.5, 0.4], [9.0, 2.0, -1.0]])


def test_kalibr_and_nuscenes_put_points_where_the_camera_sees_them(drive: Path, files: Path) -> None:
    camera = yaml.safe_load((files / "kalibr_camchain.yaml").read_text())["cam0"]
    poses = {each["sensor_token"]: each for each in json.loads((files / "calibrated_sensor.json").read_text())}
    w, x, y, z = poses["camera"]["rotation"]
    seen = (POINTS - poses["camera"]["translation"]) @ Rotation.from_quat([x, y, z, w]).as_matrix()
    fx, fy, cx, cy = camera["intrinsics"]
    matrix = np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])
    np.testing.assert_allclose(poses["camera"]["camera_intrinsic"], matrix)
    assert camera["distortion_model"] == "equidistant"
    found = cv2.fisheye.projectPoints(
        seen[None], np.zeros(3), np.zeros(3), matrix, np.array(camera["distortion_coeffs"])
    )
    np.testing.assert_allclose(found[0][0], pixels(drive, POINTS), atol=0.01)
    imu = sensor_mount(drive, "imu")
    in_imu = (POINTS - imu.translation) @ imu.rotation
    from_imu = np.array(camera["T_cam_imu"])
    np.testing.assert_allclose(in_imu @ from_imu[:3, :3].T + from_imu[:3, 3], seen, atol=1e-9)


def test_kitti_and_ros_put_points_where_a_straightened_picture_shows_them(drive: Path, files: Path) -> None:
    rows = dict(line.split(": ") for line in (files / "camera_calib.txt").read_text().splitlines())
    p2, rect, lidar = (
        np.array(rows[name].split(), "f8").reshape(3, -1) for name in ("P2", "R0_rect", "Tr_velo_to_cam")
    )
    seen = (rect @ (lidar[:, :3] @ POINTS.T + lidar[:, 3:])).T
    straight = (p2 @ np.column_stack([seen, np.ones(3)]).T).T
    info = yaml.safe_load((files / "camera_camera_info.yaml").read_text())
    matrix = np.array(info["camera_matrix"]["data"]).reshape(3, 3)
    bent = cv2.fisheye.distortPoints(
        (seen[:, :2] / seen[:, 2:])[None], matrix, np.array(info["distortion_coefficients"]["data"])
    )
    np.testing.assert_allclose(bent[0], pixels(drive, POINTS), atol=0.01)
    np.testing.assert_allclose(
        straight[:, :2] / straight[:, 2:], seen[:, :2] / seen[:, 2:] @ matrix[:2, :2] + matrix[:2, 2]
    )
    assert [info["image_width"], info["image_height"]] == [camera_lens(drive).width, camera_lens(drive).height]


def test_tf_static_has_the_pose_of_each_sensor_in_the_lidar_frame(drive: Path, files: Path) -> None:
    for each in yaml.safe_load((files / "tf_static.yaml").read_text())["transforms"]:
        name, rotation = each["child_frame_id"], [each["transform"]["rotation"][axis] for axis in "xyzw"]
        mount = sensor_mount(drive, name)
        np.testing.assert_allclose([*each["transform"]["translation"].values()], mount.translation)
        axes = Rotation.from_quat(rotation).as_matrix()
        ahead = axes[:, 2] if name == "camera" else axes[:, 0]
        np.testing.assert_allclose(ahead, mount.rotation[:, 0], atol=1e-12)


def test_files_without_a_place_for_the_distortion_of_a_lens_are_named(
    drive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export("calibration", [str(drive)], tmp_path / "out", ExportOptions())
    assert "camera_calib.txt and calibrated_sensor.json have no place for the distortion" in capsys.readouterr().err


def test_a_further_lidar_that_the_recording_states_the_pose_of_has_it(drive: Path, tmp_path: Path) -> None:
    trace = tmp_path / "two"
    shutil.copytree(drive, trace)
    shutil.copytree(drive / "lidar", trace / "lidar_rear")
    config = yaml.safe_load((trace / "config.yaml").read_text())
    turned = {"translation": [-1.9, 0.35, -0.6], "rotation": np.diag([-1.0, -1.0, 1.0]).tolist()}
    rig = config["rig"] | {"lidar_rear": turned}
    (trace / "config.yaml").write_text(yaml.safe_dump({**config, "lidar_rear": config["lidar"], "rig": rig}))
    export("calibration", [str(trace)], tmp_path / "out", ExportOptions())
    poses = json.loads((tmp_path / "out" / "calibrated_sensor.json").read_text())
    (rear,) = (each for each in poses if each["sensor_token"] == "lidar_rear")
    assert rear["translation"] == turned["translation"]
    (trace / "_odom").mkdir(exist_ok=True)
    made = {"made_by": "rover_pipeline", "sensors": {"lidar": "lidar_rear"}}
    (trace / "_odom" / "provenance.json").write_text(json.dumps(made))
    export("calibration", [str(trace)], tmp_path / "of_rear", ExportOptions())
    for each in yaml.safe_load((tmp_path / "of_rear" / "tf_static.yaml").read_text())["transforms"]:
        assert each["header"]["frame_id"] == "lidar_rear"
        if each["child_frame_id"] == "lidar":  # the rear one is turned by half a turn
            np.testing.assert_allclose([*each["transform"]["translation"].values()], [-1.9, 0.35, 0.6], atol=1e-9)
    np.testing.assert_allclose(np.abs(rear["rotation"]), [0, 0, 0, 1], atol=1e-12)
    frames = [
        each["child_frame_id"]
        for each in yaml.safe_load((tmp_path / "out" / "tf_static.yaml").read_text())["transforms"]
    ]
    assert "lidar_rear" in frames


def test_a_recording_without_mounts_is_refused_in_one_line(drive: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(drive, bare, ignore=shutil.ignore_patterns("_*", "config.yaml"))
    with pytest.raises(RoverError, match="nothing says where its sensors are"):
        export("calibration", [str(bare)], tmp_path / "out", ExportOptions())
