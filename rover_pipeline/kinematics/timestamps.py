"""When samples were taken, from when the host heard of them.

A sensor samples at a steady rate that drifts slowly against the host's clock; some samples are lost on the way, and
every one arrives late by a varying latency that is never negative. So times of equal spacing, lost samples counted,
are the highest line that no arrival lies below: piecewise linear in the sample's number, least total latency (the
linear programme of Moon, Skelly and Towsley, Estimation and removal of clock skew from network delay measurements,
INFOCOM 1999, with joints). What all latencies have in common cannot be told from arrivals and stays in the times.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from rover_pipeline.kinematics.options import ClockModel

#: A sample may come this share of a period before its time, and the rest of it late, without a look at the next ones.
_EARLY = 0.3
#: Share of a period by which the counted phase gives way to late samples, each.
_LEAK = 0.002
#: An arrival this many median deviations before its neighbours' is a fault of the host's clock, not a low latency.
_OUTLIER = 8.0
#: Arrivals, fewer of which do not tell what their deviations are like.
_ENOUGH = 30
#: Intervals whose median deviation is more than this share of their median follow no rate that could be counted by.
_IRREGULAR = 0.35
#: Typical latency above which, in periods, a fit explains nothing.
_UNSTEADY = 0.25


class Times(NamedTuple):
    """Corrected times of N samples.

    Attributes:
        smooth: f8 (N,), seconds, increasing.
        number: i8 (N,), of each sample from 0 on, lost ones counted.
        period: mean of the sensor's sampling, seconds; NaN for a single sample.
        drift_ppm: how much longer the last block's period is than the first one's, in millionths.
        steady: False when the arrivals follow no steady rate; `smooth` then holds what was recorded.
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

    Args:
        ts: f8 (N,), seconds, increasing; at least one.
        model: "constant" = one rate for the whole recording, "drifting" = one for every block.
        block: seconds, about; the blocks of a recording are equally long.
        bend_ppm: largest change of the rate from one block to the next, in millionths.
    """
    count = len(ts)
    if count < 3:
        period = float(ts[1] - ts[0]) if count == 2 else float("nan")
        return Times(ts.copy(), np.arange(count), period, 0.0, True)
    period, regular = _typical_period(ts)
    number = _count(ts, period) if regular else np.arange(count)
    length = float(number[-1]) * period
    blocks = 1 if model == "constant" else max(1, round(length / block))
    joints = np.linspace(0.0, number[-1], blocks + 1)
    late = ts - (ts[0] + number * period)
    knots = _envelope(number, late, joints, bend_ppm * 1e-6 * period)
    smooth = ts[0] + number * period + np.interp(number, joints, knots)
    slopes = period + np.diff(knots) / np.diff(joints)
    mean = float(period + (knots[-1] - knots[0]) / number[-1])
    if np.median(ts - smooth) > _UNSTEADY * mean or (np.diff(smooth) <= 0).any():
        return Times(ts.copy(), number, mean, 0.0, False)
    return Times(smooth, number, mean, float((slopes[-1] / slopes[0] - 1) * 1e6), True)


def _typical_period(ts: np.ndarray) -> tuple[float, bool]:
    """Seconds from one sample to the next one taken, and whether intervals are regular enough to count by it."""
    steps = np.diff(ts)
    period = float(np.quantile(steps, 0.5, method="lower"))
    if np.quantile(np.abs(steps - period), 0.5, method="lower") > _IRREGULAR * period:
        return float((ts[-1] - ts[0]) / len(steps)), False
    apart = 1
    while apart < len(ts):
        # The longer the interval, the less of its length is jitter; the last estimate counts what was lost in it.
        long = ts[apart:] - ts[:-apart]
        period = float(np.median(long / np.maximum(np.round(long / period), 1)))
        apart *= 2
        if apart > (len(ts) - 1) // 2:
            break
    return period, True


def _count(ts: np.ndarray, period: float) -> np.ndarray:
    """Number of each sample, i8 (N,), the first one 0: strictly increasing, with gaps where samples were lost.

    Follows the earliest arrivals: whatever is late belongs to the number before. When more samples come than the time
    since the last one has room for, they had been waiting: the ones before them were late too, by whole periods.
    """
    numbers = [0]
    anchor, phase = 0, float(ts[0])  # the sample of number `anchor` would arrive at `phase` at the earliest
    for now in ts[1:].tolist():
        number = anchor + int(np.floor((now - phase) / period + _EARLY))
        crowded = number <= numbers[-1]
        numbers.append(number)
        at = len(numbers) - 2
        while crowded and at >= 0 and numbers[at] >= numbers[at + 1]:
            numbers[at] = numbers[at + 1] - 1
            at -= 1
        phase += (number - anchor) * period
        anchor = number
        late = now - phase
        phase = now if late < 0 or at < 0 else phase + min(late, _LEAK * period)
    found = np.array(numbers)
    first: np.ndarray = found - found[0]
    return first


def _envelope(number: np.ndarray, late: np.ndarray, joints: np.ndarray, bend: float) -> np.ndarray:
    """Values at the joints of the highest piecewise linear function that no arrival lies below, f8 (joint,) seconds.

    Args:
        number: i8 (N,); late: f8 (N,), arrivals after equally spaced times, seconds.
        joints: f8 (joint,), numbers at which the slope may change.
        bend: largest change of the slope at a joint, seconds a number.
    """
    block = np.clip(np.searchsorted(joints, number, side="right") - 1, 0, len(joints) - 2)
    share = (number - joints[block]) / np.diff(joints)[block]
    keep = ~_outliers(late, block)
    gain = np.bincount(block[keep], 1 - share[keep], len(joints))
    gain += np.bincount(block[keep] + 1, share[keep], len(joints))
    # Only corners of the convex hull of a block's arrivals can bound a line from above.
    inside = np.flatnonzero(keep)
    parts = np.split(inside, np.flatnonzero(np.diff(block[inside])) + 1)
    corners = np.concatenate([part[_lower_hull(number[part], late[part])] for part in parts])
    rows = np.repeat(np.arange(len(corners)), 2)
    columns = np.stack([block[corners], block[corners] + 1], 1).ravel()
    weights = np.stack([1 - share[corners], share[corners]], 1).ravel()
    shape = len(corners), len(joints)
    limits, bounds = [csr_array((weights, (rows, columns)), shape)], [late[corners]]
    if len(joints) > 2:
        middle = np.arange(len(joints) - 2)
        step = joints[1] - joints[0]
        turn = csr_array(
            (np.tile([1.0, -2.0, 1.0], len(middle)), (np.repeat(middle, 3), (middle[:, None] + [0, 1, 2]).ravel())),
            (len(middle), len(joints)),
        )
        limits += [turn, -turn]
        bounds += [np.full(2 * len(middle), bend * step)]
    # The solver's tolerances are absolute: in units of the spread they are far below anything that matters.
    unit = float(np.ptp(late)) or 1.0
    solved = linprog(-gain, vstack(limits), np.concatenate(bounds) / unit, bounds=(None, None), method="highs")
    if not solved.success:
        raise ValueError(f"no line fits below the arrivals: {solved.message}")
    knots: np.ndarray = solved.x * unit
    return knots


def _outliers(late: np.ndarray, block: np.ndarray) -> np.ndarray:
    """Arrivals far earlier than those of their block, bool (N,)."""
    found = np.zeros(len(late), bool)
    for part in np.split(np.arange(len(late)), np.flatnonzero(np.diff(block)) + 1):
        if len(part) < _ENOUGH:
            continue
        middle = np.median(late[part])
        deviation = np.median(np.abs(late[part] - middle))
        found[part] = late[part] < middle - max(_OUTLIER * deviation, 1e-6)
    return found


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
