"""The mount of a radar beside an IMU, without a lidar."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.special import chdtrc

from rover_pipeline.calibrate.inertial_mount import calibrate
from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.mounts import changed, compare, difference
from rover_pipeline.numerics.robust import FALSE_ALARM
from rover_pipeline.radar.options import RadarOdometryOptions
from rover_pipeline.radar.velocity_factors import Measured, Recorded
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import build
from rover_pipeline.simulate.sensors import imu
from tests.radar.test_radar_odom import HAND_IMU, HAND_RADAR, MOUNTS, OPTIONS, carried

TRUE, IMU = MOUNTS["radar"], MOUNTS["imu"]
#: Standard deviations of the sines of azimuth and elevation.
ERROR = np.array([0.005, 0.01])
SIGMA = np.array([0.03, 0.03, 0.06])


def walk(seconds: float) -> tuple[Measured, Recorded]:
    """Noisy velocities of the radar on a walk, with the right mount, and the simulator's IMU."""
    rig, rng = build(PRESETS["park"], 0), np.random.default_rng(0)
    ts, imu_ts = np.arange(0.3, seconds, 0.1), np.arange(0.1, seconds + 0.1, 0.01)
    state = rig.mounted("radar").at(ts)
    vel = np.einsum("nji,nj->ni", state.rot, state.vel) + rng.normal(0, SIGMA, (len(ts), 3))
    reading = imu.measure(imu.ideal_reading(rig.mounted("imu").at(imu_ts)), rig.imu_errors(), rng)
    avel = reading.avel - reading.avel[imu_ts < 0.95].mean(axis=0)
    recorded = Recorded(imu_ts, reading.acc @ IMU.rotation.T, avel @ IMU.rotation.T, IMU)
    return measured(ts, vel), recorded


def measured(ts: np.ndarray, vel: np.ndarray) -> Measured:
    """Velocities with the prior of no vertical one, as `_radar_velocity` has them."""
    own = np.diag(SIGMA**-2.0)
    whole = np.linalg.inv(own + np.diag([0, 0, OPTIONS.vertical**-2.0]))
    return Measured(ts, (whole @ own @ vel.T).T, np.tile(whole, (len(ts), 1, 1)), TRUE, OPTIONS)


def test_a_walk_beside_an_imu_shows_how_a_radar_is_turned_where_it_is_and_how_late() -> None:
    radar, recorded = walk(30)
    off, true = np.array([0.02, 0.0, 0.07, 0.06, -0.05, 0.0, 0.03]), TRUE._replace(time_offset=0.03)
    declared = changed(true, -off)
    found = calibrate(radar._replace(ts=radar.ts - off[6], mount=declared), recorded, ERROR)
    error = difference(found.mount, true)
    assert found.adopted and found.observed.all()
    assert compare(declared, found).is_wrong and not compare(true, found).is_wrong
    assert error @ np.linalg.solve(found.covariance, error) < 2.5 * 7


def test_a_test_in_brief_finds_a_wrong_mount_and_adopts_none_that_agrees_with_the_right_one() -> None:
    radar, recorded = walk(30)
    right = calibrate(radar, recorded, ERROR, brief=True)
    assert not right.adopted and right.observed.any() and not compare(TRUE, right).is_wrong
    assert right.tested().startswith("errors from ")
    declared = changed(TRUE, np.radians([0, 0, 6.0, 0, 0, 0, 0]))
    wrong = calibrate(radar._replace(mount=declared), recorded, ERROR, brief=True)
    off = compare(declared, wrong)
    assert wrong.adopted and off.is_wrong and abs(np.degrees(off.error[2]) + 6) < 3 * np.degrees(off.sigma[2])


def test_a_test_in_brief_takes_a_minute_of_a_longer_recording() -> None:
    radar, recorded = walk(90)
    middle = np.abs(radar.ts - np.median(radar.ts)) <= 30
    part = radar._replace(ts=radar.ts[middle], vel=radar.vel[middle], cov=radar.cov[middle])
    brief, minute = (calibrate(each, recorded, ERROR, brief=True) for each in (radar, part))
    assert brief.covariance.tobytes() == minute.covariance.tobytes()


@pytest.mark.parametrize("speed", [0.0, 1.5])
def test_a_rig_that_stands_or_goes_straight_on_leaves_the_mount_as_declared(speed: float) -> None:
    rng = np.random.default_rng(1)
    ts, imu_ts = np.arange(0.3, 12, 0.1), np.arange(0.1, 12.1, 0.01)
    vel = [speed, 0, 0] @ TRUE.rotation + rng.normal(0, SIGMA, (len(ts), 3))
    still = np.array([0, 0, 9.80665]) + rng.normal(0, 0.02, (len(imu_ts), 3))
    declared = changed(TRUE, np.array([0, 0, 0.087, 0, 0, 0, 0]))
    recorded = Recorded(imu_ts, still, rng.normal(0, 0.002, still.shape), IMU)
    found = calibrate(measured(ts, vel)._replace(mount=declared), recorded, ERROR)
    assert not found.adopted and not found.observed.any() and found.mount == declared
    assert found.remarks
    if speed:
        assert any("its rotation about" in text for text in found.remarks)


def test_an_imu_in_other_units_or_of_another_time_shows_no_mount() -> None:
    radar, right = walk(12)
    acc, avel = right.acc, right.avel
    for wrong in ({"avel": np.degrees(avel)}, {"avel": -avel}, {"acc": acc[::-1], "avel": avel[::-1]}):
        found = calibrate(radar, right._replace(**wrong), ERROR)
        assert not found.adopted and not found.observed.any() and found.remarks


def test_a_mount_that_nobody_declared_is_not_looked_for() -> None:
    radar, recorded = walk(12)
    nobody = Mount(np.zeros(3), np.eye(3), "identity")
    assert not calibrate(radar._replace(mount=nobody), recorded, ERROR).adopted


# Within 2 degrees it is not: the directions of its points are not known as well.
def test_a_real_radar_carried_by_hand_is_turned_as_published_as_far_as_its_directions_say(captures: Path) -> None:
    ts, vel, cov, imu_ts, acc, avel = carried(captures)[0]
    declared = changed(HAND_RADAR, np.append(np.radians(10) * np.array([0.6, 0.0, 0.8]), np.zeros(4)))
    radar = Measured(ts, vel, cov, declared, RadarOdometryOptions(vertical=1.0))
    found = calibrate(radar, Recorded(imu_ts, acc, avel, HAND_IMU), np.array([0.02, 0.05]))
    turn = difference(HAND_RADAR, found.mount)[:3]
    assert chdtrc(3, turn @ np.linalg.solve(found.covariance[:3, :3], turn)) > FALSE_ALARM
    assert np.degrees(found.sigma[:3]).min() > 1
