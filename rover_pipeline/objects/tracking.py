"""Tracks: which clusters of sweep after sweep are of the same body.

Kalman filters of constant velocity predict where each body is. Clusters are assigned to them all at once, so that the
sum of the negative log-likelihoods is minimal (global nearest neighbour, scipy's linear_sum_assignment), within a gate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.constants import g
from scipy.optimize import linear_sum_assignment

from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.objects.clusters import Clusters
from rover_pipeline.objects.tuning import TUNING, TYPICAL

# Motion models: nearly constant velocity, as of a person, and nearly constant speed and turn rate, as of a car.
#
# A person may step aside. A car moves where it heads, so that its sides give its direction, and a bend of some seconds
# is one turn rate. With the model of constant velocity a bend would need a large acceleration, and the velocity would
# follow every error of a position (Schubert, Richter and Wanielik, Comparison and evaluation of advanced motion models
# for vehicle tracking, 2008: CV and CTRV).
#
# States are f8 (N, S) and begin with x and y, m. Both models have the same methods: `predicted(state, dt)`, the states
# after times, f8 (N,), s, and their derivatives by the states, f8 (N, S, S); `information(state, dt)`, the inverse
# covariance of what the motion adds to these, f8 (N, S, S); `prior()`, inverse variances of the first state, f8 (S,);
# `in_plane(state)`, x, y and their velocities, f8 (N, 4), and their derivatives by the states, f8 (N, 4, S).

_CAR = TYPICAL["car"].speed
#: Priors of a body, standard deviations: a place anywhere in range, m; any heading, rad; a component of the velocities
#: of cars, m/s, from the spread of their speeds (log-normal); the turn rate of cars, rad/s, at the side friction of
#: 0.32 that roads for their speed are built for. Physics: distributions; AASHTO Green Book, 2011.
PLACE_SD, _HEADING_SD = CLIPPED / 1000, np.pi / np.sqrt(3)
SPEED_SD, TURN_SD = _CAR.middle * np.exp(np.log(_CAR.factor) ** 2) / np.sqrt(2), 0.32 * g / _CAR.middle
#: Variance by which a car drifts sideways, m2/s: its middle does not quite move where it heads. Tuned: by hand.
_SLIP = 0.0025


def _integrated_noise(density: float, dt: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inverse covariance of a value and its rate, whose change is white noise of this power spectral density."""
    return 12 / (density * dt**3), -6 / (density * dt**2), 4 / (density * dt)


class ConstantVelocity(NamedTuple):
    """State: x, y, m, and their velocities, m/s."""

    #: power spectral density of the acceleration, m2/s3: the velocity's variance grows by this in a second.
    noise: float

    def predicted(self, state: np.ndarray, dt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        change = np.tile(np.eye(4), (len(state), 1, 1))
        change[:, 0, 2] = change[:, 1, 3] = dt
        return np.einsum("nij,nj->ni", change, state), change

    def information(self, state: np.ndarray, dt: np.ndarray) -> np.ndarray:
        result = np.zeros((len(dt), 4, 4))
        place, both, rate = _integrated_noise(self.noise, dt)
        for axis in range(2):
            result[:, axis, axis], result[:, 2 + axis, 2 + axis] = place, rate
            result[:, axis, 2 + axis] = result[:, 2 + axis, axis] = both
        return result

    def prior(self) -> np.ndarray:
        return np.array([PLACE_SD, PLACE_SD, SPEED_SD, SPEED_SD]) ** -2.0

    def in_plane(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return state, np.tile(np.eye(4), (len(state), 1, 1))


class ConstantTurn(NamedTuple):
    """State: x, y, m, heading, rad, speed, m/s, and turn rate, rad/s."""

    ahead: float  #: power spectral density of the acceleration along the heading, m2/s3.
    turn: float  #: that of the change of the turn rate, rad2/s3.

    def predicted(self, state: np.ndarray, dt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        half = state[:, 4] * dt / 2
        chord = np.sinc(half / np.pi)
        way, angle = state[:, 3] * dt * chord, state[:, 2] + half
        cos, sin = np.cos(angle), np.sin(angle)
        change = np.tile(np.eye(5), (len(state), 1, 1))
        # The chord differs from the arc in second order of the turn, which its derivative leaves out.
        change[:, 0, 2], change[:, 1, 2] = -way * sin, way * cos
        change[:, 0, 3], change[:, 1, 3] = dt * chord * cos, dt * chord * sin
        change[:, 0, 4], change[:, 1, 4] = -dt / 2 * way * sin, dt / 2 * way * cos
        change[:, 2, 4] = dt
        result = state.copy()
        result[:, 0] += way * cos
        result[:, 1] += way * sin
        result[:, 2] += 2 * half
        return result, change

    def information(self, state: np.ndarray, dt: np.ndarray) -> np.ndarray:
        own = np.zeros((len(dt), 5, 5))
        for noise, value, rate in ((self.ahead, 0, 3), (self.turn, 2, 4)):
            own[:, value, value], both, own[:, rate, rate] = _integrated_noise(noise, dt)
            own[:, value, rate] = own[:, rate, value] = both
        own[:, 1, 1] = 1 / (_SLIP * dt)
        angle = state[:, 2] + state[:, 4] * dt / 2
        axes = np.tile(np.eye(5), (len(dt), 1, 1))
        axes[:, 0, 0] = axes[:, 1, 1] = np.cos(angle)
        axes[:, 0, 1] = np.sin(angle)
        axes[:, 1, 0] = -axes[:, 0, 1]
        return np.asarray(matmul(axes.transpose(0, 2, 1), own, axes))

    def prior(self) -> np.ndarray:
        return np.array([PLACE_SD, PLACE_SD, _HEADING_SD, SPEED_SD, TURN_SD]) ** -2.0

    def in_plane(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cos, sin, speed = np.cos(state[:, 2]), np.sin(state[:, 2]), state[:, 3]
        slope = np.zeros((len(state), 4, 5))
        slope[:, 0, 0] = slope[:, 1, 1] = 1
        slope[:, 2, 2], slope[:, 2, 3] = -speed * sin, cos
        slope[:, 3, 2], slope[:, 3, 3] = speed * cos, sin
        return np.column_stack([state[:, :2], speed * cos, speed * sin]), slope


Model = ConstantVelocity | ConstantTurn


#: Squared distance, in standard deviations, within which 99.9 % of the clusters of a body are.
#: Noise: chi-square with 2 degrees of freedom.
_GATE = 13.8
#: Cost of a pair that is not allowed: more than that of any other one. Layout.
_UNASSIGNED = 1e6


@dataclass
class Track:
    """One body."""

    hits: list[int]  #: numbers of its clusters, in the order of their times.
    state: np.ndarray  #: f8 (4,), x, y, m, and their velocities, m/s, at `time`, s.
    cov: np.ndarray  #: f8 (2, 2), of a position and a velocity along any direction.
    time: float
    misses: int = 0  #: sweeps since the last cluster.

    @staticmethod
    def begun(number: int, own: Clusters) -> Track:
        """A track that begins with a cluster, which has a number."""
        cov = np.diag([float(_variance(own)[0]), SPEED_SD**2])
        return Track([number], np.array([*own.middle[0], 0.0, 0.0]), cov, float(own.time[0]))

    def predicted(self, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Position, f8 (N, 2), m, and covariance, f8 (N, 2, 2), at some times, f8 (N,), s."""
        dt = time - self.time
        f = np.tile(np.eye(2), (len(dt), 1, 1))
        f[:, 0, 1] = dt
        span = np.abs(dt)
        added = TUNING.track_noise * np.stack([span**3 / 3, span**2 / 2, span**2 / 2, span], axis=-1).reshape(-1, 2, 2)
        return self.state[:2] + dt[:, None] * self.state[2:], matmul(f, self.cov, f.transpose(0, 2, 1)) + added

    def update(self, number: int, own: Clusters) -> None:
        """Take a cluster, which has a number, as the next one."""
        place, cov = (each[0] for each in self.predicted(own.time))
        gain = cov[0] / (cov[0, 0] + float(_variance(own)[0]))
        innovation = own.middle[0] - place
        self.state = np.concatenate([place, self.state[2:]]) + np.outer(gain, innovation).ravel()
        self.cov = cov - np.outer(gain, cov[0])
        self.time, self.misses = float(own.time[0]), 0
        self.hits.append(number)


def _variance(clusters: Clusters) -> np.ndarray:
    """Of the middles of clusters, f8 (C,), m2: the visible part of a body varies with its size."""
    return np.asarray((TUNING.end_sd + TUNING.size_share * clusters.size) ** 2)


def track_clusters(clusters: Clusters, stamps: np.ndarray, coast: float) -> Iterator[Clusters]:
    """The clusters of each body, also of what is seen for a moment, in the order of the bodies' first ones.

    Args:
        clusters: in the order of their sweeps.
        stamps: f8 (sweep,), s.
        coast: longest time without a cluster, s.
    """
    live, ended = list[Track](), list[Track]()
    edges = np.searchsorted(clusters.frame, np.arange(len(stamps) + 1)).tolist()
    for stamp, (first, end) in zip(stamps.tolist(), pairwise(edges), strict=True):
        found = clusters.select(slice(first, end))
        pairs = _assigned(live, found)
        for row, column in pairs.items():
            live[row].update(first + column, found.select(slice(column, column + 1)))
        kept: list[Track] = []
        for row, track in enumerate(live):
            track.misses += row not in pairs
            # What was seen for a moment only has no velocity to go on with.
            over = track.misses > len(track.hits) or stamp - track.time > coast
            (ended if over else kept).append(track)
        begun = sorted(set(range(len(found.time))) - set(pairs.values()))
        live = [*kept, *(Track.begun(first + n, found.select(slice(n, n + 1))) for n in begun)]
    tracks = sorted([*ended, *live], key=lambda track: float(clusters.time[track.hits[0]]))
    return (clusters.select(np.array(track.hits)) for track in tracks)


def _assigned(tracks: list[Track], clusters: Clusters) -> dict[int, int]:
    """Numbers of tracks, and of the clusters that belong to them."""
    if not tracks or not len(clusters.time):
        return {}
    distance, volume = np.zeros((2, len(tracks), len(clusters.time)))
    for row, track in enumerate(tracks):
        place, cov = track.predicted(clusters.time)
        total = cov[:, 0, 0] + _variance(clusters)
        distance[row] = ((clusters.middle - place) ** 2).sum(axis=1) / total
        volume[row] = 2 * np.log(total)
    allowed = distance < _GATE
    rows, columns = linear_sum_assignment(np.where(allowed, distance + volume, _UNASSIGNED))
    return {int(r): int(c) for r, c in zip(rows, columns, strict=True) if allowed[r, c]}
