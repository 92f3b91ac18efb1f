"""Times at which samples were taken, estimated from the times at which they arrived at the host.

A sensor samples at a steady rate that drifts slowly against the host's clock. Some samples are lost, and every sample
arrives with a varying latency that is never negative. The sampling time is a piecewise linear function of the sample's
number, where lost samples have numbers too. The estimate is the highest such function that no arrival lies below
(`rover_pipeline.clocks.clock_model`). The minimum latency cannot be estimated from arrivals, so it remains in the
times.

A sensor that stops and starts again has another phase, a rate can change, and a host's clock can be set: a new segment
begins there. Where it begins, and how certain the phase is at every sample, follows from the probabilities of all
phases (`rover_pipeline.clocks.phase_posterior`). Where they do not decide, the recorded times stay, not valid.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from scipy import ndimage

from rover_pipeline.clocks.clock_model import Segment, lower_envelope
from rover_pipeline.clocks.options import TimesSection
from rover_pipeline.clocks.phase_posterior import DRIFT, RANDOM_SDS, rate_changes, steady_times
from rover_pipeline.clocks.segments import segments_of_one_rate
from rover_pipeline.clocks.tuning import TUNING
from rover_pipeline.errors import counted
from rover_pipeline.numerics.jumps import jumps
from rover_pipeline.numerics.robust import MAD_TO_SD

# Latency that grows or steps: changes of the phase of a clock that neither a restart nor a drift explains.


class UnexplainedLatency(NamedTuple):
    """Latency that no restart of the clock explains, at M samples whose time is known. A drift may explain it."""

    known: np.ndarray  #: i8 (M,), these samples.
    at: np.ndarray  #: f8 (M,), sampling times, seconds.
    latency: np.ndarray  #: f8 (M,), seconds.
    segment: np.ndarray  #: i8 (M,).
    restarts: np.ndarray  #: i8 (M,), how often the sensor may have restarted until then.
    unseen: np.ndarray  #: i8 (K,), of `restarts`: where there may be a smaller latency that `latency` does not show.


def _pieces(first: float, last: float, block: float, count: int) -> np.ndarray:
    """Knots from the first to the last of a segment, a whole number of pieces in each third of it, f8 (knot,).

    A latency may begin to grow within a third: a short one has three pieces where so many of `count` arrivals show
    their rates.
    """
    blocks = round((last - first) / block)
    each = blocks if blocks > 1 else max(1, min(3, count // (9 * TUNING.min_arrivals)))
    return np.linspace(first, last, 3 * each + 1)


def _free_latency(ts: np.ndarray, segment: Segment, block: float) -> np.ndarray:
    """Latency of arrivals `ts`, f8 (n,), after one rate in a segment, f8 (n,) seconds, with slopes that are as free as
    those of a latency are: each is constant for `block` seconds."""
    known = np.isfinite(segment.error)
    if known.sum() < 3 * TUNING.min_arrivals:  # fewer show no rate of a third
        return np.zeros(len(ts))
    number = segment.number[known]
    knots = _pieces(number[0], number[-1], block / segment.period, len(number))
    values = lower_envelope(number, ts[known] - ts[0] - number * segment.period, knots, np.inf)
    return np.interp(segment.number, knots, values)


def _beyond_drift(knots: np.ndarray, latency: np.ndarray) -> np.ndarray:
    """What no drift explains of a latency, f8 (3, knot) seconds, if the rate of the sensor is that of the first, middle
    or last third of its segment, the median of its pieces: nobody knows in which of them the latency is constant.

    Args:
        knots: f8 (knot,), seconds, of `_pieces`; latency: f8 (knot,), seconds.
    """
    drift = DRIFT * (knots[1] - knots[0])
    own = np.array([np.median(each) for each in np.split(np.diff(latency), 3)])
    change = np.diff(latency) - own[:, None]
    return np.cumsum(np.pad(change - np.clip(change, -drift, drift), ((0, 0), (1, 0))), axis=1)


def unexplained_latency(
    ts: np.ndarray, segments: list[Segment], options: TimesSection, period: float = 0.0
) -> UnexplainedLatency:
    """Latency that grows and steps as no clock does.

    Args:
        ts: f8 (N,), arrivals, seconds; segments: of these.
        period: of a sensor, seconds: a restart is a silence that is long for that one too.
    """
    max_error = options.max_error
    parts = np.split(ts, np.cumsum([len(each.number) for each in segments[:-1]]))
    free = np.concatenate([_free_latency(*each, options.block) for each in zip(parts, segments, strict=True)])
    shown = np.isfinite(np.concatenate([each.error for each in segments]))
    ends = np.array([_may_hide_a_step(ts, shown, segments, end, TUNING.step * max_error) for end in (0, -1)])
    shown[[0, -1]] |= ends
    known = np.flatnonzero(shown)
    inner = slice(int(ends[0]), len(known) - int(ends[1]))
    segment = np.repeat(np.arange(len(segments)), [len(each.number) for each in segments])[known]
    at = np.concatenate([each.smooth for each in segments])[known]
    rate, same = np.array([each.period for each in segments])[segment], np.diff(segment, prepend=segment[:1]) == 0
    # No sample is lost in just the moment in which the phase steps, but some are where it stays.
    step = np.diff(at, prepend=at[:1]) - np.diff(known, prepend=known[:1]) * rate
    off = step - np.round(step / rate) * rate
    step = np.where(np.abs(off) <= TUNING.step * max_error, off, step)
    # A restart is a new segment with another rate, or after a silence in which a sensor can start anew.
    gap = np.roll(np.maximum.reduceat(np.diff(ts, append=ts[-1]), known), 1)
    changed = np.abs(np.diff(rate, prepend=0.0)) > TUNING.min_rate_change * rate
    longest = rate[inner].max(initial=0.0)
    silent = ~same & (gap >= max(longest, period) + TUNING.silent_s)
    anew = (~same & changed) | (silent & (gap >= longest * _lost_periods(segments)))
    latency = np.cumsum(np.where(same, np.diff(free[known], prepend=0.0), step * ~anew))
    restarts = np.cumsum(anew)
    # Where it may be a loss too, the latency may have become less as well.
    smaller = restarts[silent & ~anew & (off < -TUNING.step * max_error)]
    unseen = np.concatenate([smaller, restarts[np.array([0, -1])[ends]]])
    return UnexplainedLatency(known[inner], at[inner], latency[inner], segment[inner], restarts[inner], unseen)


def _may_hide_a_step(ts: np.ndarray, shown: np.ndarray, segments: list[Segment], end: int, limit: float) -> bool:
    """Whether the latency may have become less in the first or last segment, whose clock is not known. It has not if
    its samples are few, or if the earliest of them is in time by the clock of the others, where none are lost.

    Args:
        ts: f8 (N,), seconds; shown: bool (N,), samples whose time is known; limit: of what is in time, seconds.
    """
    count, known = len(segments[end].error), np.flatnonzero(shown)
    if count * TUNING.restart <= TUNING.outside or not len(known) or np.isfinite(segments[end].error).any():
        return False
    beside = known[end]
    inner = next(each for each in segments[:: 2 * end + 1] if np.isfinite(each.error).any())
    here = np.arange(count) if end == 0 else np.arange(len(ts) - count, len(ts))
    time = inner.smooth[np.isfinite(inner.error)][end] + (here - beside) * inner.period
    return bool(abs((ts[here] - time).min()) > limit)


def _lost_periods(segments: list[Segment]) -> int:
    """Periods of a silence that shows a restart, and no latency that steps just where samples are lost. A loss goes on
    with a probability of its own (E. Gilbert, Capacity of a burst-noise channel, Bell System Technical Journal 1960).
    """
    steps = [np.diff(each.number) for each in segments]
    samples, losses, longer = (1 + sum(int((each >= size).sum()) for each in steps) for size in (0, 2, 3))
    goes_on = (longer - 1 + losses / (samples + 1)) / losses
    return 3 + int(np.log(TUNING.outside * TUNING.restart_in_gap / TUNING.restart) / np.log(goes_on))


def largest_latency(own: UnexplainedLatency, block: float, other: UnexplainedLatency | None = None) -> np.ndarray:
    """The largest unexplained latency at each sample whose time is known, f8 (M,) seconds, but for what another sensor
    of the same host has too."""
    latency = own.latency
    if other and len(other.at):
        apart = TUNING.min_arrivals * np.ptp(other.at) / len(other.at)
        theirs = np.array([np.interp(own.at + shift, other.at, other.latency) for shift in (-apart, 0.0, apart)])
        alone = latency - theirs + theirs[1, :1]
        latency = np.take_along_axis(alone, np.abs(alone).argmin(axis=0)[None], 0)[0]
    parts, end = [], np.zeros(3)
    smallest = np.full((3, own.restarts[-1] + 2), np.inf)  # the last one at an end that is not known
    for start, stop in itertools.pairwise([0, *(1 + np.flatnonzero(np.diff(own.segment))).tolist(), len(latency)]):
        at, group = own.at[start:stop], own.restarts[start]
        knots = _pieces(at[0], at[-1], block, len(at))
        grown = _beyond_drift(knots, np.interp(knots, at, latency[start:stop]))
        grown += (end + (latency[start] - latency[start - 1] if start else 0.0))[:, None]
        smallest[:, group] = np.minimum(smallest[:, group], grown.min(axis=1))
        # No arrival lies below a piece, so what comes within one raises the next one only.
        later = np.pad(grown[:, 2:], ((0, 0), (0, 1)), mode="edge")
        parts.append((at, knots, np.maximum(np.maximum(grown[:, :-1], grown[:, 1:]), later), group))
        end = grown[:, -1]
    smallest[:, own.unseen] = -np.inf
    largest = [((pieces.T - smallest[:, group]).max(axis=1), knots, at) for at, knots, pieces, group in parts]
    return np.concatenate([each[np.searchsorted(knots[1:-1], at)] for each, knots, at in largest])


_DEFAULT = TimesSection()


class Times(NamedTuple):
    """Corrected times of N samples."""

    smooth: np.ndarray  #: f8 (N,), seconds, increasing where the recorded times do.
    #: f8 (N,), the same, and the most probable times where these may be wrong by more than is valid: those of the
    #: clock's model where it has any, and those of one rate where all arrivals keep to it but for jitter.
    best: np.ndarray
    #: i8 (N,), number of each sample from 0 on; lost samples are counted, but not those at a restart.
    number: np.ndarray
    segment: np.ndarray  #: i4 (N,), rising: number of the segment that a sample is in. A restart begins a new one.
    #: bool (N,). False where it is not known when the sample was taken: `smooth` is then what was recorded.
    valid: np.ndarray
    #: f8 (N,), seconds, largest error of `smooth` but for the smallest latency; infinite where it is not valid.
    error: np.ndarray
    period: float  #: sampling period of the longest segment, seconds; NaN for a single sample.
    #: how much longer the period of the last block of that segment is than that of its first one, in millionths.
    drift_ppm: float

    @property
    def steady(self) -> bool:
        """Whether the times of all samples are known."""
        return bool(self.valid.all())

    def remarks(self, sensor: str) -> list[str]:
        """What the user of these times has to know, one line each."""
        remarks = []
        if restarts := int(self.segment[-1]):
            remarks.append(f"{sensor}: its clock restarted {counted(restarts, 'time')}, or the host's was set")
        if unknown := int((~self.valid).sum()):
            share = f"{unknown} of {counted(len(self.valid), 'sample was', 'samples were')}"
            kept = f"`_{sensor}_times` has their recorded times"
            remarks.append(f"{sensor}: when {share} taken is not certain; {kept}")
        return remarks


def smooth_times(ts: np.ndarray, options: TimesSection = _DEFAULT, others: tuple[np.ndarray, ...] = ()) -> Times:
    """Times without the jitter of their arrival.

    How many samples were lost at a restart is not known, and none are counted. A phase that no restart and no clock
    explains is the host's clock where another sensor shows it too, and else a latency.

    Args:
        ts: f8 (N,), seconds, increasing; at least one.
        others: f8 (M,) each, seconds, increasing: recorded times of other sensors by the same host's clock.
    """
    segments, ambiguous = _segments(ts, options)
    own = unexplained_latency(ts, segments, options)
    error = np.concatenate([segment.error for segment in segments])
    if len(own.known):
        latency = largest_latency(own, options.block)
        for other in others if latency.max() > options.max_error else ():
            theirs = unexplained_latency(other, _segments(other, options)[0], options, float(np.median(np.diff(ts))))
            latency = min(latency, largest_latency(own, options.block, theirs), key=np.sum)
        error[own.known] += latency
    valid = (error <= options.max_error) & ~ambiguous
    # A few samples that fit a clock amid others that do not fit it do so at random.
    if len(ts) >= TUNING.min_arrivals:
        valid = ndimage.binary_opening(valid, np.ones(TUNING.min_arrivals, bool))
    smooth = np.where(valid, np.concatenate([segment.smooth for segment in segments]), ts)
    _restore_order(smooth, ts, valid)
    longest = max(segments, key=lambda segment: len(segment.number))
    first = np.cumsum([0, *(segment.number[-1] + 1 for segment in segments[:-1])])
    return Times(
        smooth,
        _best_times(ts, smooth, segments),
        np.concatenate([segment.number + start for segment, start in zip(segments, first, strict=True)]),
        np.repeat(np.arange(len(segments), dtype="i4"), [len(segment.number) for segment in segments]),
        valid,
        np.where(valid, error, np.inf),
        longest.period,
        longest.drift_ppm,
    )


def _best_times(ts: np.ndarray, smooth: np.ndarray, segments: list[Segment]) -> np.ndarray:
    """`Times.best`."""
    best, known = smooth.copy(), np.isfinite(np.concatenate([segment.error for segment in segments]))
    best[known] = np.concatenate([segment.smooth for segment in segments])[known]
    undisturbed = len(segments) == 1 and bool((np.diff(segments[0].number) == 1).all())
    for start, stop in itertools.pairwise([0, *jumps(ts).tolist(), len(ts)]):
        part = slice(start, stop)
        # What is not certain beside a restart may be before or after it. Where the phase is known of a few samples
        # only, a restart is not certain, either: jitter looks like one.
        certain = known[part].all() if undisturbed else known[part].mean() > 0.5
        if certain or (steady := steady_times(ts[part])) is None:
            continue
        fits = _fitting(ts[part] - steady, known[part])
        # The clock's model is at the smallest latency, and a line through the arrivals at the usual one.
        steady += np.median((best[part] - steady)[known[part]]) if known[part].any() else 0.0
        best[part] = np.where(fits, steady, best[part])
    return best if (np.diff(best) > 0).all() else smooth


def _fitting(late: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Which samples, f8 (n,) seconds after a line, it fits, bool (n,): all of a run of samples whose time is `known`,
    bool (n,), or is not, are late alike."""
    deviation = MAD_TO_SD * float(np.median(np.abs(late - np.median(late))))
    fits = np.ones(len(late), bool)
    for first, end in itertools.pairwise([0, *(1 + np.flatnonzero(np.diff(known))).tolist(), len(known)]):
        off = abs(float(np.median(late[first:end]) - np.median(late)))
        fits[first:end] = known[first] or off < RANDOM_SDS * deviation / np.sqrt(end - first)
    return fits


def _segments(ts: np.ndarray, options: TimesSection) -> tuple[list[Segment], np.ndarray]:
    """The segments of a sensor, and which samples can be of either of two rates, or of none, bool (N,)."""
    segments, ambiguous = [], np.zeros(len(ts), bool)
    for first, end in itertools.pairwise([0, *jumps(ts).tolist(), len(ts)]):
        changes = rate_changes(ts[first:end], options.max_error)
        for start, stop in itertools.pairwise([first, *(first + change for change, _, _ in changes), end]):
            segments += segments_of_one_rate(ts[start:stop], options)
            ambiguous[start:stop] = bool(changes) and _shows_no_rate(ts, start, stop)
        for _, low, high in changes:
            ambiguous[first + low : first + high] = True
    return segments, ambiguous


def _shows_no_rate(ts: np.ndarray, start: int, stop: int) -> bool:
    """Whether the samples between two changes of the rate show none: they are few, or they have waited for a host that
    slept, and then came as fast as it could take them."""
    if stop - start < TUNING.rate_window:
        return True
    window = min(TUNING.rate_window, len(ts) - 1)  # whose length jitter changes little
    # Where the rate changes is known to three windows. The silence before samples that have waited counts as theirs.
    usual, begin = float(np.median(ts[window:] - ts[:-window])) / window, max(start - 3 * window, 0)
    fast = np.median(np.diff(ts[start:stop])) < 0.25 * usual
    # A sensor of such a rate takes four times as many samples as usual. Those that have waited are as many as usual.
    return bool(fast and (stop - begin) * usual < 2 * (ts[stop - 1] - ts[begin]))


def _restore_order(smooth: np.ndarray, ts: np.ndarray, valid: np.ndarray) -> None:
    """Take recorded times beside recorded times until all times increase, which recorded ones do."""
    wrong = np.flatnonzero(np.diff(smooth) <= 0)
    while len(wrong):
        both = np.concatenate([wrong, wrong + 1])
        if (smooth[both] == ts[both]).all():
            return  # the recorded times themselves do not increase
        smooth[both], valid[both] = ts[both], False
        wrong = np.flatnonzero(np.diff(smooth) <= 0)
