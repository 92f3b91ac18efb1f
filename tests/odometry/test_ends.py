"""What a trajectory owes to its beginning: registered from both ends, and ends that nothing after them confirms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.kinematics.state import State
from rover_pipeline.odometry.observations import NO_GYRO, Gyro, Points, Sweep
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.odometry.quality import Quality, brief
from rover_pipeline.odometry.registration import register
from rover_pipeline.odometry.registration.judge import SweepFit, judge, world_rays
from rover_pipeline.odometry.spline import SplineTrajectory
from rover_pipeline.odometry.surfels import SurfelMap

OPTIONS = OdometryOptions()


def trajectory(speed: float) -> SplineTrajectory:
    still = SplineTrajectory.at_rest(0.0, 3.0, 0.05)
    steps = np.arange(len(still.pos))[:, None]
    return still._replace(pos=0.05 * speed * steps * [1.0, 0.2, 0.0], rot=exp(0.01 * steps * [0.0, 0.3, 1.0]))


def sweep(end: float) -> Sweep:
    rng = np.random.default_rng(round(10 * end))
    column = np.sort(rng.integers(0, 16, 40)).astype("i4")
    points, times = rng.normal(size=(40, 3)).astype("f4"), end + np.linspace(-0.1, 0.0, 16)
    return Sweep(points, column, times, end, Points(points[:5], column[:5]))


def test_backwards_is_the_same_motion_at_negative_instants() -> None:
    forth, ts = trajectory(1.0), np.array([0.0, 0.123, 1.5, 2.999])
    back = forth.backwards()
    np.testing.assert_allclose(back.at(-ts).pos, forth.at(ts).pos, atol=1e-12)
    np.testing.assert_allclose(back.at(-ts).rot, forth.at(ts).rot, atol=1e-12)
    np.testing.assert_allclose(back.at(-ts).avel, -forth.at(ts).avel, atol=1e-9)
    one = sweep(1.0)
    turned = one.backwards()
    assert (np.diff(turned.times) > 0).all() and (np.diff(turned.column) >= 0).all() and turned.end == 0.1 - one.end
    np.testing.assert_allclose(turned.times[turned.column], -one.times[one.column[::-1]])
    again = turned.backwards()
    np.testing.assert_array_equal(again.points, one.points)
    np.testing.assert_array_equal(again.left_out.column, one.left_out.column)
    gyro = Gyro(ts, np.arange(12.0).reshape(4, 3), 0.01).backwards()
    assert (np.diff(gyro.times) > 0).all() and gyro.rates[0, 0] == -9.0


@pytest.mark.parametrize(
    ("speed", "cost", "guessed", "shift", "taken"),
    [
        (0.9, -1e-3, 1e-3, 0.01, "back"),
        (1.2, 1e-3, 1e-3, 0.01, "forth"),
        (1.2, 1e-3, -1e-3, 0.01, "guess"),
        (1.2, -1e-3, -1e-3, 1e-4, "forth"),
    ],
    ids=[
        "the other direction fits better",
        "both others fit worse",
        "the guess fits better",
        "all sweeps agree, so that none is made",
    ],
)
def test_of_both_directions_and_the_guess_the_one_that_fits_best_is_taken(
    monkeypatch: pytest.MonkeyPatch, speed: float, cost: float, guessed: float, shift: float, taken: str
) -> None:
    sweeps = [sweep(0.1 * n) for n in range(1, 30)]
    ways = {"forth": trajectory(1.0), "back": trajectory(speed), "guess": trajectory(1.1)}
    costs = {"forth": 5e-3, "back": 5e-3 + cost, "guess": 5e-3 + guessed}

    def registered(
        some: list[Sweep], guess: SplineTrajectory, options: OdometryOptions, gyro: Gyro
    ) -> tuple[SplineTrajectory, list[bool]]:
        first = some[0].end > 0
        return (ways["forth"] if first else ways["back"].backwards()), [first] + [True] * (len(some) - 1)

    def judged(some: list[Sweep], found: SplineTrajectory, options: OdometryOptions) -> list[SweepFit]:
        (name,) = (each for each, known in ways.items() if np.allclose(found.pos, known.pos))
        return [SweepFit(0.9, 0.01, costs[name], 1.0, 1e6, shift, 1.0) for _ in some]

    monkeypatch.setattr(register, "_register_to_map", registered)
    monkeypatch.setattr(register, "judged", judged)
    monkeypatch.setattr(register, "_refined", lambda sweeps, trajectory, options, gyro: trajectory)
    found, fits = register._register_sweeps(sweeps, ways["guess"], OPTIONS, NO_GYRO)
    np.testing.assert_allclose(found.pos, ways[taken].pos, atol=1e-12)
    assert (fits[0], fits[-1]) == {"forth": (True, True), "back": (True, False), "guess": (True, True)}[taken]


def quality(count: int) -> Quality:
    ones = np.ones(count)
    return Quality(0.9 * ones, 0.01 * ones, 1e6 * ones, 2e-3 * ones, 1e6 * ones, 2e-3 * ones, ones, 0.05 * ones)


def walking(count: int) -> tuple[State, np.ndarray]:
    ts, ones = 0.1 * np.arange(count), np.ones((count, 3))
    pos = ts[:, None] * [1.2, 0.0, 0.0]
    return State(pos, np.tile(np.eye(3), (count, 1, 1)), ones, 0.8 * ones, 0.1 * ones), ts


def test_an_end_with_a_jolt_is_not_valid_and_a_jolt_between_others_is() -> None:
    state, ts = walking(40)
    assert quality(40).valid(OPTIONS, state, ts).all()
    for frame, invalid in ((39, [39]), (38, [38, 39]), (1, [0, 1]), (20, [])):
        acc = state.acc.copy()
        acc[frame] = [0.0, 22.0, 0.0]
        assert np.flatnonzero(~quality(40).valid(OPTIONS, state._replace(acc=acc), ts)).tolist() == invalid
    # Whoever runs down stairs has many of them.
    assert quality(40).valid(OPTIONS, state._replace(acc=12 * state.acc), ts).all()


def test_poses_that_share_knots_with_an_uncertain_one_are_not_valid() -> None:
    state, ts = walking(40)
    error = np.full(40, 2e-3)
    error[20] = 0.05
    assert np.flatnonzero(~quality(40)._replace(error=error).valid(OPTIONS, state, ts)).tolist() == [18, 19, 20, 21, 22]
    # A sweep that was not used says nothing of those beside it.
    inliers = np.where(error > 0.01, np.nan, 0.9)
    alone = quality(40)._replace(error=error, inliers=inliers)
    assert np.flatnonzero(~alone.valid(OPTIONS, state, ts)).tolist() == [20]


def test_the_last_sweep_before_a_gap_has_to_be_confirmed_by_points_that_were_left_out() -> None:
    state, ts = walking(40)
    ts = ts + np.where(np.arange(40) >= 20, 1.0, 0.0)
    unsure = quality(40)._replace(error=np.full(40, 0.015), shift=np.full(40, 0.008))
    assert np.flatnonzero(~unsure.valid(OPTIONS, state, ts)).tolist() == [0, 19, 20, 39]


def test_a_few_valid_poses_between_others_that_are_not_have_nobody_to_confirm_them() -> None:
    ts, valid, used = 0.1 * np.arange(40), np.zeros(40, bool), np.ones(40, bool)
    valid[3:5] = valid[10:14] = valid[20:25] = valid[36:] = True
    assert np.flatnonzero(brief(valid, used, ts)).tolist() == [3, 4, 10, 11, 12, 13, 36, 37, 38, 39]
    # A recording of a few sweeps, all of them valid, is judged by all that there is.
    assert not brief(np.ones(3, bool), used[:3], ts[:3]).any()
    used[5:20] = used[25:36] = False  # what was not used contradicts nobody
    valid[10:14] = False
    assert not brief(valid, used, ts).any()


def test_a_sweep_that_fits_half_a_metre_away_nearly_as_well_may_be_anywhere() -> None:
    state, ts = walking(40)
    chance = np.where(np.arange(40) >= 20, 0.45, 0.05)
    lost = quality(40)._replace(chance=chance)
    assert lost.torn(OPTIONS, ts)[24:].all() and not lost.torn(OPTIONS, ts)[:16].any()
    assert not lost.valid(OPTIONS, state, ts)[24:].any()


def test_the_cost_of_a_sweep_is_far_below_that_of_wrong_poses_among_walls_and_like_it_in_clutter() -> None:
    rng = np.random.default_rng(0)
    rest = SplineTrajectory.at_rest(0.0, 3.0, 0.1)
    column, times = np.sort(rng.integers(0, 16, 4000)).astype("i4"), np.linspace(0.9, 1.0, 16)

    def chance(surface: Callable[[], np.ndarray]) -> float:
        sweeps = [Sweep(surface().astype("f4"), column, times, 1.0) for _ in range(10)]
        surfels = SurfelMap(OPTIONS.voxels)
        for each in sweeps[1:]:
            surfels.insert(world_rays(each, rest))
        return judge(sweeps[0], rest, surfels, OPTIONS).chance

    def walls() -> np.ndarray:
        points = rng.uniform(-3.0, 3.0, (4000, 3))
        points[np.arange(4000), np.arange(4000) % 3] = 3.1 + rng.normal(0.0, 0.01, 4000)
        return points

    assert chance(walls) < 0.1
    assert chance(lambda: rng.uniform(-3.0, 3.0, (4000, 3))) > 0.4
