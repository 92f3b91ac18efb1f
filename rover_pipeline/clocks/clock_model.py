"""The model of a clock from restart to restart: sampling times are a piecewise linear function of the sample number."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from rover_pipeline.clocks.options import TimesSection
from rover_pipeline.clocks.phase_posterior import DRIFT, RANDOM_SDS
from rover_pipeline.clocks.tuning import TUNING
from rover_pipeline.numerics.robust import MAD_TO_SD

# The line below the arrivals of a clock: the highest piecewise linear function that no arrival lies below.
#
# It is the one with the smallest total latency, and the solution of a linear programme (Moon, Skelly and Towsley,
# Estimation and removal of clock skew from network delay measurements, INFOCOM 1999; here with more than one segment).


def lower_envelope(number: np.ndarray, latency: np.ndarray, knots: np.ndarray, bend: float) -> np.ndarray:
    """Values at the knots of the highest piecewise linear function that no arrival lies below, f8 (knot,) seconds.

    Args:
        number: i8 (N,), rising; latency: f8 (N,), of arrivals after equally spaced times, seconds.
        knots: f8 (knot,), numbers at which the slope may change, equally spaced.
        bend: largest change of the slope at a knot, seconds per number; infinite = any.
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
    if len(knots) > 2 and np.isfinite(bend):
        columns = np.arange(len(knots) - 2)[:, None] + [0, 1, 2]
        change = _rows(np.tile([1.0, -2.0, 1.0], (len(columns), 1)), columns, len(knots))
        limits += [change, -change]
        bounds += [np.full(2 * len(columns), bend * (knots[1] - knots[0]))]
    solution = linprog(-gain, vstack(limits), np.concatenate(bounds) / unit, bounds=(None, None), method="highs")
    if not solution.success:
        raise ValueError(f"no line fits below the arrivals: {solution.message}")
    return np.asarray(solution.x * unit)


def _not_early(latency: np.ndarray) -> np.ndarray:
    """Arrivals that are not far earlier than the others of their block, bool (n,).

    Earlier ones are faults of the host's clock, and would pull the line down.
    """
    if len(latency) < TUNING.min_arrivals:
        return np.ones(len(latency), bool)
    median = np.median(latency)
    deviation = MAD_TO_SD * np.median(np.abs(latency - median))
    return np.asarray(latency >= median - max(RANDOM_SDS * deviation, 1e-6))


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


class Segment(NamedTuple):
    """Samples between two restarts of a clock."""

    number: np.ndarray  #: i8 (n,), the first one 0.
    smooth: np.ndarray  #: f8 (n,), sampling times, seconds.
    error: np.ndarray  #: f8 (n,), seconds, by which `smooth` may be off; infinite where that is not known.
    period: float  #: mean, seconds.
    drift_ppm: float  #: as in `Times`.

    @staticmethod
    def unknown(ts: np.ndarray, period: float) -> Segment:
        """Samples of whose clock nothing is known."""
        return Segment(np.arange(len(ts)), ts.copy(), np.full(len(ts), np.inf), period, 0.0)


def fit_clock(
    number: np.ndarray,
    ts: np.ndarray,
    used: np.ndarray,
    phase: np.ndarray,
    period: float,
    alone: bool,
    options: TimesSection,
) -> Segment:
    """The segment whose clock is the lower envelope of some arrivals. Its errors are not known yet.

    Args:
        number: i8 (n,); ts: f8 (n,), arrivals, seconds.
        used: bool (n,), the m arrivals that the clock is below; phase: f8 (m,), of these, seconds.
        period: of the whole recording, seconds; alone: whether this segment has most of its arrivals.
        options: the blocks of a segment are equally long, each about `block`; infinite = from restart to restart.
    """
    numbers, begin = number[used], ts[used][0]
    first, last = numbers[0], numbers[-1]
    latency = ts[used] - (begin + (numbers - first) * period)  # after equally spaced times
    length = float(last - first) * period
    if length * DRIFT < options.max_error / 8 and not alone:
        # So short a segment does not show its rate better than the whole recording does.
        smooth = begin + (number - first) * period + latency.min()
        return Segment(number, smooth, np.broadcast_to(np.inf, len(number)), period, 0.0)
    best, best_share = (np.zeros(2), np.zeros(2)), -1.0
    # Where the model does not follow the clock, its blocks are made shorter, and the changes of its rate larger.
    for finer in (1, 2, 4, 8):
        # No more blocks than arrivals, which could not determine them.
        blocks = min(max(1, round(length / options.block * finer)), len(latency))
        knots = np.linspace(first, last, blocks + 1)
        values = lower_envelope(numbers, latency, knots, options.bend_ppm * 1e-6 * finer**3 * period)
        off = _piecewise_linear(numbers, knots, values) - phase
        share = float((np.abs(off - np.median(off)) <= TUNING.step * options.max_error).mean())
        if share > best_share:
            best, best_share = (knots, values), share
        if share >= 1 - TUNING.uniform or np.isinf(options.block):
            break
    knots, values = best
    smooth = begin + (number - first) * period + _piecewise_linear(number, knots, values)
    slopes = np.diff(values) / np.diff(knots)
    mean = period + float(values[-1] - values[0]) / float(last - first)
    drift = float(((period + slopes[-1]) / (period + slopes[0]) - 1) * 1e6)
    return Segment(number, smooth, np.broadcast_to(np.inf, len(number)), mean, drift)


def _piecewise_linear(number: np.ndarray, knots: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A piecewise linear function, whose first and last piece go on, at some numbers, f8 (N,)."""
    slopes = np.diff(values) / np.diff(knots)
    result, before, after = np.interp(number, knots, values), number < knots[0], number > knots[-1]
    result[before] += (number[before] - knots[0]) * slopes[0]
    result[after] += (number[after] - knots[-1]) * slopes[-1]
    return result
