"""Pixels of the page and of the preview: colours of distances, power, heights and speeds, and images in data URLs."""

from __future__ import annotations

import base64
from typing import NamedTuple

import cv2
import numpy as np
from matplotlib import colormaps

from rover_pipeline.camera.pictures import resize
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.mapping.grid import encoded

_WEBP_QUALITY = 82
#: Colours of power span at most this many decibels below the strongest cell; they end at the noise if that is higher.
_SPAN_DB = 70.0
#: Heights in the frame of the lidar at the two ends of the colour scale, m.
_HEIGHTS = (-1.8, 1.5)


class EmbeddedImage(NamedTuple):
    """A data URL with an image, and the size of the image in pixels."""

    url: str
    width: int
    height: int


def embed_image(image: np.ndarray) -> EmbeddedImage:
    """Encode an image, u1 (row, column, 3) RGB or (row, column, 4) RGBA."""
    code = cv2.COLOR_RGB2BGR if image.shape[2] == 3 else cv2.COLOR_RGBA2BGRA
    data = encoded(".webp", cv2.cvtColor(image, code), (cv2.IMWRITE_WEBP_QUALITY, _WEBP_QUALITY))
    text = base64.b64encode(data).decode()
    return EmbeddedImage(f"data:image/webp;base64,{text}", image.shape[1], image.shape[0])


def resize_image(image: np.ndarray, width: int, aspect: float | None = None) -> np.ndarray:
    """Resize an image to `width` and the aspect ratio, width / height; without one it is only ever made smaller."""
    height, own_width = image.shape[:2]
    new_width = min(width, own_width) if aspect is None else width
    new_height = max(1, round(new_width / (aspect or own_width / height)))
    return resize(image, new_width, new_height)


def colourise(values: np.ndarray, low: float, high: float, colour_map: str) -> np.ndarray:
    """Values as colours, u1 (row, column, 3). NaN is black.

    Args:
        values: float, (row, column).
        low, high: values with the first and the last colour.
        colour_map: a name that Matplotlib knows.
    """
    fraction = np.clip((values - low) / max(high - low, 1e-9), 0, 1)
    image = colormaps[colour_map](np.nan_to_num(fraction), bytes=True)[..., :3].copy()
    image[~np.isfinite(values)] = 0
    return image


def metres(ranges: np.ndarray) -> np.ndarray:
    """Ranges as they are stored, u2, mm, of any shape, as f4, m; NaN where there is no return."""
    return np.where((ranges == 0) | (ranges == CLIPPED), np.float32(np.nan), ranges.astype("f4") / 1000)


def distance_limits(distances: np.ndarray) -> tuple[float, float]:
    """Distances with the first and the last colour, m. NaN does not count."""
    seen = distances[np.isfinite(distances)]
    near, far = np.percentile(seen, (2, 98)) if len(seen) else (0.5, 50.0)
    if far < 1.2 * near:  # one wall all around: what stands before it is to be seen all the same
        near, far = seen.min(), max(seen.max(), 1.01 * seen.min())
    return near, far


def colour_distances(distances: np.ndarray, near: float, far: float) -> np.ndarray:
    """Distances, f4 (row, column), m, in colours by their logarithm, u1 (row, column, 3): near is red, NaN is black."""
    return colourise(np.log(np.maximum(distances, 1e-3)), np.log(near), np.log(far), "turbo_r")


def decibel_limits(power: np.ndarray) -> tuple[float, float]:
    """Values with the first and the last colour of several frames, dB: at the noise, or `_SPAN_DB` below the last."""
    finite = power[np.isfinite(power)]
    if not len(finite):
        return -_SPAN_DB, 0.0
    high = float(finite.max())
    return max(high - _SPAN_DB, float(np.median(finite))), high


def height_colours(z: np.ndarray) -> np.ndarray:
    """Colours of heights in the frame of the lidar, m, (N,), as u1 RGB (N, 3): low is blue, high is red."""
    low, high = _HEIGHTS
    levels = np.rint(255 * np.clip(np.nan_to_num((z - low) / (high - low)), 0, 1)).astype("u1")
    return cv2.cvtColor(cv2.applyColorMap(levels, cv2.COLORMAP_TURBO), cv2.COLOR_BGR2RGB).reshape(-1, 3)


def velocity_colours(doppler: np.ndarray, full: float = 2.0) -> np.ndarray:
    """Colours of radial velocities, m/s, (N,), as u1 RGB (N, 3): receding is red, approaching is blue.

    Args:
        full: speed from which on the colour does not change any more, m/s.
    """
    share = np.clip(np.nan_to_num(doppler) / full, -1, 1)[:, None]
    ends = np.where(share > 0, [[255, 60, 60]], [[70, 110, 255]])
    return np.rint(255 + (ends - 255) * np.abs(share)).astype("u1")


def draw_rings(picture: np.ndarray, centre: tuple[int, int], scale: float, reach: float, size: int = 1) -> None:
    """Rings at round distances, with labels.

    Args:
        centre: column and row; scale: pixels in a metre; reach: of the largest ring, m.
        size: pixels of a line.
    """
    step = next((each for each in (1, 2, 5, 10, 20, 50) if reach / each <= 5), 100)
    for distance in range(step, int(reach) + 1, step):
        radius = round(distance * scale)
        cv2.circle(picture, centre, radius, (60, 64, 70), size, cv2.LINE_AA)
        place = (centre[0] + 4 * size, centre[1] - radius + 14 * size)
        cv2.putText(
            picture, f"{distance} m", place, cv2.FONT_HERSHEY_SIMPLEX, 0.38 * size, (140, 146, 154), size, cv2.LINE_AA
        )


def polar_to_cartesian(
    values: np.ndarray, azimuth: np.ndarray, ranges: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """A polar image as a bird's-eye view: ahead is up, the sensor is in the middle of the lower edge.

    Args:
        values: float, (azimuth, range).
        azimuth: of each row, radians, ascending, positive to the right; ranges: of each column, m, ascending.
        width: of the bird's-eye view, pixels.

    Returns:
        Values, f8 (row, column), and whether the sensor measures there, bool (row, column).
    """
    max_range = float(ranges[-1])
    max_azimuth = float(np.abs(azimuth).max())
    half_width = float(np.sin(np.clip(max_azimuth, 0, np.pi / 2))) * max_range
    behind = max(0.0, -float(np.cos(min(max_azimuth, np.pi))))  # share of the maximum range
    pixel = 2 * half_width / width
    y = (np.arange(width) + 0.5) * pixel - half_width
    x = max_range - (np.arange(max(1, round((1 + behind) * max_range / pixel))) + 0.5) * pixel
    right, ahead = np.meshgrid(y, x)
    distance, angle = np.hypot(right, ahead), np.arctan2(right, ahead)
    row = np.rint(np.interp(angle, azimuth, np.arange(len(azimuth)))).astype(int)
    column = np.rint(np.interp(distance, ranges, np.arange(len(ranges)))).astype(int)
    # The field of view is symmetric: the first of an even number of azimuth bins has no partner on the right.
    low, high = float(azimuth[0]), float(azimuth[-1])
    if low < 0 < high:
        low, high = -min(-low, high), min(-low, high)
    inside = (distance <= max_range) & (angle >= low) & (angle <= high)
    return values[row, column].astype("f8"), inside
