"""How well the sensors' samples meet: figures from `_sync`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.report.recorded import STANDARD, Recorded
from rover_pipeline.report.summary import SyncSummary
from rover_pipeline.report.times import drawable

_RESIDUAL = "_dt"


def read_residuals(
    sync: Recorded | None, provenance: Mapping[str, Any] | None = None
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Sensor -> index of its nearest sample, i4 (frame,), -1 = none, and residual, f8 (frame,), s.

    The usual sensors come first; the reference, which is always where it is itself, is left out.
    """
    if sync is None or sync.sensor is None:
        return {}
    specs = sync.sensor.specs
    reference = _measured(provenance).get("reference")
    others = [name.removesuffix(_RESIDUAL) for name in specs if name.endswith(_RESIDUAL)]
    found = {}
    for other in [name for name in STANDARD if name in others] + [name for name in others if name not in STANDARD]:
        if other not in specs or other == reference:
            continue
        index, residual = _read(sync.sensor, other), _read(sync.sensor, f"{other}{_RESIDUAL}")
        if index is not None and residual is not None and len(index) == len(residual) == len(sync.ts):
            found[other] = index, drawable(residual)
    return found


def describe(
    sensor: str, index: np.ndarray, residual: np.ndarray, provenance: Mapping[str, Any] | None = None
) -> SyncSummary:
    """The figures of one sensor, with what the step found out about its clock."""
    matched = index >= 0
    away = 1e3 * residual[matched & np.isfinite(residual)]
    figures: dict[str, float] = {}
    if len(away):
        p50, p95, p99, most = np.percentile(np.abs(away), (50, 95, 99, 100))
        figures = {
            "median_ms": float(np.median(away)), "p50_ms": float(p50), "p95_ms": float(p95), "p99_ms": float(p99),
            "max_ms": float(most),
        }  # fmt: skip
    clocks = _measured(provenance).get("sensors")
    clock = clocks.get(sensor) if isinstance(clocks, Mapping) else None
    if isinstance(clock, Mapping):
        latency = clock.get("latency_ms")
        told = {
            "drift_ppm": clock.get("drift_ppm"),
            "latency_p95_ms": latency.get("p95") if isinstance(latency, Mapping) else None,
        }
        figures |= {key: float(value) for key, value in told.items() if isinstance(value, (int, float))}
    return SyncSummary(sensor=sensor, matched=int(matched.sum()), missing=int((~matched).sum()), **figures)


def _measured(provenance: Mapping[str, Any] | None) -> Mapping[str, Any]:
    found = (provenance or {}).get("measured")
    return found if isinstance(found, Mapping) else {}


def _read(sensor: Sensor, channel: str) -> np.ndarray | None:
    if sensor.specs[channel].shape:
        return None
    try:
        return sensor.channel(channel).read()
    except FormatError:
        return None
