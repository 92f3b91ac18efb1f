"""The phase of a clock at each of its samples, and how certain it is, from the times at which samples arrived.

The phase is a hidden state on a circle of one period, cut into bins. From sample to sample it stays, drifts to a bin
beside it, or, rarely, is any other, because the sensor restarted or the host's clock was set. Given the phase, an
arrival is late by a latency whose distribution is that of the recording itself. The forward-backward algorithm
(Rabiner, A tutorial on hidden Markov models, Proceedings of the IEEE 77, 1989) gives the probability of every bin at
every sample from all arrivals before and after it. So no threshold says how many arrivals make a restart: where they
do not decide, the probability is spread over more than one phase.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy import ndimage
from scipy.special import chdtri

from rover_pipeline.clocks.tuning import TUNING
from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.numerics.robust import FALSE_ALARM, HUBER, MAD_TO_SD

# The rate of a sensor: its typical period, and where it changes.

#: Standard deviations within which the mean of random errors is. Noise: normal distribution, 99.7 %.
RANDOM_SDS = 3.0
#: Maximum difference of the rates of two clocks, or of one at two times: a larger one hides restarts.
#: Noise: data sheets of crystals, which keep within 100 ppm.
DRIFT = 1e-4
#: Number of times that the line is fitted. Schedule.
_FITS = 10


def last_of_bursts(ts: np.ndarray, period: float) -> np.ndarray:
    """Which arrivals show when a sample was taken, bool (N,): the last ones of those that come together.

    Samples that come within a quarter of a period have waited for the host together, and all but the last one are late
    by whole periods.
    """
    return np.append(np.diff(ts) >= 0.25 * period, True)


def typical_period(ts: np.ndarray) -> tuple[float, bool]:
    """The sampling period, seconds, and whether the intervals of arrivals `ts`, f8 (N,), seconds, increasing, N > 1,
    are regular enough for one."""
    steps = np.diff(ts)
    period = float(np.quantile(steps, 0.5, method="lower"))
    # Where most samples come together with others, the typical interval is not the period. The longest are breaks.
    mean = float(steps[steps <= np.quantile(steps, 0.9)].mean())
    # An interval errs by the latencies of two arrivals.
    irregular = np.quantile(np.abs(steps - period), 0.5, method="lower") > np.sqrt(2) * TUNING.near * period
    if irregular or period < mean / 2:
        return float((ts[-1] - ts[0]) / len(steps)), False
    return float(_refined(ts, np.array(period), max(1, len(ts) // 16))), True


def steady_times(ts: np.ndarray) -> np.ndarray | None:
    """The times of the one rate that arrivals keep to, f8 (N,), seconds; None where they keep to none.

    They keep to one rate if their residuals are independent, as jitter is. A phase that changes or a rate that drifts
    makes neighbours alike (J. von Neumann, Distribution of the ratio of the mean square successive difference to the
    variance, Annals of Mathematical Statistics 1941).

    Args:
        ts: f8 (N,), arrivals, seconds, increasing.
    """
    if len(ts) < (2 * RANDOM_SDS) ** 2:  # of which random residuals can be as alike as those of a drift
        return None
    period, regular = typical_period(ts)
    stop, since = min(len(ts), TUNING.rate_window), ts - ts[0]
    if not regular or (found := _strongest_rate(since[:stop], period)) is None:
        return None
    period, first = found
    line, limit = since, 0.0
    while stop:
        for _ in range(2):  # the second time with numbers by the first line
            number = np.round((since[:stop] - first) / period)
            # Of two samples with one number, the earlier one is later than jitter usually is: its number is the lower.
            number = np.minimum.accumulate((number - np.arange(stop))[::-1])[::-1] + np.arange(stop)
            period, first, limit = _line(number, since[:stop])
            line = first + period * number
        # The line through so many samples numbers as many after them.
        stop = min(len(ts), 2 * stop) if stop < len(ts) else 0
    jitter = np.clip(since - line, -2 * limit, 2 * limit)
    jitter -= jitter.mean()
    ratio = (np.diff(jitter) ** 2).sum() / max((jitter**2).sum(), 1e-24)
    if period <= 0 or ratio < 2 - RANDOM_SDS * 2 / np.sqrt(len(ts)):
        return None
    steady: np.ndarray = ts[0] + line
    return steady


def _strongest_rate(since: np.ndarray, period: float) -> tuple[float, float] | None:
    """The period and the phase of the rate at which arrivals are most alike, seconds; None if noise explains it.

    It is the largest value of their periodogram, which needs no numbers of samples, so that neither losses nor jitter
    of a quarter of a period confuse it (I. V. L. Clarkson, Approximate maximum-likelihood period estimation from
    sparse, noisy timing data, IEEE Transactions on Signal Processing 56, 2008).

    Args:
        since: f8 (N,), arrivals, seconds since the first; period: seconds, of which it may be 2/3 to 3/2, so that it
            is no multiple or fraction.
    """
    rates = np.arange(2 / 3, 3 / 2, period / (8 * since[-1])) / period
    means = np.exp(-2j * np.pi * rates[:, None] * since).mean(axis=1)
    best = int(np.argmax(np.abs(means)))
    # Noise alone makes the largest of so many independent values so large.
    independent = since[-1] * (rates[-1] - rates[0])
    if len(since) * np.abs(means[best]) ** 2 < RANDOM_SDS**2 / 2 + np.log(independent):
        return None
    return float(1 / rates[best]), float(-np.angle(means[best]) / (2 * np.pi * rates[best]))


def _line(number: np.ndarray, since: np.ndarray) -> tuple[float, float, float]:
    """The line through most arrivals: its slope, seconds per number, its value at number 0, seconds, and the residual
    beyond which arrivals have less weight, seconds.

    Args:
        number: f8 (N,), of the samples; since: f8 (N,), arrivals, seconds.
    """
    weight = np.ones(len(since))
    for _ in range(_FITS):
        total = weight.sum()
        middle, mean = (weight * number).sum() / total, (weight * since).sum() / total
        rate = (weight * (number - middle) * (since - mean)).sum() / (weight * (number - middle) ** 2).sum()
        first = mean - rate * middle
        size = np.abs(since - first - rate * number)
        limit = HUBER * np.median(size) + 1e-9
        weight = limit / np.maximum(size, limit)
    return float(rate), float(first), float(limit)


def rate_changes(ts: np.ndarray, max_error: float) -> list[tuple[int, int, int]]:
    """Where the rate of samples changes: the first sample of the other rate, and from where to before where samples can
    be of either rate.

    Args:
        ts: f8 (N,), arrivals, seconds, increasing; max_error: largest error of a time, seconds.
    """
    window = TUNING.rate_window
    if len(ts) < 3 * window:
        return []
    hop = window // 2  # windows overlap by a half
    windows = sliding_window_view(ts, window)[::hop]
    periods = np.quantile(np.diff(windows, axis=1), 0.5, axis=1, method="lower")
    if (periods <= 0).any():
        return []
    periods = _refined(windows, periods, hop)
    change = np.abs(np.log(periods[2:] / periods[:-2]))
    # What moves the phase by less than twice the largest error within half a window is a drift of the phase.
    moved = 2 * max_error / (hop * float(np.median(periods)))
    jitter = MAD_TO_SD * float(np.median(change) * np.sqrt(chdtri(1, FALSE_ALARM / len(change))))
    limit = max(jitter, TUNING.min_rate_change, moved)
    found: list[tuple[int, int, int]] = []
    over = np.flatnonzero(change > limit)
    for group in np.split(over, np.flatnonzero(np.diff(over) > 2) + 1):
        if not len(group):
            continue
        # The windows before and after are of the two rates; between them the intervals show which is whose.
        start, stop = int(group[0]) * hop, min(int(group[-1]) * hop + 2 * window, len(ts))
        before, after = periods[group[0]], periods[group[-1] + 2]
        if abs(np.log(after / before)) <= limit:
            continue  # a change of the phase only, in the windows between
        steps = np.diff(ts[start:stop])
        costs = [
            np.minimum(np.abs(steps / each - np.maximum(np.round(steps / each), 1)) * each, before)
            for each in (before, after)
        ]
        total = np.concatenate([[0], np.cumsum(costs[0] - costs[1])])
        # Single intervals show a change by more than five per cent. A smaller one begins at the longest interval.
        large = abs(np.log(after / before)) > 0.05
        first = start + 1 + int(np.argmin(total) if large else np.argmax(steps))
        found.append((min(first, len(ts) - 1), max(start - hop, 0), stop))
    # Of changes so near to one another that their windows overlap, the first is taken.
    return [each for i, each in enumerate(found) if i == 0 or each[0] > found[i - 1][0]]


def _refined(ts: np.ndarray, period: np.ndarray, longest: int) -> np.ndarray:
    """Periods of rows of arrivals from intervals of up to `longest` samples, f8 (...), seconds.

    Jitter is a smaller part of a longer interval. The last estimate gives the number of periods in it.

    Args:
        ts: f8 (..., N), seconds; period: f8 (...), first estimates, seconds.
    """
    stride = 1
    while stride <= longest:
        intervals = ts[..., stride:] - ts[..., :-stride]
        period = np.median(intervals / np.maximum(np.round(intervals / period[..., None]), 1), axis=-1)
        stride *= 2
    return np.asarray(period)


# Compiled functions use these.
_OUTSIDE = TUNING.outside
_RESTART, _RESTART_IN_GAP = TUNING.restart, TUNING.restart_in_gap


class PhasePosterior(NamedTuple):
    """Phases of the clock at M arrivals, as bins of a period."""

    bins: int  #: number of bins in a period.
    width: float  #: of a bin, seconds.
    mode: np.ndarray  #: i4 (M,), the most probable bin.
    below: np.ndarray
    above: np.ndarray


def estimate_phases(arrivals: np.ndarray, period: float, resolution: float) -> PhasePosterior:
    """Phases of a clock of one nominal rate.

    Args:
        arrivals: f8 (M,), seconds, increasing; M > 0. Those that waited for the host together with a later one do not
            depend on the phase and are left out.
        period: seconds; resolution: largest width of a bin, seconds.
    """
    bins = int(np.clip(np.ceil(period / resolution), *TUNING.bins))
    width = period / bins
    position = np.floor(arrivals / period % 1.0 * bins).astype("i4") % bins
    latency = _local_latencies(arrivals, period)
    for _ in range(2):  # the second time with the latencies after the phases of the first
        probability = _latency_distribution(latency, width, bins)
        mode, below, above = _posterior(arrivals, position, probability, period)
        latency = (position - mode) % bins * width
    return PhasePosterior(bins, width, mode, below, above)


def _local_latencies(arrivals: np.ndarray, period: float) -> np.ndarray:
    """Latencies after the earliest of eight arrivals, f8 (M,) seconds, from 0 to less than a period."""
    count = min(8, len(arrivals))
    windows = arrivals[: len(arrivals) // count * count].reshape(-1, count)
    angle = 2 * np.pi / period * (windows - windows[:, :1])
    middle = np.arctan2(np.sin(angle).mean(axis=1), np.cos(angle).mean(axis=1))[:, None]
    around = (angle - middle + np.pi) % (2 * np.pi) - np.pi
    return ((around - around.min(axis=1, keepdims=True)) * period / (2 * np.pi) % period).ravel()


def _latency_distribution(latency: np.ndarray, width: float, bins: int) -> np.ndarray:
    """Probability of each latency, f8 (bins,), from latencies, f8 (M,) seconds, and the width of a bin. The last bins
    are arrivals before their time."""
    counts = np.bincount(np.floor(latency / width + 0.5).astype("i8") % bins, minlength=bins).astype("f8")
    # Few arrivals are very late. Boxes of several widths keep the peak, and give a latency near a rare one a share.
    boxes = [box for box in 3 ** np.arange(5) if box <= bins // 3]
    smooth = sum(ndimage.uniform_filter1d(counts, box, mode="wrap") for box in boxes) + counts.mean()
    return np.asarray((1 - TUNING.uniform) * smooth / smooth.sum() + TUNING.uniform / bins)


@compiled
def _posterior(
    arrivals: np.ndarray, position: np.ndarray, probability: np.ndarray, period: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The most probable bin of each arrival, and how many bins before and after it are not excluded, i4 (M,) each.

    Args:
        arrivals: f8 (M,), seconds; position: i4 (M,), their bins; period: seconds.
        probability: f8 (bins,), of each latency.
    """
    count, bins = len(position), len(probability)
    mode, below, above = np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count, np.int32)
    # Only every n-th state of the forward pass is kept; those between two of them are computed again.
    stride = int(np.sqrt(count)) + 1
    kept, forward = np.empty(((count + stride - 1) // stride, bins)), np.empty((stride, bins))
    state, spare, after = np.full(bins, 1.0 / bins), np.empty(bins), np.full(bins, 1.0 / bins)
    for j in range(count):
        if j:
            _transition(state, spare, arrivals[j] - arrivals[j - 1], period)
        _observe(state, probability, position[j])
        if j % stride == 0:
            for k in range(bins):
                kept[j // stride, k] = state[k]
    for part in range(len(kept) - 1, -1, -1):
        start, stop = part * stride, min(count, (part + 1) * stride)
        for k in range(bins):
            state[k] = forward[0, k] = kept[part, k]
        for j in range(start + 1, stop):
            _transition(state, spare, arrivals[j] - arrivals[j - 1], period)
            _observe(state, probability, position[j])
            for k in range(bins):
                forward[j - start, k] = state[k]
        for j in range(stop - 1, start - 1, -1):
            if j + 1 < count:  # `after` is what the arrivals after a sample say of its phase
                _observe(after, probability, position[j + 1])
                _transition(after, spare, arrivals[j + 1] - arrivals[j], period)
            total, best = 0.0, 0
            for k in range(bins):
                spare[k] = forward[j - start, k] * after[k]
                total += spare[k]
                if spare[k] > spare[best]:
                    best = k
            left, right = best, best
            outside = total - spare[best]
            while outside > _OUTSIDE * total and right - left < bins - 1:
                if spare[(left - 1) % bins] > spare[(right + 1) % bins]:
                    left -= 1
                    outside -= spare[left % bins]
                else:
                    right += 1
                    outside -= spare[right % bins]
            mode[j], below[j], above[j] = best, best - left, right - best
    return mode, below, above


@compiled
def _observe(state: np.ndarray, probability: np.ndarray, position: int) -> None:
    """Multiply probabilities of phases, f8 (bins,), by that of an arrival, and scale them to a sum of 1."""
    bins, total = len(state), 0.0
    for k in range(bins):
        latency = position - k
        state[k] *= probability[latency + bins if latency < 0 else latency]
        total += state[k]
    for k in range(bins):
        state[k] /= total


@compiled
def _transition(state: np.ndarray, spare: np.ndarray, interval: float, period: float) -> None:
    """Probabilities of phases, f8 (bins,), after an interval, seconds, in which the phase drifts or the sensor
    restarts."""
    bins, total = len(state), 0.0
    drift = DRIFT * max(interval, period) / (period / bins)
    restart = _RESTART_IN_GAP if interval > 1.5 * period else _RESTART
    # Over a long gap the phase drifts by many bins. Where it can be any, the sensor might as well have restarted.
    if drift > bins / 8:
        restart, drift = 1.0, 0.0
    # A diffusion by many bins is computed in passes, each of which moves at most 0.4 to the bins beside.
    passes = max(1, int(np.ceil((drift / 0.4) * (drift / 0.4))))
    drift = min(drift, 0.4)
    for _ in range(passes):
        for k in range(bins):
            left, right = state[k - 1 if k else bins - 1], state[k + 1 if k < bins - 1 else 0]
            spare[k] = state[k] + drift / 2 * (left - 2 * state[k] + right)
        for k in range(bins):
            state[k] = spare[k]
    for k in range(bins):
        total += state[k]
    for k in range(bins):
        state[k] = (1 - restart) * state[k] + restart * total / bins
