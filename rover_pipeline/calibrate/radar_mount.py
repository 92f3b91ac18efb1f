"""The mount of a radar from its own velocities over ground, beside the motion of the lidar.

A radar at p in the lidar frame, with the rotation R, whose stamps need an offset, measures at its time t

    v = S R' (u(t + offset) + w(t + offset) x p),

with the lidar's velocity u and angular velocity w in its own frame, and factors S of the radar's three axes: of speeds,
and of velocities to the left and up, which noise in the directions of echoes makes smaller than they are (W. Fuller,
Measurement Error Models, 1987): those up by up to a quarter. Speed shows two of three angles, turns show the lever arm,
and changes of the motion show the offset and the factors.

The covariance has two parts. Errors that change are seen in the residuals, of groups of frames in a row that may err
together: the sandwich, each group as the others see it (R. Bell and D. McCaffrey, Bias reduction in standard errors for
linear regression with multi-stage samples, 2002). Errors that all frames share, such as those of the array, are not
seen in residuals: they are a part of what frames state.
What is found turns with the directions of the array: it is the mount by which points of the radar are where they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation
from scipy.special import chdtrc, chdtri

from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.mounts import (
    FALSE_ALARM,
    MountEstimate,
    agree,
    changed,
    difference,
    prior_covariance,
    unknown,
)
from rover_pipeline.kinematics.rotation import log, skew
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.numerics.linear import inv, matmul, solve
from rover_pipeline.radar.tuning import TUNING

#: Iterations at most, the step after which there are no more, rotations that are tried before, the number of frames
#: from which only every other one is used, and the change of the time offset, s, over which the motion is extrapolated.
#: Schedule.
_ITERATIONS, _SMALL_STEP, _STARTS, _MANY, _SAME = 15, 1e-6, 500, 8000, 1e-4
#: Deviation of the errors that all frames share, over the one that a frame states. Tuned: simulated walks and drives.
_SHARED = 0.35
#: Median of the chi-square distribution with three degrees of freedom, its value that one in 100 true frames exceeds,
#: the deviation of the lidar's velocities, m/s, which a radar at rest does not state, deviations of the factors from 1,
#: and of the middle of an array from the origin of its frame, m: it may be anywhere in eight antennas half a wavelength
#: apart (15.6 mm at 77 GHz, over the root of 12).
#: Noise: chi square, `_odom` and `_radar_velocity` beside the truth of simulated recordings.
_MEDIAN, _RARE, LIDAR_NOISE, _CENTRE = 2.366, float(chdtri(3, 0.01)), 0.003, 0.004
_STRETCH = np.array([TUNING.scale_error, TUNING.scale_error, 0.15])


class Velocities(NamedTuple):
    """What a radar measured of its own motion in N frames.

    Attributes:
        times: f8 (N,), s, of the middle of the chirps, by the radar's clock, without the jitter of arrival.
        vel: f8 (N, 3), m/s, in the radar's frame; information: f8 (N, 3, 3), s2/m2, that holds no prior.
    """

    times: np.ndarray
    vel: np.ndarray
    information: np.ndarray

    def select(self, chosen: np.ndarray) -> Velocities:
        """Those of some frames."""
        return Velocities(*(each[chosen] for each in self))


class RadarFit(NamedTuple):
    """A mount that was fitted.

    Attributes:
        estimate: see there.
        used: number of frames that agree with it; compared: of frames that were compared.
        stretch: f8 (3,), the factors less 1.
    """

    estimate: MountEstimate
    used: int
    compared: int
    stretch: np.ndarray


def fit(
    radar: Velocities, trajectory: Trajectory, start: Mount, prior: np.ndarray, near: Mount | None = None
) -> RadarFit:
    """The mount that explains the velocities best.

    Args:
        trajectory: of the lidar, estimated without the radar.
        start: the declared mount; prior: f8 (7, 7), covariance of its error.
        near: where the iteration begins; None = all rotations are tried.
    """
    information, stretch = np.diag(np.append(np.zeros(7), _STRETCH**-2)), np.zeros(3)
    motion = _Motion(radar, trajectory)
    information[:7, :7] = inv(prior)
    mount = near or _turned(radar, motion, start, information)
    for _ in range(_ITERATIONS):
        rows = _rows(radar, motion, mount, stretch)
        scale = _scale(rows.square)
        # Cauchy's weights.
        weight = 1 / (scale * (1 + rows.square / (scale * _RARE)))
        shown = _reliability(rows, weight)
        rows.instrument[:, :, 6] *= shown
        rows.slope[:, :, 6] *= shown
        pull = np.einsum("k,kai,kab->kib", weight, rows.instrument, rows.information)
        gradients = np.einsum("kib,kb->ki", pull, rows.residual)
        normal = information + np.einsum("kib,kbj->ij", pull, rows.slope)
        away = np.append(difference(mount, start), -stretch)
        step = solve(normal, gradients.sum(axis=0) + matmul(information, away))
        step *= min(1.0, 0.5 / max(np.abs(step[:3]).max(), 1e-9))
        mount, stretch = changed(mount, step[:7]), stretch + step[7:]
        if np.abs(step).max() < _SMALL_STEP:
            break
    frames = len(rows.times)
    count = len(prior)
    group, own, sums = np.arange(frames) * count // max(frames, 1), np.zeros((count, 10, 10)), np.zeros((count, 10))
    np.add.at(own, group, np.einsum("kib,kbj->kij", pull, rows.instrument))
    np.add.at(sums, group, gradients)
    away, inverse = matmul(normal, solve(normal - own, sums[:, :, None]))[..., 0], inv(normal)
    seen, model = matmul(away.T, away), own.sum(axis=0)
    # Few groups show the size better than each direction, and both are known as Student's t.
    larger = max(1.0, float((seen * inverse).sum() / max(float((model * inverse).sum()), 1e-9)))
    spread = (count * seen + 10 * larger * model) / (count + 10) * (count + 2) / count
    covariance = matmul(inverse, spread + information, inverse.T)
    # The mean of what frames state of a velocity of 1 m/s, by their weights. Shared errors are products of a matrix,
    # whose elements have this deviation, with the velocity.
    square = (rows.moved**2).sum(axis=1)
    stated = inv(np.einsum("k,kij->ij", weight * square, rows.information) / max(frames, 1) + 1e-9 * np.eye(3))
    whole = solve(normal, np.einsum("kib,kj->jib", pull, rows.moved))
    shared = _SHARED**2 * matmul(whole, stated, np.swapaxes(whole, 1, 2)).sum(axis=0)[:7, :7]
    shared[3:6, 3:6] += _CENTRE**2 * np.eye(3)
    estimate = MountEstimate(mount, covariance[:7, :7] + shared, prior, shared=shared)
    return RadarFit(estimate, int((rows.square <= _RARE).sum()), frames, stretch)


def calibrate(radar: Velocities, trajectory: Trajectory, start: Mount) -> MountEstimate:
    """The mount of a radar, or the declared one where the recording shows none that holds where it was not fitted.

    Args:
        start: the declared mount.
    """
    prior = prior_covariance(start)
    known = np.flatnonzero(trajectory.at(radar.times, start)[1])
    radar = radar.select(known[:: 1 + len(known) // _MANY])
    whole = fit(radar, trajectory, start, prior)
    if whole.compared < 6 * len(prior):  # three for each unknown in each half
        return unknown(start, f"{whole.compared} frames with a velocity beside a pose are too few")
    if 2 * whole.used < whole.compared:
        text = "its velocities contradict the lidar's motion whatever the mount"
        return unknown(start, f"{text}: {whole.used} of {whole.compared} agree")
    # What moves on the rig differs between the halves in time. Seconds in turn see the same motion: where one half
    # stands still or goes straight on, it could not be better by what the other one shows.
    seconds = (radar.times - radar.times[0]).astype(int) % 2
    halves, turns = (
        [fit(radar.select(chosen), trajectory, start, prior, whole.estimate.mount) for chosen in (first, ~first)]
        for first in (radar.times < np.median(radar.times), seconds == 0)
    )
    apart = agree(*(each.estimate for each in halves))
    if chdtrc(7, apart) < FALSE_ALARM:
        return unknown(start, "its halves show different mounts: the sensor moves, or they are too short")
    gain = 0.0
    for chosen, shown in zip((seconds == 1, seconds == 0), turns, strict=True):
        other = radar.select(chosen)
        motion, mounts = _Motion(other, trajectory), (start, shown.estimate.mount)
        before, after = (_rows(other, motion, mount, shown.stretch).square for mount in mounts)
        gain += float(np.log1p(before / _RARE).sum() - np.log1p(after / _RARE).sum())  # Cauchy's loss
    found = whole.estimate
    if gain <= 0:
        found = replace(found, remarks=("what every other second shows is no better in the others",))
    more = max(0.0, apart / 7 - 1) * (found.covariance - found.shared)
    return replace(found, covariance=found.covariance + more, adopted=gain > 0)


class _Rows(NamedTuple):
    """K frames beside the motion of the lidar.

    Attributes:
        residual: f8 (K, 3), m/s, radar's frame.
        slope: f8 (K, 3, 10), of the predicted velocity by the mount's error, and by the stretch.
        instrument: f8 (K, 3, 10), the same with the change of the motion over whole periods of sweeps, before and
            after: errors of the lidar's velocity there are independent of the residual. lag: s, these periods.
        moved, vel: f8 (K, 3), m/s, predicted in the lidar frame and measured; times: f8 (K,), s.
        information: f8 (K, 3, 3); square: f8 (K,), of the residual in what is stated.
    """

    residual: np.ndarray
    slope: np.ndarray
    instrument: np.ndarray
    lag: float
    moved: np.ndarray
    vel: np.ndarray
    times: np.ndarray
    information: np.ndarray
    square: np.ndarray


class _Motion:
    """The lidar's velocity and rotation rate in its own frame, at and about the instants of frames.

    Attributes:
        period: s, whole periods of sweeps, at least that of the frames; shifts: f8 (5,), s, of the instants.
        offset: s, of the clock, at which the motion was read; known: bool (N,), K frames of which it is known.
        vel, avel: f8 (5, K, 3), m/s and rad/s.
    """

    def __init__(self, radar: Velocities, trajectory: Trajectory) -> None:
        self.trajectory, self.times, self.offset = trajectory, radar.times, np.inf
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
            self.known = known.reshape(5, -1).all(axis=0)
            vel = np.einsum("nji,nj->ni", states.rot, states.vel)
            self.vel, self.avel = (each.reshape(5, -1, 3)[:, self.known] for each in (vel, states.avel))
        moved = self.vel + np.cross(self.avel, mount.translation)
        changes = np.stack([(moved[k + 1] - moved[k]) / (self.shifts[k + 1] - self.shifts[k]) for k in (1, 3)])
        return self.avel[0], moved[0] + (mount.time_offset - self.offset) * changes[0], changes


def _rows(radar: Velocities, motion: _Motion, mount: Mount, stretch: np.ndarray) -> _Rows:
    turn, moved, changes = motion.at(mount)
    predicted = matmul(moved, mount.rotation)
    factors = np.where(np.eye(3, dtype=bool), predicted[:, None], 0.0)
    slope, instrument = (
        np.concatenate([matmul((1 + stretch)[:, None] * mount.rotation.T, part), factors], axis=2)
        for part in (np.concatenate([skew(moved), skew(turn), each[:, :, None]], axis=2) for each in changes)
    )
    vel, information, times = (each[motion.known] for each in (radar.vel, radar.information, radar.times))
    residual = vel - (1 + stretch) * predicted
    square = _square(residual, information)
    return _Rows(residual, slope, instrument, motion.period, moved, vel, times, information, square)


def _reliability(rows: _Rows, weight: np.ndarray) -> float:
    """The share of the changes of the lidar's motion, over whole sweeps, that is no error of the lidar, 0 to 1.

    Changes as the radar sees them have other errors (W. Fuller, Measurement Error Models, 1987).
    """
    times, last, change = rows.times, len(rows.times) - 1, np.zeros_like(rows.vel)
    if last < 1:
        return 0.0
    good, longest = weight, 1.5 * float(np.median(np.diff(times)))
    for shift in (-rows.lag, rows.lag):
        after = np.clip(np.searchsorted(times, times + shift), 1, last)
        span = times[after] - times[after - 1]
        later = (times + shift - times[after - 1]) / span
        inside = (span < longest) & (later >= 0) & (later <= 1)
        good = good * inside * ((1 - later) * weight[after - 1] + later * weight[after])
        change += ((1 - later[:, None]) * rows.vel[after - 1] + later[:, None] * rows.vel[after]) / (2 * shift)
    instrument = rows.instrument[:, :, 6]
    seen, whole = (
        np.einsum("k,ka,kab,kb->", good, instrument, rows.information, each) for each in (change, instrument)
    )
    return float(np.clip(seen / whole, 0.0, 1.0)) if whole > 0 else 0.0


def _square(residual: np.ndarray, information: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("ki,kij,kj->k", residual, information, residual))


def _scale(square: np.ndarray) -> float:
    return max(float(np.median(square)) / _MEDIAN, 1e-6) if len(square) else 1.0


def _turned(radar: Velocities, motion: _Motion, start: Mount, information: np.ndarray) -> Mount:
    """The mount of which an iteration begins: of the start, and of it turned in all ways, the most likely one."""
    rows = _rows(radar, motion, start, np.zeros(3))
    turns = np.concatenate([np.eye(3)[None], Rotation.random(_STARTS, rng=np.random.default_rng(0)).as_matrix()])
    angle = log(turns)
    cost = 0.5 * np.einsum("ni,ij,nj->n", angle, information[:3, :3], angle)
    squares = [_square(rows.vel - matmul(rows.moved, turn, start.rotation), rows.information) for turn in turns]
    scale = max(1.0, min(map(_scale, squares)))
    cost += [_RARE / 2 * np.log1p(each / (_RARE * scale)).sum() for each in squares]
    return start._replace(rotation=matmul(turns[cost.argmin()].T, start.rotation))
