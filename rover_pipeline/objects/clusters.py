"""Clusters of points, and what a track keeps of one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.objects.evidence import MOVING, STANDING

#: Edge of the cells that clusters are made of, m. Also of the cubes that hold one point each.
CELL_M = 0.1
#: Gap within a cluster, m, and what is added to it in distances between neighbouring columns of a sweep.
_GAP_M, _GAP_COLUMNS = 0.12, 3.0
#: What is added to it along the line of sight, as a share of the range: a side that is grazed is hit at long intervals.
_GAP_GRAZED = 0.03
_MAX_GAP_M = 1.0
#: Beams pass over a bonnet that is this far below the lidar, m. The longest gap that this explains, m, and the height
#: of what is in front of it, m. The higher part behind belongs to the same body when it is in the same direction.
_BONNET_DEPTH_M, _BONNET_GAP_M, _BONNET_TOP_M = 0.8, 1.6, 1.2
_SAME_DIRECTION = 0.5
#: Directions in which the outline of a cluster is kept.
OUTLINE = 24
_ANGLES = 2 * np.pi * np.arange(OUTLINE) / OUTLINE
_DIRECTIONS = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], -1)
#: Minimum share of points whose places were seen to be free, in a cluster that moves.
_LEAST_MOVING = 0.5
#: Largest footprint of an object, m.
_MAX_SIZE_M = 14.0
#: Smallest and largest sizes of what stands and is taken for an object, m: footprint, height of its top.
_STILL_SIZE, _STILL_TOP = (0.2, 6.0), (0.5, 2.6)
#: Maximum number of clusters of a sweep, the largest ones.
MAX_CLUSTERS = 256


class Clusters(NamedTuple):
    """The clusters of some sweeps.

    Attributes:
        frame: i4 (C,), number of the sweep.
        time: f8 (C,), s, mean of the times at which the points were measured.
        outline: f4 (C, OUTLINE, 2), the farthest points in equally spaced directions, x and y in the world, m.
        floor, top: f4 (C,), z of the ground and of the highest point, m.
        points: i4 (C,), number of points.
        moving: f4 (C,), share of the points whose places were seen to be free.
        lidar: f4 (C, 2), where the lidar was, m.
    """

    frame: np.ndarray
    time: np.ndarray
    outline: np.ndarray
    floor: np.ndarray
    top: np.ndarray
    points: np.ndarray
    moving: np.ndarray
    lidar: np.ndarray

    @staticmethod
    def none() -> Clusters:
        return Clusters(
            np.zeros(0, "i4"),
            np.zeros(0, "f8"),
            np.zeros((0, OUTLINE, 2), "f4"),
            np.zeros(0, "f4"),
            np.zeros(0, "f4"),
            np.zeros(0, "i4"),
            np.zeros(0, "f4"),
            np.zeros((0, 2), "f4"),
        )

    @staticmethod
    def joined(parts: list[Clusters]) -> Clusters:
        return Clusters(*(np.concatenate(arrays) for arrays in zip(*(parts or [Clusters.none()]), strict=True)))

    def select(self, chosen: np.ndarray | slice | int) -> Clusters:
        return Clusters(*(array[chosen] for array in self))

    @property
    def middle(self) -> np.ndarray:
        """Middle of the box along the axes of the world, f8 (C, 2)."""
        return np.asarray((self.outline.min(axis=1) + self.outline.max(axis=1)) / 2, "f8")

    @property
    def size(self) -> np.ndarray:
        """Larger side of that box, f8 (C,)."""
        return np.asarray(np.ptp(self.outline, axis=1).max(axis=1), "f8")


class Points(NamedTuple):
    """The points of a sweep that stand above the ground.

    Attributes:
        xyz: f8 (N, 3), m, in a world whose z is up.
        time: f8 (N,), s, when each was measured.
        ground: f8 (N,), z of the ground below, m.
        label: u1 (N,), of module `evidence`.
    """

    xyz: np.ndarray
    time: np.ndarray
    ground: np.ndarray
    label: np.ndarray

    def select(self, chosen: np.ndarray) -> Points:
        return Points(*(array[chosen] for array in self))


def thinned(xyz: np.ndarray) -> np.ndarray:
    """Indices of the first point in each cube of CELL_M, i8, ascending. xyz: f8 (N, 3), m."""
    cell = np.floor(xyz / CELL_M).astype("i8")
    cell -= cell.min(axis=0, initial=0)
    span = cell.max(axis=0, initial=0) + 1
    key = (cell[:, 0] * span[1] + cell[:, 1]) * span[2] + cell[:, 2]
    return np.sort(np.unique(key, return_index=True)[1])


def moving_clusters(points: Points, frame: int, lidar: np.ndarray, step: float, tilt: float, least: int) -> Clusters:
    """Clusters of points that move. Points that nothing is known about belong to the movers that they touch.

    Args:
        lidar: f8 (3,), its position.
        step, tilt: angles between neighbouring columns and beams, rad.
        least: minimum number of points of a cluster.
    """
    loose = points.select(points.label != STANDING)
    core = loose.label == MOVING
    number = _components(loose.xyz[:, :2], core, lidar[:2], step)
    found = whole_bodies(_described(loose, number, frame, lidar, 3), lidar[:2], tilt)
    found = found.select(found.points >= least)
    return found.select((found.moving >= _LEAST_MOVING) & (found.size <= _MAX_SIZE_M))


def still_clusters(points: Points, frame: int, lidar: np.ndarray, step: float, least: int) -> Clusters:
    """Clusters of points that were not seen to move, which have the size of an object and stand on the ground."""
    rest = points.select(points.label != MOVING)
    number = _components(rest.xyz[:, :2], np.ones(len(rest.label), bool), lidar[:2], step)
    found = _described(rest, number, frame, lidar, least)
    height = found.top - found.floor
    fits = (found.size >= _STILL_SIZE[0]) & (found.size <= _STILL_SIZE[1])
    return found.select(fits & (height >= _STILL_TOP[0]) & (height <= _STILL_TOP[1]))


def merged(clusters: Clusters) -> Clusters:
    """One cluster of all of some clusters of a sweep."""
    spots = clusters.outline.reshape(-1, 2)
    outline = spots[(spots @ _DIRECTIONS.T).argmax(axis=0)]
    weights = clusters.points / clusters.points.sum()
    return Clusters(
        frame=clusters.frame[:1],
        time=np.array([weights @ clusters.time]),
        outline=outline[None],
        floor=np.array([weights @ clusters.floor], "f4"),
        top=clusters.top.max(keepdims=True),
        points=clusters.points.sum(keepdims=True),
        moving=np.array([weights @ clusters.moving], "f4"),
        lidar=clusters.lidar[:1],
    )


def whole_bodies(clusters: Clusters, lidar: np.ndarray, tilt: float) -> Clusters:
    """The clusters of a sweep, with the parts of each body put together.

    Beams graze the roof and the bonnet of a car, and leave gaps there. What is within the outline of a cluster belongs
    to it, and so does what is behind a low cluster, higher, and in the same direction.

    Args:
        lidar: f8 (2,), m; tilt: angle between neighbouring beams, rad.
    """
    left, result = list(range(len(clusters.time))), []
    views = [_Sight.of(outline, lidar) for outline in clusters.outline]
    height = clusters.top - clusters.floor
    while left:
        group = [left.pop(0)]
        for first in group:  # grows while it is gone through
            joined = [
                n
                for n in left
                if _is_within(clusters.middle[n], clusters.outline[first])
                or views[first].continues(views[n], float(height[first]), float(height[n]), tilt)
            ]
            group += joined
            left = [n for n in left if n not in joined]
        chosen = clusters.select(np.array(group))
        result.append(merged(chosen) if len(group) > 1 else chosen)
    return Clusters.joined(result)


class _Sight(NamedTuple):
    """A cluster as the lidar sees it: its azimuths from `right` to `left`, rad, and its distances, m."""

    right: float
    left: float
    near: float
    far: float

    @staticmethod
    def of(outline: np.ndarray, lidar: np.ndarray) -> _Sight:
        to = outline - lidar
        middle = to.mean(axis=0)
        ahead = to @ middle
        turn = np.arctan2(middle[0] * to[:, 1] - middle[1] * to[:, 0], ahead)
        azimuth = float(np.arctan2(middle[1], middle[0]))
        distance = np.hypot(*to.T)
        low, high = float(turn.min()), float(turn.max())
        return _Sight(azimuth + low, azimuth + high, float(distance.min()), float(distance.max()))

    def continues(self, other: _Sight, height: float, other_height: float, tilt: float) -> bool:
        """Whether two clusters are the two ends of a bonnet."""
        nearer, farther = (self, other) if self.near <= other.near else (other, self)
        low, high = (height, other_height) if self.near <= other.near else (other_height, height)
        gap = farther.near - nearer.far
        if low > _BONNET_TOP_M or low > high or gap > min(_BONNET_GAP_M, nearer.far**2 * tilt / _BONNET_DEPTH_M):
            return False
        turn = 2 * np.pi * np.round((nearer.left - farther.left) / (2 * np.pi))
        shared = min(nearer.left, farther.left + turn) - max(nearer.right, farther.right + turn)
        return bool(shared > _SAME_DIRECTION * min(nearer.left - nearer.right, farther.left - farther.right))


def _is_within(place: np.ndarray, outline: np.ndarray) -> bool:
    """Whether a place, (2,), is left of every edge of a convex outline, (OUTLINE, 2), counter-clockwise."""
    edge = np.roll(outline, -1, axis=0) - outline
    to = place - outline
    return bool((edge[:, 0] * to[:, 1] - edge[:, 1] * to[:, 0] >= 0).all())


def _components(xy: np.ndarray, core: np.ndarray, lidar: np.ndarray, step: float) -> np.ndarray:
    """Number of the cluster of each point, i8 (N,); -1 = none. Others than `core` join clusters and connect none."""
    if not core.any():
        return np.full(len(xy), -1)
    cell = np.floor(xy / CELL_M).astype("i8")
    cell -= cell.min(axis=0)
    width = int(cell[:, 1].max()) + 1
    keys, position = np.unique(cell[:, 0] * width + cell[:, 1], return_inverse=True)
    is_core = np.zeros(len(keys), bool)
    is_core[position[core]] = True
    distance = np.full(len(keys), np.inf)
    np.minimum.at(distance, position, np.hypot(*(xy - lidar).T))
    centre = np.column_stack([keys // width, keys % width])
    middle = np.zeros((len(keys), 2))
    middle[position] = xy
    sight = (middle - lidar) / np.maximum(np.hypot(*(middle - lidar).T), 1e-6)[:, None]
    across = np.minimum(_GAP_M + _GAP_COLUMNS * step * distance, _MAX_GAP_M)
    along = np.minimum(across + _GAP_GRAZED * distance, _MAX_GAP_M)
    reach = np.maximum(1.0, np.round(np.column_stack([along, across]) / CELL_M))
    return _connect(keys, centre, width, is_core, sight, reach)[position]


@compiled
def _connect(
    keys: np.ndarray, place: np.ndarray, width: int, core: np.ndarray, sight: np.ndarray, reach: np.ndarray
) -> np.ndarray:
    """Number of the cluster of each cell, by union and find (Galler and Fischer, 1964).

    Args:
        keys: i8 (cell,), ascending, row * width + column; place: i8 (cell, 2), row and column.
        sight: f8 (cell, 2), unit vector of the line of sight.
        reach: f8 (cell, 2), cells that are connected are at most this far away along the line of sight and across it.
    """
    count = len(keys)
    parent = np.arange(count)
    joined = np.full(count, -1)
    for n in range(count):
        row, column = place[n]
        nearest, most = 1 << 30, int(max(reach[n, 0], reach[n, 1]))
        for i in range(row - most, row + most + 1):
            left, right = max(0, column - most), min(width - 1, column + most)
            m = np.searchsorted(keys, i * width + left)
            while m < count and keys[m] <= i * width + right:
                down, right_of = i - row, place[m, 1] - column
                along = abs(down * sight[n, 0] + right_of * sight[n, 1])
                across = abs(right_of * sight[n, 0] - down * sight[n, 1])
                if max(abs(down), abs(right_of)) > 1 and (along > reach[n, 0] + 0.5 or across > reach[n, 1] + 0.5):
                    m += 1
                    continue
                if core[m] and core[n]:
                    a, b = n, m
                    while parent[a] != a:
                        a = parent[a]
                    while parent[b] != b:
                        b = parent[b]
                    parent[max(a, b)] = min(a, b)
                elif core[m] and not core[n]:
                    away = down**2 + right_of**2
                    if away < nearest:
                        nearest, joined[n] = away, m
                m += 1
    result = np.full(count, -1)
    for n in range(count):
        a = n if core[n] else joined[n]
        if a < 0:
            continue
        while parent[a] != a:
            a = parent[a]
        result[n] = a
    return result


def _described(points: Points, number: np.ndarray, frame: int, lidar: np.ndarray, least: int) -> Clusters:
    """The clusters that have enough points, largest first, at most MAX_CLUSTERS."""
    chosen = np.flatnonzero(number >= 0)
    order = chosen[np.argsort(number[chosen], kind="stable")]
    ends = np.flatnonzero(np.diff(number[order])) + 1
    groups = [group for group in np.split(order, ends) if len(group) >= least]
    groups = sorted(groups, key=len, reverse=True)[:MAX_CLUSTERS]
    if not groups:
        return Clusters.none()
    outline = np.empty((len(groups), OUTLINE, 2), "f4")
    for row, group in zip(outline, groups, strict=True):
        xy = points.xyz[group, :2]
        row[:] = xy[(xy @ _DIRECTIONS.T).argmax(axis=0)]
    return Clusters(
        frame=np.full(len(groups), frame, "i4"),
        time=np.array([points.time[group].mean() for group in groups]),
        outline=outline,
        floor=np.array([np.median(points.ground[group]) for group in groups], "f4"),
        top=np.array([points.xyz[group, 2].max() for group in groups], "f4"),
        points=np.array([len(group) for group in groups], "i4"),
        moving=np.array([(points.label[group] == MOVING).mean() for group in groups], "f4"),
        lidar=np.broadcast_to(lidar[:2], (len(groups), 2)).astype("f4"),
    )
