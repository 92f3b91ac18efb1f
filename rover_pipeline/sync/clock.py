"""When the samples of a sensor were taken, by the model that the configuration names for it."""

from __future__ import annotations

import functools
from typing import get_args

import numpy as np

from rover_pipeline.sync.options import Raw, TimesSection
from rover_pipeline.timestamps import Model, Times, smooth_times


def clock(sensor: str, ts: np.ndarray, options: TimesSection) -> Times:
    """Corrected times of all samples of a sensor.

    Args:
        ts: f8 (N,), as recorded, s; the whole recording.
    """
    model: Model = getattr(options, sensor) if sensor in get_args(Raw) else "drifting"
    return _fitted(np.ascontiguousarray(ts, "<f8").tobytes(), model, options.block, options.bend_ppm)


def taken(sensor: str, ts: np.ndarray, every: np.ndarray, options: TimesSection) -> np.ndarray:
    """Corrected times of some of a sensor's samples, f8.

    Args:
        ts: f8 (N,), of the samples, as recorded, s; every: f8 (M,), of the whole recording.
    """
    return ts + np.interp(ts, every, clock(sensor, every, options).smooth - every)


@functools.lru_cache(maxsize=8)
def _fitted(ts: bytes, model: Model, block: float, bend_ppm: float) -> Times:
    # Kept, because a step is called for many ranges of frames with the same times.
    return smooth_times(np.frombuffer(ts, "<f8"), model=model, block=block, bend_ppm=bend_ppm)
