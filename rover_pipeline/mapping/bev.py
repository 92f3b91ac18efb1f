"""A picture of the map from above, with the path of the lidar and a scale."""

from __future__ import annotations

import cv2
import numpy as np

from rover_pipeline.mapping.grid import FREE, UNKNOWN, Grid, encoded

#: Limits of the picture's longer side, pixels.
_MAX_SIDE, _MIN_SIDE = 2000, 900
#: Height of the strip below the picture that holds the scale and the colours, pixels.
_STRIP = 56
#: Surfaces up to this height are drawn as floor.
_FLOOR_M = 0.15
_WHITE, _BLANK, _INK = (255, 255, 255), (225, 225, 225), (40, 40, 40)
_PATH, _START, _END = (40, 40, 220), (60, 160, 40), (200, 60, 40)  # red, green and blue in OpenCV's order B, G, R
#: OpenCV draws at coordinates in fixed point, with this number of bits for fractions of a pixel.
_BITS = 4


def picture(grid: Grid, cells: np.ndarray, path: np.ndarray, low: float, top: float) -> bytes:
    """A PNG of a grid from above: x to the right, y up, surfaces coloured by their height, the floor white.

    Args:
        cells: u1 (row, column), the grid's cells as `classify` gives them.
        path: f8 (N, 2), m, positions of the lidar in time order; a row of NaN interrupts the line.
        low, top: heights of the grid's band, m above the floor. A surface in the band whose cell is free was there for
            a short time only, so it is drawn as floor.
    """
    height, width = grid.tops.shape
    zoom = _zoom(max(height, width))
    size = (max(1, round(width * zoom)), max(1, round(height * zoom)))
    colours = _coloured(grid.tops)
    heights = grid.tops / 255 * top
    colours[(heights <= _FLOOR_M) | ((heights >= low) & (cells == FREE))] = 255
    colours[(grid.tops == 0) & (cells == UNKNOWN)] = _BLANK
    colours = np.ascontiguousarray(colours[::-1])
    # Pixels of a reduced picture are means of cells, so that thin walls stay visible.
    image = cv2.resize(colours, size, interpolation=cv2.INTER_NEAREST if zoom >= 1 else cv2.INTER_AREA)
    pixels = (path - grid.extent.corner) / grid.extent.edge * zoom
    _draw_path(image, np.stack([pixels[:, 0], size[1] - pixels[:, 1]], -1))
    strip = _strip(max(size[0], 420), grid.extent.edge / zoom, top)
    image = cv2.copyMakeBorder(image, 0, 0, 0, strip.shape[1] - size[0], cv2.BORDER_CONSTANT, value=_BLANK)
    return encoded(".png", np.vstack([image, strip]))


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
    length = _scale_length(0.25 * width * metres)
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


def _scale_length(metres: float) -> float:
    """The greatest 1, 2 or 5 times a power of ten up to this length."""
    power = 10 ** np.floor(np.log10(metres))
    return float(power * max(n for n in (1, 2, 5) if n * power <= metres * (1 + 1e-9)))
