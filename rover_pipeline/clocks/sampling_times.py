"""Times at which samples were taken, estimated from the times at which they arrived at the host.

A sensor samples at a steady rate that drifts slowly against the host's clock. Some samples are lost, and every sample
arrives with a varying latency that is never negative. The sampling time is a piecewise linear function of the sample's
number, where lost samples have numbers too. The estimate is the highest such function that no arrival lies below
(`rover_pipeline.clocks.lower_envelope`). The minimum latency cannot be estimated from arrivals, so it remains in the
times.

A sensor that stops and starts again has another phase, a rate can change, and a host's clock can be set: a new line
begins there. Where it begins, and how certain the phase is at every sample, follows from the probabilities of all
phases (`rover_pipeline.clocks.phase_posterior`). Where they do not decide, the recorded times stay, not valid.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from rover_pipeline.clocks.clock_model import DRIFT, LineFit
from rover_pipeline.clocks.error_bounds import FEWEST, STEP, Line
from rover_pipeline.clocks.options import ClockModel
from rover_pipeline.clocks.sampling_rate import LEAST_CHANGE, RATE_WINDOW, rate_changes
from rover_pipeline.numerics.jumps import jumps

#: Samples that come at less than this fraction of the usual interval, for less than so many seconds, have waited for a
#: host that slept.
_FAST, _TAKING_S = 0.25, 2.0
#: A sensor that starts anew is silent for so long beside its period, s: gyroscopes, the fastest, by their data sheets.
_SILENT_S = 0.1


class Times(NamedTuple):
    """Corrected times of N samples.

    Attributes:
        smooth: f8 (N,), seconds, increasing where the recorded times do.
        number: i8 (N,), number of each sample from 0 on; lost samples are counted, but not those at a restart.
        segment: i4 (N,), rising: number of the line that a sample is on. A restart begins a new one.
        valid: bool (N,). False where it is not known when the sample was taken: `smooth` is then what was recorded.
        error: f8 (N,), seconds, largest error of `smooth` but for the least latency; infinite where `valid` is False.
        period: sampling period of the longest segment, seconds; NaN for a single sample.
        drift_ppm: how much longer the period of the last block of that segment is than that of its first one, in
            millionths.
    """

    smooth: np.ndarray
    number: np.ndarray
    segment: np.ndarray
    valid: np.ndarray
    error: np.ndarray
    period: float
    drift_ppm: float

    @property
    def steady(self) -> bool:
        """Whether the times of all samples are known."""
        return bool(self.valid.all())

    def remarks(self, sensor: str) -> list[str]:
        """What the user of these times has to know, one line each."""
        remarks = []
        if restarts := int(self.segment[-1]):
            remarks.append(f"{sensor}: its clock begins anew {restarts} times: it restarted, or the host's was set")
        if unknown := int((~self.valid).sum()):
            share = f"{unknown} of {len(self.valid)} samples"
            remarks.append(f"{sensor}: when {share} were taken is not certain; they keep their recorded times")
        return remarks


def smooth_times(
    ts: np.ndarray,
    *,
    model: ClockModel = "drifting",
    block: float = 30.0,
    bend_ppm: float = 50.0,
    max_error: float = 0.002,
    others: tuple[np.ndarray, ...] = (),
) -> Times:
    """Times without the jitter of their arrival.

    How many samples were lost at a restart is not known, and none are counted. A phase that no restart and no clock
    explains is the host's clock where another sensor shows it too, and else a latency.

    Args:
        ts: f8 (N,), seconds, increasing; at least one.
        model: "constant" = one rate from restart to restart, "drifting" = one rate for every block.
        block: approximate length of a block, seconds; the blocks of a segment are equally long.
        bend_ppm: largest change of the rate from one block to the next, in millionths.
        max_error: times that can be wrong by more than this are not valid, seconds.
        others: f8 (M,) each, seconds, increasing: recorded times of other sensors by the same host's clock.
    """
    fit = LineFit(model, block, bend_ppm, max_error)
    lines, doubts = _lines(ts, fit)
    late = _largest_latencies(len(lines), own := _latencies(ts, lines, max_error))
    for other in others if late.max() > max_error else ():
        theirs = _latencies(other, _lines(other, fit)[0], max_error, float(np.median(np.diff(ts))))
        late = min(late, _largest_latencies(len(lines), own, theirs), key=np.max)
    error = np.concatenate([line.error + most for line, most in zip(lines, late, strict=True)])
    lines = [line._replace(error=np.empty(0)) for line in lines]
    for low, high in doubts:
        error[low:high] = np.inf
    valid = error <= max_error
    # A few samples that fit a line amid others that do not fit it do so by chance.
    for start, stop in itertools.pairwise([0, *(1 + np.flatnonzero(np.diff(valid))).tolist(), len(ts)]):
        if stop - start < FEWEST <= len(ts):
            valid[start:stop] = False
    smooth = np.concatenate([line.smooth for line in lines])
    smooth[~valid] = ts[~valid]
    _restore_order(smooth, ts, valid)
    error[~valid] = np.inf
    return _joined(lines, smooth, valid, error)


def _lines(ts: np.ndarray, fit: LineFit) -> tuple[list[Line], list[tuple[int, int]]]:
    """The lines of a sensor, and from where to before where its samples can be of either of two rates, or of none."""
    lines, doubts = [], []
    for first, end in itertools.pairwise([0, *jumps(ts).tolist(), len(ts)]):
        changes = rate_changes(ts[first:end], fit.max_error)
        starts = [first, *(first + each.first for each in changes), end]
        for start, stop in itertools.pairwise(starts):
            lines += fit.lines(ts[start:stop])
            if changes and _no_rate(ts, start, stop):
                doubts.append((start, stop))
        doubts += [(first + each.low, first + each.high) for each in changes]
    return lines, doubts


def _latencies(ts: np.ndarray, lines: list[Line], max_error: float, period: float = 0.0) -> tuple[np.ndarray, ...]:
    """Instants, f8 (M,), latencies that grow and step as no clock does, lines, and how often the sensor may have
    restarted: in silences that are long for a sensor of this period too, seconds."""
    known = np.flatnonzero(np.isfinite(np.concatenate([each.error for each in lines])))
    line = np.repeat(np.arange(len(lines)), [len(each.number) for each in lines])[known]
    at = np.concatenate([each.smooth for each in lines])[known]
    number = np.concatenate([each.number for each in lines])[known]
    rate, same = np.array([each.period for each in lines])[line], np.diff(line, prepend=line[:1]) == 0
    passed, count = np.diff(at, prepend=at[:1]), np.diff(known, prepend=known[:1])
    # No sample is lost in just the moment in which the phase steps, but some are where it stays.
    step = passed - np.where(same, np.diff(number, prepend=number[:1]), count) * rate
    off = step - np.round(step / rate) * rate
    step = np.where(np.abs(off) <= STEP * max_error, off, step)
    gap = np.roll(np.maximum.reduceat(np.diff(ts, append=ts[-1]), known), 1) * (count < RATE_WINDOW)
    changed = np.abs(np.diff(rate, prepend=0.0)) > LEAST_CHANGE * rate
    anew = ~same & (changed | (gap >= rate.max(initial=period) + _SILENT_S))
    return at, np.cumsum(step * ~anew * (~same | (np.abs(step) > DRIFT / 2 * passed))), line, np.cumsum(anew)


def _largest_latencies(
    lines: int, own: tuple[np.ndarray, ...], other: tuple[np.ndarray, ...] | None = None
) -> np.ndarray:
    """How late samples of each line can be, f8 (lines,) seconds, but for what another sensor has too."""
    at, late, line, began = own
    if other and len(other[0]):
        apart = FEWEST * np.ptp(other[0]) / len(other[0])
        theirs = np.array([np.interp(at + shift, other[0], other[1]) for shift in (-apart, 0.0, apart)])
        alone = late - theirs + theirs[1, 0]
        late = np.take_along_axis(alone, np.abs(alone).argmin(axis=0)[None], 0)[0]
    most, least = np.zeros(lines), np.full(lines, np.inf)
    np.minimum.at(least, began, late)
    np.maximum.at(most, line, late - least[began])
    return most


def _no_rate(ts: np.ndarray, start: int, stop: int) -> bool:
    """Whether the samples between two changes of the rate tell none: they are few, or they have waited for a host that
    slept, and then came as fast as it could take them."""
    if stop - start < RATE_WINDOW:
        return True
    interval = float(np.median(np.diff(ts[start:stop])))
    return interval < _FAST * float(np.median(np.diff(ts))) and (stop - start) * interval < _TAKING_S


def _joined(lines: list[Line], smooth: np.ndarray, valid: np.ndarray, error: np.ndarray) -> Times:
    """Times of all lines, whose samples are numbered on."""
    longest = max(lines, key=lambda line: len(line.number))
    first = np.cumsum([0, *(line.number[-1] + 1 for line in lines[:-1])])
    return Times(
        smooth,
        np.concatenate([line.number + start for line, start in zip(lines, first, strict=True)]),
        np.repeat(np.arange(len(lines), dtype="i4"), [len(line.number) for line in lines]),
        valid,
        error,
        longest.period,
        longest.drift_ppm,
    )


def _restore_order(smooth: np.ndarray, ts: np.ndarray, valid: np.ndarray) -> None:
    """Take recorded times beside recorded times until all times increase, which recorded ones do."""
    wrong = np.flatnonzero(np.diff(smooth) <= 0)
    while len(wrong):
        both = np.concatenate([wrong, wrong + 1])
        if (smooth[both] == ts[both]).all():
            return  # the recorded times themselves do not increase
        smooth[both], valid[both] = ts[both], False
        wrong = np.flatnonzero(np.diff(smooth) <= 0)
