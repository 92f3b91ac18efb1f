"""Rates, gaps and jitter of known time stamps are measured, and downsampled curves hide nothing."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.draw.charts import downsample_curve, nonzero_runs, share_of_bins
from rover_pipeline.report.read.sensors import fit_line, sensor_intervals, timing_figures

START = 1.7e9


def test_rate_jitter_and_lost_samples_are_those_of_the_clock() -> None:
    rng = np.random.default_rng(0)
    ts = START + np.arange(5000) * 0.05 * (1 + 40e-6) + rng.normal(0, 1e-3, 5000)
    lost = [100, 101, 102, 2000]
    timing = timing_figures(np.delete(ts, lost), 20.0)
    assert timing["lost"] == 4 and timing["gaps"] == 2
    assert timing["rate_hz"] == pytest.approx(20 / (1 + 40e-6), rel=1e-6)
    assert timing["clock_ppm"] == pytest.approx(-40, abs=1)
    assert timing["intervals"].jitter_ms == pytest.approx(1, rel=0.05)
    assert timing["longest_gap_s"] == pytest.approx(0.2, abs=0.01)


def test_two_samples_and_equal_time_stamps_have_no_rate() -> None:
    assert timing_figures(np.array([START, START + 1]), 1.0) == {}
    assert timing_figures(np.full(5, START), 1.0) == {}


def test_a_sensor_without_a_constant_rate_has_no_gaps() -> None:
    ts = START + np.cumsum(np.random.default_rng(2).exponential(1.0, 500))
    timing = timing_figures(ts, None)
    assert timing["lost"] == 0 and timing["gaps"] == 0
    assert timing["rate_hz"] == pytest.approx(1, rel=0.2)
    assert len(sensor_intervals(ts, np.ones(500, "u1")).missing) == 0


def test_a_clock_drift_that_changes_remains_in_the_residuals() -> None:
    seconds = np.arange(1000) / 10
    drifting = seconds + 1e-6 * (seconds - 50) ** 2
    _, residual = fit_line(drifting)
    assert np.ptp(residual) == pytest.approx(2.5e-3, rel=0.02)


def test_intervals_cover_exactly_the_lost_and_the_invalid_time() -> None:
    ts = np.delete(START + np.arange(100) / 10, [40, 41, 42])
    valid = np.ones(97, "u1")
    valid[[5, 6, 96]] = 0
    intervals = sensor_intervals(ts, valid)
    np.testing.assert_allclose(intervals.missing - START, [[4.0, 4.3]], atol=1e-6)
    np.testing.assert_allclose(intervals.invalid - START, [[0.5, 0.6], [0.6, 0.7], [9.9, 10.0]], atol=1e-6)
    for bins in (1, 7, 100, 1000):
        share = share_of_bins(intervals.invalid, (START, START + 10), bins)
        assert share.max() <= 1 + 1e-6
        assert share.mean() * 10 == pytest.approx(0.3, abs=1e-5), "the total time stays the same"


def test_runs_are_those_of_equal_values_other_than_zero() -> None:
    assert nonzero_runs(np.array([0, 1, 1, 0, 0.5, 1])) == [(1, 3, 1), (4, 5, 0.5), (5, 6, 1)]
    assert nonzero_runs(np.zeros(4)) == []


def test_a_downsampled_curve_keeps_its_extremes_and_its_interruptions() -> None:
    rng = np.random.default_rng(1)
    x = np.arange(60_000) / 100
    y = rng.normal(size=60_000)
    y[12_345], y[54_321] = 40, -40
    y[30_000:30_100] = np.nan
    few_x, few_y = downsample_curve(x, y, 480)
    assert len(few_x) <= 3 * 480
    assert (np.nanmin(few_y), np.nanmax(few_y)) == (-40, 40)
    assert np.isnan(few_y[(few_x >= 300) & (few_x < 301)]).any()
    assert (np.diff(few_x) > 0).all()
