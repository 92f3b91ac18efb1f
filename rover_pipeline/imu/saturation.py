"""Samples of an IMU that are at the limit of its range: the motion was faster, or harder, than it measures."""

from __future__ import annotations

import numpy as np
from scipy.special import pdtrc

from rover_pipeline.kinematics.mounts import FALSE_ALARM


def at_limit(values: np.ndarray) -> np.ndarray:
    """Which samples are at a limit of the range along each axis, bool (N, 3).

    A limit is not known: data sheets allow several, and drivers set them. But all motion beyond it gets one value, the
    largest one. A smooth motion within the range is near its largest value, too: within one step of the converter for
    the square root of a time, within two for that of twice the time. So up to 1 / (sqrt(2) - 1) times as many samples
    have the largest value as the next one. Where significantly more have it, it is a limit. A value that half of the
    samples have is that of rest.

    Args:
        values: (N, 3), of one sensor, as recorded.
    """
    found = np.zeros(values.shape, bool)
    for axis, own in enumerate(values.T):
        for sign in (1, -1):
            steps, counts = np.unique(sign * own[np.isfinite(own)], return_counts=True)
            if len(steps) < 2 or 2 * counts[-1] > counts.sum():
                continue
            expected = (counts[-2] + 1) / (np.sqrt(2) - 1)
            if pdtrc(counts[-1] - 1, expected) < FALSE_ALARM:
                found[:, axis] |= sign * own == steps[-1]
    return found
