"""JPEG pictures as samples, shared by the `mjpg` and `jpg` formats. Arrays are RGB; OpenCV's are BGR."""

from __future__ import annotations

import cv2
import numpy as np

QUALITY = 95


def encode(image: np.ndarray, quality: int = QUALITY) -> bytes:
    """u1 RGB, (height, width, 3), as a JPEG file."""
    done, data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not done:
        raise ValueError("OpenCV could not encode the image")
    return data.tobytes()


def decode(data: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """A JPEG file as u1 RGB of the given (height, width, 3).

    Raises:
        ValueError: not a whole JPEG of that size.
    """
    # The decoder fills what is missing from a cut-off picture with grey and calls it a success.
    if not data.startswith(b"\xff\xd8"):
        raise ValueError("does not begin like a JPEG")
    if b"\xff\xd9" not in data[-64:]:
        raise ValueError("is a JPEG without its end")
    size = frame_size(data)
    if size != tuple(shape[:2]):
        raise ValueError(f"is a JPEG of {size}, not {list(shape[:2])} (height, width)")
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION)
    except cv2.error as error:
        raise ValueError(f"cannot be decoded: {error.err}") from error
    if image is None or image.shape != tuple(shape):
        raise ValueError("cannot be decoded as a JPEG")
    return image


def frame_size(data: bytes) -> tuple[int, int] | None:
    """(height, width) from the frame header (ITU-T T.81, B.2.2), None when there is none.

    Read before decoding, so that a damaged header cannot ask for gigabytes.
    """
    position = 2
    while position + 9 <= len(data) and data[position] == 0xFF:
        marker, length = data[position + 1], int.from_bytes(data[position + 2 : position + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height = int.from_bytes(data[position + 5 : position + 7], "big")
            return height, int.from_bytes(data[position + 7 : position + 9], "big")
        position += 2 + length
    return None


def check_spec(shape: tuple[int, ...], type: str) -> str:
    """What keeps a channel of this shape and type from holding RGB pictures; empty when nothing does."""
    if type != "u1" or len(shape) != 3 or shape[2] != 3:
        return f"holds RGB pictures: u1 of [height, width, 3], not {type} of {list(shape)}"
    return ""
