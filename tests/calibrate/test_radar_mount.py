"""The mount of a radar is what its points show beside the lidar's motion, and no more than that is claimed."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.random import Generator

from rover_pipeline.calibrate.radar_mount import Echoes, calibrate, fit
from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.mounts import COMPONENTS, MountEstimate, changed, compare, difference
from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.kinematics.state import State
from rover_pipeline.kinematics.trajectory import Trajectory

#: Where the radar is, and how late its clock is.
TRUE = Mount(np.array([0.3, -0.1, -0.2]), exp(np.array([[0.02, 0.1, 0.6]]))[0], time_offset=-0.012)
SIGMA = 0.01  # m/s, of a Doppler
ERROR = np.array([0.005, 0.02])  # of the sines of azimuth and elevation


def motion(seconds: float = 30.0, speed: float = 1.2, turn: float = 0.5, sway: float = 0.4) -> Trajectory:
    """A walk that turns left and right and sways, or stands still, or goes straight on."""
    ts = 100 + np.arange(0, seconds, 0.02)
    t = ts - 100
    yaw, roll, pitch = turn * np.sin(0.5 * t), sway * np.sin(6.1 * t) / 3, sway * np.cos(5.3 * t) / 3
    zero = np.zeros_like(t)
    rot = exp(np.stack([zero, zero, yaw], 1)) @ exp(np.stack([roll, pitch, zero], 1))
    pace = speed * (1 - 0.5 * np.cos(0.8 * t)) if turn else speed + zero
    ahead = np.stack([pace * np.cos(yaw), pace * np.sin(yaw), zero], 1)
    vel = ahead + sway * np.stack([zero, np.sin(7 * t), np.cos(8 * t)], 1)
    pos = np.cumsum(vel, axis=0) * 0.02
    acc = np.gradient(vel, ts, axis=0)
    step = np.swapaxes(rot[:-1], 1, 2) @ rot[1:]
    rates = np.stack([step[:, 2, 1] - step[:, 1, 2], step[:, 0, 2] - step[:, 2, 0], step[:, 1, 0] - step[:, 0, 1]], 1)
    avel = np.zeros_like(vel)
    avel[1:-1] = (rates[1:] + rates[:-1]) / 2 / 0.04
    avel[0], avel[-1] = avel[1], avel[-2]
    return Trajectory(ts, State(pos, rot, vel, acc, avel), np.ones(len(ts)))


def measured(
    trajectory: Trajectory,
    rng: Generator,
    mount: Mount = TRUE,
    error: np.ndarray = ERROR,
    height: float = 0.4,
    bias: np.ndarray | None = None,
) -> Echoes:
    """Five points at rest in each frame.

    Args:
        height: largest sine of an elevation.
        bias: f8 (2,), what sines of azimuth and elevation are off by to the left; to the right by as much less.
    """
    times = np.repeat(100.5 + np.arange(0, 28.0, 0.05), 5)
    state, _ = trajectory.at(times, mount)
    sines = rng.uniform([-0.8, -height], [0.8, height], (len(times), 2))
    true, seen = (
        np.column_stack([np.sqrt(1 - (each**2).sum(axis=1)), each])
        for each in (
            sines,
            sines + rng.normal(0, error, sines.shape) + (0 if bias is None else np.sign(sines[:, :1]) * bias),
        )
    )
    vel = np.einsum("nji,nj->ni", state.rot, state.vel)
    doppler = rng.normal(0, SIGMA, len(times)) - (true * vel).sum(axis=1)
    return Echoes(times, seen, doppler, np.tile(error, (len(times), 1)), 0 * sines, np.full(len(times), SIGMA))


def named(estimate: MountEstimate) -> set[str]:
    return {name for name, seen in zip(COMPONENTS, estimate.observed, strict=True) if seen}


def test_a_mount_is_found_from_five_degrees_and_twenty_centimetres_off_within_what_is_stated() -> None:
    trajectory, squares = motion(), []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        start = changed(TRUE, rng.normal(0, 1, 7) * [0.05, 0.05, 0.05, 0.12, 0.12, 0.12, 0.03])
        estimate = calibrate(measured(trajectory, rng), trajectory, start)
        error = difference(TRUE, estimate.mount)
        assert estimate.adopted and named(estimate) == {*COMPONENTS}
        assert np.abs(np.degrees(error[:3])).max() < 0.3 and np.abs(error[3:6]).max() < 0.02
        assert abs(error[6]) < 0.003
        squares.append(error @ np.linalg.solve(estimate.covariance, error))
    assert np.mean(squares) / 7 < 1.6, "its deviations are honest"


def test_a_right_mount_has_no_finding_and_a_wrong_one_has_the_right_sign() -> None:
    trajectory, alarms = motion(), 0
    for seed in range(5):
        alarms += compare(TRUE, calibrate(measured(trajectory, np.random.default_rng(seed)), trajectory, TRUE)).is_wrong
    assert alarms == 0
    radar = measured(trajectory, np.random.default_rng(99))
    for component, off in ((0, 1.0), (1, -1.0), (2, 1.0), (3, 0.05), (4, -0.05), (5, 0.05), (6, 0.02)):
        error = np.zeros(7)
        error[component] = np.radians(off) if component < 3 else off
        declared = changed(TRUE, error)
        found = compare(declared, estimate := calibrate(radar, trajectory, declared))
        assert found.is_wrong and estimate.adopted, COMPONENTS[component]
        assert found.component == component and np.sign(found.error[component]) == -np.sign(off)
        sign = "-" if off > 0 else "+"
        assert str(found).startswith(f"{COMPONENTS[component]} {sign}")


def test_a_straight_drive_shows_neither_the_lever_arm_nor_the_roll_and_says_what_would() -> None:
    trajectory = motion(turn=0.0, sway=0.0)
    declared = changed(TRUE, np.array([0.0, 0.0, np.radians(2.0), 0.1, 0.1, 0.1, 0.02]))
    estimate = calibrate(measured(trajectory, np.random.default_rng(1)), trajectory, declared)
    assert "yaw" in named(estimate) and not {"x", "y", "z", "time"} & named(estimate)
    assert np.abs(estimate.mount.translation - declared.translation).max() < 0.02
    assert abs(np.degrees(difference(TRUE, estimate.mount)[2])) < 0.3, "speed shows the yaw all the same"
    assert any("turn left and right" in text for text in estimate.proposals())
    standing = motion(speed=0.0, turn=0.0, sway=0.0)
    estimate = calibrate(measured(standing, np.random.default_rng(1)), standing, declared)
    assert not named(estimate) and not compare(declared, estimate).is_wrong


@pytest.mark.parametrize("pitch", [0.0, 0.15])
def test_noise_of_elevations_does_not_pitch_or_roll_the_radar(pitch: float) -> None:
    true = changed(TRUE, np.array([0, pitch, 0, 0, 0, 0, 0]))
    trajectory, squares, errors = motion(), [], []
    for seed in range(3):
        # Least squares with these elevations as they were measured has velocities up that are 6 % too small.
        radar = measured(trajectory, np.random.default_rng([5, seed]), true, error=np.array([0.01, 0.06]))
        estimate = calibrate(radar, trajectory, true)
        errors.append(error := difference(true, estimate.mount))
        assert not compare(true, estimate).is_wrong and estimate.observed.all()
        squares.append(error @ np.linalg.solve(estimate.covariance, error))
    assert np.mean(squares) / 7 < 1.6 and np.abs(np.degrees(np.mean(errors, axis=0)[:3])).max() < 0.4


def test_a_pitch_and_a_yaw_of_one_degree_are_found_on_a_walk_that_hardly_sways() -> None:
    trajectory, ahead = motion(sway=0.1), TRUE._replace(rotation=exp(np.array([[0.02, 0.1, 0.1]]))[0])
    radar = measured(trajectory, np.random.default_rng(4), ahead)
    for component, off in ((1, 1.0), (1, -1.0), (2, 1.0), (2, -1.0)):
        declared = changed(ahead, np.radians(off) * np.eye(7)[component])
        found = compare(declared, calibrate(radar, trajectory, declared))
        assert found.is_wrong and found.component == component and found.error[component] * off < 0


def test_points_above_that_are_several_targets_do_not_pitch_the_radar() -> None:
    trajectory, errors = motion(sway=0.1), []
    ahead = TRUE._replace(rotation=exp(np.array([[0.02, 0.1, 0.1]]))[0])
    radar = measured(trajectory, np.random.default_rng(8), ahead)
    left, up = radar.direction[:, 1:].T
    apart = 0.15 * (up > 0)
    mean = np.mean([np.sqrt(1 - left**2 - (up + sign * apart) ** 2) for sign in (-1, 1)], axis=0)
    state, _ = trajectory.at(radar.times, ahead)
    speed = np.einsum("nj,nj->n", state.rot[:, :, 0], state.vel)
    radar = radar._replace(doppler=radar.doppler + (radar.direction[:, 0] - mean) * speed)
    for spread in (0 * apart, apart):
        estimate = calibrate(radar._replace(spread=np.column_stack([0 * apart, spread])), trajectory, ahead)
        errors.append(np.degrees(difference(ahead, estimate.mount)[1]))
    assert abs(errors[0]) > 0.6 and abs(errors[1]) < 0.15


def test_directions_that_err_to_one_side_make_deviations_larger() -> None:
    trajectory, ratios, sigmas = motion(), [], []
    for off in (0.0, 0.02):
        bias = np.array([0.0, off])
        found = calibrate(measured(trajectory, np.random.default_rng(7), bias=bias), trajectory, TRUE)
        error = difference(TRUE, found.mount)
        ratios.append(float(error @ np.linalg.solve(found.covariance, error)) / 7)
        sigmas.append(found.sigma[:3].max())
    assert sigmas[1] > 1.5 * sigmas[0] and max(ratios) < 2.5


def test_a_late_clock_is_not_taken_for_a_turned_radar() -> None:
    trajectory = motion()
    late = TRUE._replace(time_offset=-0.05)
    declared = late._replace(time_offset=0.0)
    estimate = calibrate(measured(trajectory, np.random.default_rng(3), late), trajectory, declared)
    found = compare(declared, estimate)
    assert found.is_wrong and found.component == COMPONENTS.index("time") and abs(found.error[6] + 0.05) < 0.005
    assert np.abs(np.degrees(found.error[:3])).max() < 0.3


def test_a_late_clock_is_found_where_one_half_of_the_recording_goes_straight_on() -> None:
    straight, swaying = motion(seconds=15.0, turn=0.0, sway=0.0), motion(seconds=15.0)
    states = State(*(np.concatenate(pair) for pair in zip(straight.states, swaying.states, strict=True)))
    whole = Trajectory(np.concatenate([straight.ts, swaying.ts + 15]), states, np.ones(len(states.pos)))
    for seed in range(4):
        radar = measured(whole, np.random.default_rng([2, seed]))
        late = TRUE._replace(time_offset=TRUE.time_offset + 0.05)
        estimate = calibrate(radar.select(np.abs(radar.times - 115) > 0.2), whole, late)
        found = compare(late, estimate)
        assert estimate.adopted and found.is_wrong and found.component == COMPONENTS.index("time")


def test_noise_of_the_lidars_motion_shows_no_time_offset() -> None:
    # Both sensors have ten samples a second, so that noise of the motion is the smallest midway between sweeps.
    true, ratios = TRUE._replace(time_offset=0.0), []
    for seed in range(6):
        rng, whole = np.random.default_rng([8, seed]), motion(speed=0.8, turn=0.05, sway=0.0)
        states = whole.states.select(np.arange(0, len(whole.ts), 5))
        noise = np.diff(rng.normal(0, 0.004, (len(states.pos) + 1, 3)), axis=0)
        noisy = Trajectory(whole.ts[::5], states._replace(vel=states.vel + noise), np.ones(len(noise)))
        radar = measured(whole, rng, true)
        found = fit(radar.select(np.arange(len(radar.times)) % 10 < 5), noisy, true).estimate
        ratios.append(found.mount.time_offset / found.sigma[6])
    assert np.mean(np.square(ratios)) < 2.5


def test_a_radar_of_which_nobody_says_where_it_looks_is_found() -> None:
    trajectory, backwards = motion(), Mount(np.array([-0.4, 0.0, 0.1]), exp(np.array([[0.1, -0.2, 2.9]]))[0])
    unknown = Mount(np.zeros(3), np.eye(3), "identity")
    estimate = calibrate(measured(trajectory, np.random.default_rng(4), backwards), trajectory, unknown)
    assert estimate.adopted and np.degrees(np.abs(difference(backwards, estimate.mount)[:3])).max() < 0.5


@pytest.mark.parametrize("how", ["follows a car", "moved on the rig"])
def test_velocities_that_no_mount_explains_leave_the_declared_one(how: str) -> None:
    trajectory, rng = motion(), np.random.default_rng(5)
    radar = measured(trajectory, rng)
    if how == "follows a car":  # the echoes are of another body, which moves as it likes
        other = np.stack([np.sin(1.3 * radar.times), np.cos(0.7 * radar.times), 0 * radar.times], 1)
        radar = radar._replace(doppler=rng.normal(0, SIGMA, len(other)) - (radar.direction * other).sum(axis=1))
    else:
        turned = measured(trajectory, np.random.default_rng(5), changed(TRUE, np.array([0, 0, 0.1, 0, 0, 0, 0])))
        radar = radar._replace(doppler=np.where(radar.times > np.median(radar.times), turned.doppler, radar.doppler))
    estimate = calibrate(radar, trajectory, TRUE)
    assert not estimate.adopted and estimate.remarks and not compare(TRUE, estimate).is_wrong
    assert np.allclose(estimate.covariance, estimate.prior)


def test_points_that_move_are_no_part_of_the_world() -> None:
    trajectory, rng = motion(), np.random.default_rng(9)
    radar = measured(trajectory, rng)
    moves = rng.random(len(radar.times)) < 0.3
    declared = changed(TRUE, np.radians([0, 0, 3.0, 0, 0, 0, 0]))
    moving = radar._replace(doppler=radar.doppler + moves * rng.normal(0, 2, len(moves)))
    found = calibrate(moving, trajectory, declared)
    error = difference(TRUE, found.mount)
    assert found.adopted and np.abs(np.degrees(error[:3])).max() < 0.4 and not compare(TRUE, found).is_wrong


def test_an_array_that_knows_no_elevation_shows_the_yaw() -> None:
    trajectory, rng = motion(sway=0.0), np.random.default_rng(10)
    level = TRUE._replace(rotation=np.eye(3))
    radar = measured(trajectory, rng, level, height=0.05)
    ahead = np.sqrt(1 - radar.direction[:, 1] ** 2)
    flat = np.column_stack([ahead, radar.direction[:, 1], 0 * ahead])
    radar = radar._replace(direction=flat, error=radar.error * [1, 0])
    declared = changed(level, np.radians([0, 0, 1.5, 0, 0, 0, 0]))
    found = compare(declared, calibrate(radar, trajectory, declared))
    assert found.is_wrong and found.component == 2 and abs(np.degrees(found.error[2]) + 1.5) < 0.5


def test_a_few_frames_show_nothing() -> None:
    trajectory = motion()
    few = measured(trajectory, np.random.default_rng(6)).select(np.arange(120))
    assert "too few" in calibrate(few, trajectory, TRUE).remarks[0]
