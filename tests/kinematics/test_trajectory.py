"""The continuous trajectory compared with the simulator's exact motion, and the instants where it is not known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rover_pipeline.kinematics.mount import IDENTITY, Mount
from rover_pipeline.kinematics.rotation import interpolate_rotation
from rover_pipeline.kinematics.state import State
from rover_pipeline.kinematics.sweep import SweepMotion
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import MOUNTS, build

RATE = 10.0


def recorded(preset: str, seconds: float) -> Trajectory:
    """A trajectory through the lidar's exact states, ten a second."""
    times = np.arange(0.0, seconds, 1 / RATE)
    state = build(PRESETS[preset], 0).motion.at(times)
    return Trajectory(times, State(*state), np.ones(len(times)))


def mount(sensor: str) -> Mount:
    return Mount(MOUNTS[sensor].translation, MOUNTS[sensor].rotation, "config")


@pytest.mark.parametrize("preset", ["indoor", "outdoor", "bike"])
@pytest.mark.parametrize("sensor", ["radar", "imu"])
def test_a_sensor_on_the_rig_is_where_the_simulator_puts_it(preset: str, sensor: str) -> None:
    trajectory = recorded(preset, 30.0)
    times = np.linspace(0.05, 29.8, 4001)
    truth = build(PRESETS[preset], 0).mounted(sensor).at(times)
    found, known = trajectory.at(times, mount(sensor))
    assert known.all()
    assert np.abs(found.pos - truth.pos).max() < 0.0005
    assert np.abs(found.vel - truth.vel).max() < 0.015
    # The road shakes the bike at frequencies that ten states per second cannot represent.
    assert np.sqrt(np.square(found.acc - truth.acc).sum(-1).mean()) < (0.25 if preset == "bike" else 0.1)
    assert np.degrees(Rotation.from_matrix(np.swapaxes(found.rot, 1, 2) @ truth.rot).magnitude().max()) < 0.02


def test_velocity_and_acceleration_are_the_derivatives_of_the_position() -> None:
    trajectory, h = recorded("indoor", 10.0), 1e-4
    times = np.linspace(2.0, 9.0, 500) + 0.00037
    before, here, after = (trajectory.at(times + shift, mount("radar"))[0] for shift in (-h, 0.0, h))
    inside = np.abs((times * RATE + 0.5) % 1 - 0.5) > 2 * h * RATE  # no state of the lidar between the three
    np.testing.assert_allclose(((after.pos - before.pos) / (2 * h))[inside], here.vel[inside], atol=1e-6)
    np.testing.assert_allclose(((after.vel - before.vel) / (2 * h))[inside], here.acc[inside], atol=1e-4)


def test_an_interpolated_rotation_has_the_angular_velocities_of_its_ends() -> None:
    rng = np.random.default_rng(0)
    first, step = Rotation.random(50, rng=rng), Rotation.from_rotvec(rng.normal(size=(50, 3)) * 0.6)
    rot = first.as_matrix(), (first * step).as_matrix()
    avel, span = (rng.normal(size=(50, 3)), rng.normal(size=(50, 3))), rng.uniform(0.05, 2.0, 50)
    for end in (0, 1):
        between, velocity, _ = interpolate_rotation(rot, avel, span, np.full(50, float(end)))
        np.testing.assert_allclose(between, rot[end], atol=1e-9)
        np.testing.assert_allclose(velocity, avel[end], atol=1e-9)


@pytest.mark.parametrize("size", [1e-6, 3e-3, 0.3, 2.5])
def test_angular_velocity_and_acceleration_are_the_derivatives_of_the_rotation(size: float) -> None:
    rng, h = np.random.default_rng(1), 1e-5
    whole = rng.normal(size=(20, 3))
    whole *= size / np.linalg.norm(whole, axis=1, keepdims=True)
    rot = np.tile(np.eye(3), (20, 1, 1)), Rotation.from_rotvec(whole).as_matrix()
    avel, span, fraction = (whole + 0.1 * size, whole - 0.2 * size), np.ones(20), rng.uniform(0.1, 0.9, 20)
    states = [interpolate_rotation(rot, avel, span, fraction + shift) for shift in (-h, 0.0, h)]
    rots, avels, aaccs = zip(*states, strict=True)
    numeric = (Rotation.from_matrix(rots[0]).inv() * Rotation.from_matrix(rots[2])).as_rotvec() / (2 * h)
    np.testing.assert_allclose(numeric, avels[1], rtol=1e-5, atol=1e-8 + 1e-6 * size)
    np.testing.assert_allclose((avels[2] - avels[0]) / (2 * h), aaccs[1], rtol=1e-5, atol=1e-6 * size)


def test_the_motion_is_not_known_outside_the_trajectory_beside_invalid_states_and_in_gaps() -> None:
    times = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 1.4, 1.5])
    state = build(PRESETS["indoor"], 0).motion.at(times)
    valid = np.array([1, 1, 0, 1, 1, 1, 1])
    trajectory = Trajectory(times, State(*state), valid, max_gap=0.5)
    instants = np.array([-1e-9, 0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.9, 1.4, 1.5, 1.5 + 1e-9])
    expected = np.array([0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 1, 1, 0], bool)
    states, known = trajectory.at(instants)
    assert (known == expected).all()
    for part in states:
        assert (np.isfinite(part).all(axis=tuple(range(1, part.ndim))) == expected).all()
    np.testing.assert_allclose(states.pos[instants == 0.1], state.pos[1:2], atol=1e-12)
    np.testing.assert_allclose(states.pos[instants == 0.4], state.pos[4:5], atol=1e-12)


def test_a_state_with_nan_is_not_valid() -> None:
    times = np.arange(5) / RATE
    state = build(PRESETS["indoor"], 0).motion.at(times)
    state.vel[2] = np.nan
    _, known = Trajectory(times, State(*state), np.ones(5)).at(np.array([0.05, 0.15, 0.25, 0.35]))
    assert known.tolist() == [True, False, False, True]


def test_the_motion_is_not_known_from_a_single_state_or_none() -> None:
    for count in (0, 1):
        state = build(PRESETS["indoor"], 0).motion.at(np.arange(count) * 1.0)
        found, known = Trajectory(np.arange(count) * 1.0, State(*state), np.ones(count)).at(np.zeros(2), IDENTITY)
        assert not known.any() and np.isnan(found.pos).all()


def test_the_poses_of_a_sweep_follow_from_the_trajectory_alone_also_beside_invalid_states_and_gaps() -> None:
    whole = recorded("outdoor", 5.0)
    valid, kept = np.ones(50), np.r_[0:30, 33:50]
    valid[[3, 16, 17, 40]] = 0
    states = whole.states.select(kept)
    states.pos[np.flatnonzero(kept == 16)] = np.nan
    motion = SweepMotion(Trajectory(whole.ts[kept], states, valid[kept], max_gap=0.15), -0.1, 0.1)
    since = np.linspace(-0.1, 0.0, 65)[:, None]
    for number in np.random.default_rng(0).permutation(np.flatnonzero(motion.trajectory.valid)).tolist():
        own, poses = motion.trajectory.states.select(number), motion.nodes(number)
        state, known = motion.trajectory.at(motion.trajectory.ts[number] + since[:, 0])
        assert np.array_equal(poses.pos[known], state.pos[known]) and np.array_equal(poses.rot[known], state.rot[known])
        onward = own.pos + own.vel * since + own.acc * since**2 / 2
        np.testing.assert_allclose(poses.pos[~known], onward[~known], atol=1e-9)
        turned = own.rot @ Rotation.from_rotvec(since * own.avel).as_matrix()
        np.testing.assert_allclose(poses.rot[~known], turned[~known], atol=1e-9)
        assert known.sum() < 2 or known.all() or number in (0, 4)
