"""From a track to a body: its size, and where its box was and how fast at the time of every sweep."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.objects.clusters import Clusters
from rover_pipeline.objects.flats import flat_headings
from rover_pipeline.objects.measurements import Measurements, Smoothed
from rover_pipeline.objects.motions import most_likely
from rover_pipeline.objects.poses import PlanePoses
from rover_pipeline.objects.sides import END_SD, HIDDEN_SHARE, MATCH_SD, is_whole, middles, part_sd, sides, size_of

#: Headings tell which sides were seen, and these where the body heads: so often both are estimated. The first motion
#: is that of what is seen, which is wrong for a body that comes out from behind another one. How near the expected
#: place an end must be, m (standard deviation), counts little then and more each time (Ueda and Nakano, Deterministic
#: annealing EM algorithm, 1998).
_MATCH_SDS = (2.0, 0.7, MATCH_SD)
#: Length from which parts of a body may be hidden for so long that its length is not known, m; lengths that are added
#: to what is seen of it, one after the other, m; and by how much the logarithm of the likelihood must rise each time.
_LONG_M, _LONGER_M, _CLEARLY, _UNLIKELY = 1.5, (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0), 3.0, 3.0
#: A cluster does not fit a body when it is farther from it than this many standard deviations, and this, m. Number of
#: times that such clusters are left out, and least number of those that are left.
_FAR_SDS, _FAR_M, _TRIMS, _LEAST_FITTING = 6.0, 0.7, 2, 4
#: Percentile of the heights that were seen which is the body's.
_HEIGHT_PERCENTILE = 80.0
#: Speed below which the direction of a motion is not that of the body, m/s.
_MIN_SPEED = 0.4


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
        likelihood: logarithm of the probability density of what was measured of it.
        radar: whether radial velocities of the radar are in it.
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
    likelihood: float
    radar: bool


def moving_body(clusters: Clusters, stamps: np.ndarray, radial: Measurements | None, step: float) -> Body:
    """The body of a track that may move.

    Args:
        clusters: of the track, ascending.
        stamps: f8 (sweep,), s, of all sweeps.
        radial: radial velocities of the body, if the radar saw it.
        step: angle between neighbouring columns of a sweep, rad.
    """
    for trim in range(_TRIMS + 1):
        sweep = np.arange(clusters.frame[0], clusters.frame[-1] + 1)
        times = stamps[sweep]
        fit = _followed(clusters, times, radial, step)
        if fit.fits.all() or fit.fits.sum() < _LEAST_FITTING or trim == _TRIMS:
            break
        # The tracker took something else for the body there.
        clusters = clusters.select(fit.fits)
    body = _body(clusters, sweep, times, fit.motion, _headings(fit.motion, clusters, times), fit.size)
    return body._replace(radar=radial is not None)


class _Fit(NamedTuple):
    """A motion and a size of a body that fit one another.

    Attributes:
        size: f8 (2,), length and width, m.
        fits: bool (C,), which clusters fit the body.
        whole: whether any cluster shows both ends of the body, so that its length is known.
    """

    motion: Smoothed
    size: np.ndarray
    fits: np.ndarray
    whole: bool


def _followed(clusters: Clusters, times: np.ndarray, radial: Measurements | None, step: float) -> _Fit:
    """The motion of a body at some times, with the most likely length.

    Of a car that drives behind a gap between parked ones no sweep shows both ends. It is longer than what is seen of
    it. Only with its true length do its front, when that is seen, and its rear, when that is seen, tell one motion.
    """
    first = _fitted(clusters, times, radial, step)
    if first.whole or first.size[0] < _LONG_M:
        return first
    found: list[_Fit] = []
    for longer in _LONGER_M:
        found.append(_fitted(clusters, times, radial, step, longer))
        if found[-1].motion.likelihood < max(each.motion.likelihood for each in found) - _UNLIKELY:
            break
    if max(each.motion.likelihood for each in found) < found[0].motion.likelihood + _CLEARLY:
        return first  # one end was seen all the time, which tells no length
    return _mean(found)


def _mean(fits: list[_Fit]) -> _Fit:
    """The mean of fits by their probabilities, which is as uncertain as they differ (Bayesian model averaging)."""
    likelihood = np.array([fit.motion.likelihood for fit in fits])
    mean = float(np.logaddexp.reduce(likelihood) - np.log(len(fits)))
    weight = np.exp(likelihood - likelihood.max())
    weight /= weight.sum()
    best = fits[int(weight.argmax())]
    states = np.array([fit.motion.state for fit in fits])
    state = np.einsum("f,fni->ni", weight, states)
    apart = states - state
    cov = np.einsum("f,fnij->nij", weight, np.array([fit.motion.cov for fit in fits]))
    cov = cov + np.einsum("f,fni,fnj->nij", weight, apart, apart)
    size = np.einsum("f,f...->...", weight, np.array([fit.size for fit in fits]))
    return best._replace(motion=best.motion._replace(state=state, cov=cov, likelihood=mean), size=size)


def _fitted(
    clusters: Clusters, times: np.ndarray, radial: Measurements | None, step: float, longer: float | None = None
) -> _Fit:
    """The motion of a body at some times.

    Args:
        longer: how much longer it is taken to be than what is seen of it, m; None = it is as long as what is seen, with
            the uncertainty of this.
    """
    distance = np.linalg.norm(clusters.middle - clusters.lidar, axis=1)
    resolution = step * distance
    variance = END_SD**2 + part_sd(clusters.size) ** 2 + resolution**2 / 12
    motion = most_likely(_all(Measurements.positions(clusters.time, clusters.middle, variance), radial), times)
    share = HIDDEN_SHARE if longer is None else 0.0
    for number, match_sd in enumerate(_MATCH_SDS):
        poses = _poses(motion, clusters, times)
        flat = flat_headings(clusters, poses)
        # A side that is seen tells the heading better than the way so far, which tells nothing at its ends.
        poses = poses._replace(yaw=np.where(flat.known, flat.yaw, poses.yaw))
        seen = sides(clusters, poses)
        size = size_of(seen, distance) + np.array([longer or 0.0, 0.0])
        middle, sd = middles(seen, size, poses, clusters.lidar, match_sd, share)
        ahead = np.column_stack([np.cos(poses.yaw), np.sin(poses.yaw)])
        variance = END_SD**2 + sd**2 + (resolution**2 / 12)[:, None]
        places = Measurements.positions(clusters.time, middle, variance, ahead)
        told = Measurements.headings(clusters.time[flat.known], flat.yaw[flat.known], flat.sd[flat.known] ** 2)
        motion = most_likely(_all(places.merged(told), radial), times, motion, climb=number == len(_MATCH_SDS) - 1)
    away = middle - _poses(motion, clusters, times).centre
    left = np.column_stack([-ahead[:, 1], ahead[:, 0]])
    apart = np.column_stack([np.einsum("ni,ni->n", away, axis) for axis in (ahead, left)])
    fits = (np.abs(apart) <= np.maximum(_FAR_SDS * np.sqrt(variance), _FAR_M)).all(axis=1)
    return _Fit(motion, size, fits, is_whole(seen, size_of(seen, distance)))


def _all(places: Measurements, radial: Measurements | None) -> Measurements:
    return places if radial is None else places.merged(radial)


def _poses(motion: Smoothed, clusters: Clusters, times: np.ndarray) -> PlanePoses:
    return PlanePoses.of(motion, _headings(motion, clusters, times), times, clusters.time)


def still_body(clusters: Clusters, stamps: np.ndarray, least_way: float) -> Body:
    """The body of a track that stands: one place and one size for the whole of it.

    Args:
        clusters, stamps: as for `moving_body`.
        least_way: a body that went this far would have been seen to move, m.
    """
    sweep = np.arange(clusters.frame[0], clusters.frame[-1] + 1)
    angle = _standing(clusters)
    angles = np.full(len(clusters.time), angle)
    poses = PlanePoses.standing(np.tile(np.median(clusters.middle, axis=0), (len(angles), 1)), angles)
    seen = sides(clusters, poses)
    size = size_of(seen, np.linalg.norm(clusters.middle - clusters.lidar, axis=1))
    middle = np.median(middles(seen, size, poses, clusters.lidar)[0], axis=0)
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
    height = float(np.percentile(clusters.top - clusters.floor, _HEIGHT_PERCENTILE))
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
        likelihood=motion.likelihood,
        radar=False,
    )


def _apart(place: np.ndarray) -> np.ndarray:
    """Distances of all places from some of them."""
    return np.asarray(np.linalg.norm(place[:, None] - place[None, :: len(place) // 200], axis=-1))


def _headings(motion: Smoothed, clusters: Clusters, times: np.ndarray) -> np.ndarray:
    """Where the body heads, rad, without jumps: by its model, or the direction of its motion, kept where it is slow."""
    if motion.heading is not None:
        return motion.heading
    speed = np.hypot(motion.state[:, 2], motion.state[:, 3])
    known = speed >= _MIN_SPEED
    if not known.any():
        return np.full(len(times), _standing(clusters))
    angle = np.unwrap(np.arctan2(motion.state[known, 3], motion.state[known, 2]))
    return np.asarray(np.interp(times, times[known], angle))


def _standing(clusters: Clusters) -> float:
    """The direction, rad, from 0 to pi, along which the largest outlines of a track are longest for their width."""
    largest = np.argsort(clusters.size, kind="stable")[-8:]
    own = clusters.select(largest)
    angles = np.linspace(0, np.pi / 2, 18, endpoint=False)
    poses = [PlanePoses.standing(own.middle, np.full(len(largest), angle)) for angle in angles]
    sizes = np.array([sides(own, each).size.mean(axis=0) for each in poses])
    best = int(np.argmin(sizes.prod(axis=1)))
    return float(angles[best] + (np.pi / 2 if sizes[best, 1] > sizes[best, 0] else 0.0))


def _averaged(time: np.ndarray, values: np.ndarray, width: float = 0.5) -> np.ndarray:
    """Values averaged over a time of `width`, s, around each."""
    first = np.searchsorted(time, time - width)
    last = np.searchsorted(time, time + width, side="right")
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray((sums[last] - sums[first]) / (last - first))
