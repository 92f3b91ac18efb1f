"""evalio runs the odometry on sweeps that its own loader reads, and gets the poses of the command line."""

from __future__ import annotations

import csv
import sysconfig
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.spatial.transform import Rotation

from rover_pipeline.cli import main
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.lidar.spin import share_of_turn
from tests.conftest import CHECKOUT
from tests.consumers.environments import consume, consumer_python
from tests.importers import bags
from tests.importers.bags import START, Sent, cloud, header, quaternion, vector

pytestmark = pytest.mark.consumers

#: The oldest evalio that the manual names.
REQUIREMENTS = ("evalio==0.6.0", f"numpy=={np.__version__}")
COUNT, TENTH = 12, 100_000_000
IMU_FROM_LIDAR = np.array([0.81, -0.32, 0.8])


@pytest.fixture(scope="module")
def bag(captures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sweeps of a real car with an instant for each point, and its IMU."""
    source, sent = captures / "lidar_hdl64_straight", []
    records = np.loadtxt(source / "truth_oxts_25col.txt")
    kind = np.dtype([*((axis, "<f4") for axis in "xyz"), ("intensity", "<f4"), ("t", "<u4"), ("ring", "<u2")])
    for number, path in enumerate(sorted(source.glob("*.npz"))[:COUNT]):
        with np.load(path) as stored:
            xyz = stored["xyz_mm"] / 1000
        points = np.zeros(len(xyz), kind)
        for axis, column in zip("xyz", xyz.T, strict=True):
            points[axis] = column
        points["t"] = (share_of_turn(xyz, "clockwise") + 0.5) * 0.999 * TENTH
        sent.append(cloud("/points", START + number * TENTH, points[::2]))
        acc, avel = (vector(*records[number, at : at + 3].tolist()) for at in (11, 17))
        none = np.zeros(9)
        stamp = START + number * TENTH + TENTH // 2
        fields = (header(stamp, "imu"), quaternion(0, 0, 0, 1), none, avel, none, acc, none)
        sent.append(Sent("/imu", "sensor_msgs/msg/Imu", stamp, fields))
    folder = tmp_path_factory.mktemp("evalio") / "drive" / "straight"
    folder.mkdir(parents=True)
    return bags.write_ros1(folder / "drive.bag", sent)


@pytest.fixture(scope="module")
def odom(bag: Path) -> Sensor:
    """`_odom` of the same bag by the command line, with the same mount of the IMU."""
    trace = bag.parent / "trace"
    assert main(["import", "ros", str(bag), "-o", str(trace)]) == 0
    config = yaml.safe_load((trace / "config.yaml").read_text())
    config["rig"] = {"imu": {"translation": (-IMU_FROM_LIDAR).tolist(), "rotation": np.eye(3).tolist()}}
    (trace / "config.yaml").write_text(yaml.safe_dump(config))
    assert main(["run", str(trace), "--outputs", "odom", "--cores", "1"]) == 0
    return Sensor(trace / "_odom")


def judged(bag: Path, out: Path, *arguments: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Times, poses (N, 4, 4) and metadata of what evalio stores."""
    python = consumer_python("evalio", REQUIREMENTS)
    places = (str(CHECKOUT), sysconfig.get_paths()["purelib"], "-D", str(bag.parents[2]))
    run = ("run", "-d", "drive/straight", "-p", "rover_pipeline", "-o", str(out), *arguments)
    done = consume(python, "scripts/evalio_run.py", *places, *run)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (out / "drive" / "straight" / "rover_pipeline.csv").read_text().splitlines()
    said = "\n".join(line for line in lines if line.startswith("#"))
    rows = np.array(list(csv.reader(line for line in lines if not line.startswith("#"))), "f8")
    poses = np.tile(np.eye(4), (len(rows), 1, 1))
    poses[:, :3, 3] = rows[:, 1:4]
    poses[:, :3, :3] = Rotation.from_quat(rows[:, 4:8]).as_matrix()
    return rows[:, 0], poses, said


def test_evalio_gets_the_poses_of_the_command_line_after_the_last_sweep(
    bag: Path, odom: Sensor, tmp_path: Path
) -> None:
    ts, poses, said = judged(bag, tmp_path)
    assert "status: complete" in said
    np.testing.assert_allclose(ts, odom.times(COUNT), rtol=0, atol=1e-6)
    rot = odom.channel("rot").read()
    np.testing.assert_allclose(poses[:, :3, :3], rot, atol=1e-7)
    # evalio's poses are the IMU's.
    np.testing.assert_allclose(poses[:, :3, 3], odom.channel("pos").read() - rot @ IMU_FROM_LIDAR, atol=1e-6)
    assert np.linalg.norm(poses[-1, :3, 3] - poses[0, :3, 3]) > 5


def test_a_shorter_experiment_ends_with_its_own_last_sweep(bag: Path, tmp_path: Path) -> None:
    ts, _, said = judged(bag, tmp_path, "-l", "5")
    assert "status: complete" in said
    np.testing.assert_allclose(ts, START / 1e9 + 0.1 * (1 + np.arange(5)), rtol=0, atol=2e-3)
