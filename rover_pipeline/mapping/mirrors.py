"""Mirrors in a map: upright planes behind which the map shows the mirror image of what stands before them.

A mirror often returns nothing itself. So planes are not looked for where returns are, but where the map is symmetric.
Floors, ceilings and walls are symmetric about many planes: only what stands freely is compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from scipy import fft, ndimage

from rover_pipeline.mapping.tuning import TUNING
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.numerics.voxel_table import EMPTY, pack_key, unpack_key

#: Largest width of the image that is compared with itself, in cells: larger maps have larger cells there. Layout.
_MAX_WIDTH = 512
#: Largest number of columns of cells of a map in which mirrors are looked for, as a square of 400 m has. Larger maps
#: are of streets, and would take gigabytes. Layout.
_MAX_COLUMNS = 4_000_000


class Mirror(NamedTuple):
    """An upright plane that looks like a mirror."""

    normal: np.ndarray  #: f8 (2,), unit vector of x and y, from the lidar's path towards the plane.
    distance: float  #: of the plane from the origin along the normal, m.
    explained: float  #: share of what stands freely behind the plane whose mirror image stands before it.
    moved: float  #: largest such share if it is moved instead, along the plane or towards it.

    def depth(self, points: np.ndarray) -> np.ndarray:
        """How far points, f8 (N, 3) m, are behind the plane, m."""
        return points[:, 0] * self.normal[0] + points[:, 1] * self.normal[1] - self.distance

    def image(self, points: np.ndarray) -> np.ndarray:
        """The mirror image of points, f8 (N, 3), m."""
        return points - np.outer(2 * self.depth(points), [*self.normal, 0.0])

    def seen_in(self, points: np.ndarray) -> np.ndarray:
        """Which points, f8 (N, 3) m, are behind it and have their mirror image at points before it: bool (N,)."""
        seen = self.depth(points) > TUNING.edge_m
        seen[seen] = _in_cells(self.image(points[seen]), np.unique(_keys(points[~seen])))
        return seen


def find_mirrors(points: np.ndarray, positions: np.ndarray, heights: tuple[float, float]) -> list[Mirror]:
    """Mirrors of a map that the lidar never went behind.

    Args:
        points: f8 (N, 3), m, of the map; z is the height above the floor.
        positions: f8 (M, 3), m, of the lidar.
        heights: m, between which something is an obstacle: above the floor's own cells, and below ceilings.
    """
    centres = _free_standing(points[(points[:, 2] > heights[0]) & (points[:, 2] < heights[1])])
    cells, found = np.unique(_keys(centres)), []
    for mirror in _symmetric(centres, positions):
        for degrees, metres in ((0.5, 0.1), (0.25, 0.05)):
            mirror = max(_near(mirror, degrees, metres), key=lambda plane: _explained(plane, centres, cells))
        hidden = centres[mirror.depth(centres) > TUNING.edge_m]
        explained = _explained(mirror, centres, cells)
        if explained < TUNING.window**2:  # fewer cells may be symmetric at random
            continue
        back, along = np.array([*-mirror.normal, 0.0]), np.array([-mirror.normal[1], mirror.normal[0], 0.0])
        image = mirror.image(hidden)
        moved = max(
            _in_cells(start + sign * metres * way, cells).sum()
            for start, way, sign in ((image, along, 1), (image, along, -1), (hidden, back, 1))
            for metres in np.arange(*TUNING.moved_m)
        )
        if explained > TUNING.min_ratio * moved:
            found.append(mirror._replace(explained=explained / len(hidden), moved=moved / len(hidden)))
    return found


def _free_standing(points: np.ndarray) -> np.ndarray:
    """The centres of the cells, f8 (N, 3) m, in which something is that is no wall."""
    keys = np.unique(_keys(points))
    cells = np.stack(unpack_key(keys), axis=1)
    if not len(cells) or np.prod(np.ptp(cells[:, :2], axis=0) + 1) > _MAX_COLUMNS:
        return np.empty((0, 3))
    row, column = (cells[:, :2] - cells[:, :2].min(axis=0)).T
    standing = np.zeros((row.max() + 1, column.max() + 1))
    standing[row, column] = 1
    y, x = np.indices(standing.shape)
    share, mean_x, mean_y, xx, yy, xy = (
        ndimage.uniform_filter(standing * value, TUNING.window, mode="constant")
        for value in (1.0, x, y, x * x, y * y, x * y)
    )
    share = np.maximum(share, 1e-9)
    xx, yy = xx / share - (mean_x / share) ** 2, yy / share - (mean_y / share) ** 2
    xy = xy / share - mean_x * mean_y / share**2
    half, root = (xx + yy) / 2, np.sqrt((xx - yy) ** 2 / 4 + xy**2)
    # n cells in a row have the variance n^2 / 12; here at least half of the window.
    wall = (half - root <= TUNING.max_across * (half + root)) & (half + root > (TUNING.window / 2) ** 2 / 12)
    return (cells[~wall[row, column]] + 0.5) * TUNING.edge_m


def _symmetric(centres: np.ndarray, positions: np.ndarray) -> Iterator[Mirror]:
    """The planes beside the lidar's path about which cells are most symmetric.

    What a set of cells has in common with its mirror image is, for all planes with one normal, the convolution of the
    set with itself along the normal.
    """
    if not len(centres):
        return
    columns, heights = np.unique(centres[:, :2], axis=0, return_counts=True)
    middle = columns.mean(axis=0)
    columns = columns - middle
    reach = float(np.linalg.norm(columns, axis=1).max()) + TUNING.edge_m
    edge = max(TUNING.edge_m, 2 * reach / _MAX_WIDTH)
    width = int(2 * reach / edge) + 1
    size = fft.next_fast_len(2 * width, real=True)
    distances = (np.arange(2 * width - 1) + 1) * edge / 2 - reach
    peaks = []
    for angle in np.deg2rad(np.arange(0.0, 180.0, TUNING.step_deg)).tolist():
        normal = np.array([np.cos(angle), np.sin(angle)])
        along, across = columns[:, 1] * normal[0] - columns[:, 0] * normal[1], (columns * normal).sum(axis=1)
        image = np.zeros((width, width))
        np.add.at(image, (((along + reach) / edge).astype(int), ((across + reach) / edge).astype(int)), heights)
        spectrum = fft.rfft(ndimage.gaussian_filter(image, 1.0), size, axis=1)
        symmetry = fft.irfft((spectrum * spectrum).sum(axis=0), size)[: 2 * width - 1]
        excess = symmetry - ndimage.gaussian_filter1d(symmetry, TUNING.window)
        path = ((positions[:, :2] - middle) * normal).sum(axis=1)
        beside = np.sign((distances > path.max()).astype(int) - (distances < path.min()))
        shift = float((middle * normal).sum())
        for n in np.flatnonzero((beside != 0) & (excess > 0) & (excess == ndimage.maximum_filter1d(excess, 5))):
            peaks.append((excess[n], Mirror(beside[n] * normal, beside[n] * (distances[n] + shift), 0.0, 0.0)))
    chosen: list[Mirror] = []
    for _, mirror in sorted(peaks, key=lambda peak: -peak[0]):
        if not any(_alike(mirror, other) for other in chosen) and len(chosen) < TUNING.candidates:
            chosen.append(mirror)
    yield from chosen


def _alike(mirror: Mirror, other: Mirror) -> bool:
    """Whether two planes are less than 10 degrees and a metre apart."""
    return bool((mirror.normal * other.normal).sum() > 0.985 and abs(mirror.distance - other.distance) < 1.0)


def _near(mirror: Mirror, degrees: float, metres: float) -> Iterator[Mirror]:
    """Planes up to three steps of direction and two of distance away."""
    x, y = mirror.normal
    for turn in np.deg2rad(degrees) * np.arange(-3, 4):
        normal = np.array([np.cos(turn) * x - np.sin(turn) * y, np.sin(turn) * x + np.cos(turn) * y])
        for step in range(-2, 3):
            yield mirror._replace(normal=normal, distance=mirror.distance + step * metres)


def _explained(mirror: Mirror, centres: np.ndarray, cells: np.ndarray) -> int:
    """How many of the cells behind a plane have their mirror image at one of the cells, i8 (C,), ascending keys."""
    return int(_in_cells(mirror.image(centres[mirror.depth(centres) > TUNING.edge_m]), cells).sum())


def _in_cells(points: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Which points, f8 (N, 3) m, are in one of the cells, i8 (C,), ascending keys: bool (N,)."""
    keys = _keys(points)
    at = np.searchsorted(cells, keys)
    return np.append(cells, EMPTY)[at] == keys


def _keys(points: np.ndarray) -> np.ndarray:
    """The keys of the cells that points, f8 (N, 3) m, are in, i8 (N,)."""
    return np.asarray(pack_key(*np.floor(points / TUNING.edge_m).astype("i8").T))


# Leaves out of a map what moves: the returns from within the boxes of `_objects`.


class Boxes(NamedTuple):
    """The boxes of what moves, by sweep, in a world whose z is up."""

    first: np.ndarray  #: i8 (sweep + 1,), number of the first box of each sweep.
    centre: np.ndarray  #: f8 (box, 3), m, at the sweep's time stamp, as `extent`, and `vel`, m/s.
    extent: np.ndarray
    vel: np.ndarray
    ahead: np.ndarray  #: f8 (box, 2), horizontal unit vector along the length.

    @staticmethod
    def of(objects: Mapping[str, np.ndarray], level: np.ndarray) -> Boxes:
        """The boxes of `_objects`, without those of what was never seen to move, whose velocity is zero.

        Args:
            level: f8 (3, 3), from the frame of `_odom` to the world whose z is up.
        """
        listed = np.arange(objects["yaw"].shape[1]) < objects["count"][:, None]
        sweep, row = np.nonzero(listed & (objects["vel"] != 0).any(axis=-1))
        centre, extent, vel = (objects[name][sweep, row].astype("f8") for name in ("centre", "extent", "vel"))
        yaw = objects["yaw"][sweep, row].astype("f8")
        ahead = matmul(np.column_stack([np.cos(yaw), np.sin(yaw), np.zeros(len(yaw))]), level.T)
        ahead = ahead[:, :2] / np.linalg.norm(ahead[:, :2], axis=1, keepdims=True)
        first = np.searchsorted(sweep, np.arange(len(listed) + 1))
        return Boxes(first, matmul(centre, level.T), extent, matmul(vel, level.T), ahead)

    def remove(self, points: np.ndarray, sweep: int, since: np.ndarray) -> int:
        """Make the points of a sweep within its boxes NaN; returns how many.

        Args:
            points: f8 (beam, column, 3), m, in the world; NaN = no return.
            since: f8 (column,), s, from the time stamp to each column. Boxes move meanwhile.
        """
        removed = 0
        for n in range(self.first[sweep], self.first[sweep + 1]):
            x, y, z = np.moveaxis(points - (self.centre[n] + since[:, None] * self.vel[n]), -1, 0)
            along = np.abs(self.ahead[n, 0] * x + self.ahead[n, 1] * y)
            left = np.abs(self.ahead[n, 0] * y - self.ahead[n, 1] * x)
            half = self.extent[n] / 2
            inside = (along <= half[0] + TUNING.margin_m) & (left <= half[1] + TUNING.margin_m)
            inside &= (z >= TUNING.ground_m - half[2]) & (z <= half[2] + TUNING.margin_m)
            points[inside] = np.nan
            removed += int(inside.sum())
        return removed
