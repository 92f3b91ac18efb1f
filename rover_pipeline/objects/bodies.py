"""From a track to a body: its size, and where its box was and how fast at the time of every sweep."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.objects.clusters import Clusters
from rover_pipeline.objects.kalman import NOTHING, Measurements, Smoothed, most_likely

#: Power spectral densities of the acceleration, m2/s3, and scales of the variance of positions. Those that make the
#: track most likely are taken: nobody needs to know beforehand how wildly a body turns, or how well it is seen.
_NOISES, _SCALES = (0.05, 0.3, 2.0, 12.0, 72.0), (0.3, 1.5, 7.5)
#: Standard deviation of a position of a box, m, before its scale.
_BOX_SD = 0.06
#: What is added to it for each metre of the body that is hidden, m: it is not always known which end is.
_HIDDEN_SD = 0.15
#: Percentile of the sizes that were seen which is the body's: smaller ones are parts of it, larger ones two bodies.
_SIZE_PERCENTILE = 80.0
#: Sizes in plan below which a body is not given, m: beams hit only a part of its surface.
_MIN_SIZE_M = 0.2
#: Speed below which the direction of a motion is not that of the body, m/s.
_MIN_SPEED = 0.4
#: How much smaller than the body a visible part is that shows it whole, m.
_WHOLE_M = 0.15


class Body(NamedTuple):
    """A track at the times of sweeps.

    Attributes:
        sweep: i8 (N,), numbers of the sweeps, without gaps from the first cluster to the last one.
        centre: f8 (N, 3), m; vel: f8 (N, 3), m/s; yaw: f8 (N,), rad; in a world whose z is up.
        extent: f8 (3,), length, width and height, m.
        vel_sd: f8 (N,), standard deviation of a horizontal component of the velocity, m/s.
        measured: bool (N,), whether the sweep has a cluster of it.
        moving: share of its points whose places were seen to be free.
        way: m, largest distance between two of its places, less what their uncertainty explains.
        clusters: number of clusters.
    """

    sweep: np.ndarray
    centre: np.ndarray
    vel: np.ndarray
    yaw: np.ndarray
    extent: np.ndarray
    vel_sd: np.ndarray
    measured: np.ndarray
    moving: float
    way: float
    clusters: int


def moving_body(clusters: Clusters, stamps: np.ndarray, radial: Measurements | None) -> Body:
    """The body of a track that may move.

    Args:
        clusters: of the track, ascending.
        stamps: f8 (sweep,), s, of all sweeps.
        radial: radial velocities of the body, if the radar saw it.
    """
    sweep = np.arange(clusters.frame[0], clusters.frame[-1] + 1)
    times = stamps[sweep]
    # Where the body heads is known once it is tracked, and only then which sides of it were seen.
    rough = _smoothed(clusters.time, clusters.middle, _BOX_SD**2 + 0 * clusters.time, times, radial)
    yaw = _headings(rough.state, clusters, times)
    at_clusters = np.interp(clusters.time, times, yaw)
    low, high = _sides(clusters, at_clusters)
    size = np.maximum(np.percentile(high - low, _SIZE_PERCENTILE, axis=0), _MIN_SIZE_M)
    middle = _middles(low, high, size, at_clusters, clusters.lidar)
    hidden = np.maximum(0, size - (high - low)).sum(axis=1)
    fine = _smoothed(clusters.time, middle, _BOX_SD**2 + (_HIDDEN_SD * hidden) ** 2, times, radial)
    yaw = _headings(fine.state, clusters, times)
    return _body(clusters, sweep, times, fine, yaw, size)


def still_body(clusters: Clusters, stamps: np.ndarray, least_way: float) -> Body:
    """The body of a track that stands: one place and one size for the whole of it.

    Args:
        clusters, stamps: as for `moving_body`.
        least_way: a body that went this far would have been seen to move, m.
    """
    sweep = np.arange(clusters.frame[0], clusters.frame[-1] + 1)
    angle = _standing(clusters)
    angles = np.full(len(clusters.time), angle)
    low, high = _sides(clusters, angles)
    size = np.maximum(np.percentile(high - low, _SIZE_PERCENTILE, axis=0), _MIN_SIZE_M)
    middle = np.median(_middles(low, high, size, angles, clusters.lidar), axis=0)
    state = np.zeros((len(sweep), 4))
    state[:, :2] = middle
    longest = max(float(clusters.time[-1] - clusters.time[0]), 1e-3)
    still = Smoothed(state, np.broadcast_to((least_way / longest) ** 2 * np.eye(4), (len(sweep), 4, 4)), 0.0)
    body = _body(clusters, sweep, stamps[sweep], still, np.full(len(sweep), angle), size)
    # The ground below it is not seen to the millimetre. A velocity of exactly zero says that it never moved.
    return body._replace(vel=np.zeros((len(sweep), 3)))


def _body(
    clusters: Clusters, sweep: np.ndarray, times: np.ndarray, motion: Smoothed, yaw: np.ndarray, size: np.ndarray
) -> Body:
    height = float(np.percentile(clusters.top - clusters.floor, _SIZE_PERCENTILE))
    floor = np.interp(times, clusters.time, _averaged(clusters.time, clusters.floor.astype("f8")))
    climb = np.gradient(floor, times) if len(times) > 1 else np.zeros(len(times))
    spread = np.sqrt(np.maximum(motion.cov[:, 0, 0] + motion.cov[:, 1, 1], 0) / 2)
    place = motion.state[:, :2]
    apart = np.linalg.norm(place[:, None] - place[None], axis=-1) if len(place) <= 400 else _apart(place)
    return Body(
        sweep=sweep,
        centre=np.column_stack([place, floor + height / 2]),
        vel=np.column_stack([motion.state[:, 2:], climb]),
        yaw=yaw,
        extent=np.array([*size, height]),
        vel_sd=np.sqrt(np.maximum(motion.cov[:, 2, 2] + motion.cov[:, 3, 3], 0) / 2),
        measured=np.isin(sweep, clusters.frame),
        moving=float(np.average(clusters.moving, weights=clusters.points)),
        way=float(max(0.0, apart.max() - 3 * np.median(spread))),
        clusters=len(clusters.time),
    )


def _apart(place: np.ndarray) -> np.ndarray:
    """Distances of all places from some of them."""
    return np.asarray(np.linalg.norm(place[:, None] - place[None, :: len(place) // 200], axis=-1))


def _smoothed(
    time: np.ndarray, middle: np.ndarray, variance: np.ndarray, wanted: np.ndarray, radial: Measurements | None
) -> Smoothed:
    """The motion through places, f8 (N, 2) m, with variances, f8 (N,) m2, at the wanted times, s."""
    measured = Measurements.positions(time, middle, variance)
    if radial is not None:
        measured = measured.merged(radial)
    count = len(wanted)
    empty = Measurements(wanted, np.full(count, NOTHING), np.zeros((count, 2)), np.zeros((count, 2)), np.ones(count))
    whole = measured.merged(empty)
    found = most_likely(whole, _NOISES, _SCALES)
    chosen = whole.kind == NOTHING
    return Smoothed(found.state[chosen], found.cov[chosen], found.likelihood)


def _headings(state: np.ndarray, clusters: Clusters, times: np.ndarray) -> np.ndarray:
    """Where the body heads, rad, without jumps: the direction of its motion, kept where it is slow."""
    speed = np.hypot(state[:, 2], state[:, 3])
    known = speed >= _MIN_SPEED
    if not known.any():
        return np.full(len(times), _standing(clusters))
    angle = np.unwrap(np.arctan2(state[known, 3], state[known, 2]))
    return np.asarray(np.interp(times, times[known], angle))


def _standing(clusters: Clusters) -> float:
    """The direction, rad, from 0 to pi, along which the largest outlines of a track are longest for their width."""
    largest = np.argsort(clusters.size)[-8:]
    angles = np.linspace(0, np.pi / 2, 18, endpoint=False)
    boxes = []
    for angle in angles:
        low, high = _sides(clusters.select(largest), np.full(len(largest), angle))
        boxes.append((high - low).mean(axis=0))
    sizes = np.array(boxes)
    best = int(np.argmin(sizes.prod(axis=1)))
    return float(angles[best] + (np.pi / 2 if sizes[best, 1] > sizes[best, 0] else 0.0))


def _sides(clusters: Clusters, yaw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ends of outlines along a heading and to its left, lowest and highest, f8 (C, 2) each, m."""
    cos, sin = np.cos(yaw)[:, None], np.sin(yaw)[:, None]
    x, y = clusters.outline[..., 0], clusters.outline[..., 1]
    along, left = cos * x + sin * y, cos * y - sin * x
    sides = np.stack([along, left], axis=-1)
    return sides.min(axis=1), sides.max(axis=1)


def _middles(low: np.ndarray, high: np.ndarray, size: np.ndarray, yaw: np.ndarray, lidar: np.ndarray) -> np.ndarray:
    """Middles of the boxes in the world, f8 (C, 2), m, of which outlines show a part.

    A part that is smaller than the body ends at the side that faces the lidar: the body goes on behind it.
    """
    cos, sin = np.cos(yaw), np.sin(yaw)
    own = np.column_stack([cos * lidar[:, 0] + sin * lidar[:, 1], cos * lidar[:, 1] - sin * lidar[:, 0]])
    from_low, from_high = low + size / 2, high - size / 2
    middle = (low + high) / 2
    short = high - low < size - _WHOLE_M
    middle = np.where(short & (own <= low), from_low, middle)
    middle = np.where(short & (own >= high), from_high, middle)
    return np.column_stack([cos * middle[:, 0] - sin * middle[:, 1], sin * middle[:, 0] + cos * middle[:, 1]])


def _averaged(time: np.ndarray, values: np.ndarray, width: float = 0.5) -> np.ndarray:
    """Values averaged over a time of `width`, s, around each."""
    first = np.searchsorted(time, time - width)
    last = np.searchsorted(time, time + width, side="right")
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray((sums[last] - sums[first]) / (last - first))
