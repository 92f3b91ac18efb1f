"""The charts of the page of a recording: what of its figures `draw/charts.py` draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rover_pipeline.draw import charts
from rover_pipeline.draw.charts import Curve, Span
from rover_pipeline.draw.figures import Chart
from rover_pipeline.draw.theme import colour_name
from rover_pipeline.report.read.motion import SpeedCurve, Track
from rover_pipeline.report.read.sensors import Residuals, SensorRecord
from rover_pipeline.report.read.timestamps import fit_line, sample_numbers, sensor_intervals

#: Largest number of stripes that mark invalid poses. Layout.
_MAX_STRIPES = 400


def timeline(records: Sequence[SensorRecord], span: Span) -> Chart:
    """When each sensor ran, lost samples and was not valid."""
    ran = [(each.name, sensor_intervals(each.ts, each.valid)) for each in records if len(each.ts)]
    return charts.timeline(ran, span)


def jitter(records: Sequence[SensorRecord], span: Span) -> Chart | None:
    """How far the time stamps of each raw sensor are from a constant rate."""
    curves = []
    for record in records:
        if not record.virtual and len(record.ts) > 2:
            _, residual = fit_line(sample_numbers(record.ts), record.ts)
            curves.append(Curve(f"{record.name}, ms", record.ts, 1e3 * residual, colour_name(record.name)))
    names = ", ".join(curve.title.removesuffix(", ms") for curve in curves)
    label = f"Distance of each sample's time from a constant rate, for {names}"
    return charts.curve_rows("jitter", label, curves, span) if curves else None


def speed(pose: SpeedCurve | None, measured: SpeedCurve | None, max_doppler: float | None, span: Span) -> Chart | None:
    """Speeds by the poses and of `_radar_velocity`, and the largest that does not wrap; None where none is known."""
    curves = []
    if measured is not None:
        curves.append(Curve("speed", measured.ts, measured.speed, "radar", width=4.5, alpha=0.5))
    if pose is not None:
        curves.append(Curve("speed", pose.ts, pose.speed, "lidar", width=1.6))
    known = any(np.isfinite(curve.values).any() for curve in curves)
    return charts.speed(curves, max_doppler, span) if known else None


def quality(track: Track, span: Span) -> Chart | None:
    """The quality channels of the odometry over time; stripes mark invalid poses."""
    intervals = sensor_intervals(track.ts, track.valid.astype("u1"))
    marks = charts.visible_marks(intervals.invalid, intervals.period, span, _MAX_STRIPES)
    curves = [
        Curve(each.name.replace("_", " "), track.ts, each.values, "lidar", width=1.2)
        for each in track.quality
        if np.isfinite(each.values).any()
    ]
    label = "Quality of the odometry over time: " + ", ".join(channel.name for channel in track.quality)
    return charts.curve_rows("quality", label, curves, span, [mark[:2] for mark in marks]) if curves else None


def residuals(residuals: Mapping[str, Residuals], ts: np.ndarray, span: Span) -> Chart:
    """Signed sync residuals of each sensor at the times `ts` of the reference's samples."""
    curves = [
        Curve(f"{name}, ms", ts, np.where(nearest >= 0, 1e3 * seconds, np.nan), colour_name(name))
        for name, (nearest, seconds) in residuals.items()
    ]
    label = "Time from each reference sample to the nearest sample of " + ", ".join(residuals)
    return charts.curve_rows("residuals", label, curves, span)
