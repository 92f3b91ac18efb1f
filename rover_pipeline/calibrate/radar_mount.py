"""The mount of a radar from the Doppler of its points, beside the motion of the lidar.

A radar at p in the lidar frame, with the rotation R, whose stamps need an offset, moves at its time t with

    v = S R' (u(t + offset) + w(t + offset) x p),

with the lidar's velocity u and angular velocity w in its own frame, and factors S of the radar's three axes, near 1. A
point at rest in the direction e recedes at -e . v. Least squares with e as it was measured make velocities to the left
and up too small, where e errs, and the speed too large, where a point is several targets: the mean of their directions
lies within the sphere. Both are taken for another mount. So e is the mean that is to be expected where it was measured
(see `_expected`). Speed shows two of three angles, turns show the lever arm, and changes of the motion show the offset.

The covariance is what residuals of groups of points say that err together: in time, and to one side or height, where an
antenna, a bumper, or two targets in a cell turn all directions alike. It is the sandwich, each group as the others see
it (R. Bell and D. McCaffrey, Bias reduction in standard errors for linear regression with multi-stage samples, 2002),
for groups of each kind (see `groups`): as many as a mount has components.
What is found turns with the directions of the array: it is the mount by which points of the radar are where they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation
from scipy.special import chdtri

from rover_pipeline.calibrate.groups import excess
from rover_pipeline.calibrate.tuning import TUNING as CALIBRATION
from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.mounts import MountEstimate, adopt, changed, difference, prior_covariance, unknown
from rover_pipeline.kinematics.rotation import log, skew
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.numerics.linear import cholesky, inv, matmul, solve
from rover_pipeline.radar.angles import unit_vectors
from rover_pipeline.radar.ego_motion import tangents
from rover_pipeline.radar.tuning import TUNING

#: Iterations at most, the step after which there are no more, rotations that are tried before, on about as many points,
#: the number of points from which only every other one is used, and the change of the time offset, s, over which the
#: motion is extrapolated. Schedule.
_ITERATIONS, _SMALL_STEP, _STARTS, _MANY, _SAME = 15, 1e-6, 500, 20000, 1e-4
#: Median of the chi-square distribution with one degree of freedom, its value that one in 100 true points exceeds, and
#: the deviation of the middle of an array from the origin of its frame, m: it may be anywhere in eight antennas half a
#: wavelength apart (15.6 mm at 77 GHz, over the root of 12).
#: Noise: chi square.
_MEDIAN, _RARE, _CENTRE = float(chdtri(1, 0.5)), float(chdtri(1, 0.01)), 0.004


class Echoes(NamedTuple):
    """N points of a radar."""

    #: f8 (N,), s, of the middle of the chirps, by the radar's clock, without the jitter of arrival: the same of all
    #: points of a frame, and rising.
    times: np.ndarray
    direction: np.ndarray  #: f8 (N, 3), unit vectors in the radar's frame.
    doppler: np.ndarray  #: f8 (N,), m/s, positive recedes.
    error: np.ndarray  #: f8 (N, 2), standard deviations of the sines of azimuth and elevation.
    spread: np.ndarray  #: f8 (N, 2), the same over the targets that are one point.
    sigma: np.ndarray  #: f8 (N,), m/s, of the Doppler.

    def select(self, chosen: np.ndarray | slice) -> Echoes:
        """Those of some points."""
        return Echoes(*(each[chosen] for each in self))


class RadarFit(NamedTuple):
    """A mount that was fitted."""

    estimate: MountEstimate  #: see there.
    agree: np.ndarray  #: bool (N,), whether each point does that was compared.
    stretch: np.ndarray  #: f8 (3,), the factors less 1.


def fit(radar: Echoes, trajectory: Trajectory, start: Mount, near: Mount | None = None) -> RadarFit:
    """The mount that explains the Doppler best.

    Args:
        trajectory: of the lidar, estimated without the radar.
        start: the declared mount.
        near: where the iteration begins; None = all rotations are tried.
    """
    # Where the array knows no elevation, all directions are level and the speed comes out too small by their cosine.
    scale = TUNING.scale_error if radar.direction[:, 2].any() else TUNING.scale_error_level
    information, stretch = np.diag(np.append(np.zeros(7), np.full(3, scale**-2.0))), np.zeros(3)
    motion, prior = _Motion(radar, trajectory), prior_covariance(start)
    information[:7, :7] = inv(prior)
    mount = near or _turned(radar, motion, start, information)
    for _ in range(_ITERATIONS):
        rows = _rows(radar, motion, mount, stretch)
        scale = max(float(np.median(rows.residual**2)) / _MEDIAN, 1e-6) if len(rows.residual) else 1.0
        # Cauchy's weights.
        weight = 1 / (scale * (1 + rows.residual**2 / (scale * _RARE)))
        pull = weight[:, None] * rows.instrument
        gradients = pull * rows.residual[:, None]
        normal = information + matmul(pull.T, rows.slope)
        away = np.append(difference(mount, start), -stretch)
        step = solve(normal, gradients.sum(axis=0) + matmul(information, away))
        step *= min(1.0, 0.5 / max(np.abs(step[:3]).max(), 1e-9))
        mount, stretch = changed(mount, step[:7]), stretch + step[7:]
        if np.abs(step).max() < _SMALL_STEP:
            break
    inverse, base = inv(normal), matmul(pull.T, rows.instrument) + information
    lower, more = cholesky(base), []
    for order in (rows.frame, rows.direction[:, 1], rows.direction[:, 2]):
        parts = np.array_split(np.argsort(order, kind="stable"), len(prior))
        own = np.array([matmul(pull[part].T, rows.instrument[part]) for part in parts])
        sums = np.array([gradients[part].sum(axis=0) for part in parts])
        white = solve(lower, matmul(normal, solve(normal - own, sums[:, :, None]))[..., 0].T)
        more.append(matmul(lower, excess(white.T), lower.T))
    centre = np.diag(np.repeat([0.0, _CENTRE**2, 0.0], [3, 3, 1]))
    covariance, shared = (
        matmul(inverse, each, inverse.T)[:7, :7] + centre for each in (base + sum(more), more[1] + more[2])
    )
    estimate = MountEstimate(mount, covariance, prior, shared=shared)
    return RadarFit(estimate, rows.residual**2 <= _RARE, stretch)


def calibrate(radar: Echoes, trajectory: Trajectory, start: Mount) -> MountEstimate:
    """The mount of a radar, or the declared one where the recording shows none that holds where it was not fitted.

    Args:
        start: the declared mount.
    """
    times, frame = np.unique(radar.times, return_inverse=True)
    known = np.flatnonzero(trajectory.at(times, start)[1][frame])
    radar = _expected(radar.select(known[:: 1 + len(known) // _MANY]))
    whole = fit(radar, trajectory, start)
    used, compared = int(whole.agree.sum()), len(whole.agree)
    if compared < 2 * CALIBRATION.min_echoes * len(whole.estimate.prior):
        return unknown(start, f"{compared} points beside a pose are too few")
    if 2 * used < compared:
        text = "its velocities contradict the lidar's motion whatever the mount"
        return unknown(start, f"{text}: {used} of {compared} points agree")
    # What moves on the rig differs between the halves in time. Seconds in turn see the same motion: where one half
    # stands still or goes straight on, it could not be better by what the other one shows.
    seconds = (radar.times - radar.times[0]).astype(int) % 2
    halves, turns = (
        [fit(radar.select(chosen), trajectory, start, whole.estimate.mount) for chosen in (first, ~first)]
        for first in (radar.times < np.median(radar.times), seconds == 0)
    )
    gain = 0.0
    for chosen, shown in zip((seconds == 1, seconds == 0), turns, strict=True):
        other = radar.select(chosen)
        motion, mounts = _Motion(other, trajectory), (start, shown.estimate.mount)
        before, after = (_rows(other, motion, mount, shown.stretch).residual ** 2 for mount in mounts)
        gain += float(np.log1p(before / _RARE).sum() - np.log1p(after / _RARE).sum())  # Cauchy's loss
    return adopt(start, whole.estimate, [each.estimate for each in halves], gain)


class _Rows(NamedTuple):
    """N points beside the motion of the lidar, each over the deviation of its Doppler."""

    residual: np.ndarray  #: f8 (N,).
    #: f8 (N, 10), of the predicted velocity along the point by the mount's error, and by the stretch.
    slope: np.ndarray
    #: f8 (N, 10), the same with the change of the motion over whole periods of sweeps, before and after: errors of the
    #: lidar's velocity there are independent of the residual.
    instrument: np.ndarray
    direction: np.ndarray  #: f8 (N, 3), unit vectors.
    frame: np.ndarray  #: i8 (N,).


class _Motion:
    """The lidar's velocity and rotation rate in its own frame, at and about the instants of frames.

    Attributes:
        times, frame: f8 (K,), s, of frames, and i8 (N,), that of each point.
        period: s, whole periods of sweeps, at least that of the frames; shifts: f8 (5,), s, of the instants.
        offset: s, of the clock, at which the motion was read; known: bool (K,), frames of which it is known.
        vel, avel: f8 (5, K, 3), m/s and rad/s.
    """

    def __init__(self, radar: Echoes, trajectory: Trajectory) -> None:
        self.trajectory, self.offset = trajectory, np.inf
        self.times, self.frame = np.unique(radar.times, return_inverse=True)
        period, frame = (
            float(np.median(np.diff(each))) if len(each) > 1 else 1.0 for each in (trajectory.ts, self.times)
        )
        self.period = period * max(1, round(frame / period))
        self.shifts = np.array([0.0, -period / 5, period / 5, -self.period, self.period])

    def at(self, mount: Mount) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rotation rates f8 (K, 3), velocities of the mount f8 (K, 3), and their two changes f8 (2, K, 3), m/s2."""
        if abs(mount.time_offset - self.offset) > _SAME:
            self.offset = mount.time_offset
            states, known = self.trajectory.at((self.times + self.shifts[:, None]).ravel() + self.offset)
            self.known: np.ndarray = np.asarray(known.reshape(5, -1).all(axis=0))
            vel = np.einsum("nji,nj->ni", states.rot, states.vel)
            self.vel, self.avel = (each.reshape(5, -1, 3) for each in (vel, states.avel))
        moved = self.vel + np.cross(self.avel, mount.translation)
        changes = np.stack([(moved[k + 1] - moved[k]) / (self.shifts[k + 1] - self.shifts[k]) for k in (1, 3)])
        return self.avel[0], moved[0] + (mount.time_offset - self.offset) * changes[0], changes


def _rows(radar: Echoes, motion: _Motion, mount: Mount, stretch: np.ndarray) -> _Rows:
    turn, moved, changes = motion.at(mount)
    known = motion.known[motion.frame]
    radar, frame = radar.select(known), motion.frame[known]
    vel = (1 + stretch) * matmul(moved, mount.rotation)
    residual, sigma = _residuals(radar, vel[frame])
    along = radar.direction / sigma[:, None]
    factors = np.where(np.eye(3, dtype=bool), (vel / (1 + stretch))[:, None], 0.0)
    by_error = np.concatenate([skew(moved), skew(turn), *changes[..., None]], axis=2)
    slopes = np.concatenate([matmul((1 + stretch)[:, None] * mount.rotation.T, by_error), factors], axis=2)
    by = -np.einsum("ni,nij->nj", along, slopes[frame])
    return _Rows(residual, np.delete(by, 7, axis=1), np.delete(by, 6, axis=1), radar.direction, frame)


def _expected(radar: Echoes) -> Echoes:
    """The same with the mean of the directions that points may have, or their targets, where they were measured.

    It is nearer to the middle of all points than what errs (regression calibration: R. Carroll et al., Measurement
    Error in Nonlinear Models, 2006), and shorter than one: the square of its part ahead is what the mean squares of the
    other two leave, less a variance of its own.
    """
    if not len(radar.direction):
        return radar
    sines = radar.direction[:, 1:]
    share = np.minimum(radar.error**2 / np.maximum(sines.var(axis=0), 1e-9), 1.0)
    sines = sines - share * (sines - sines.mean(axis=0))
    direction = unit_vectors(-sines[:, 0], sines[:, 1])
    variance = radar.spread**2 + (1 - share) * radar.error**2
    inside = (variance * (1 + tangents(direction) ** 2)).sum(axis=1)
    direction[:, 0] = np.sqrt(np.maximum(direction[:, 0] ** 2 - inside, 0))
    return radar._replace(direction=direction)


def _residuals(radar: Echoes, vel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Doppler less that of points at rest, over its deviation, f8 (N,), and that, m/s, at velocities f8 (N, 3), m/s."""
    slopes = vel[:, 1:] - vel[:, :1] * tangents(radar.direction)
    sigma = np.sqrt(radar.sigma**2 + ((radar.error * slopes) ** 2).sum(axis=1))
    return (radar.doppler + (radar.direction * vel).sum(axis=1)) / sigma, sigma


def _turned(radar: Echoes, motion: _Motion, start: Mount, information: np.ndarray) -> Mount:
    """The mount of which an iteration begins: of the start, and of it turned in all ways, the most likely one."""
    moved = motion.at(start)[1][motion.frame]
    few = np.flatnonzero(motion.known[motion.frame])
    few = few[:: 1 + len(few) // _STARTS]
    radar, moved = radar.select(few), moved[few]
    turns = np.concatenate([np.eye(3)[None], Rotation.random(_STARTS, rng=np.random.default_rng(0)).as_matrix()])
    angle = log(turns)
    cost = 0.5 * np.einsum("ni,ij,nj->n", angle, information[:3, :3], angle)
    squares = [_residuals(radar, matmul(moved, turn, start.rotation))[0] ** 2 for turn in turns]
    scale = max(1.0, min(float(np.median(each)) / _MEDIAN for each in squares)) if len(moved) else 1.0
    cost += [_RARE / 2 * np.log1p(each / (_RARE * scale)).sum() for each in squares]
    return start._replace(rotation=matmul(turns[cost.argmin()].T, start.rotation))
