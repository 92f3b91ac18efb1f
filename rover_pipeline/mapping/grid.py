"""The 2-D occupancy grid: hits and misses by cell, and the files of ROS' map_server."""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np

#: Pixels of map_server's pictures.
FREE, OCCUPIED, UNKNOWN = 254, 0, 205


class Frame(NamedTuple):
    """The cells of a grid.

    Attributes:
        left, bottom: index of the first cell, counted from that whose corner is in the origin.
        width, height: cells along x and y.
        edge: of a cell, m.
    """

    left: int
    bottom: int
    width: int
    height: int
    edge: float

    @property
    def corner(self) -> np.ndarray:
        """Where the first cell begins, f8 (2,), m."""
        return np.array([self.left, self.bottom]) * self.edge


class Seen(NamedTuple):
    """Cells that some sweeps saw: flat indices in a frame, ascending, and what of each; (N,)."""

    cells: np.ndarray
    hits: np.ndarray
    misses: np.ndarray
    tops: np.ndarray


def frame_around(places: np.ndarray, reach: float, edge: float, most: int | None = None) -> Frame:
    """The cells within `reach` of places, f8 (N, 2), m; the edge doubles while they are more than `most`."""
    while True:
        low = np.floor((places.min(0) - reach) / edge).astype(int) - 1
        high = np.floor((places.max(0) + reach) / edge).astype(int) + 2
        width, height = (int(n) for n in high - low)
        if not most or width * height <= most:
            return Frame(int(low[0]), int(low[1]), width, height, edge)
        edge *= 2


class Grid:
    """Counts, by cell, of the sweeps that hit something and of those that looked through.

    Attributes:
        hits, misses: u4 (row, column); row 0 has the least y, column 0 the least x.
        tops: u1 of the same shape: how high surfaces up to the top of the band reach, as `kernels.mark_hits` says.
    """

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        shape = (frame.height, frame.width)
        self.hits, self.misses, self.tops = np.zeros(shape, "u4"), np.zeros(shape, "u4"), np.zeros(shape, "u1")

    def add(self, seen: Seen) -> None:
        """Add what other sweeps saw, whose indices are of this frame."""
        self.hits.ravel()[seen.cells] += seen.hits
        self.misses.ravel()[seen.cells] += seen.misses
        tops = self.tops.ravel()
        tops[seen.cells] = np.maximum(tops[seen.cells], seen.tops)

    def cropped(self, margin: int = 4) -> Grid:
        """The part that was seen at all. Raises ValueError when nothing was."""
        seen = (self.hits > 0) | (self.misses > 0) | (self.tops > 0)
        rows, columns = np.flatnonzero(seen.any(1)), np.flatnonzero(seen.any(0))
        if not len(rows):
            raise ValueError("no cell of the grid was seen")
        top, bottom = max(0, rows[0] - margin), min(self.frame.height, rows[-1] + 1 + margin)
        left, right = max(0, columns[0] - margin), min(self.frame.width, columns[-1] + 1 + margin)
        part = object.__new__(Grid)
        part.frame = Frame(
            self.frame.left + int(left), self.frame.bottom + int(top), int(right - left), int(bottom - top),
            self.frame.edge,
        )  # fmt: skip
        part.hits, part.misses, part.tops = (
            array[top:bottom, left:right] for array in (self.hits, self.misses, self.tops)
        )
        return part


def classify(grid: Grid, occupied_above: float) -> np.ndarray:
    """Cells as map_server's pixels, u1 (row, column), row 0 with the least y.

    Args:
        occupied_above: least share of hits among the sweeps that saw a cell for it to be occupied.
    """
    cells = np.full(grid.hits.shape, UNKNOWN, "u1")
    for row, hits, misses in zip(cells, grid.hits, grid.misses, strict=True):
        total = hits.astype("i8") + misses
        row[total > 0] = FREE
        row[(hits > 0) & (hits >= occupied_above * total)] = OCCUPIED
    return cells


def pgm(cells: np.ndarray) -> bytes:
    """A binary PGM of cells, u1 (row, column), row 0 with the least y: that is the last row of the picture."""
    done, data = cv2.imencode(".pgm", np.ascontiguousarray(cells[::-1]))
    if not done:
        raise ValueError(f"OpenCV cannot write a PGM of {cells.shape}")
    return data.tobytes()


def yaml_text(frame: Frame, image: str, remarks: tuple[str, ...] = ()) -> str:
    """The description that map_server reads; `origin` is the corner of the lower left pixel, m.

    The thresholds are map_saver's own: 205 is 0.19608 of the way to black, and only below 0.196 is a cell free.
    """
    x, y = (round(float(value), 9) for value in frame.corner)
    lines = [f"# {remark}" for remark in remarks]
    lines += [f"image: {image}", "mode: trinary", f"resolution: {frame.edge:.9g}", f"origin: [{x!r}, {y!r}, 0.0]"]
    return "\n".join([*lines, "negate: 0", "occupied_thresh: 0.65", "free_thresh: 0.196", ""])
