"""The line below the arrivals of a clock: the highest piecewise linear function that no arrival lies below.

It is the one with the smallest total latency, and the solution of a linear programme (Moon, Skelly and Towsley,
Estimation and removal of clock skew from network delay measurements, INFOCOM 1999; here with more than one segment).
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

#: An arrival this many median absolute deviations before the median is a fault of the host's clock.
_OUTLIER = 8.0
#: Minimum number of arrivals from which a median absolute deviation is estimated.
_MIN_ARRIVALS = 30


def envelope(number: np.ndarray, late: np.ndarray, knots: np.ndarray, bend: float) -> np.ndarray:
    """Values at the knots of the highest piecewise linear function that no arrival lies below, f8 (knot,) seconds.

    Args:
        number: i8 (N,), rising; late: f8 (N,), arrivals after equally spaced times, seconds.
        knots: f8 (knot,), numbers at which the slope may change.
        bend: largest change of the slope at a knot, seconds per number.
    """
    inner = np.ceil(knots[1:-1]).astype("i8")
    edges = [0, *np.searchsorted(number, inner).tolist(), len(number)]
    gain, gain_after = np.zeros(len(knots)), np.zeros(len(knots))
    parts = []
    for block, (start, stop) in enumerate(itertools.pairwise(edges)):
        kept = start + np.flatnonzero(~_outliers(late[start:stop]))
        if not len(kept):
            continue
        fraction = _fraction(number[kept], knots, block)
        # Added up one after another: sums in pairs round in another way.
        gain[block], gain_after[block + 1] = np.cumsum(1 - fraction)[-1], np.cumsum(fraction)[-1]
        # Only the corners of the convex hull of a block's arrivals can limit a line.
        corners = kept[_lower_hull(number[kept], late[kept])]
        parts.append((np.full(len(corners), block), corners))
    gain += gain_after
    block_of, corners = (np.concatenate(each) for each in zip(*parts, strict=True))
    fraction = _fraction(number[corners], knots, block_of)
    rows = np.repeat(np.arange(len(corners)), 2)
    columns = np.stack([block_of, block_of + 1], 1).ravel()
    weights = np.stack([1 - fraction, fraction], 1).ravel()
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


def _fraction(number: np.ndarray, knots: np.ndarray, block: np.ndarray | int) -> np.ndarray:
    """How far numbers are from the knot before them to the one after it, f8 (N,), 0 to 1; `block`: that knot's."""
    return np.asarray((number - knots[block]) / np.diff(knots)[block])


def _outliers(late: np.ndarray) -> np.ndarray:
    """Arrivals far earlier than the others of their block, bool (n,)."""
    if len(late) < _MIN_ARRIVALS:
        return np.zeros(len(late), bool)
    median = np.median(late)
    deviation = np.median(np.abs(late - median))
    return np.asarray(late < median - max(_OUTLIER * deviation, 1e-6))


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
