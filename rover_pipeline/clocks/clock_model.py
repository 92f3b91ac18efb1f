"""The model of a clock from restart to restart: sampling times are a piecewise linear function of the sample number."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.clocks.lower_envelope import lower_envelope
from rover_pipeline.clocks.tuning import TUNING


class ClockOptions(NamedTuple):
    """Options of the estimate of a clock.

    Attributes:
        block: the rate is constant for about so long, seconds; infinite = from restart to restart. The blocks of a
            segment are equally long.
        bend_ppm: largest change of the rate from one block to the next, in millionths.
        max_error: times that can be wrong by more than this are not valid, seconds.
    """

    block: float = 30.0
    bend_ppm: float = 50.0
    max_error: float = 0.002


class Segment(NamedTuple):
    """Samples between two restarts of a clock.

    Attributes:
        number: i8 (n,), the first one 0; smooth: f8 (n,), sampling times, seconds.
        error: f8 (n,), seconds, by which `smooth` may be off; infinite where that is not known.
        period: mean, seconds; drift_ppm: as in `Times`.
    """

    number: np.ndarray
    smooth: np.ndarray
    error: np.ndarray
    period: float
    drift_ppm: float

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
    options: ClockOptions,
) -> Segment:
    """The segment whose clock is the lower envelope of some arrivals. Its errors are not known yet.

    Args:
        number: i8 (n,); ts: f8 (n,), arrivals, seconds.
        used: bool (n,), the m arrivals that the clock is below; phase: f8 (m,), of these, seconds.
        period: of the whole recording, seconds; alone: whether this segment has most of its arrivals.
    """
    numbers, begin = number[used], ts[used][0]
    first, last = numbers[0], numbers[-1]
    latency = ts[used] - (begin + (numbers - first) * period)  # after equally spaced times
    length = float(last - first) * period
    if length * TUNING.drift < options.max_error / 8 and not alone:
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
        if share >= TUNING.follows or np.isinf(options.block):
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
