"""How far the sensors' samples are apart in time, from `_sync`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.report.read.sensors import SensorRecord, usual_sensors_first
from rover_pipeline.report.read.timestamps import plausible_or_nan
from rover_pipeline.report.summary import SyncSummary

#: Suffix of the channels of `_sync` with residuals.
_RESIDUAL = "_dt"


class Residuals(NamedTuple):
    """The samples of a sensor nearest to those of the reference.

    Attributes:
        nearest: index of the nearest sample, f8 (frame,), -1 = none within the tolerance.
        seconds: its time after the reference sample, f8 (frame,), s.
    """

    nearest: np.ndarray
    seconds: np.ndarray


def read_residuals(sync: SensorRecord | None, measured: Mapping[str, Any]) -> dict[str, Residuals]:
    """Residuals of every sensor but the reference, whose own are always 0. The usual sensors come first.

    Args:
        measured: what the step measured, from its provenance.
    """
    if sync is None or sync.sensor is None:
        return {}
    names = [name.removesuffix(_RESIDUAL) for name in sync.sensor.specs if name.endswith(_RESIDUAL)]
    residuals = {}
    for name in usual_sensors_first(names):
        nearest, seconds = sync.read(name), sync.read(f"{name}{_RESIDUAL}")
        if name != measured.get("reference") and nearest is not None and seconds is not None:
            residuals[name] = Residuals(nearest, plausible_or_nan(seconds))
    return residuals


def summarise_sync(sensor: str, residuals: Residuals, measured: Mapping[str, Any]) -> SyncSummary:
    """The figures of one sensor, with what the step measured of its clock."""
    matched = residuals.nearest >= 0
    residual_ms = 1e3 * residuals.seconds[matched & np.isfinite(residuals.seconds)]
    figures: dict[str, float] = {}
    if len(residual_ms):
        percentiles = np.percentile(np.abs(residual_ms), (50, 95, 99, 100))
        figures = {"median_ms": float(np.median(residual_ms))}
        figures |= zip(("p50_ms", "p95_ms", "p99_ms", "max_ms"), map(float, percentiles), strict=True)
    clocks = measured.get("sensors")
    clock = clocks.get(sensor) if isinstance(clocks, Mapping) else None
    if isinstance(clock, Mapping):
        latency = clock.get("latency_ms")
        latency_p95 = latency.get("p95") if isinstance(latency, Mapping) else None
        stored = {"drift_ppm": clock.get("drift_ppm"), "latency_p95_ms": latency_p95}
        figures |= {key: float(value) for key, value in stored.items() if isinstance(value, (int, float))}
    return SyncSummary(sensor=sensor, matched=int(matched.sum()), missing=int((~matched).sum()), **figures)
