"""The calibration of an IMU against a lidar's trajectory: simulated walks, unknown mounts, and what can be wrong."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter1d
from scipy.spatial.transform import Rotation, RotationSpline

from rover_pipeline.imu.alignment import Model, align
from rover_pipeline.imu.blocks import Means, find_damage
from rover_pipeline.imu.calibration import Calibration, calibrate
from rover_pipeline.kinematics.rotation import log
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import build
from rover_pipeline.simulate.sensors.imu import GRAVITY


class Walk(NamedTuple):
    """What an IMU and a lidar measure on the same walk: stamps and rates of both, and the truth."""

    times: np.ndarray
    rates: np.ndarray
    acc: np.ndarray
    lidar_times: np.ndarray
    lidar: np.ndarray
    rotation: np.ndarray
    offset: float
    bias: np.ndarray

    def calibrated(self) -> Calibration:
        return calibrate(self.times, self.rates, self.lidar_times, self.lidar)


def lidar_noise(count: int, sigma: float, rng: np.random.Generator) -> np.ndarray:
    """Errors of rates of a trajectory whose angles are off by a bounded amount, as lidar odometry's are; (count, 3)."""
    noise = np.diff(gaussian_filter1d(rng.normal(size=(count + 1, 3)), 1.5, axis=0), axis=0)
    return noise / noise.std() * sigma


def walk(preset: str = "indoor", *, seconds: float = 90.0, seed: int = 0, sigma: float = 0.05) -> Walk:
    """An IMU at 100 Hz, turned anyhow, 0.1 s off at most, with a bias of 0.08 rad/s and a scale error of 1 %."""
    rng, motion = np.random.default_rng(seed), build(PRESETS[preset], 0).motion
    times, lidar_times = np.arange(0, seconds, 0.01), np.arange(0, seconds, 0.02)
    state, rotation = motion.at(times), Rotation.random(rng=rng).as_matrix()
    bias, offset = rng.normal(size=3), rng.uniform(-0.1, 0.1)
    bias *= 0.08 / np.linalg.norm(bias)
    rates = 1.01 * state.avel @ rotation + bias + rng.normal(0, 0.002, (len(times), 3))
    acc = np.einsum("nji,nj->ni", state.rot, state.acc + np.array([0, 0, GRAVITY])) @ rotation
    lidar = motion.at(lidar_times).avel + lidar_noise(len(lidar_times), sigma, rng)
    return Walk(times - offset, rates, acc + rng.normal(0, 0.02, acc.shape), lidar_times, lidar, rotation, offset, bias)


def rotation_error(found: np.ndarray, true: np.ndarray) -> float:
    return float(np.degrees(np.linalg.norm(log(true[None] @ found.T))))


@pytest.mark.parametrize(("preset", "seed"), [("indoor", 0), ("bike", 2)])
def test_rotation_offset_and_bias_are_found_on_a_walk(preset: str, seed: int) -> None:
    data = walk(preset, seed=seed, seconds=150.0)
    found = data.calibrated()
    assert found.usable and found.unit == "rad/s" and found.notes == []
    assert rotation_error(found.model.rotation, data.rotation) < 0.3
    assert abs(found.model.offset - data.offset) < 2e-3 and found.sigma[3] < 1e-3
    assert np.abs(found.model.bias - data.bias).max() < 1e-3
    np.testing.assert_allclose(found.model.scale, 1.01, atol=4 * (found.model.scale * found.sigma[7:10]).max())
    times, rates = found.apply(data.times, data.rates)
    true = build(PRESETS[preset], 0).motion.at(times).avel
    assert np.sqrt(((rates - true) ** 2).mean()) < 0.005
    assert json.loads(json.dumps(found.summary()))["usable"] is True


def test_standard_deviations_are_honest() -> None:
    data, errors = walk("outdoor", seconds=40.0), []
    begin, rng = np.arange(0.0, 39.5, 0.1), np.random.default_rng(5)
    means = Means(data.times, data.rates, np.ones(len(data.times), bool)).smoothed(0.1)
    true = build(PRESETS["outdoor"], 0).motion.at(data.lidar_times).avel
    first = Model(data.rotation, data.offset, data.bias, np.full(3, 1.01))
    for _ in range(100):
        # Errors of the rates at 10 Hz bandwidth, partly with bounded angles: coloured residuals.
        noise = lidar_noise(len(true), 0.03, rng) + gaussian_filter1d(rng.normal(0, 0.03, true.shape), 0.8, axis=0)
        lidar = Means(data.lidar_times, true + noise, np.ones(len(true), bool)).smoothed(0.1)
        gyro, silence = (
            lambda offset: means.over(begin - offset, 0.1),
            lambda _: (np.zeros((50, 3)), np.ones(50, bool)),
        )
        fit = align(*lidar.over(begin, 0.1), gyro, silence, first)
        parts = np.split(fit.model.step_to(first), [3, 4, 7, 10])
        cov = [fit.cov[part, part] for part in (slice(0, 3), slice(3, 4), slice(4, 7), slice(7, 10))]
        errors.append([step @ np.linalg.solve(c, step) / len(c) for step, c in zip(parts, cov, strict=False)])
    assert (np.mean(errors, axis=0) > 0.5).all() and (np.mean(errors, axis=0) < 2.0).all()


def test_degrees_per_second_are_recognised() -> None:
    data = walk()
    found = data._replace(rates=np.degrees(data.rates)).calibrated()
    assert found.usable and found.unit == "deg/s" and "deg/s" in found.notes[0]
    assert np.abs(found.model.bias - data.bias).max() < 1e-3
    assert rotation_error(found.model.rotation, data.rotation) < 0.5
    refused = data._replace(rates=1000 * data.rates).calibrated()
    assert not refused.usable and "neither in rad/s nor in degrees per second" in refused.reason
    json.dumps(refused.summary(), allow_nan=False)


@pytest.mark.parametrize("axes", [[1, 0, 2], [0, 2, 1]])
def test_mirrored_axes_are_recognised(axes: list[int]) -> None:
    data = walk()
    refused = data._replace(rates=data.rates[:, axes]).calibrated()
    assert not refused.usable and "determinant -1" in refused.reason
    turned = data._replace(rates=data.rates[:, [1, 2, 0]]).calibrated()  # a rotation: nothing is wrong
    assert turned.usable


def test_saturated_samples_are_left_out_and_named() -> None:
    data = walk()
    found = data._replace(rates=np.clip(data.rates, -0.4, 0.4)).calibrated()
    assert found.usable and found.saturated_at == pytest.approx(0.4) and "saturates" in found.notes[0]
    assert (
        rotation_error(found.model.rotation, data.rotation) < 1.0 and np.abs(found.model.bias - data.bias).max() < 2e-3
    )
    assert not found.damage.good[np.abs(data.rates).max(axis=1) > 0.41].any()


def test_a_driver_that_repeats_samples_and_a_coarse_sensor_are_not_saturated() -> None:
    rng = np.random.default_rng(0)
    times, rates = np.arange(4000) / 400, np.repeat(rng.normal(0, 0.3, (1000, 3)), 4, axis=0)
    assert not find_damage(times, rates).saturated.any()
    assert not find_damage(times, np.round(rng.normal(0, 0.001, (4000, 3)), 3)).saturated.any()


def test_segments_in_which_the_lidar_is_lost_do_not_matter() -> None:
    data, rng = walk(), np.random.default_rng(1)
    data.lidar[500:800] = 0.0
    data.lidar[2000:2500] += rng.normal(0, 2, (500, 3))
    data.lidar[3000:3100] = np.nan
    found = data.calibrated()
    assert found.usable and 0.7 < found.fit.agreeing < 0.95
    assert rotation_error(found.model.rotation, data.rotation) < 0.6 and abs(found.model.offset - data.offset) < 2e-3


def test_a_gyroscope_that_contradicts_the_lidar_is_refused() -> None:
    data, rng = walk(), np.random.default_rng(1)
    other = data._replace(lidar=np.roll(data.lidar, 2111, axis=0)).calibrated()
    still = data._replace(lidar=lidar_noise(len(data.lidar), 0.05, rng)).calibrated()
    noise = data._replace(rates=rng.normal(0, 0.3, data.rates.shape)).calibrated()
    dead = data._replace(rates=np.zeros_like(data.rates)).calibrated()
    assert not any(each.usable for each in (other, still, noise, dead))
    assert all(each.reason for each in (other, still, noise, dead))


def test_a_clock_that_is_a_second_off_is_named_and_not_used() -> None:
    data = walk(seconds=40.0)
    refused = data._replace(times=data.times + 1.0).calibrated()
    assert (
        not refused.usable and refused.contradicts and "its clock differs from the lidar's by 1.0 s" in refused.reason
    )
    assert data._replace(times=data.times + 0.4).calibrated().usable


def test_nothing_to_compare_is_no_contradiction() -> None:
    data, none = walk(seconds=10.0), np.zeros((0, 3))
    for each in (data._replace(times=none[:, 0], rates=none), data._replace(lidar_times=none[:, 0], lidar=none)):
        refused = each.calibrated()
        assert not refused.usable and not refused.contradicts and "less than 5 s" in refused.reason


def test_vibration_that_only_the_gyroscope_measures_does_not_matter() -> None:
    data = walk()
    shaking = 0.5 * np.sin(2 * np.pi * 15.3 * data.times)[:, None] * [0.3, 0.8, 0.5]
    found = data._replace(rates=data.rates + shaking).calibrated()
    assert found.usable and rotation_error(found.model.rotation, data.rotation) < 0.6
    assert abs(found.model.offset - data.offset) < 2e-3


def test_a_trajectory_that_smooths_the_motion_does_not_change_the_rotation() -> None:
    data = walk(sigma=0.02)
    found = data._replace(lidar=gaussian_filter1d(data.lidar, 4, axis=0)).calibrated()
    assert rotation_error(found.model.rotation, data.rotation) < 0.5 and np.abs(found.model.scale - 1.01).max() < 0.04


def test_what_a_turn_about_one_axis_does_not_tell_is_unknown() -> None:
    data, rng = walk(), np.random.default_rng(3)

    def yaw(times: np.ndarray) -> np.ndarray:
        return np.outer(0.5 * np.sin(1.3 * times) + 0.3 * np.sin(0.4 * times), [0.0, 0.0, 1.0])

    rates = yaw(data.times + data.offset) @ data.rotation + data.bias + rng.normal(0, 0.002, data.rates.shape)
    level = data._replace(rates=rates, lidar=yaw(data.lidar_times) + lidar_noise(len(data.lidar), 0.05, rng))
    found = level.calibrated()
    assert not found.usable and "not enough rotation about two axes" in found.reason and "1.00]" in found.reason
    sigma = np.degrees(found.sigma[:3])
    assert sigma[2] > 90 and sigma[:2].max() < 2
    assert abs(found.model.offset - data.offset) < 2e-3 and np.abs(found.model.bias - data.bias).max() < 1e-3
    # With extrinsics that somebody gave, it is usable.
    given = calibrate(level.times, level.rates, level.lidar_times, level.lidar, mount=data.rotation)
    assert given.usable and rotation_error(given.model.rotation, data.rotation) < 2


def test_without_a_turn_only_the_bias_is_known() -> None:
    data, rng = walk(), np.random.default_rng(4)
    straight = data._replace(
        rates=data.bias + rng.normal(0, 0.002, data.rates.shape), lidar=lidar_noise(len(data.lidar), 0.05, rng)
    ).calibrated()
    assert not straight.usable and straight.sigma[3] > 0.3
    assert np.degrees(straight.sigma[:3]).min() > 90
    assert np.abs(straight.model.bias - data.bias).max() < 1e-3


def test_given_extrinsics_that_the_motion_contradicts_are_named_and_not_used() -> None:
    data = walk()
    found = calibrate(data.times, data.rates, data.lidar_times, data.lidar, mount=np.eye(3))
    assert found.usable and "the given rotation to the lidar is wrong" in found.notes[0]
    assert rotation_error(found.model.rotation, data.rotation) < 0.5


def test_a_walk_of_one_frequency_tells_no_scale_that_the_gyroscopes_own_noise_makes_up() -> None:
    """Each axis swings at a frequency of its own, so that a smoothing of the lidar and a scale look alike."""
    errors = []

    def swing(at: np.ndarray) -> np.ndarray:
        return np.array([0.11, 0.28, 0.3]) * np.cos(2 * np.pi * np.outer(at, [0.9, 1.8, 0.1]) + np.array([0, 0.7, 0]))

    for seed in range(8):
        rng, times, lidar_times = np.random.default_rng(seed), np.arange(-0.5, 8.5, 0.01), np.arange(-0.1, 7.9, 0.02)
        rates = 1.01 * swing(times) + [0.01, -0.008, 0.006] + rng.normal(0, 0.004, (len(times), 3))
        found = calibrate(times, rates, lidar_times, swing(lidar_times) + lidar_noise(len(lidar_times), 1e-3, rng))
        assert np.abs(found.model.scale - 1.01).max() < 0.09
        errors.append((found.model.scale - 1.01) / (found.model.scale * found.sigma[7:10]))
    assert (np.square(errors).mean(axis=0)[:2] < 3).all()  # about the third axis it turns less than once


@pytest.mark.parametrize("seconds", [20.0, 240.0])
def test_the_scale_of_an_imu_is_1_against_the_trajectory_that_was_made_with_it(seconds: float, captures: Path) -> None:
    with lzma.open(captures / "imu_lio" / "imu.txt.xz") as file:
        imu = np.loadtxt(file)
    path = np.loadtxt(captures / "imu_lio" / "traj.txt")
    imu, path = (table[table[:, 0] < imu[0, 0] + seconds] for table in (imu, path))
    times = np.arange(path[0, 0], path[-1, 0], 0.02)
    lidar = RotationSpline(path[:, 0], Rotation.from_quat(path[:, 4:]))(times, 1)
    found = calibrate(imu[:, 0], imu[:, 4:], times, lidar)
    assert found.usable and (np.abs(found.model.scale - 1) < 3 * (found.model.scale * found.sigma[7:10])).all()
    assert (found.model.scale * found.sigma[7:10]).max() < 0.005
