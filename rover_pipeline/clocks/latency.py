"""Latency that grows or steps: changes of the phase of a clock that neither a restart nor a drift explains."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.clocks.clock_model import Segment
from rover_pipeline.clocks.tuning import TUNING


class UnexplainedLatency(NamedTuple):
    """Latency that no restart and no drift of the clock explains, at M samples whose time is known.

    Attributes:
        at: f8 (M,), sampling times, seconds; latency: f8 (M,), seconds.
        segment: i8 (M,); restarts: i8 (M,), how often the sensor may have restarted until then.
    """

    at: np.ndarray
    latency: np.ndarray
    segment: np.ndarray
    restarts: np.ndarray


def unexplained_latency(
    ts: np.ndarray, segments: list[Segment], max_error: float, period: float = 0.0
) -> UnexplainedLatency:
    """Latency that grows and steps as no clock does.

    Args:
        ts: f8 (N,), arrivals, seconds; segments: of these.
        max_error: seconds, as in `smooth_times`.
        period: of a sensor, seconds: a restart is a silence that is long for that one too.
    """
    known = np.flatnonzero(np.isfinite(np.concatenate([each.error for each in segments])))
    segment = np.repeat(np.arange(len(segments)), [len(each.number) for each in segments])[known]
    at = np.concatenate([each.smooth for each in segments])[known]
    number = np.concatenate([each.number for each in segments])[known]
    rate, same = np.array([each.period for each in segments])[segment], np.diff(segment, prepend=segment[:1]) == 0
    passed, count = np.diff(at, prepend=at[:1]), np.diff(known, prepend=known[:1])
    # No sample is lost in just the moment in which the phase steps, but some are where it stays.
    step = passed - np.where(same, np.diff(number, prepend=number[:1]), count) * rate
    off = step - np.round(step / rate) * rate
    step = np.where(np.abs(off) <= TUNING.step * max_error, off, step)
    # A restart is a new segment with another rate, or after a silence in which a sensor can start anew.
    gap = np.roll(np.maximum.reduceat(np.diff(ts, append=ts[-1]), known), 1)
    changed = np.abs(np.diff(rate, prepend=0.0)) > TUNING.min_rate_change * rate
    anew = ~same & (changed | (gap >= rate.max(initial=period) + TUNING.silent_s))
    latency = np.cumsum(step * ~anew * (~same | (np.abs(step) > TUNING.drift / 2 * passed)))
    return UnexplainedLatency(at, latency, segment, np.cumsum(anew))


def largest_latency(count: int, own: UnexplainedLatency, other: UnexplainedLatency | None = None) -> np.ndarray:
    """The largest unexplained latency in each of `count` segments of a sensor, f8 (count,) seconds, but for what
    another sensor of the same host has too."""
    latency = own.latency
    if other and len(other.at):
        apart = TUNING.min_arrivals * np.ptp(other.at) / len(other.at)
        theirs = np.array([np.interp(own.at + shift, other.at, other.latency) for shift in (-apart, 0.0, apart)])
        alone = latency - theirs + theirs[1, 0]
        latency = np.take_along_axis(alone, np.abs(alone).argmin(axis=0)[None], 0)[0]
    largest, smallest = np.zeros(count), np.full(count, np.inf)
    np.minimum.at(smallest, own.restarts, latency)
    np.maximum.at(largest, own.segment, latency - smallest[own.restarts])
    return largest
