"""What the recording looks like: the frames of the sensors at evenly spaced instants, next to one another."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.trace import Trace
from rover_pipeline.radar.axes import AXES
from rover_pipeline.report.draw.images import (
    EmbeddedImage,
    apply_colour_map,
    embed_image,
    polar_to_cartesian,
    resize_image,
)
from rover_pipeline.report.read.sensors import USUAL_SENSORS, SensorRecord, read_sidecar

#: Colours span at most this many decibels below the strongest cell; they end at the noise if that is higher.
_COLOUR_SPAN_DB = 70.0
#: Range that the sensor writes if a target is beyond what 16 bits hold, mm.
_CLIPPED_RANGE = 65535


class Frame(NamedTuple):
    """One image of an instant.

    Attributes:
        title: the sensor; scale: what its axes span, empty for a camera.
        image: None when the sample cannot be decoded.
        offset_s: its time after the instant, s.
        invalid: whether its `valid` is 0.
        half_width: whether it is as clear at half the width.
    """

    title: str
    scale: str
    image: EmbeddedImage | None
    offset_s: float
    invalid: bool
    half_width: bool


class Instant(NamedTuple):
    """The frames nearest to one sample of the reference sensor, `time` seconds after the begin of the recording."""

    time: float
    frames: list[Frame]


@dataclass(frozen=True)
class _Images:
    """A channel with images; `render` draws several samples, (frame, ...), with the same colour scale."""

    title: str
    record: SensorRecord
    channel: Any
    render: Callable[[np.ndarray], list[np.ndarray]]
    scale: str = ""
    half_width: bool = False

    @property
    def has_sample(self) -> np.ndarray:
        """Which time stamps have a sample, bool (sample,): a power cut may leave time stamps without images."""
        return self.record.samples < len(self.channel)


def draw_instants(
    trace: Trace, records: Mapping[str, SensorRecord], begin: float, instants: int, width: int
) -> list[Instant]:
    """The frames of a trace at evenly spaced instants; none without images.

    Args:
        begin: of the recording, s.
        instants: number of instants; width: of the images, pixels.
    """
    reference = next((records[name] for name in USUAL_SENSORS if name in records and len(records[name].ts)), None)
    sources = _readable_images(trace, records, width)
    if reference is None or not sources or not instants:
        return []
    times = _instant_times(reference, instants)
    frames = [_draw_frames(source, times) for source in sources]
    return [Instant(float(time - begin), list(row)) for time, row in zip(times, zip(*frames, strict=True), strict=True)]


def _instant_times(reference: SensorRecord, instants: int) -> np.ndarray:
    """Times of the valid samples nearest to the middles of equal parts of the recording, f8, without repetitions."""
    ts = reference.ts[reference.valid != 0] if (reference.valid != 0).any() else reference.ts
    middles = ts[0] + (np.arange(instants) + 0.5) / instants * (ts[-1] - ts[0])
    return np.unique(ts[nearest_samples(ts, middles)])


def nearest_samples(ts: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Index of the sample nearest to each time, the earlier one of two equally near. Time stamps ascend, f8, s."""
    if len(ts) == 1:
        return np.zeros(len(times), int)
    after = np.clip(np.searchsorted(ts, times), 1, len(ts) - 1)
    return np.where(times - ts[after - 1] <= ts[after] - times, after - 1, after)


def _draw_frames(source: _Images, times: np.ndarray) -> list[Frame]:
    record, whole = source.record, source.has_sample
    ts, valid, samples = record.ts[whole], record.valid[whole], record.samples[whole]
    nearest = nearest_samples(ts, times)
    decoded: dict[int, np.ndarray] = {}
    for sample in np.unique(nearest).tolist():
        try:
            decoded[sample] = source.channel.read(int(samples[sample]), int(samples[sample]) + 1)[0]
        except FormatError:
            continue  # The findings name it.
    rendered = source.render(np.stack(list(decoded.values()))) if decoded else []
    images = {sample: embed_image(image) for sample, image in zip(decoded, rendered, strict=True)}
    return [
        Frame(
            source.title, source.scale, images.get(sample), float(ts[sample] - time), not valid[sample],
            source.half_width,
        )
        for sample, time in zip(nearest.tolist(), times, strict=True)
    ]  # fmt: skip


def _readable_images(trace: Trace, records: Mapping[str, SensorRecord], width: int) -> list[_Images]:
    """All channels with images, in the order of the page."""
    readable = []
    for find in (_camera, _lidar, _range_doppler, _range_azimuth, _bev):
        try:
            source = find(trace, records, width)
        except FormatError:
            continue  # The findings name it.
        if source is not None and source.has_sample.any():
            readable.append(source)
    return readable


def _sensor_with(records: Mapping[str, SensorRecord], name: str, channel: str) -> tuple[SensorRecord, Sensor] | None:
    record = records.get(name)
    return (record, record.sensor) if record and record.sensor and channel in record.sensor.specs else None


def _camera(trace: Trace, records: Mapping[str, SensorRecord], width: int) -> _Images | None:
    """`_camera_frames` if there are any: the raw video may show faces that the frames do not.

    Public traces keep an anonymised video in `_camera/`.
    """

    def render(images: np.ndarray) -> list[np.ndarray]:
        return [resize_image(image, width) for image in images]

    for name, channel in (("_camera_frames", "image"), ("camera", "video.avi"), ("_camera", "video.avi")):
        if found := _sensor_with(records, name, channel):
            return _Images("camera", found[0], trace.source(name, channel).channel(channel), render)
    return None


def _lidar(trace: Trace, records: Mapping[str, SensorRecord], width: int) -> _Images | None:
    found = _sensor_with(records, "_lidar_image", "rng")
    if found is None:
        return None
    record, sensor = found

    def render(images: np.ndarray) -> list[np.ndarray]:
        metres = images.astype("f4") / 1000
        metres[(images == 0) | (images == _CLIPPED_RANGE)] = np.nan
        measured = metres[np.isfinite(metres)]
        near, far = np.percentile(measured, (2, 98)) if len(measured) else (0.5, 50.0)
        return [
            resize_image(
                apply_colour_map(each, np.log(near), np.log(far), "turbo_r"), width, _lidar_aspect(trace, each)
            )
            for each in np.log(np.maximum(metres, 1e-3))
        ]

    return _Images("lidar", record, sensor.channel("rng"), render, "range, near is red")


def _lidar_aspect(trace: Trace, image: np.ndarray) -> float:
    """Width over height of a sweep, so that a degree of azimuth is as wide as a degree of elevation is high."""
    intrinsics = read_sidecar(trace.path, "lidar").get("beam_intrinsics")
    elevations = intrinsics.get("beam_altitude_angles") if isinstance(intrinsics, dict) else None
    try:
        span = float(np.ptp(np.asarray(elevations, "f8")))
    except (TypeError, ValueError):
        span = 0.0
    return float(np.clip(360 / span, 3, 8)) if span > 0 and image.ndim == 2 else 4.0


def _range_doppler(trace: Trace, records: Mapping[str, SensorRecord], width: int) -> _Images | None:
    found = _sensor_with(records, "_radar_range_doppler", "power")
    if found is None:
        return None
    record, sensor = found
    axes = _read_axes(sensor.path)
    ranges, doppler = axes.get("range"), axes.get("doppler")
    scale = ""
    if ranges is not None and doppler is not None:
        scale = f"to {ranges[-1]:.0f} m, ±{np.abs(doppler).max():.1f} m/s"

    def render(power: np.ndarray) -> list[np.ndarray]:
        low, high = _decibel_limits(power)
        # The rows of an image go down, but targets that move away belong to the top.
        return [resize_image(apply_colour_map(each[::-1], low, high, "inferno"), width, 4.0) for each in power]

    return _Images("range-Doppler", record, sensor.channel("power"), render, scale)


def _range_azimuth(trace: Trace, records: Mapping[str, SensorRecord], width: int) -> _Images | None:
    return _birds_eye_images(
        records, "_radar_range_azimuth", "power", "range-azimuth", _decibel_limits, "inferno", width
    )


def _bev(trace: Trace, records: Mapping[str, SensorRecord], width: int) -> _Images | None:
    def limits(cells: np.ndarray) -> tuple[float, float]:
        return 0, max(1, int(cells.max(initial=0)))

    return _birds_eye_images(records, "_bev", "occupancy", "occupancy", limits, "cividis", width)


def _birds_eye_images(
    records: Mapping[str, SensorRecord],
    name: str,
    channel: str,
    title: str,
    limits: Callable[[np.ndarray], tuple[float, float]],
    colour_map: str,
    width: int,
) -> _Images | None:
    """Polar images as bird's-eye views, u1 (row, column, 4), RGBA, transparent where the sensor does not measure.

    Args:
        limits: gives the values with the first and the last colour of the map.
    """
    found = _sensor_with(records, name, channel)
    if found is None:
        return None
    record, sensor = found
    azimuth, ranges = _polar_axes(sensor.path, sensor.specs[channel].shape)

    def render(images: np.ndarray) -> list[np.ndarray]:
        low, high = limits(images)
        views = []
        for image in images:
            view, inside = polar_to_cartesian(image, azimuth, ranges, width)
            alpha = np.where(inside, 255, 0).astype("u1")
            views.append(np.dstack([apply_colour_map(view, low, high, colour_map), alpha]))
        return views

    stored = _read_axes(sensor.path).get("range")
    scale = "" if stored is None else f"to {stored[-1]:.0f} m"
    return _Images(title, record, sensor.channel(channel), render, scale, half_width=True)


def _decibel_limits(power: np.ndarray) -> tuple[float, float]:
    """Values with the first and the last colour of several frames, dB."""
    finite = power[np.isfinite(power)]
    if not len(finite):
        return -_COLOUR_SPAN_DB, 0.0
    high = float(finite.max())
    return max(high - _COLOUR_SPAN_DB, float(np.median(finite))), high


def _read_axes(folder: Path) -> dict[str, np.ndarray]:
    """Values of the bins of each axis in `axes.json`: m, m/s, radians; empty when they cannot be read."""
    try:
        content = json.loads((folder / AXES).read_text(encoding="utf-8"))
        stored = {name: axis["values"] for name, axis in content.items() if axis["values"]}
        axes = {name: np.asarray(values, "f8") for name, values in stored.items()}
        return {name: values for name, values in axes.items() if values.ndim == 1 and np.isfinite(values).all()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _polar_axes(folder: Path, shape: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Azimuth, radians to the right, and range, m, of each bin; without `axes.json` half a circle and bin numbers."""
    axes = _read_axes(folder)
    azimuth, ranges = axes.get("azimuth"), axes.get("range")
    if azimuth is None or len(azimuth) != shape[0] or (np.diff(azimuth) <= 0).any():
        azimuth = np.linspace(-np.pi / 2, np.pi / 2, shape[0])
    if ranges is None or len(ranges) != shape[1] or (np.diff(ranges) <= 0).any():
        ranges = np.arange(shape[1], dtype="f8")
    return azimuth, ranges
