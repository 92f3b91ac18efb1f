"""Clusters of the points of a sweep, and what is kept of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from rover_pipeline.kinematics.state import Poses
from rover_pipeline.lidar.geometry import destagger, rays, sensor_info
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.objects.tuning import TUNING

# Evidence that a point belongs to something that moves: at another time the lidar looked through its place.
#
# A return says that its beam passed freely up to it. A place that a beam passed some seconds before or after holds
# something now, so that it has come or will go. A place that was hidden, or that no beam looked at, gives no evidence:
# what comes into view behind a corner, or is seen from another side, is no mover (Pomerleau et al., Long-term 3D map
# maintenance in dynamic environments, ICRA 2014; Kim and Kim, Remove, then revert, IROS 2020).

#: Steps of the table of elevations. Layout.
_ELEVATIONS = 8192
#: Labels of points. Layout.
STANDING, UNKNOWN, MOVING = range(3)


class View(NamedTuple):
    """The directions of the pixels of destaggered images."""

    first: float  #: azimuth of column 0, rad, to the left; columns go to the right.
    beam: np.ndarray  #: i4 (step of elevation,), the beam nearest to an elevation; -1 = no beam looks there.
    step: float  #: angle between neighbouring columns, rad.

    @staticmethod
    def of(metadata: str) -> View:
        """The view of the sensor of a `lidar.json`."""
        _, direction = rays(metadata)
        info = sensor_info(metadata)
        unit = direction / np.linalg.norm(direction, axis=-1, keepdims=True)
        x, y, z = (destagger(np.ascontiguousarray(unit[None, ..., axis]), info)[0] for axis in range(3))
        azimuth = np.arctan2(y, x)
        columns = azimuth.shape[1]
        turned = np.exp(1j * (azimuth + 2 * np.pi * np.arange(columns) / columns))
        elevation = np.arcsin(z).mean(axis=1)
        order = np.argsort(elevation, kind="stable")
        angles = (np.arange(_ELEVATIONS) + 0.5) / _ELEVATIONS * np.pi - np.pi / 2
        near = np.clip(np.searchsorted(elevation[order], angles), 1, max(1, len(order) - 1))
        low, high = order[near - 1], order[np.minimum(near, len(order) - 1)]
        beam = np.where(np.abs(elevation[low] - angles) < np.abs(elevation[high] - angles), low, high)
        spacing = np.ptp(elevation) / max(1, len(order) - 1)
        outside = np.abs(elevation[beam] - angles) > 2 * spacing
        beam[outside & ((angles < elevation.min()) | (angles > elevation.max()))] = -1
        return View(float(np.angle(turned.mean())), beam.astype("i4"), 2 * np.pi / columns)


class Look(NamedTuple):
    """A sweep that places of other sweeps are looked for in."""

    time: float  #: of the sweep, s.
    span: float  #: longest time before and after it for which it gives evidence, s.
    rng: np.ndarray  #: u2 (beam, column), mm, destaggered.
    poses: Poses  #: of the lidar at the columns, in the world.


def labels(points: np.ndarray, looks: list[Look], view: View) -> np.ndarray:
    """STANDING, UNKNOWN or MOVING for each point, f8 (N, 3), m, in the world: u1 (N,)."""
    counts = np.zeros((len(points), 2), "u2")
    for look in looks:
        _vote(points, look.rng, look.poses.rot, look.poses.pos, view.first, view.beam, counts)
    free, same = counts.astype("i4").T
    return np.where(free > 2 * same, MOVING, np.where(same >= np.maximum(1, free), STANDING, UNKNOWN)).astype("u1")


@compiled
def _vote(
    points: np.ndarray,
    rng: np.ndarray,
    rot: np.ndarray,
    pos: np.ndarray,
    first: float,
    beam_of: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Adds what one sweep says about places: whether each was seen to be free, or a surface was seen there, (N, 2).

    A window with a return at the distance of the point shows a surface there. One that has at least as many returns as
    one of its rows has pixels, the nearest of them behind the point, shows that the place is free. Any other one, such
    as one with something nearer, or a surface that the beams graze, gives no evidence.
    """
    beams, columns = rng.shape
    per_column = columns / (2 * np.pi)
    steps = len(beam_of)
    for n in range(len(points)):
        c, beam, distance = columns // 2, -1, 0.0
        for _ in range(2):  # the pose is that of the column, which follows from the pose
            dx, dy, dz = points[n, 0] - pos[c, 0], points[n, 1] - pos[c, 1], points[n, 2] - pos[c, 2]
            x = rot[c, 0, 0] * dx + rot[c, 1, 0] * dy + rot[c, 2, 0] * dz
            y = rot[c, 0, 1] * dx + rot[c, 1, 1] * dy + rot[c, 2, 1] * dz
            z = rot[c, 0, 2] * dx + rot[c, 1, 2] * dy + rot[c, 2, 2] * dz
            distance = np.sqrt(x * x + y * y + z * z)
            if distance < 0.3:
                break
            c = int(np.floor((first - np.arctan2(y, x)) * per_column + 0.5)) % columns
            beam = beam_of[min(steps - 1, max(0, int((np.arcsin(z / distance) / np.pi + 0.5) * steps)))]
        if beam < 0 or distance < 0.3:
            continue
        same = TUNING.surface_m + TUNING.surface_share * distance
        nearest, returns, surface = np.inf, 0, False
        for b in range(max(0, beam - TUNING.window_beams), min(beams, beam + TUNING.window_beams + 1)):
            for k in range(c - TUNING.window_columns, c + TUNING.window_columns + 1):
                value = rng[b, k % columns]
                if value == 0 or value == CLIPPED:
                    continue
                returns += 1
                metres = 0.001 * value
                nearest = min(nearest, metres)
                if abs(metres - distance) <= same:
                    surface = True
        if surface:
            counts[n, 1] += 1
        elif returns > 2 * TUNING.window_columns and nearest > distance + 2 * same:
            counts[n, 0] += 1


#: Edge of the cells that clusters are made of, m, and of the cubes of option `min_points`. Layout.
CELL_M = 0.1
#: Directions in which the outline of a cluster is kept, twice: of the points that were measured first, and of the
#: others. A body that is passed by the beginning and the end of a revolution has moved by then. Layout.
_DIRECTED = 24
OUTLINE = 2 * _DIRECTED
_ANGLES = 2 * np.pi * np.arange(_DIRECTED) / _DIRECTED
DIRECTIONS = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], -1)
#: Maximum number of points of a cluster that are kept, which show where its flat sides are. Layout.
SAMPLE = 96
#: Maximum number of clusters of a sweep, the largest ones: a limit of memory. Layout.
_MAX_CLUSTERS = 256
#: Size of what moves, m: at most that of a bus. Sizes of what stands: footprint from a post to a van, height of its top
#: from a bollard to a van. Tuned: by hand.
_MAX_SIZE_M, _STILL_SIZE, _STILL_TOP = 14.0, (0.2, 6.0), (0.5, 2.6)


class Clusters(NamedTuple):
    """The clusters of some sweeps."""

    frame: np.ndarray  #: i4 (C,), number of the sweep.
    time: np.ndarray  #: f8 (C,), s, mean of the times at which the points were measured.
    #: f4 (C, OUTLINE, 2), the farthest points in equally spaced directions, x and y in the world, m, of the first half
    #: of the time in which the cluster was measured, then of the second.
    outline: np.ndarray
    later: np.ndarray  #: f4 (C, OUTLINE), when each of them was measured, s after `time`.
    open: np.ndarray  #: bool (C, OUTLINE), whether the cluster may go on there, behind something nearer.
    #: f4 (C, SAMPLE, 3), points that are spread over the cluster: x and y in the world, m, and when they were measured,
    #: s after `time`; NaN where there are fewer.
    sample: np.ndarray
    floor: np.ndarray  #: f4 (C,), z of the ground, m.
    top: np.ndarray  #: f4 (C,), z of the highest point, m.
    points: np.ndarray  #: i4 (C,), number of points.
    lidar: np.ndarray  #: f4 (C, 2), where the lidar was, m.

    @staticmethod
    def none() -> Clusters:
        shapes = [(), (), (OUTLINE, 2), (OUTLINE,), (OUTLINE,), (SAMPLE, 3), (), (), (), (2,)]
        types = ["i4", "f8", "f4", "f4", "?", "f4", "f4", "f4", "i4", "f4"]
        return Clusters(*(np.zeros((0, *shape), dtype) for shape, dtype in zip(shapes, types, strict=True)))

    @staticmethod
    def joined(parts: list[Clusters]) -> Clusters:
        """All clusters of a list, which is emptied meanwhile: hardly more than the result is held at any time."""
        columns = [list(arrays) for arrays in zip(*(parts or [Clusters.none()]), strict=True)]
        parts.clear()
        joined = []
        for column in columns:
            joined.append(np.concatenate(column))
            column.clear()
        return Clusters(*joined)

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

    @property
    def distance(self) -> np.ndarray:
        """From the lidar, f8 (C,), m."""
        return np.asarray(np.linalg.norm(self.middle - self.lidar, axis=1))

    def merged(self) -> Clusters:
        """One cluster for each sweep, of all that this sweep has."""
        order = np.argsort(self.frame, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(self.frame[order])) + 1)
        parts = [self.select(group) for group in groups]
        return Clusters.joined([_merged(part) if len(part.time) > 1 else part for part in parts])


def _merged(clusters: Clusters) -> Clusters:
    """One cluster of all of some clusters of a sweep."""
    weights = clusters.points / clusters.points.sum()
    time = float(matmul(weights, clusters.time))
    later = clusters.later + (clusters.time - time)[:, None]
    sample = clusters.sample.copy()
    sample[..., 2] += (clusters.time - time)[:, None]
    outline, after, ends = outlined(clusters.outline.reshape(-1, 2), later.reshape(-1), clusters.open.reshape(-1))
    return Clusters(
        frame=clusters.frame[:1],
        time=np.array([time]),
        outline=outline[None],
        later=after[None],
        open=ends[None],
        sample=sampled(sample[np.isfinite(sample[..., 0])])[None],
        floor=np.array([matmul(weights, clusters.floor)], "f4"),
        top=clusters.top.max(keepdims=True),
        points=clusters.points.sum(keepdims=True),
        lidar=clusters.lidar[:1],
    )


def outlined(xy: np.ndarray, later: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The outline of points: f4 (OUTLINE, 2), when they were measured, f4 (OUTLINE,), and `ends` of each, bool.

    Args:
        xy: f8 (N, 2), m; later: f8 (N,), s; ends: bool (N,).
    """
    reach = matmul(xy, DIRECTIONS.T)
    first = later <= (later.min() + later.max()) / 2
    halves = [np.where(half[:, None], reach, -np.inf) if half.any() else reach for half in (first, ~first)]
    chosen = np.concatenate([half.argmax(axis=0) for half in halves])
    return xy[chosen].astype("f4"), later[chosen].astype("f4"), ends[chosen]


def sampled(points: np.ndarray) -> np.ndarray:
    """At most SAMPLE of some points, (N, 3), evenly spread over their order, f4 (SAMPLE, 3), filled with NaN."""
    chosen = np.linspace(0, len(points) - 1, min(SAMPLE, len(points))).astype(int)
    result = np.full((SAMPLE, 3), np.nan, "f4")
    result[: len(chosen)] = points[chosen]
    return result


class Points(NamedTuple):
    """The points of a sweep that stand above the ground."""

    xyz: np.ndarray  #: f8 (N, 3), m, in a world whose z is up.
    time: np.ndarray  #: f8 (N,), s, when each was measured.
    ground: np.ndarray  #: f8 (N,), z of the ground below, m.
    label: np.ndarray  #: u1 (N,), STANDING, UNKNOWN or MOVING.
    #: bool (N,), whether there is something nearer beside it in the sweep, which may hide what it belongs to.
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


def moving_clusters(points: Points, frame: int, lidar: np.ndarray, step: float, min_points: int) -> Clusters:
    """Clusters of points that move. Points that nothing is known about belong to the movers that they touch.

    Args:
        lidar: f8 (3,), its position.
        step: angle between neighbouring columns, rad.
    """
    loose = points.select(points.label != STANDING)
    moves = loose.label == MOVING
    number = _components(loose.xyz[:, :2], moves, lidar[:2], step)
    share = np.bincount(number + 1, moves) / np.maximum(np.bincount(number + 1), 1)
    number[share[number + 1] < TUNING.moving_share] = -1
    rest = np.concatenate([points.xyz[points.label == STANDING], loose.xyz[number < 0]])
    tree = cKDTree(rest) if len(rest) else None
    for each in np.unique(number[number >= 0]):
        own = np.flatnonzero(number == each)
        if tree is not None and np.ptp(loose.xyz[own, :2], axis=0).max() >= TUNING.min_line_m:
            # A flat side that slides along itself seems to stand, so a body may not end where it touches what stands.
            apart, _ = tree.query(loose.xyz[own], distance_upper_bound=TUNING.surface_m)
            loose.open[own] |= np.isfinite(apart)
    found = _described(loose, number, frame, lidar, min_points)
    return found.select(found.size <= _MAX_SIZE_M)


def still_clusters(points: Points, frame: int, lidar: np.ndarray, step: float, min_points: int) -> Clusters:
    """Clusters of points that were not seen to move, which have the size of an object and stand on the ground."""
    rest = points.select(points.label != MOVING)
    number = _components(rest.xyz[:, :2], np.ones(len(rest.label), bool), lidar[:2], step)
    found = _described(rest, number, frame, lidar, min_points)
    height = found.top - found.floor
    fits = (found.size >= _STILL_SIZE[0]) & (found.size <= _STILL_SIZE[1])
    return found.select(fits & (height >= _STILL_TOP[0]) & (height <= _STILL_TOP[1]))


def _components(xy: np.ndarray, core: np.ndarray, lidar: np.ndarray, step: float) -> np.ndarray:
    """Number of the cluster of each point, i8 (N,); -1 = none. Others than `core` join clusters and connect none.

    Two cells are in one cluster if the gap between them is one that neighbouring columns leave in a surface at their
    distance, or, along the line of sight, one that a grazed surface leaves, and not wider than a maximum.
    """
    if not core.any():
        return np.full(len(xy), -1)
    cell = np.floor(xy / CELL_M).astype("i8")
    cell -= cell.min(axis=0)
    width = int(cell[:, 1].max()) + 1
    keys, position = np.unique(cell[:, 0] * width + cell[:, 1], return_inverse=True)
    is_core = np.zeros(len(keys), bool)
    is_core[position[core]] = True
    inside = np.zeros((len(keys), 2))
    inside[position] = xy - lidar
    distance = np.hypot(*inside.T)
    sight = inside / np.maximum(distance, 1e-6)[:, None]
    across = CELL_M + TUNING.gap_columns * step * distance
    along = across + TUNING.gap_grazed * distance
    gap = np.minimum(np.column_stack([along, across]), TUNING.max_gap_m)
    reach = np.maximum(1.0, np.round(gap / CELL_M))
    place = np.column_stack([keys // width, keys % width])
    return _connect(keys, place, width, is_core, sight, reach)[position]


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
        nearest, span = 1 << 30, int(max(reach[n, 0], reach[n, 1]))
        for i in range(row - span, row + span + 1):
            left, right = max(0, column - span), min(width - 1, column + span)
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


def _described(points: Points, number: np.ndarray, frame: int, lidar: np.ndarray, min_points: int) -> Clusters:
    """The clusters that have enough points, largest first, at most _MAX_CLUSTERS."""
    chosen = np.flatnonzero(number >= 0)
    order = chosen[np.argsort(number[chosen], kind="stable")]
    ends = np.flatnonzero(np.diff(number[order])) + 1
    groups = [group for group in np.split(order, ends) if len(group) >= min_points]
    groups = sorted(groups, key=len, reverse=True)[:_MAX_CLUSTERS]
    if not groups:
        return Clusters.none()
    times = np.array([points.time[group].mean() for group in groups])
    outlines = []
    for group, time in zip(groups, times, strict=True):
        xy, hidden = points.xyz[group, :2], points.xyz[group[points.open[group]], :2]
        outline, later, _ = outlined(xy, points.time[group] - time, points.open[group])
        apart = np.linalg.norm(outline[:, None] - hidden[None], axis=-1).min(axis=1, initial=np.inf)
        sample = sampled(np.column_stack([xy, points.time[group] - time]))
        outlines.append((outline, later, apart <= TUNING.surface_m, sample))
    outline, later, is_open, sample = (np.stack(each) for each in zip(*outlines, strict=True))
    return Clusters(
        frame=np.full(len(groups), frame, "i4"),
        time=times,
        outline=outline,
        later=later,
        open=is_open,
        sample=sample,
        floor=np.array([np.median(points.ground[group]) for group in groups], "f4"),
        top=np.array([points.xyz[group, 2].max() for group in groups], "f4"),
        points=np.array([len(group) for group in groups], "i4"),
        lidar=np.broadcast_to(lidar[:2], (len(groups), 2)).astype("f4"),
    )
