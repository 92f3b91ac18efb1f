"""A picture of the map from above, with the way of the lidar and a scale."""

from __future__ import annotations

import cv2
import numpy as np

from rover_pipeline.mapping.grid import FREE, UNKNOWN, Grid

_LONGEST, _SHORTEST = 2000, 900  # of the longer side, pixels
_STRIP = 56  # below the picture: scale and colours
_LOWEST_M = 0.15  # what stands out of the floor
_BLANK = (225, 225, 225)
_INK = (40, 40, 40)
_WAY, _START, _END = (40, 40, 220), (60, 160, 40), (200, 60, 40)  # blue, green, red: OpenCV's order


def picture(grid: Grid, cells: np.ndarray, way: np.ndarray, low: float, top: float) -> bytes:
    """A PNG of a grid from above: x to the right, y up, surfaces coloured by their height, the floor white.

    Args:
        cells: u1 (row, column), the grid's cells as `classify` gives them.
        way: f8 (N, 2), m, where the lidar went, in the order it did; a row of NaN interrupts the line.
        low, top: heights of the band that `cells` tell of, m above the floor. What was there for a while only, so that
            its cell is free, is left out.
    """
    height, width = grid.tops.shape
    zoom = _zoom(max(height, width))
    size = (max(1, round(width * zoom)), max(1, round(height * zoom)))
    colours = _coloured(grid.tops)
    heights = grid.tops / 255 * top
    colours[(heights <= _LOWEST_M) | ((heights >= low) & (cells == FREE))] = 255
    colours[(grid.tops == 0) & (cells == UNKNOWN)] = _BLANK
    colours = np.ascontiguousarray(colours[::-1])
    # Pixels of a reduced picture are means: thin walls stay visible.
    image = cv2.resize(colours, size, interpolation=cv2.INTER_NEAREST if zoom >= 1 else cv2.INTER_AREA)
    pixels = (way - grid.frame.corner) / grid.frame.edge * zoom
    _draw_way(image, np.stack([pixels[:, 0], size[1] - pixels[:, 1]], -1))
    strip = _strip(max(size[0], 420), grid.frame.edge / zoom, top)
    image = cv2.copyMakeBorder(image, 0, 0, 0, strip.shape[1] - size[0], cv2.BORDER_CONSTANT, value=_BLANK)
    done, data = cv2.imencode(".png", np.vstack([image, strip]))
    if not done:
        raise ValueError(f"OpenCV cannot write a PNG of {image.shape}")
    return data.tobytes()


def _coloured(levels: np.ndarray) -> np.ndarray:
    """BGR of levels, u1 (row, column): low is light, high is dark."""
    return cv2.applyColorMap(255 - levels, cv2.COLORMAP_VIRIDIS)


def _zoom(longest: int) -> float:
    """Pixels a cell: a whole number or one over a whole number."""
    if longest > _LONGEST:
        return 1 / int(np.ceil(longest / _LONGEST))
    return max(1, min(_LONGEST // longest, int(np.ceil(_SHORTEST / longest))))


def _draw_way(image: np.ndarray, pixels: np.ndarray) -> None:
    good = np.isfinite(pixels).all(-1)
    runs = np.split(np.arange(len(pixels)), np.flatnonzero(good[1:] != good[:-1]) + 1)
    places = np.round(np.where(good[:, None], pixels, 0) * 16).astype("i4")  # four bits behind the point
    lines = [places[run] for run in runs if good[run[0]]]
    for colour, thickness in (((255, 255, 255), 5), (_WAY, 2)):
        cv2.polylines(image, lines, False, colour, thickness, cv2.LINE_AA, 4)
    if lines:
        for place, colour in ((lines[-1][-1], _END), (lines[0][0], _START)):
            centre = (int(place[0]), int(place[1]))
            cv2.circle(image, centre, 7 * 16, (255, 255, 255), -1, cv2.LINE_AA, 4)
            cv2.circle(image, centre, 5 * 16, colour, -1, cv2.LINE_AA, 4)


def _strip(width: int, metres: float, top: float) -> np.ndarray:
    """Scale bar and colours, u1 (_STRIP, width, 3); a pixel is so many `metres`."""
    strip = np.full((_STRIP, width, 3), _BLANK, "u1")
    length = _round_length(0.25 * width * metres)
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


def _round_length(metres: float) -> float:
    """The greatest 1, 2 or 5 times a power of ten that is not more."""
    power = 10 ** np.floor(np.log10(metres))
    return float(power * max(n for n in (1, 2, 5) if n * power <= metres * (1 + 1e-9)))
