"""The box of a body, of which a cluster shows a part: its ends along and across its heading, its middle, its heading.

Beams reach two sides of a body at most, and something nearer may hide an end of it. The end that is seen stays where it
is on the body while the other one comes and goes, so the middle is measured from it, by the size that other sweeps
give (the switching of reference points of trackers of extended objects).
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.blocks import BLOCK, blocks
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.numerics.nearest import nearest_samples
from rover_pipeline.objects.clusters import CELL_M, Clusters
from rover_pipeline.objects.smoothing import Smoothed
from rover_pipeline.objects.tracking import TURN_SD
from rover_pipeline.objects.tuning import TUNING

#: Percentile of the sizes that were seen which is the body's: smaller ones are parts of it, larger ones two bodies.
#: Tuned: by hand.
SIZE_PERCENTILE = 80.0
#: Directions in which lines are looked for before they are refined, rad: all, since the other sides of a box are at
#: right angles to these. Schedule.
_DIRECTIONS = np.radians(np.arange(-45.0, 45.0, 2.0))
#: Number of times that the points of a line are chosen again. Schedule.
_REFITS = 3


class PlanePoses(NamedTuple):
    """Where a body was at the times of its clusters, and how it moved."""

    centre: np.ndarray  #: f8 (C, 2), m.
    yaw: np.ndarray  #: f8 (C,), rad.
    vel: np.ndarray  #: f8 (C, 2), m/s.
    turn: np.ndarray  #: f8 (C,), rad/s.

    def select(self, chosen: slice) -> PlanePoses:
        return PlanePoses(*(array[chosen] for array in self))

    @staticmethod
    def standing(centre: np.ndarray, yaw: float) -> PlanePoses:
        """Of something that does not move."""
        count = len(centre)
        return PlanePoses(centre, np.full(count, yaw), np.zeros((count, 2)), np.zeros(count))

    @staticmethod
    def of(motion: Smoothed, yaw: np.ndarray, times: np.ndarray, wanted: np.ndarray) -> PlanePoses:
        """At the wanted times, f8 (C,), s, of a motion that is known at others.

        Args:
            yaw: f8 (N,), rad, without jumps; times: f8 (N,), s, ascending.
        """
        near = nearest_samples(times, wanted)
        dt = (wanted - times[near])[:, None]
        vel = np.column_stack([np.interp(wanted, times, motion.state[:, 2 + axis]) for axis in range(2)])
        centre = motion.state[near, :2] + dt * (vel + motion.state[near, 2:]) / 2
        turn = np.zeros(len(times))
        if motion.heading is not None and len(times) > 1:
            turn = np.gradient(motion.heading, times)
        return PlanePoses(centre, np.interp(wanted, times, yaw), vel, np.interp(wanted, times, turn))


def turned(vectors: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Vectors, (..., 2), turned to the left by angles, (...), rad."""
    cos, sin = np.cos(angle), np.sin(angle)
    x, y = vectors[..., 0], vectors[..., 1]
    return np.stack([cos * x - sin * y, sin * x + cos * y], axis=-1)


def deskewed(xy: np.ndarray, later: np.ndarray, poses: PlanePoses) -> np.ndarray:
    """Points of a moving body, moved to where they were at the times of their clusters.

    A body seen by both ends of a revolution has moved on by half a metre, or turned, between its points.

    Args:
        xy: f8 (C, P, 2), m; later: f8 (C, P), s, when each was measured after its cluster's time.
    """
    half = poses.turn[:, None] * later / 2
    # On an arc, a body moves as it heads in the middle between two times.
    way = turned(np.broadcast_to(poses.vel[:, None], xy.shape), half) * later[..., None]
    return poses.centre[:, None] + turned(xy - way - poses.centre[:, None], -2 * half)


class Extents(NamedTuple):
    """The ends of clusters along a heading and to its left; all (C, 2)."""

    low: np.ndarray  #: f8, lowest coordinate in axes of that direction through the world's origin, m.
    high: np.ndarray  #: f8, highest one.
    low_open: np.ndarray  #: bool, whether something nearer may hide what goes on there, as `high_open`.
    high_open: np.ndarray

    @property
    def size(self) -> np.ndarray:
        """Of what is seen, f8 (C, 2), m."""
        return self.high - self.low

    @staticmethod
    def of(clusters: Clusters, poses: PlanePoses) -> Extents:
        """Of clusters, as the body was at their times, whose poses these are."""
        found = []
        for part in blocks(len(clusters.time), BLOCK // 16):  # each has about a hundred points
            some, there = clusters.select(part), poses.select(part)
            own = turned(deskewed(some.outline.astype("f8"), some.later.astype("f8"), there), -there.yaw[:, None])
            lowest, highest, row = own.argmin(axis=1), own.argmax(axis=1), np.arange(len(own))[:, None]
            low, high = (np.take_along_axis(own, at[:, None], axis=1)[:, 0] for at in (lowest, highest))
            found.append((low, high, some.open[row, lowest], some.open[row, highest]))
        return Extents(*map(np.concatenate, zip(*found, strict=True)))

    def typical_size(self, distance: np.ndarray) -> np.ndarray:
        """Length and width of a body, f8 (2,), m, of which many clusters show a part.

        Args:
            distance: f8 (C,), from the lidar, m. From near by more is seen, perhaps for a small part of the track.
        """
        # Of five sizes, the 80th percentile is the first that is not the largest one's.
        near = np.argsort(distance, kind="stable")[: max(round(100 / (100 - SIZE_PERCENTILE)), len(distance) // 4)]
        sizes = [np.percentile(sizes, SIZE_PERCENTILE, axis=0) for sizes in (self.size, self.size[near])]
        return np.maximum(np.max(sizes, axis=0), CELL_M)  # of the cubes, one point each

    def shows_both_ends(self, size: np.ndarray) -> bool:
        """Whether some cluster is as long as a box of this length and width, m, and both of its ends are in view."""
        in_view = ~(self.low_open | self.high_open)[:, 0]
        return bool((in_view & (self.size[:, 0] > size[0] - TUNING.surface_m)).any())

    def middles(
        self, size: np.ndarray, poses: PlanePoses, lidar: np.ndarray, match_sd: float, size_sd: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Middles of the bodies in the world, f8 (C, 2), m; and standard deviations along the heading and to its left
        for what is hidden, f8 (C, 2), m.

        Where a part of a body is hidden, either end of a cluster may be an end of the body, or none. How near each puts
        the middle to the expected one, and whether it looks like an end, gives their probabilities (a mixture, as of
        the expectation-maximization algorithm).

        Args:
            size: f8 (2,), length and width, m.
            poses: that are expected.
            lidar: f8 (C, 2), its place, m.
            match_sd: standard deviation of the expected middles, m.
            size_sd: standard deviation of the length that is hidden, as a share of it.
        """
        own, expected = (turned(xy, -poses.yaw) for xy in (lidar, poses.centre))
        hidden = np.maximum(0, size - self.size)
        ends = [self.low + size / 2, self.high - size / 2]
        # An end looks like one of the body when nothing nearer is beside it and it is not on the far side.
        low, high = (
            np.where(is_open, TUNING.hidden_end_prior, 1.0)
            * np.where(near, 1.0, TUNING.hidden_end_prior)
            * np.exp(-np.minimum(((end - expected) / match_sd) ** 2 / 2, 50.0))
            for is_open, near, end in zip(
                (self.low_open, self.high_open), (own < self.high, own > self.low), ends, strict=True
            )
        )
        either = np.maximum(low + high, 1e-12)
        is_short = hidden > TUNING.surface_m
        middle = np.where(is_short, (low * ends[0] + high * ends[1]) / either, (self.low + self.high) / 2)
        # The less probable either end is, beside a middle that is anywhere in what is hidden, the less is known.
        doubt = TUNING.end_doubt * np.sqrt(match_sd / np.maximum(hidden, match_sd) / either)
        doubt = np.minimum(doubt, TUNING.unknown_share * hidden)
        return turned(middle, poses.yaw), np.where(is_short, size_sd * hidden + doubt, 0.0)


class Headings(NamedTuple):
    """Headings of a body by its flat sides."""

    known: np.ndarray  #: bool (C,), which clusters show a flat side.
    yaw: np.ndarray  #: f8 (C,), rad, of all clusters, as `sd`; without a meaning where they are not known.
    sd: np.ndarray

    @staticmethod
    def of(clusters: Clusters, poses: PlanePoses) -> Headings:
        """Of the clusters of a track, whose poses these are.

        The points of a flat side lie on one line when they are seen from above, and so do those of sides parallel to
        it, such as those of a cabin. The direction in which the points crowd on a minimum of lines is that of the body,
        or at a right angle to it (after Zhang et al., Efficient L-shape fitting for vehicle detection using laser
        scanners, IV 2017). The motion in many sweeps says which: in a single one it is not well known.
        """
        found = list[tuple[float, float]]()
        for part in blocks(len(clusters.time), BLOCK // 16):
            sample, there = clusters.sample[part].astype("f8"), poses.select(part)
            places = deskewed(sample[..., :2], sample[..., 2], there) - there.centre[:, None]
            own = turned(places, -there.yaw[:, None])
            found += [_direction(points[np.isfinite(points[:, 0])]) for points in own]
        turn, sd = np.array(found).reshape(-1, 2).T
        known = np.isfinite(turn)
        yaw = poses.yaw.copy()
        yaw[known] = _without_jumps(clusters.time[known], poses.yaw[known] + turn[known], poses.yaw[known])
        return Headings(known, yaw, np.where(known, sd, 1.0))


def _without_jumps(time: np.ndarray, angle: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Angles that are known but for multiples of a right angle, without jumps, near those that are expected.

    In a longer silence than that in which a body turns by half a right angle, the multiple may change.
    """
    if not len(time):
        return angle
    quarter = np.pi / 2
    ends = [0, *(1 + np.flatnonzero(np.diff(time) > quarter / 2 / TURN_SD)).tolist(), len(time)]
    result = angle.copy()
    for begin, end in pairwise(ends):
        part = slice(begin, end)
        steady = np.unwrap(angle[part], period=quarter)
        result[part] = steady + quarter * np.round(np.median(expected[part] - steady) / quarter)
    return result


def _direction(points: np.ndarray) -> tuple[float, float]:
    """Direction of the flat sides among points, f8 (P, 2), from the first axis, and its deviation, rad; NaN = none."""
    if len(points) < 2:
        return np.nan, np.nan
    cos, sin = np.cos(_DIRECTIONS), np.sin(_DIRECTIONS)
    along = points[:, :1] * cos + points[:, 1:] * sin
    left = points[:, 1:] * cos - points[:, :1] * sin
    best = int(np.argmax(_crowding(along) + _crowding(left)))
    pair = (_line(along[:, best], left[:, best]), _line(left[:, best], -along[:, best]))
    lines = [line for line in pair if line is not None]
    if not lines:
        return np.nan, np.nan
    slope, spread = max(lines, key=lambda line: line[1])
    return float(_DIRECTIONS[best] + slope), float(np.hypot(TUNING.line_width_m / np.sqrt(12 * spread), TUNING.side_sd))


def _crowding(values: np.ndarray) -> np.ndarray:
    """How much the values of each column, f8 (P, A), m, lie at few places: f8 (A,)."""
    cell = np.floor(values / TUNING.line_width_m).astype("i8")
    cell -= cell.min()
    columns = values.shape[1]
    count = np.bincount((cell * columns + np.arange(columns)).ravel(), minlength=(cell.max() + 2) * columns)
    rows = count.reshape(-1, columns)
    return np.asarray(((rows[:-1] + rows[1:]) ** 2).sum(axis=0))


def _line(along: np.ndarray, left: np.ndarray) -> tuple[float, float] | None:
    """Slope of the line that holds the most points, rad, and the sum of the squares of their distances from its middle,
    m2; None = no line."""
    width = TUNING.line_width_m
    order = np.sort(left)
    inside = np.searchsorted(order, order + width, side="right") - np.arange(len(order))
    lowest = order[int(np.argmax(inside))]
    on, slope = (left >= lowest) & (left <= lowest + width), 0.0
    for refit in range(_REFITS + 1):
        if on.sum() < 2 or np.ptp(along[on]) < TUNING.min_line_m:
            return None
        away = along[on] - along[on].mean()
        if refit == _REFITS:
            break
        height = left[on].mean()
        slope = float(matmul(away, left[on] - height) / matmul(away, away))
        on = np.abs(left - height - slope * (along - along[on].mean())) <= width / 2
    return float(np.arctan(slope)), float((away**2).sum())
