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
_MAX_GAP_M = 1.0
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


def moving_clusters(points: Points, frame: int, lidar: np.ndarray, step: float, least: int) -> Clusters:
    """Clusters of points that move. Points that nothing is known about belong to the movers that they touch.

    Args:
        lidar: f8 (3,), its position.
        step: angle between neighbouring columns, rad.
        least: minimum number of points of a cluster.
    """
    loose = points.select(points.label != STANDING)
    core = loose.label == MOVING
    number = _components(loose.xyz[:, :2], core, lidar[:2], step)
    found = without_inner(_described(loose, number, frame, lidar, least))
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


def without_inner(clusters: Clusters) -> Clusters:
    """The clusters of a sweep, largest first, each together with those whose middle is within its outline: roofs."""
    left, result = list(range(len(clusters.time))), []
    while left:
        inner = [n for n in left[1:] if _is_within(clusters.middle[n], clusters.outline[left[0]])]
        group = np.array([left[0], *inner])
        result.append(merged(clusters.select(group)) if inner else clusters.select(group))
        left = [n for n in left[1:] if n not in inner]
    return Clusters.joined(result)


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
    gap = np.minimum(_GAP_M + _GAP_COLUMNS * step * distance, _MAX_GAP_M)
    reach = np.maximum(1, np.round(gap / CELL_M)).astype("i8")
    return _connect(keys, width, is_core, reach)[position]


@compiled
def _connect(keys: np.ndarray, width: int, core: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Number of the cluster of each cell, by union and find (Galler and Fischer, 1964).

    Args:
        keys: i8 (cell,), ascending, row * width + column.
        reach: i8 (cell,), cells are connected with those that are at most this far away.
    """
    count = len(keys)
    parent = np.arange(count)
    joined = np.full(count, -1)
    for n in range(count):
        row, column = keys[n] // width, keys[n] % width
        nearest = 1 << 30
        for i in range(row - reach[n], row + reach[n] + 1):
            left, right = max(0, column - reach[n]), min(width - 1, column + reach[n])
            m = np.searchsorted(keys, i * width + left)
            while m < count and keys[m] <= i * width + right:
                if core[m] and core[n]:
                    a, b = n, m
                    while parent[a] != a:
                        a = parent[a]
                    while parent[b] != b:
                        b = parent[b]
                    parent[max(a, b)] = min(a, b)
                elif core[m] and not core[n]:
                    away = (i - row) ** 2 + (keys[m] % width - column) ** 2
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
