"""The clock: when the samples of a sensor were taken, by the model that the section `sync.times` names for it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, get_args

import numpy as np

from rover_pipeline.clocks.options import RawSensor, TimesSection
from rover_pipeline.lookup import load

if TYPE_CHECKING:
    from rover_pipeline.clocks.sampling_times import Times


def clock(sensor: str, ts: np.ndarray, options: TimesSection, beside: Mapping[str, np.ndarray] | None = None) -> Times:
    """Corrected times of all samples of a sensor.

    Args:
        ts: f8 (N,), as recorded, seconds; the whole recording.
        options: the models. A sensor that they do not name, such as one of the user's own, has a drifting clock.
        beside: recorded times of all sensors, f8 (M,) each: what a host's clock does, all of them show.
    """
    constant = sensor in get_args(RawSensor) and getattr(options, sensor) == "constant"
    each_ts = [ts, *(other for name, other in (beside or {}).items() if name != sensor and len(other) > 1)]
    recorded = tuple(np.ascontiguousarray(each, "<f8").tobytes() for each in each_ts)
    return _estimate(recorded, options.model_copy(update={"block": np.inf}) if constant else options)


def corrected(sensor: str, ts: np.ndarray, recorded: np.ndarray, options: TimesSection) -> np.ndarray:
    """Corrected times of some samples of a sensor, f8 (N,), seconds, which were recorded at `ts`, f8 (N,). `recorded`,
    f8 (M,), are the recorded times of the whole recording."""
    return ts + np.interp(ts, recorded, clock(sensor, recorded, options).best - recorded)


def odometry_clock(odometry: Mapping[str, np.ndarray], options: TimesSection) -> np.ndarray:
    """Corrected times of the states of `_odom`, f8 (N,), seconds: they are those of the lidar's sweeps."""
    return clock("lidar", odometry["ts"], options).best


# Cached, because a step is called for many ranges of frames with the same times.
@functools.lru_cache(maxsize=8)
def _estimate(recorded: tuple[bytes, ...], options: TimesSection) -> Times:
    ts, *others = (np.frombuffer(each, "<f8") for each in recorded)
    # Loaded here, so that no kernels are loaded where no times are asked for.
    times: Times = load("rover_pipeline.clocks.sampling_times:smooth_times")(ts, options, tuple(others))
    return times
