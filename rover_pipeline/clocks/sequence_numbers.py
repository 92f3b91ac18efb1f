"""Sequence numbers of samples, in which lost samples count, from their arrivals and the phase of the clock."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.clocks.tuning import TUNING


class SequenceNumbers(NamedTuple):
    """Sequence numbers of N samples.

    Attributes:
        number: i8 (N,), never falling.
        certain: bool (N,). False where lost or repeated samples leave several numbers possible.
        near: bool (N,), arrivals that are so near to their expected time that they identify their number.
        after_loss: i8 (loss,), the first sample after each loss.
        repeated: whether there are more samples than numbers somewhere.
    """

    number: np.ndarray
    certain: np.ndarray
    near: np.ndarray
    after_loss: np.ndarray
    repeated: bool


def number_samples(position: np.ndarray, known: np.ndarray, alone: np.ndarray) -> SequenceNumbers:
    """Number the samples of one segment.

    An arrival near its expected time identifies its number. Between two of them, as many samples as there are numbers
    have these numbers, however late they arrived. If there are fewer, some were lost, and it is not known which.

    Args:
        position: f8 (N,), arrivals in periods after the first expected time.
        known: bool (N,), samples whose arrival shows the phase of the clock.
        alone: bool (N,), those of them that did not arrive together with others.
    """
    number = np.floor(position + TUNING.early).astype("i8")
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
