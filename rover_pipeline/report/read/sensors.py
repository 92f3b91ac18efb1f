"""Every sensor's time stamps, rate, jitter, gaps, invalid samples and storage. Of samples, `ts` and `valid` are read.

`_sync` says how far the samples of sensors are apart in time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.draw.charts import Intervals
from rover_pipeline.errors import FormatError, counted, require_damage, unless_damaged
from rover_pipeline.format.info import GAP_PERIODS, channel_info
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.rig import TYPES, Rig
from rover_pipeline.format.sensor import VALID, Sensor
from rover_pipeline.format.texts import parse_collection, read_json, read_text
from rover_pipeline.format.trace import CONFIG, Trace
from rover_pipeline.report.summary import ChannelSummary, SensorSummary, SyncSummary
from rover_pipeline.report.summary import Intervals as IntervalFigures
from rover_pipeline.report.tuning import TUNING
from rover_pipeline.validation.rig import is_plausible, section


def timing_figures(ts: np.ndarray, nominal_hz: float | None) -> dict[str, Any]:
    """Fields of `SensorSummary` about rate, gaps and jitter of ascending time stamps, f8 (sample,), s; none for fewer
    than three samples and for equal times."""
    intervals = np.diff(ts)
    period = float(np.median(intervals)) if len(ts) > 2 else 0.0
    if period <= 0:
        return {}
    is_gap = find_gaps(intervals)
    deviation = np.abs(intervals[~is_gap] - period)
    slope, residual = fit_line(ts)
    rate = 1 / slope
    return {
        "rate_hz": rate,
        "clock_ppm": 1e6 * (rate / nominal_hz - 1) if nominal_hz else None,
        "gaps": int(is_gap.sum()),
        "lost": int(np.round(intervals[is_gap] / period - 1).sum()),
        "longest_gap_s": float(intervals[is_gap].max(initial=0.0)),
        "intervals": IntervalFigures(
            median_ms=1e3 * period,
            p95_ms=1e3 * float(np.percentile(deviation, 95)),
            max_ms=1e3 * float(deviation.max()),
            jitter_ms=1e3 * float(residual.std()),
        ),
    }


def find_gaps(intervals: np.ndarray) -> np.ndarray:
    """Which intervals, f8 (interval,), s, contain lost samples: bool, (interval,).

    A sensor without a constant rate has no gaps. The rate counts as constant if the middle half of the intervals
    differ by less than half their median.
    """
    if not len(intervals):
        return np.zeros(0, bool)
    low, period, high = np.percentile(intervals, (25, 50, 75))
    return intervals > GAP_PERIODS * period if high - low < 0.5 * period else np.zeros(len(intervals), bool)


def fit_line(ts: np.ndarray) -> tuple[float, np.ndarray]:
    """Least-squares line through times by the numbers of samples, lost ones counted: its slope, s, and the residuals,
    f8 (sample,), s."""
    intervals = np.diff(ts)
    period = float(np.median(intervals))
    steps = np.where(find_gaps(intervals), np.round(intervals / period), 1) if period > 0 else np.ones(len(intervals))
    numbers = np.concatenate([[0], np.cumsum(steps)])
    x, y = numbers - numbers.mean(), ts - ts.mean()
    slope = float((x * y).sum()) / float((x * x).sum())
    return slope, y - slope * x


def sensor_intervals(ts: np.ndarray, valid: np.ndarray) -> Intervals:
    """When a sensor ran, was not valid, and lost samples. Ascending time stamps, f8 (sample,), s; valid: (sample,)."""
    intervals = np.diff(ts)
    period = float(np.median(intervals)) if len(intervals) else 0.0
    following = np.append(ts[1:], ts[-1:] + period)
    before_gap = np.append(find_gaps(intervals), np.zeros(len(ts) - len(intervals), bool))
    # A sample stands for the period after it: a gap begins where the first lost sample should have been.
    end = np.where(before_gap, ts + period, following)
    invalid = valid == 0
    return Intervals(
        period=period,
        running=np.column_stack([ts[:1], following[-1:]]),
        invalid=np.column_stack([ts[invalid], end[invalid]]),
        missing=np.column_stack([end[before_gap], following[before_gap]]),
    )


def plausible_or_nan(values: np.ndarray) -> np.ndarray:
    """Values as f8, with NaN for those that are not finite or too large to be true."""
    values = values.astype("f8")
    return np.where(is_plausible(values), values, np.nan)


#: Suffix of the channels of `_sync` with residuals.
_RESIDUAL = "_dt"


@dataclass(frozen=True)
class SensorRecord:
    """One sensor, as far as it can be read."""

    summary: SensorSummary
    #: its plausible time stamps in ascending order, f8 (sample,), s.
    ts: np.ndarray = field(default_factory=lambda: np.empty(0))
    valid: np.ndarray = field(default_factory=lambda: np.empty(0, "u1"))  #: u1, (sample,).
    #: index of each of these samples in the sensor's channels, (sample,).
    samples: np.ndarray = field(default_factory=lambda: np.empty(0, int))
    sensor: Sensor | None = None  #: None when `meta.json` cannot be read.
    repaired: frozenset[str] = frozenset()  #: lines of `check` about damage that the reader can repair.
    truncated: frozenset[str] = frozenset()  #: lines of `check` that show that the recording was cut off.

    def read(self, channel: str, shape: tuple[int, ...] = ()) -> np.ndarray | None:
        """A channel with samples of this shape, as many as `ts`, as f8; None when there is none or it is damaged."""
        spec = self.sensor.specs.get(channel) if self.sensor else None
        if self.sensor is None or spec is None or spec.shape != shape:
            return None
        with unless_damaged():
            values = self.sensor.channel(channel).read_whole()
            return values.astype("f8") if len(values) == len(self.ts) else None
        return None

    @property
    def name(self) -> str:
        return self.summary.name

    @property
    def virtual(self) -> bool:
        return self.name.startswith("_")

    @property
    def ground_truth(self) -> bool:
        """Whether this is the ground truth that the simulator wrote beside the recording."""
        return self.name == "_truth" or self.name.startswith("_truth_")


def known_sensors_first(names: Collection[str], rig: Rig) -> list[str]:
    """The names of sensors of known types, by type, then all others as they come."""
    known = [name for type in TYPES for name in rig.of(type) if name in names]
    return [*known, *(name for name in names if name not in known)]


def read_sensors(trace: Trace) -> list[SensorRecord]:
    """All sensors of a trace: first those of known types, then the others by name."""
    rates, names = nominal_rates(trace.path / CONFIG), known_sensors_first(trace.sensors(), Rig(trace.path))
    return [_read_sensor(trace, name, rates.get(name)) for name in names]


def _read_sensor(trace: Trace, name: str, nominal_hz: float | None) -> SensorRecord:
    try:
        sensor = Sensor(trace.path / name)
    except FormatError as error:
        require_damage(error)
        return SensorRecord(SensorSummary(name=name, error=_without_folder(trace, error)))
    repaired: list[str] = []
    truncated: list[str] = []
    channels = []
    for channel_name in sensor.specs:
        with unless_damaged():
            # Published traces keep a copy of the camera's video in another folder.
            channel = trace.source(name, channel_name).channel(channel_name)
            channels.append(ChannelSummary(name=channel_name, **channel_info(channel)))
            repaired += channel.notes
            truncated += [f"{channel.path}: {channel.leftover}"] if channel.leftover else []
    summary = SensorSummary(name=name, bytes=sum(channel.bytes for channel in channels), channels=tuple(channels))
    try:
        stored_ts = sensor.recorded_times()
    except FormatError as error:
        require_damage(error)
        return SensorRecord(summary.model_copy(update={"error": _without_folder(trace, error)}), sensor=sensor)
    plausible = np.flatnonzero(_plausible(stored_ts))
    samples = plausible[np.argsort(stored_ts[plausible], kind="stable")]
    ts, valid = stored_ts[samples], _read_valid(sensor, len(stored_ts))[samples]
    truncated += [
        f"{sensor.path / channel.name}: has {counted(channel.samples, 'sample')} where ts has {len(stored_ts)}"
        for channel in channels
    ]
    figures = {
        "samples": len(stored_ts),
        "whole": min((channel.samples for channel in channels), default=0),
        "start_s": float(ts[0]) if len(ts) else None,
        "end_s": float(ts[-1]) if len(ts) else None,
        "nominal_hz": nominal_hz,
        "invalid": int((valid == 0).sum()),
    }
    summary = summary.model_copy(update=figures | timing_figures(ts, nominal_hz))
    lines = (frozenset(_without_folder(trace, line) for line in lines) for lines in (repaired, truncated))
    return SensorRecord(summary, ts, valid, samples, sensor, *lines)


def _plausible(ts: np.ndarray) -> np.ndarray:
    """Time stamps that can belong to one recording, bool (sample,). A damaged one would stretch charts over years."""
    finite = np.isfinite(ts)
    median = np.median(ts[finite]) if finite.any() else 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        return finite & (np.abs(ts - median) < TUNING.max_distance_s)


def _read_valid(sensor: Sensor, count: int) -> np.ndarray:
    """`valid`, u1 (count,); 1 for samples where it is missing or cannot be read."""
    valid = np.ones(count, "u1")
    if VALID in sensor.specs:
        with unless_damaged():
            stored = sensor.channel(VALID).read_whole()
            if stored.ndim == 1:
                valid[: len(stored)] = stored[:count] != 0
    return valid


def nominal_rates(config: Path) -> dict[str, float]:
    """Rates that the collection configuration asks for, Hz, of every sensor that it describes."""
    content: dict[str, Any] = {}
    with unless_damaged():
        content = parse_collection(read_text(config))
    rates = {}
    for name in content:
        arguments = section(content, name, "args")
        try:
            if "fps" in arguments:
                rate = float(arguments["fps"])
            elif "mode" in arguments:  # the lidar's, like `2048x10`: columns x sweeps per second
                rate = float(str(arguments["mode"]).partition("x")[2])
            else:
                rate = 1e3 / float(arguments["radar"]["frame_period"])
        except (ValueError, TypeError, KeyError, ArithmeticError):
            continue
        if 0 < rate < 1e6:
            rates[str(name)] = rate
    return rates


def is_simulated(records: Iterable[SensorRecord]) -> bool:
    """Whether the simulator of this package wrote the recording."""
    folders = [record.sensor.path for record in records if record.ground_truth and record.sensor]
    with unless_damaged():
        return any((read_provenance(folder) or {}).get("step") == "simulate" for folder in folders)
    return False


def read_sidecar(trace: Path, sensor: str) -> Mapping[str, Any]:
    """The content of the sidecar of a sensor; empty when it is missing or cannot be read."""
    with unless_damaged():
        return section(read_json(trace / sensor / Rig(trace).sidecar(sensor)))
    return {}


def _without_folder(trace: Trace, message: object) -> str:
    """A message with paths relative to the trace, so that a shared page does not reveal where the recording lies."""
    return str(message).replace(f"{trace.path}/", "")


class Residuals(NamedTuple):
    """The samples nearest to those of the reference: their numbers, -1 = none, and times after it, f8 (frame,), s."""

    nearest: np.ndarray
    seconds: np.ndarray


def read_residuals(sync: SensorRecord | None, measured: Mapping[str, Any]) -> dict[str, Residuals]:
    """Residuals of every sensor but the reference, whose own are always 0. Sensors of known types come first.
    `measured`: what the step measured, from its provenance."""
    if sync is None or sync.sensor is None:
        return {}
    names = [name.removesuffix(_RESIDUAL) for name in sync.sensor.specs if name.endswith(_RESIDUAL)]
    residuals = {}
    for name in known_sensors_first(names, Rig(sync.sensor.path.parent)):
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
    clock = section(measured, "sensors", sensor)
    stored = {"drift_ppm": clock.get("drift_ppm"), "latency_p95_ms": section(clock, "latency_ms").get("p95")}
    figures |= {key: float(value) for key, value in stored.items() if isinstance(value, (int, float))}
    return SyncSummary(sensor=sensor, matched=int(matched.sum()), missing=int((~matched).sum()), **figures)
