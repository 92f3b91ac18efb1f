"""Segments of a clock: from restart to restart, each with a model of the clock and its errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import ndimage

from rover_pipeline.clocks.clock_model import Segment, fit_clock
from rover_pipeline.clocks.options import TimesSection
from rover_pipeline.clocks.phase_posterior import PhasePosterior, estimate_phases, last_of_bursts, typical_period
from rover_pipeline.clocks.tuning import TUNING

# Sequence numbers of samples, in which lost samples count, from their arrivals and the phase of the clock.


class SequenceNumbers(NamedTuple):
    """Sequence numbers of N samples."""

    number: np.ndarray  #: i8 (N,), never falling.
    certain: np.ndarray  #: bool (N,). False where lost or repeated samples leave several numbers possible.
    near: np.ndarray  #: bool (N,), arrivals that are so near to their expected time that they identify their number.
    after_loss: np.ndarray  #: i8 (loss,), the first sample after each loss.
    repeated: bool  #: whether there are more samples than numbers somewhere.


def number_samples(position: np.ndarray, known: np.ndarray, alone: np.ndarray) -> SequenceNumbers:
    """Number the samples of one segment.

    An arrival near its expected time identifies its number. Between two of them, as many samples as there are numbers
    have these numbers, however late they arrived. If there are fewer, some were lost, and it is not known which.

    Args:
        position: f8 (N,), arrivals in periods after the first expected time.
        known: bool (N,), samples whose arrival shows the phase of the clock.
        alone: bool (N,), those of them that did not arrive together with others.
    """
    number = np.floor(position + TUNING.near).astype("i8")
    near = alone & (np.abs(position - number) <= TUNING.near)
    index = np.flatnonzero(near)
    if not len(index):
        return SequenceNumbers(np.arange(len(number)), np.zeros(len(number), bool), near, index, False)
    # Numbers that do not rise are a contradiction: another rate, a repeated sample, arrivals late by a whole period.
    at, doubtful = number[index], np.zeros(len(index), bool)
    for each in np.flatnonzero(at[1:] <= at[:-1]).tolist():
        doubtful[max(0, each - TUNING.min_arrivals) : each + TUNING.min_arrivals + 2] = True
    rising = np.append(True, at[1:] > np.maximum.accumulate(at)[:-1])
    near[index[~rising]] = False
    index, at, doubtful = index[rising], at[rising], doubtful[rising]
    lost = np.diff(at) - np.diff(index)  # numbers without a sample between neighbouring arrivals that are near
    # More samples than numbers: one of them is a repeated one, or one of the two arrivals is late by nearly a period.
    doubtful |= np.append(lost < 0, False) | np.append(False, lost < 0)

    rest = np.flatnonzero(~near)
    right = np.searchsorted(index, rest)
    left, right = np.maximum(right - 1, 0), np.minimum(right, len(index) - 1)
    inside = (rest > index[0]) & (rest < index[-1])
    missing = np.where(inside, np.append(lost, 0)[left], 0)
    arrived, lowest = number[rest], at[left] + rest - index[left]
    highest = np.where(inside, lowest + np.maximum(missing, 0), np.maximum(arrived, lowest))
    skipped = np.where(known[rest] & inside, np.clip(arrived, lowest, highest), highest) - lowest
    # Numbers rise between two arrivals that are near. Repeated samples have no numbers of their own.
    stride = 2 * len(number) + int(np.ptp(number))
    skipped = np.maximum.accumulate(skipped + left * stride) - left * stride
    number[rest] = np.where(missing < 0, np.minimum(lowest, at[right]), lowest + skipped)
    certain = np.empty(len(number), bool)
    certain[index] = ~doubtful
    # No sample arrives before it is taken, and none before an earlier one: that can leave one number only.
    one = (rest > index[0]) & ((missing == 0) | ((missing > 0) & (arrived <= lowest)))
    certain[rest] = one & ~(doubtful[left] | doubtful[right])
    after_loss = 1 + index[0] + np.flatnonzero(np.diff(number[index[0] : index[-1] + 1]) > 1)
    return SequenceNumbers(number, certain, near, after_loss, bool((lost < 0).any()))


# How far from the truth the sampling times of a clock model can be.


class SegmentFit(NamedTuple):
    """A segment of n samples whose errors are not known yet."""

    segment: Segment
    ts: np.ndarray  #: f8 (n,), arrivals, seconds.
    last: np.ndarray  #: bool (n,), arrivals that do not wait for the host together with later ones.
    numbers: SequenceNumbers
    shown: np.ndarray  #: i8 (m,), the arrivals that show the phase.
    #: f8 (m,), seconds, from where to where the sampling time by this phase is after that of the model.
    low: np.ndarray
    high: np.ndarray


def with_errors(fits: list[SegmentFit], period: float, max_error: float) -> list[Segment]:
    """Segments with their errors; `period` in seconds, `max_error` as in `smooth_times`. The least latency is not
    known, so a constant difference is no error."""
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
    """Errors of the samples of a segment, f8 (n,) seconds; infinite where they are not known. Phases are `offset`
    seconds after the model of their segment; `max_error` is that of `smooth_times`."""
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


def segments_of_one_rate(ts: np.ndarray, options: TimesSection) -> list[Segment]:
    """Segments of arrivals of one rate, f8 (N,) seconds, from restart to restart; N > 0."""
    if len(ts) < TUNING.min_arrivals:
        return [_few(ts, options.max_error)]
    period, regular = typical_period(ts)
    if not regular:
        return [Segment.unknown(ts, period)]
    last = np.flatnonzero(last_of_bursts(ts, period))
    # Seconds since the first arrival: those since 1970 have too few digits left for a phase.
    since = ts - ts[0]
    for _ in range(2):  # the second time with the period of the first clock model
        # What an uncertain phase leaves of the error is a bin at either end.
        resolution = (1 - TUNING.certain_phase) / 2 * options.max_error
        phases = estimate_phases(since[last], period, resolution)
        runs = _runs(phases, period, since[last], options.max_error)
        if not runs:
            return [Segment.unknown(ts, period)]
        # What is between two runs goes to the first one. Nothing is known of it.
        starts = [0, *(int(last[run[0] - 1]) + 1 for run in runs[1:])]
        fits = [
            _fit(since[start:stop], last[run] - start, phases, run, period, options)
            for start, stop, run in zip(starts, [*starts[1:], len(ts)], runs, strict=True)
        ]
        segments = with_errors(fits, period, options.max_error)
        del phases, runs, fits  # what they hold is as long as the recording
        better = max(segments, key=lambda segment: len(segment.number)).period
        if abs(better / period - 1) * since[-1] < TUNING.step * options.max_error:
            break
        period = better  # the phase is constant over long gaps only if the period is right
    for segment in segments:
        np.add(segment.smooth, ts[0], out=segment.smooth)
    return segments


def _few(ts: np.ndarray, max_error: float) -> Segment:
    """The segment of a few arrivals, which do not determine a rate. Their clock has a whole number of samples a second,
    or is not known."""
    if len(ts) == 1:
        return Segment.unknown(ts, np.nan)
    steps = np.diff(ts)
    period = float(np.quantile(steps, 0.5, method="lower"))
    number = np.concatenate([[0], np.cumsum(np.maximum(np.round(steps / period), 1).astype("i8"))])
    mean = float((ts[-1] - ts[0]) / number[-1])
    latency = ts - ts[0] - number / max(round(1 / mean), 1)
    known = len(ts) > 2 and np.ptp(latency) <= max_error / 2
    smooth = ts - latency + latency.min() if known else ts.copy()
    return Segment(number, smooth, np.full(len(ts), np.ptp(latency) if known else np.inf), mean, 0.0)


def _runs(phases: PhasePosterior, period: float, arrivals: np.ndarray, max_error: float) -> list[np.ndarray]:
    """Arrivals with a known phase, i8 (m,) each, from restart to restart.

    A run also goes on where the phase comes back to what it was: nobody knows whether a host was busy in between, or
    the sensor restarted twice.
    """
    known = phases.below + phases.above + 1 <= 2 * TUNING.certain_phase * max_error / phases.width
    index = np.flatnonzero(known)
    if not len(index):
        return []

    def same_phase(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        change = (phases.mode[second] - phases.mode[first]) * phases.width
        return np.abs(change - period * np.round(change / period)) <= TUNING.step * max_error

    runs = np.split(index, 1 + np.flatnonzero(~same_phase(index[:-1], index[1:])))
    begins = arrivals[[run[0] for run in runs]]
    found, i = [], 0
    while i < len(runs):
        run = runs[i]
        back = int(np.searchsorted(begins, arrivals[run[-1]] + TUNING.busy_s, side="right")) - 1
        while back > i and not same_phase(run[-1], runs[back][0]):
            back -= 1
        if back > i:
            runs[back], i = np.concatenate([run, runs[back]]), back
        else:
            found.append(run)
            i += 1
    return [run for run in found if len(run) >= TUNING.min_arrivals]


def _fit(
    ts: np.ndarray, index: np.ndarray, phases: PhasePosterior, run: np.ndarray, period: float, options: TimesSection
) -> SegmentFit:
    """The segment of some arrivals, f8 (n,), seconds, of which those of `index`, i8 (m,), show the phase; `run`, i8
    (m,), has their places in `phases`."""
    last = last_of_bursts(ts, period)
    known = np.zeros(len(ts), bool)
    known[index] = True
    # The last one of a burst can be late by whole periods too, if the samples after it were lost.
    alone = known & np.append(True, last[:-1])
    phase = np.interp(np.arange(len(ts)), index, np.unwrap(phases.mode[run] * phases.width, period=period))
    position = (ts - phase) / period
    position -= np.floor(position[index[0]] + TUNING.near)
    numbers = number_samples(position, known, alone)
    used = numbers.near & numbers.certain
    # Arrivals before the earliest phase that can be are faults of the host's clock.
    used[index] &= position[index] - np.floor(position[index] + TUNING.near) >= -(phases.below[run] + 1) / phases.bins
    if used.sum() < TUNING.min_arrivals:
        none = index[:0]
        return SegmentFit(Segment.unknown(ts, period), ts, last, numbers, none, position[none], position[none])
    by_phase = ts[index] + (numbers.number[index] - position[index]) * period
    del position  # the longest array in memory is that of a whole recording
    np.subtract(numbers.number, numbers.number[0], out=numbers.number)
    segment = fit_clock(numbers.number, ts, used, phase[used], period, used.sum() >= len(phases.mode) / 2, options)
    after = by_phase - segment.smooth[index]
    low, high = after - phases.below[run] * phases.width, after + (phases.above[run] + 1) * phases.width
    return SegmentFit(segment, ts, last, numbers, index, low, high)
