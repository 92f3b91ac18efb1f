"""From a track to a body: its size, and where its box was and how fast at the time of every sweep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.numerics.blocks import BLOCK, IN_MEMORY, Memory, blocks
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.objects.clusters import DIRECTIONS, Clusters
from rover_pipeline.objects.extents import SIZE_PERCENTILE, Extents, Headings, PlanePoses, turned
from rover_pipeline.objects.smoothing import MIN_PLACES, OUTLIER_SDS, Measurements, Smoothed, fit_motion
from rover_pipeline.objects.tracking import PLACE_SD
from rover_pipeline.objects.tuning import LONG_CAR_M, LONG_M, TUNING
from rover_pipeline.radar.options import VelocitySection

#: Number of times that the motion and what is seen of the body are estimated in turn. Schedule.
_TURNS = 3
#: Logarithm of the ratio of two likelihoods from which one length is preferred: strong evidence.
#: Physics: Kass and Raftery, Bayes factors, JASA 1995.
BAYES_FACTOR = 3.0
#: Number of lengths over which an unknown one is integrated. Schedule.
_LENGTHS = 7
#: Maximum number of times that clusters which do not fit are left out. Schedule.
_TRIMS = 2


class Body(NamedTuple):
    """A track at the times of sweeps."""

    sweep: np.ndarray  #: i8 (N,), numbers of the sweeps, without gaps from the first cluster to the last one.
    centre: np.ndarray  #: f8 (N, 3), m.
    vel: np.ndarray  #: f8 (N, 3), m/s.
    yaw: np.ndarray  #: f8 (N,), rad; in a world whose z is up.
    extent: np.ndarray  #: f8 (3,), length, width and height, m.
    vel_sd: np.ndarray  #: f8 (N,), standard deviation of a horizontal component of the velocity, m/s.
    measured: np.ndarray  #: bool (N,), whether the sweep has a cluster of it.
    way: float  #: m, largest distance between two of its places, less what their uncertainty explains.
    clusters: int  #: number of clusters.
    shown: int  #: number of those that show where the body is along its heading.
    likelihood: float  #: logarithm of the probability density of what was measured of it.
    radar: bool  #: whether radial velocities of the radar are in it.

    def near(self, stamps: np.ndarray, time: np.ndarray, xy: np.ndarray, margin: np.ndarray | float) -> np.ndarray:
        """Whether places, f8 (P, 2), m, at times, f8 (P,), s, are in its box or at most a margin, m, outside of it.

        Args:
            stamps: f8 (N,), s, of its samples.

        Returns:
            bool (P,).
        """
        centre = np.column_stack([np.interp(time, stamps, self.centre[:, axis]) for axis in range(2)])
        own = np.abs(turned(xy - centre, -np.interp(time, stamps, self.yaw)))
        return np.asarray((own - self.extent[:2] / 2).max(axis=1) <= margin)


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
        fit = _length_and_motion(clusters, times, radial, step)
        if fit.fits.all() or fit.fits.sum() < MIN_PLACES or trim == _TRIMS:
            break
        # The tracker took something else for the body there.
        clusters = clusters.select(fit.fits)
    body = _body(clusters, sweep, times, fit.motion, _yaw(fit.motion, clusters, times), fit.size)
    return body._replace(shown=fit.shown, radar=radial is not None)


class _Fit(NamedTuple):
    """A motion and a size of a body that fit one another."""

    motion: Smoothed
    size: np.ndarray  #: f8 (2,), length and width, m.
    fits: np.ndarray  #: bool (C,), which clusters fit the body.
    is_length_known: bool  #: whether any cluster shows both ends of the body.
    shown: int  #: number of clusters that show where it is along its heading.


def _length_and_motion(clusters: Clusters, times: np.ndarray, radial: Measurements | None, step: float) -> _Fit:
    """The motion of a body at some times, with the most likely length.

    Of a car that drives behind a gap between parked ones no sweep shows both ends. It is longer than what is seen of
    it. Only with its true length do its front, when that is seen, and its rear, when that is seen, give one motion.
    Lengths that are about as likely are averaged, and their difference adds to the uncertainty (Bayesian model
    averaging; Hoeting et al., 1999).
    """
    first = _fitted(clusters, times, radial, step)
    if first.is_length_known or not LONG_M <= first.size[0] < LONG_CAR_M:
        return first
    fits: list[_Fit] = []
    for hidden in np.linspace(0.0, LONG_CAR_M - first.size[0], _LENGTHS).tolist():
        fits.append(_fitted(clusters, times, radial, step, hidden))
        if fits[-1].motion.likelihood < max(fit.motion.likelihood for fit in fits) - BAYES_FACTOR:
            break
    likelihood = np.array([fit.motion.likelihood for fit in fits])
    if likelihood.max() < likelihood[0] + BAYES_FACTOR:
        return first  # one end was seen all the time, from which no length follows
    weight = np.exp(likelihood - likelihood.max())
    mean = float(likelihood.max() + np.log(weight.mean()))
    weight /= weight.sum()
    states = np.array([fit.motion.state for fit in fits])
    state = np.einsum("f,fni->ni", weight, states)
    apart = states - state
    cov = np.einsum("f,fnij->nij", weight, np.array([fit.motion.cov for fit in fits]))
    cov = cov + np.einsum("f,fni,fnj->nij", weight, apart, apart)
    size = np.einsum("f,fi->i", weight, np.array([fit.size for fit in fits]))
    best = fits[int(weight.argmax())]
    return best._replace(motion=best.motion._replace(state=state, cov=cov, likelihood=mean), size=size)


def _fitted(
    clusters: Clusters, times: np.ndarray, radial: Measurements | None, step: float, hidden: float | None = None
) -> _Fit:
    """The motion of a body at some times.

    Args:
        hidden: how much longer it is taken to be than what is seen, m; None = as long, with the uncertainty of this.
    """
    resolution = (step * clusters.distance) ** 2 / 12 + TUNING.end_sd**2
    # Before it is known which part of the body a cluster shows, a small one says little about the middle.
    size = clusters.size
    part = np.percentile(size, SIZE_PERCENTILE) - size - TUNING.surface_m
    sd = TUNING.size_share * size + TUNING.unknown_share * np.maximum(0, part)
    variance = np.tile((resolution + sd**2)[:, None], 2)
    places = Measurements.positions(clusters.time, clusters.middle, variance, np.zeros(len(size)))
    motion = fit_motion(places.merged(radial), times, Smoothed.standing(clusters.time, clusters.middle, times))
    size_sd = TUNING.size_share if hidden is None else 0.0
    # Headings say which sides were seen, and these where the body heads, so both are estimated in turn. The first
    # motion is that of what is seen, while the middle is anywhere in the body. How near the expected place an end is
    # counts little then and more each time (Ueda and Nakano, Deterministic annealing EM algorithm, 1998).
    length = float(np.percentile(size, SIZE_PERCENTILE))
    widest = max(TUNING.match_sd, (length if length < LONG_M else max(length, LONG_CAR_M)) / np.sqrt(12))
    for turn, match_sd in enumerate(np.geomspace(widest, TUNING.match_sd, _TURNS).tolist(), 1):
        poses = PlanePoses.of(motion, _yaw(motion, clusters, times), times, clusters.time)
        headings = Headings.of(clusters, poses)
        # A side that is seen gives the heading better than the motion so far, which gives none at its ends.
        poses = poses._replace(yaw=np.where(headings.known, headings.yaw, poses.yaw))
        seen = Extents.of(clusters, poses)
        visible = seen.typical_size(clusters.distance)
        size = visible + np.array([hidden or 0.0, 0.0])
        middle, sd = seen.middles(size, poses, clusters.lidar, match_sd, size_sd)
        if headings.known.sum() >= MIN_PLACES and not seen.shows_both_ends(visible):
            # A flat side that may go on at both ends looks the same however far it slides along itself.
            sd[seen.low_open[:, 0] & seen.high_open[:, 0], 0] = PLACE_SD
        variance = resolution[:, None] + sd**2
        places = Measurements.positions(clusters.time, middle, variance, poses.yaw)
        known = headings.known
        angles = Measurements.headings(clusters.time[known], headings.yaw[known], headings.sd[known] ** 2)
        motion = fit_motion(places.merged(angles).merged(radial), times, motion, search=turn == _TURNS)
    away = middle - PlanePoses.of(motion, _yaw(motion, clusters, times), times, clusters.time).centre
    fits = (np.abs(turned(away, -poses.yaw)) <= OUTLIER_SDS * np.sqrt(variance)).all(axis=1)
    return _Fit(motion, size, fits, seen.shows_both_ends(visible), int((sd[:, 0] < PLACE_SD).sum()))


def still_body(clusters: Clusters, stamps: np.ndarray, min_way: float) -> Body:
    """The body of a track that stands: one place and one size at all times.

    Args:
        clusters, stamps: as for `moving_body`.
        min_way: a body that went this far would have been seen to move, m.
    """
    sweep = np.arange(clusters.frame[0], clusters.frame[-1] + 1)
    yaw = _longest_direction(clusters)
    poses = PlanePoses.standing(np.tile(np.median(clusters.middle, axis=0), (len(clusters.time), 1)), yaw)
    seen = Extents.of(clusters, poses)
    size = seen.typical_size(clusters.distance)
    middles, _ = seen.middles(size, poses, clusters.lidar, TUNING.match_sd, TUNING.size_share)
    state = np.zeros((len(sweep), 4))
    state[:, :2] = np.median(middles, axis=0)
    duration = max(float(clusters.time[-1] - clusters.time[0]), 1e-3)
    still = Smoothed(state, np.broadcast_to((min_way / duration) ** 2 * np.eye(4), (len(sweep), 4, 4)), 0.0)
    body = _body(clusters, sweep, stamps[sweep], still, np.full(len(sweep), yaw), size)
    # The ground below it is not seen to the millimetre. A velocity of exactly zero says that it never moved.
    return body._replace(vel=np.zeros((len(sweep), 3)))


def _body(
    clusters: Clusters, sweep: np.ndarray, times: np.ndarray, motion: Smoothed, yaw: np.ndarray, size: np.ndarray
) -> Body:
    height = float(np.percentile(clusters.top - clusters.floor, SIZE_PERCENTILE))
    floor = np.interp(times, clusters.time, _averaged(clusters.time, clusters.floor.astype("f8")))
    climb = np.gradient(floor, times) if len(times) > 1 else np.zeros(len(times))
    place = motion.state[:, :2]
    spread = np.sqrt(np.maximum(motion.cov[:, 0, 0] + motion.cov[:, 1, 1], 0) / 2)
    way = float(np.ptp(matmul(place, DIRECTIONS.T), axis=0).max())
    return Body(
        sweep=sweep,
        centre=np.column_stack([place, floor + height / 2]),
        vel=np.column_stack([motion.state[:, 2:], climb]),
        yaw=yaw,
        extent=np.array([*size, height]),
        vel_sd=np.sqrt(np.maximum(motion.cov[:, 2, 2] + motion.cov[:, 3, 3], 0) / 2),
        measured=np.isin(sweep, clusters.frame),
        way=max(0.0, way - 3 * float(np.median(spread))),
        clusters=len(clusters.time),
        shown=len(clusters.time),
        likelihood=motion.likelihood,
        radar=False,
    )


def _yaw(motion: Smoothed, clusters: Clusters, times: np.ndarray) -> np.ndarray:
    """Where the body heads, rad, without jumps: by its model, or the direction of its motion, kept where it is slow."""
    if motion.heading is not None:
        return motion.heading
    known = np.hypot(motion.state[:, 2], motion.state[:, 3]) >= TUNING.min_speed
    if not known.any():
        return np.full(len(times), _longest_direction(clusters))
    angle = np.unwrap(np.arctan2(motion.state[known, 3], motion.state[known, 2]))
    return np.asarray(np.interp(times, times[known], angle))


def _longest_direction(clusters: Clusters) -> float:
    """The direction, rad, from 0 to pi, along which the largest outlines of a track are longest for their width."""
    own = clusters.select(np.argsort(clusters.size, kind="stable")[-8:])
    angles = np.linspace(0, np.pi / 2, 18, endpoint=False)
    poses = [PlanePoses.standing(own.middle, float(angle)) for angle in angles]
    sizes = np.array([Extents.of(own, each).size.mean(axis=0) for each in poses])
    best = int(np.argmin(sizes.prod(axis=1)))
    return float(angles[best] + (np.pi / 2 if sizes[best, 1] > sizes[best, 0] else 0.0))


def _averaged(time: np.ndarray, values: np.ndarray, width: float = 0.5) -> np.ndarray:
    """Values averaged over a time of `width`, s, around each."""
    first = np.searchsorted(time, time - width)
    last = np.searchsorted(time, time + width, side="right")
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray((sums[last] - sums[first]) / (last - first))


# Radial velocities that the radar measured of bodies that are tracked by the lidar.

#: Differences of more standard deviations are those of another body, or of something that stands.
#: Noise: normal distribution, 99.7 %.
_GATE = 3.0
#: Standard deviation of the sine of the azimuth of a point, as `_radar_velocity` takes it by default.
_AZIMUTH_SD = VelocitySection().azimuth_error


class Echoes(NamedTuple):
    """Points of the radar, in the order of their times."""

    time: np.ndarray  #: f8 (N,), s.
    place: np.ndarray  #: f8 (N, 2), x and y in the world, m.
    direction: np.ndarray  #: f8 (N, 2), horizontal part of the unit vector from the radar to the point, in the world.
    speed: np.ndarray  #: f8 (N,), m/s, at which the point moves away from where the radar is, over ground.
    distance: np.ndarray  #: f8 (N,), m, from the radar.
    ambiguity: float  #: m/s; speeds are known up to multiples of it. 0 = it is not known, and none may be used.

    @staticmethod
    def of(
        points: Mapping[str, np.ndarray],
        instants: np.ndarray,
        trajectory: Trajectory,
        mount: Mount,
        max_doppler: float | None,
        origin: float,
        memory: Memory = IN_MEMORY,
    ) -> Echoes:
        """The points of all frames that are valid and whose pose is known.

        Args:
            points: channels of `_radar_points`, of which ranges are read.
            instants: f8 (frame,), s, when each frame was measured.
            trajectory: of the lidar, in the world.
            mount: the radar's pose in the lidar frame.
            max_doppler: largest unambiguous radial speed, m/s.
            origin: s, time that all times are counted from.
            memory: for the points.
        """
        found = []
        for part in blocks(len(instants), BLOCK // 16):  # each frame has hundreds of points
            states, known = trajectory.at(instants[part], mount)
            xyz, doppler = points["xyz"][part], points["doppler"][part]
            listed = np.arange(doppler.shape[1]) < points["count"][part, None]
            frame, row = np.nonzero(listed & known[:, None] & (points["valid"][part] != 0)[:, None])
            xyz, doppler = xyz[frame, row].astype("f8"), doppler[frame, row].astype("f8")
            usable = np.isfinite(xyz).all(axis=1) & np.isfinite(doppler)
            frame, xyz, doppler = frame[usable], xyz[usable], doppler[usable]
            turned = np.einsum("nij,nj->ni", states.rot[frame], xyz)
            distance = np.linalg.norm(xyz, axis=1)
            direction = turned / np.maximum(distance, 1e-6)[:, None]
            speed = doppler + np.einsum("ni,ni->n", states.vel[frame], direction)
            place = (states.pos[frame] + turned)[:, :2]
            columns = instants[part][frame] - origin, place, direction[:, :2], speed, distance
            found.append([memory.hold(each) for each in columns])
        order = np.argsort(np.concatenate([each[0] for each in found]), kind="stable")
        ordered = (memory.hold(np.concatenate(each)[order]) for each in zip(*found, strict=True))
        return Echoes._make([*ordered, 2 * (max_doppler or 0.0)])

    def of_body(self, body: Body, times: np.ndarray) -> Measurements | None:
        """The radial velocities of a body, as measurements of its motion; None if there are none.

        Args:
            body: as estimated from the lidar alone; times: f8 (N,), s, of its samples.
        """
        if not self.ambiguity or len(times) < 2:
            return None
        part = slice(np.searchsorted(self.time, times[0]), np.searchsorted(self.time, times[-1], side="right"))
        time, place, direction = self.time[part], self.place[part], self.direction[part]
        speed, distance = self.speed[part], self.distance[part]
        near = body.near(times, time, place, 2 * TUNING.surface_m + _GATE * _AZIMUTH_SD * distance)
        vel = np.column_stack([np.interp(time, times, body.vel[:, axis]) for axis in range(2)])
        expected = np.einsum("ni,ni->n", vel, direction)
        # The multiple of the ambiguity is that which is nearest to the lidar's estimate.
        more = speed - expected
        more = more - self.ambiguity * np.round(more / self.ambiguity)
        # What stands in the background has a speed of its own: zero. It is no body's when the body is faster.
        stands = np.abs(speed - self.ambiguity * np.round(speed / self.ambiguity)) < np.abs(more)
        used = near & ~stands & (np.abs(more) < min(_GATE * TUNING.radial_sd, self.ambiguity / 2))
        if not used.any():
            return None
        # Points of one frame are of one motion: together they weigh as much as one.
        _, frame, size = np.unique(time[used], return_inverse=True, return_counts=True)
        variance = TUNING.radial_sd**2 * size[frame]
        return Measurements.radial(time[used], (expected + more)[used], variance, direction[used])
