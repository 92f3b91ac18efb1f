"""What the preview shows at a time, panel by panel: arrays of pixels with a caption."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import cv2
import numpy as np

from rover_pipeline.export.colours import by_height, by_velocity, mapped
from rover_pipeline.export.scene import Samples, Sweeps, find, find_sweeps, mount, spread, text

BACKGROUND = (24, 26, 30)
_INK = (235, 235, 235)
_FONT = cv2.FONT_HERSHEY_SIMPLEX
#: A sample older than this is not shown any more, s.
_OLDEST = 0.5
#: Points higher above the lidar are not seen from above, m.
_CEILING = 1.0
#: Decibels below the strongest power of the recording at which colours end.
_SPAN_DB = 50.0


class Panel(Protocol):
    """A picture of a size in pixels that shows a sensor at a time."""

    def __call__(self, time: float, width: int, height: int) -> np.ndarray: ...


def caption(picture: np.ndarray, words: str, scale: float = 0.5) -> None:
    """Write into the upper left corner, readable on anything."""
    (wide, high), below = cv2.getTextSize(words, _FONT, scale, 1)
    picture[: high + below + 8, : wide + 12] //= 3
    cv2.putText(picture, words, (6, high + 5), _FONT, scale, _INK, 1, cv2.LINE_AA)


def nothing(width: int, height: int, words: str) -> np.ndarray:
    """A panel that only says something."""
    picture = np.full((height, width, 3), BACKGROUND, "u1")
    (wide, high), _ = cv2.getTextSize(words, _FONT, 0.5, 1)
    cv2.putText(
        picture, words, ((width - wide) // 2, (height + high) // 2), _FONT, 0.5, (120, 120, 120), 1, cv2.LINE_AA
    )
    return picture


def _sampled(
    name: str, samples: Samples | None, draw: Callable[[dict[str, np.ndarray], int, int], np.ndarray]
) -> Panel:
    """A panel of the last sample at a time; it says when there is none."""

    def panel(time: float, width: int, height: int) -> np.ndarray:
        if samples is None:
            return nothing(width, height, f"no {name}")
        at = samples.at(time, _OLDEST)
        found = None if at is None else samples.read(at)
        return nothing(width, height, f"{name}: no sample") if found is None else draw(found, width, height)

    return panel


def _fitted(picture: np.ndarray, width: int, height: int) -> np.ndarray:
    """All of a picture in its proportions, in the middle of a panel."""
    share = min(width / picture.shape[1], height / picture.shape[0])
    size = (max(1, round(picture.shape[1] * share)), max(1, round(picture.shape[0] * share)))
    small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA if share < 1 else cv2.INTER_LINEAR)
    panel = np.full((height, width, 3), BACKGROUND, "u1")
    left, top = (width - size[0]) // 2, (height - size[1]) // 2
    panel[top : top + size[1], left : left + size[0]] = small
    return panel


def camera(trace: Path, width: int, height: int) -> Panel:
    """The camera's picture, decoded no larger than a panel of this size needs."""
    from rover_pipeline.camera.options import FramesOptions
    from rover_pipeline.camera.steps import smaller

    video = find(trace, "camera", "video.avi")
    if video is not None:
        video.replace("video.avi", lambda channel: smaller(channel, options=FramesOptions(width=width, height=height)))
    return _sampled("camera", video, lambda found, width, height: _fitted(found["video.avi"], width, height))


def ranges(trace: Path) -> Panel:
    """The lidar's ranges by azimuth, ahead in the middle: near is warm, far is dark, no return is black."""
    from rover_pipeline.lidar.geometry import destagger, sensor_info

    metadata = text(trace / "lidar" / "lidar.json")
    info = sensor_info(metadata) if metadata is not None else None
    made = find(trace, "_lidar_image", "rng")
    found = made if made or info is None else find(trace, "lidar", "rng")
    # Columns of equal azimuth: those that the encoder counts, off by what all beams have in common.
    ahead = round(np.mean(info.format.pixel_shift_by_row)) if info else 0
    farthest = 10_000.0
    if found is not None:
        hits = [each["rng"][(each["rng"] > 0) & (each["rng"] < 65535)] for each in spread(found, 5)]
        joined = np.concatenate(hits) if hits else np.empty(0)
        farthest = float(np.quantile(joined, 0.98)) if len(joined) else farthest

    def draw(sample: dict[str, np.ndarray], width: int, height: int) -> np.ndarray:
        image = sample["rng"] if made or info is None else destagger(sample["rng"][None], info)[0]
        # Nearest pixels: between a near and a far surface there is nothing at the mean.
        image = cv2.resize(np.roll(image, -ahead, axis=1), (width, height), interpolation=cv2.INTER_NEAREST)
        picture = mapped(1 - np.sqrt(image / farthest), cv2.COLORMAP_TURBO)
        picture[(image == 0) | (image == 65535)] = 0
        return picture

    return _sampled("lidar ranges", found, draw)


def power(trace: Path, name: str) -> Panel:
    """A radar's power: of range and Doppler what is far to the right, what recedes above; of range and azimuth what is
    far above, what is to the right to the right."""
    found = find(trace, f"_radar_{name}", "power")
    top = max((float(each["power"].max()) for each in spread(found, 8)), default=0.0) if found else 0.0

    def draw(found: dict[str, np.ndarray], width: int, height: int) -> np.ndarray:
        levels = found["power"][::-1] if name == "range_doppler" else found["power"].T[::-1]
        share = (levels - (top - _SPAN_DB)) / _SPAN_DB
        return cv2.resize(mapped(share, cv2.COLORMAP_VIRIDIS), (width, height), interpolation=cv2.INTER_LINEAR)

    return _sampled(name.replace("_", "-"), found, draw)


def from_above(trace: Path, reach: float | None) -> Panel:
    """The lidar's points from above, ahead is up, the radar's points over them, and the way of the last seconds.

    Args:
        reach: from the lidar to the nearer edges of the panel, m; None = most points are within.
    """
    sweeps = find_sweeps(trace)
    near = reach or _most(sweeps)
    dots = find(trace, "_radar_points", "xyz", "doppler", "count")
    place = mount(trace, "radar")
    way = _way(trace)

    def panel(time: float, width: int, height: int) -> np.ndarray:
        if sweeps is None and dots is None:
            return nothing(width, height, "no points")
        picture = np.full((height, width, 3), BACKGROUND, "u1")
        scale = min(width, height) / 2 / near
        _rings(picture, scale, near)
        at = sweeps.samples.at(time, _OLDEST) if sweeps else None
        points = sweeps.points(at) if sweeps and at is not None else None
        if points is not None:
            _splash(picture, points, scale)
        _trail(picture, way(time), scale)
        at = dots.at(time, _OLDEST) if dots else None
        if dots and at is not None and (found := dots.read(at)) is not None:
            n = int(found["count"])
            places = found["xyz"][:n] @ place.rotation.T + place.translation
            colours = by_velocity(found["doppler"][:n])
            for (column, row), colour in zip(_pixels(places, picture, scale), colours.tolist(), strict=True):
                cv2.circle(picture, (int(column), int(row)), 4, colour, 1, cv2.LINE_AA)
        return picture

    return panel


def _most(sweeps: Sweeps | None) -> float:
    """A distance that most points of the recording are within, m."""
    count = len(sweeps.samples) if sweeps else 0
    places = np.linspace(0, count - 1, 5).astype(int).tolist() if count else []
    some = [points for at in places if sweeps and (points := sweeps.points(at, 5000)) is not None]
    joined = np.concatenate(some) if some else np.empty((0, 3))
    return float(np.clip(np.quantile(np.hypot(joined[:, 0], joined[:, 1]), 0.97), 4, 60)) if len(joined) else 10.0


def _pixels(points: np.ndarray, picture: np.ndarray, scale: float) -> np.ndarray:
    """(column, row) of points of the lidar frame, f8 (N, 2)."""
    height, width = picture.shape[:2]
    return np.stack([width / 2 - points[:, 1] * scale, height / 2 - points[:, 0] * scale], axis=1)


def _splash(picture: np.ndarray, points: np.ndarray, scale: float) -> None:
    """Points by height: the highest one of a pixel is seen, but no ceilings."""
    points = points[points[:, 2] < _CEILING]
    points = points[np.argsort(points[:, 2], kind="stable")]
    at = _pixels(points, picture, scale).astype("i4")
    inside = (at >= 0).all(axis=1) & (at[:, 0] < picture.shape[1]) & (at[:, 1] < picture.shape[0])
    picture[at[inside, 1], at[inside, 0]] = by_height(points[inside, 2])


def _rings(picture: np.ndarray, scale: float, reach: float) -> None:
    middle = (picture.shape[1] // 2, picture.shape[0] // 2)
    step = 2 if reach <= 8 else 5 if reach <= 25 else 20
    for metres in range(step, int(2 * reach) + 1, step):
        cv2.circle(picture, middle, round(metres * scale), (60, 64, 70), 1, cv2.LINE_AA)
        cv2.putText(
            picture, f"{metres} m", (middle[0] + 4, middle[1] - round(metres * scale) - 3), _FONT, 0.35,
            (130, 134, 140), 1, cv2.LINE_AA,
        )  # fmt: skip


def _trail(picture: np.ndarray, way: np.ndarray, scale: float) -> None:
    """The way behind, and an arrow ahead at the lidar."""
    if len(way) > 1:
        line = np.rint(_pixels(way, picture, scale)).astype("i4")
        cv2.polylines(picture, [line], False, (255, 255, 255), 1, cv2.LINE_AA)
    column, row = picture.shape[1] // 2, picture.shape[0] // 2
    arrow = np.array([[column, row - 9], [column - 5, row + 6], [column + 5, row + 6]], "i4")
    cv2.fillPoly(picture, [arrow], (255, 255, 255), cv2.LINE_AA)


def _way(trace: Path, seconds: float = 10.0) -> Callable[[float], np.ndarray]:
    """The places of the last seconds before a time, in the lidar frame at that time, f8 (N, 3)."""
    odom = find(trace, "_odom", "pos", "rot")
    if odom is None or not len(odom):
        return lambda time: np.empty((0, 3))
    pos, rot = odom.all("pos"), odom.all("rot")

    def way(time: float) -> np.ndarray:
        now = odom.at(time, _OLDEST)
        if now is None:
            return np.empty((0, 3))
        first = int(np.searchsorted(odom.ts, time - seconds))
        behind: np.ndarray = (pos[first : now + 1] - pos[now]) @ rot[now]
        return behind

    return way
