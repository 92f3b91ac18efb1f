"""`_reference`, the poses that came with a recording, has one writer, whatever they came from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from rover_pipeline.format.provenance import is_source, read_provenance
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.importers.reference import REFERENCE, write_reference
from rover_pipeline.importers.ros.sinks import ReferenceSink
from tests.conftest import CHECKOUT

START = 1.7e9
POSES = np.array([[1, 2, 3, 0, 0, 0, 1], [1, 2, 4, 0, 0, 1, 0], [2, 2, 4, 0, 0, 0, 0]], "f8")


def test_poses_of_a_topic_and_of_a_file_become_the_same_sensor(tmp_path: Path) -> None:
    sink = ReferenceSink(tmp_path / "bag", "lidar", None, {"source": "poses"}, {})
    ts = START + np.arange(3.0)
    for time, pose in zip(ts, POSES, strict=True):
        sink.add(round(time * 1e9), {"pose": pose})
    sink.close()
    rot = np.concatenate([Rotation.from_quat(POSES[:2, 3:]).as_matrix(), np.full((1, 3, 3), np.nan)])
    pos = np.concatenate([POSES[:2, :3], np.full((1, 3), np.nan)])
    states = {"pos": pos, "rot": rot}
    assert write_reference(tmp_path / "file", ts, states, command="import ros", source="poses") == 3
    made, wanted = tmp_path / "bag" / REFERENCE, tmp_path / "file" / REFERENCE
    assert {path.name: path.read_bytes() for path in made.iterdir()} == {
        path.name: path.read_bytes() for path in wanted.iterdir()
    }
    assert Sensor(made).valid(3).tolist() == [1, 1, 0]


def test_a_mirrored_rotation_is_no_pose_and_the_body_of_the_poses_is_named(tmp_path: Path) -> None:
    rot = np.stack([np.eye(3), np.diag([1.0, 1, -1]), 2 * np.eye(3)])
    states = {"pos": np.zeros((3, 3)), "rot": rot, "vel": np.zeros((3, 3))}
    write_reference(tmp_path, START + np.arange(3.0), states, command="import kitti", source="oxts", body="imu")
    reference = Sensor(tmp_path / REFERENCE)
    assert reference.valid(3).tolist() == [1, 0, 0]
    assert "imu" in str(reference.specs["vel"].desc)
    provenance = read_provenance(reference.path)
    assert provenance and is_source(provenance)
    assert provenance["options"] == {"source": "oxts", "body": "imu"}


def test_one_module_writes_the_reference() -> None:
    importers = CHECKOUT / "rover_pipeline" / "importers"
    named = {str(path.relative_to(importers)) for path in importers.rglob("*.py") if "of_source" in path.read_text()}
    assert named == {"reference.py"}
