"""The IMUs of real recordings, carried by hand and driven, which begin and end at rest."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rover_pipeline.clocks.sampling_times import smooth_times
from rover_pipeline.imu.options import ImuOptions
from rover_pipeline.imu.orientation import orient

highlevel = pytest.importorskip("rosbags.highlevel")


def samples(bag: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, accelerations and angular velocities of the only IMU of a ROS 1 bag."""
    rows = []
    with highlevel.AnyReader([bag]) as reader:
        connections = [each for each in reader.connections if each.msgtype.endswith("/Imu")]
        for connection, _, raw in reader.messages(connections=connections):
            message = reader.deserialize(raw, connection.msgtype)
            stamp, acc, avel = message.header.stamp, message.linear_acceleration, message.angular_velocity
            rows.append([stamp.sec + 1e-9 * stamp.nanosec, acc.x, acc.y, acc.z, avel.x, avel.y, avel.z])
    table = np.array(rows)
    return smooth_times(table[:, 0] - table[0, 0]).smooth, table[:, 1:4], table[:, 4:]


@pytest.mark.parametrize("added", [[0.0, 0.0, 0.0], [0.08, -0.05, 0.02]])
def test_an_adis16448_is_level_at_both_rests_whatever_its_bias(added: list[float], captures: Path) -> None:
    times, acc, avel = samples(captures / "bags" / "ti_mmwave_radar_imu.bag")
    result = orient(times, acc, avel + np.array(added), float(np.median(np.diff(times))), ImuOptions())
    assert len(result.stationary) == 2 and result.turns == [] and result.doubt == 0
    np.testing.assert_allclose(result.gyro_bias - added, [-0.0012, -0.0008, -0.0077], atol=5e-4)
    up = Rotation.from_quat(result.quat).inv().apply([0.0, 0.0, 1.0])
    for begin, end in ((0.0, 5.0), (38.2, 38.8)):
        part = (times > begin) & (times < end)
        measured = (acc[part] - result.acc_bias).mean(axis=0)
        angle = np.arccos(up[part].mean(axis=0) @ measured / np.linalg.norm(measured))
        assert np.degrees(angle) < 0.6


def test_a_jackal_whose_bias_is_0_04_rad_s_was_at_rest_at_both_ends(captures: Path) -> None:
    times, acc, avel = samples(captures / "bags" / "rl_test2.bag")
    result = orient(times, acc, avel, float(np.median(np.diff(times))), ImuOptions())
    assert [round(start) for start, _ in result.stationary] == [0, 60] and result.doubt == 0
    np.testing.assert_allclose(result.gyro_bias, [0.0, 0.0, 0.041], atol=2e-3)


def test_an_imu_that_never_rests_keeps_its_heading_beside_a_lidars_trajectory(captures: Path) -> None:
    with lzma.open(captures / "imu_lio" / "imu.txt.xz") as file:
        table = np.loadtxt(file)
    path = np.loadtxt(captures / "imu_lio" / "traj.txt")[:-10]
    times = smooth_times(table[:, 0]).smooth
    result = orient(times, table[:, 1:4], table[:, 4:], float(np.median(np.diff(times))), ImuOptions())
    assert result.stationary == [] and np.abs(result.gyro_bias).max() < 1e-3
    found = Rotation.from_quat([result.quat[n] for n in np.searchsorted(times, path[:, 0])])
    error = (found * Rotation.from_quat(path[:, 4:]).inv()).as_matrix()
    heading = np.degrees(np.unwrap(np.arctan2(error[:, 1, 0], error[:, 0, 0])))
    assert np.ptp(heading) < 2.0  # a slow turn was a rest, and the heading 347 degrees off
    assert np.degrees(np.sqrt((error[:, 2, :2] ** 2).sum(axis=1).mean())) < 0.5
