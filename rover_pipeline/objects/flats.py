"""Headings of bodies, measured from their flat sides.

The points of a flat side lie on one line when they are seen from above, and so do those of sides parallel to it, such
as those of a cabin. The direction in which the fewest lines hold the most points is that of the body, or at a right
angle to it (after Zhang et al., Efficient L-shape fitting for vehicle detection using laser scanners, IV 2017). The way
of the body tells which, in many sweeps that follow each other: in a single one the way is not well known.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.linear import matmul
from rover_pipeline.objects.clusters import Clusters
from rover_pipeline.objects.poses import PlanePoses, at_once

#: Directions that are tried, rad: all, since others are at right angles to these.
_TRIED = np.radians(np.arange(-45.0, 45.0, 2.0))
#: Longest time between two sweeps between which a body turns by less than half a right angle, s.
_STEADY_S = 0.5
#: Width of a line of points, m: sides are not quite flat and ranges have errors.
_WIDTH_M = 0.08
#: Minimum number of points on a line, and length of it, m.
_LEAST_POINTS, _LEAST_LENGTH_M = 6, 1.0
#: Standard deviations of a point's distance from the line of its side, m, and of the side's direction in the body, rad:
#: sides are a little curved.
_POINT_SD, _SIDE_SD = 0.03, 0.017
#: Number of times that the points of a line are chosen again.
_CHOICES = 3


class Headings(NamedTuple):
    """Headings of a body by its flat sides.

    Attributes:
        known: bool (C,), which clusters show a flat side.
        yaw, sd: f8 (C,), rad, of all clusters; without a meaning where they are not known.
    """

    known: np.ndarray
    yaw: np.ndarray
    sd: np.ndarray


def flat_headings(clusters: Clusters, poses: PlanePoses) -> Headings:
    """The headings that the flat sides of the clusters of a track tell.

    Args:
        poses: of the body at the clusters' times.
    """
    sample = clusters.sample.astype("f8")
    places = at_once(sample[..., :2], sample[..., 2], poses) - poses.centre[:, None]
    cos, sin = np.cos(poses.yaw)[:, None], np.sin(poses.yaw)[:, None]
    own = np.stack([cos * places[..., 0] + sin * places[..., 1], cos * places[..., 1] - sin * places[..., 0]], axis=-1)
    found = [_direction(points[np.isfinite(points[:, 0])]) for points in own]
    turn, sd = np.array(found).reshape(-1, 2).T
    known = np.isfinite(turn)
    yaw = poses.yaw.copy()
    yaw[known] = _unfolded(clusters.time[known], poses.yaw[known] + turn[known], poses.yaw[known])
    return Headings(known, yaw, np.where(known, sd, 1.0))


def _unfolded(time: np.ndarray, angle: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Angles that are known but for multiples of a right angle, without jumps, near those that are expected."""
    if not len(time):
        return angle
    quarter = np.pi / 2
    ends = [0, *(1 + np.flatnonzero(np.diff(time) > _STEADY_S)).tolist(), len(time)]
    result = angle.copy()
    for begin, end in pairwise(ends):
        part = slice(begin, end)
        steady = np.unwrap(angle[part], period=quarter)
        result[part] = steady + quarter * np.round(np.median(expected[part] - steady) / quarter)
    return result


def _direction(points: np.ndarray) -> tuple[float, float]:
    """Direction of the flat sides among points, f8 (P, 2), from the first axis, and its standard deviation, rad; NaN
    where there are none."""
    none = (np.nan, np.nan)
    if len(points) < _LEAST_POINTS:
        return none
    cos, sin = np.cos(_TRIED), np.sin(_TRIED)
    along = points[:, :1] * cos + points[:, 1:] * sin
    left = points[:, 1:] * cos - points[:, :1] * sin
    best = int(np.argmax(_crowding(along) + _crowding(left)))
    sides = [
        side
        for side in (_line(along[:, best], left[:, best]), _line(left[:, best], -along[:, best]))
        if side is not None
    ]
    if not sides:
        return none
    slope, spread = max(sides, key=lambda side: side[1])
    return float(_TRIED[best] + slope), float(np.hypot(_POINT_SD / np.sqrt(spread), _SIDE_SD))


def _crowding(values: np.ndarray) -> np.ndarray:
    """How much the values of each column, f8 (P, A), m, lie at few places: f8 (A,)."""
    cell = np.floor(values / _WIDTH_M).astype("i8")
    cell -= cell.min()
    columns = values.shape[1]
    count = np.bincount((cell * columns + np.arange(columns)).ravel(), minlength=(cell.max() + 2) * columns)
    rows = count.reshape(-1, columns)
    return np.asarray(((rows[:-1] + rows[1:]) ** 2).sum(axis=0))


def _line(along: np.ndarray, left: np.ndarray) -> tuple[float, float] | None:
    """Slope of the line that holds the most points, rad, and the sum of the squares of their distances from its middle,
    m2; None if there is no line."""
    order = np.sort(left)
    most = np.searchsorted(order, order + _WIDTH_M, side="right") - np.arange(len(order))
    lowest = order[int(np.argmax(most))]
    on = (left >= lowest) & (left <= lowest + _WIDTH_M)
    slope = 0.0
    for _ in range(_CHOICES):
        if on.sum() < _LEAST_POINTS or np.ptp(along[on]) < _LEAST_LENGTH_M:
            return None
        middle, height = along[on].mean(), left[on].mean()
        away = along[on] - middle
        slope = float(matmul(away, left[on] - height) / matmul(away, away))
        on = np.abs(left - height - slope * (along - middle)) <= _WIDTH_M / 2
    if on.sum() < _LEAST_POINTS or np.ptp(along[on]) < _LEAST_LENGTH_M:
        return None
    return float(np.arctan(slope)), float(((along[on] - along[on].mean()) ** 2).sum())
