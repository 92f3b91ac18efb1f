"""A lidar whose columns or beams are stored in reverse sees a mirrored world, and the IMU tells."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.constants import g as GRAVITY  # noqa: N812

from rover_pipeline.kinematics.mount import IDENTITY, Mount
from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.kinematics.state import State
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.odometry.inertial import Samples, calibrated, mirrored
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.odometry.segments import MAX_BRIDGED
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import build

OPTIONS = OdometryOptions()
MOUNT = Mount(np.zeros(3), exp(np.array([[0.1, -0.3, 0.5]]))[0], source="config.yaml")
MIRRORS = [np.diag(each) for each in ([-1.0, 1.0, 1.0], [1.0, -1.0, 1.0], [1.0, 1.0, -1.0])]
Lidar = tuple[np.ndarray, np.ndarray]


NO_MIRROR = np.eye(3)


def walk(seconds: float, mirror: np.ndarray = NO_MIRROR) -> tuple[Samples, Lidar, Trajectory]:
    """What an IMU and a lidar in front of a mirror measure, the IMU 20 ms late."""
    rng, motion = np.random.default_rng(3), build(PRESETS["indoor"], 0).motion
    times, ts = np.arange(0, seconds, 0.01), np.arange(0.0, seconds, 0.1)
    felt, seen = motion.at(times + 2.0), motion.at(ts + 2.0)
    rates = felt.avel @ MOUNT.rotation + [0.02, -0.01, 0.03] + rng.normal(0, 0.002, felt.avel.shape)
    up = np.array([0, 0, GRAVITY])
    acc = np.einsum("nji,nj->ni", felt.rot, felt.acc + up) @ MOUNT.rotation + [0.05, -0.1, 0.1]
    turns = np.linalg.det(mirror) * mirror
    lidar = felt.avel @ turns + np.diff(rng.normal(0, 2e-4, (len(times) + 1, 3)), axis=0) / 0.01
    state = State(
        seen.pos @ mirror, mirror @ seen.rot @ mirror, seen.vel @ mirror, seen.acc @ mirror, seen.avel @ turns
    )
    trajectory = Trajectory(ts, state, np.ones(len(ts)), max_gap=MAX_BRIDGED)
    return Samples(times + 0.02, rates, acc, "m/s2"), (times, lidar), trajectory


def reason(recorded: tuple[Samples, Lidar, Trajectory], mount: Mount) -> str:
    samples, lidar, trajectory = recorded
    return mirrored(samples, calibrated(samples, lidar, mount, OPTIONS), mount, trajectory)


@pytest.mark.parametrize("mirror", MIRRORS)
def test_beside_a_mirrored_world_a_gyroscope_turns_half_a_turn_away_and_accelerations_are_opposite(
    mirror: np.ndarray,
) -> None:
    for seconds in (4.0, 15.0):
        assert "feels the opposite of its accelerations" in reason(walk(seconds, mirror), MOUNT)
    samples, lidar, trajectory = walk(4.0, mirror)
    degrees = samples._replace(rates=np.degrees(samples.rates), acc=np.full_like(samples.acc, np.nan))
    assert "or rig.imu is wrong by half a turn" in reason((degrees, lidar, trajectory), MOUNT)


def test_a_mount_that_is_wrong_by_half_a_turn_is_no_mirror_where_the_accelerometer_agrees() -> None:
    recorded = walk(4.0)
    for mirror in MIRRORS:
        wrong = MOUNT._replace(rotation=-mirror @ MOUNT.rotation)
        found = calibrated(*recorded[:2], wrong, OPTIONS).calibration
        assert found is not None and found.half_turn is not None
        assert not reason(recorded, wrong)


def test_the_world_is_right_where_the_mount_is_about_right_where_axes_are_exchanged_and_where_nothing_turns() -> None:
    samples, lidar, trajectory = recorded = walk(4.0)
    assert not reason(recorded, MOUNT)
    assert not reason(recorded, MOUNT._replace(rotation=exp(np.array([[0.3, 0.0, 0.5]]))[0] @ MOUNT.rotation))
    assert not reason((samples._replace(rates=samples.rates[:, [1, 0, 2]]), lidar, trajectory), MOUNT)
    rest = np.zeros_like(lidar[1]) + np.random.default_rng(0).normal(0, 0.02, lidar[1].shape)
    noise = samples._replace(rates=np.random.default_rng(1).normal(0, 0.002, samples.rates.shape))
    assert not reason((noise, (lidar[0], rest), trajectory), MOUNT)
    assert not reason((samples._replace(times=samples.times + 1e4), lidar, trajectory), MOUNT)


def test_without_a_mount_an_accelerometer_that_feels_the_opposite_is_a_doubt_that_a_rig_settles() -> None:
    assert not reason(walk(15.0), IDENTITY)
    assert "rig.imu would show which" in reason(walk(15.0, MIRRORS[1]), IDENTITY)
    samples, lidar, trajectory = walk(15.0)
    gravity = samples._replace(acc=-samples.acc)
    assert "or the accelerometer gives gravity" in reason((gravity, lidar, trajectory), IDENTITY)
    assert not reason((gravity, lidar, trajectory), MOUNT)
