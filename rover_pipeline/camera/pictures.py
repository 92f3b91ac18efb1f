"""Resizing, undistortion and encoding of pictures."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import cv2
import numpy as np

from rover_pipeline.camera.lens import Lens


def resize(picture: np.ndarray, width: int, height: int) -> np.ndarray:
    """The whole picture at another size. Pixels are averaged if it gets smaller. u1 (height, width, 3) in and out."""
    if picture.shape[:2] == (height, width):
        return picture
    gets_smaller = picture.shape[0] >= height and picture.shape[1] >= width
    return cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA if gets_smaller else cv2.INTER_LINEAR)


def undistort(picture: np.ndarray, lens: Lens) -> np.ndarray:
    """The picture of a camera with the intrinsics `lens.undistorted()`; black outside of the camera's view.

    Args:
        picture: u1 (height, width, 3), of the lens's size.
    """
    pixels, fractions = _undistortion_map(lens)
    return cv2.remap(picture, pixels, fractions, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT, borderValue=0)


@functools.lru_cache(maxsize=4)
def _undistortion_map(lens: Lens) -> tuple[np.ndarray, np.ndarray]:
    """Pixel of the picture for each pixel without distortion, in OpenCV's fixed-point format."""
    x, y = lens.undistorted().directions()
    columns, rows = lens.pixels(x, y)
    # What the lens does not see is taken from outside of the picture.
    columns, rows = np.nan_to_num(columns, nan=-2.0), np.nan_to_num(rows, nan=-2.0)
    return cv2.convertMaps(columns.astype("f4"), rows.astype("f4"), cv2.CV_16SC2)


def encode_picture(suffix: str, image: np.ndarray, settings: Sequence[int] = ()) -> bytes:
    """The file of a picture, u1 or u2 (row, column), or u1 (row, column, BGR or BGRA), with settings of OpenCV."""
    done, data = cv2.imencode(suffix, np.ascontiguousarray(image), settings)
    if not done:
        raise ValueError(f"OpenCV cannot write a {suffix} of {image.shape}")
    return data.tobytes()
