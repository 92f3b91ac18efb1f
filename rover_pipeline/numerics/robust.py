"""Robust statistics."""

from __future__ import annotations

import numpy as np
from scipy.special import pdtrc

#: Standard deviation over median absolute deviation: 1 / Phi^-1(3/4), to four decimals. Noise: normal distribution.
MAD_TO_SD = 1.4826
#: Size of a residual, in medians of all, from which it weighs less (Huber's function): 1.345 standard deviations, with
#: an efficiency of 95 %. Noise: normal distribution.
HUBER = 2.0
#: Share of the true that a test calls false: the one rate of false alarms. Noise: chi square.
FALSE_ALARM = 2e-3


def huber(size: np.ndarray, usual: float | np.ndarray) -> np.ndarray:
    """Weights of residuals by their sizes, f8 (N,), not negative, and the median of these."""
    return np.asarray(1 / np.maximum(1.0, size / np.maximum(HUBER * usual, 1e-12)))


def is_limit(count: int, beside: int) -> bool:
    """Whether significantly more samples have the largest value than a smooth signal explains, by those that have the
    next one.

    A signal within the range of its sensor is near its largest value within one step of the converter for the square
    root of a time, and within two steps for that of twice the time. So up to 1 / (sqrt(2) - 1) times as many samples
    have the largest value as the next one. All that is beyond the range gets the largest value too.
    """
    return bool(pdtrc(count - 1, (beside + 1) / (np.sqrt(2) - 1)) < FALSE_ALARM)
