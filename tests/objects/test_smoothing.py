"""The motion that follows from measurements: against another smoother, and with measurements that are wrong."""

from __future__ import annotations

import numpy as np

from rover_pipeline.objects.smoothing import Measurements, Smoothed, fit_motion, solve
from rover_pipeline.objects.tracking import SPEED_SD, ConstantTurn, ConstantVelocity

TIMES = 0.1 * np.arange(50)


def positions(time: np.ndarray, xy: np.ndarray, variance: float) -> Measurements:
    return Measurements.positions(time, xy, np.full((len(time), 2), variance), np.zeros(len(time)))


def test_covariances_are_those_of_the_smoother_of_rauch_tung_and_striebel() -> None:
    """At measurements without errors, the t distribution has the curvature of a Gaussian of 4/5 of its variance."""
    noise, variance = 0.7, 0.05
    begin = np.column_stack([2 * TIMES, -TIMES, np.full(50, 2.0), np.full(50, -1.0)])
    places = positions(TIMES, begin[:, :2], variance)
    found = solve(ConstantVelocity(noise), places, TIMES, begin).smoothed()
    np.testing.assert_allclose(found.state, begin, atol=1e-6)
    f = np.eye(4)
    f[0, 2] = f[1, 3] = 0.1
    block = noise * np.array([[0.1**3 / 3, 0.1**2 / 2], [0.1**2 / 2, 0.1]])
    q, h, r = np.kron(block, np.eye(2)), np.eye(2, 4), variance * 4 / 5 * np.eye(2)
    p, before, after = np.diag([100.0**2, 100.0**2, SPEED_SD**2, SPEED_SD**2]), [], []
    for number in range(50):
        p = f @ p @ f.T + q if number else p
        before.append(p)
        gain = p @ h.T @ np.linalg.inv(h @ p @ h.T + r)
        p = p - gain @ h @ p
        after.append(p)
    for number in range(48, -1, -1):
        gain = after[number] @ f.T @ np.linalg.inv(before[number + 1])
        after[number] = after[number] + gain @ (after[number + 1] - before[number + 1]) @ gain.T
    np.testing.assert_allclose(found.cov, after, rtol=1e-4, atol=1e-9)


def test_the_derivatives_of_a_turning_motion_are_those_of_its_steps() -> None:
    model, state, dt = ConstantTurn(1.0, 0.1), np.array([[1.0, 2.0, 0.3, 5.0, 0.7]]), np.array([0.1])
    steps = [
        (model.predicted(state + h, dt)[0] - model.predicted(state - h, dt)[0])[0] / 2e-6 for h in 1e-6 * np.eye(5)
    ]
    np.testing.assert_allclose(model.predicted(state, dt)[1][0], np.transpose(steps), atol=1e-3)


def test_places_that_are_far_off_and_radial_velocities_count_for_what_they_are_worth() -> None:
    rng = np.random.default_rng(5)
    truth = np.column_stack([3 * TIMES, 0 * TIMES])
    places = truth + rng.normal(0, 0.05, truth.shape)
    places[[20, 21, 48, 49]] += [4.0, -3.0]
    found = fit_motion(positions(TIMES, places, 0.05**2), TIMES, Smoothed.standing(TIMES, places, TIMES))
    assert np.linalg.norm(found.state[:, 2:] - [3.0, 0.0], axis=1).max() < 0.25
    few, before = positions(TIMES[::25], truth[::25], 0.3**2), Smoothed.standing(TIMES[::25], truth[::25], TIMES)
    radial = Measurements.radial(TIMES, np.full(50, 3 * np.cos(0.3)), np.full(50, 0.1**2),
                                 np.tile([np.cos(0.3), np.sin(0.3)], (50, 1)))  # fmt: skip
    with_radar, without = (fit_motion(each, TIMES, before) for each in (few.merged(radial), few))
    assert with_radar.cov[:, 2, 2].mean() < 0.5 * without.cov[:, 2, 2].mean()
