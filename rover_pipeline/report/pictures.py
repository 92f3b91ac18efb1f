"""Pictures that travel inside the page, as WebP in data URLs."""

from __future__ import annotations

import base64
from typing import NamedTuple

import numpy as np

_QUALITY = 82


class Picture(NamedTuple):
    """A picture of a page: its data URL and its size in pixels."""

    url: str
    width: int
    height: int


def encoded(image: np.ndarray) -> Picture:
    """A picture of u1 (row, column, 3) RGB or (row, column, 4) RGBA."""
    import cv2

    code = cv2.COLOR_RGB2BGR if image.shape[2] == 3 else cv2.COLOR_RGBA2BGRA
    done, data = cv2.imencode(".webp", cv2.cvtColor(image, code), [cv2.IMWRITE_WEBP_QUALITY, _QUALITY])
    if not done:
        raise ValueError(f"OpenCV cannot write a WebP of {image.shape}")
    text = base64.b64encode(data.tobytes()).decode()
    return Picture(f"data:image/webp;base64,{text}", image.shape[1], image.shape[0])


def fitted(image: np.ndarray, width: int, aspect: float | None = None) -> np.ndarray:
    """A picture no wider than `width`, and as high as `aspect`, width over height, says; its own unless given."""
    import cv2

    own = image.shape[1] / image.shape[0]
    across = min(width, image.shape[1]) if aspect is None else width
    size = (across, max(1, round(across / (aspect or own))))
    if size == (image.shape[1], image.shape[0]):
        return image
    smaller = size[0] <= image.shape[1] and size[1] <= image.shape[0]
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA if smaller else cv2.INTER_LINEAR)


def coloured(values: np.ndarray, low: float, high: float, palette: str) -> np.ndarray:
    """Values as colours, u1 (row, column, 3). NaN is black.

    Args:
        values: float, (row, column).
        low, high: values of the first and the last colour.
        palette: name of a colour map of Matplotlib's.
    """
    from matplotlib import colormaps

    share = np.clip((values - low) / max(high - low, 1e-9), 0, 1)
    image = colormaps[palette](np.nan_to_num(share), bytes=True)[..., :3].copy()
    image[~np.isfinite(values)] = 0
    return image


def fan(values: np.ndarray, azimuth: np.ndarray, ranges: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """A polar image seen from above: straight ahead upward, the sensor in the middle of the lower edge.

    Args:
        values: float, (azimuth, range).
        azimuth: of each row, radians, to the right, rising; ranges: of each column, m, rising.
        width: of the picture, pixels.

    Returns:
        Values f8 (row, column) and bool (row, column), where there is one.
    """
    reach = float(ranges[-1])
    side = float(np.sin(np.clip(np.abs(azimuth).max(), 0, np.pi / 2)))
    behind = max(0.0, -float(np.cos(min(np.abs(azimuth).max(), np.pi))))
    step = 2 * side * reach / width
    right = (np.arange(width) + 0.5) * step - side * reach
    ahead = reach - (np.arange(max(1, round((1 + behind) * reach / step))) + 0.5) * step
    x, y = np.meshgrid(right, ahead)
    distance, angle = np.hypot(x, y), np.arctan2(x, y)
    row = np.rint(np.interp(angle, azimuth, np.arange(len(azimuth)))).astype(int)
    column = np.rint(np.interp(distance, ranges, np.arange(len(ranges)))).astype(int)
    # As far to the left as to the right: the first of an even number of bins has no partner.
    low, high = float(azimuth[0]), float(azimuth[-1])
    if low < 0 < high:
        low, high = -min(-low, high), min(-low, high)
    inside = (distance <= reach) & (angle >= low) & (angle <= high)
    return values[row, column].astype("f8"), inside


def shrink(marks: np.ndarray, factor: int) -> np.ndarray:
    """Marks, bool (row, column), with blocks of `factor` cells drawn together: marked when any of them is. f8."""
    if factor == 1:
        return marks.astype("f8")
    rows, columns = (-(-size // factor) for size in marks.shape)
    padded = np.zeros((rows * factor, columns * factor), bool)
    padded[: marks.shape[0], : marks.shape[1]] = marks
    return padded.reshape(rows, factor, columns, factor).any(axis=(1, 3)).astype("f8")
