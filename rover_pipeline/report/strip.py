"""What the recording looks like: the sensors' frames at evenly spaced instants, side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.format.trace import Trace
from rover_pipeline.radar.axes import AXES
from rover_pipeline.report.options import ReportOptions
from rover_pipeline.report.pictures import Picture, coloured, encoded, fan, fitted
from rover_pipeline.report.recorded import STANDARD, Recorded, sidecar

#: Decibels below the strongest cell at which colours end, or at the noise if that is higher.
_SPAN_DB = 70.0


class Frame(NamedTuple):
    """One picture of an instant.

    Attributes:
        title: the sensor; scale: what its axes span, empty for a camera.
        picture: None when the sample cannot be decoded.
        away: its time after the instant, s.
        doubtful: whether its `valid` is 0.
        half: whether it is as clear at half the width.
    """

    title: str
    scale: str
    picture: Picture | None
    away: float
    doubtful: bool
    half: bool


class Instant(NamedTuple):
    """The frames nearest to one sample of the reference sensor, `time` seconds after the recording's begin."""

    time: float
    frames: list[Frame]


@dataclass(frozen=True)
class _Film:
    """A sensor with pictures; `render` makes those of several samples, (frame, ...), in the same colours."""

    title: str
    recorded: Recorded
    channel: Any
    render: Callable[[np.ndarray], list[np.ndarray]]
    scale: str = ""
    half: bool = False


def strip(trace: Trace, recorded: Mapping[str, Recorded], begin: float, options: ReportOptions) -> list[Instant]:
    """The instants of a trace; none when it has no pictures.

    Args:
        begin: time that instants are counted from, s.
    """
    reference = next((recorded[name] for name in STANDARD if name in recorded and len(recorded[name].ts)), None)
    films = _films(trace, recorded, options)
    if reference is None or not films or not options.instants:
        return []
    times = _spread(reference, options.instants)
    shown = [_frames(film, times) for film in films]
    return [Instant(float(t - begin), [row[i] for row in shown]) for i, t in enumerate(times)]


def _spread(reference: Recorded, instants: int) -> np.ndarray:
    """Times of valid samples in the middle of equal parts of the recording, f8, each once."""
    ts = reference.ts[reference.valid != 0] if (reference.valid != 0).any() else reference.ts
    wanted = ts[0] + (np.arange(instants) + 0.5) / instants * (ts[-1] - ts[0])
    return np.unique(ts[nearest(ts, wanted)])


def nearest(ts: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Number of the sample nearest to each wanted time; of two as near the earlier one. Times rise, f8, s."""
    after = np.clip(np.searchsorted(ts, wanted), 1, max(1, len(ts) - 1))
    if len(ts) == 1:
        return np.zeros(len(wanted), int)
    return np.where(wanted - ts[after - 1] <= ts[after] - wanted, after - 1, after)


def _frames(film: _Film, times: np.ndarray) -> list[Frame]:
    whole = film.recorded.samples < len(film.channel)  # a power cut may have left times without pictures
    ts, valid, samples = (values[whole] for values in (film.recorded.ts, film.recorded.valid, film.recorded.samples))
    chosen = nearest(ts, times)
    decoded: dict[int, np.ndarray] = {}
    for at in np.unique(chosen).tolist():
        try:
            decoded[at] = film.channel.read(int(samples[at]), int(samples[at]) + 1)[0]
        except FormatError:
            continue  # said where the problems are listed
    images = film.render(np.stack(list(decoded.values()))) if decoded else []
    pictures = {at: encoded(image) for at, image in zip(decoded, images, strict=True)}
    return [
        Frame(film.title, film.scale, pictures.get(at), float(ts[at] - time), not valid[at], film.half)
        for at, time in zip(chosen.tolist(), times, strict=True)
    ]


def _films(trace: Trace, recorded: Mapping[str, Recorded], options: ReportOptions) -> list[_Film]:
    """Everything of this trace that can be shown, in the order of the page."""
    films = []
    for make in (_camera, _lidar, _range_doppler, _range_azimuth, _bev):
        try:
            film = make(trace, recorded, options)
        except FormatError:
            continue  # said where the problems are listed
        if film is not None and (film.recorded.samples < len(film.channel)).any():
            films.append(film)
    return films


def _camera(trace: Trace, recorded: Mapping[str, Recorded], options: ReportOptions) -> _Film | None:
    """`_camera_frames` first: what was made of the camera may be all that is meant to be seen, blurred faces say.

    Public traces keep an anonymised video in `_camera/`.
    """

    def render(images: np.ndarray) -> list[np.ndarray]:
        return [fitted(image, options.picture_width) for image in images]

    for name, channel in (("_camera_frames", "image"), ("camera", "video.avi"), ("_camera", "video.avi")):
        found = recorded.get(name)
        if found and found.sensor and channel in found.sensor.specs:
            return _Film("camera", found, trace.source(name, channel).channel(channel), render)
    return None


def _lidar(trace: Trace, recorded: Mapping[str, Recorded], options: ReportOptions) -> _Film | None:
    found = recorded.get("_lidar_image")
    if not found or not found.sensor or "rng" not in found.sensor.specs:
        return None

    def render(images: np.ndarray) -> list[np.ndarray]:
        metres = images.astype("f4") / 1000
        metres[(images == 0) | (images == 65535)] = np.nan
        seen = metres[np.isfinite(metres)]
        near, far = np.percentile(seen, (2, 98)) if len(seen) else (0.5, 50.0)
        distance = np.log(np.maximum(metres, 1e-3))
        return [
            fitted(coloured(each, np.log(near), np.log(far), "turbo_r"), options.picture_width, _aspect(trace, each))
            for each in distance
        ]

    return _Film("lidar", found, found.sensor.channel("rng"), render, "range, near is red")


def _aspect(trace: Trace, image: np.ndarray) -> float:
    """Width over height of a sweep that is as wide a degree as it is high."""
    beams = sidecar(trace.path, "lidar").get("beam_intrinsics")
    angles = beams.get("beam_altitude_angles") if isinstance(beams, dict) else None
    try:
        span = float(np.ptp(np.asarray(angles, "f8")))
    except (TypeError, ValueError):
        span = 0.0
    return float(np.clip(360 / span, 3, 8)) if span > 0 and image.ndim == 2 else 4.0


def _range_doppler(trace: Trace, recorded: Mapping[str, Recorded], options: ReportOptions) -> _Film | None:
    found = recorded.get("_radar_range_doppler")
    if not found or not found.sensor or "power" not in found.sensor.specs:
        return None
    axes = _axes(found.sensor.path)
    reach, speed = axes.get("range"), axes.get("doppler")
    scale = f"to {reach[-1]:.0f} m, ±{np.abs(speed).max():.1f} m/s" if reach is not None and speed is not None else ""

    def render(power: np.ndarray) -> list[np.ndarray]:
        low, high = _decibels(power)
        # Rows grow downward in a picture and receding targets belong at the top.
        return [fitted(coloured(each[::-1], low, high, "inferno"), options.picture_width, 4.0) for each in power]

    return _Film("range-Doppler", found, found.sensor.channel("power"), render, scale)


def _range_azimuth(trace: Trace, recorded: Mapping[str, Recorded], options: ReportOptions) -> _Film | None:
    found = recorded.get("_radar_range_azimuth")
    if not found or not found.sensor or "power" not in found.sensor.specs:
        return None
    azimuth, reach = _polar(found.sensor.path, found.sensor.specs["power"].shape)

    def render(power: np.ndarray) -> list[np.ndarray]:
        low, high = _decibels(power)
        return [_seen_from_above(each, low, high, "inferno", azimuth, reach, options.picture_width) for each in power]

    return _Film("range-azimuth", found, found.sensor.channel("power"), render, _reach(found.sensor.path), half=True)


def _bev(trace: Trace, recorded: Mapping[str, Recorded], options: ReportOptions) -> _Film | None:
    found = recorded.get("_bev")
    if not found or not found.sensor or "occupancy" not in found.sensor.specs:
        return None
    azimuth, reach = _polar(found.sensor.path, found.sensor.specs["occupancy"].shape)

    def render(cells: np.ndarray) -> list[np.ndarray]:
        most = max(1, int(cells.max(initial=0)))
        return [_seen_from_above(each, 0, most, "cividis", azimuth, reach, options.picture_width) for each in cells]

    return _Film("occupancy", found, found.sensor.channel("occupancy"), render, _reach(found.sensor.path), half=True)


def _seen_from_above(
    values: np.ndarray, low: float, high: float, palette: str, azimuth: np.ndarray, reach: np.ndarray, width: int
) -> np.ndarray:
    """A polar image as RGBA, u1 (row, column, 4), clear where there is nothing."""
    spread, inside = fan(values, azimuth, reach, width)
    image = coloured(spread, low, high, palette)
    return np.concatenate([image, np.where(inside, 255, 0).astype("u1")[..., None]], axis=-1)


def _decibels(power: np.ndarray) -> tuple[float, float]:
    """The range of colours of several frames together, dB."""
    finite = power[np.isfinite(power)]
    if not len(finite):
        return -_SPAN_DB, 0.0
    high = float(finite.max())
    return max(high - _SPAN_DB, float(np.median(finite))), high


def _axes(folder: Path) -> dict[str, np.ndarray]:
    """Values of the bins by axis, as far as `axes.json` says: m, m/s, radians."""
    try:
        content = json.loads((folder / AXES).read_text(encoding="utf-8"))
        found = {name: axis["values"] for name, axis in content.items() if axis["values"]}
        axes = {name: np.asarray(values, "f8") for name, values in found.items()}
        return {name: values for name, values in axes.items() if values.ndim == 1 and np.isfinite(values).all()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _polar(folder: Path, shape: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Azimuth, radians to the right, and range, m, of each bin; without `axes.json` half a circle, in bins."""
    axes = _axes(folder)
    azimuth, reach = axes.get("azimuth"), axes.get("range")
    if azimuth is None or len(azimuth) != shape[0] or (np.diff(azimuth) <= 0).any():
        azimuth = np.linspace(-np.pi / 2, np.pi / 2, shape[0])
    if reach is None or len(reach) != shape[1] or (np.diff(reach) <= 0).any():
        reach = np.arange(shape[1], dtype="f8")
    return azimuth, reach


def _reach(folder: Path) -> str:
    reach = _axes(folder).get("range")
    return "" if reach is None else f"to {reach[-1]:.0f} m"
