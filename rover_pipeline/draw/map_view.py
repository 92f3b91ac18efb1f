"""Maps: the picture of `_map` from above, the floor plan under a path, and the points of the page's 3-D view."""

from __future__ import annotations

import base64
from typing import NamedTuple

import cv2
import numpy as np

from rover_pipeline.camera.pictures import encode_picture
from rover_pipeline.draw.theme import CEILING_M

#: Limits of the picture's longer side, pixels. Layout.
_MAX_SIDE, _MIN_SIDE = 2000, 900
#: Height of the strip below the picture that holds the scale and the colours, pixels. Layout.
_STRIP = 56
#: Colours of the picture, as blue, green and red, as OpenCV wants them. Layout.
_WHITE, _BLANK, _INK = (255, 255, 255), (225, 225, 225), (40, 40, 40)
_PATH, _START, _END = (40, 40, 220), (60, 160, 40), (200, 60, 40)
#: OpenCV draws at coordinates in fixed point, with this number of bits for fractions of a pixel. Layout.
_BITS = 4
#: Longest side of a floor plan, pixels. Layout.
_PLAN_SIZE = 900
#: A grey that is visible on white and on black, and opacities of walls and floors. Layout.
_GREY = 128
_WALL_OPACITY, _FLOOR_OPACITY = 0.85, 0.16
#: Points of the map and of the path in the page: six bytes each, and a third more as text. Layout.
_MAP_POINTS, _PATH_POINTS = 24_000, 1500
#: Largest whole number that a coordinate is stored as. Layout.
_LEVELS = 65_535
#: Maximum height of a surface that is drawn as floor, m, against a floor with the colours of obstacles. Tuned: by hand.
_FLOOR_M = 0.15


def map_picture(
    tops: np.ndarray,  # u1 (row, column), the highest surface of each cell, in 255ths of `top`; 0 = none.
    free: np.ndarray,  # bool (row, column), cells in which nothing stands.
    unknown: np.ndarray,  # bool (row, column), cells that were not observed.
    corner: np.ndarray,  # the lower left one of the first cell, f8 (2,), m.
    edge: float,  # length of that of a cell, m.
    path: np.ndarray,  # f8 (N, 2), m, positions of the lidar in time order; a row of NaN interrupts the line.
    low: float,  # height at which the grid's band begins, m above the floor.
    top: float,  # height at which it ends.
) -> bytes:
    """A PNG of a grid from above: x to the right, y up, surfaces coloured by their height, the floor white. A surface
    in the band whose cell is free was there for a short time only, so it is drawn as floor."""
    height, width = tops.shape
    zoom = _zoom(max(height, width))
    size = (max(1, round(width * zoom)), max(1, round(height * zoom)))
    colours = _coloured(tops)
    heights = tops / 255 * top
    colours[(heights <= _FLOOR_M) | ((heights >= low) & free)] = 255
    colours[(tops == 0) & unknown] = _BLANK
    colours = np.ascontiguousarray(colours[::-1])
    # Pixels of a reduced picture are means of cells, so that thin walls stay visible.
    image = cv2.resize(colours, size, interpolation=cv2.INTER_NEAREST if zoom >= 1 else cv2.INTER_AREA)
    pixels = (path - corner) / edge * zoom
    _draw_path(image, np.stack([pixels[:, 0], size[1] - pixels[:, 1]], -1))
    strip = _strip(max(size[0], 420), edge / zoom, top)
    image = cv2.copyMakeBorder(image, 0, 0, 0, strip.shape[1] - size[0], cv2.BORDER_CONSTANT, value=_BLANK)
    return encode_picture(".png", np.vstack([image, strip]))


def _coloured(levels: np.ndarray) -> np.ndarray:
    """BGR of levels, u1 (row, column): low is light, high is dark."""
    return cv2.applyColorMap(255 - levels, cv2.COLORMAP_VIRIDIS)


def _zoom(cells: int) -> float:
    """Pixels for each cell of the longer side: a whole number, or one divided by a whole number."""
    if cells > _MAX_SIDE:
        return 1 / int(np.ceil(cells / _MAX_SIDE))
    return max(1, min(_MAX_SIDE // cells, int(np.ceil(_MIN_SIDE / cells))))


def _draw_path(image: np.ndarray, pixels: np.ndarray) -> None:
    known = np.isfinite(pixels).all(-1)
    runs = np.split(np.arange(len(pixels)), np.flatnonzero(known[1:] != known[:-1]) + 1)
    points = np.round(np.where(known[:, None], pixels, 0) * 2**_BITS).astype("i4")
    lines = [points[run] for run in runs if known[run[0]]]
    for colour, thickness in ((_WHITE, 5), (_PATH, 2)):
        cv2.polylines(image, lines, False, colour, thickness, cv2.LINE_AA, _BITS)
    if lines:
        for point, colour in ((lines[-1][-1], _END), (lines[0][0], _START)):
            centre = (int(point[0]), int(point[1]))
            cv2.circle(image, centre, 7 << _BITS, _WHITE, -1, cv2.LINE_AA, _BITS)
            cv2.circle(image, centre, 5 << _BITS, colour, -1, cv2.LINE_AA, _BITS)


def _strip(width: int, metres: float, top: float) -> np.ndarray:
    """Scale bar and colours, u1 (_STRIP, width, 3); `metres` is the size of a pixel."""
    strip = np.full((_STRIP, width, 3), _BLANK, "u1")
    # The greatest 1, 2 or 5 times a power of ten up to a quarter of the width.
    longest = 0.25 * width * metres
    power = 10 ** np.floor(np.log10(longest))
    length = float(power * max(n for n in (1, 2, 5) if n * power <= longest * (1 + 1e-9)))
    end = 16 + round(length / metres)
    cv2.line(strip, (16, 18), (end, 18), _INK, 2)
    for x in (16, end):
        cv2.line(strip, (x, 12), (x, 24), _INK, 2)
    _text(strip, f"{length:g} m", 16, 45)
    ramp = np.arange(256, dtype="u1")[None, :].repeat(12, 0)
    left = width - 16 - 180
    bar = cv2.resize(_coloured(ramp), (180, 12))
    strip[12:24, left : left + 180] = bar
    _text(strip, "floor", left, 45)
    _text(strip, f"{top:g} m", left + 135, 45)
    return strip


def _text(image: np.ndarray, text: str, x: int, y: int) -> None:
    cv2.putText(image, text, (x, y), cv2.FONT_HERSHEY_SIMPLEX, 0.55, _INK, 1, cv2.LINE_AA)


class FloorPlan(NamedTuple):
    """An occupancy grid as an RGBA image, u1 (row, column, 4), the largest y first, and the corners of its box, m."""

    image: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, right, bottom and top, m, as Matplotlib wants them."""
        return self.low[0], self.high[0], self.low[1], self.high[1]


def floor_plan(wall: np.ndarray, floor: np.ndarray, low: np.ndarray, high: np.ndarray) -> FloorPlan:
    """The plan of cells with a wall, and of free ones, bool (row, column), the largest y first. `low`, `high`: corners
    of the cells' box, f8 (2,), m."""
    factor = max(1, int(np.ceil(max(wall.shape) / _PLAN_SIZE)))
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


class View3d(NamedTuple):
    """What the script of the view draws, in the world frame of `_odom`, m."""

    points: str  #: base64 of u2 (N, 3), little endian; a coordinate is `low + step * number`.
    path: str  #: the same.
    low: tuple[float, float, float]  #: corner of the box around all of them.
    step: float  #: of a whole number, m.
    centre: tuple[float, float, float]  #: of the sphere that most points are in.
    radius: float
    ceiling: float | None  #: height above which points hide what is below; None = there are none.
    shown: int  #: points in the page.
    whole: int  #: points in the map.


def view_3d(stored: np.ndarray, path: np.ndarray) -> View3d | None:
    """The view of a map, points (N, 3), m, and of the path in it, positions of the lidar in time order, f8 (M, 3), m;
    None where the map has no point."""
    whole = len(stored)
    # The same points at every run, and as dense as the map everywhere, which strides along its order would not be.
    chosen = np.random.default_rng(0).permutation(whole)[:_MAP_POINTS]
    xyz = stored[chosen].astype("f8")
    xyz = xyz[np.isfinite(xyz).all(axis=1) & (np.abs(xyz) < 1e6).all(axis=1)]
    if not len(xyz):
        return None
    path = path[np.unique(np.linspace(0, len(path) - 1, min(len(path), _PATH_POINTS)).round().astype(int))]
    both = np.concatenate([xyz, path])
    low, high = both.min(axis=0), both.max(axis=0)
    step = max(float((high - low).max()) / _LEVELS, 1e-6)
    # Strays through windows do not move quartiles. What is spread evenly reaches twice as far.
    near, far = np.quantile(xyz, (0.25, 0.75), axis=0)
    ceiling = float(path[:, 2].max()) + CEILING_M if len(path) else np.inf
    centre = (near + far) / 2
    return View3d(
        points=_encoded(xyz, low, step),
        path=_encoded(path, low, step),
        low=_rounded(low),
        step=step,
        centre=_rounded(centre),
        radius=round(max(0.5, float(np.linalg.norm(far - near, axis=0))), 3),
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
