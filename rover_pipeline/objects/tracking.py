"""Tracks: which clusters of sweep after sweep are of the same body.

Kalman filters of constant velocity predict where each body is. Clusters are assigned to them all at once, so that the
sum of the distances is least (scipy's linear_sum_assignment), within a gate.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linear_sum_assignment

from rover_pipeline.objects.clusters import Clusters, merged
from rover_pipeline.objects.kalman import SPEED_SD

#: Squared distance, in standard deviations, within which 99.9 % of the clusters of a body are (chi-square, 2 degrees).
_GATE = 13.8
#: Power spectral density of the acceleration of a body, m2/s3: it may turn by 2 m/s in half a second.
_NOISE = 4.0
#: Standard deviation of the middle of a cluster, m, and what is added to it for its size: the visible part varies.
_MIDDLE_SD, _SIZE_SHARE = 0.05, 0.1
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
        misses: sweeps since the last cluster.
    """

    state: np.ndarray
    cov: np.ndarray
    time: float
    size: float
    hits: list[Clusters] = field(default_factory=list)
    misses: int = 0


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
        middles, sizes = clusters.middle, clusters.size
        pairs = self._assigned(clusters.time, middles, sizes)
        for row, column in pairs:
            _update(self._live[row], clusters, middles, sizes, column)
        assigned = {row for row, _ in pairs}
        for row, track in enumerate(self._live):
            track.misses += row not in assigned
        used = {column for _, column in pairs}
        begun = [_begun(clusters, middles, sizes, n) for n in range(len(sizes)) if n not in used]
        kept = []
        for track in self._live:
            is_new = len(track.hits) < _NEW_HITS
            # What was seen for a moment only has no velocity to go on with.
            longest = min(self._coast, track.time - float(track.hits[0].time[0]))
            over = track.misses > _NEW_MISSES if is_new else time - track.time > longest
            if not over:
                kept.append(track)
            elif not is_new:
                self._ended.append(track)
        self._live = [*kept, *begun]

    def tracks(self) -> list[Track]:
        """All tracks, in the order in which they began."""
        return sorted([*self._ended, *self._live], key=lambda track: float(track.hits[0].time[0]))

    def _whole(self, clusters: Clusters, time: float) -> Clusters:
        """The clusters of a sweep, with the parts of each long body that is tracked put together."""
        parts = [clusters]
        for track in self._live:
            speed = float(np.hypot(*track.state[2:]))
            if track.size < _LONG_M or len(track.hits) < _NEW_HITS or speed < _DIRECTED:
                continue
            rest = parts[0]
            away = rest.middle - (track.state[:2] + (time - track.time) * track.state[2:])
            ahead = track.state[2:] / speed
            along, left = np.abs(away @ ahead), np.abs(away @ [-ahead[1], ahead[0]])
            own = (along <= _PART_SHARE * track.size) & (left <= _PART_SIDE_M)
            if own.sum() > 1:
                parts[0] = rest.select(~own)
                parts.append(merged(rest.select(own)))
        return Clusters.joined(parts) if len(parts) > 1 else clusters

    def _assigned(self, times: np.ndarray, middles: np.ndarray, sizes: np.ndarray) -> list[tuple[int, int]]:
        """Rows of the live tracks and numbers of the clusters that belong together."""
        if not self._live or not len(times):
            return []
        states = np.array([track.state for track in self._live])
        covs = np.array([track.cov for track in self._live])
        dt = times - np.array([track.time for track in self._live])[:, None]
        residual = middles - (states[:, None, :2] + dt[..., None] * states[:, None, 2:])
        own = np.array([track.size for track in self._live])[:, None]
        residual = _outside(residual, states[:, None, 2:], own - sizes)
        # The covariance is the same along x and y, and has no terms between them.
        variance = covs[:, 0, 0, None] + 2 * dt * covs[:, 0, 2, None] + dt**2 * covs[:, 2, 2, None]
        variance = variance + _NOISE * np.abs(dt) ** 3 / 3 + _variance(sizes)
        distance = (residual**2).sum(axis=-1) / variance
        allowed = (distance < _GATE) & (sizes < _MERGED_FACTOR * own + _MERGED_M)
        cost = np.where(allowed, distance + 2 * np.log(variance), _UNASSIGNED)
        rows, columns = linear_sum_assignment(cost)
        return [(int(r), int(c)) for r, c in zip(rows, columns, strict=True) if allowed[r, c]]


def _begun(clusters: Clusters, middles: np.ndarray, sizes: np.ndarray, number: int) -> Track:
    """A track that begins with a cluster."""
    variance = float(_variance(sizes[number]))
    cov = np.diag([variance, variance, SPEED_SD**2, SPEED_SD**2])
    state = np.array([*middles[number], 0.0, 0.0])
    return Track(state, cov, float(clusters.time[number]), float(sizes[number]), [_single(clusters, number)])


def _update(track: Track, clusters: Clusters, middles: np.ndarray, sizes: np.ndarray, number: int) -> None:
    """Take a cluster as the next one of a track."""
    dt = float(clusters.time[number]) - track.time
    f = np.eye(4)
    f[0, 2] = f[1, 3] = dt
    span = abs(dt)
    block = _NOISE * np.array([[span**3 / 3, span**2 / 2], [span**2 / 2, span]])
    state, cov = f @ track.state, f @ track.cov @ f.T + np.kron(block, np.eye(2))
    gain = cov[:, :2] / (cov[0, 0] + _variance(sizes[number]))
    residual = _outside(middles[number] - state[:2], state[2:], np.asarray(track.size - sizes[number]))
    track.state = state + gain @ residual
    track.cov = cov - gain @ cov[:2]
    track.time = float(clusters.time[number])
    # A cluster shows a part of the body, so that the size only grows, but not at once: it may be of two bodies.
    track.size += 0.5 * max(0.0, float(sizes[number]) - track.size)
    track.hits.append(_single(clusters, number))
    track.misses = 0


def _outside(residual: np.ndarray, vel: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """How far the middle of a visible part is from where it may be, f8 (..., 2), m.

    Of a long body that drives, another end may be seen than before: the middle of the part then moves along the body by
    up to the length that is hidden, f8 (...,), m, although the body does not.
    """
    speed = np.hypot(vel[..., 0], vel[..., 1])
    ahead = vel / np.maximum(speed, _DIRECTED)[..., None]
    free = np.where((speed >= _DIRECTED) & (hidden >= _LONG_M / 2), hidden, 0.0)
    along = (residual * ahead).sum(axis=-1)
    return np.asarray(residual - np.clip(along, -free, free)[..., None] * ahead)


def _single(clusters: Clusters, number: int) -> Clusters:
    return clusters.select(slice(number, number + 1))


def _variance(size: np.ndarray) -> np.ndarray:
    return np.asarray((_MIDDLE_SD + _SIZE_SHARE * size) ** 2)


def track_clusters(clusters: Clusters, stamps: np.ndarray, coast: float) -> list[Clusters]:
    """The clusters of each body, in the order of the bodies' first ones.

    Args:
        clusters: in the order of their sweeps.
        stamps: f8 (sweep,), s.
        coast: longest time without a cluster, s.
    """
    tracker = Tracker(coast)
    edges = np.searchsorted(clusters.frame, np.arange(len(stamps) + 1))
    for sweep, stamp in enumerate(stamps.tolist()):
        tracker.step(clusters.select(slice(edges[sweep], edges[sweep + 1])), stamp)
    return [Clusters.joined(track.hits) for track in tracker.tracks()]
