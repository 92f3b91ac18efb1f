"""The step of values that were quantised, such as the speeds that a radar reads off its Doppler bins."""

from __future__ import annotations

import numpy as np

#: Largest distance of a value from a multiple of the step, in steps: sensors send rounded numbers.
_TOLERANCE = 0.05
#: Measurements for each different value, below which values need not be quantised at all.
_REPEATED = 3
#: Two values are the same when they differ by less than this share of the largest one: they have 24 bits.
_EQUAL = 1e-5


def bin_size(values: np.ndarray, measurements: int) -> float | None:
    """The step that all values are multiples of; None if they are not quantised, or too few to tell.

    Args:
        values: f8 (N,), the different values among the measurements, at least zero.
        measurements: how many measurements they come from.
    """
    values = np.unique(np.asarray(values, "f8"))
    values = values[values > _EQUAL * values.max(initial=0.0)]
    if len(values) < 2 or measurements < _REPEATED * len(values):
        return None
    steps = np.diff(values, prepend=0.0)
    step = float(steps[steps > _EQUAL * values[-1]].min())
    # The largest values tell the step best, but only once it is known how many steps they are.
    for most in (4, 32, 256, np.inf):
        near = values[values <= most * step]
        number = np.round(near / step)
        if len(near):
            step = float((near * number).sum() / (number**2).sum())
    off = np.abs(values / step - np.round(values / step))
    return step if off.max() <= _TOLERANCE else None
