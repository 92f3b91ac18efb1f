"""The mount of a radar from its own velocities over ground, beside the motion of the lidar.

A radar at p in the lidar frame, with the rotation R, whose stamps need an offset, measures at its time t

    v = (1 + s) R' (u(t + offset) + w(t + offset) x p),

with the lidar's velocity u and angular velocity w in its own frame, and a small stretch s of all speeds, whose
deviation `_radar_velocity` knows. Speed shows two of three angles, turns show the lever arm, and changes of the motion
show the offset.

The covariance has two parts. Errors that change are seen in the residuals: White's sandwich over windows of a scene.
Errors that all frames share, such as those of the array, or those of a scene, such as of echoes that the ground
reflects, are hardly seen in residuals: they are a part of what frames state.
What is found turns with the directions of the array: it is the mount by which points of the radar are where they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation
from scipy.special import chdtrc, chdtri

from rover_pipeline.imu.alignment import sandwich
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

#: Iterations at most, the step after which there are no more, rotations that are tried before, and the number of frames
#: from which only every other one is used. Schedule.
_ITERATIONS, _SMALL_STEP, _STARTS, _MANY = 15, 1e-6, 500, 8000
#: Deviation of the errors that all frames share, and of those that frames of a scene share, over the one that a frame
#: states, and the duration of a scene, s. Tuned: simulated walks and drives.
_SHARED, _SCENE_S = 0.35, 5.0
#: Median of the chi-square distribution with three degrees of freedom, its value that one in 100 true frames exceeds,
#: and the deviation of the lidar's velocities, m/s, which a radar at rest does not state.
#: Noise: chi square, and `_odom` beside the truth of simulated recordings.
_MEDIAN, _RARE, LIDAR_NOISE = 2.366, float(chdtri(3, 0.01)), 0.003


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
        scale: squared residuals over what the frames state.
    """

    estimate: MountEstimate
    used: int
    compared: int
    scale: float


def fit(
    radar: Velocities, trajectory: Trajectory, start: Mount, prior: np.ndarray, near: Mount | None = None
) -> RadarFit:
    """The mount that explains the velocities best.

    Args:
        trajectory: of the lidar, estimated without the radar.
        start: the declared mount; prior: f8 (7, 7), covariance of its error.
        near: where the iteration begins; None = all rotations are tried.
    """
    information, stretch = np.diag([0.0] * 7 + [TUNING.scale_error**-2]), 0.0
    information[:7, :7] = inv(prior)
    mount = near or _turned(radar, trajectory, start, information)
    for _ in range(_ITERATIONS):
        rows = _rows(radar, trajectory, mount, stretch)
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
        mount, stretch = changed(mount, step[:7]), stretch + step[7]
        if np.abs(step).max() < _SMALL_STEP:
            break
    frames = len(rows.times)
    window = max(1, round(_SCENE_S * frames / max(float(np.ptp(rows.times)), _SCENE_S))) if frames else 1
    model = np.einsum("kib,kbj->ij", pull, rows.instrument)
    covariance = sandwich(gradients, model, information, normal, window)
    # The mean of what frames state of a velocity of 1 m/s, by their weights. Shared errors are products of a matrix,
    # whose elements have this deviation, with the velocity.
    square = (rows.moved**2).sum(axis=1)
    stated = inv(np.einsum("k,kij->ij", weight * square, rows.information) / max(frames, 1) + 1e-9 * np.eye(3))
    moved = np.einsum("kib,kj->kjib", pull, rows.moved)
    scenes = np.split(moved, np.flatnonzero(np.diff(rows.times // _SCENE_S)) + 1)
    shares = np.array([solve(normal, each.sum(axis=0)) for each in scenes])
    covariance += _SHARED**2 * matmul(shares, stated, np.swapaxes(shares, 2, 3)).sum(axis=(0, 1))
    whole = shares.sum(axis=0)
    shared = _SHARED**2 * matmul(whole, stated, np.swapaxes(whole, 1, 2)).sum(axis=0)
    estimate = MountEstimate(mount, (covariance + shared)[:7, :7], prior, shared=shared[:7, :7])
    return RadarFit(estimate, int((rows.square <= _RARE).sum()), frames, scale)


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
        [
            fit(radar.select(chosen), trajectory, start, prior, whole.estimate.mount).estimate
            for chosen in (first, ~first)
        ]
        for first in (radar.times < np.median(radar.times), seconds == 0)
    )
    apart = agree(*halves)
    if chdtrc(7, apart) < FALSE_ALARM:
        return unknown(start, "its halves show different mounts: the sensor moves, or they are too short")
    gain = sum(
        _cost(other, trajectory, start) - _cost(other, trajectory, shown.mount)
        for other, shown in zip((radar.select(seconds == 1), radar.select(seconds == 0)), turns, strict=True)
    )
    found = whole.estimate
    if gain <= 0:
        found = replace(found, remarks=("what every other second shows is no better in the others",))
    more = max(0.0, apart / 7 - 1) * (found.covariance - found.shared)
    return replace(found, covariance=found.covariance + more, adopted=gain > 0)


def _cost(radar: Velocities, trajectory: Trajectory, mount: Mount) -> float:
    """Cauchy's loss of the velocities for a mount."""
    return float(np.log1p(_rows(radar, trajectory, mount).square / _RARE).sum())


class _Rows(NamedTuple):
    """K frames beside the motion of the lidar.

    Attributes:
        residual: f8 (K, 3), m/s, radar's frame.
        slope: f8 (K, 3, 8), of the predicted velocity by the mount's error, and by the stretch.
        instrument: f8 (K, 3, 8), the same with the change of the motion over whole periods of sweeps, before and after:
            errors of the lidar's velocity there are independent of the residual. lag: s, these periods.
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


def _rows(radar: Velocities, trajectory: Trajectory, mount: Mount, stretch: float = 0.0) -> _Rows:
    clock = Mount(np.zeros(3), np.eye(3), time_offset=mount.time_offset)
    period, frame = (float(np.median(np.diff(each))) if len(each) > 1 else 1.0 for each in (trajectory.ts, radar.times))
    period *= max(1, round(frame / period))
    half = period / 5
    shifts = (0.0, -half, half, -period, period)
    states = [trajectory.at(radar.times + shift, clock) for shift in shifts]
    known = np.all([each[1] for each in states], axis=0)
    turn = states[0][0].avel[known]
    moved, before, after, first, last = (
        np.einsum("nji,nj->ni", each.rot[known], each.vel[known]) + np.cross(each.avel[known], mount.translation)
        for each, _ in states
    )
    changes = (after - before) / (2 * half), (last - first) / (2 * period)
    slope, instrument = (
        matmul(mount.rotation.T, np.concatenate([skew(moved), skew(turn), each[:, :, None], moved[:, :, None]], axis=2))
        for each in changes
    )
    vel, information, times = radar.vel[known], radar.information[known], radar.times[known]
    residual = vel - (1 + stretch) * matmul(moved, mount.rotation)
    return _Rows(residual, slope, instrument, period, moved, vel, times, information, _square(residual, information))


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


def _turned(radar: Velocities, trajectory: Trajectory, start: Mount, information: np.ndarray) -> Mount:
    """The mount of which an iteration begins: of the start, and of it turned in all ways, the most likely one."""
    rows = _rows(radar, trajectory, start)
    turns = np.concatenate([np.eye(3)[None], Rotation.random(_STARTS, rng=np.random.default_rng(0)).as_matrix()])
    angle = log(turns)
    cost = 0.5 * np.einsum("ni,ij,nj->n", angle, information[:3, :3], angle)
    squares = [_square(rows.vel - matmul(rows.moved, turn, start.rotation), rows.information) for turn in turns]
    scale = max(1.0, min(map(_scale, squares)))
    cost += [_RARE / 2 * np.log1p(each / (_RARE * scale)).sum() for each in squares]
    return start._replace(rotation=matmul(turns[cost.argmin()].T, start.rotation))
