"""How far the sensors' samples are apart in time, from `_sync`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.report.read.sensors import SensorRecord, usual_sensors_first
from rover_pipeline.report.read.timestamps import plausible_or_nan
from rover_pipeline.report.summary import SyncSummary

#: Suffix of the channels of `_sync` with residuals.
_RESIDUAL = "_dt"


class Residuals(NamedTuple):
    """The samples of a sensor nearest to those of the reference.

    Attributes:
        nearest: index of the nearest sample, i4 (frame,), -1 = none within the tolerance.
        seconds: its time after the reference sample, f8 (frame,), s.
    """

    nearest: np.ndarray
    seconds: np.ndarray


def read_residuals(sync: SensorRecord | None, provenance: Mapping[str, Any] | None = None) -> dict[str, Residuals]:
    """Residuals of every sensor but the reference, whose own are always 0. The usual sensors come first."""
    if sync is None or sync.sensor is None:
        return {}
    specs = sync.sensor.specs
    reference = _measured(provenance).get("reference")
    names = [name.removesuffix(_RESIDUAL) for name in specs if name.endswith(_RESIDUAL)]
    residuals = {}
    for name in usual_sensors_first(names):
        if name not in specs or name == reference:
            continue
        nearest, seconds = _read(sync.sensor, name), _read(sync.sensor, f"{name}{_RESIDUAL}")
        if nearest is not None and seconds is not None and len(nearest) == len(seconds) == len(sync.ts):
            residuals[name] = Residuals(nearest, plausible_or_nan(seconds))
    return residuals


def summarise_sync(sensor: str, residuals: Residuals, provenance: Mapping[str, Any] | None = None) -> SyncSummary:
    """The figures of one sensor, with what the step measured of its clock."""
    matched = residuals.nearest >= 0
    residual_ms = 1e3 * residuals.seconds[matched & np.isfinite(residuals.seconds)]
    figures: dict[str, float] = {}
    if len(residual_ms):
        percentiles = np.percentile(np.abs(residual_ms), (50, 95, 99, 100))
        figures = {"median_ms": float(np.median(residual_ms))}
        figures |= zip(("p50_ms", "p95_ms", "p99_ms", "max_ms"), map(float, percentiles), strict=True)
    clocks = _measured(provenance).get("sensors")
    clock = clocks.get(sensor) if isinstance(clocks, Mapping) else None
    if isinstance(clock, Mapping):
        latency = clock.get("latency_ms")
        measured = {
            "drift_ppm": clock.get("drift_ppm"),
            "latency_p95_ms": latency.get("p95") if isinstance(latency, Mapping) else None,
        }
        figures |= {key: float(value) for key, value in measured.items() if isinstance(value, (int, float))}
    return SyncSummary(sensor=sensor, matched=int(matched.sum()), missing=int((~matched).sum()), **figures)


def _measured(provenance: Mapping[str, Any] | None) -> Mapping[str, Any]:
    measured = (provenance or {}).get("measured")
    return measured if isinstance(measured, Mapping) else {}


def _read(sensor: Sensor, channel: str) -> np.ndarray | None:
    if sensor.specs[channel].shape:
        return None
    try:
        return sensor.channel(channel).read()
    except FormatError:
        return None
