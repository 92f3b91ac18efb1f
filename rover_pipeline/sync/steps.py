"""Virtual sensors of time: `_sync`, and `_lidar_times`, `_radar_times`, `_camera_times`, `_imu_times`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import numpy as np

from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import Inspection, step
from rover_pipeline.kinematics.clock import clock
from rover_pipeline.kinematics.timestamps import Times
from rover_pipeline.sync.options import Raw, SyncOptions, TimesOptions

#: Seconds of a recording that tells a clock's rate to a few millionths.
_LONG_S = 30.0

_Result = tuple[dict[str, np.ndarray], Inspection]


def _sync_to(reference: Raw) -> Callable[..., _Result]:
    """The step that matches all sensors with one."""

    def matched(recording: Recording, *, options: SyncOptions, times: dict[str, np.ndarray]) -> _Result:
        """The sample of every raw sensor that is nearest in time to each of the reference.

        Args:
            times: f8 (sample,), seconds, of every raw sensor.

        Returns:
            For every sensor S, the reference among them: `S` i4, -1 where none is within the tolerance; `S_dt` f4, s,
            time of that sample minus that of the reference, NaN where there is none. And how well they match.
        """
        from rover_pipeline.engine.inputs import nearest_samples

        clocks = {name: clock(name, ts, options.times) for name, ts in times.items()}
        used = {name: clocks[name].smooth if options.smoothed else ts for name, ts in times.items()}
        base = used[reference][: recording.count]
        channels, measured = {}, {}
        for name, ts in used.items():
            nearest = nearest_samples(ts, base)
            apart = ts[nearest] - base
            found = np.abs(apart) <= options.tolerance
            channels[name] = np.where(found, nearest, -1).astype("i4")
            channels[f"{name}_dt"] = np.where(found, apart, np.nan).astype("f4")
            measured[name] = {
                "matched": int(found.sum()),
                "residual_ms": _spread(apart[found]),
                **_told(clocks[name], times[name]),
            }
        return channels, Inspection({"reference": reference, "sensors": measured})

    matched.__name__ = matched.__qualname__ = f"to_{reference}"
    described = step(
        inputs={"ts": f"{reference}/ts"},
        whole={"times": "*/ts"},
        outputs={
            "*": "{name}: nearest sample of that sensor, -1 = none within the tolerance; with _dt: its time minus that "
            "of the reference, s."
        },
        recording=True,
        version=1,
    )
    return described(matched)


def _times_of(sensor: Raw) -> Callable[..., _Result]:
    """The step that takes the jitter out of one sensor's times."""

    def corrected(recording: Recording, *, options: TimesOptions) -> _Result:
        """When samples were taken; see `rover_pipeline.kinematics.timestamps`.

        Returns:
            `smooth` f8, s since the Unix epoch; `number` i8, which counts lost samples; and what the clock is like.
        """
        times = clock(sensor, recording.ts, options)
        warnings = []
        if not times.steady:
            warnings.append(f"{sensor}/ts follows no steady rate; smooth is what was recorded")
        measured = {"model": getattr(options, sensor), **_told(times, recording.ts)}
        return {"smooth": times.smooth, "number": times.number.astype("i8")}, Inspection(measured, warnings)

    corrected.__name__ = corrected.__qualname__ = f"{sensor}_times"
    described = step(
        inputs={"ts": f"{sensor}/ts"},
        outputs={
            "smooth": "Time of each sample without the jitter of its arrival, seconds since the Unix epoch.",
            "number": "Number of each sample from 0 on, lost ones counted.",
        },
        recording=True,
        version=1,
    )
    return described(corrected)


to_lidar, to_radar, to_camera, to_imu = (_sync_to(name) for name in get_args(Raw))
lidar_times, radar_times, camera_times, imu_times = (_times_of(name) for name in get_args(Raw))


def _told(times: Times, ts: np.ndarray) -> dict[str, Any]:
    """What a clock is like, for provenance."""
    return {
        "samples": len(ts),
        "lost": int(times.number[-1]) + 1 - len(ts),
        "steady": times.steady,
        "rate_hz": _rounded(1 / times.period, 6),
        "clock_ppm": _off_whole(times.period) if ts[-1] - ts[0] > _LONG_S else None,
        "drift_ppm": _rounded(times.drift_ppm, 2),
        "latency_ms": _spread(ts - times.smooth),
    }


def _off_whole(period: float) -> float | None:
    """How much faster than a whole number of samples a second a clock runs, in millionths; None when it is none."""
    rate = 1 / period
    whole = round(rate) if np.isfinite(rate) else 0
    return _rounded((rate / whole - 1) * 1e6, 1) if whole and abs(rate / whole - 1) < 1e-3 else None


def _spread(seconds: np.ndarray) -> dict[str, float] | None:
    """Percentiles of some times, in milliseconds; None of none."""
    if not len(seconds):
        return None
    found = np.percentile(seconds * 1e3, [0, 5, 50, 95, 100])
    return {
        name: round(float(value), 3) for name, value in zip(("least", "p5", "p50", "p95", "most"), found, strict=True)
    }


def _rounded(value: float, digits: int) -> float | None:
    return round(float(value), digits) if np.isfinite(value) else None
