"""Clusters of the points of a sweep."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.objects.clusters import Clusters, outlined, sampled
from rover_pipeline.objects.evidence import MOVING, STANDING
from rover_pipeline.objects.wholes import whole_bodies

#: Edge of the cells that clusters are made of, m. Also of the cubes that hold one point each.
CELL_M = 0.1
#: Gap within a cluster, m, and what is added to it in distances between neighbouring columns of a sweep.
_GAP_M, _GAP_COLUMNS = 0.12, 3.0
#: What is added to it along the line of sight, as a share of the range: a side that is grazed is hit at long intervals.
_GAP_GRAZED = 0.03
_MAX_GAP_M = 1.0
#: An end of an outline is open when something nearer hides what is within this distance of it, m.
_OPEN_M = 0.25
#: Minimum share of points whose places were seen to be free, in a cluster that moves.
_LEAST_MOVING = 0.5
#: Largest footprint of an object, m.
_MAX_SIZE_M = 14.0
#: Smallest and largest sizes of what stands and is taken for an object, m: footprint, height of its top.
_STILL_SIZE, _STILL_TOP = (0.2, 6.0), (0.5, 2.6)
#: Maximum number of clusters of a sweep, the largest ones.
MAX_CLUSTERS = 256


class Points(NamedTuple):
    """The points of a sweep that stand above the ground.

    Attributes:
        xyz: f8 (N, 3), m, in a world whose z is up.
        time: f8 (N,), s, when each was measured.
        ground: f8 (N,), z of the ground below, m.
        label: u1 (N,), of module `evidence`.
        open: bool (N,), whether there is something nearer beside it in the sweep, which may hide what it belongs to.
    """

    xyz: np.ndarray
    time: np.ndarray
    ground: np.ndarray
    label: np.ndarray
    open: np.ndarray

    def select(self, chosen: np.ndarray) -> Points:
        return Points(*(array[chosen] for array in self))


def thinned(xyz: np.ndarray, flag: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the first point in each cube of CELL_M, i8, ascending; and whether any point of the cube has the flag.

    Args:
        xyz: f8 (N, 3), m; flag: bool (N,).
    """
    cell = np.floor(xyz / CELL_M).astype("i8")
    cell -= cell.min(axis=0, initial=0)
    span = cell.max(axis=0, initial=0) + 1
    key = (cell[:, 0] * span[1] + cell[:, 1]) * span[2] + cell[:, 2]
    _, first, cube = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    return first[order], np.bincount(cube[flag], minlength=len(first))[order] > 0


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
    times = np.array([points.time[group].mean() for group in groups])
    outlines = []
    for group, time in zip(groups, times, strict=True):
        xy, hidden = points.xyz[group, :2], points.xyz[group[points.open[group]], :2]
        outline, later, _ = outlined(xy, points.time[group] - time, points.open[group])
        apart = np.linalg.norm(outline[:, None] - hidden[None], axis=-1).min(axis=1, initial=np.inf)
        sample = sampled(np.column_stack([xy, points.time[group] - time]))
        outlines.append((outline, later, apart <= _OPEN_M, sample))
    outline, later, ends, sample = (np.stack(each) for each in zip(*outlines, strict=True))
    return Clusters(
        frame=np.full(len(groups), frame, "i4"),
        time=times,
        outline=outline,
        later=later,
        open=ends,
        sample=sample,
        floor=np.array([np.median(points.ground[group]) for group in groups], "f4"),
        top=np.array([points.xyz[group, 2].max() for group in groups], "f4"),
        points=np.array([len(group) for group in groups], "i4"),
        moving=np.array([(points.label[group] == MOVING).mean() for group in groups], "f4"),
        lidar=np.broadcast_to(lidar[:2], (len(groups), 2)).astype("f4"),
    )
