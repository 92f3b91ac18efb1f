"""Statistics of a sensor's time stamps: rate, gaps, jitter, and the time intervals that were lost or are not valid."""

from __future__ import annotations

from typing import Any

import numpy as np

from rover_pipeline.draw.charts import Intervals
from rover_pipeline.format.info import GAP_PERIODS
from rover_pipeline.report import summary
from rover_pipeline.validation.rig import is_plausible


def timing_figures(ts: np.ndarray, nominal_hz: float | None) -> dict[str, Any]:
    """Fields of `SensorSummary` about rate, gaps and jitter of ascending time stamps, f8 (sample,), s; none for fewer
    than three samples and for equal times."""
    intervals = np.diff(ts)
    period = float(np.median(intervals)) if len(ts) > 2 else 0.0
    if period <= 0:
        return {}
    is_gap = find_gaps(intervals)
    deviation = np.abs(intervals[~is_gap] - period)
    slope, residual = fit_line(sample_numbers(ts), ts)
    rate = 1 / slope
    return {
        "rate_hz": rate,
        "clock_ppm": 1e6 * (rate / nominal_hz - 1) if nominal_hz else None,
        "gaps": int(is_gap.sum()),
        "lost": int(np.round(intervals[is_gap] / period - 1).sum()),
        "longest_gap_s": float(intervals[is_gap].max(initial=0.0)),
        "intervals": summary.Intervals(
            median_ms=1e3 * period,
            p95_ms=1e3 * float(np.percentile(deviation, 95)),
            max_ms=1e3 * float(deviation.max()),
            jitter_ms=1e3 * float(residual.std()),
        ),
    }


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
    slope = float((x * y).sum()) / float((x * x).sum())
    return slope, y - slope * x


def sensor_intervals(ts: np.ndarray, valid: np.ndarray) -> Intervals:
    """When a sensor ran, was not valid, and lost samples. Ascending time stamps, f8 (sample,), s; valid: (sample,)."""
    intervals = np.diff(ts)
    period = float(np.median(intervals)) if len(intervals) else 0.0
    following = np.append(ts[1:], ts[-1:] + period)
    before_gap = np.append(find_gaps(intervals), np.zeros(len(ts) - len(intervals), bool))
    # A sample stands for the period after it: a gap begins where the first lost sample should have been.
    end = np.where(before_gap, ts + period, following)
    invalid = valid == 0
    return Intervals(
        period=period,
        running=np.column_stack([ts[:1], following[-1:]]),
        invalid=np.column_stack([ts[invalid], end[invalid]]),
        missing=np.column_stack([end[before_gap], following[before_gap]]),
    )


def plausible_or_nan(values: np.ndarray) -> np.ndarray:
    """Values as f8, with NaN for those that are not finite or too large to be true."""
    values = values.astype("f8")
    return np.where(is_plausible(values), values, np.nan)
