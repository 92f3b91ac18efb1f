"""Times without the jitter of their arrival, against clocks whose true times are known."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from rover_pipeline.kinematics.timestamps import smooth_times
from rover_pipeline.numerics.jumps import without_jumps
from rover_pipeline.simulate import PRESETS
from rover_pipeline.simulate.rig import build
from rover_pipeline.simulate.sensors.clocks import EPOCH, Clock


def ticks(clock: Clock, seconds: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrivals, true times and numbers of a simulated clock."""
    found = list(clock.ticks(seconds, (seed, 7)))
    return (
        np.array([tick.stamp for tick in found]),
        EPOCH + np.array([tick.time for tick in found]),
        np.array([tick.number for tick in found]),
    )


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.square(values).mean()))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("seconds", [10.0, 100.0])
@pytest.mark.parametrize("sensor", ["lidar", "radar", "camera", "imu"])
def test_the_simulators_jitter_becomes_at_least_ten_times_smaller(sensor: str, seconds: float, seed: int) -> None:
    clock = build(PRESETS["indoor"], 0).clocks[sensor]
    ts, true, number = ticks(clock, seconds, seed)
    found = smooth_times(ts)
    assert (found.number == number - number[0]).all() and found.steady
    # The minimum latency is common to all arrivals, so that it cannot be estimated.
    assert rms(found.smooth - true - clock.delay) < rms(ts - true - clock.delay) / 10
    assert (found.smooth - true).std() < (ts - true).std() / 10
    assert found.period == pytest.approx(clock.period, rel=2e-5)


@pytest.mark.parametrize("seed", range(3))
def test_a_clock_that_drifts_with_temperature_is_followed(seed: int) -> None:
    rng, count = np.random.default_rng(seed), 12_000
    # 20 ppm up and down within five minutes: the phase wanders by milliseconds.
    true = 0.05 * np.arange(count) + 20e-6 * 300 / (2 * np.pi) * np.sin(2 * np.pi * 0.05 * np.arange(count) / 300)
    keep = rng.random(count) > 0.02
    jitter = rng.exponential(0.0004, count)
    ts = (1.7e9 + true + jitter)[keep]
    found = smooth_times(ts)
    assert rms(found.smooth - 1.7e9 - true[keep]) < rms(jitter) / 5
    assert (found.number == np.flatnonzero(keep) - np.flatnonzero(keep)[0]).all()
    constant = smooth_times(ts, model="constant")
    assert constant.drift_ppm == 0 and rms(constant.smooth - 1.7e9 - true[keep]) > rms(jitter)


def test_samples_that_waited_for_a_busy_host_get_their_own_times() -> None:
    rng = np.random.default_rng(3)
    true = 1.7e9 + 0.1 * np.arange(400)
    ts = true + rng.exponential(0.0005, 400)
    for start in (50, 170, 300):
        # The host sleeps for seven periods, then hears of what has come meanwhile all at once.
        ts[start : start + 7] = true[start + 6] + 0.0007 + 0.0001 * np.arange(7)
    found = smooth_times(ts)
    assert (found.number == np.arange(400)).all()
    assert np.abs(found.smooth - true).max() < 0.0002


def test_a_long_break_is_counted_in_whole_periods() -> None:
    rng = np.random.default_rng(4)
    number = np.concatenate([np.arange(500), np.arange(6500, 7000)])
    true = 1.7e9 + 0.0100001 * number
    found = smooth_times(true + rng.exponential(0.0003, 1000))
    assert (found.number == number).all()
    assert np.abs(found.smooth - true).max() < 0.0001


def test_one_arrival_before_its_time_does_not_move_the_times_of_others() -> None:
    rng = np.random.default_rng(5)
    true = 1.7e9 + 0.05 * np.arange(600)
    ts = true + rng.exponential(0.0004, 600)
    ts[300] -= 0.012  # the host's clock was set back for a moment
    assert np.abs(smooth_times(ts).smooth - true).max() < 0.0002


def test_times_that_follow_no_rate_are_not_changed() -> None:
    ts = 1.7e9 + np.cumsum(np.random.default_rng(6).pareto(0.8, 300) + 0.001)
    found = smooth_times(ts)
    assert not found.steady and (found.smooth == ts).all()


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_a_few_samples_of_an_exact_clock_keep_their_times(count: int) -> None:
    ts = 1.7e9 + 0.1 * np.arange(count)
    found = smooth_times(ts)
    np.testing.assert_allclose(found.smooth, ts, rtol=0, atol=1e-6)
    assert (found.number == np.arange(count)).all() and found.steady
    assert found.period == pytest.approx(0.1, rel=1e-5) or (count == 1 and np.isnan(found.period))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("count", [2, 3])
def test_a_few_late_samples_move_by_no_more_than_their_jitter(count: int, seed: int) -> None:
    jitter = np.random.default_rng(seed).exponential(0.004, count)
    true = 1.7e9 + 0.1 * np.arange(count)
    found = smooth_times(true + jitter)
    assert (np.diff(found.smooth) > 0).all()
    assert np.abs(found.smooth - true).max() < np.ptp(jitter) + jitter.max() + 1e-6
    assert (found.smooth <= true + jitter + 1e-6).all()


def test_three_samples_with_one_lost_between_them_are_exact() -> None:
    found = smooth_times(1.7e9 + np.array([0.0, 0.1, 0.3]))
    assert found.number.tolist() == [0, 1, 3]
    np.testing.assert_allclose(found.smooth - 1.7e9, [0.0, 0.1, 0.3], atol=1e-6)


@pytest.mark.parametrize("by", [864_000.0, 31_536_000.0, 1.7e9])
def test_a_clock_that_is_set_begins_a_new_line_and_costs_no_memory(by: float) -> None:
    rng = np.random.default_rng(3)
    arrivals = 1_000.0 + np.arange(2000) * 0.1 + rng.exponential(0.002, 2000)
    undisturbed = [smooth_times(part) for part in (arrivals[:1200], arrivals[1200:])]
    tracemalloc.start()
    times = smooth_times(np.concatenate([arrivals[:1200], arrivals[1200:] + by]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6
    assert times.steady and times.period == undisturbed[0].period
    np.testing.assert_array_equal(times.smooth[:1200], undisturbed[0].smooth)
    np.testing.assert_allclose(times.smooth[1200:] - by, undisturbed[1].smooth, atol=1e-3)
    np.testing.assert_array_equal(np.diff(times.number), 1)


def test_two_samples_of_1970_are_a_line_of_their_own() -> None:
    times = smooth_times(np.concatenate([[0.0, 0.1], 1.7e9 + np.arange(500) * 0.1]))
    assert times.steady and times.period == pytest.approx(0.1)
    np.testing.assert_allclose(times.smooth[2:], 1.7e9 + np.arange(500) * 0.1, atol=1e-6)


def test_times_without_jumps_go_on_where_the_clock_was_set() -> None:
    sweeps = np.concatenate([np.arange(5) * 0.1, 7200.0 + np.arange(5) * 0.1])
    np.testing.assert_allclose(without_jumps(sweeps, sweeps), np.arange(10) * 0.1, atol=1e-9)
    moved = without_jumps(np.array([0.35, 0.45, 7199.0, 7200.0, 7200.05]), sweeps)
    np.testing.assert_allclose(moved, [0.35, np.nan, np.nan, 0.5, 0.55], atol=1e-9)
    hours = np.arange(5) * 3600.0
    np.testing.assert_allclose(without_jumps(hours, hours), np.arange(5.0))
    even = np.arange(10.0)
    assert without_jumps(even, even) is even
