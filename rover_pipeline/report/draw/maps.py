"""The map: the occupancy grid under the path, the view from above, and the points of the 3-D view of the page."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from rover_pipeline.errors import FormatError, require_damage, unless_damaged
from rover_pipeline.format.files import read_bounded
from rover_pipeline.format.meta import MAX_SAMPLE_BYTES
from rover_pipeline.format.texts import read_yaml
from rover_pipeline.mapping.ply import read_ply
from rover_pipeline.report.draw.images import EmbeddedImage, embed_image, resize_image
from rover_pipeline.report.read.motion import Track

#: Longest side of the occupancy grid, and width of the view from above, pixels.
_GRID_SIZE, _VIEW_WIDTH = 900, 900
#: A grey that is visible on white and on black.
_GREY = 128
_WALL_OPACITY, _FLOOR_OPACITY = 0.85, 0.16
#: How map_server writes cells that are unknown.
_UNKNOWN = 205
#: Points of the map and of the path in the page: six bytes each, and a third more as text.
_MAP_POINTS, _PATH_POINTS = 24_000, 1500
#: Largest whole number that a coordinate is stored as.
_LEVELS = 65_535
#: Points this much above the highest pose of the lidar belong to a ceiling, which hides the room from above, m.
_CEILING_M = 0.6
#: Shares of the points left out at both ends of each axis when the view is centred: strays through windows.
_STRAYS = 0.03


class FloorPlan(NamedTuple):
    """An occupancy grid as an image.

    Attributes:
        image: u1, (row, column, 4), RGBA, the largest y first.
        low, high: corners of its box, f8 (2,), m.
    """

    image: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, right, bottom and top, m, as Matplotlib wants them."""
        return self.low[0], self.high[0], self.low[1], self.high[1]


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
    known = pixels != _UNKNOWN
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
    factor = max(1, int(np.ceil(max(wall.shape) / _GRID_SIZE)))
    # A wall is one cell thin: a mean over blocks of cells would make it fade.
    opacity = np.maximum(_WALL_OPACITY * _downsample(wall, factor), _FLOOR_OPACITY * _downsample(floor, factor))
    image = np.full((*opacity.shape, 4), _GREY, "u1")
    image[..., 3] = np.round(255 * opacity)
    return FloorPlan(image, low, high)


def _downsample(mask: np.ndarray, factor: int) -> np.ndarray:
    """A mask, bool (row, column), by an integer factor: a block is set if any of its cells is."""
    rows, columns = mask.shape
    padded = np.pad(mask, ((0, -rows % factor), (0, -columns % factor)))
    return padded.reshape(-(-rows // factor), factor, -1, factor).max(axis=(1, 3))


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


class View3d(NamedTuple):
    """What the script of the view draws, in the world frame of `_odom`, m.

    Attributes:
        points, path: base64 of u2 (N, 3), little endian; a coordinate is `low + step * number`.
        low: corner of the box around all of them; step: of a whole number, m.
        centre, radius: of the sphere that most points are in.
        ceiling: height above which points hide what is below; infinity is written as None where there are none.
        shown, whole: points in the page and in the map.
    """

    points: str
    path: str
    low: tuple[float, float, float]
    step: float
    centre: tuple[float, float, float]
    radius: float
    ceiling: float | None
    shown: int
    whole: int


def read_view(folder: Path, track: Track | None) -> View3d | None:
    """The view of `map.ply` in the folder of a map, and of a track in it; None where the map cannot be read."""
    stored = np.empty((0, 3))
    with unless_damaged():
        stored, _ = read_ply(folder / "map.ply")
    whole = len(stored)
    # The same points at every run, and as dense as the map everywhere, which strides along its order would not be.
    chosen = np.random.default_rng(0).permutation(whole)[:_MAP_POINTS]
    xyz = stored[chosen].astype("f8")
    xyz = xyz[np.isfinite(xyz).all(axis=1) & (np.abs(xyz) < 1e6).all(axis=1)]
    if not len(xyz):
        return None
    path = np.empty((0, 3)) if track is None else track.pos[track.valid]
    path = path[np.unique(np.linspace(0, len(path) - 1, min(len(path), _PATH_POINTS)).round().astype(int))]
    both = np.concatenate([xyz, path])
    low, high = both.min(axis=0), both.max(axis=0)
    step = max(float((high - low).max()) / _LEVELS, 1e-6)
    near, far = np.quantile(xyz, (_STRAYS, 1 - _STRAYS), axis=0)
    ceiling = float(path[:, 2].max()) + _CEILING_M if len(path) else np.inf
    centre = (near + far) / 2
    return View3d(
        points=_encoded(xyz, low, step),
        path=_encoded(path, low, step),
        low=_rounded(low),
        step=step,
        centre=_rounded(centre),
        radius=round(max(0.5, float(np.linalg.norm(far - near, axis=0)) / 2), 3),
        ceiling=round(ceiling, 3) if (xyz[:, 2] > ceiling).any() else None,
        shown=len(xyz),
        whole=whole,
    )


def _encoded(xyz: np.ndarray, low: np.ndarray, step: float) -> str:
    numbers = np.clip(np.rint((xyz - _rounded(low)) / step), 0, _LEVELS).astype("<u2")
    return base64.b64encode(numbers.tobytes()).decode()


def _rounded(values: np.ndarray) -> tuple[float, float, float]:
    x, y, z = (round(float(value), 6) for value in values)
    return x, y, z
