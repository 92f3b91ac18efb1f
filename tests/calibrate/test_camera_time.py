"""The time offset of a camera from points that it sees in two pictures each, on a rig that turns or does not."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.calibrate.camera_time import Tracks, time_offset, track
from rover_pipeline.camera.lens import Lens
from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.mounts import changed
from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.kinematics.state import State
from rover_pipeline.kinematics.trajectory import Trajectory

TRUE = changed(Mount(np.array([0.1, -0.05, -0.1]), np.eye(3)), np.radians([2.0, -3, 4, 0, 0, 0, 0]))
#: Turns to the sides and up and down, rad, and how often, 1/s.
TURNS, OFTEN = np.array([0.05, 0.08, 0.2]), np.array([1.1, 0.9, 0.7])


def motion(turns: np.ndarray) -> Trajectory:
    """20 s at 1.4 m/s."""
    ts = np.arange(0, 20, 0.1)
    rate = 2 * np.pi * OFTEN
    angle, speed = np.sin(ts[:, None] * rate) * turns, np.cos(ts[:, None] * rate) * turns * rate
    rot = exp(angle)
    later = exp(angle + 1e-6 * speed)
    turned = np.einsum("nji,njk->nik", rot, later)
    avel = np.stack([turned[:, 2, 1], turned[:, 0, 2], turned[:, 1, 0]], axis=1) / 1e-6
    vel = np.tile([1.4, 0.0, 0.0], (len(ts), 1))
    return Trajectory(ts, State(ts[:, None] * vel, rot, vel, np.zeros_like(vel), avel), np.ones(len(ts)))


def seen(trajectory: Trajectory, mount: Mount, seed: int = 0) -> list[Tracks]:
    """What a camera at a mount sees of points that stand still, with errors of a tenth of a pixel; its own times."""
    rng, found = np.random.default_rng(seed), []
    for begin in rng.uniform(1, 18, 40):
        times = np.array([begin, begin + 1 / 30])
        states, _ = trajectory.at(times, mount)
        ahead = np.stack([rng.uniform(3, 15, 80), rng.uniform(-5, 5, 80), rng.uniform(-3, 3, 80)], axis=1)
        world = states.pos[0] + ahead @ states.rot[0].T
        looks = [(world - pos) @ rot for pos, rot in zip(states.pos, states.rot, strict=True)]
        units = [look / np.linalg.norm(look, axis=1, keepdims=True) + rng.normal(0, 2e-4, look.shape) for look in looks]
        found.append(Tracks(times, *units))
    return found


@pytest.mark.parametrize("late", [0.005, -0.02, 0.05])
def test_an_offset_is_found_within_a_millisecond_where_the_mount_is_wrong_too(late: float) -> None:
    trajectory = motion(TURNS)
    start = changed(TRUE, np.append(np.radians([2.0, -2.0, 3.0]), [0.1, -0.1, 0.05, -late]))
    found, sigma = time_offset(seen(trajectory, TRUE), trajectory, start)
    assert abs(found - late) < 1e-3
    assert abs(found - late) < 4 * sigma
    assert sigma < 1e-3


def test_a_rig_that_does_not_turn_does_not_show_it() -> None:
    trajectory = motion(np.zeros(3))
    found, sigma = time_offset(seen(trajectory, TRUE), trajectory, TRUE)
    assert sigma > 0.025
    assert abs(found) < 0.025
    assert time_offset([], trajectory, TRUE) == (0.0, 0.05)


def test_corners_are_followed_from_picture_to_picture() -> None:
    lens = Lens(320, 200, 300.0, 300.0, 159.5, 99.5)
    rng = np.random.default_rng(0)
    picture = np.kron(rng.integers(0, 255, (25, 40)), np.ones((8, 8))).astype("u1")
    found = track(np.array([0.0, 0.1]), picture, np.roll(picture, 3, axis=1), lens.rays().astype("f4"))
    assert len(found.before) > 50
    moved = found.after[:, 1] / found.after[:, 0] - found.before[:, 1] / found.before[:, 0]
    assert np.median(moved) == pytest.approx(-3 / 300, rel=0.02)
