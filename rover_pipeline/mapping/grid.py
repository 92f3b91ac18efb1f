"""The 2-D occupancy grid: hits and misses of every cell, and the files of ROS map_server."""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np

#: Values of the pixels in map_server's pictures. Layout.
FREE, OCCUPIED, UNKNOWN = 254, 0, 205


class Extent(NamedTuple):
    """The rectangle of cells that a grid covers.

    Attributes:
        left, bottom: index of the first cell. Cell 0 has its lower left corner in the origin of the world.
        width, height: number of cells along x and y.
        edge: length of a cell's edge, m.
    """

    left: int
    bottom: int
    width: int
    height: int
    edge: float

    @property
    def corner(self) -> np.ndarray:
        """The lower left corner of the first cell, f8 (2,), m."""
        return np.array([self.left, self.bottom]) * self.edge

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return self.height, self.width

    @staticmethod
    def around(positions: np.ndarray, max_range: float, edge: float, max_cells: int | None = None) -> Extent:
        """Cells within `max_range` of positions, f8 (N, 2), m. The edge doubles until they are at most `max_cells`."""
        while True:
            low = np.floor((positions.min(0) - max_range) / edge).astype(int) - 1
            high = np.floor((positions.max(0) + max_range) / edge).astype(int) + 2
            width, height = (int(n) for n in high - low)
            if not max_cells or width * height <= max_cells:
                return Extent(int(low[0]), int(low[1]), width, height, edge)
            edge *= 2


class CellCounts(NamedTuple):
    """What some sweeps observed.

    Attributes:
        cells: (N,), ascending flat indices of the observed cells in an extent.
        hits, misses, tops: (N,), counts of these cells as in `Grid`.
        heights: f8 (2,), minimum and maximum height of a point above the lidar, m; infinite when there is none.
        in_band: number of points at the heights of the grid.
    """

    cells: np.ndarray
    hits: np.ndarray
    misses: np.ndarray
    tops: np.ndarray
    heights: np.ndarray
    in_band: int


class Grid:
    """For each cell, the number of sweeps that hit something in it and of sweeps whose rays only passed through.

    Attributes:
        hits, misses: u4 (row, column); row 0 has the smallest y, column 0 the smallest x.
        tops: u1 (row, column), height of the highest surface in the cell, in the levels of `LocalGrid`.
    """

    def __init__(self, extent: Extent) -> None:
        self.extent = extent
        self.hits, self.misses = np.zeros(extent.shape, "u4"), np.zeros(extent.shape, "u4")
        self.tops = np.zeros(extent.shape, "u1")

    def add(self, counts: CellCounts) -> None:
        """Add the counts of other sweeps, whose cell indices are those of this grid."""
        self.hits.ravel()[counts.cells] += counts.hits
        self.misses.ravel()[counts.cells] += counts.misses
        tops = self.tops.ravel()
        tops[counts.cells] = np.maximum(tops[counts.cells], counts.tops)

    def cropped(self, margin: int = 4) -> Grid:
        """The part with observed cells and a margin around it."""
        observed = (self.hits > 0) | (self.misses > 0) | (self.tops > 0)
        left, bottom, width, height = cv2.boundingRect(observed.view("u1"))
        rows = slice(max(0, bottom - margin), min(self.extent.height, bottom + height + margin))
        columns = slice(max(0, left - margin), min(self.extent.width, left + width + margin))
        part = object.__new__(Grid)  # its arrays are views of ours
        part.hits, part.misses, part.tops = (array[rows, columns] for array in (self.hits, self.misses, self.tops))
        part.extent = Extent(
            self.extent.left + columns.start, self.extent.bottom + rows.start, *part.hits.shape[::-1], self.extent.edge
        )
        return part


def classify(grid: Grid, occupied_above: float) -> np.ndarray:
    """Cells as map_server's pixels, u1 (row, column), row 0 with the smallest y.

    Args:
        occupied_above: minimum fraction of hits, among the sweeps that observed a cell, for it to be occupied.
    """
    cells = np.full(grid.hits.shape, UNKNOWN, "u1")
    for row, hits, misses in zip(cells, grid.hits, grid.misses, strict=True):
        total = hits.astype("i8") + misses
        row[total > 0] = FREE
        row[(hits > 0) & (hits >= occupied_above * total)] = OCCUPIED
    return cells


def yaml_text(extent: Extent, image: str, remarks: tuple[str, ...] = ()) -> str:
    """The description that map_server reads; `origin` is the corner of the lower left pixel, m.

    The thresholds are those of map_saver. Pixel 205 is an occupancy of 0.19608, and only cells below 0.196 are free.
    """
    x, y = (round(float(value), 9) for value in extent.corner)
    lines = [f"# {remark}" for remark in remarks]
    lines += [f"image: {image}", "mode: trinary", f"resolution: {extent.edge:.9g}", f"origin: [{x!r}, {y!r}, 0.0]"]
    return "\n".join([*lines, "negate: 0", "occupied_thresh: 0.65", "free_thresh: 0.196", ""])
