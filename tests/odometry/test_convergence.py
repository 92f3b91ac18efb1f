"""How a trajectory and a map that follows it settle together, and what is told of directions that are open."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.kinematics.state import State
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.odometry.degeneracy import degeneracy_warnings, open_directions
from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.registration.convergence import (
    MAX_REMAINING,
    Pass,
    difference,
    mixed,
    moved,
    pose_moves,
    rate,
    remaining_moves,
)
from rover_pipeline.odometry.registration.covariance import in_deviations
from rover_pipeline.odometry.registration.point_terms import NO_ERRORS
from rover_pipeline.odometry.spline import SplineTrajectory

START = SplineTrajectory.at_rest(0.0, 2.0, 0.1)
BAND = np.ones((1, 6 * len(START.pos)))


def passes(rates: np.ndarray, count: int, mix: bool) -> tuple[list[Pass], np.ndarray]:
    """Passes that leave a share of each unknown's error, and the errors before each of them and at the end."""
    goal = 0.1 * np.random.default_rng(0).normal(size=BAND.shape[1])
    done: list[Pass] = []
    trajectory = START
    errors = [np.linalg.norm(goal)]
    for _ in range(count):
        left = difference(trajectory, moved(START, goal))
        done.append(Pass(trajectory, moved(trajectory, (1 - rates) * left), NO_ERRORS))
        trajectory = mixed(done, BAND) if mix else done[-1].after
        errors.append(np.linalg.norm(difference(trajectory, moved(START, goal))))
    return done, np.array(errors)


def test_mixed_passes_leave_far_less_of_an_error_that_each_pass_leaves_most_of() -> None:
    rates = np.random.default_rng(1).uniform(0.7, 0.85, BAND.shape[1])
    plain, mixture = passes(rates, 6, mix=False)[1], passes(rates, 6, mix=True)[1]
    assert mixture[-1] < 0.15 * plain[-1] and (np.diff(mixture) < 0).all()
    np.testing.assert_allclose(mixture[1], plain[1])  # one pass alone tells nothing of the next


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_the_rate_is_the_share_of_an_error_that_a_pass_leaves(share: float) -> None:
    done, _ = passes(np.full(BAND.shape[1], share), 2, mix=False)
    assert rate(done, BAND) == pytest.approx(share, abs=0.03)
    assert rate(done[:1], BAND) == 0.0


@pytest.mark.parametrize("slowest", [0.2, 0.6, 0.8])
def test_an_error_is_no_larger_than_what_further_passes_are_expected_to_move(slowest: float) -> None:
    rates = np.random.default_rng(2).uniform(slowest / 2, slowest, BAND.shape[1])
    done, errors = passes(rates, 7, mix=True)
    for count in range(2, len(done) + 1):
        known = done[:count]
        move = np.linalg.norm(difference(known[-1].before, mixed(known, BAND)))
        assert errors[count - 1] <= remaining_moves(known, BAND) * move


def test_most_is_expected_to_be_left_until_passes_have_told_how_the_map_follows() -> None:
    done, _ = passes(np.full(BAND.shape[1], 0.8), 4, mix=False)
    left = [remaining_moves(done[:count], BAND) for count in range(1, 5)]
    assert left == pytest.approx([MAX_REMAINING, MAX_REMAINING, 5.0, 3.0], rel=0.1)


def test_a_trajectory_that_runs_away_is_not_extrapolated_without_end() -> None:
    done, _ = passes(np.full(BAND.shape[1], 1.0 - 1e-9), 3, mix=False)
    step = np.linalg.norm(difference(done[-1].before, done[-1].after))
    assert np.linalg.norm(difference(done[-1].after, mixed(done, BAND))) <= 9.01 * step


def test_the_open_direction_of_a_tunnel_is_named_in_both_frames_and_cov_shows_it() -> None:
    # The tunnel leads along y of the world; the lidar looks along it with its x axis.
    rot, along = exp(np.array([[0.0, 0.0, np.pi / 2]]))[0], np.array([0.0, 1.0, 0.0])
    large = np.diag([1e6, 1e6, 1e6, 1e8, 1e8, 1e8])
    large[:3, :3] -= (1e6 - 100.0) * np.outer(along, along)
    both = np.array([[large, large]] * 4 + [np.zeros((2, 6, 6))])
    rows = np.zeros((5, 3))
    state = State(pos=rows, rot=np.tile(rot, (5, 1, 1)), vel=rows, acc=rows, avel=rows)
    among = np.array([False, True, True, True, True])
    summary, cov = open_directions(both, 1.0, state, among, OdometrySection(), np.eye(3))
    assert (summary["sweeps"], summary["first"]) == (3, 1)
    assert summary["moves"] == [[0.0, 1.0, 0.0]] and summary["moves_lidar"] == [[1.0, 0.0, 0.0]]
    assert summary["turns"] == summary["turns_lidar"] == []
    assert degeneracy_warnings(summary) == [
        "frame 1: 3 sweeps are degenerate: floors and walls say nothing of a motion along (0.00, 1.00, 0.00) of the "
        "world, (1.00, 0.00, 0.00) of the lidar; cov is large there"
    ]
    np.testing.assert_allclose(cov[1], np.diag([0.01, 0, 0, 0, 0, 0]), atol=1e-9)
    assert not cov[[0, 4]].any()
    walled = np.tile(1e6 * np.eye(6), (5, 2, 1, 1))
    assert degeneracy_warnings(open_directions(walled, 1.0, state, among, OdometrySection(), np.eye(3))[0]) == []


def test_moves_count_in_standard_deviations_and_only_where_these_are_known() -> None:
    moves = np.tile([0.01, 0.0, 0.0, 0.0, 0.002, 0.0], (5, 1))
    cov = np.tile(np.diag(np.array([0.005, 1.0, 1.0, 1.0, 0.001, 1.0]) ** 2), (5, 1, 1))
    cov[3:] = np.inf
    assert in_deviations(moves, cov) == pytest.approx(np.sqrt((2**2 + 2**2) / 6))
    assert in_deviations(moves, np.full_like(cov, np.nan)) == 0.0


def test_moves_of_poses_are_in_the_frame_of_the_lidar() -> None:
    turned = START._replace(rot=matmul(START.rot, exp(np.array([[0.0, 0.0, np.pi / 2]]))))
    ahead = turned._replace(
        pos=turned.pos + np.array([0.0, 0.3, 0.0]), rot=matmul(turned.rot, exp(np.array([[0.1, 0.0, 0.0]])))
    )
    np.testing.assert_allclose(pose_moves(turned, ahead, np.array([0.5, 1.0])), [[0.3, 0, 0, 0.1, 0, 0]] * 2, atol=1e-9)
