"""Segments of a clock: from restart to restart, each with a model of the clock and its errors."""

from __future__ import annotations

import numpy as np

from rover_pipeline.clocks.clock_model import ClockOptions, Segment, fit_clock
from rover_pipeline.clocks.error_bounds import SegmentFit, with_errors
from rover_pipeline.clocks.phase_posterior import PhasePosterior, estimate_phases
from rover_pipeline.clocks.sampling_rate import last_of_bursts, typical_period
from rover_pipeline.clocks.sequence_numbers import number_samples
from rover_pipeline.clocks.tuning import TUNING


def segments_of_one_rate(ts: np.ndarray, options: ClockOptions) -> list[Segment]:
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
        phases = estimate_phases(since[last], period, options.max_error / TUNING.bins_in_error)
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
    ts: np.ndarray, index: np.ndarray, phases: PhasePosterior, run: np.ndarray, period: float, options: ClockOptions
) -> SegmentFit:
    """The segment of some arrivals, f8 (n,), seconds.

    Args:
        index: i8 (m,), those that show the phase; run: i8 (m,), their places in `phases`.
    """
    last = last_of_bursts(ts, period)
    known = np.zeros(len(ts), bool)
    known[index] = True
    # The last one of a burst can be late by whole periods too, if the samples after it were lost.
    alone = known & np.append(True, last[:-1])
    phase = np.interp(np.arange(len(ts)), index, np.unwrap(phases.mode[run] * phases.width, period=period))
    position = (ts - phase) / period
    position -= np.floor(position[index[0]] + TUNING.early)
    numbers = number_samples(position, known, alone)
    used = numbers.near & numbers.certain
    # Arrivals before the earliest phase that can be are faults of the host's clock.
    used[index] &= position[index] - np.floor(position[index] + TUNING.early) >= -(phases.below[run] + 1) / phases.bins
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
