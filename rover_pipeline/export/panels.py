"""Panels of the preview: arrays of pixels that show one sensor at a given time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from rover_pipeline.camera.options import FramesOptions
from rover_pipeline.camera.steps import smaller
from rover_pipeline.export.samples import (
    Samples,
    Sweeps,
    find_radar_points,
    find_samples,
    find_sweeps,
    read_evenly,
)
from rover_pipeline.lidar.geometry import destagger, sensor_info
from rover_pipeline.lidar.panorama import Panorama
from rover_pipeline.lidar.sidecar import is_points
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.report.draw.images import (
    colour_distances,
    colourise,
    decibel_limits,
    distance_limits,
    draw_rings,
    height_colours,
    metres,
    velocity_colours,
)
from rover_pipeline.report.read.rig import read_optional, sensor_mount

BACKGROUND = (24, 26, 30)
_GREY, _WHITE = (120, 120, 120), (255, 255, 255)
_FONT = cv2.FONT_HERSHEY_SIMPLEX
#: A sample is shown until it is this old, s.
_MAX_AGE = 0.5
#: Points higher above the lidar belong to ceilings, which would hide everything in the view from above, m.
_CEILING = 1.0


class Panel(NamedTuple):
    """Draws a sensor as u1 RGB (height, width, 3), from a time in s, the width and the height in pixels.

    Attributes:
        shows: whether the recording has a sample for it at any time.
    """

    draw: Callable[[float, int, int], np.ndarray]
    shows: bool

    def __call__(self, time: float, width: int, height: int) -> np.ndarray:
        return self.draw(time, width, height)


def draw_caption(picture: np.ndarray, text: str) -> None:
    """Write into the upper left corner, on a darkened ground so that it can be read."""
    (width, height), below = cv2.getTextSize(text, _FONT, 0.5, 1)
    picture[: height + below + 8, : width + 12] //= 3
    cv2.putText(picture, text, (6, height + 5), _FONT, 0.5, (235, 235, 235), 1, cv2.LINE_AA)


def message_panel(width: int, height: int, text: str) -> np.ndarray:
    """A panel with nothing but a message in its middle."""
    picture = np.full((height, width, 3), BACKGROUND, "u1")
    (wide, high), _ = cv2.getTextSize(text, _FONT, 0.5, 1)
    cv2.putText(picture, text, ((width - wide) // 2, (height + high) // 2), _FONT, 0.5, _GREY, 1, cv2.LINE_AA)
    return picture


def _latest_sample_panel(
    name: str, samples: Samples | None, draw: Callable[[dict[str, np.ndarray], int, int], np.ndarray]
) -> Panel:
    """A panel that draws the latest sample at a time, or says that there is none."""

    def panel(time: float, width: int, height: int) -> np.ndarray:
        if samples is None:
            return message_panel(width, height, f"no {name}")
        at = samples.latest(time, _MAX_AGE)
        sample = None if at is None else samples.read(at)
        return message_panel(width, height, f"{name}: no sample") if sample is None else draw(sample, width, height)

    return Panel(panel, samples is not None and len(samples) > 0)


def _fit(picture: np.ndarray, width: int, height: int) -> np.ndarray:
    """A picture resized into the middle of a panel. It keeps its proportions."""
    scale = min(width / picture.shape[1], height / picture.shape[0])
    size = (max(1, round(picture.shape[1] * scale)), max(1, round(picture.shape[0] * scale)))
    resized = cv2.resize(picture, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
    panel = np.full((height, width, 3), BACKGROUND, "u1")
    left, top = (width - size[0]) // 2, (height - size[1]) // 2
    panel[top : top + size[1], left : left + size[0]] = resized
    return panel


def camera_panel(trace: Path, width: int, height: int) -> Panel:
    """The camera's picture, decoded no larger than a panel of this size needs."""
    video = find_samples(trace, "camera", "video.avi")
    if video is not None:
        video.replace("video.avi", lambda channel: smaller(channel, options=FramesOptions(width=width, height=height)))
    return _latest_sample_panel("camera", video, lambda sample, width, height: _fit(sample["video.avi"], width, height))


def range_image_panel(trace: Path) -> Panel:
    """The lidar's ranges by azimuth, ahead in the middle: near is warm, far is dark, no return is black."""
    metadata = read_optional(trace / "lidar" / "lidar.json")
    if metadata is not None and is_points(metadata):
        return _points_panel(trace)
    info = sensor_info(metadata) if metadata is not None else None
    samples = image = find_samples(trace, "_lidar_image", "rng")
    if image is None and info is not None:
        samples = find_samples(trace, "lidar", "rng")
    # All beams have this column shift in common: without it the sensor's rear is not at the edge of the picture.
    ahead = round(np.mean(info.format.pixel_shift_by_row)) if info else 0
    limits = distance_limits(np.array([metres(each["rng"]) for each in read_evenly(samples, 5)] if samples else []))

    def draw(sample: dict[str, np.ndarray], width: int, height: int) -> np.ndarray:
        ranges = sample["rng"] if image or info is None else destagger(sample["rng"][None], info)[0]
        return _range_picture(np.roll(ranges, -ahead, axis=1), limits, width, height)

    return _latest_sample_panel("lidar ranges", samples, draw)


def _points_panel(trace: Path) -> Panel:
    """The same of a lidar that is points, in pixels that hold about one point each."""
    samples = find_samples(trace, "lidar", "xyz", "count")
    clouds = [each["xyz"][: int(each["count"])] for each in read_evenly(samples, 5)] if samples else []
    panorama = Panorama.of(clouds)
    if samples is None or panorama is None:
        return Panel(lambda time, width, height: message_panel(width, height, "no lidar ranges"), False)
    limits = distance_limits(np.concatenate([np.linalg.norm(cloud, axis=1) for cloud in clouds]))

    def draw(sample: dict[str, np.ndarray], width: int, height: int) -> np.ndarray:
        return _range_picture(panorama.image(sample["xyz"][: int(sample["count"])]), limits, width, height)

    return _latest_sample_panel("lidar ranges", samples, draw)


def _range_picture(ranges: np.ndarray, limits: tuple[float, float], width: int, height: int) -> np.ndarray:
    """A range image, u2 (row, column), mm, in colours, u1 (height, width, 3)."""
    # Nearest pixels, because the mean of a near and a far surface is a place where there is nothing.
    ranges = cv2.resize(ranges, (width, height), interpolation=cv2.INTER_NEAREST)
    return colour_distances(metres(ranges), *limits)


def power_panel(trace: Path, product: str) -> Panel:
    """The radar's power, of the product `range_doppler` or `range_azimuth`.

    In a range-Doppler panel range increases to the right and receding is up. In a range-azimuth panel range increases
    upward and azimuth to the right.
    """
    samples = find_samples(trace, f"_radar_{product}", "power")
    limits = decibel_limits(np.array([each["power"] for each in read_evenly(samples, 8)] if samples else []))

    def draw(sample: dict[str, np.ndarray], width: int, height: int) -> np.ndarray:
        power = sample["power"][::-1] if product == "range_doppler" else sample["power"].T[::-1]
        return cv2.resize(colourise(power, *limits, "inferno"), (width, height), interpolation=cv2.INTER_LINEAR)

    return _latest_sample_panel(product.replace("_", "-"), samples, draw)


def birds_eye_panel(trace: Path, max_range: float | None = None) -> Panel:
    """The lidar's points from above with ahead upward, the radar's points over them, and the trajectory so far.

    Args:
        max_range: from the lidar to the nearer edges of the panel, m; None = most points are inside.
    """
    sweeps = find_sweeps(trace)
    edge = max_range or _typical_range(sweeps)
    radar = find_radar_points(trace)
    mount = sensor_mount(trace, "radar")
    recent_positions = _recent_positions(trace)

    def panel(time: float, width: int, height: int) -> np.ndarray:
        if sweeps is None and radar is None:
            return message_panel(width, height, "no points")
        picture = np.full((height, width, 3), BACKGROUND, "u1")
        scale = min(width, height) / 2 / edge
        draw_rings(picture, (width // 2, height // 2), scale, 2 * edge)
        at = sweeps.samples.latest(time, _MAX_AGE) if sweeps else None
        points = sweeps.points(at) if sweeps and at is not None else None
        if points is not None:
            _draw_lidar_points(picture, points, scale)
        _draw_trajectory(picture, recent_positions(time), scale)
        at = radar.latest(time, _MAX_AGE) if radar else None
        if radar and at is not None and (sample := radar.read(at)) is not None:
            count = int(sample["count"])
            points = matmul(sample["xyz"][:count], mount.rotation.T) + mount.translation
            colours = velocity_colours(sample["doppler"][:count]).tolist()
            for (column, row), colour in zip(_pixels(points, picture, scale), colours, strict=True):
                cv2.circle(picture, (int(column), int(row)), 4, colour, 1, cv2.LINE_AA)
            if not count:
                message = "no radar point"
                cv2.putText(picture, message, (6, height - 8), _FONT, 0.4, _GREY, 1, cv2.LINE_AA)
        return picture

    return Panel(panel, (sweeps is not None and len(sweeps.samples) > 0) or (radar is not None and len(radar) > 0))


def _typical_range(sweeps: Sweeps | None) -> float:
    """The horizontal distance within which most points of the recording lie, m."""
    count = len(sweeps.samples) if sweeps else 0
    chosen = np.linspace(0, count - 1, 5).astype(int).tolist() if count else []
    clouds = [points for at in chosen if sweeps and (points := sweeps.points(at, 5000)) is not None]
    joined = np.concatenate(clouds) if clouds else np.empty((0, 3))
    return float(np.clip(np.quantile(np.hypot(joined[:, 0], joined[:, 1]), 0.97), 4, 60)) if len(joined) else 10.0


def _pixels(points: np.ndarray, picture: np.ndarray, scale: float) -> np.ndarray:
    """(column, row) of points in the lidar frame, f8 (N, 2)."""
    height, width = picture.shape[:2]
    return np.stack([width / 2 - points[:, 1] * scale, height / 2 - points[:, 0] * scale], axis=1)


def _draw_lidar_points(picture: np.ndarray, points: np.ndarray, scale: float) -> None:
    """Colour each pixel by its highest point. Ceilings are left out."""
    points = points[points[:, 2] < _CEILING]
    points = points[np.argsort(points[:, 2], kind="stable")]
    pixels = _pixels(points, picture, scale).astype("i4")
    inside = (pixels >= 0).all(axis=1) & (pixels[:, 0] < picture.shape[1]) & (pixels[:, 1] < picture.shape[0])
    picture[pixels[inside, 1], pixels[inside, 0]] = height_colours(points[inside, 2])


def _draw_trajectory(picture: np.ndarray, positions: np.ndarray, scale: float) -> None:
    """A line through past positions, and an arrow that points ahead at the lidar."""
    if len(positions) > 1:
        line = np.rint(_pixels(positions, picture, scale)).astype("i4")
        cv2.polylines(picture, [line], False, _WHITE, 1, cv2.LINE_AA)
    column, row = picture.shape[1] // 2, picture.shape[0] // 2
    arrow = np.array([[column, row - 9], [column - 5, row + 6], [column + 5, row + 6]], "i4")
    cv2.fillPoly(picture, [arrow], _WHITE, cv2.LINE_AA)


def _recent_positions(trace: Path, seconds: float = 10.0) -> Callable[[float], np.ndarray]:
    """A function that gives the positions of the last seconds before a time, in the lidar frame then, f8 (N, 3)."""
    odom = find_samples(trace, "_odom", "pos", "rot")
    if odom is None or not len(odom):
        return lambda time: np.empty((0, 3))
    pos, rot = odom.read_all("pos"), odom.read_all("rot")

    def positions(time: float) -> np.ndarray:
        now = odom.latest(time, _MAX_AGE)
        if now is None:
            return np.empty((0, 3))
        first = int(np.searchsorted(odom.ts, time - seconds))
        return matmul(pos[first : now + 1] - pos[now], rot[now])

    return positions
