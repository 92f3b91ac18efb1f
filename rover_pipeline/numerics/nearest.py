"""Look-ups in sorted times."""

from __future__ import annotations

from typing import Literal

import numpy as np

#: Which sample of a sensor belongs to an instant: the nearest one, the first one at it or after it, or the last one at
#: it or before it.
Match = Literal["nearest", "next", "previous"]


def matching_samples(times: np.ndarray, ts: np.ndarray, match: Match) -> np.ndarray:
    """Index of the time that belongs to each of `ts`, both f8 seconds and increasing.

    The first time stands for those that are missing before it, and the last one for those after it.
    """
    if match == "nearest":
        return nearest_samples(times, ts)
    found = np.searchsorted(times, ts) if match == "next" else np.searchsorted(times, ts, side="right") - 1
    return np.clip(found, 0, len(times) - 1)


def nearest_samples(times: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """Index of the time nearest to each of `ts`, both f8 seconds and increasing; of two as near the earlier."""
    after = np.clip(np.searchsorted(times, ts), 1, max(1, len(times) - 1))
    before = after - 1
    if len(times) == 1:
        return np.zeros(len(ts), "i8")
    return np.where(ts - times[before] <= times[after] - ts, before, after)
