"""Pictures of the map: the occupancy grid to draw a path on, and the view from above."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml

from rover_pipeline.report.pictures import shrink

#: Longest side of a grid in the page, pixels.
_LONGEST = 900
#: Grey that is seen on white and on black.
_GREY = 128
_WALL, _FLOOR = 0.85, 0.16  # opacity


class FloorPlan(NamedTuple):
    """An occupancy grid as a picture.

    Attributes:
        image: u1, (row, column, 4), RGBA, the highest y first.
        low, high: corners of its box, f8 (2,), m.
    """

    image: np.ndarray
    low: np.ndarray
    high: np.ndarray


def read_floor_plan(folder: Path) -> FloorPlan | None:
    """The grid that ROS' map_server would load from a folder; None when there is none that can be read."""
    try:
        described = yaml.safe_load((folder / "occupancy.yaml").read_text(encoding="utf-8"))
        data = (folder / "occupancy.pgm").read_bytes()
        edge, (x, y, *_) = float(described["resolution"]), described["origin"]
        corner = np.array([float(x), float(y)])
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, ValueError):
        return None
    pixels = decode_grey(data)
    if pixels is None or not 0 < edge < 1e3 or not (np.abs(corner) < 1e6).all():
        return None
    seen = pixels != 205  # map_server's unknown
    if described.get("negate"):
        pixels = 255 - pixels
    rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
    if not len(rows):
        return None
    part = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    height = len(pixels)
    low = corner + edge * np.array([columns[0], height - 1 - rows[-1]])
    high = corner + edge * np.array([columns[-1] + 1, height - rows[0]])
    wall, floor = (pixels[part] < 128) & seen[part], (pixels[part] >= 128) & seen[part]
    factor = max(1, int(np.ceil(max(wall.shape) / _LONGEST)))
    # A wall is one cell thin: it is kept when cells are drawn together, where a mean would make it fade.
    opacity = np.maximum(_WALL * shrink(wall, factor), _FLOOR * shrink(floor, factor))
    image = np.full((*opacity.shape, 4), _GREY, "u1")
    image[..., 3] = np.round(255 * opacity)
    return FloorPlan(image, low, high)


def decode_grey(data: bytes) -> np.ndarray | None:
    """A grey picture, u1 (row, column); None when it is none."""
    import cv2

    return cv2.imdecode(np.frombuffer(data, "u1"), cv2.IMREAD_GRAYSCALE) if data else None
