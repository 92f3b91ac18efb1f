"""The spline: its derivatives are those of its poses, and it goes through the poses it is fitted to."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rover_pipeline.kinematics.state import State as Kinematics
from rover_pipeline.odometry.trajectory import Trajectory, fit
from rover_pipeline.simulate import PRESETS
from rover_pipeline.simulate.rig import build


@pytest.fixture(scope="module")
def walk() -> tuple[np.ndarray, Kinematics, Trajectory]:
    times = np.arange(1.0, 8.0, 0.1)
    truth = build(PRESETS["indoor"], 0).motion.at(times)
    return times, truth, fit(times, truth.pos, truth.rot, 0.9, 8.0, 0.05, 30.0)


def test_velocities_are_the_derivatives_of_poses(walk: tuple[np.ndarray, Kinematics, Trajectory]) -> None:
    _, _, trajectory = walk
    times, step = np.linspace(1.2, 7.8, 301), 1e-4
    before, here, after = (trajectory.at(times + shift) for shift in (-step, 0.0, step))
    np.testing.assert_allclose((after.pos - before.pos) / (2 * step), here.vel, atol=1e-6)
    np.testing.assert_allclose((after.vel - before.vel) / (2 * step), here.acc, atol=1e-2)
    turned = Rotation.from_matrix(before.rot).inv() * Rotation.from_matrix(after.rot)
    np.testing.assert_allclose(turned.as_rotvec() / (2 * step), here.avel, atol=1e-6)


def test_a_fit_goes_through_a_walkers_poses_and_has_his_velocity(
    walk: tuple[np.ndarray, Kinematics, Trajectory],
) -> None:
    times, truth, trajectory = walk
    found = trajectory.at(times[2:-2])
    assert np.abs(found.pos - truth.pos[2:-2]).max() < 0.001
    assert np.abs(found.rot - truth.rot[2:-2]).max() < 0.001
    assert np.abs(found.vel - truth.vel[2:-2]).max() < 0.05
    assert np.abs(found.avel - truth.avel[2:-2]).max() < 0.02


def test_another_world_changes_nothing_that_the_lidar_feels(walk: tuple[np.ndarray, Kinematics, Trajectory]) -> None:
    times, _, trajectory = walk
    turn, shift = Rotation.from_euler("zyx", [2.0, 0.3, -0.4]).as_matrix(), np.array([3.0, -2.0, 1.0])
    here, there = trajectory.at(times), trajectory.moved(turn, shift).at(times)
    np.testing.assert_allclose(there.pos, here.pos @ turn.T + shift, atol=1e-12)
    np.testing.assert_allclose(there.rot, turn @ here.rot, atol=1e-12)
    np.testing.assert_allclose(there.avel, here.avel, atol=1e-9)
