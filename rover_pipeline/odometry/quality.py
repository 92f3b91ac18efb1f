"""Which poses are to be trusted.

A pose is valid where its standard deviation is below `odometry.max_error` and where no rule of the table in
docs/sensors/odom.md refuses it. Each rule has a name, under which the provenance counts the sweeps that it refuses.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

from rover_pipeline.kinematics.state import State
from rover_pipeline.numerics.linear import cholesky, eigh, eigvalsh, inv, matmul
from rover_pipeline.numerics.robust import FALSE_ALARM
from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.refinement import Batch
from rover_pipeline.odometry.registration.cross_validation import BLOCKS, SweepFit, smallest_eigenvalue
from rover_pipeline.odometry.registration.sweep_information import PARTS, WINDOW, SweepInformation
from rover_pipeline.odometry.segments import MAX_BRIDGED, Seam

#: Standard deviations above which a correlation of moves within sweeps is significant: the largest one of six
#: directions and all distances reaches them at random, to the positive side, at the rate of false alarms. And the
#: square of one direction from which on places agree more often than at random; see `SweepInformation.landmarks`.
#: Noise: normal distribution.
_SIGNIFICANT, AGREE = np.sqrt(chdtri(1, FALSE_ALARM / 3 / (PARTS // 2 - 1))), float(chdtri(1, 2 * FALSE_ALARM))
#: Smallest number of planes with independent errors that a sweep sees, because the mean square of n such errors varies
#: by the root of 2 / n, and by an eighth between sweeps of good recordings. Tuned: good recordings.
_INDEPENDENT = 100
#: Largest `misfit` of a sweep that fits: the mean of so many independent squares, at the rate of false alarms.
_MISFIT_LIMIT = float(chdtri(_INDEPENDENT, FALSE_ALARM)) / _INDEPENDENT
#: A rig that glides: faster than this, m/s, with an angular rate below this, rad/s, of which a trolley on a floor has
#: 0.6 degrees a second and a car 3. Tuned: a trolley and a car.
_GLIDES, _TURNS = 0.2, np.radians(0.35)


class Quality(NamedTuple):
    """How well the sweep of each frame fits the map of other sweeps; NaN where no sweep was used."""

    inliers: np.ndarray  #: f8 (frame,), fraction of points on planes.
    residual: np.ndarray  #: f8 (frame,), root mean square of their distances, metres.
    information: np.ndarray  #: f8 (frame,), smallest eigenvalue of the information matrix, 1/m2.
    #: f8 (frame,), standard deviation of the position in its least certain direction, with `disagreement`, metres.
    error: np.ndarray
    #: f8 (frame,), how far held-out points would move a pose over two seconds, beyond their noise, m.
    disagreement: np.ndarray
    #: f8 (frame,), smallest eigenvalue of the mean information of large planes over a second, 1/m2, without any single
    #: small body.
    structure: np.ndarray
    #: f8 (frame,), what they say of the distance along the motion without those on one side of it, 1/m2.
    both_sides: np.ndarray
    #: f8 (frame,), as `structure`, without what people or cars may make up, 1/m2.
    without_people: np.ndarray
    #: f8 (frame,), mean square distance of held-out points from their planes, relative to the variance that is
    #: expected, or that sweeps show which fit where this is more.
    misfit: np.ndarray
    landmarks: np.ndarray = np.zeros((2, 1))  #: f8 (2, frame), see `SweepInformation.landmarks`.
    #: f8 (frame,), see `SweepInformation.stacked`, relative to the same variance as `misfit`.
    slip: np.ndarray = np.zeros(1)
    elsewhere: np.ndarray = np.zeros(1)  #: f8 (frame,), see `SweepInformation.elsewhere`.
    ambiguity: np.ndarray = np.zeros(1)  #: f8 (frame,), see `SweepInformation.ambiguity`.

    @classmethod
    def of(cls, batch: Batch, sweeps: SweepInformation, cov: np.ndarray, state: State, ts: np.ndarray) -> Quality:
        """Of a trajectory.

        Args:
            sweeps: of the frames.
            cov: f8 (frame, 6, 6), covariances of its poses; state: of the frames; ts: f8 (frame,), seconds.
        """
        fits = batch.fits
        inliers, residual = (np.array([getattr(fit, name) for fit in fits]) for name in ("inliers", "residual"))
        information = np.array([smallest_eigenvalue(matrix) for matrix in batch.information])
        information[~np.isfinite(inliers)] = np.nan
        disagreement = _disagreement(fits, batch.noise, ts)
        # Seconds without a sweep leave the motion open by more than numbers can say.
        known, error = np.isfinite(cov).all(axis=(1, 2)), np.full(len(cov), np.inf)
        error[known] = np.sqrt(np.maximum(eigvalsh(cov[known][:, :3, :3])[:, -1], 0.0))
        error = np.hypot(error, disagreement)
        still, passed, lasting = (
            _mean_information(large / batch.noise, inliers, state.rot, ts) for large in sweeps.large.swapaxes(0, 1)
        )
        structure, without_people = (
            np.where(np.isfinite(inliers), [smallest_eigenvalue(matrix) for matrix in matrices], np.nan)
            for matrices in (still, lasting)
        )
        both_sides = information_along(_way(state, ts), passed)
        noise = np.array([fit.noise for fit in fits])
        of_fitting = _noise_of_fitting(noise, ts)
        misfit, slip = noise / of_fitting, sweeps.slip[:, 1] / of_fitting
        # A sweep that is misplaced is not shown by those around it.
        landmarks = sweeps.landmarks.T
        return cls(
            inliers,
            residual,
            information,
            error,
            disagreement,
            structure,
            both_sides,
            without_people,
            misfit,
            landmarks,
            slip,
            sweeps.elsewhere,
            sweeps.ambiguity,
        )

    def refused(self, options: OdometrySection, state: State, ts: np.ndarray) -> list[Refusal]:
        """The poses that each rule refuses.

        Args:
            state: of the frames; ts: f8 (frame,), seconds.
        """
        poor = ~(self.inliers >= options.min_inliers) | (self.residual > (options.max_residual or np.inf))
        return [
            Refusal("inliers", poor),
            Refusal("uncertain", ~(self.error <= options.max_error)),
            # A trajectory that is lost leads into another world than that before it. Its sweeps lie on no planes.
            Refusal("misfit", self.misfit > _MISFIT_LIMIT, parts=True),
            Refusal("two_worlds", self.slip > _MISFIT_LIMIT, parts=True),
            # A sweep whose pose is wrong fits there no better than elsewhere, because its matches are random.
            Refusal("random_matches", self.elsewhere >= 1, parts=True),
            Refusal("aliased", self.ambiguity >= 1, parts=True),
            Refusal("diverged", self.disagreement > options.max_error, parts=True),
            Refusal("companions", self.shown_by_small_bodies(options, state, ts), parts=True),
            Refusal("one_side", self.shown_by_one_side(options, state, ts), parts=True),
            Refusal("traffic", self.glides_without_turn(options, state, ts), parts=True),
        ]

    def shown_by_small_bodies(self, options: OdometrySection, state: State, ts: np.ndarray) -> np.ndarray:
        """Where small bodies alone show how the rig moves, which may move themselves, bool (frame,).

        Floors and walls look the same for a rig that walks along a corridor, beside people who walk with it, and for
        one that stands while people pass. A map that was made along a wrong motion smears large surfaces that face it,
        so that they are no planes. So large planes confirm a motion if they determine the distance of a second to about
        a third of it, without those that people or cars may make up. Trees confirm it, too, and whatever else is higher
        than people, if it is not all in one place.
        """
        alone = self._small_bodies_alone(options) & ~(self.landmarks[0] > AGREE)
        squared, limit = (_speed(state, ts) * WINDOW) ** 2, chdtri(1, FALSE_ALARM)
        # The same bodies show the motion before and after: a doubt about a part of a stretch is one about all of it.
        stretch = widened(alone, ts)
        number = np.cumsum(np.diff(stretch.astype(int), prepend=0) == 1)
        unseen = stretch & np.isin(number, number[alone & (self.structure * squared < limit)])
        # Where other planes confirm the motion, whatever people seemed to make up just before or after is no people.
        return np.asarray(unseen | _too_long(alone & (self.without_people * squared < limit), ts))

    def shown_by_one_side(self, options: OdometrySection, state: State, ts: np.ndarray) -> np.ndarray:
        """Where all that shows the motion is on one side of it, which may be a train that passes, bool (frame,).

        A rig that stands may have a bare wall on its other side, or look to one side only. If it moves, the other side
        has to confirm the motion: it determines the distance of a second to about a third of it. A stretch in which it
        does not is doubted if it is too long to be bridged, if a valid pose may not be wrong by its length, and if the
        other side does not determine this length either.
        """
        limit = chdtri(1, FALSE_ALARM)
        bare = (self.both_sides * (_way(state, ts) ** 2).sum(axis=1) < limit) & ~(self.landmarks[1] > AGREE)
        refused = _too_long(bare, ts)
        for first, last in _runs(refused):
            way = np.linalg.norm(state.pos[first:last] - state.pos[first], axis=1).max()
            unseen = self.both_sides[first:last].mean() * way**2 < limit
            refused[first:last] = unseen and way > options.max_error
        return widened(refused, ts)

    def glides_without_turn(self, options: OdometrySection, state: State, ts: np.ndarray) -> np.ndarray:
        """Where the rig may stand although it seems to glide, because bodies around it set off, bool (frame,).

        Ranges alone cannot distinguish a bus that passes a rig from a rig that passes a bus, where the ground is the
        same for both. But whatever carries a rig makes it vibrate and turn a little. Where its motion has no trace of
        that, and small bodies alone show it, it is more likely theirs.
        """
        speed, turns = _speed(state, ts), np.sqrt(_within((state.avel**2).sum(axis=1), ts))
        moves = speed * WINDOW > options.max_error
        number = np.cumsum(np.diff(moves.astype(int), prepend=0) == 1)
        glides = (speed > _GLIDES) & (turns < _TURNS) & widened(self._small_bodies_alone(options), ts)
        return moves & np.isin(number, number[moves & glides])

    def _small_bodies_alone(self, options: OdometrySection) -> np.ndarray:
        """Where large planes alone do not determine the position as well as a valid pose needs it, bool (frame,)."""
        return np.asarray(self.structure < options.max_error**-2)


class Refusal(NamedTuple):
    """Poses that one rule does not trust."""

    rule: str  #: its name in the provenance.
    frames: np.ndarray  #: bool (frame,).
    #: whether the motion across these frames is unknown, so that only the poses on one side of them are in one world.
    parts: bool = False


def trusted(
    refusals: Iterable[Refusal],
    ts: np.ndarray,
    measured: np.ndarray,
    used: np.ndarray,
    seams: Sequence[Seam],
    jumps: np.ndarray,
) -> np.ndarray:
    """Which poses are valid, bool (frame,): those that no rule refuses, in the largest part that is one world.

    Args:
        ts: f8 (frame,), seconds.
        measured, used: bool (frame,), whether the raw sweep is valid, and whether the trajectory is made from it.
        seams: of the segments, some of which are not connected.
        jumps: i8 (jump,), numbers of the frames before which the clock jumps.
    """
    valid, parted = measured.copy(), np.zeros(len(ts), bool)
    for refusal in refusals:
        valid &= ~refusal.frames
        parted |= refusal.frames & refusal.parts
    # A host's clock that was set and a rig that paused for minutes look alike. Only in the first case is the motion
    # across the jump known.
    lost = widened(parted, ts) | unbridged(used, ts, {seam.frame for seam in seams})
    valid &= ~lost
    starts = [*unconnected(seams), *jumps, *np.flatnonzero(np.diff(lost.astype(int)) > 0) + 1]
    valid &= largest_part(starts, valid)
    return valid & ~brief(valid, used, ts)


def _noise_of_fitting(noise: np.ndarray, ts: np.ndarray) -> float:
    """Variance of points' distances in sweeps that fit, relative to the expected one, 1 or more.

    The lidar is as good in all sweeps as in the best second. Sweeps that fit with its noise are taken in, and those
    that fit with the median of these, until there is no further one (forward search; A. C. Atkinson, M. Riani, Robust
    Diagnostic Regression Analysis, 2000). The median of all sweeps is that of lost ones, where half of them are lost.

    Args:
        noise: f8 (frame,), mean squares of the sweeps, NaN where none was used; ts: f8 (frame,), seconds.
    """
    means = _within(noise, ts)[np.isfinite(noise)]
    level, further = 0.0, float(means.min()) if len(means) else 0.0
    while further > level:
        level = max(1.0, further)
        further = float(np.median(noise[noise <= level * _MISFIT_LIMIT]))
    return max(1.0, further)


def _disagreement(fits: Sequence[SweepFit], noise: float, ts: np.ndarray) -> np.ndarray:
    """How far held-out points would move a pose over two seconds, beyond what their own noise explains, f8 (frame,), m.

    Of a mean square move with a mean normalised square of s, noise explains the part 1 / s.
    """
    squares = _within(np.array([fit.shift for fit in fits]) ** 2, ts)
    nis = _within(np.array([fit.nis for fit in fits]) / noise, ts)
    return np.asarray(np.sqrt(BLOCKS * squares * np.maximum(1 - 1 / np.maximum(nis, 1e-9), 0.0)))


def _way(state: State, ts: np.ndarray) -> np.ndarray:
    """Mean way of a second around each frame, f8 (frame, 3), m, in the world."""
    after = np.clip(np.searchsorted(ts, ts + WINDOW / 2), 0, len(ts) - 1)
    before = np.clip(np.searchsorted(ts, ts - WINDOW / 2), 0, len(ts) - 1)
    way = state.pos[after] - state.pos[before]
    return WINDOW * way / np.maximum(ts[after] - ts[before], 1e-3)[:, None]


def _speed(state: State, ts: np.ndarray) -> np.ndarray:
    """Mean speed within a second around each frame, f8 (frame,), m/s."""
    return np.asarray(np.linalg.norm(_way(state, ts), axis=1) / WINDOW)


def information_along(way: np.ndarray, information: np.ndarray) -> np.ndarray:
    """What is known of a displacement along a way, f8 (frame, 3), whatever the rest of the pose is, f8 (frame,), 1/m2.

    Args:
        information: f8 (frame, 6, 6), of a displacement and a rotation in the world. A deviation of a kilometre, which
            is no information, makes it regular.
    """
    values, vectors = eigh(information)
    along = np.einsum("ni,nij->nj", way, vectors[:, :3]) / np.maximum(np.linalg.norm(way, axis=1), 1e-9)[:, None]
    return np.asarray(1 / np.maximum((along**2 / np.maximum(values, 1e-6)).sum(axis=1), 1e-12))


def _within(values: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """Means of values of frames within a second around each frame, f8 (frame,); NaN counts for nothing."""
    finite = np.isfinite(values)
    sums, counts = (np.concatenate([[0.0], np.cumsum(each)]) for each in (np.where(finite, values, 0.0), finite))
    first, last = _window(ts)
    return np.asarray((sums[last] - sums[first]) / np.maximum(counts[last] - counts[first], 1))


def _runs(some: np.ndarray) -> list[list[int]]:
    """The first frame of each run, and that after its last one."""
    return np.flatnonzero(np.diff(some, prepend=False, append=False)).reshape(-1, 2).tolist()


def _too_long(some: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """Those of some frames, bool (frame,), whose runs are too long to be bridged."""
    kept = some.copy()
    for first, last in _runs(some):
        kept[first:last] = ts[min(last, len(ts) - 1)] - ts[max(first - 1, 0)] > MAX_BRIDGED
    return kept


def _mean_information(matrices: np.ndarray, inliers: np.ndarray, rot: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """Means of matrices of sweeps over a second, f8 (frame, 6, 6), of a displacement and a rotation in the world.

    Args:
        matrices: f8 (frame, 6, 6), of a displacement in the world and of a rotation in the lidar frame.
        inliers: f8 (frame,), NaN where no sweep was used; rot: f8 (frame, 3, 3); ts: f8 (frame,), seconds.
    """
    into_world = np.tile(np.eye(6), (len(ts), 1, 1))
    into_world[:, 3:, 3:] = rot
    turned = matmul(into_world, matrices, np.swapaxes(into_world, 1, 2)).reshape(-1, 36)
    turned[~np.isfinite(inliers)] = np.nan
    return np.stack([_within(each, ts) for each in turned.T], axis=1).reshape(-1, 6, 6)


def without_tilt(
    cov: np.ndarray, sweeps: SweepInformation, fits: Sequence[SweepFit], rot: np.ndarray, ts: np.ndarray
) -> np.ndarray:
    """Covariances of poses without the information that wrong directions of planes seem to give, f8 (frame, 6, 6).

    The direction of a plane has an error. Over a field it makes thousands of planes that lean a little to all sides,
    and these seem to hold a rig that nothing holds. On roads such planes give a tenth of the information along the way.
    Where a share of the information is not there, the variance is larger by it. What is there is measured: a sweep that
    is moved still finds planes that lean, and leaves those that show its place; see `PrincipalAxes`. That holds for a
    trajectory that is right. Where planes of half a second fit sweeps of the next second worse than the noise of ranges
    explains, either beams are off, or the trajectory is wrong. There it is computed from beams that are off, which is
    several times too much.

    Args:
        cov: f8 (frame, 6, 6), in the lidar frame; sweeps: of the frames.
        fits: of the frames.
        rot: f8 (frame, 3, 3), of the lidar in the world; ts: f8 (frame,), seconds.
    """
    inliers = np.array([fit.inliers for fit in fits])
    slip = sweeps.slip[:, 0] / _noise_of_fitting(np.array([fit.noise for fit in fits]), ts)
    agree = (slip > 0) & (slip <= _MISFIT_LIMIT)
    seems, measured, if_beams_are_off = sweeps.information.swapaxes(0, 1)
    left = np.where(agree[:, None, None], measured, if_beams_are_off)
    seeming, known = (_mean_information(each, inliers, rot, ts) for each in (seems, left))
    into_world = np.zeros((len(ts), 6, 6))
    into_world[:, :3, :3] = into_world[:, 3:, 3:] = rot
    # In directions that are independent, in which the seeming information is 1. A deviation of 1 m and 1 rad, which is
    # far more than a valid pose has, makes matrices of sweeps without points regular.
    root = cholesky(seeming + np.eye(6))
    inverse = inv(root)
    share, vectors = eigh(matmul(inverse, known + np.eye(6), np.swapaxes(inverse, 1, 2)))
    # A share that is smaller than the precision of the channel `cov`, or negative, is none.
    wider = vectors * np.maximum(share, np.finfo("f4").eps)[:, None] ** -0.5
    moved = matmul(np.swapaxes(inverse, 1, 2), wider, np.swapaxes(vectors, 1, 2), np.swapaxes(root, 1, 2))
    moved = matmul(np.swapaxes(into_world, 1, 2), moved, into_world)
    return np.asarray(matmul(moved, cov, np.swapaxes(moved, 1, 2)))


def as_measured(
    cov: np.ndarray, motion: np.ndarray, fits: Sequence[SweepFit], noise: float, ts: np.ndarray
) -> np.ndarray:
    """Covariances of poses with what their equations do not know of, f8 (frame, 6, 6).

    The equations take the errors of all points for independent. Where they are not, sweeps disagree with the map of
    others by more than their noise, and covariances grow as the squares of these disagreements. What the lidar does
    faster than the knots of the trajectory is added: parts of a sweep that are a whole number of its periods apart move
    alike, while the noise of their points is independent. So the mean product of the moves of parts that are so far
    apart is the covariance of the motion only. The trajectory can follow the mean move of a sweep. So it does not
    count: it is an error of the map or of the pose, and the equations know of these.

    Args:
        cov: f8 (frame, 6, 6), of the trajectory; motion: f8 (frame, PARTS, 6), of `SweepInformation`.
        fits: of the frames; noise: variance of the points' distances, relative to the expected one.
        ts: f8 (frame,), seconds.
    """
    nis = _within(np.array([fit.nis for fit in fits]) / noise, ts)
    motion = motion - motion.mean(axis=1, keepdims=True)
    # Correlations of the moves of parts, in directions that are independent: none has a unit.
    root = cholesky(_products(motion, 0, ts) + 1e-14 * np.eye(6))  # a sweep may not move at all
    inverse = inv(root)
    first, last = _window(ts)
    sums, moved = np.zeros(len(ts)), np.zeros_like(cov)
    # Whatever the frequency of a motion is, one of so many distances is a whole number of its periods but for an eighth
    # (Dirichlet's theorem), where 0.7 of the motion are alike.
    for apart in range(1, PARTS // 2):
        values, vectors = eigh(matmul(inverse, _products(motion, apart, ts), np.swapaxes(inverse, 1, 2)))
        limit = _SIGNIFICANT / np.sqrt((PARTS - apart) * (last - first))
        values = np.where(values > limit[:, None], values, 0.0)
        larger = values.sum(axis=1) > sums
        sums, along = np.maximum(values.sum(axis=1), sums), matmul(root, vectors)[larger]
        moved[larger] = matmul(along * values[larger, None], np.swapaxes(along, 1, 2))
    return np.asarray(cov * np.maximum(nis, 1.0)[:, None, None] + moved)


def _products(motion: np.ndarray, apart: int, ts: np.ndarray) -> np.ndarray:
    """Mean products of the moves of parts, f8 (frame, PARTS, 6), with those so many parts later, f8 (frame, 6, 6)."""
    parts = PARTS - apart
    products = matmul(np.swapaxes(motion[:, :parts], 1, 2), motion[:, apart:]) / parts
    means = np.stack([_within(each, ts) for each in products.reshape(-1, 36).T], axis=1).reshape(-1, 6, 6)
    return np.asarray((means + np.swapaxes(means, 1, 2)) / 2)


def _window(ts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first frame within a second around each frame, and one after the last one, i8 (frame,).

    At the ends of a recording the time lies within it, so that a mean is never one of a few frames only.
    """
    begin = np.clip(ts - WINDOW / 2, ts[0], max(ts[0], ts[-1] - WINDOW))
    return np.searchsorted(ts, begin), np.searchsorted(ts, begin + WINDOW, side="right")


def largest_part(starts: Sequence[int] | np.ndarray, counted: np.ndarray) -> np.ndarray:
    """The frames of the part with the most counted frames, bool (frame,).

    Args:
        starts: numbers of the frames at which a part begins; the first part begins with the first frame.
        counted: bool (frame,).
    """
    begun = np.zeros(len(counted), int)
    np.add.at(begun, np.asarray(starts, int), 1)
    part = np.cumsum(begun)
    return part == np.argmax(np.bincount(part, counted))


def unconnected(seams: Iterable[Seam]) -> list[int]:
    """The frames at which a world begins that is not connected with the one before it."""
    return [seam.frame for seam in seams if not seam.connected]


def widened(some: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """Frames within half a second of some, bool (frame,): the means that show these are means over a second."""
    count = np.concatenate([[0], np.cumsum(some)])
    first, last = _window(ts)
    return np.asarray(count[last] > count[first])


def brief(valid: np.ndarray, used: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """Valid poses that last for less than half a second between others that are not, bool (frame,).

    The maps that a sweep is compared with change every half second. So those few are compared with maps of their
    neighbours alone, whose poses are not to be trusted.

    Args:
        valid, used: bool (frame,), the latter of the sweeps that the trajectory is made from.
    """
    frames, alone = np.flatnonzero(used | valid), np.zeros(len(valid), bool)
    edges = np.flatnonzero(np.diff(valid[frames].astype(int))) + 1
    period = float(np.median(np.diff(ts[frames]))) if len(frames) > 1 else 0.0
    for run in np.split(frames, edges) if len(edges) else ():
        alone[run] = valid[run] & (ts[run[-1]] - ts[run[0]] + 1.5 * period < WINDOW / 2)
    return alone


def unbridged(used: np.ndarray, ts: np.ndarray, joined: Container[int] = ()) -> np.ndarray:
    """Where no sweep was used for so long that the motion before it does not predict the one after, bool (frame,).

    Args:
        used: bool (frame,), whether the sweep is one that the trajectory is made from; ts: f8 (frame,), seconds.
        joined: frames after gaps whose sides have been joined by what they have seen.
    """
    lost = np.zeros(len(used), bool)
    frames = np.flatnonzero(used)
    for before, after in itertools.pairwise(frames):
        if ts[after] - ts[before] > MAX_BRIDGED and after not in joined:
            lost[before + 1 : after + 1] = True
    return lost
