"""Motion: velocities and accelerations are the derivatives of poses, and an ideal IMU integrates to the trajectory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rover_pipeline.simulate.motion import Motion
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import MOUNTS, build, mount_at
from rover_pipeline.simulate.sensors import imu

STEP_S = 1e-4


@pytest.fixture(params=["indoor", "stairs", "outdoor", "bike"])
def motion(request: pytest.FixtureRequest) -> Motion:
    return replace(build(PRESETS[request.param], 0).motion, mount=mount_at(0.1, 0.2, -0.3, yaw=10, pitch=5))


def test_velocity_and_acceleration_are_the_derivatives_of_position(motion: Motion) -> None:
    times = np.linspace(0.0, 60.0, 3001)
    before, now, after = (motion.at(times + shift) for shift in (-STEP_S, 0.0, STEP_S))
    np.testing.assert_allclose((after.pos - before.pos) / (2 * STEP_S), now.vel, atol=1e-5)
    np.testing.assert_allclose((after.vel - before.vel) / (2 * STEP_S), now.acc, atol=1e-4)


def test_angular_velocity_is_the_derivative_of_rotation_in_the_sensors_own_frame(motion: Motion) -> None:
    times = np.linspace(0.0, 60.0, 3001)
    before, now, after = (motion.at(times + shift) for shift in (-STEP_S, 0.0, STEP_S))
    rotation = Rotation.from_matrix(before.rot).inv() * Rotation.from_matrix(after.rot)
    np.testing.assert_allclose(rotation.as_rotvec() / (2 * STEP_S), now.avel, atol=1e-5)


def test_the_rig_stands_level_before_it_walks() -> None:
    state = build(PRESETS["indoor"], 0).motion.at(np.linspace(0.0, 1.0, 11))
    assert not state.vel.any() and not state.acc.any() and not state.avel.any()
    np.testing.assert_allclose(state.rot[:, 2], np.broadcast_to([0.0, 0.0, 1.0], (11, 3)), atol=1e-12)


def test_a_walker_moves_up_and_down_twice_as_often_as_sideways() -> None:
    motion = build(PRESETS["indoor"], 0).motion
    times = np.arange(4.0, 30.0, 0.01)
    height = motion.at(times).pos[:, 2]
    spectrum = np.abs(np.fft.rfft(height - height.mean()))
    roll = np.arcsin(motion.at(times).rot[:, 2, 1])
    roll_spectrum = np.abs(np.fft.rfft(roll - roll.mean()))
    assert np.argmax(spectrum) == pytest.approx(2 * np.argmax(roll_spectrum), abs=2)
    assert 0.02 < np.ptp(height) < 0.08


def test_a_closed_path_returns_to_its_start() -> None:
    motion = build(PRESETS["indoor"], 0).motion
    lap = motion.path.length / motion.speed
    first, again = motion.at(np.array([10.0])), motion.at(np.array([10.0 + lap]))
    assert np.linalg.norm(first.pos[0, :2] - again.pos[0, :2]) < 0.1


@pytest.mark.parametrize("preset", ["indoor", "outdoor", "bike"])
def test_integrating_an_ideal_imu_for_10_s_gives_the_trajectory_within_1_cm(preset: str) -> None:
    motion = replace(build(PRESETS[preset], 0).motion, mount=MOUNTS["imu"])
    period = 0.01
    state = motion.at(np.arange(2.0, 12.0 + period / 2, period))
    reading = imu.ideal_reading(state)
    gravity = np.array([0.0, 0.0, -imu.GRAVITY])
    rot, vel, pos = Rotation.from_matrix(state.rot[0]), state.vel[0], state.pos[0]
    force = rot.apply(reading.acc[0]) + gravity
    for sample in range(1, len(reading.acc)):
        rot = rot * Rotation.from_rotvec((reading.avel[sample - 1] + reading.avel[sample]) / 2 * period)
        last, force = force, rot.apply(reading.acc[sample]) + gravity
        pos = pos + vel * period + (2 * last + force) / 6 * period**2
        vel = vel + (last + force) / 2 * period
        assert np.linalg.norm(pos - state.pos[sample]) < 0.01


def test_the_specific_force_at_rest_points_up_and_euler_angles_are_intrinsic_xyz() -> None:
    mount = mount_at(0.0, 0.0, 0.0, yaw=30, pitch=10)
    state = replace(build(PRESETS["indoor"], 0).motion, mount=mount).at(np.array([0.0, 8.0]))
    reading = imu.ideal_reading(state)
    np.testing.assert_allclose(state.rot[0] @ reading.acc[0], [0.0, 0.0, 9.80665], atol=1e-9)
    np.testing.assert_allclose(Rotation.from_euler("XYZ", reading.rot).as_matrix(), state.rot, atol=1e-12)
