"""Tracks: which clusters of sweep after sweep are of the same body.

Kalman filters of constant velocity predict where each body is. Clusters are assigned to them all at once, so that the
sum of the negative log-likelihoods is minimal (global nearest neighbour, scipy's linear_sum_assignment), within a gate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from rover_pipeline.numerics.linear import matmul
from rover_pipeline.objects.clusters import Clusters
from rover_pipeline.objects.models import SPEED_SD
from rover_pipeline.objects.tuning import TUNING

#: Squared distance, in standard deviations, within which 99.9 % of the clusters of a body are.
#: Noise: chi-square with 2 degrees of freedom.
_GATE = 13.8
#: Sweeps in which a new track may lack a cluster before it is dropped; number of clusters from which it is not new.
#: Tuned: by hand.
_NEW_MISSES, _NEW_HITS = 1, 3
#: Cost of a pair that is not allowed: more than that of any other one. Layout.
_UNASSIGNED = 1e6


@dataclass
class Track:
    """One body.

    Attributes:
        hits: its clusters, in the order of their times.
        state: f8 (4,), x, y, m, and their velocities, m/s, at `time`, s.
        cov: f8 (2, 2), of a position and a velocity along any direction.
        size: m, larger side of its box.
        misses: sweeps since the last cluster.
    """

    hits: list[Clusters]
    state: np.ndarray
    cov: np.ndarray
    time: float
    size: float
    misses: int = 0

    @staticmethod
    def begun(own: Clusters) -> Track:
        """A track that begins with a cluster."""
        size = float(own.size[0])
        cov = np.diag([float(_variance(own)[0]), SPEED_SD**2])
        return Track([own], np.array([*own.middle[0], 0.0, 0.0]), cov, float(own.time[0]), size)

    def predicted(self, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Position, f8 (N, 2), m, and covariance, f8 (N, 2, 2), at some times, f8 (N,), s."""
        dt = time - self.time
        f = np.tile(np.eye(2), (len(dt), 1, 1))
        f[:, 0, 1] = dt
        span = np.abs(dt)
        added = TUNING.track_noise * np.stack([span**3 / 3, span**2 / 2, span**2 / 2, span], axis=-1).reshape(-1, 2, 2)
        return self.state[:2] + dt[:, None] * self.state[2:], matmul(f, self.cov, f.transpose(0, 2, 1)) + added

    def update(self, own: Clusters) -> None:
        """Take a cluster as the next one."""
        place, cov = (each[0] for each in self.predicted(own.time))
        gain = cov[0] / (cov[0, 0] + float(_variance(own)[0]))
        innovation = own.middle[0] - place
        self.state = np.concatenate([place, self.state[2:]]) + np.outer(gain, innovation).ravel()
        self.cov = cov - np.outer(gain, cov[0])
        self.time, self.misses = float(own.time[0]), 0
        # A cluster shows a part of the body, so that the size only grows, but not at once: it may be of two bodies.
        self.size += 0.5 * max(0.0, float(own.size[0]) - self.size)
        self.hits.append(own)


def _variance(clusters: Clusters) -> np.ndarray:
    """Of the middles of clusters, f8 (C,), m2: the visible part of a body varies with its size."""
    return np.asarray((TUNING.end_sd + TUNING.size_share * clusters.size) ** 2)


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
        pairs = self._assigned(clusters)
        for row, column in pairs.items():
            self._live[row].update(clusters.select(slice(column, column + 1)))
        kept: list[Track] = []
        for row, track in enumerate(self._live):
            track.misses += row not in pairs
            # What was seen for a moment only has no velocity to go on with.
            longest = min(self._coast, track.time - float(track.hits[0].time[0]))
            is_new = len(track.hits) < _NEW_HITS
            over = track.misses > _NEW_MISSES if is_new else time - track.time > longest
            (self._ended if over else kept).append(track)
        begun = sorted(set(range(len(clusters.time))) - set(pairs.values()))
        self._live = [*kept, *(Track.begun(clusters.select(slice(n, n + 1))) for n in begun)]

    def tracks(self) -> list[Track]:
        """All tracks, also those of a moment, in the order in which they began."""
        return sorted([*self._ended, *self._live], key=lambda track: float(track.hits[0].time[0]))

    def _assigned(self, clusters: Clusters) -> dict[int, int]:
        """Rows of the live tracks, and numbers of the clusters that belong to them."""
        if not self._live or not len(clusters.time):
            return {}
        distance, volume = np.zeros((2, len(self._live), len(clusters.time)))
        for row, track in enumerate(self._live):
            place, cov = track.predicted(clusters.time)
            total = cov[:, 0, 0] + _variance(clusters)
            distance[row] = ((clusters.middle - place) ** 2).sum(axis=1) / total
            volume[row] = 2 * np.log(total)
        own = np.array([track.size for track in self._live])[:, None]
        # A cluster that is far larger than the body is of two.
        allowed = (distance < _GATE) & (clusters.size < TUNING.size_factor * own + 1.0)
        rows, columns = linear_sum_assignment(np.where(allowed, distance + volume, _UNASSIGNED))
        return {int(r): int(c) for r, c in zip(rows, columns, strict=True) if allowed[r, c]}


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
