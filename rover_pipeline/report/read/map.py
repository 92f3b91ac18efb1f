"""The map: its occupancy grid, its view from above, and its points, read from the files of `_map`."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from rover_pipeline.draw.map_view import FloorPlan, View3d, floor_plan, view_3d
from rover_pipeline.draw.pixels import EmbeddedImage, embed_image, resize_image
from rover_pipeline.errors import FormatError, require_damage, unless_damaged
from rover_pipeline.format.files import read_bounded
from rover_pipeline.format.meta import MAX_SAMPLE_BYTES
from rover_pipeline.format.texts import read_yaml
from rover_pipeline.mapping.grid import UNKNOWN
from rover_pipeline.mapping.ply import read_ply
from rover_pipeline.report.read.motion import Track

#: Width of the view from above, pixels. Layout.
_VIEW_WIDTH = 900


def read_floor_plan(folder: Path) -> FloorPlan | None:
    """The grid that ROS' map_server would load from a folder; None when it is missing or cannot be read."""
    try:
        metadata = read_yaml(folder / "occupancy.yaml")
        data = read_bounded(folder / "occupancy.pgm", MAX_SAMPLE_BYTES, "any grid")
        resolution, (x, y, *_) = float(metadata["resolution"]), metadata["origin"]
        origin = np.array([float(x), float(y)])
    except (OSError, FormatError, KeyError, TypeError, ValueError, ArithmeticError) as error:
        require_damage(error)
        return None
    pixels = _decode(data, cv2.IMREAD_GRAYSCALE)
    if pixels is None or not 0 < resolution < 1e3 or not (np.abs(origin) < 1e6).all():
        return None
    known = pixels != UNKNOWN
    if metadata.get("negate"):
        pixels = 255 - pixels
    rows, columns = np.flatnonzero(known.any(axis=1)), np.flatnonzero(known.any(axis=0))
    if not len(rows):
        return None
    crop = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    height = len(pixels)
    low = origin + resolution * np.array([columns[0], height - 1 - rows[-1]])
    high = origin + resolution * np.array([columns[-1] + 1, height - rows[0]])
    wall, floor = (pixels[crop] < 128) & known[crop], (pixels[crop] >= 128) & known[crop]
    return floor_plan(wall, floor, low, high)


def _decode(data: bytes, flags: int) -> np.ndarray | None:
    """The picture in a file; None when it cannot be decoded. OpenCV raises an error for a header of many gigabytes."""
    try:
        return cv2.imdecode(np.frombuffer(data, "u1"), flags) if data else None
    except cv2.error:
        return None


def read_map_view(folder: Path) -> EmbeddedImage | None:
    """The view of the map from above, `bev.png`, made smaller; None when it is missing or cannot be read."""
    image = None
    with unless_damaged():
        image = _decode(read_bounded(folder / "bev.png", MAX_SAMPLE_BYTES, "any picture"), cv2.IMREAD_COLOR_RGB)
    return None if image is None else embed_image(resize_image(image, _VIEW_WIDTH))


def read_view(folder: Path, track: Track | None) -> View3d | None:
    """The view of `map.ply` in the folder of a map, and of a track in it; None where the map cannot be read."""
    stored = np.empty((0, 3))
    with unless_damaged():
        stored, _ = read_ply(folder / "map.ply")
    return view_3d(stored, np.empty((0, 3)) if track is None else track.pos[track.valid])
