"""Quality of the poses: which are valid, and which are in one world."""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence
from typing import NamedTuple

import numpy as np

from rover_pipeline.kinematics.state import State
from rover_pipeline.numerics.linear import cholesky, eigh, eigvalsh, inv, matmul
from rover_pipeline.odometry.gaps import LONGEST
from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.refinement import Batch
from rover_pipeline.odometry.registration.judge import PARTS, SweepFit, smallest_eigenvalue
from rover_pipeline.odometry.segments import Seam
from rover_pipeline.odometry.spline import ORDER

#: Standard deviation, in the least certain direction, that large planes alone leave to a rig that may be among
#: companions, metres; and how many times that of all planes it is at least, if small bodies alone tell that it stands.
_STRUCTURE_ERROR, _SMALL_BODIES = 0.008, 5.0
#: Root mean square acceleration over a second that no rig keeps up, m/s2: brisk walking in a tight circle has 11, and a
#: trajectory that jumps from sweep to sweep 17 to 40.
_MAX_ACCELERATION = 15.0
#: Acceleration at an end of a part, m/s2, of a sweep that is 5 cm off after a tenth of a second; how many times that of
#: most sweeps it is at least where it is none of the rig; and the time in which one end of a part tells little, s.
_JOLT, _TIMES_USUAL, _END = 5.0, 6.0, 0.3
#: The maps that judge a sweep change every half second. Errors between them add up as in a random walk: over the two
#: seconds over which a pose has to be right, so many.
_BLOCKS = 4
#: Mean surprise of the sweeps of a second that chance explains: 1, and its standard deviation, 0.2.
_BY_CHANCE = 1.2
#: Standard deviations above which a correlation of moves within sweeps is not chance, whose largest of six directions
#: has 3.5; and the variance of a move that is none, m2 or rad2.
_BEYOND_CHANCE, _NO_MOVE = 4.0, 1e-14
#: Surprise above which small bodies contradict one another.
_DISAGREE = 4.0
#: Mean speed over so many seconds, below which a rig may stand, m/s.
_WINDOW, _STANDS = 1.0, 0.3
#: A rig that glides: faster than this, m/s, with an angular rate below this, rad/s, of which a trolley on a floor has
#: 0.6 degrees a second and a car 3. Its motion lasts for as long as it is faster than the last figure, m/s.
_GLIDES, _TURNS, _CREEPS = 0.2, np.radians(0.35), 0.02
#: How well a sweep fits at wrong poses relative to its own, from which on it may be anywhere: 0.02 to 0.06 in halls,
#: parks, rain and on a real drive, 0.45 in clutter without any surface.
_ANYWHERE = 0.25


class Quality(NamedTuple):
    """How well the sweep of each frame fits the map of other sweeps; NaN where no sweep was used.

    Attributes:
        inliers: f8 (frame,), fraction of points on planes.
        residual: f8 (frame,), root mean square of their distances, metres.
        information: f8 (frame,), smallest eigenvalue of the information matrix, 1/m2.
        error: f8 (frame,), standard deviation of the position in its least certain direction, with how far it has not
            settled yet, metres.
        structure: f8 (frame,), smallest eigenvalue of the information that large planes alone give, 1/m2.
        shift: f8 (frame,), how far the points of the sweep would move it on the map of other sweeps, metres.
        surprise: f8 (frame,), the square of that move and of the rotation with it, normalised by their covariance, per
            degree of freedom: about 1 where the points disagree no more than by chance.
        chance: f8 (frame,), how well the sweep fits here relative to poses half a metre away; see `SweepFit`.
    """

    inliers: np.ndarray
    residual: np.ndarray
    information: np.ndarray
    error: np.ndarray
    structure: np.ndarray
    shift: np.ndarray
    surprise: np.ndarray
    chance: np.ndarray

    @classmethod
    def of(cls, batch: Batch, cov: np.ndarray) -> Quality:
        """Of a trajectory and the covariances of its poses, f8 (frame, 6, 6)."""
        inliers, residual, _, _, structure, shift, surprise = np.array([fit[:7] for fit in batch.fits]).T
        information = np.array([smallest_eigenvalue(matrix) for matrix in batch.information])
        # Seconds without a sweep leave the motion open by more than numbers can say.
        known, error = np.isfinite(cov).all(axis=(1, 2)), np.full(len(cov), np.inf)
        error[known] = np.sqrt(np.maximum(eigvalsh(cov[known][:, :3, :3])[:, -1], 0.0))
        error = np.hypot(error, batch.unsettled)
        information[~np.isfinite(inliers)] = np.nan
        surprise = surprise / batch.noise
        chance = np.array([fit.chance for fit in batch.fits])
        return cls(inliers, residual, information, error, structure / batch.noise, shift, surprise, chance)

    def valid(self, options: OdometrySection, state: State, ts: np.ndarray) -> np.ndarray:
        """Which frames are as good as the options demand, bool (frame,).

        Args:
            state: of the frames; ts: f8 (frame,), seconds.
        """
        # A pose has its knots in common with those beside it. One at an end has others on one side only, which makes it
        # less certain than those; the points that were left out have to confirm it.
        ends, uncertain = self._at_ends(ts, ORDER / 2 * options.knots), self.error > options.max_error
        near = _within(np.isfinite(self.inliers) & uncertain & ~ends, ts, 2 * ORDER * options.knots) > 0
        unconfirmed = ends & (np.hypot(self.error, self._elsewhere(ts)) > options.max_error)
        return (
            (self.inliers >= options.min_inliers)
            & (self.residual <= (options.max_residual or np.inf))
            & (self.error <= options.max_error)
            & ~near
            & ~self.jolted(state, ts)
            & (self.information >= options.max_error**-2)
            & ~unconfirmed
            & ~self.torn(options, ts)
            & ~self.among_companions(options, state, ts)
        )

    def torn(self, options: OdometrySection, ts: np.ndarray) -> np.ndarray:
        """Where the trajectory is lost, bool (frame,).

        Sweeps would rather be elsewhere on the map of others, or they fit there nearly as well. A trajectory that is
        lost for long fills its map with points, in which every sweep finds planes at any pose.

        Args:
            ts: f8 (frame,), seconds.
        """
        elsewhere = (self._elsewhere(ts) > options.max_error) & (_within(self.surprise, ts) > _BY_CHANCE)
        return elsewhere | (_within(self.chance, ts) > _ANYWHERE)

    def _elsewhere(self, ts: np.ndarray) -> np.ndarray:
        """How far the points that were left out would move a pose over two seconds, f8 (frame,), m."""
        far: np.ndarray = _BLOCKS**0.5 * _within(self.shift**2, ts) ** 0.5
        return far

    def jolted(self, state: State, ts: np.ndarray) -> np.ndarray:
        """Where the trajectory begins or ends with a jolt, bool (frame,).

        The first and the last sweeps of a part have others on one side only. One of them that has slipped, as onto
        something that comes along with the rig, fits as well as any: what tells is that nothing else moves the rig so.
        """
        size, jolts = np.linalg.norm(state.acc, axis=1), np.zeros(len(ts), bool)
        for part in self._parts(ts):
            wild = size[part] > max(_JOLT, _TIMES_USUAL * float(np.median(size[part])))
            begins, ends = ts[part] <= ts[part[0]] + _END, ts[part] >= ts[part[-1]] - _END
            jolts[part] = (np.cumsum((wild & begins)[::-1])[::-1] > 0) | (np.cumsum(wild & ends) > 0)
        return jolts

    def _at_ends(self, ts: np.ndarray, seconds: float) -> np.ndarray:
        """The first and the last sweeps of the parts between gaps, bool (frame,)."""
        ends = np.zeros(len(ts), bool)
        for part in self._parts(ts):
            ends[part] = (ts[part] < ts[part[0]] + seconds) | (ts[part] > ts[part[-1]] - seconds)
        return ends

    def _parts(self, ts: np.ndarray) -> list[np.ndarray]:
        """The used frames of each part between gaps, i8."""
        used = np.flatnonzero(np.isfinite(self.inliers))
        return np.split(used, np.flatnonzero(np.diff(ts[used]) > LONGEST) + 1) if len(used) else []

    def among_companions(self, options: OdometrySection, state: State, ts: np.ndarray) -> np.ndarray:
        """Where the rig may only seem to stand, because bodies move along with it, bool (frame,).

        Floors and walls are the same for a rig that walks along a corridor. Whether it stands is then told by small
        bodies alone. These stand in the frame of the rig, as companions do. While a rig moves past small bodies they
        cannot be companions, unless some of them contradict the others: then some stand and some come along.
        """
        speed = _speed(state, ts)
        alone = (self.structure < _STRUCTURE_ERROR**-2) & (self.structure < self.information / _SMALL_BODIES**2)
        doubtful = alone & ((speed < _STANDS) | (_within(self.surprise, ts) > _DISAGREE))
        # The same bodies tell of the motion before and after: a doubt about a part of a stretch is one about all of it.
        stretch = widened(alone, ts)
        number = np.cumsum(np.diff(stretch.astype(int), prepend=0) == 1)
        return stretch & np.isin(number, number[doubtful])

    def among_traffic(self, state: State, ts: np.ndarray) -> np.ndarray:
        """Where the rig may stand although it seems to glide, because bodies around it set off, bool (frame,).

        Ranges alone tell no bus that passes a rig from a rig that passes a bus, where the ground is the same for both.
        But whatever carries a rig shakes and turns it a little. Where its motion has no trace of that, and small bodies
        alone tell of it, it is more likely theirs. A train is no small body: where most of a motion has no such
        trace, it does not matter what tells of it.
        """
        speed, turns = _speed(state, ts), np.sqrt(_within((state.avel**2).sum(axis=1), ts))
        small = widened(self.structure < self.information / _SMALL_BODIES**2, ts)
        moves = speed > _CREEPS
        number = np.cumsum(np.diff(moves.astype(int), prepend=0) == 1)
        glides = (speed > _GLIDES) & (turns < _TURNS)
        most = 2 * np.bincount(number, moves & glides)[number] > np.bincount(number, moves)[number]
        return moves & np.isin(number, number[glides & (small | most)])

    def usable_for_loops(self, options: OdometrySection) -> np.ndarray:
        """Which frames may be part of local maps, bool (frame,). Drift makes their residuals large."""
        return (self.inliers >= options.min_inliers) & (self.information > 0)


def _speed(state: State, ts: np.ndarray) -> np.ndarray:
    """Mean speed within a second around each frame, f8 (frame,), m/s."""
    after = np.clip(np.searchsorted(ts, ts + _WINDOW / 2), 0, len(ts) - 1)
    before = np.clip(np.searchsorted(ts, ts - _WINDOW / 2), 0, len(ts) - 1)
    way = np.linalg.norm(state.pos[after] - state.pos[before], axis=1)
    speed: np.ndarray = way / np.maximum(ts[after] - ts[before], 1e-3)
    return speed


def _within(values: np.ndarray, ts: np.ndarray, seconds: float = _WINDOW) -> np.ndarray:
    """Means of values of frames within a second around each frame, f8 (frame,); NaN counts for nothing."""
    finite = np.isfinite(values)
    sums, counts = (np.concatenate([[0.0], np.cumsum(each)]) for each in (np.where(finite, values, 0.0), finite))
    first, last = _window(ts, seconds)
    means: np.ndarray = (sums[last] - sums[first]) / np.maximum(counts[last] - counts[first], 1)
    return means


def as_measured(cov: np.ndarray, fits: Sequence[SweepFit], noise: float, ts: np.ndarray) -> np.ndarray:
    """Covariances of poses with what their equations do not know of, f8 (frame, 6, 6).

    The equations take the errors of all points for independent. Where they are not, sweeps disagree with the map of
    others by more than chance, and covariances grow as the squares of these disagreements. What the lidar does faster
    than the knots of the trajectory is added.

    Args:
        cov: f8 (frame, 6, 6), of the trajectory.
        fits: of the frames; noise: variance of the points' distances, relative to the expected one.
        ts: f8 (frame,), seconds.
    """
    surprise = _within(np.array([fit.surprise for fit in fits]) / noise, ts)
    motion = np.array([fit.motion for fit in fits]).reshape(-1, 72)
    own, next_one = np.stack([_within(each, ts) for each in motion.T], axis=1).reshape(-1, 2, 6, 6).swapaxes(0, 1)
    # Correlations of the moves of neighbouring parts, in directions that are independent: none has a unit.
    root = cholesky(own + _NO_MOVE * np.eye(6))
    inverse = inv(root)
    values, vectors = eigh(matmul(inverse, next_one, np.swapaxes(inverse, 1, 2)))
    values = np.where(values > _BEYOND_CHANCE / np.sqrt(PARTS * _number(ts))[:, None], values, 0.0)
    wider: np.ndarray = cov * np.maximum(surprise, 1.0)[:, None, None]
    wider += matmul(root, vectors * values[:, None], np.swapaxes(matmul(root, vectors), 1, 2))
    return wider


def _number(ts: np.ndarray) -> np.ndarray:
    """Number of frames within a second around each frame, i8 (frame,)."""
    first, last = _window(ts)
    number: np.ndarray = last - first
    return number


def _window(ts: np.ndarray, seconds: float = _WINDOW) -> tuple[np.ndarray, np.ndarray]:
    """The first frame within a time around each frame, and one after the last one, i8 (frame,)."""
    return np.searchsorted(ts, ts - seconds / 2), np.searchsorted(ts, ts + seconds / 2, side="right")


def largest_world(seams: list[Seam], counted: np.ndarray) -> np.ndarray:
    """The frames of connected segments, bool (frame,): of several worlds, the one with the most counted frames.

    Args:
        counted: bool (frame,).
    """
    world = np.zeros(len(counted), int)
    for seam in seams:
        world[seam.frame :] += not seam.connected
    return world == np.argmax(np.bincount(world, counted))


def largest_part(after: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """The frames between two jumps of the clock, bool (frame,): those of the part with the most counted frames.

    A host's clock that was set and a rig that paused for minutes look alike. Only in the first case is the motion
    across the jump known.

    Args:
        after: i8 (jump,), numbers of the frames before which the clock jumps; counted: bool (frame,).
    """
    part = np.searchsorted(after, np.arange(len(counted)), side="right")
    return part == np.argmax(np.bincount(part, counted))


def implausible(state: State, ts: np.ndarray) -> np.ndarray:
    """Where the trajectory shakes as no rig does, so that the registration is lost, bool (frame,).

    Args:
        state: of the frames; ts: f8 (frame,), seconds.
    """
    return _within((state.acc**2).sum(axis=1), ts) > _MAX_ACCELERATION**2


def widened(lost: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """Frames within half a second of those where the trajectory is lost, bool (frame,): it is so before one sees it."""
    count = np.concatenate([[0], np.cumsum(lost)])
    first, last = _window(ts)
    wide: np.ndarray = count[last] > count[first]
    return wide


def brief(valid: np.ndarray, used: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """Valid poses that last for less than half a second between others that are not, bool (frame,).

    The maps that judge a sweep change every half second. So those few are judged by maps of their neighbours alone,
    whose poses are not to be trusted.

    Args:
        valid, used: bool (frame,), the latter of the sweeps that the trajectory is made from.
    """
    frames, alone = np.flatnonzero(used | valid), np.zeros(len(valid), bool)
    edges = np.flatnonzero(np.diff(valid[frames].astype(int))) + 1
    period = float(np.median(np.diff(ts[frames]))) if len(frames) > 1 else 0.0
    for run in np.split(frames, edges) if len(edges) else ():
        alone[run] = valid[run] & (ts[run[-1]] - ts[run[0]] + 1.5 * period < _WINDOW / 2)
    return alone


def unbridged(used: np.ndarray, ts: np.ndarray, joined: Container[int] = ()) -> np.ndarray:
    """Where no sweep was used for so long that the motion before it does not tell the one after it, bool (frame,).

    Args:
        used: bool (frame,), whether the sweep is one that the trajectory is made from; ts: f8 (frame,), seconds.
        joined: frames after gaps whose sides have been joined by what they have seen.
    """
    lost = np.zeros(len(used), bool)
    frames = np.flatnonzero(used)
    for before, after in itertools.pairwise(frames):
        if ts[after] - ts[before] > LONGEST and after not in joined:
            lost[before + 1 : after + 1] = True
    return lost


def largest_stretch(lost: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """The frames between two lost stretches, bool (frame,): those of the stretch with the most counted frames."""
    stretch = np.cumsum(np.diff(lost.astype(int), prepend=0) == 1)
    return ~lost & (stretch == np.argmax(np.bincount(stretch, counted & ~lost)))
