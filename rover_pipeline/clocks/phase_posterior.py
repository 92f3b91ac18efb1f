"""The phase of a clock at each of its samples, and how certain it is, from the times at which samples arrived.

The phase is a hidden state on a circle of one period, cut into bins. From sample to sample it stays, drifts to a bin
beside it, or, rarely, is any other, because the sensor restarted or the host's clock was set. Given the phase, an
arrival is late by a latency whose distribution is that of the recording itself. The forward-backward algorithm
(Rabiner, A tutorial on hidden Markov models, Proceedings of the IEEE 77, 1989) gives the probability of every bin at
every sample from all arrivals before and after it. So nobody has to say how many arrivals make a restart: where they
do not decide, the probability is spread over more than one phase.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.blocks import blocks
from rover_pipeline.numerics.compiled import compiled

#: Most bins of a period, and fewest.
_BINS = (16, 4096)
#: Probability that the phase is not within the bounds that are given for it.
CHANCE = 1e-5
#: Probability of a restart between two samples, without and with a missing sample between them.
_RESTART, _RESTART_IN_GAP = 1e-6, 0.01
#: Drift that the phase may have, as a fraction of the time. Clocks differ by up to 1e-4.
_DRIFT = 1e-4
#: Largest probability of a drift by a bin from sample to sample.
_MOST_DRIFT = 0.4
#: Share of arrivals whose latency nothing tells.
_ANY = 0.01
#: Arrivals that are compared with the earliest of them, for the first estimate of the latencies.
_LOCAL = 8
#: Widths of the boxes that latencies are smeared with, in bins: few are rare, and rare ones are of any size near.
_SMEARED = (1, 3, 9, 27, 81)
#: Samples between two states of the forward pass that are kept.
_KEPT = 512


class Phases(NamedTuple):
    """Phases of the clock at M arrivals, as bins of a period.

    Attributes:
        bins: number of bins in a period; width: of a bin, seconds.
        mode: i4 (M,), the most probable bin.
        below, above: i4 (M,), the true bin is at most so many before and after it, but for a chance of `CHANCE`.
    """

    bins: int
    width: float
    mode: np.ndarray
    below: np.ndarray
    above: np.ndarray


def estimate_phases(arrivals: np.ndarray, period: float, resolution: float) -> Phases:
    """Phases of a clock of one nominal rate.

    Args:
        arrivals: f8 (M,), seconds, increasing; M > 0. Those that waited for the host together with a later one tell
            nothing and are left out.
        period: seconds; resolution: largest width of a bin, seconds.
    """
    bins, count = int(np.clip(np.ceil(period / resolution), *_BINS)), len(arrivals)
    width = period / bins
    position, passes = np.empty((2, count), "i4")
    restart, drift = np.empty((2, count))
    for part in blocks(count):
        its = arrivals[part]
        position[part] = np.floor(its / period % 1.0 * bins).astype("i4") % bins
        steps = np.diff(its, prepend=arrivals[max(part.start - 1, 0)])
        drifts = _DRIFT * np.maximum(steps, period) / width
        # Over a long gap the phase drifts by many bins. Where it can be any, the sensor might as well have restarted.
        far = drifts > bins / 8
        restart[part] = np.where(far, 1.0, np.where(steps > 1.5 * period, _RESTART_IN_GAP, _RESTART))
        passes[part] = np.where(far, 1, np.ceil((drifts / _MOST_DRIFT) ** 2).clip(1, None))
        drift[part] = np.minimum(drifts, _MOST_DRIFT)
    late = _local_latencies(arrivals, period)
    for _ in range(2):
        table = _table(late, width, bins)
        mode, below, above = _posterior(position, table, restart, drift, passes, CHANCE)
        late = np.empty(count)
        for part in blocks(count):
            late[part] = (position[part] - mode[part]) % bins * width
    return Phases(bins, width, mode, below, above)


def _local_latencies(arrivals: np.ndarray, period: float) -> np.ndarray:
    """Latencies after the earliest of a few arrivals, f8 (M,) seconds, from 0 to less than a period."""
    count = min(_LOCAL, len(arrivals))
    windows = arrivals[: len(arrivals) // count * count].reshape(-1, count)
    late = np.empty(windows.shape)
    for part in blocks(len(windows)):
        angle = 2 * np.pi / period * (windows[part] - windows[part, :1])
        middle = np.arctan2(np.sin(angle).mean(axis=1), np.cos(angle).mean(axis=1))[:, None]
        around = (angle - middle + np.pi) % (2 * np.pi) - np.pi
        late[part] = (around - around.min(axis=1, keepdims=True)) * period / (2 * np.pi) % period
    return late.ravel()


def _table(late: np.ndarray, width: float, bins: int) -> np.ndarray:
    """Probability of each latency, f8 (bins,), from latencies, f8 (M,) seconds, and the width of a bin. The last bins
    are arrivals before their time."""
    counts = np.zeros(bins)
    for part in blocks(len(late)):
        counts += np.bincount(np.floor(late[part] / width + 0.5).astype("i8") % bins, minlength=bins)
    smeared = np.zeros(bins)
    boxes = [width for width in _SMEARED if width <= bins // 3]
    for width in boxes:
        sums = np.concatenate([[0.0], np.cumsum(np.tile(counts, 3))])
        first = bins + np.arange(bins) - width // 2
        smeared += (sums[first + width] - sums[first]) / width
    smeared += counts.sum() / bins  # the widest box: a few arrivals tell little
    table = smeared / smeared.sum()
    return (1 - _ANY) * table + _ANY / bins


@compiled
def _posterior(
    position: np.ndarray, table: np.ndarray, restart: np.ndarray, drift: np.ndarray, passes: np.ndarray, chance: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The most probable bin of each arrival, and how many bins before and after it are not excluded.

    Args:
        position: i4 (M,), bins of the arrivals; table: f8 (bins,), probability of a latency.
        restart, drift: f8 (M,), probabilities of a restart, and of a drift by a bin, before each arrival.
        passes: i4 (M,), how often the phase drifts before each arrival.
        chance: probability that is not within the bounds.
    """
    count, bins = len(position), len(table)
    mode, below, above = np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count, np.int32)
    kept = np.empty(((count + _KEPT - 1) // _KEPT, bins))
    state, spare = np.full(bins, 1.0 / bins), np.empty(bins)
    for j in range(count):
        if j:
            _move(state, spare, restart[j], drift[j], passes[j])
        _weigh(state, table, position[j])
        if j % _KEPT == 0:
            for k in range(bins):
                kept[j // _KEPT, k] = state[k]
    forward = np.empty((_KEPT, bins))
    after = np.full(bins, 1.0 / bins)  # what the arrivals after a sample say of its phase
    for part in range(len(kept) - 1, -1, -1):
        start, stop = part * _KEPT, min(count, (part + 1) * _KEPT)
        for k in range(bins):
            state[k] = forward[0, k] = kept[part, k]
        for j in range(start + 1, stop):
            _move(state, spare, restart[j], drift[j], passes[j])
            _weigh(state, table, position[j])
            for k in range(bins):
                forward[j - start, k] = state[k]
        for j in range(stop - 1, start - 1, -1):
            if j + 1 < count:
                _weigh(after, table, position[j + 1])
                _move(after, spare, restart[j + 1], drift[j + 1], passes[j + 1])
            total, best = 0.0, 0
            for k in range(bins):
                spare[k] = forward[j - start, k] * after[k]
                total += spare[k]
                if spare[k] > spare[best]:
                    best = k
            left, right = best, best
            outside = total - spare[best]
            while outside > chance * total and right - left < bins - 1:
                if spare[(left - 1) % bins] > spare[(right + 1) % bins]:
                    left -= 1
                    outside -= spare[left % bins]
                else:
                    right += 1
                    outside -= spare[right % bins]
            mode[j], below[j], above[j] = best, best - left, right - best
    return mode, below, above


@compiled
def _weigh(state: np.ndarray, table: np.ndarray, position: int) -> None:
    """Multiply probabilities of phases, f8 (bins,), by that of an arrival, and scale them to a sum of 1."""
    bins, total = len(state), 0.0
    for k in range(bins):
        late = position - k
        state[k] *= table[late + bins if late < 0 else late]
        total += state[k]
    for k in range(bins):
        state[k] /= total


@compiled
def _move(state: np.ndarray, spare: np.ndarray, restart: float, drift: float, passes: int) -> None:
    """Probabilities of phases, f8 (bins,), after a step in which the phase drifts or the sensor restarts."""
    bins, total = len(state), 0.0
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
