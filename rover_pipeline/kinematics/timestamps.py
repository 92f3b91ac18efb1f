"""Times at which samples were taken, estimated from the times at which they arrived at the host.

A sensor samples at a steady rate that drifts slowly against the host's clock. Some samples are lost, and every sample
arrives with a varying latency that is never negative. The sampling time is a piecewise linear function of the sample's
number, where lost samples have numbers too. The estimate is the highest such function that no arrival lies below, which
is the one with the smallest total latency. It is a linear programme (Moon, Skelly and Towsley, Estimation and removal
of clock skew from network delay measurements, INFOCOM 1999; here with more than one segment). The minimum latency
cannot be estimated from arrivals, so it remains in the times.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from rover_pipeline.kinematics.options import ClockModel
from rover_pipeline.numerics.jumps import jumps

#: An arrival up to this fraction of a period before a sample's expected arrival still belongs to that sample.
_EARLY = 0.3
#: Maximum fraction of a period by which a late sample moves the expected arrival of the samples after it.
_LEAK = 0.002
#: An arrival this many median absolute deviations before the median is a fault of the host's clock.
_OUTLIER = 8.0
#: Minimum number of arrivals from which a median absolute deviation is estimated.
_MIN_ARRIVALS = 30
#: Intervals are too irregular to count samples when their median absolute deviation is above this fraction of their
#: median.
_IRREGULAR = 0.35
#: Median latency, in periods, above which the fit is rejected.
_MAX_LATENCY = 0.25


class Times(NamedTuple):
    """Corrected times of N samples.

    Attributes:
        smooth: f8 (N,), seconds, increasing.
        number: i8 (N,), number of each sample from 0 on; lost samples are counted.
        period: mean sampling period, seconds; NaN for a single sample.
        drift_ppm: how much longer the period of the last block is than that of the first one, in millionths.
        steady: False when the arrivals follow no steady rate; `smooth` then holds the recorded times.
    """

    smooth: np.ndarray
    number: np.ndarray
    period: float
    drift_ppm: float
    steady: bool


def smooth_times(
    ts: np.ndarray, *, model: ClockModel = "drifting", block: float = 30.0, bend_ppm: float = 50.0
) -> Times:
    """Times without the jitter of their arrival.

    Where the host's clock was set (see `rover_pipeline.numerics.jumps`), a new line begins: how many samples were lost
    there is not known, and none are counted. Period and drift are those of the part with the most samples.

    Args:
        ts: f8 (N,), seconds, increasing; at least one.
        model: "constant" = one rate for the whole recording, "drifting" = one rate for every block.
        block: approximate length of a block, seconds; the blocks of a recording are equally long.
        bend_ppm: largest change of the rate from one block to the next, in millionths.
    """
    after = jumps(ts)
    if not len(after):
        return _fit(ts, model, block, bend_ppm)
    parts = [_fit(part, model, block, bend_ppm) for part in np.split(ts, after)]
    longest = max(parts, key=lambda part: len(part.number))
    first = np.cumsum([0, *(part.number[-1] + 1 for part in parts[:-1])])
    return Times(
        np.concatenate([part.smooth for part in parts]),
        np.concatenate([part.number + start for part, start in zip(parts, first, strict=True)]),
        longest.period,
        longest.drift_ppm,
        all(part.steady for part in parts),
    )


def _fit(ts: np.ndarray, model: ClockModel, block: float, bend_ppm: float) -> Times:
    """Times of a part of a recording in which the host's clock was not set."""
    count = len(ts)
    if count < 3:
        period = float(ts[1] - ts[0]) if count == 2 else float("nan")
        return Times(ts.copy(), np.arange(count), period, 0.0, True)
    period, regular = _typical_period(ts)
    number = _count(ts, period) if regular else np.arange(count)
    length = float(number[-1]) * period
    # No more blocks than arrivals, which could not determine them.
    blocks = 1 if model == "constant" else min(max(1, round(length / block)), count)
    knots = np.linspace(0.0, number[-1], blocks + 1)
    late = ts - (ts[0] + number * period)
    values = _envelope(number, late, knots, bend_ppm * 1e-6 * period)
    smooth = ts[0] + number * period + np.interp(number, knots, values)
    slopes = period + np.diff(values) / np.diff(knots)
    mean = float(period + (values[-1] - values[0]) / number[-1])
    if np.median(ts - smooth) > _MAX_LATENCY * mean or (np.diff(smooth) <= 0).any():
        return Times(ts.copy(), number, mean, 0.0, False)
    return Times(smooth, number, mean, float((slopes[-1] / slopes[0] - 1) * 1e6), True)


def _typical_period(ts: np.ndarray) -> tuple[float, bool]:
    """The sampling period, seconds, and whether the intervals are regular enough to count samples with it."""
    steps = np.diff(ts)
    period = float(np.quantile(steps, 0.5, method="lower"))
    if np.quantile(np.abs(steps - period), 0.5, method="lower") > _IRREGULAR * period:
        return float((ts[-1] - ts[0]) / len(steps)), False
    stride = 1
    while stride <= (len(ts) - 1) // 2:
        # Jitter is a smaller part of a longer interval. The last estimate gives the number of periods in it.
        intervals = ts[stride:] - ts[:-stride]
        period = float(np.median(intervals / np.maximum(np.round(intervals / period), 1)))
        stride *= 2
    return period, True


def _count(ts: np.ndarray, period: float) -> np.ndarray:
    """Number of each sample, i8 (N,), the first one 0: strictly increasing, with gaps where samples were lost.

    The earliest arrivals define the expected arrival of each number, and an arrival belongs to the last number that
    was expected before it. Several samples can arrive together after they have waited for the host. Their numbers then
    repeat, and the numbers of the samples before them are reduced, because those samples were late by whole periods.
    """
    numbers = [0]
    anchor, expected = 0, float(ts[0])  # the earliest expected arrival of the sample with the number `anchor`
    for arrival in ts[1:].tolist():
        number = anchor + int(np.floor((arrival - expected) / period + _EARLY))
        repeated = number <= numbers[-1]
        numbers.append(number)
        i = len(numbers) - 2
        while repeated and i >= 0 and numbers[i] >= numbers[i + 1]:
            numbers[i] = numbers[i + 1] - 1
            i -= 1
        expected += (number - anchor) * period
        anchor = number
        late = arrival - expected
        expected = arrival if late < 0 or i < 0 else expected + min(late, _LEAK * period)
    return np.array([number - numbers[0] for number in numbers])


def _envelope(number: np.ndarray, late: np.ndarray, knots: np.ndarray, bend: float) -> np.ndarray:
    """Values at the knots of the highest piecewise linear function that no arrival lies below, f8 (knot,) seconds.

    Args:
        number: i8 (N,); late: f8 (N,), arrivals after equally spaced times, seconds.
        knots: f8 (knot,), numbers at which the slope may change.
        bend: largest change of the slope at a knot, seconds per number.
    """
    block = np.clip(np.searchsorted(knots, number, side="right") - 1, 0, len(knots) - 2)
    fraction = (number - knots[block]) / np.diff(knots)[block]
    keep = ~_outliers(late, block)
    gain = np.bincount(block[keep], 1 - fraction[keep], len(knots))
    gain += np.bincount(block[keep] + 1, fraction[keep], len(knots))
    # Only the corners of the convex hull of a block's arrivals can limit a line.
    kept = np.flatnonzero(keep)
    parts = np.split(kept, np.flatnonzero(np.diff(block[kept])) + 1)
    corners = np.concatenate([part[_lower_hull(number[part], late[part])] for part in parts])
    rows = np.repeat(np.arange(len(corners)), 2)
    columns = np.stack([block[corners], block[corners] + 1], 1).ravel()
    weights = np.stack([1 - fraction[corners], fraction[corners]], 1).ravel()
    shape = len(corners), len(knots)
    limits, bounds = [csr_array((weights, (rows, columns)), shape)], [late[corners]]
    if len(knots) > 2:
        inner = np.arange(len(knots) - 2)
        step = knots[1] - knots[0]
        change = csr_array(
            (np.tile([1.0, -2.0, 1.0], len(inner)), (np.repeat(inner, 3), (inner[:, None] + [0, 1, 2]).ravel())),
            (len(inner), len(knots)),
        )
        limits += [change, -change]
        bounds += [np.full(2 * len(inner), bend * step)]
    # The solver's tolerances are absolute, and they are small in units of the spread of the arrivals.
    unit = float(np.ptp(late)) or 1.0
    solution = linprog(-gain, vstack(limits), np.concatenate(bounds) / unit, bounds=(None, None), method="highs")
    if not solution.success:
        raise ValueError(f"no line fits below the arrivals: {solution.message}")
    return np.asarray(solution.x * unit)


def _outliers(late: np.ndarray, block: np.ndarray) -> np.ndarray:
    """Arrivals far earlier than the others of their block, bool (N,)."""
    outliers = np.zeros(len(late), bool)
    for part in np.split(np.arange(len(late)), np.flatnonzero(np.diff(block)) + 1):
        if len(part) < _MIN_ARRIVALS:
            continue
        median = np.median(late[part])
        deviation = np.median(np.abs(late[part] - median))
        outliers[part] = late[part] < median - max(_OUTLIER * deviation, 1e-6)
    return outliers


def _lower_hull(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Corners of the lower convex hull of points in the order of x, as indices (Andrew's monotone chain)."""
    kept: list[int] = []
    xs, ys = x.tolist(), y.tolist()
    for i in range(len(xs)):
        while len(kept) >= 2:
            a, b = kept[-2], kept[-1]
            if (xs[b] - xs[a]) * (ys[i] - ys[a]) > (ys[b] - ys[a]) * (xs[i] - xs[a]):
                break
            kept.pop()
        kept.append(i)
    return np.array(kept)
