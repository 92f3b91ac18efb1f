"""Pictures at another size, without what the lens bends."""

from __future__ import annotations

import functools

import cv2
import numpy as np

from rover_pipeline.camera.lens import Lens


def resize(picture: np.ndarray, width: int, height: int) -> np.ndarray:
    """All of a picture at another size: pixels are averaged where it shrinks. u1 (height, width, 3) in and out."""
    if picture.shape[:2] == (height, width):
        return picture
    shrinks = picture.shape[0] >= height and picture.shape[1] >= width
    return cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)


def undistort(picture: np.ndarray, lens: Lens) -> np.ndarray:
    """What `lens.straight()` would have seen; black where the camera did not look.

    Args:
        picture: u1 (height, width, 3), of the lens's size.
    """
    places, fractions = _places(lens)
    return cv2.remap(picture, places, fractions, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT, borderValue=0)


@functools.lru_cache(maxsize=4)
def _places(lens: Lens) -> tuple[np.ndarray, np.ndarray]:
    """Where each pixel without distortion is in the picture, in OpenCV's fixed point."""
    x, y = lens.straight().directions()
    columns, rows = lens.pixels(x, y)
    # Beyond, the distortion is not that of any lens: it would show what is nearer the middle a second time.
    columns[np.hypot(x, y) > lens.widest] = -2.0
    found: tuple[np.ndarray, np.ndarray] = cv2.convertMaps(columns.astype("f4"), rows.astype("f4"), cv2.CV_16SC2)
    return found
