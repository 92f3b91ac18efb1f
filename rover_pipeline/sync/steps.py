"""Virtual sensors of time: `_sync`, and `_lidar_times`, `_radar_times`, `_camera_times`, `_imu_times`."""

from __future__ import annotations

from typing import Any

import numpy as np

from rover_pipeline.clocks.clock import clock
from rover_pipeline.clocks.options import RawSensor, TimesSection
from rover_pipeline.clocks.sampling_times import Times
from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import Inspection
from rover_pipeline.kinematics.stated import time_offsets
from rover_pipeline.numerics.nearest import nearest_samples
from rover_pipeline.sync.options import MatchOptions

#: Length of a recording from which a clock's rate is known to a few millionths, seconds. Tuned: by hand.
_MIN_LENGTH_S = 30.0

_Times = dict[str, np.ndarray]
_Result = tuple[dict[str, np.ndarray], Inspection]


def matched(
    recording: Recording, *, options: MatchOptions, reference: str, times: _Times, config: str | None = None
) -> _Result:
    """The sample of every raw sensor that is nearest in time to each sample of the reference.

    Args:
        recording: of the reference sensor.
        reference: the one of the options, or that which the recording has.
        times: f8 (sample,), seconds, of every raw sensor.
        config: `config.yaml`, whose section `rig` may hold offsets of clocks.

    Returns:
        For every sensor S, including the reference: `S` i4, -1 where no sample is within the tolerance; `S_dt` f4, s,
        time of that sample minus that of the reference, NaN where there is none. And an inspection with residuals.
    """
    clocks = {name: clock(name, ts, options.times, times) for name, ts in times.items()}
    late = time_offsets(times, options.rig, config)
    used = {name: (clocks[name].smooth if options.smoothed else ts) + late[name] for name, ts in times.items()}
    base = used[reference][: recording.count]
    channels, measured = {}, {}
    for name, ts in used.items():
        nearest = nearest_samples(ts, base)
        difference = ts[nearest] - base
        matches = np.abs(difference) <= options.tolerance
        channels[name] = np.where(matches, nearest, -1).astype("i4")
        channels[f"{name}_dt"] = np.where(matches, difference, np.nan).astype("f4")
        measured[name] = {
            "matched": int(matches.sum()),
            "residual_ms": _spread(difference[matches]),
            **_describe_clock(clocks[name], times[name]),
        }
    warnings = [each for name in clocks for each in clocks[name].remarks(name)] if options.smoothed else []
    return channels, Inspection({"reference": reference, "sensors": measured}, warnings)


def corrected_times(recording: Recording, *, sensor: RawSensor, options: TimesSection, beside: _Times) -> _Result:
    """The times at which samples were taken, beside the recorded ones of all; see `clocks.sampling_times`.

    Returns:
        `smooth` f8, s since the Unix epoch; `number` i8, which counts lost samples; `segment` i4, which counts
        restarts; `error` f4, s, largest error of `smooth`, NaN where it is not known; `valid` = 0 where `smooth` is
        what was recorded, because it is not certain when the sample was taken; and an inspection of the clock.
    """
    times = clock(sensor, recording.ts, options, beside)
    measured = {"model": getattr(options, sensor), **_describe_clock(times, recording.ts)}
    channels = {
        "smooth": times.smooth,
        "number": times.number.astype("i8"),
        "segment": times.segment,
        "error": np.where(times.valid, times.error, np.nan).astype("f4"),
        "valid": times.valid.astype("u1"),
    }
    return channels, Inspection(measured, times.remarks(sensor))


def _describe_clock(times: Times, ts: np.ndarray) -> dict[str, Any]:
    """Figures of a clock for provenance."""
    return {
        "samples": len(ts),
        "lost": int(times.number[-1]) + 1 - len(ts),
        "segments": int(times.segment[-1]) + 1,
        "unknown": int((~times.valid).sum()),
        "steady": times.steady,
        "rate_hz": _rounded(1 / times.period, 6),
        "clock_ppm": _rate_error(times.period) if ts[-1] - ts[0] > _MIN_LENGTH_S else None,
        "drift_ppm": _rounded(times.drift_ppm, 2),
        "latency_ms": _spread(ts - times.smooth),
    }


def _rate_error(period: float) -> float | None:
    """Difference of a clock's rate from its nominal rate, in millionths. The nominal rate is assumed to be a whole
    number of samples per second; None when the rate is not near one."""
    rate = 1 / period
    nominal = round(rate) if np.isfinite(rate) else 0
    return _rounded((rate / nominal - 1) * 1e6, 1) if nominal and abs(rate / nominal - 1) < 1e-3 else None


def _spread(seconds: np.ndarray) -> dict[str, float] | None:
    """Percentiles of times, in milliseconds; None when there are no times."""
    if not len(seconds):
        return None
    percentiles = {"least": 0, "p5": 5, "p50": 50, "p95": 95, "most": 100}
    values = np.percentile(seconds * 1e3, [*percentiles.values()])
    return {name: round(float(value), 3) for name, value in zip(percentiles, values, strict=True)}


def _rounded(value: float, digits: int) -> float | None:
    return round(float(value), digits) if np.isfinite(value) else None
