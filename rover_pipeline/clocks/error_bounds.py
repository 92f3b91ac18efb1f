"""How far from the truth the sampling times of a clock model can be."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import ndimage

from rover_pipeline.clocks.clock_model import Segment
from rover_pipeline.clocks.sequence_numbers import SequenceNumbers
from rover_pipeline.clocks.tuning import TUNING


class SegmentFit(NamedTuple):
    """A segment whose errors are not known yet.

    Attributes:
        segment: its n samples, and ts: f8 (n,), their arrivals, seconds.
        last: bool (n,), arrivals that do not wait for the host together with later ones.
        numbers: of its samples.
        shown: i8 (m,), the arrivals that show the phase.
        low, high: f8 (m,), seconds, from where to where the sampling time by this phase is after that of the model.
    """

    segment: Segment
    ts: np.ndarray
    last: np.ndarray
    numbers: SequenceNumbers
    shown: np.ndarray
    low: np.ndarray
    high: np.ndarray


def with_errors(fits: list[SegmentFit], period: float, max_error: float) -> list[Segment]:
    """Segments with their errors. The least latency is not known, so a constant difference is no error.

    Args:
        period: seconds; max_error: as in `smooth_times`.
    """
    latency = np.concatenate([(fit.ts - fit.segment.smooth)[fit.numbers.certain] for fit in fits])
    latency.sort()
    late_by_a_period = _probability_above(latency, period)
    if not len(latency) or np.mean(np.abs(latency - np.median(latency)) > period / 4) > TUNING.blurred:
        return [fit.segment for fit in fits]
    del latency
    middle = np.concatenate([(fit.low + fit.high) / 2 for fit in fits])
    offset = float(np.median(middle)) if len(middle) else 0.0
    repeated = any(fit.numbers.repeated for fit in fits)
    # So many arrivals in a row can be late by a whole period, so that a loss seems to come before them.
    doubtful = int(np.log(TUNING.outside) / np.log(late_by_a_period)) if late_by_a_period > 0 else 0
    segments = []
    for fit in fits:
        error, last = _errors(fit, offset, max_error), np.flatnonzero(fit.last)
        if repeated:  # two samples that come together can be one that came twice, beside one that was lost
            error[~fit.last] = np.inf
        for lost in fit.numbers.after_loss.tolist() if doubtful else ():
            stop = last[min(int(np.searchsorted(last, lost)) + doubtful, len(last)) - 1] + 1
            error[lost:stop] = np.inf
        segments.append(fit.segment._replace(error=error))
    return segments


def _errors(fit: SegmentFit, offset: float, max_error: float) -> np.ndarray:
    """Errors of the samples of a segment, f8 (n,) seconds; infinite where they are not known.

    Args:
        offset: seconds, how far phases are after the model of their segment; max_error: as in `smooth_times`.
    """
    by_arrival = np.full(len(fit.ts), np.inf)
    by_arrival[fit.shown] = np.maximum(np.abs(fit.low - offset), np.abs(fit.high - offset))
    # A sample that waited for the host is as certain as the arrivals before and after it.
    known = np.concatenate([[np.inf], by_arrival[fit.last], [np.inf]])
    before = np.cumsum(fit.last, dtype="i4")
    error = np.maximum(known[before], known[before + 1 - fit.last])
    # One arrival before its time is a fault of the host's clock. Several show that the model is wrong around them.
    early = fit.ts - fit.segment.smooth < -TUNING.step * max_error
    around = np.ones(2 * TUNING.min_arrivals + 1, "i1")
    early |= ndimage.convolve1d(early.astype("i1"), around, mode="constant") > 1
    error[early | ~fit.numbers.certain] = np.inf
    return error


def _probability_above(ordered: np.ndarray, limit: float) -> float:
    """Probability that an arrival is later than `limit`, seconds, by sorted latencies, f8 (N,) seconds. The tail
    beyond the largest of them is exponential, with the mean excess of the largest tenth."""
    count = len(ordered)
    if count < 6:  # too few for a tail of three
        return 0.5
    later = count - int(np.searchsorted(ordered, limit))
    if later:
        return min((later + 1) / (count + 2), 0.5)
    tail = ordered[-max(3, count // 10) :]
    excess = max(float((tail - tail[0]).mean()), 1e-6)
    return float(np.exp((ordered[-1] - limit) / excess)) / (count + 2)
