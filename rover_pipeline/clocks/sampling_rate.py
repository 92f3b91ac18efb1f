"""The rate of a sensor: its typical period, and where it changes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

#: Intervals are too irregular for a rate when their median absolute deviation is above this fraction of their median.
_IRREGULAR = 0.35
#: Share of the intervals, the shortest ones, that have no breaks.
_NO_BREAK = 0.9
#: Arrivals within this fraction of a period after the one before have waited for the host together with it.
_BURST = 0.25
#: Samples of a window in which a rate is estimated; windows overlap by a half.
RATE_WINDOW = 64
#: A change of the rate is this many times its typical change, and at least this fraction of it.
_RATE_NOISE, LEAST_CHANGE = 10.0, 0.002
#: It moves the phase within half a window by this many times the largest error, or is a drift of the phase.
_MOVED = 2.0
#: Logarithm of the change of a rate that single intervals tell.
_TELLING = 0.05


class RateChange(NamedTuple):
    """Where the rate changes.

    Attributes:
        first: the first sample of the other rate.
        low, high: samples from `low` to before `high` can be of either rate.
    """

    first: int
    low: int
    high: int


def last_of_bursts(ts: np.ndarray, period: float) -> np.ndarray:
    """Which arrivals tell when a sample was taken, bool (N,): the last ones of those that come together.

    Samples that come together have waited for the host together, and all but the last one are late by whole periods.
    """
    return np.append(np.diff(ts) >= _BURST * period, True)


def typical_period(ts: np.ndarray) -> tuple[float, bool]:
    """The sampling period, seconds, and whether the intervals are regular enough for one.

    Args:
        ts: f8 (N,), arrivals, seconds, increasing; N > 1.
    """
    steps = np.diff(ts)
    period = float(np.quantile(steps, 0.5, method="lower"))
    # Where most samples come together with others, the typical interval is not the period.
    mean = float(steps[steps <= np.quantile(steps, _NO_BREAK)].mean())
    if np.quantile(np.abs(steps - period), 0.5, method="lower") > _IRREGULAR * period or period < mean / 2:
        return float((ts[-1] - ts[0]) / len(steps)), False
    stride, longest = 1, max(1, len(ts) // 16)
    while stride <= longest:
        # Jitter is a smaller part of a longer interval. The last estimate gives the number of periods in it.
        intervals = ts[stride:] - ts[:-stride]
        period = float(np.median(intervals / np.maximum(np.round(intervals / period), 1)))
        stride *= 2
    return period, True


def rate_changes(ts: np.ndarray, max_error: float) -> list[RateChange]:
    """Where the rate of samples changes.

    Args:
        ts: f8 (N,), arrivals, seconds, increasing; max_error: largest error of a time, seconds.
    """
    if len(ts) < 3 * RATE_WINDOW:
        return []
    hop = RATE_WINDOW // 2
    windows = sliding_window_view(ts, RATE_WINDOW)[::hop]
    periods = np.quantile(np.diff(windows, axis=1), 0.5, axis=1, method="lower")
    if (periods <= 0).any():
        return []
    stride = 1
    while stride <= hop:
        intervals = windows[:, stride:] - windows[:, :-stride]
        counts = np.maximum(np.round(intervals / periods[:, None]), 1)
        periods = np.median(intervals / counts, axis=1)
        stride *= 2
    change = np.abs(np.log(periods[2:] / periods[:-2]))
    moved = _MOVED * max_error / (hop * float(np.median(periods)))
    limit = max(_RATE_NOISE * float(np.median(change)), LEAST_CHANGE, moved)
    found: list[RateChange] = []
    over = np.flatnonzero(change > limit)
    for group in np.split(over, np.flatnonzero(np.diff(over) > 2) + 1):
        if not len(group):
            continue
        # The windows before and after are of the two rates; between them the intervals tell which is whose.
        start, stop = int(group[0]) * hop, min(int(group[-1]) * hop + 2 * RATE_WINDOW, len(ts))
        before, after = periods[group[0]], periods[group[-1] + 2]
        if abs(np.log(after / before)) <= limit:
            continue  # a change of the phase only, in the windows between
        steps = np.diff(ts[start:stop])
        costs = [
            np.minimum(np.abs(steps / each - np.maximum(np.round(steps / each), 1)) * each, before)
            for each in (before, after)
        ]
        total = np.concatenate([[0], np.cumsum(costs[0] - costs[1])])
        large = abs(np.log(after / before)) > _TELLING
        first = start + 1 + int(np.argmin(total) if large else np.argmax(steps))
        found.append(RateChange(min(first, len(ts) - 1), max(start - hop, 0), stop))
    # Changes so near to one another that their windows overlap are not told apart.
    return [each for i, each in enumerate(found) if i == 0 or each.first > found[i - 1].first]
