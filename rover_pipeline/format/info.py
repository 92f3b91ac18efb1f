"""Description of a trace: sensors, channels, counts, rates, durations, sizes and gaps."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.errors import FormatError, RoverError, counted, describe, short_text
from rover_pipeline.format.channels import Channel
from rover_pipeline.format.files import exists
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import PROVENANCE, read_provenance
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.trace import Trace, require_trace

#: Samples were lost in an interval longer than this many periods, as the published reader counts dropped scans. Layout.
GAP_PERIODS = 1.55


def trace_info(path: Path) -> dict[str, Any]:
    """A description of a trace for JSON. A sensor or channel that cannot be read is described by the error."""
    trace = Trace(require_trace(path))
    sensors = {name: _sensor_info(trace.path / name) for name in trace.sensors()}
    products = {name: _product_info(path / name) for name in _products(path)}
    raw = [each for name, each in sensors.items() if not name.startswith("_") and each.get("samples")]
    start = min((each["start_s"] for each in raw), default=None)
    return {
        "trace": str(path),
        "start_s": start,
        "duration_s": max(each["start_s"] + each["duration_s"] for each in raw) - start if raw else None,
        "bytes": sum(each.get("bytes", 0) for each in (*sensors.values(), *products.values())),
        "sensors": sensors,
        "products": products,
    }


def as_text(info: dict[str, Any]) -> str:
    """The description as a table with a line for each sensor and an indented line for each channel."""
    lines = [f"{info['trace']}: {size_text(info['bytes'])}"]
    if info["start_s"] is not None:
        lines[0] += f", {info['duration_s']:.2f} s from {_date(info['start_s'])}"
    for name, sensor in info["sensors"].items():
        if "error" in sensor:
            lines.append(f"  {name:24} {sensor['error']}")
            continue
        parts = [counted(sensor["samples"], "sample")]
        if sensor["rate_hz"]:
            parts += [f"{sensor['duration_s']:.2f} s", f"{sensor['rate_hz']:.2f} Hz"]
        if sensor["gaps"]:
            parts.append(f"{counted(sensor['gaps'], 'gap')}, longest {sensor['longest_gap_s']:.3f} s")
        if sensor["invalid"]:
            parts.append(f"{sensor['invalid']} invalid")
        parts.append(size_text(sensor["bytes"]))
        if sensor["made_by"]:
            parts.append(sensor["made_by"])
        lines.append(f"  {name:24} {', '.join(parts)}")
        for channel, entry in sensor["channels"].items():
            details = entry.get("error") or (
                f"{entry['format']:5} {entry['type']:3} {entry['shape']!s:20} "
                f"{entry['samples']:>8} samples {size_text(entry['bytes']):>10}"
                + (f", compressed {entry['ratio']:.1f}x" if entry["ratio"] > 1.01 else "")
            )
            lines.append(f"    {channel:22} {details}")
    for name, product in info["products"].items():
        made_by = product["made_by"]
        lines.append(f"  {name:24} {size_text(product['bytes'])}{f', {made_by}' if made_by else ''}")
        lines += [f"    {file:22} {size_text(size):>10}" for file, size in product["files"].items()]
    return "\n".join(lines)


def size_text(size: float) -> str:
    """A number of bytes with its unit, such as 12.3 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def stored_bytes(path: Path) -> int:
    """Bytes of a channel: of its file, or of the files in its folder."""
    if path.is_dir():
        with os.scandir(path) as entries:
            return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
    return path.stat().st_size if path.exists() else 0  # a link to nothing holds nothing


def _date(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):  # the clock was never set, or does not count seconds
        return f"{seconds} s"


def _sensor_info(path: Path) -> dict[str, Any]:
    try:
        sensor = Sensor(path)
        ts = sensor.recorded_times()
    except (FormatError, OSError) as error:
        return {"error": describe(error)}
    duration = float(ts[-1] - ts[0]) if len(ts) > 1 else 0.0
    intervals = np.diff(ts)
    gaps = intervals[intervals > GAP_PERIODS * np.median(intervals)] if len(intervals) else intervals
    channels: dict[str, dict[str, Any]] = {}
    for name in sensor.specs:
        try:
            channels[name] = channel_info(sensor.channel(name))
        except (FormatError, OSError) as error:
            channels[name] = {"error": describe(error)}
    try:
        invalid = int((sensor.valid(len(ts)) == 0).sum())
    except FormatError:
        invalid = 0
    return {
        "samples": len(ts),
        "start_s": float(ts[0]) if len(ts) else None,
        "duration_s": duration,
        "rate_hz": (len(ts) - 1) / duration if duration > 0 else None,
        "gaps": len(gaps),
        "longest_gap_s": float(gaps.max(initial=0.0)),
        "invalid": invalid,
        "bytes": sum(channel.get("bytes", 0) for channel in channels.values()),
        "made_by": _made_by(path),
        "channels": channels,
    }


def _made_by(path: Path) -> str | None:
    """The step that made one of our results; None for other sensors."""
    try:
        provenance = read_provenance(path)
    except RoverError as error:
        return f"unknown: {error}"
    if not provenance or "step" not in provenance:
        return None
    return f"{short_text(provenance['step'])} version {short_text(provenance.get('version', '?'))}"


def _products(path: Path) -> list[str]:
    """Our results that are folders of files and not sensors."""
    names = sorted(entry.name for entry in os.scandir(path) if entry.name.startswith("_"))
    folders = [name for name in names if os.path.isdir(path / name)]
    return [name for name in folders if not exists(path / name / META) and _made_by(path / name)]


def _product_info(path: Path) -> dict[str, Any]:
    names = sorted(entry.name for entry in os.scandir(path) if not entry.name.startswith((".", PROVENANCE)))
    files = {name: stored_bytes(path / name) for name in names}
    return {"bytes": sum(files.values()), "made_by": _made_by(path), "files": files}


def channel_info(channel: Channel) -> dict[str, Any]:
    """Description of a channel, its number of samples, bytes on disk and compression ratio."""
    spec, samples, size = channel.spec, len(channel), stored_bytes(channel.path)
    return {
        "format": spec.format,
        "type": spec.type,
        "shape": list(spec.shape),
        "desc": spec.desc or spec.description,
        "samples": samples,
        "bytes": size,
        "ratio": samples * spec.sample_bytes / size if size else 1.0,
    }
