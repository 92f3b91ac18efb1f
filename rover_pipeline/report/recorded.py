"""What was recorded: every sensor's times, gaps, invalid samples and storage. Reads `ts` and `valid`, and no more."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.format.collection import parse_collection
from rover_pipeline.format.info import stored_bytes
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.sensor import TS, VALID, Sensor
from rover_pipeline.format.trace import CONFIG, Trace
from rover_pipeline.report.summary import ChannelSummary, Intervals, SensorSummary
from rover_pipeline.report.times import rhythm

#: Times further than this from the middle of a sensor's are damaged.
_LONGEST_S = 30 * 86400.0
#: The usual sensors, in the order of a page.
STANDARD = ("lidar", "radar", "camera", "imu")


@dataclass(frozen=True)
class Recorded:
    """One sensor, as far as it can be read.

    Attributes:
        ts: its plausible times, rising, f8 (sample,), s.
        valid: u1, (sample,).
        samples: number of each in its channels, (sample,).
        mended: what the reader could make good, as `check` says it.
        cut: what shows that the recording was cut off, as `check` says it.
        sensor: None when `meta.json` cannot be read.
    """

    summary: SensorSummary
    ts: np.ndarray
    valid: np.ndarray
    samples: np.ndarray
    sensor: Sensor | None
    mended: frozenset[str] = frozenset()
    cut: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return self.summary.name

    @property
    def virtual(self) -> bool:
        return self.name.startswith("_")

    @property
    def simulated(self) -> bool:
        """Whether this is the truth that a simulator wrote beside the recording."""
        return self.name == "_truth" or self.name.startswith("_truth_")


def read_sensors(trace: Trace) -> list[Recorded]:
    """All sensors of a trace, raw ones first and of these the usual ones."""
    rates = nominal_rates(trace.path / CONFIG)
    found = trace.sensors()
    names = [name for name in STANDARD if name in found] + [name for name in found if name not in STANDARD]
    return [_read(trace, name, rates.get(name)) for name in names]


def _read(trace: Trace, name: str, nominal: float | None) -> Recorded:
    try:
        sensor = Sensor(trace.path / name)
    except FormatError as error:
        return _unreadable(SensorSummary(name=name, error=_here(trace, error)), None)
    channels, total = [], 0
    mended: list[str] = []
    cut: list[str] = []
    for channel in sensor.specs:
        found = _channel(trace, name, channel, mended, cut)
        channels += [found] if found else []
        total += found.bytes if found else 0
    try:
        raw = sensor.channel(TS).read().astype("f8").reshape(-1)
    except FormatError as error:
        broken = SensorSummary(name=name, error=_here(trace, error), bytes=total, channels=tuple(channels))
        return _unreadable(broken, sensor)
    valid = _valid(sensor, len(raw))
    usable = np.flatnonzero(_plausible(raw))
    samples = usable[np.argsort(raw[usable], kind="stable")]
    ts, valid = raw[samples], valid[samples]
    found_rhythm = rhythm(ts)
    figures: dict[str, Any] = {}
    if found_rhythm:
        figures = {
            "rate_hz": found_rhythm.rate,
            "clock_ppm": 1e6 * (found_rhythm.rate / nominal - 1) if nominal else None,
            "gaps": len(found_rhythm.gaps),
            "lost": found_rhythm.lost,
            "longest_gap_s": float(np.diff(found_rhythm.gaps, axis=1).max(initial=0.0)),
            "intervals": Intervals(
                median_ms=1e3 * found_rhythm.period,
                p95_ms=1e3 * found_rhythm.p95,
                max_ms=1e3 * found_rhythm.largest,
                jitter_ms=1e3 * found_rhythm.jitter,
            ),
        }
    cut += [f"{sensor.path / each.name}: has {each.samples} samples where ts has {len(raw)}" for each in channels]
    summary = SensorSummary(
        name=name,
        samples=len(raw),
        whole=min((each.samples for each in channels), default=0),
        start_s=float(ts[0]) if len(ts) else None,
        end_s=float(ts[-1]) if len(ts) else None,
        nominal_hz=nominal,
        invalid=int((valid == 0).sum()),
        bytes=total,
        channels=tuple(channels),
        **figures,
    )
    told = (frozenset(line.replace(f"{trace.path}/", "") for line in lines) for lines in (mended, cut))
    return Recorded(summary, ts, valid, samples, sensor, *told)


def _unreadable(summary: SensorSummary, sensor: Sensor | None) -> Recorded:
    return Recorded(summary, np.empty(0), np.empty(0, "u1"), np.empty(0, int), sensor)


def _plausible(ts: np.ndarray) -> np.ndarray:
    """Times that can be of one recording, bool (sample,): one that is damaged would stretch pictures over ages."""
    finite = np.isfinite(ts)
    middle = np.median(ts[finite]) if finite.any() else 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        return finite & (np.abs(ts - middle) < _LONGEST_S)


def _channel(trace: Trace, sensor: str, name: str, mended: list[str], cut: list[str]) -> ChannelSummary | None:
    """One channel, with the copy that published traces keep beside their camera; None when it cannot be read."""
    try:
        holder = trace.source(sensor, name)
        channel = holder.channel(name)
        size = stored_bytes(channel.path)
    except (FormatError, OSError):
        return None
    mended += channel.notes
    cut += [f"{channel.path}: {channel.leftover}"] if channel.leftover else []
    spec = channel.spec
    ratio = len(channel) * spec.sample_bytes / size if size else 1.0
    return ChannelSummary(
        name=name, format=spec.format, type=spec.type, shape=spec.shape, samples=len(channel), bytes=size, ratio=ratio
    )


def _valid(sensor: Sensor, count: int) -> np.ndarray:
    """`valid` as far as it can be read, u1 (count,); 1 where nothing says otherwise."""
    valid = np.ones(count, "u1")
    if VALID in sensor.specs:
        try:
            stored = sensor.channel(VALID).read()
        except FormatError:
            return valid
        if stored.ndim == 1:
            valid[: len(stored)] = stored[:count] != 0
    return valid


def nominal_rates(config: Path) -> dict[str, float]:
    """Rates, Hz, that the collection configuration asks for; nothing for a sensor it does not describe."""
    try:
        content = parse_collection(config.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, FormatError):
        return {}
    rates = {}
    for name, section in content.items():
        arguments = section.get("args") if isinstance(section, dict) else None
        if not isinstance(arguments, dict):
            continue
        try:
            if "fps" in arguments:
                rate = float(arguments["fps"])
            elif "mode" in arguments:  # `2048x10`: columns and sweeps a second
                rate = float(str(arguments["mode"]).partition("x")[2])
            else:
                rate = 1e3 / float(arguments["radar"]["frame_period"])
        except (ValueError, TypeError, KeyError, ZeroDivisionError):
            continue
        if 0 < rate < 1e6:
            rates[str(name)] = rate
    return rates


def is_simulated(recorded: list[Recorded]) -> bool:
    """Whether a simulator of ours wrote the recording."""
    truths = [each.sensor.path for each in recorded if each.simulated and each.sensor]
    return any((read_provenance(path) or {}).get("step") == "simulate" for path in truths)


def sidecar(trace: Path, sensor: str) -> dict[str, Any]:
    """The content of `<sensor>/<sensor>.json`; empty when there is none that can be read."""
    try:
        content = json.loads((trace / sensor / f"{sensor}.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _here(trace: Trace, error: Exception) -> str:
    """A message with paths relative to the trace: where a recording lies is nobody's business on a page."""
    return str(error).replace(f"{trace.path}/", "")
