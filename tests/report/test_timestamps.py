"""What times tell: rates, gaps and jitter that were put there are found, and pictures of them hide nothing."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.report.times import places_of, rhythm, runs, shares, spells, straight_line, thin

START = 1.7e9


def test_rate_jitter_and_lost_samples_are_those_of_the_clock() -> None:
    rng = np.random.default_rng(0)
    ts = START + np.arange(5000) * 0.05 * (1 + 40e-6) + rng.normal(0, 1e-3, 5000)
    lost = [100, 101, 102, 2000]
    found = rhythm(np.delete(ts, lost))
    assert found is not None
    assert found.lost == 4 and len(found.gaps) == 2
    assert found.rate == pytest.approx(20 / (1 + 40e-6), rel=1e-6)
    assert found.jitter == pytest.approx(1e-3, rel=0.05)
    np.testing.assert_allclose(np.diff(found.gaps, axis=1)[:, 0], [0.2, 0.1], atol=0.01)


def test_a_recording_of_two_samples_has_no_rhythm() -> None:
    assert rhythm(np.array([START, START + 1])) is None
    assert rhythm(np.full(5, START)) is None


def test_a_sensor_that_keeps_no_rate_has_no_gaps() -> None:
    ts = START + np.cumsum(np.random.default_rng(2).exponential(1.0, 500))
    found = rhythm(ts)
    assert found is not None
    assert found.lost == 0 and len(found.gaps) == 0
    assert found.rate == pytest.approx(1, rel=0.2)
    assert len(spells(ts, np.ones(500, "u1")).missing) == 0


def test_a_clock_that_bends_leaves_its_bend_in_the_residual() -> None:
    seconds = np.arange(1000) / 10
    bent = seconds + 1e-6 * (seconds - 50) ** 2
    _, residual = straight_line(places_of(START + seconds), bent)
    assert np.ptp(residual) == pytest.approx(2.5e-3, rel=0.02)


def test_spells_cover_exactly_the_lost_and_the_invalid_time() -> None:
    ts = np.delete(START + np.arange(100) / 10, [40, 41, 42])
    valid = np.ones(97, "u1")
    valid[[5, 6, 96]] = 0
    found = spells(ts, valid)
    np.testing.assert_allclose(found.missing - START, [[4.0, 4.3]], atol=1e-6)
    np.testing.assert_allclose(found.invalid - START, [[0.5, 0.6], [0.6, 0.7], [9.9, 10.0]], atol=1e-6)
    for parts in (1, 7, 100, 1000):
        share = shares(found.invalid, (START, START + 10), parts)
        assert share.max() <= 1 + 1e-6
        assert share.mean() * 10 == pytest.approx(0.3, abs=1e-5), "time is neither lost nor made"


def test_runs_are_the_stretches_that_are_not_zero() -> None:
    assert runs(np.array([0, 1, 1, 0, 0.5, 1])) == [(1, 3, 1), (4, 5, 0.5), (5, 6, 1)]
    assert runs(np.zeros(4)) == []


def test_a_thinned_curve_keeps_its_extremes_and_its_breaks() -> None:
    rng = np.random.default_rng(1)
    x = np.arange(60_000) / 100
    y = rng.normal(size=60_000)
    y[12_345], y[54_321] = 40, -40
    y[30_000:30_100] = np.nan
    thin_x, thin_y = thin(x, y, 480)
    assert len(thin_x) <= 3 * 480
    assert (thin_y.max(where=np.isfinite(thin_y), initial=0), thin_y.min(where=np.isfinite(thin_y), initial=0)) == (
        40,
        -40,
    )
    assert np.isnan(thin_y[(thin_x >= 300) & (thin_x < 301)]).any()
    assert (np.diff(thin_x) > 0).all()
