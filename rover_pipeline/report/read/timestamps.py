"""Statistics of a sensor's time stamps: rate, gaps, jitter, and the time intervals that were lost or are not valid."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.format.info import GAP_PERIODS

#: Larger values come from damaged files: no axis can be drawn for them.
_LARGEST_VALUE = 1e15


class TimingStatistics(NamedTuple):
    """How regular the samples of a sensor are.

    Attributes:
        period: median interval, s.
        rate: samples per second, counting lost samples: the slope of the straight line through the time stamps.
        p95_deviation, max_deviation: 95th percentile and maximum of |interval - period|, without gaps, s.
        jitter: standard deviation of the time stamps about the straight line, s.
        gaps: f8, (gap, 2): the time stamps before and after each gap.
        lost: number of samples that would fill the gaps.
    """

    period: float
    rate: float
    p95_deviation: float
    max_deviation: float
    jitter: float
    gaps: np.ndarray
    lost: int


def timing_statistics(ts: np.ndarray) -> TimingStatistics | None:
    """Statistics of ascending time stamps, f8 (sample,), s; None for fewer than three."""
    if len(ts) < 3:
        return None
    intervals = np.diff(ts)
    period = float(np.median(intervals))
    if period <= 0:
        return None
    is_gap = find_gaps(intervals)
    deviation = np.abs(intervals[~is_gap] - period)
    slope, residual = fit_line(sample_numbers(ts), ts)
    return TimingStatistics(
        period=period,
        rate=1 / slope,
        p95_deviation=float(np.percentile(deviation, 95)),
        max_deviation=float(deviation.max()),
        jitter=float(residual.std()),
        gaps=np.column_stack([ts[:-1][is_gap], ts[1:][is_gap]]),
        lost=int(np.round(intervals[is_gap] / period - 1).sum()),
    )


def find_gaps(intervals: np.ndarray) -> np.ndarray:
    """Which intervals, f8 (interval,), s, contain lost samples: bool, (interval,).

    A sensor without a constant rate has no gaps. The rate counts as constant if the middle half of the intervals
    differ by less than half their median.
    """
    if not len(intervals):
        return np.zeros(0, bool)
    low, period, high = np.percentile(intervals, (25, 50, 75))
    return intervals > GAP_PERIODS * period if high - low < 0.5 * period else np.zeros(len(intervals), bool)


def sample_numbers(ts: np.ndarray) -> np.ndarray:
    """Number of each sample, counting the lost samples too: whole numbers as f8, (sample,)."""
    intervals = np.diff(ts)
    period = float(np.median(intervals)) if len(intervals) else 0.0
    if period <= 0:
        return np.arange(len(ts), dtype="f8")
    return np.concatenate([[0], np.cumsum(np.where(find_gaps(intervals), np.round(intervals / period), 1))])


def fit_line(numbers: np.ndarray, ts: np.ndarray) -> tuple[float, np.ndarray]:
    """Least-squares line through time stamps: its slope, s per sample, and the residuals, f8 (sample,), s."""
    x, y = numbers - numbers.mean(), ts - ts.mean()
    slope = float(x @ y) / float(x @ x)
    return slope, y - slope * x


class SensorIntervals(NamedTuple):
    """Time intervals of a sensor in ascending order, f8 (interval, 2), s.

    Attributes:
        period: median interval between samples, s.
        running: from the first sample to one period after the last one; empty without samples.
        invalid: one per sample with `valid` = 0, until the next sample, at most one period long.
        missing: where samples were lost.
    """

    period: float
    running: np.ndarray
    invalid: np.ndarray
    missing: np.ndarray


def sensor_intervals(ts: np.ndarray, valid: np.ndarray) -> SensorIntervals:
    """When a sensor ran, was not valid, and lost samples. Ascending time stamps, f8 (sample,), s; valid: (sample,)."""
    intervals = np.diff(ts)
    period = float(np.median(intervals)) if len(intervals) else 0.0
    following = np.append(ts[1:], ts[-1:] + period)
    before_gap = np.append(find_gaps(intervals), np.zeros(len(ts) - len(intervals), bool))
    # A sample stands for the period after it: a gap begins where the first lost sample should have been.
    end = np.where(before_gap, ts + period, following)
    invalid = valid == 0
    return SensorIntervals(
        period=period,
        running=np.column_stack([ts[:1], following[-1:]]),
        invalid=np.column_stack([ts[invalid], end[invalid]]),
        missing=np.column_stack([end[before_gap], following[before_gap]]),
    )


def plausible_or_nan(values: np.ndarray) -> np.ndarray:
    """Values as f8, with NaN for those that are not finite or too large to be true."""
    values = values.astype("f8")
    return np.where(np.abs(np.where(np.isfinite(values), values, np.inf)) < _LARGEST_VALUE, values, np.nan)
