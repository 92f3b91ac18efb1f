"""The IMU in odometry: calibrated before it is believed, dropped where it is wrong, and what its gravity tells."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.constants import g as GRAVITY  # noqa: N812
from scipy.spatial.transform import Rotation

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import RoverError
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.kinematics.mount import IDENTITY, Mount
from rover_pipeline.kinematics.rotation import exp, log
from rover_pipeline.kinematics.state import State
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.odometry import steps
from rover_pipeline.odometry.accelerometer import Level, contradicted, felt_at_rest, find_level, measured
from rover_pipeline.odometry.inertial import Imu, Samples, calibrated
from rover_pipeline.odometry.observations import Gyro
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.odometry.segments import MAX_BRIDGED
from rover_pipeline.odometry.vibration import split_rates, worth_while
from rover_pipeline.simulate.motion import Jet, Pace
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.record import simulate
from rover_pipeline.simulate.rig import build
from rover_pipeline.table import find_step
from tests.kit import write_lidar_image
from tests.odometry.truth import errors, state_of

#: An IMU of which only the mount is known: late, in degrees, with a bias, on a rig that vibrates. A vibration that the
#: lidar cannot follow hides the small turns that would show how it is mounted.
UNKNOWN = ("vibration", "imu-late=0.012", "imu-degrees", "gyro-bias=0.02", "acc-bias=0.1")
OPTIONS = OdometryOptions()


def run(trace: Path, **options: object) -> dict[str, Any]:
    """Provenance of `_odom`."""
    run_step(find_step("_odom"), trace, "_odom", Request(options))
    provenance: dict[str, Any] = json.loads((trace / "_odom" / PROVENANCE).read_text())
    return provenance


@pytest.fixture(scope="module")
def unknown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace = tmp_path_factory.mktemp("imu") / "trace"
    small = PRESETS["tiny"].model_copy(update={"columns": 512, "stand": 0.1})
    simulate(trace, preset=small, duration=6.5, sensors=("lidar", "imu"), faults=UNKNOWN, threads=1)
    write_lidar_image(trace)
    return trace


def test_an_imu_of_which_only_the_mount_is_known_tells_vibration_and_gravity(unknown: Path) -> None:
    truth = state_of(unknown / "_truth")
    run(unknown, imu=False)
    without = errors(state_of(unknown / "_odom"), truth)
    measured = run(unknown, world="gravity")["measured"]
    odom = state_of(unknown / "_odom")
    found = errors(odom, truth)
    assert measured["gyroscope"] == "used" and measured["imu"]["unit"] == "deg/s"
    assert abs(measured["imu"]["offset_ms"] + 12) < 2
    # The vibration is faster than the knots of the trajectory.
    assert without.rot > 0.15 and found.rot < without.rot / 2 and found.avel < without.avel / 5
    up = json.loads((unknown / "_truth" / "truth.json").read_text())["up"]
    tilt = np.degrees(np.arccos(np.clip(odom.rot[0][2] @ (truth.rot[0].T @ up), -1, 1)))
    assert tilt < 3 * measured["gravity"]["tilt_sigma_deg"] < 5
    assert abs(odom.rot[0][1, 0]) < 1e-9  # The heading is that of the first pose.


def test_up_in_the_world_of_the_first_pose_is_written_beside_the_poses(unknown: Path) -> None:
    run(unknown)
    truth, odom = state_of(unknown / "_truth"), state_of(unknown / "_odom")
    found = np.array(json.loads((unknown / "_odom" / "up.json").read_text())["up"])
    up = odom.rot[-1] @ truth.rot[-1].T @ json.loads((unknown / "_truth" / "truth.json").read_text())["up"]
    assert np.degrees(np.arccos(np.clip(found @ up, -1, 1))) < 3


def test_gravity_without_an_accelerometer_is_an_error(unknown: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    shutil.copytree(unknown, trace, ignore=shutil.ignore_patterns("_odom", "imu"))
    with pytest.raises(RoverError, match=r"odometry.world is gravity.*imu/acc: there is none; set it to first_pose"):
        run(trace, world="gravity")


def test_a_wrong_gyroscope_is_dropped_where_points_that_were_left_out_say_so(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "trace"
    shutil.copytree(tiny, trace, ignore=shutil.ignore_patterns("camera", "radar", "_*_*"))
    write_lidar_image(trace)
    run(trace, imu=False)
    without = state_of(trace / "_odom")
    times = np.arange(0.0, 2.5, 0.01)
    rates = 0.5 * np.sin(9.0 * times)[:, None] * [1.0, -0.7, 0.4]
    monkeypatch.setattr(steps, "calibrated", lambda *_: Imu("used", Gyro(times, rates, 0.003)))
    provenance = run(trace)
    assert provenance["measured"]["gyroscope"].startswith("not used: points that were left out fit")
    assert any("its angular rates are not used" in note for note in provenance["notes"])
    # Passes until the trajectory settles may end at another one of them.
    np.testing.assert_allclose(state_of(trace / "_odom").rot, without.rot, atol=2e-4)


def walk(seconds: float, offset: float = 0.0) -> tuple[Samples, tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Samples of an IMU that is turned anyhow, the lidar's angular velocities, and the IMU's rotation."""
    rng, motion = np.random.default_rng(3), build(PRESETS["indoor"], 0).motion
    times, rotation = np.arange(0, seconds, 0.01), Rotation.random(rng=rng).as_matrix()
    state = motion.at(times + 2.0)
    rates = state.avel @ rotation + rng.normal(0, 0.002, state.avel.shape)
    force = np.einsum("nji,nj->ni", state.rot, state.acc + np.array([0, 0, GRAVITY])) @ rotation + [0.05, -0.1, 0.1]
    reference = state.avel + np.diff(rng.normal(0, 2e-4, (len(times) + 1, 3)), axis=0) / 0.01
    return Samples(times - offset, rates, force, "m/s2"), (times, reference), rotation


def test_a_mount_that_the_motion_contradicts_is_named_and_the_measured_one_used() -> None:
    samples, reference, rotation = walk(20.0, offset=0.012)
    wrong = Mount(np.zeros(3), exp(np.radians([[0.0, 8.0, 0.0]]))[0] @ rotation)
    imu = calibrated(samples, reference, wrong, OPTIONS)
    assert imu.used == "used" and "wrong by 8.0 degrees" in imu.notes[0]
    assert imu.calibration is not None and abs(imu.calibration.model.offset - 0.012) < 2e-3
    assert np.degrees(np.linalg.norm(log(rotation[None] @ imu.calibration.model.rotation.T))) < 0.3
    right = calibrated(samples, reference, wrong._replace(rotation=rotation), OPTIONS)
    assert right.used == "used" and not right.notes and 0.002 < right.gyro.noise < 0.03


def test_what_contradicts_the_lidar_is_a_note_and_what_the_motion_does_not_tell_is_none() -> None:
    samples, reference, _ = walk(20.0)
    mirrored = calibrated(samples._replace(rates=samples.rates[:, [1, 0, 2]]), reference, IDENTITY, OPTIONS)
    dead = calibrated(samples._replace(rates=0 * samples.rates), reference, IDENTITY, OPTIONS)
    for each in (mirrored, dead):
        assert each.used.startswith("not used") and not len(each.gyro.times) and len(each.notes) == 1
    assert "mirrored" in mirrored.notes[0] and "dead" in dead.notes[0]
    short = calibrated(*walk(4.0)[:2], IDENTITY, OPTIONS)
    assert short.used == "not used: there are less than 5 s in which both were measured" and not short.notes


@pytest.mark.filterwarnings("error")
def test_damaged_angular_rates_are_not_used() -> None:
    samples, reference, rotation = walk(15.0)
    rates = samples.rates.astype("f4")
    rates[30::40], rates[33::80], rates[50::160] = 1e30, np.inf, np.nan
    valid = np.ones(len(rates), "u1")
    valid[60::200] = 0
    recorded = (samples.times + 1e9, rates, samples.acc / GRAVITY, valid)
    found = Samples.of(recorded, OPTIONS, reference[0][::10] + 1e9, 1e9)
    assert found.acc_unit == "g" and np.isnan(found.rates[[30, 33, 50, 60]]).all()
    np.testing.assert_allclose(found.acc[:50], samples.acc[:50], atol=1e-9)
    imu = calibrated(found, reference, IDENTITY, OPTIONS)
    assert imu.used == "used" and imu.calibration is not None
    assert np.degrees(np.linalg.norm(log(rotation[None] @ imu.calibration.model.rotation.T))) < 0.3
    assert np.abs(imu.gyro.rates).max() < 3
    nothing = Samples.of((samples.times, rates, samples.acc / 3, None), OPTIONS, reference[0][::10], 0.0)
    assert "neither in m/s2 nor in g" in nothing.acc_unit and np.isnan(nothing.acc).all()


def test_rates_are_split_into_what_a_spline_can_follow_and_small_rotations() -> None:
    times = np.sort(np.arange(0, 8, 0.01) + np.random.default_rng(0).uniform(-1e-3, 1e-3, 800))
    slow = 0.5 * np.sin(2 * np.pi * 0.8 * times)[:, None] * [0.2, 0.5, 1.0]
    angle = np.radians(0.3) * np.sin(2 * np.pi * 15 * times)[:, None] * [1.0, 0.0, -0.5]
    rates = slow + np.radians(0.3) * 2 * np.pi * 15 * np.cos(2 * np.pi * 15 * times)[:, None] * [1.0, 0.0, -0.5]
    follows, vibration = split_rates(times, rates, 0.05)
    inner = slice(20, -20)
    assert np.degrees(np.abs(vibration.angle - angle)[inner].max()) < 0.03
    assert np.abs(follows - slow)[inner].max() < 0.03
    between = (times[1:] + times[:-1])[inner] / 2
    expected = np.radians(0.3) * np.sin(2 * np.pi * 15 * between)[:, None] * [1.0, 0.0, -0.5]
    assert np.degrees(np.abs(vibration.at(between)[0] - expected).max()) < 0.03
    assert worth_while(vibration, 0.002, 0.05)
    quiet = slow + np.random.default_rng(1).normal(0, 0.002, slow.shape)
    assert not worth_while(split_rates(times, quiet, 0.05)[1], 0.002, 0.05)


def test_nothing_is_integrated_over_a_gap_of_the_gyroscope() -> None:
    times = np.arange(0, 8, 0.01)
    rates = 0.5 * np.cos(2 * np.pi * 15 * times)[:, None] * [1.0, 0.0, 0.0]
    kept = (times < 3) | (times > 3.2)
    _, vibration = split_rates(times[kept], rates[kept], 0.05)
    angle, rate = vibration.at(np.array([3.1, 2.0, -1.0, 9.0]))
    assert np.abs(angle[1]).max() > 0 and not angle[[0, 2, 3]].any() and not rate[[0, 2, 3]].any()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_up_is_found_where_the_rig_turns_and_its_bias_cannot_hide(sign: float) -> None:
    samples, _, rotation = walk(20.0)
    motion = build(PRESETS["indoor"], 0).motion
    ts = np.arange(0.0, 20.0, 0.1)
    world = exp(np.array([[0.05, -0.1, 0.7]]))[0]
    trajectory = Trajectory(ts, motion.at(ts + 2.0).rotated(world), np.ones(len(ts)))
    mount = Mount(np.zeros(3), rotation)
    level = find_level(trajectory, samples.times, sign * samples.acc, mount, np.radians(0.1))
    tilt = np.arccos(np.clip(level.up @ world[:, 2], -1, 1))
    assert tilt < 3 * level.tilt_sigma and level.tilt_sigma < np.radians(0.7)
    assert (np.abs(level.bias - [0.05, -0.1, 0.1]) < 4 * level.bias_sigma).all()
    # A rig that stands cannot tell its bias from a tilt, and says so.
    rest = motion.at(np.full(len(ts), 0.0)).rotated(world)
    still = np.tile(rest.rot[0].T @ world[:, 2] * GRAVITY @ rotation, (len(samples.times), 1))
    stands = find_level(Trajectory(ts, rest, np.ones(len(ts))), samples.times, sign * still, mount, 0.0)
    assert np.radians(1.0) < stands.tilt_sigma < np.radians(1.5)


def test_an_accelerometer_that_contradicts_the_trajectory_tells_nothing() -> None:
    samples, _, _ = walk(20.0)
    motion = build(PRESETS["indoor"], 0).motion
    ts = np.arange(0.0, 20.0, 0.1)
    trajectory = Trajectory(ts, motion.at(ts + 2.0), np.ones(len(ts)))
    with pytest.raises(ValueError, match="differs by"):
        find_level(trajectory, samples.times, samples.acc, IDENTITY, 0.0)
    with pytest.raises(ValueError, match="less than 2 s"):
        find_level(trajectory, samples.times[:150], samples.acc[:150], IDENTITY, 0.0)


def test_an_accelerometer_contradicts_a_slip_and_neither_a_gap_nor_a_sweep_that_is_off_by_millimetres() -> None:
    motion, samples = build(PRESETS["indoor"], 0).motion, np.arange(0.0, 8.0, 0.005)
    ts = np.arange(0.0, 8.0, 0.1)
    true, felt = motion.at(ts + 2.0), motion.at(samples + 2.0)
    acc = np.einsum("nji,nj->ni", felt.rot, felt.acc + np.array([0.0, 0.0, GRAVITY]))
    level = Level(np.array([0.0, 0.0, 1.0]), 0.01, np.zeros(3), np.full(3, 0.05), np.zeros(3), downward=False)

    def against(state: State, frames: np.ndarray) -> np.ndarray:
        part = State(*(each[frames] for each in state))
        trajectory = Trajectory(ts[frames], part, np.ones(len(frames)), max_gap=MAX_BRIDGED)
        return contradicted(trajectory.ts, measured(trajectory, samples, acc, np.eye(3)), level)

    every = np.arange(80)
    assert not against(true, every).any()
    # The spline follows the sweep, so that its velocity is wrong by 0.12 m/s beside it.
    off, swings = np.zeros((80, 3)), np.zeros((80, 3))
    off[40, 0], swings[39, 0], swings[41, 0] = 0.004, 0.12, -0.12
    assert not against(true._replace(pos=true.pos + off, vel=true.vel + swings), every).any()
    slips = true._replace(pos=true.pos + np.where(ts >= 4.0, 0.2, 0.0)[:, None] * [1.0, 0.0, 0.0])
    assert against(slips, every)[40:42].all() and not against(slips, every)[:30].any()
    late = true._replace(pos=true.pos + np.where(ts >= 7.5, 0.2, 0.0)[:, None] * [1.0, 0.0, 0.0])
    assert against(late, every)[75:].any() and not against(late, every)[:65].any()
    # Beside a gap, the positions of both sides and the motion between them are what joined them, not what was seen.
    assert not against(slips, np.r_[0:35, 45:80]).any()


def test_a_wrong_scale_of_an_accelerometer_contradicts_no_drive_and_one_of_half_the_speed_is_contradicted() -> None:
    def drive(times: np.ndarray) -> State:
        # It stands for five seconds, and sets off by 4 m/s2.
        since, none = np.maximum(times - 5.0, 0.0), np.zeros((len(times), 2))
        pos, vel, acc = (np.column_stack([each, none]) for each in (2 * since**2, 4 * since, 4.0 * (since > 0)))
        return State(pos, np.tile(np.eye(3), (len(times), 1, 1)), vel, acc, np.zeros((len(times), 3)))

    samples, ts, scale = np.arange(0.0, 8.0, 0.005), np.arange(0.0, 8.0, 0.1), 1.09
    noise = np.random.default_rng(5).normal(0, 0.05, (len(samples), 3))  # a device that repeats a value is frozen
    acc = scale * (drive(samples).acc + np.array([0.0, 0.0, GRAVITY])) + noise
    bias = np.array([0.0, 0.0, (scale - 1) * GRAVITY])
    level = Level(np.array([0.0, 0.0, 1.0]), 0.01, bias, np.full(3, 0.05), np.zeros(3), downward=False)
    trajectories = (
        Trajectory(ts, state, np.ones(80), max_gap=MAX_BRIDGED)
        for state in (drive(ts), drive(ts)._replace(pos=drive(ts).pos / 2))
    )
    right, half = (contradicted(ts, measured(each, samples, acc, np.eye(3)), level) for each in trajectories)
    assert not right.any() and half[55:].mean() > 0.9


def test_a_trajectory_that_stands_is_contradicted_by_an_accelerometer_that_walks_however_it_is_turned_or_late() -> None:
    motion, samples, ts = build(PRESETS["indoor"], 0).motion, np.arange(0.0, 6.0, 0.005), np.arange(0.0, 6.0, 0.1)
    rng = np.random.default_rng(3)

    def felt(state: State, true: State, late: float = 0.0) -> np.ndarray:
        acc = np.einsum("nji,nj->ni", true.rot, true.acc + np.array([0.0, 0.0, GRAVITY])) + rng.normal(
            0, 0.5, (1200, 3)
        )
        turned = exp(np.array([[0.1, 0.05, 1.5]]))[0]
        trajectory = Trajectory(ts, state, np.ones(len(ts)), max_gap=MAX_BRIDGED)
        return felt_at_rest(trajectory, measured(trajectory, samples + late, acc @ turned, np.eye(3)))

    def sways(times: np.ndarray, metres: float) -> State:
        # Once a second, as a hand does.
        turn, along, none = 2 * np.pi * times[:, None], np.array([[1.0, 0.0, 0.0]]), np.zeros((len(times), 3))
        return State(
            pos=metres * np.sin(turn) * along, rot=np.tile(np.eye(3), (len(times), 1, 1)),
            vel=metres * 2 * np.pi * np.cos(turn) * along, acc=-metres * (2 * np.pi) ** 2 * np.sin(turn) * along,
            avel=none,
        )  # fmt: skip

    walk = motion.at(samples + 2.0)
    assert felt(sways(ts, 0.0), walk).all() and felt(sways(ts, 0.002), walk, late=0.2).all()
    assert not felt(motion.at(ts + 2.0), walk).any(), "a trajectory that walks as well"
    assert not felt(sways(ts, 0.0), sways(samples, 0.0)).any(), "at rest there is noise only"
    assert not felt(sways(ts, 0.02), sways(samples, 0.02), late=0.2).any(), "a hand that holds the rig"
    # A clock that is late makes the end of a stand look like a motion.
    assert not felt(motion.at(np.maximum(ts - 4.0, 0.0)), motion.at(np.maximum(samples - 3.7, 0.0))).any()


def test_an_accelerometer_that_feels_nothing_contradicts_buses_that_set_off_in_most_of_a_recording() -> None:
    samples, ts = np.arange(0.0, 5.0, 0.005), np.arange(0.0, 5.0, 0.1)
    rng = np.random.default_rng(0)
    rest = np.array([0.0, 0.0, GRAVITY]) + rng.normal(0, 0.02, (len(samples), 3))
    level = Level(np.array([0.0, 0.0, 1.0]), 0.01, np.zeros(3), np.full(3, 0.05), np.zeros(3), downward=False)
    pace = Pace(1.7, 1.0, 2.0)
    path, felt = pace.arc_length(ts), pace.arc_length(samples).rate2

    def against(acc: np.ndarray, turning: float = 0.0) -> np.ndarray:
        along, none = np.array([[1.0, 0.0, 0.0]]), np.zeros((len(ts), 3))
        state = State(
            pos=path.value[:, None] * along, rot=np.tile(np.eye(3), (len(ts), 1, 1)), vel=path.rate[:, None] * along,
            acc=path.rate2[:, None] * along, avel=none + turning,
        )  # fmt: skip
        trajectory = Trajectory(ts, state, np.ones(len(ts)), max_gap=MAX_BRIDGED)
        return contradicted(ts, measured(trajectory, samples, acc, np.eye(3)), level)

    # It moves at a constant speed after they have set off, and stands before: one of both is wrong.
    assert against(rest)[1:-1].all() and against(rest, turning=0.1)[1:-1].all()
    assert not against(rest + felt[:, None] * [1.0, 0.0, 0.0]).any(), "the rig itself sets off"
    assert not against(np.repeat(rest[::200], 200, axis=0)).any(), "an IMU that repeats a value"
    # Where they stop again, what is before and after is right.
    path = Jet(
        *(on - off for on, off in zip(*(Pace(1.7, stand, 0.7).arc_length(ts) for stand in (1.5, 3.0)), strict=True))
    )
    assert against(rest)[17:34].all() and not against(rest)[:10].any() and not against(rest)[45:].any()


def test_a_trajectory_that_stands_is_contradicted_by_four_seconds_of_felt_acceleration_in_eight() -> None:
    samples, ts = np.arange(0.0, 8.0, 0.005), np.arange(0.0, 8.0, 0.1)
    none, still = np.zeros((len(ts), 3)), np.tile(np.eye(3), (len(ts), 1, 1))
    rest = np.array([0.0, 0.0, GRAVITY]) + np.random.default_rng(0).normal(0, 0.03, (len(samples), 3))
    sets_off = (samples < 4)[:, None] * [1.0, 0.0, 0.0]
    trajectory = Trajectory(ts, State(none, still, none, none, none), np.ones(len(ts)), max_gap=MAX_BRIDGED)

    def against(acc: np.ndarray) -> np.ndarray:
        level = find_level(trajectory, samples, acc, Mount(np.zeros(3), np.eye(3)), 0.0)
        return contradicted(ts, measured(trajectory, samples, acc, np.eye(3)), level)

    assert against(rest + sets_off).sum() > 70 and not against(rest).any()
