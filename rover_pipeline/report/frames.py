"""What is drawn of a recording: charts, and frames of the sensors at evenly spaced instants, next to one another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rover_pipeline.calibrate.outlines import Pair
from rover_pipeline.draw import charts, pixels
from rover_pipeline.draw.charts import Chart, Curve, Span
from rover_pipeline.draw.pixels import colour_distances, colourise, decibel_limits, distance_limits, metres
from rover_pipeline.draw.theme import colour_name
from rover_pipeline.errors import ConfigError, FormatError, as_damage, unless_damaged
from rover_pipeline.format.channels import Channel
from rover_pipeline.format.meta import META
from rover_pipeline.format.rig import TYPES, Rig
from rover_pipeline.format.sensor import Sensor, read_axes
from rover_pipeline.format.trace import Trace
from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.lidar.panorama import Panorama
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.numerics.nearest import nearest_samples
from rover_pipeline.report.read.motion import SpeedCurve, Track
from rover_pipeline.report.read.sensors import (
    Residuals,
    SensorRecord,
    fit_line,
    read_sidecar,
    sensor_intervals,
)
from rover_pipeline.validation.mounts import camera_pairs
from rover_pipeline.validation.rig import is_plausible, sensor_mount

#: Points of a sweep over a picture. Schedule.
_OVERLAID = 20000
#: Draws several samples, (frame, ...), with the same colour scale as images, u1 (row, column, 3 or 4).
_Render = Callable[[np.ndarray], list[np.ndarray]]


class Frame(NamedTuple):
    """One image of an instant."""

    title: str  #: what is shown, and of which sensor where the recording has several.
    scale: str  #: what its axes span, empty for a camera.
    image: pixels.EmbeddedImage | None  #: None when the sample cannot be decoded.
    offset_s: float  #: its time after the instant, s.
    invalid: bool  #: whether its `valid` is 0.
    half_width: bool  #: whether it is as clear at half the width.
    empty: str = ""  #: what it does not show, such as `no return`; "" = it shows something.


class Instant(NamedTuple):
    """The frames nearest to one sample of the reference sensor, `time` seconds after the begin of the recording."""

    time: float
    frames: list[Frame]


@dataclass(frozen=True)
class _Images:
    """A channel with images of a kind."""

    kind: str
    title: str
    record: SensorRecord
    read: Callable[[int], np.ndarray]  #: gives a sample by its number.
    count: int  #: of the samples.
    render: _Render
    scale: str

    @property
    def has_sample(self) -> np.ndarray:
        """Which time stamps have a sample, bool (sample,): a power cut may leave time stamps without images."""
        return self.record.samples < self.count


def draw_instants(
    trace: Trace, records: Mapping[str, SensorRecord], begin: float, instants: int, width: int
) -> list[Instant]:
    """The frames of a trace at so many evenly spaced instants, counted from the begin of the recording, s, in pictures
    of a width, pixels; none without images."""
    main = filter(None, map(records.get, map(Rig(trace.path).main, TYPES)))
    reference = next((record for record in main if len(record.ts)), None)
    sources = _readable_images(trace, records, width)
    if reference is None or not sources or not instants:
        return []
    # The valid samples nearest to the middles of equal parts of the recording.
    ts = reference.ts[reference.valid != 0] if (reference.valid != 0).any() else reference.ts
    middles = ts[0] + (np.arange(instants) + 0.5) / instants * (ts[-1] - ts[0])
    times = np.unique(ts[nearest_samples(ts, middles)])
    drawn = (_draw_frames(source, times) for source in sources)
    # A result without a valid frame that shows anything is none to look at.
    frames = [row for row in drawn if not all(each.empty and each.invalid for each in row)]
    return [Instant(float(at - begin), list(row)) for at, row in zip(times, zip(*frames, strict=True), strict=False)]


def draw_overlays(trace: Trace, width: int) -> list[Frame]:
    """Of each camera with intrinsics, a sweep amid the recording over its picture, by the rig; none without `_odom`."""
    found = []
    for camera in Rig(trace.path).of("camera") if (trace.path / "_odom" / META).is_file() else ():
        with suppress(ConfigError), unless_damaged(), as_damage(trace.path / camera):  # The findings name it.
            mount = sensor_mount(trace.path, camera)
            for pair in camera_pairs(trace.path, camera, mount, 1):
                image = _overlay(pair, mount, width)
                found.append(Frame(f"lidar on {camera}", _LIDAR_SCALE, pixels.embed_image(image), 0.0, False, False))
    return found


def _overlay(pair: Pair, mount: Mount, width: int) -> np.ndarray:
    """Points in colours by the logarithm of distance over a picture in grey, u1 (row, column, RGB)."""
    drawn = pixels.resize_image(pair.grey[..., None].repeat(3, axis=2), width)
    seen = matmul(pair.xyz - mount.translation, mount.rotation)
    seen = seen[seen[:, 0] > 0.1]
    x, y = -seen[:, 1] / seen[:, 0], -seen[:, 2] / seen[:, 0]
    column, row = (np.rint(each) for each in pair.lens.resized(drawn.shape[1], drawn.shape[0]).pixels(x, y))
    inside = (column >= 0) & (column < drawn.shape[1]) & (row >= 0) & (row < drawn.shape[0])
    nearest_last = np.flatnonzero(inside)[np.argsort(-seen[inside, 0], kind="stable")][:: 1 + inside.sum() // _OVERLAID]
    distances = np.linalg.norm(seen[nearest_last], axis=1).astype("f4")
    drawn[row[nearest_last].astype("i8"), column[nearest_last].astype("i8")] = colour_distances(
        distances, *distance_limits(distances)
    )
    return drawn


def _draw_frames(source: _Images, times: np.ndarray) -> list[Frame]:
    record, whole, half_width = source.record, source.has_sample, source.kind in _HALF_WIDTH
    ts, valid, samples = record.ts[whole], record.valid[whole], record.samples[whole]
    nearest = nearest_samples(ts, times)
    decoded: dict[int, np.ndarray] = {}
    for sample in np.unique(nearest).tolist():
        with unless_damaged():  # The findings name it.
            decoded[sample] = source.read(int(samples[sample]))
    rendered = source.render(np.stack(list(decoded.values()))) if decoded else []
    images = {sample: pixels.embed_image(image) for sample, image in zip(decoded, rendered, strict=True)}
    empty = {sample: _NOTHING[source.kind](values) for sample, values in decoded.items() if source.kind in _NOTHING}
    of = source.title, source.scale
    return [
        Frame(*of, images.get(sample), float(ts[sample] - time), not valid[sample], half_width, empty.get(sample, ""))
        for sample, time in zip(nearest.tolist(), times, strict=True)
    ]


#: Kind of images -> function that says of a sample what it does not show; "" where it shows something. Layout.
_NOTHING: dict[str, Callable[[np.ndarray], str]] = {
    "lidar": lambda ranges: "" if np.isfinite(metres(ranges)).any() else "no return",
    "radar points": lambda points: "" if np.isfinite(points[:, :3]).all(axis=1).any() else "no point",
    "range-Doppler": lambda power: "" if len(np.unique(power[np.isfinite(power)])) > 1 else "no echo",
    "range-azimuth": lambda power: "" if len(np.unique(power[np.isfinite(power)])) > 1 else "no echo",
    "occupancy": lambda cells: "" if cells.any() else "nothing occupied",
}


def _readable_images(trace: Trace, records: Mapping[str, SensorRecord], width: int) -> list[_Images]:
    """All channels with images, in the order of the page; only the first channel that a trace has for each title."""
    readable, titles, rig = [], set(), Rig(trace.path)
    for kind, declared, channel, prepare in _CHANNELS:
        for name, record in records.items():
            raw = rig.raw(name)
            title = kind if raw in ("", *TYPES) or len(rig.of(rig.types[raw])) < 2 else f"{kind}, {raw}"
            is_shown = rig.declared(name) == declared and title not in titles
            if not is_shown or not record.sensor or channel not in record.sensor.specs:
                continue
            titles.add(title)
            with unless_damaged():  # The findings name it.
                shape = record.sensor.specs[channel].shape
                if len(shape) != (3 if kind == "camera" else 2):
                    raise FormatError(f"{record.sensor.path}/{channel}: samples of {list(shape)} are no {kind}")
                render, scale = prepare(trace, record.sensor, width)
                stored = trace.source(name, channel).channel(channel)
                found = _with_speed(stored, record.sensor) if kind == "radar points" else (stored.sample, len(stored))
                images = _Images(kind, title, record, *found, render, scale)
                readable += [images] if images.has_sample.any() else []
    return readable


_LIDAR_SCALE = "range, near is red"


def _camera(trace: Trace, sensor: Sensor, width: int) -> tuple[_Render, str]:
    return lambda images: [pixels.resize_image(image, width) for image in images], ""


def _lidar(trace: Trace, sensor: Sensor, width: int) -> tuple[_Render, str]:
    span = 0.0
    with suppress(LookupError, TypeError, ValueError):
        beams = read_sidecar(trace.path, Rig(trace.path).raw(sensor.name))["beam_intrinsics"]
        span = float(np.ptp(np.asarray(beams["beam_altitude_angles"], "f8")))
    return lambda images: _range_pictures(images, width, _aspect(span)), _LIDAR_SCALE


def _lidar_points(trace: Trace, sensor: Sensor, width: int) -> tuple[_Render, str]:
    """The same of a lidar that is points, in pixels that hold about one point each."""

    def render(clouds: np.ndarray) -> list[np.ndarray]:
        panorama = Panorama.of(list(clouds))
        if panorama is None:
            return [np.zeros((8, width, 3), "u1")] * len(clouds)
        span = np.degrees(max(float(np.ptp(panorama.elevation)), 1.0))
        return _range_pictures(np.stack([panorama.image(each) for each in clouds]), width, _aspect(span))

    return render, _LIDAR_SCALE


def _range_pictures(images: np.ndarray, width: int, aspect: float) -> list[np.ndarray]:
    """Range images, u2 (image, row, column), mm, in colours by the logarithm of distance."""
    distances = metres(images)
    limits = distance_limits(distances)
    return [pixels.resize_image(colour_distances(each, *limits), width, aspect) for each in distances]


def _aspect(span: float) -> float:
    """Width over height of a sweep, so that a degree of azimuth is as wide as a degree of elevation is high. `span`: of
    the beams, degrees; 0 = not known."""
    return float(np.clip(360 / span, 3, 8)) if span > 0 else 4.0


def _range_doppler(trace: Trace, sensor: Sensor, width: int) -> tuple[_Render, str]:
    axes = _read_axes(sensor.path)
    ranges, doppler = axes.get("range"), axes.get("doppler")
    scale = ""
    if ranges is not None and doppler is not None:
        speeds = f"±{np.abs(doppler).max():.1f} m/s" if len(doppler) > 1 else "one chirp, which measures no velocity"
        scale = f"to {ranges[-1]:.0f} m, {speeds}"

    def render(power: np.ndarray) -> list[np.ndarray]:
        low, high = decibel_limits(power)
        # The rows of an image go down, but targets that move away belong to the top.
        return [pixels.resize_image(colourise(each[::-1], low, high, "power"), width, 4.0) for each in power]

    return render, scale


def _radar_points(trace: Trace, sensor: Sensor, width: int) -> tuple[_Render, str]:
    """Points from above: ahead is up. `_radar_range_azimuth` says how far the radar sees, else the points do."""
    axis = _read_axes(trace.path / f"_{Rig(trace.path).raw(sensor.name)}_range_azimuth").get("range")

    def render(samples: np.ndarray) -> list[np.ndarray]:
        distance = np.hypot(samples[..., 0], samples[..., 1]) if axis is None else axis
        far = float(distance[is_plausible(distance)].max(initial=1.0))
        return [pixels.radar_points_picture(points[:, :3], points[:, 3], far, width) for points in samples]

    return render, "red recedes"


def _with_speed(xyz: Channel, sensor: Sensor) -> tuple[Callable[[int], np.ndarray], int]:
    """A function that gives the points of a frame, f4 (point, 4): x, y, z, m, and the speed at which they recede, m/s;
    and the number of frames."""
    doppler, shape = sensor.channel("doppler") if "doppler" in sensor.specs else None, xyz.spec.shape
    if len(shape) != 2 or shape[1] != 3 or (doppler and doppler.spec.shape != shape[:1]):
        raise FormatError(f"{sensor.path}: has points of {list(shape)}, which are no points of a radar")

    def read(number: int) -> np.ndarray:
        speed = np.zeros(shape[:1], "f4") if doppler is None else doppler.sample(number)
        return np.column_stack([xyz.sample(number), speed])

    return read, len(xyz) if doppler is None else min(len(xyz), len(doppler))


def _birds_eye_view(trace: Trace, sensor: Sensor, width: int) -> tuple[_Render, str]:
    """Polar images of power or of occupied cells as RGBA, transparent where the sensor does not measure."""
    quantity = "power" if "power" in sensor.specs else "occupancy"
    azimuth, ranges = _polar_axes(sensor.path, sensor.specs[quantity].shape)

    def render(images: np.ndarray) -> list[np.ndarray]:
        low, high = decibel_limits(images) if quantity == "power" else (0, max(1, int(images.max(initial=0))))
        views, area = pixels.polar_to_cartesian(images, azimuth, ranges, width)
        return [np.dstack([colourise(view, low, high, quantity), 255 * area.astype("u1")]) for view in views]

    stored = _read_axes(sensor.path).get("range")
    return render, "" if stored is None else f"to {stored[-1]:.0f} m"


#: Kind, sensor, channel and renderer of everything that can be shown, in the order of the page. `_camera_frames` comes
#: before the raw video, which may show faces that the frames do not. Public traces have an anonymised one in `_camera`.
_CHANNELS: tuple[tuple[str, str, str, Callable[[Trace, Sensor, int], tuple[_Render, str]]], ...] = (
    ("camera", "_camera_frames", "image", _camera),
    ("camera", "camera", "video.avi", _camera),
    ("camera", "_camera", "video.avi", _camera),
    ("lidar", "_lidar_image", "rng", _lidar),
    ("lidar", "lidar", "xyz", _lidar_points),
    ("range-Doppler", "_radar_range_doppler", "power", _range_doppler),
    ("range-azimuth", "_radar_range_azimuth", "power", _birds_eye_view),
    ("radar points", "_radar_points", "xyz", _radar_points),
    ("occupancy", "_bev", "occupancy", _birds_eye_view),
)
#: Kinds of images that are as clear at half the width.
_HALF_WIDTH = {"range-azimuth", "radar points", "occupancy"}


def _read_axes(folder: Path) -> dict[str, np.ndarray]:
    """Values of the bins of each axis in `axes.json`: m, m/s, radians; empty when they cannot be read."""
    with unless_damaged():
        values = {name: axis.values for name, axis in read_axes(folder).items() if axis.values is not None}
        return {name: each for name, each in values.items() if each.size and np.isfinite(each).all()}
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
            _, residual = fit_line(record.ts)
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
