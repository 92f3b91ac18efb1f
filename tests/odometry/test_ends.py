"""What a trajectory owes to its beginning: registered from both ends, and ends that nothing after them confirms."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.odometry.observations import Points, Sweep
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.odometry.quality import brief
from rover_pipeline.odometry.registration import register
from rover_pipeline.odometry.registration.cross_validation import SweepFit
from rover_pipeline.odometry.spline import SplineTrajectory

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
    np.testing.assert_array_equal(again.held_out.column, one.held_out.column)


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
        some: list[Sweep], guess: SplineTrajectory, options: OdometryOptions
    ) -> tuple[SplineTrajectory, list[bool]]:
        first = some[0].end > 0
        return (ways["forth"] if first else ways["back"].backwards()), [first] + [True] * (len(some) - 1)

    def cross_validate(some: list[Sweep], found: SplineTrajectory, options: OdometryOptions) -> list[SweepFit]:
        (name,) = (each for each, known in ways.items() if np.allclose(found.pos, known.pos))
        return [SweepFit(0.9, 0.01, costs[name], 1.0, shift, 1.0) for _ in some]

    monkeypatch.setattr(register, "_register_to_map", registered)
    monkeypatch.setattr(register, "cross_validate", cross_validate)
    monkeypatch.setattr(register, "_refined", lambda sweeps, trajectory, options: trajectory)
    found, fits = register._register_sweeps(sweeps, ways["guess"], OPTIONS)
    np.testing.assert_allclose(found.pos, ways[taken].pos, atol=1e-12)
    assert (fits[0], fits[-1]) == {"forth": (True, True), "back": (True, False), "guess": (True, True)}[taken]


def test_a_few_valid_poses_between_others_that_are_not_have_nobody_to_confirm_them() -> None:
    ts, valid, used = 0.1 * np.arange(40), np.zeros(40, bool), np.ones(40, bool)
    valid[3:5] = valid[10:14] = valid[20:25] = valid[36:] = True
    assert np.flatnonzero(brief(valid, used, ts)).tolist() == [3, 4, 10, 11, 12, 13, 36, 37, 38, 39]
    # A recording of a few sweeps, all of them valid, is judged by all that there is.
    assert not brief(np.ones(3, bool), used[:3], ts[:3]).any()
    used[5:20] = used[25:36] = False  # what was not used contradicts nobody
    valid[10:14] = False
    assert not brief(valid, used, ts).any()
