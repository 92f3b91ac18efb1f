"""Tracks: which clusters of sweep after sweep are of the same body.

Kalman filters of constant velocity predict where each body is. Clusters are assigned to them all at once, so that the
sum of the distances is least (scipy's linear_sum_assignment), within a gate. Of a body that is known to drive or walk,
the position is measured from the ends of a cluster that are seen (module `sides`), along its way and across it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from rover_pipeline.numerics.linear import matmul, solve
from rover_pipeline.objects.clusters import Clusters, merged
from rover_pipeline.objects.measurements import SPEED_SD
from rover_pipeline.objects.poses import PlanePoses
from rover_pipeline.objects.sides import middles, sides

#: Squared distance, in standard deviations, within which 99.9 % of the clusters of a body are (chi-square, 2 degrees).
_GATE = 13.8
#: Power spectral density of the acceleration of a body, m2/s3: it may change its speed by 2 m/s in a second; and what
#: is added for its turns, as a share of the square of its speed: a car turns by a radian in two seconds.
_NOISE, _NOISE_TURNS = 4.0, 0.25
#: Standard deviation of the middle of a cluster, m, and what is added to it for its size: the visible part varies.
_MIDDLE_SD, _SIZE_SHARE = 0.05, 0.1
#: Standard deviation of a middle that is measured from the ends, m: the heading is not known exactly.
_ENDS_SD = 0.12
#: Number of latest clusters that tell the size of a body along its way and across it.
_SIZES = 20
#: A cluster larger than this many times the size of the track, plus some metres, is two bodies or more.
_MERGED_FACTOR, _MERGED_M = 2.0, 1.0
#: Size from which a body may be seen in several parts, m; share of the size, and distance to the side, m, within which
#: they are. Something in front of a car, such as a post, cuts it into two clusters.
_LONG_M, _PART_SHARE, _PART_SIDE_M = 1.5, 0.75, 1.2
#: Sweeps in which a new track may lack a cluster before it is dropped.
_NEW_MISSES, _NEW_HITS = 1, 3
#: Speed from which a motion has a direction, m/s.
_DIRECTED = 1.0
#: Cost of a pair that is not allowed.
_UNASSIGNED = 1e6


@dataclass
class Track:
    """One body.

    Attributes:
        hits: its clusters, in the order of their times.
        state: f8 (4,), x, y, m, and their velocities, m/s; cov: f8 (4, 4); both at `time`, s.
        size: m, larger side of its box.
        sizes: of its latest clusters along its way and across it, f8 (2,) each, m, since it has a direction.
        misses: sweeps since the last cluster.
    """

    state: np.ndarray
    cov: np.ndarray
    time: float
    size: float
    hits: list[Clusters] = field(default_factory=list)
    sizes: list[np.ndarray] = field(default_factory=list)
    misses: int = 0

    @property
    def directed(self) -> bool:
        """Whether it moves in a direction that is known."""
        return len(self.hits) >= _NEW_HITS and float(np.hypot(*self.state[2:])) >= _DIRECTED

    @property
    def noise(self) -> float:
        """Power spectral density of its acceleration, m2/s3."""
        return float(_NOISE + _NOISE_TURNS * (self.state[2:] ** 2).sum())


class Tracker:
    """Takes the clusters of sweep after sweep.

    Args:
        coast: longest time without a cluster, s.
    """

    def __init__(self, coast: float) -> None:
        self._coast = coast
        self._live: list[Track] = []
        self._ended: list[Track] = []

    def step(self, clusters: Clusters, time: float) -> None:
        """Take the clusters of a sweep, at whose time stamp it is `time`, s."""
        clusters = self._whole(clusters, time)
        places = [_Places.of(track, clusters) for track in self._live]
        pairs = self._assigned(clusters, places)
        for row, column in pairs:
            _update(self._live[row], clusters, places[row], column)
        assigned = {row for row, _ in pairs}
        for row, track in enumerate(self._live):
            track.misses += row not in assigned
        used = {column for _, column in pairs}
        begun = [_begun(clusters, n) for n in range(len(clusters.time)) if n not in used]
        kept: list[Track] = []
        for track in self._live:
            is_new = len(track.hits) < _NEW_HITS
            # What was seen for a moment only has no velocity to go on with.
            longest = min(self._coast, track.time - float(track.hits[0].time[0]))
            over = track.misses > _NEW_MISSES if is_new else time - track.time > longest
            (self._ended if over else kept).append(track)
        self._live = [*kept, *begun]

    def tracks(self) -> list[Track]:
        """All tracks, also those of a moment, in the order in which they began."""
        return sorted([*self._ended, *self._live], key=lambda track: float(track.hits[0].time[0]))

    def _whole(self, clusters: Clusters, time: float) -> Clusters:
        """The clusters of a sweep, with the parts of each long body that is tracked put together."""
        parts = [clusters]
        for track in self._live:
            if track.size < _LONG_M or not track.directed:
                continue
            rest = parts[0]
            away = rest.middle - (track.state[:2] + (rest.time - track.time)[:, None] * track.state[2:])
            ahead = track.state[2:] / np.hypot(*track.state[2:])
            along, left = np.abs(matmul(away, ahead)), np.abs(matmul(away, [-ahead[1], ahead[0]]))
            own = (along <= _PART_SHARE * track.size) & (left <= _PART_SIDE_M)
            if own.sum() > 1:
                parts[0] = rest.select(~own)
                parts.append(merged(rest.select(own)))
        return Clusters.joined(parts) if len(parts) > 1 else clusters

    def _assigned(self, clusters: Clusters, places: list[_Places]) -> list[tuple[int, int]]:
        """Rows of the live tracks and numbers of the clusters that belong together."""
        if not places or not len(clusters.time):
            return []
        distance, spread = (np.array(each) for each in zip(*(each.distance() for each in places), strict=True))
        own = np.array([track.size for track in self._live])[:, None]
        allowed = (distance < _GATE) & (clusters.size < _MERGED_FACTOR * own + _MERGED_M)
        cost = np.where(allowed, distance + spread, _UNASSIGNED)
        rows, columns = linear_sum_assignment(cost)
        return [(int(r), int(c)) for r, c in zip(rows, columns, strict=True) if allowed[r, c]]


class _Places(NamedTuple):
    """Where a body would be if it were in each of the clusters of a sweep, in the axes of its way.

    Attributes:
        axes: f8 (2, 2), unit vectors along the way and to its left, as rows.
        residual: f8 (C, 2), from the predicted place, m. variance: f8 (C, 2), of the measured place, m2.
        predicted: f8 (C, 2), variance of the predicted place, m2.
        size: f8 (C, 2), of the visible part, m.
    """

    axes: np.ndarray
    residual: np.ndarray
    variance: np.ndarray
    predicted: np.ndarray
    size: np.ndarray

    @staticmethod
    def of(track: Track, clusters: Clusters) -> _Places:
        vel, count = track.state[2:], len(clusters.time)
        dt = clusters.time - track.time
        expected = track.state[:2] + dt[:, None] * vel
        axes = np.eye(2)
        if track.directed:
            yaw = float(np.arctan2(vel[1], vel[0]))
            axes = np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]])
            poses = PlanePoses(expected, np.full(count, yaw), np.tile(vel, (count, 1)), np.zeros(count))
            seen = sides(clusters, poses)
            whole = np.percentile(track.sizes, 80, axis=0) if track.sizes else np.zeros(2)
            places, sd = middles(seen, np.maximum(seen.size, whole), poses, clusters.lidar)
            variance, size = _ENDS_SD**2 + sd**2, seen.size
        else:
            places, size = clusters.middle, np.column_stack([clusters.size, clusters.size])
            variance = np.column_stack([_variance(clusters.size)] * 2)
        cov, span = track.cov, np.abs(dt)[:, None]
        along = [
            [matmul(axis, block, axis) for axis in axes]
            for block in (cov[:2, :2], (cov[:2, 2:] + cov[2:, :2]), cov[2:, 2:])
        ]
        predicted = np.array(along[0]) + dt[:, None] * along[1] + dt[:, None] ** 2 * along[2]
        predicted = predicted + track.noise * span**3 / 3
        return _Places(axes, matmul(places - expected, axes.T), variance, predicted, size)

    def distance(self) -> tuple[np.ndarray, np.ndarray]:
        """Squared distances in standard deviations, f8 (C,), and the logarithms of the volumes that they are of."""
        total = self.variance + self.predicted
        return (self.residual**2 / total).sum(axis=1), np.log(total).sum(axis=1)


def _begun(clusters: Clusters, number: int) -> Track:
    """A track that begins with a cluster."""
    own = clusters.select(slice(number, number + 1))
    size = float(own.size[0])
    variance = float(_variance(np.asarray(size)))
    cov = np.diag([variance, variance, SPEED_SD**2, SPEED_SD**2])
    return Track(np.array([*own.middle[0], 0.0, 0.0]), cov, float(own.time[0]), size, [own])


def _update(track: Track, clusters: Clusters, places: _Places, number: int) -> None:
    """Take a cluster as the next one of a track."""
    dt = float(clusters.time[number]) - track.time
    f = np.eye(4)
    f[0, 2] = f[1, 3] = dt
    span = abs(dt)
    block = track.noise * np.array([[span**3 / 3, span**2 / 2], [span**2 / 2, span]])
    state, cov = matmul(f, track.state), matmul(f, track.cov, f.T) + np.kron(block, np.eye(2))
    directed = track.directed
    observe = np.hstack([places.axes, np.zeros((2, 2))])
    gain = solve(matmul(observe, cov, observe.T) + np.diag(places.variance[number]), matmul(observe, cov)).T
    track.state = state + matmul(gain, places.residual[number])
    track.cov = cov - matmul(gain, observe, cov)
    track.time = float(clusters.time[number])
    # A cluster shows a part of the body, so that the size only grows, but not at once: it may be of two bodies.
    track.size += 0.5 * max(0.0, float(clusters.size[number]) - track.size)
    track.sizes = [*track.sizes, places.size[number]][-_SIZES:] if directed else []
    track.hits.append(clusters.select(slice(number, number + 1)))
    track.misses = 0


def _variance(size: np.ndarray) -> np.ndarray:
    return np.asarray((_MIDDLE_SD + _SIZE_SHARE * size) ** 2)


def track_clusters(clusters: Clusters, stamps: np.ndarray, coast: float) -> Iterator[Clusters]:
    """The clusters of each body, in the order of the bodies' first ones. They are joined one track after another.

    Args:
        clusters: in the order of their sweeps.
        stamps: f8 (sweep,), s.
        coast: longest time without a cluster, s.
    """
    tracker = Tracker(coast)
    edges = np.searchsorted(clusters.frame, np.arange(len(stamps) + 1))
    for sweep, stamp in enumerate(stamps.tolist()):
        tracker.step(clusters.select(slice(edges[sweep], edges[sweep + 1])), stamp)
    return (Clusters.joined(track.hits) for track in tracker.tracks())
