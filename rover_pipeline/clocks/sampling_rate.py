"""The rate of a sensor: its typical period, and where it changes."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from rover_pipeline.clocks.tuning import TUNING

#: Standard deviations within which the mean of random errors is. Noise: normal distribution, 99.7 %.
RANDOM_SDS = 3.0


def last_of_bursts(ts: np.ndarray, period: float) -> np.ndarray:
    """Which arrivals show when a sample was taken, bool (N,): the last ones of those that come together.

    Samples that come within a quarter of a period have waited for the host together, and all but the last one are late
    by whole periods.
    """
    return np.append(np.diff(ts) >= 0.25 * period, True)


def typical_period(ts: np.ndarray) -> tuple[float, bool]:
    """The sampling period, seconds, and whether the intervals are regular enough for one.

    Args:
        ts: f8 (N,), arrivals, seconds, increasing; N > 1.
    """
    steps = np.diff(ts)
    period = float(np.quantile(steps, 0.5, method="lower"))
    # Where most samples come together with others, the typical interval is not the period. The longest are breaks.
    mean = float(steps[steps <= np.quantile(steps, 0.9)].mean())
    if np.quantile(np.abs(steps - period), 0.5, method="lower") > TUNING.irregular * period or period < mean / 2:
        return float((ts[-1] - ts[0]) / len(steps)), False
    return float(_refined(ts, np.array(period), max(1, len(ts) // 16))), True


def steady_times(ts: np.ndarray) -> np.ndarray | None:
    """The times of the one rate that arrivals keep to, f8 (N,), seconds; None where they keep to none.

    They keep to one rate if their residuals are independent, as jitter is. A phase that changes or a rate that drifts
    makes neighbours alike (J. von Neumann, Distribution of the ratio of the mean square successive difference to the
    variance, Annals of Mathematical Statistics 1941).

    Args:
        ts: f8 (N,), arrivals, seconds, increasing.
    """
    if len(ts) < TUNING.min_independent:
        return None
    period, regular = typical_period(ts)
    if not regular:
        return None
    steps = np.maximum(np.round(np.diff(ts) / period), 1)
    number = np.concatenate([[0.0], np.cumsum(steps)])
    since, weight = ts - ts[0], np.ones(len(ts))
    for _ in range(TUNING.line_fits):
        total = weight.sum()
        middle, mean = (weight * number).sum() / total, (weight * since).sum() / total
        rate = (weight * (number - middle) * (since - mean)).sum() / (weight * (number - middle) ** 2).sum()
        line = mean + rate * (number - middle)
        size = np.abs(since - line)
        limit = TUNING.late * np.median(size) + 1e-9
        weight = limit / np.maximum(size, limit)
    jitter = np.clip(since - line, -2 * limit, 2 * limit)
    jitter -= jitter.mean()
    ratio = (np.diff(jitter) ** 2).sum() / max((jitter**2).sum(), 1e-24)
    if rate <= 0 or ratio < 2 - RANDOM_SDS * 2 / np.sqrt(len(ts)):
        return None
    steady: np.ndarray = ts[0] + line
    return steady


def rate_changes(ts: np.ndarray, max_error: float) -> list[tuple[int, int, int]]:
    """Where the rate of samples changes: the first sample of the other rate, and from where to before where samples can
    be of either rate.

    Args:
        ts: f8 (N,), arrivals, seconds, increasing; max_error: largest error of a time, seconds.
    """
    window = TUNING.rate_window
    if len(ts) < 3 * window:
        return []
    hop = window // 2  # windows overlap by a half
    windows = sliding_window_view(ts, window)[::hop]
    periods = np.quantile(np.diff(windows, axis=1), 0.5, axis=1, method="lower")
    if (periods <= 0).any():
        return []
    periods = _refined(windows, periods, hop)
    change = np.abs(np.log(periods[2:] / periods[:-2]))
    # What moves the phase by less than twice the largest error within half a window is a drift of the phase.
    moved = 2 * max_error / (hop * float(np.median(periods)))
    limit = max(TUNING.significant_change * float(np.median(change)), TUNING.min_rate_change, moved)
    found: list[tuple[int, int, int]] = []
    over = np.flatnonzero(change > limit)
    for group in np.split(over, np.flatnonzero(np.diff(over) > 2) + 1):
        if not len(group):
            continue
        # The windows before and after are of the two rates; between them the intervals show which is whose.
        start, stop = int(group[0]) * hop, min(int(group[-1]) * hop + 2 * window, len(ts))
        before, after = periods[group[0]], periods[group[-1] + 2]
        if abs(np.log(after / before)) <= limit:
            continue  # a change of the phase only, in the windows between
        steps = np.diff(ts[start:stop])
        costs = [
            np.minimum(np.abs(steps / each - np.maximum(np.round(steps / each), 1)) * each, before)
            for each in (before, after)
        ]
        total = np.concatenate([[0], np.cumsum(costs[0] - costs[1])])
        # Single intervals show a change by more than five per cent. A smaller one begins at the longest interval.
        large = abs(np.log(after / before)) > 0.05
        first = start + 1 + int(np.argmin(total) if large else np.argmax(steps))
        found.append((min(first, len(ts) - 1), max(start - hop, 0), stop))
    # Of changes so near to one another that their windows overlap, the first is taken.
    return [each for i, each in enumerate(found) if i == 0 or each[0] > found[i - 1][0]]


def _refined(ts: np.ndarray, period: np.ndarray, longest: int) -> np.ndarray:
    """Periods of rows of arrivals from intervals of up to `longest` samples, f8 (...), seconds.

    Jitter is a smaller part of a longer interval. The last estimate gives the number of periods in it.

    Args:
        ts: f8 (..., N), seconds; period: f8 (...), first estimates, seconds.
    """
    stride = 1
    while stride <= longest:
        intervals = ts[..., stride:] - ts[..., :-stride]
        period = np.median(intervals / np.maximum(np.round(intervals / period[..., None]), 1), axis=-1)
        stride *= 2
    return np.asarray(period)
