"""Radar-inertial odometry: simulated walks, a real recording carried by hand, and what must not be believed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.preintegration import AT_ONCE, ImuNoise, preintegrate
from rover_pipeline.numerics.blocks import IN_MEMORY, Memory, OnDisk
from rover_pipeline.odometry import accelerometer
from rover_pipeline.radar.factor_graph import without_prior
from rover_pipeline.radar.inertial_odometry import Estimate, estimate
from rover_pipeline.radar.options import RadarOdometryOptions, VelocityOptions
from rover_pipeline.radar.velocity import ego_velocity
from rover_pipeline.radar.velocity_factors import Measured, Recorded
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import MOUNTS, build
from rover_pipeline.simulate.sensors import imu

OPTIONS = RadarOdometryOptions()
GRAVITY = np.array([0.0, 0.0, -accelerometer.GRAVITY])
#: Pose of the radar in the IMU frame as the data set gives it: its frame there is right-forward-up, that of
#: its points is front-left-up.
HAND_RADAR = Mount(
    np.array([0.03, 0.03, -0.06]),
    Rotation.from_quat([0.923218, 0.375993, -0.026783, -0.074697]).as_matrix()
    @ np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]),
)
HAND_IMU = Mount(np.zeros(3), np.eye(3))
HAND_OPTIONS = RadarOdometryOptions(vertical=1.0)


def estimated(
    ts: np.ndarray,
    vel: np.ndarray,
    cov: np.ndarray,
    imu_ts: np.ndarray,
    acc: np.ndarray,
    avel: np.ndarray,
    *,
    options: RadarOdometryOptions = OPTIONS,
    mounts: tuple[Mount, Mount] = (MOUNTS["radar"], MOUNTS["imu"]),
    memory: Memory = IN_MEMORY,
) -> Estimate:
    """The estimate of one radar and an IMU."""
    return estimate([Measured(ts, vel, cov, mounts[0], options)], Recorded(imu_ts, acc, avel, mounts[1]), memory)


def walk(
    preset: str,
    seconds: float,
    *,
    seed: int = 0,
    sigma: float = 0.03,
    silence: float = 0.0,
    late: float = 0.0,
    scales: tuple[float, float] = (1.0, 1.0),
) -> tuple[Estimate, np.ndarray, np.ndarray]:
    """A walk with noisy velocities of the radar and the simulator's IMU, silent for `silence` s every five seconds.

    The radar's stamps are `late`, s; `scales` are those of the radar and the accelerometer.

    Returns:
        The estimate, and the true positions of the IMU, f8 (N, 3), and rotations of the rig, f8 (N, 3, 3).
    """
    rig = build(PRESETS[preset], seed)
    rng = np.random.default_rng(seed)
    ts, imu_ts = np.arange(0.3, seconds, 0.1), np.arange(0.1, seconds + 0.1, 0.01)
    radar = rig.mounted("radar").at(ts)
    cov = np.diag([sigma, sigma, 2 * sigma]) ** 2
    vel = np.einsum("nji,nj->ni", radar.rot, radar.vel) + rng.normal(0, [sigma, sigma, 2 * sigma], (len(ts), 3))
    # The estimate of a frame holds a prior of no vertical velocity of 0.2 m/s.
    own = np.linalg.inv(cov)
    whole = np.linalg.inv(own + np.diag([0, 0, 1 / 0.2**2]))
    vel = (whole @ own @ vel.T).T
    reading = imu.measure(imu.ideal_reading(rig.mounted("imu").at(imu_ts)), rig.imu_errors(), rng)
    # The rig stands for the first second, from which `_imu_filtered` takes the bias of the gyroscope.
    unbiased = reading.avel - reading.avel[imu_ts < 0.95].mean(axis=0)
    acc, avel = (values @ MOUNTS["imu"].rotation.T for values in (reading.acc, unbiased))
    sent = (imu_ts % 5 < 4.5) | (imu_ts % 5 > 4.5 + silence)
    measured = Measured(ts + late, scales[0] * vel, np.tile(whole, (len(ts), 1, 1)), MOUNTS["radar"], OPTIONS)
    found = estimate([measured], Recorded(imu_ts[sent], scales[1] * acc[sent], avel[sent], MOUNTS["imu"]))
    return found, rig.mounted("imu").at(ts).pos, rig.motion.at(ts).rot


def way(pos: np.ndarray) -> float:
    return float(np.linalg.norm(np.diff(pos, axis=0), axis=1).sum())


def aligned(found: Estimate, pos: np.ndarray, rot: np.ndarray) -> np.ndarray:
    """The true positions in the world of the estimate: level, with the heading and the origin of the first frame."""
    heading = Rotation.from_matrix(found.motion.rot[0] @ rot[0].T).as_euler("zyx")[0]
    turned: np.ndarray = (pos - pos[0]) @ Rotation.from_euler("z", heading).as_matrix().T
    return turned + found.motion.pos[0]


@pytest.mark.parametrize("preset", ["indoor", "outdoor"])
def test_a_simulated_walk_ends_within_one_percent_of_its_way(preset: str) -> None:
    found, pos, rot = walk(preset, 40.0)
    assert found.valid.all()
    error = found.motion.pos - aligned(found, pos, rot)
    assert np.linalg.norm(error[-1]) < 0.01 * way(pos)
    level = np.degrees(np.arccos(np.clip(np.einsum("nj,nj->n", found.motion.rot[:, 2], rot[:, 2]), -1, 1)))
    assert level.max() < 1.0


def test_the_covariance_says_how_far_the_estimate_is_off() -> None:
    squares = []
    for seed in range(6):
        found, pos, rot = walk("indoor", 12.0, seed=seed)
        error = (found.motion.pos - aligned(found, pos, rot))[-1, :2]
        squares.append(error @ np.linalg.solve(found.motion.cov[-1, 6:8, 6:8], error) / 2)
    assert 0.1 < np.mean(squares) < 3.0


@pytest.mark.parametrize(("preset", "scales"), [("indoor", (1.2, 1.0)), ("bike", (0.85, 1.0)), ("bike", (1.04, 0.98))])
def test_speeds_of_a_radar_that_contradict_the_accelerometer_are_taken_for_wrong_and_known_as_well_as_stated(
    preset: str, scales: tuple[float, float]
) -> None:
    found, pos, rot = walk(preset, 40.0, scales=scales)
    assert found.common is not None
    error, sigma = found.common.errors[0, 0], found.common.sigma[0, 0]
    assert found.common.is_wrong[0] == (abs(scales[0] - 1) > 0.1)
    assert abs(error - (scales[0] - 1)) < 3 * sigma < 0.06
    apart = (found.motion.pos - aligned(found, pos, rot))[-1, :2]
    assert apart @ np.linalg.solve(found.motion.cov[-1, 6:8, 6:8], apart) / 2 < 4
    assert abs(way(found.motion.pos) / way(pos) - 1) < 0.03


@pytest.mark.parametrize("preset", ["indoor", "outdoor"])
def test_while_the_imu_is_silent_the_rig_moves_as_it_does_at_other_times(preset: str) -> None:
    found, pos, rot = walk(preset, 18.0, silence=0.4)
    assert found.valid.all()
    error = (found.motion.pos - aligned(found, pos, rot))[-1, :2]
    assert np.linalg.norm(error) < 0.04 * way(pos)  # the heading after a silence in a turn
    assert error @ np.linalg.solve(found.motion.cov[-1, 6:8, 6:8], error) / 2 < 3
    level = np.degrees(np.arccos(np.clip(np.einsum("nj,nj->n", found.motion.rot[:, 2], rot[:, 2]), -1, 1)))
    assert level.max() < 1.5


@pytest.mark.parametrize(("preset", "late"), [("outdoor", 0.0), ("bike", 0.12), ("indoor", -0.03), ("tunnel", 3.0)])
def test_stamps_of_a_radar_that_are_late_are_found_and_change_nothing(preset: str, late: float) -> None:
    """A bike shakes faster than 0.12 s: there are many times at which the velocities fit nearly."""
    found, pos, rot = walk(preset, 40.0, late=late)
    (seconds,), (deviation,) = found.time_offsets
    assert abs(seconds + late) < min(0.005, 3 * deviation)
    assert found.valid.all() and np.linalg.norm((found.motion.pos - aligned(found, pos, rot))[-1]) < 0.01 * way(pos)


@pytest.mark.parametrize(("preset", "late"), [("indoor", 8.0), ("smooth", -8.0), ("bike", 20.0), ("tunnel", 8.0)])
def test_stamps_that_are_further_off_than_is_looked_for_make_no_state_valid(preset: str, late: float) -> None:
    """Steps repeat themselves, so that many wrong times fit nearly: but none much better than all others."""
    found, _, _ = walk(preset, 40.0, late=late)
    assert np.isinf(found.time_offsets[1]).all() and not found.valid.any()


#: Times of an IMU, in each pair of which the second one follows after a nanosecond.
PAIRS = np.repeat(np.arange(0, 2, 0.01), 2) + np.tile([0, 1e-9], 200)


@pytest.mark.parametrize("imu_ts", [np.zeros(0), np.zeros(1), PAIRS, np.arange(100, 120, 0.01)])
def test_an_imu_that_measures_nothing_of_use_gives_no_time_offset(imu_ts: np.ndarray) -> None:
    ts = np.arange(0.3, 2, 0.1)
    vel, cov = np.tile([2.0, 0.0, 0.0], (len(ts), 1)), np.tile(np.eye(3) * 1e-3, (len(ts), 1, 1))
    acc, avel = np.tile(-GRAVITY, (len(imu_ts), 1)), np.zeros((len(imu_ts), 3))
    assert np.abs(estimated(ts, vel, cov, imu_ts, acc, avel).time_offsets[0]).max() < 1e-3


def test_where_the_motion_does_not_change_the_time_of_a_radar_is_unknown() -> None:
    ts, imu_ts = np.arange(0.3, 20, 0.1), np.arange(0.1, 20.1, 0.01)
    vel = np.tile([2.0, 0.0, 0.0], (len(ts), 1)) + np.random.default_rng(0).normal(0, 0.03, (len(ts), 3))
    cov = np.tile(np.diag([0.03, 0.03, 0.03]) ** 2, (len(ts), 1, 1))
    acc, avel = np.tile(-GRAVITY, (len(imu_ts), 1)), np.zeros((len(imu_ts), 3))
    found = estimated(ts, vel, cov, imu_ts, acc, avel)
    (seconds,), (deviation,) = found.time_offsets
    assert deviation > 0.03 and abs(seconds) < 0.02 and found.valid.all()


def test_velocities_that_are_wrong_for_a_second_count_little() -> None:
    rig = build(PRESETS["indoor"], 1)
    ts, imu_ts = np.arange(0.3, 15, 0.1), np.arange(0.1, 15.1, 0.01)
    radar = rig.mounted("radar").at(ts)
    vel = np.einsum("nji,nj->ni", radar.rot, radar.vel)
    vel[60:70] += [2.0, 0.0, 0.0]
    cov = np.tile(np.eye(3) * 0.03**2, (len(ts), 1, 1))
    reading = imu.ideal_reading(rig.mounted("imu").at(imu_ts))
    acc, avel = (values @ MOUNTS["imu"].rotation.T for values in (reading.acc, reading.avel))
    found = estimated(ts, vel, cov, imu_ts, acc, avel)
    assert found.motion.weight[60:70].max() < 0.3 and np.median(found.motion.weight) > 0.8
    error = np.linalg.norm(found.motion.vel - rig.mounted("imu").at(ts).vel @ _heading(found, rig, ts).T, axis=1)
    assert error.max() < 0.15


def _heading(found: Estimate, rig: object, ts: np.ndarray) -> np.ndarray:
    rot = rig.motion.at(ts[:1]).rot[0]  # type: ignore[attr-defined]
    angle = Rotation.from_matrix(found.motion.rot[0] @ rot.T).as_euler("zyx")[0]
    return np.asarray(Rotation.from_euler("z", angle).as_matrix())


def test_equations_that_are_held_on_disk_give_the_same_bytes(tmp_path: Path) -> None:
    rng, ts, imu_ts = np.random.default_rng(5), np.arange(0.3, 60, 0.1), np.arange(0.1, 60.1, 0.05)
    vel, cov = rng.normal(0, 0.1, (len(ts), 3)), np.tile(np.eye(3) * 0.1**2, (len(ts), 1, 1))
    acc, avel = rng.normal(0, 0.01, (2, len(imu_ts), 3)) - np.stack([[GRAVITY], [0 * GRAVITY]])
    assert len(ts) > AT_ONCE  # more than one block
    held, disk = (estimated(ts, vel, cov, imu_ts, acc, avel, memory=memory) for memory in (Memory(), OnDisk(tmp_path)))
    for one, other in zip([*held.motion, held.sigma, held.valid], [*disk.motion, disk.sigma, disk.valid], strict=True):
        assert one.tobytes() == other.tobytes()
    assert held.valid.any()


def test_without_velocities_or_without_the_imu_nothing_is_valid() -> None:
    ts, imu_ts = np.arange(0.3, 5, 0.1), np.arange(0.1, 5.1, 0.01)
    nothing, cov = np.full((len(ts), 3), np.nan), np.full((len(ts), 3, 3), np.nan)
    acc = np.tile(-GRAVITY, (len(imu_ts), 1))
    assert not estimated(ts, nothing, cov, imu_ts, acc, 0 * acc).valid.any()
    still = np.zeros((len(ts), 3)), np.tile(np.eye(3) * 1e-4, (len(ts), 1, 1))
    assert estimated(ts, *still, imu_ts, acc, 0 * acc).valid.all()
    early = imu_ts < 2.5
    half = estimated(ts, *still, imu_ts[early], acc[early], 0 * acc[early]).valid
    assert half[ts < 2.3].all() and not half[ts > 2.7].any()


def test_preintegration_is_what_integrating_the_motion_gives() -> None:
    rig = build(PRESETS["indoor"], 0).mounted("imu")
    ts = np.arange(2.0, 3.0, 0.001)
    reading, states = imu.ideal_reading(rig.at(ts)), rig.at(np.array([2.1, 2.2, 2.6]))
    found = preintegrate(np.array([2.1, 2.2, 2.6]), ts, reading.acc, reading.avel, ImuNoise(1e-3, 1e-2))
    for n, seconds in enumerate((0.1, 0.4)):
        into = states.rot[n].T
        np.testing.assert_allclose(found.rot[n], into @ states.rot[n + 1], atol=1e-5)
        gained = into @ (states.vel[n + 1] - states.vel[n] - GRAVITY * seconds)
        np.testing.assert_allclose(found.vel[n], gained, atol=3e-4)
        moved = states.pos[n + 1] - states.pos[n] - states.vel[n] * seconds - 0.5 * GRAVITY * seconds**2
        np.testing.assert_allclose(found.pos[n], into @ moved, atol=1e-4)


def test_biases_are_taken_from_what_was_integrated_with_them() -> None:
    rig, ts, nodes = build(PRESETS["indoor"], 0).mounted("imu"), np.arange(2.0, 3.0, 0.01), np.array([2.1, 2.2, 2.6])
    reading = imu.ideal_reading(rig.at(ts))
    gyro, acc = np.array([0.02, -0.01, 0.03]), np.array([0.1, 0.2, -0.1])
    right = preintegrate(nodes, ts, reading.acc, reading.avel)
    biased = preintegrate(nodes, ts, reading.acc + acc, reading.avel + gyro)
    rot, vel, pos = biased.corrected(gyro, acc)
    np.testing.assert_allclose(rot, right.rot, atol=2e-5)
    np.testing.assert_allclose(vel, right.vel, atol=1e-3)
    np.testing.assert_allclose(pos, right.pos, atol=3e-4)
    assert np.abs(biased.vel - right.vel).max() > 0.03


def test_the_prior_of_no_vertical_velocity_is_taken_away() -> None:
    own = np.linalg.inv(np.diag([0.02, 0.03, 0.1]) ** 2)
    whole = np.linalg.inv(own + np.diag([0, 0, 25.0]))
    measured, information = without_prior(
        whole[None], (whole @ own @ [1.0, 0.2, 0.3])[None], np.array([0.2]), OPTIONS.least_error
    )
    np.testing.assert_allclose(measured[0], [1.0, 0.2, 0.3], atol=1e-9)
    np.testing.assert_allclose(np.sqrt(1 / np.diag(information[0])), [0.0224, 0.0316, 0.1005], atol=1e-3)


def carried(captures: Path) -> tuple[tuple[np.ndarray, ...], float]:
    """A real recording carried by hand: times, velocities and covariances of the radar, times and readings of the IMU.

    Also the time between triggers. There are 413 triggers and 412 clouds: a cloud comes after the trigger of the next
    frame, so that it is by how much the times are late.
    """
    rosbags = pytest.importorskip("rosbags.highlevel", reason="rosbags is in the extra `ouster`")
    radar_ts, clouds, triggers, imu_ts, acc, avel = [], [], [], [], [], []
    with rosbags.AnyReader([captures / "bags" / "ti_mmwave_radar_imu.bag"]) as reader:
        for connection, _, raw in reader.messages():
            message = reader.deserialize(raw, connection.msgtype)
            if connection.topic.endswith("/trigger"):
                triggers.append(message.stamp.sec + message.stamp.nanosec * 1e-9)
            elif connection.msgtype.endswith("PointCloud2"):
                offsets = {each.name: each.offset // 4 for each in message.fields}
                rows = np.frombuffer(message.data, "<f4").reshape(-1, message.point_step // 4)
                clouds.append(rows[:, [offsets[name] for name in ("x", "y", "z", "velocity")]].astype("f8"))
                # A cloud has no time of its own; it comes 27 ms after a trigger. A frame lasts 18.5 ms.
                radar_ts.append(triggers[-1] + 0.5 * 18.5e-3)
            elif connection.msgtype.endswith("/Imu"):
                imu_ts.append(message.header.stamp.sec + message.header.stamp.nanosec * 1e-9)
                acc.append([getattr(message.linear_acceleration, axis) for axis in "xyz"])
                avel.append([getattr(message.angular_velocity, axis) for axis in "xyz"])
    vel, cov = np.full((len(clouds), 3), np.nan), np.full((len(clouds), 3, 3), np.nan)
    options = VelocityOptions(vertical=1.0)
    bias = np.mean(avel[:200], axis=0)  # It is at rest for the first second.
    for n, cloud in enumerate(clouds):
        distance = np.linalg.norm(cloud[:, :3], axis=1)
        near = distance > 0.25
        # The demonstration's Doppler bins are of 0.1 m/s or less; the errors are scaled by what is observed.
        own = ego_velocity(cloud[near, :3] / distance[near, None], cloud[near, 3], 0.1, options)
        if own.determined:
            vel[n], cov[n] = own.vel, own.cov
    assert len(triggers) == len(clouds) + 1
    measured = np.array(radar_ts), vel, cov, np.array(imu_ts), np.array(acc), np.array(avel) - bias
    return measured, float(np.median(np.diff(triggers)))


def test_a_real_recording_carried_by_hand_returns_to_its_start_and_keeps_its_level(captures: Path) -> None:
    measured, late = carried(captures)
    radar_ts, vel, _, imu_ts, acc, _ = measured
    found = estimated(*measured, options=HAND_OPTIONS, mounts=(HAND_RADAR, HAND_IMU))
    ((seconds,), (deviation,)) = found.time_offsets
    assert abs(seconds + late) < min(0.01, 3 * deviation)
    # The motion between the frames, by the IMU and all other velocities, is a witness of each of them.
    rates = found.avel - found.motion.gyro_bias
    body = np.einsum("nji,nj->ni", found.motion.rot, found.motion.vel) + np.cross(rates, HAND_RADAR.translation)
    error = (vel - body @ HAND_RADAR.rotation)[np.isfinite(vel[:, 0]), :2]
    assert len(error) > 0.9 * len(vel)
    assert np.linalg.norm(error, axis=1).max() < 0.3
    length = way(found.motion.pos)
    assert length > 15
    assert found.valid.mean() > 0.9
    assert np.linalg.norm(found.motion.pos[-1] - found.motion.pos[0]) < 0.03 * length
    # At rest before and after, the accelerometer shows gravity alone: the world's vertical must be its direction.
    for n in (0, -1):
        near = np.abs(imu_ts - radar_ts[n]) < 0.5
        force = found.motion.rot[n] @ (acc[near].mean(axis=0) - found.motion.acc_bias[n])
        assert np.degrees(np.arccos(force[2] / np.linalg.norm(force))) < 2.0


def test_parts_of_a_real_recording_say_how_well_they_know_the_time_of_the_radar(captures: Path) -> None:
    """Here `vel_cov` is smaller than the errors are, and a hand that rests shows nothing of the time."""
    (ts, vel, cov, imu_ts, acc, avel), late = carried(captures)
    squares = []
    for start in np.arange(ts[0], ts[-1] - 10, 5):
        own, near = (ts >= start) & (ts < start + 10), (imu_ts > start - 1) & (imu_ts < start + 11)
        part = ts[own], vel[own], cov[own], imu_ts[near], acc[near], avel[near]
        found = estimated(*part, options=HAND_OPTIONS, mounts=(HAND_RADAR, HAND_IMU))
        (seconds,), (deviation,) = found.time_offsets
        squares += [((seconds + late) / deviation) ** 2] * bool(np.isfinite(deviation))
    assert len(squares) >= 4 and 0.3 < np.mean(squares) < 4


@pytest.mark.parametrize("sign", [1, -1])
def test_an_imu_of_another_time_or_with_its_gyroscope_reversed_makes_no_state_valid(captures: Path, sign: int) -> None:
    (ts, vel, cov, imu_ts, acc, avel), _ = carried(captures)
    late = 20.0 * (sign > 0)
    measured = ts + late, vel, cov, imu_ts, acc, sign * avel
    found = estimated(*measured, options=HAND_OPTIONS, mounts=(HAND_RADAR, HAND_IMU))
    assert np.isinf(found.time_offsets[1]).all() and not found.valid.any()
