"""Images that are part of the page, as WebP in data URLs."""

from __future__ import annotations

import base64
from typing import NamedTuple

import cv2
import numpy as np
from matplotlib import colormaps

from rover_pipeline.camera.pictures import resize

_WEBP_QUALITY = 82


class EmbeddedImage(NamedTuple):
    """A data URL with an image, and the size of the image in pixels."""

    url: str
    width: int
    height: int


def embed_image(image: np.ndarray) -> EmbeddedImage:
    """Encode an image, u1 (row, column, 3) RGB or (row, column, 4) RGBA."""
    code = cv2.COLOR_RGB2BGR if image.shape[2] == 3 else cv2.COLOR_RGBA2BGRA
    done, data = cv2.imencode(".webp", cv2.cvtColor(image, code), [cv2.IMWRITE_WEBP_QUALITY, _WEBP_QUALITY])
    if not done:
        raise ValueError(f"OpenCV cannot write a WebP of {image.shape}")
    text = base64.b64encode(data.tobytes()).decode()
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
