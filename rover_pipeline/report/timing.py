"""How well the sensors' samples meet: figures from `_sync`."""

from __future__ import annotations

import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.report.recorded import Recorded
from rover_pipeline.report.summary import SyncSummary

_RESIDUAL = "_dt"


def read_residuals(sync: Recorded | None) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Sensor -> index of its nearest sample, i4 (frame,), -1 = none, and residual, f8 (frame,), s."""
    if sync is None or sync.sensor is None:
        return {}
    found = {}
    for name in sync.sensor.specs:
        other = name.removesuffix(_RESIDUAL)
        if name.endswith(_RESIDUAL) and other in sync.sensor.specs:
            index, residual = _read(sync.sensor, other), _read(sync.sensor, name)
            if index is not None and residual is not None and index.shape == residual.shape:
                found[other] = index, residual.astype("f8")
    return found


def describe(sensor: str, index: np.ndarray, residual: np.ndarray) -> SyncSummary:
    """The figures of one sensor."""
    matched = index >= 0
    away = 1e3 * residual[matched & np.isfinite(residual)]
    figures: dict[str, float] = {}
    if len(away):
        p50, p95, p99, most = np.percentile(np.abs(away), (50, 95, 99, 100))
        figures = {
            "median_ms": float(np.median(away)), "p50_ms": float(p50), "p95_ms": float(p95), "p99_ms": float(p99),
            "max_ms": float(most),
        }  # fmt: skip
    return SyncSummary(sensor=sensor, matched=int(matched.sum()), missing=int((~matched).sum()), **figures)


def _read(sensor: Sensor, channel: str) -> np.ndarray | None:
    if sensor.specs[channel].shape:
        return None
    try:
        return sensor.channel(channel).read()
    except FormatError:
        return None
