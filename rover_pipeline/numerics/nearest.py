"""Look-ups in sorted times."""

from __future__ import annotations

import numpy as np


def nearest_samples(times: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """Index of the time nearest to each of `ts`, both f8 seconds and increasing; of two as near the earlier."""
    after = np.clip(np.searchsorted(times, ts), 1, max(1, len(times) - 1))
    before = after - 1
    if len(times) == 1:
        return np.zeros(len(ts), "i8")
    return np.where(ts - times[before] <= times[after] - ts, before, after)
