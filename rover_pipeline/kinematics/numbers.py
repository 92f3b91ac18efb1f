"""Numbers of samples, where lost ones count, from arrivals and the phase of the clock."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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
    told = np.floor(position + EARLY).astype("i8")
    near = alone & (np.abs(position - told) <= _NEAR)
    index = np.flatnonzero(near)
    certain = np.zeros(count, bool)
    if not len(index):
        return Numbers(np.arange(count), certain, near, index, False)
    # Numbers that do not rise are a contradiction: another rate, a repeated sample, arrivals late by a whole period.
    wrong = np.flatnonzero(np.diff(told[index]) <= 0)
    doubtful = np.zeros(len(index), bool)
    for each in wrong.tolist():
        doubtful[max(0, each - _DOUBT) : each + _DOUBT + 2] = True
    keep = np.concatenate([[True], told[index][1:] > np.maximum.accumulate(told[index])[:-1]])
    index, doubtful = index[keep], doubtful[keep]
    left = np.searchsorted(index, np.arange(count), side="right") - 1
    right = np.minimum(left + 1, len(index) - 1)
    left_known, inside = left >= 0, (left >= 0) & (left < len(index) - 1)
    left = np.maximum(left, 0)
    since, room = np.arange(count) - index[left], told[index[right]] - told[index[left]]
    lost = room - (index[right] - index[left])  # numbers without a sample, between the near arrivals on both sides
    least = told[index[left]] + since
    most = np.where(inside, least + np.maximum(lost, 0), np.maximum(told, least))
    number = np.where(known & inside, np.clip(told, least, most), most)
    # Between two near arrivals numbers rise. Repeated samples have no numbers of their own.
    order = (number - least) + left * (2 * count + int(np.ptp(told)))
    number = least + np.maximum.accumulate(order) - left * (2 * count + int(np.ptp(told)))
    number = np.where(inside & (lost < 0), np.minimum(least, told[index[right]]), number)
    # No sample arrives before it is taken, and none before an earlier one: that can leave one number only.
    only = left_known & ((lost == 0) | (np.minimum(most, told) <= least)) & (~inside | (lost >= 0))
    certain = only & ~(doubtful[left] | doubtful[right])
    certain[index] = ~doubtful
    loss = inside[:-1] & (lost[:-1] > 0) & (np.diff(number) > 1)
    near &= np.isin(np.arange(count), index)
    return Numbers(number, certain, near, 1 + np.flatnonzero(loss), bool((inside & (lost < 0)).any()))
