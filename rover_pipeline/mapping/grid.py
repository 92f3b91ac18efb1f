"""The 2-D occupancy grid: hits and misses of every cell, and the files of ROS map_server."""

from __future__ import annotations

import math
from typing import NamedTuple

import cv2
import numpy as np

from rover_pipeline.numerics.compiled import compiled

#: Values of the pixels in map_server's pictures. Layout.
FREE, OCCUPIED, UNKNOWN = 254, 0, 205


class Extent(NamedTuple):
    """The rectangle of cells that a grid covers."""

    left: int  #: index of the first cell, as `bottom`. Cell 0 has its lower left corner in the origin of the world.
    bottom: int
    width: int  #: number of cells along x.
    height: int  #: number of cells along y.
    edge: float  #: length of a cell's edge, m.

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
    """What some sweeps observed."""

    cells: np.ndarray  #: (N,), ascending flat indices of the observed cells in an extent.
    hits: np.ndarray  #: (N,), of these cells, as in `Grid`, as are `misses` and `tops`.
    misses: np.ndarray
    tops: np.ndarray
    heights: np.ndarray  #: f8 (2,), minimum and maximum height of a point above the lidar, m; infinite without any.
    in_band: int  #: number of points at the heights of the grid.


class Grid:
    """For each cell, the number of sweeps that hit something in it and of sweeps whose rays only passed through."""

    def __init__(self, extent: Extent) -> None:
        self.extent = extent
        #: u4 (row, column); row 0 has the smallest y, column 0 the smallest x.
        self.hits, self.misses = np.zeros(extent.shape, "u4"), np.zeros(extent.shape, "u4")
        self.tops = np.zeros(extent.shape, "u1")  #: highest surface in each cell, in the levels of `LocalGrid`.

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


# The cells around some sweeps: hits, and the rays that say which cells are free.
#
# A sector is a direction, a few columns wide, in which a sweep's beams look. Each has one ray in the plane of the grid.


class _Cells(NamedTuple):
    """Counts of cells, which kernels update."""

    corner: np.ndarray  #: f8 (2,), m: lower left corner of the cells.
    edge: float  #: of a cell, m.
    hits: np.ndarray  #: u2 (row, column), number of sweeps that hit the cell.
    misses: np.ndarray  #: u2 (row, column), number of sweeps with a ray through the cell and no hit.
    hit_by: np.ndarray  #: u2 (row, column), number of the last sweep that hit the cell.
    passed_by: np.ndarray  #: u2 (row, column), number of the last one that had a ray through it.
    #: u1 (row, column), highest surface up to the top of the band: 0 = none, 1 = at most the floor, 255 = top.
    tops: np.ndarray


class LocalGrid:
    """The cells around some sweeps, with counts as in `Grid`. Few cells take little memory in each thread.

    Args:
        band: f8 (3,), m above the lidar: the floor, and the bottom and the top of the band.
    """

    def __init__(self, extent: Extent, band: np.ndarray) -> None:
        self.extent, self._band, self._sweeps = extent, band, 0
        self._heights, self._in_band = np.array([np.inf, -np.inf]), 0
        hits, misses, hit_by, passed_by = (np.zeros(extent.shape, "u2") for _ in range(4))
        tops = np.zeros(extent.shape, "u1")
        self._cells = _Cells(extent.corner, extent.edge, hits, misses, hit_by, passed_by, tops)

    def add(self, points: np.ndarray, pos: np.ndarray, sectors: np.ndarray) -> None:
        """Count a sweep.

        Args:
            points: f8 (beam, column, 3), m, z up; NaN = no return.
            pos: f8 (column, 3), position of the lidar at each column.
            sectors: i4 (beam, column), the sector of each pixel.
        """
        self._sweeps += 1
        count = int(sectors.max()) + 1
        found = _look(points, pos, sectors, count, self._band, self._sweeps, self._heights, self._cells)
        self._in_band += found[3]
        _count_misses(*found[:3], self._sweeps, self._cells)

    def counts(self, extent: Extent) -> CellCounts:
        """The observed cells that lie in a larger extent, by their indices there."""
        arrays = self._cells.hits, self._cells.misses, self._cells.tops
        row, column = np.nonzero((arrays[0] > 0) | (arrays[1] > 0) | (arrays[2] > 0))
        hits, misses, tops = (array[row, column] for array in arrays)
        row, column = row + self.extent.bottom - extent.bottom, column + self.extent.left - extent.left
        inside = (row >= 0) & (row < extent.height) & (column >= 0) & (column < extent.width)
        cells = (row * extent.width + column)[inside]
        return CellCounts(cells, hits[inside], misses[inside], tops[inside], self._heights, self._in_band)


@compiled
def _look(
    points: np.ndarray,
    pos: np.ndarray,
    sectors: np.ndarray,
    count: int,
    band: np.ndarray,
    sweep: int,
    heights: np.ndarray,
    cells: _Cells,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Finds the ray of each sector through the band, counts once each cell in which a sweep has a point in the band,
    and updates the heights of surfaces.

    Args:
        points, pos, sectors, band: as for `LocalGrid`.
        count: number of sectors.
        sweep: number of this sweep, from 1 on.
        heights: f8 (2,), minimum and maximum height of a point above the lidar; updated.

    Returns:
        nearest: f8 (sector, 5), the nearest point in the band as squared horizontal distance, x and y of the point, x
            and y of the lidar. The distance is infinite where no point is in the band.
        farthest: f8 (sector, 5), the same for the farthest position at which a beam was still in the band on its way
            to a point outside. The distance is zero where there is none.
        entry: f8 (sector,), squared horizontal distance at which beams enter the band. It is zero when the lidar itself
            is in the band, and infinite where no beam enters it.
        in_band: number of points in the band.
    """
    corner, size, hits, _, hit_by, _, tops = cells
    floor, low, high = band
    nearest, farthest, entry, in_band = np.empty((count, 5)), np.empty((count, 5)), np.empty(count), 0
    edge = low if low > 0.0 else (high if high < 0.0 else 0.0)  # the limit that faces a lidar outside of the band
    for s in range(count):
        nearest[s, 0], farthest[s, 0], entry[s] = np.inf, 0.0, (np.inf if edge != 0.0 else 0.0)
    beams, columns = sectors.shape
    for beam in range(beams):
        for c in range(columns):
            if points[beam, c, 0] != points[beam, c, 0]:  # no return
                continue
            dx, dy = points[beam, c, 0] - pos[c, 0], points[beam, c, 1] - pos[c, 1]
            dz = points[beam, c, 2] - pos[c, 2]
            heights[0], heights[1] = min(heights[0], dz), max(heights[1], dz)
            distance, s = dx * dx + dy * dy, sectors[beam, c]
            if edge != 0.0 and dz / edge >= 1.0:
                entry[s] = min(entry[s], (edge / dz) * (edge / dz) * distance)
            if dz <= high:
                j = int((points[beam, c, 0] - corner[0]) / size)
                i = int((points[beam, c, 1] - corner[1]) / size)
                top = np.uint8(1 + min(254.0, max(0.0, 254.0 * (dz - floor) / (high - floor))))
                if top > tops[i, j]:
                    tops[i, j] = top
                if dz >= low:
                    in_band += 1
                    if hit_by[i, j] != sweep:
                        hit_by[i, j] = sweep
                        hits[i, j] += 1
                    if distance < nearest[s, 0]:
                        nearest[s, 0], nearest[s, 1], nearest[s, 2] = distance, pos[c, 0] + dx, pos[c, 1] + dy
                        nearest[s, 3], nearest[s, 4] = pos[c, 0], pos[c, 1]
                    continue
            # The fraction of the beam after which it leaves the band; it never does when the lidar is outside too.
            fraction = 0.0
            if dz < low <= 0.0:
                fraction = low / dz
            elif dz > high >= 0.0:
                fraction = high / dz
            if fraction * fraction * distance > farthest[s, 0]:
                farthest[s, 0] = fraction * fraction * distance
                farthest[s, 1], farthest[s, 2] = pos[c, 0] + fraction * dx, pos[c, 1] + fraction * dy
                farthest[s, 3], farthest[s, 4] = pos[c, 0], pos[c, 1]
    return nearest, farthest, entry, in_band


@compiled
def _count_misses(nearest: np.ndarray, farthest: np.ndarray, entry: np.ndarray, sweep: int, cells: _Cells) -> None:
    """Counts once each cell that a sweep's rays pass through and in which the sweep has no hit.

    The ray of a sector begins at the lidar, or where beams enter the band. It ends at the nearest point in the band,
    or, where there is none, at the farthest position at which a beam was in the band (Amanatides and Woo, A Fast Voxel
    Traversal Algorithm for Ray Tracing, 1987). `_look` must have been called for the sweep.
    """
    corner, edge = cells.corner, cells.edge
    misses, hit_by, passed_by = cells.misses, cells.hit_by, cells.passed_by
    for s in range(len(nearest)):
        row = nearest[s] if nearest[s, 0] < np.inf else farthest[s]
        if row[0] <= entry[s]:
            continue
        x0, y0 = (row[3] - corner[0]) / edge, (row[4] - corner[1]) / edge
        x1, y1 = (row[1] - corner[0]) / edge, (row[2] - corner[1]) / edge
        skipped = math.sqrt(entry[s] / row[0])
        x0, y0 = x0 + skipped * (x1 - x0), y0 + skipped * (y1 - y0)
        dx, dy = x1 - x0, y1 - y0
        j, i, last_j, last_i = int(x0), int(y0), int(x1), int(y1)
        step_j, step_i = (1 if dx > 0 else -1), (1 if dy > 0 else -1)
        # Length of the ray in a cell's width and height, and up to the next column and row.
        per_column = abs(1.0 / dx) if dx != 0.0 else np.inf
        per_row = abs(1.0 / dy) if dy != 0.0 else np.inf
        next_j = ((j + 1 - x0) if dx > 0 else (x0 - j)) * per_column if dx != 0.0 else np.inf
        next_i = ((i + 1 - y0) if dy > 0 else (y0 - i)) * per_row if dy != 0.0 else np.inf
        for _ in range(abs(last_j - j) + abs(last_i - i)):
            if hit_by[i, j] != sweep and passed_by[i, j] != sweep:
                passed_by[i, j] = sweep
                misses[i, j] += 1
            if next_j < next_i:
                next_j += per_column
                j += step_j
            else:
                next_i += per_row
                i += step_i
