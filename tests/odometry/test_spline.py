"""The spline trajectory: its derivatives, and its fit through poses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rover_pipeline.kinematics.state import State
from rover_pipeline.odometry.spline import SplineTrajectory, fit_spline
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import build


@pytest.fixture(scope="module")
def walk() -> tuple[np.ndarray, State, SplineTrajectory]:
    times = np.arange(1.0, 8.0, 0.1)
    truth = build(PRESETS["indoor"], 0).motion.at(times)
    return times, truth, fit_spline(times, truth.pos, truth.rot, 0.9, 8.0, 0.05, 30.0)


def test_velocities_are_the_derivatives_of_poses(walk: tuple[np.ndarray, State, SplineTrajectory]) -> None:
    _, _, trajectory = walk
    times, step = np.linspace(1.2, 7.8, 301), 1e-4
    before, here, after = (trajectory.at(times + shift) for shift in (-step, 0.0, step))
    np.testing.assert_allclose((after.pos - before.pos) / (2 * step), here.vel, atol=1e-6)
    np.testing.assert_allclose((after.vel - before.vel) / (2 * step), here.acc, atol=1e-2)
    rotation = Rotation.from_matrix(before.rot).inv() * Rotation.from_matrix(after.rot)
    np.testing.assert_allclose(rotation.as_rotvec() / (2 * step), here.avel, atol=1e-6)


def test_a_fit_passes_through_the_poses_of_a_walk_and_has_its_velocity(
    walk: tuple[np.ndarray, State, SplineTrajectory],
) -> None:
    times, truth, trajectory = walk
    state = trajectory.at(times[2:-2])
    assert np.abs(state.pos - truth.pos[2:-2]).max() < 0.001
    assert np.abs(state.rot - truth.rot[2:-2]).max() < 0.001
    assert np.abs(state.vel - truth.vel[2:-2]).max() < 0.05
    assert np.abs(state.avel - truth.avel[2:-2]).max() < 0.02


def test_angular_velocities_do_not_depend_on_the_world_frame(
    walk: tuple[np.ndarray, State, SplineTrajectory],
) -> None:
    times, _, trajectory = walk
    rotation, shift = Rotation.from_euler("zyx", [2.0, 0.3, -0.4]).as_matrix(), np.array([3.0, -2.0, 1.0])
    here, there = trajectory.at(times), trajectory.transformed(rotation, shift).at(times)
    np.testing.assert_allclose(there.pos, here.pos @ rotation.T + shift, atol=1e-12)
    np.testing.assert_allclose(there.rot, rotation @ here.rot, atol=1e-12)
    np.testing.assert_allclose(there.avel, here.avel, atol=1e-9)
