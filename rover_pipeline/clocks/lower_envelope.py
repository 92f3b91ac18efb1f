"""The line below the arrivals of a clock: the highest piecewise linear function that no arrival lies below.

It is the one with the smallest total latency, and the solution of a linear programme (Moon, Skelly and Towsley,
Estimation and removal of clock skew from network delay measurements, INFOCOM 1999; here with more than one segment).
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from rover_pipeline.clocks.tuning import TUNING


def lower_envelope(number: np.ndarray, latency: np.ndarray, knots: np.ndarray, bend: float) -> np.ndarray:
    """Values at the knots of the highest piecewise linear function that no arrival lies below, f8 (knot,) seconds.

    Args:
        number: i8 (N,), rising; latency: f8 (N,), of arrivals after equally spaced times, seconds.
        knots: f8 (knot,), numbers at which the slope may change, equally spaced.
        bend: largest change of the slope at a knot, seconds per number.
    """
    # The solver's tolerances are absolute, and they are small in units of the spread of the arrivals.
    unit = float(np.ptp(latency)) or 1.0
    block = np.searchsorted(np.ceil(knots[1:-1]), number, side="right")
    edges = [0, *(1 + np.flatnonzero(np.diff(block))).tolist(), len(number)]
    used = np.concatenate([_not_early(latency[start:stop]) for start, stop in itertools.pairwise(edges)])
    fraction = (number - knots[block]) / np.diff(knots)[block]  # of the way from a knot to the one after it
    gain = np.bincount(block, (1 - fraction) * used, len(knots))
    gain += np.bincount(block + 1, fraction * used, len(knots))
    # Only the corners of the convex hull of a block's arrivals can limit a line.
    parts = (start + np.flatnonzero(used[start:stop]) for start, stop in itertools.pairwise(edges))
    corners = np.concatenate([part[_lower_hull(number[part], latency[part])] for part in parts])
    block = block[corners]
    weights = np.stack([1 - fraction[corners], fraction[corners]], 1)
    columns = np.stack([block, block + 1], 1)
    limits, bounds = [_rows(weights, columns, len(knots))], [latency[corners]]
    if len(knots) > 2:
        columns = np.arange(len(knots) - 2)[:, None] + [0, 1, 2]
        change = _rows(np.tile([1.0, -2.0, 1.0], (len(columns), 1)), columns, len(knots))
        limits += [change, -change]
        bounds += [np.full(2 * len(columns), bend * (knots[1] - knots[0]))]
    solution = linprog(-gain, vstack(limits), np.concatenate(bounds) / unit, bounds=(None, None), method="highs")
    if not solution.success:
        raise ValueError(f"no line fits below the arrivals: {solution.message}")
    return np.asarray(solution.x * unit)


def _not_early(latency: np.ndarray) -> np.ndarray:
    """Arrivals that are not far earlier than the others of their block, bool (n,)."""
    if len(latency) < TUNING.min_deviation_arrivals:
        return np.ones(len(latency), bool)
    median = np.median(latency)
    return np.asarray(latency >= median - max(TUNING.early_outlier * np.median(np.abs(latency - median)), 1e-6))


def _rows(values: np.ndarray, columns: np.ndarray, width: int) -> csr_array:
    """The sparse matrix (row, width) with these values at these columns, both (row, n)."""
    row = np.repeat(np.arange(len(values)), values.shape[1])
    return csr_array((values.ravel(), (row, columns.ravel())), (len(values), width))


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
    return np.array(kept, int)
