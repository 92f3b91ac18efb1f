"""Numbers of samples, where lost ones count, from arrivals and the phase of the clock."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.blocks import blocks

#: An arrival up to this fraction of a period before a sample's expected arrival still belongs to that sample.
EARLY = 0.3
#: An arrival within this fraction of a period of its expected time tells its number.
_NEAR = 0.25
#: Samples on both sides of a contradiction that are in doubt.
_DOUBT = 8


class Numbers(NamedTuple):
    """Numbers of N samples.

    Attributes:
        number: i8 (N,), never falling.
        certain: bool (N,). False where lost or repeated samples leave several numbers possible.
        near: bool (N,), arrivals that are so near to their expected time that they tell their number.
        after_loss: i8 (loss,), the first sample after each loss.
        repeated: whether there are more samples than numbers somewhere.
    """

    number: np.ndarray
    certain: np.ndarray
    near: np.ndarray
    after_loss: np.ndarray
    repeated: bool


def number_samples(position: np.ndarray, known: np.ndarray, alone: np.ndarray) -> Numbers:
    """Number the samples of one line.

    An arrival near its expected time tells its number. Between two of them, as many samples as there are numbers have
    these numbers, however late they arrived. If there are fewer, some were lost, and it is not known which.

    Args:
        position: f8 (N,), arrivals in periods after the first expected time.
        known: bool (N,), samples whose arrival tells the phase of the clock.
        alone: bool (N,), those of them that did not arrive together with others.
    """
    count = len(position)
    told, near = np.empty(count, "i8"), np.empty(count, bool)
    for part in blocks(count):
        told[part] = np.floor(position[part] + EARLY)
        near[part] = alone[part] & (np.abs(position[part] - told[part]) <= _NEAR)
    index = np.flatnonzero(near)
    if not len(index):
        return Numbers(np.arange(count), np.zeros(count, bool), near, index, False)
    index, doubtful = _rising(index, told)
    number, certain, losses = np.empty(count, "i8"), np.empty(count, bool), np.empty(count, bool)
    stride, highest, repeated = 2 * count + int(np.ptp(told)), 0, False
    for part in blocks(count):
        sample, its = np.arange(part.start, part.stop), told[part]
        left = np.searchsorted(index, sample, side="right") - 1
        right = np.minimum(left + 1, len(index) - 1)
        left_known, inside = left >= 0, (left >= 0) & (left < len(index) - 1)
        left = np.maximum(left, 0)
        since, room = sample - index[left], told[index[right]] - told[index[left]]
        lost = room - (index[right] - index[left])  # numbers without a sample, between the near arrivals on both sides
        least = told[index[left]] + since
        most = np.where(inside, least + np.maximum(lost, 0), np.maximum(its, least))
        chosen = np.where(known[part] & inside, np.clip(its, least, most), most)
        # Between two near arrivals numbers rise. Repeated samples have no numbers of their own.
        order = (chosen - least) + left * stride
        order[0] = max(order[0], highest)
        np.maximum.accumulate(order, out=order)
        highest = order[-1]
        chosen = least + order - left * stride
        number[part] = np.where(inside & (lost < 0), np.minimum(least, told[index[right]]), chosen)
        # No sample arrives before it is taken, and none before an earlier one: that can leave one number only.
        only = left_known & ((lost == 0) | (np.minimum(most, its) <= least)) & (~inside | (lost >= 0))
        certain[part] = only & ~(doubtful[left] | doubtful[right])
        losses[part] = inside & (lost > 0)
        repeated |= bool((inside & (lost < 0)).any())
    certain[index] = ~doubtful
    near[:] = False
    near[index] = True
    before = np.flatnonzero(losses[:-1])
    return Numbers(number, certain, near, 1 + before[number[before + 1] - number[before] > 1], repeated)


def _rising(index: np.ndarray, told: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Those arrivals near their expected time whose numbers rise, i8 (n,), and whether they are in doubt, bool (n,).

    Args:
        index: i8 (m,), arrivals near their expected time; told: i8 (N,), the numbers that arrivals tell.
    """
    at = told[index]
    # Numbers that do not rise are a contradiction: another rate, a repeated sample, arrivals late by a whole period.
    doubtful = np.zeros(len(index), bool)
    for each in np.flatnonzero(at[1:] <= at[:-1]).tolist():
        doubtful[max(0, each - _DOUBT) : each + _DOUBT + 2] = True
    keep = np.append(True, at[1:] > np.maximum.accumulate(at)[:-1])
    return index[keep], doubtful[keep]
