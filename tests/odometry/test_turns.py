"""A rig that turns to and fro, with few sweeps a second: each sweep is far from where the one before leads to."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.odometry.registration.register import _register_in_order
from rover_pipeline.odometry.spline import SplineTrajectory

_ROOM = np.array([[-9.0, -7.0, -1.3], [11.0, 6.0, 3.0]])
_AMPLITUDE, _PERIOD, _INTERVAL = np.radians(70.0), 2.4, 0.2


def turned(t: np.ndarray) -> Rotation:
    yaw = _AMPLITUDE * np.sin(2 * np.pi * t / _PERIOD)
    return Rotation.from_rotvec(yaw[:, None] * [0.0, 0.0, 1.0])


def sweep(number: int, rng: np.random.Generator) -> Sweep:
    """Of 24 beams, 256 columns one after the other, in a bare room with a pillar in each corner."""
    elevation, azimuth = np.radians(np.linspace(-20, 20, 24)), np.linspace(np.pi, -np.pi, 256, endpoint=False)
    times = _INTERVAL * (number + np.arange(1, 257) / 256)
    flat = np.stack([np.cos(azimuth), np.sin(azimuth), np.zeros(256)], -1)
    rays = np.cos(elevation)[:, None, None] * flat + np.sin(elevation)[:, None, None] * [0.0, 0.0, 1.0]
    rays = rays.swapaxes(0, 1)
    world = turned(np.repeat(times, 24)).apply(rays.reshape(-1, 3))
    ranges = (np.where(world > 0, _ROOM[1], _ROOM[0]) / np.where(np.abs(world) < 1e-9, 1e-9, world)).min(axis=1)
    points = (ranges + 0.01 * rng.standard_normal(len(ranges)))[:, None] * rays.reshape(-1, 3)
    return Sweep(points.astype("f4"), np.repeat(np.arange(256, dtype="i4"), 24), times, float(times[-1]))


@pytest.mark.parametrize("seed", [0, 1])
def test_sweeps_at_5_hz_of_a_rig_that_turns_to_and_fro_by_180_degrees_a_second_are_all_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sweeps = [sweep(number, rng) for number in range(30)]
    begin, end = float(sweeps[0].times[0]), sweeps[-1].end
    guess = SplineTrajectory.at_rest(begin - 0.2, end + 0.2, 0.1)
    first = guess.start + (np.arange(len(guess.pos)) - 1) * guess.step
    guess.rot[:] = turned(np.minimum(first, 0.6)).as_matrix()
    found, fits = _register_in_order(sweeps, guess, OdometryOptions())
    ends = np.array([each.end for each in sweeps])
    state = found.at(ends)
    off = turned(ends).inv() * Rotation.from_matrix(state.rot)
    assert all(fits)
    assert np.degrees((off[0].inv() * off).magnitude()).max() < 1
    assert np.linalg.norm(state.pos - state.pos[0], axis=1).max() < 0.05
