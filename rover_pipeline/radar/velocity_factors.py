"""Velocities of radars as factors of the graph of radar-inertial odometry: see `factor_graph`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.constants import g as GRAVITY  # noqa: N812
from scipy.special import chdtri

from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.mounts import PRIOR_SIGMA
from rover_pipeline.kinematics.preintegration import AT_ONCE, MAX_SILENCE, integrated, sampled
from rover_pipeline.kinematics.rotation import skew
from rover_pipeline.numerics.blocks import Memory, blocks
from rover_pipeline.numerics.linear import eigh, eigvalsh, matmul
from rover_pipeline.numerics.nearest import nearest_samples
from rover_pipeline.numerics.robust import FALSE_ALARM
from rover_pipeline.radar.ego_motion import OUTLIER, vertical_sigma
from rover_pipeline.radar.factor_graph import RadarVelocities, without_prior
from rover_pipeline.radar.options import RadarOdometryOptions
from rover_pipeline.radar.tuning import TUNING


class Recorded(NamedTuple):
    """What an IMU measured, in the rig's frame."""

    ts: np.ndarray  #: f8 (M,), s, increasing, by the clock of the first radar.
    acc: np.ndarray  #: f8 (M, 3), specific force, m/s2.
    avel: np.ndarray  #: f8 (M, 3), angular velocity, rad/s.
    mount: Mount  #: of the IMU.


class Measured(NamedTuple):
    """The velocities of a radar."""

    ts: np.ndarray  #: f8 (N,), s, increasing.
    vel: np.ndarray  #: f8 (N, 3), m/s, in its own frame, NaN where there is none.
    cov: np.ndarray  #: f8 (N, 3, 3), in its own frame.
    mount: Mount  #: of the radar.
    options: RadarOdometryOptions  #: what they were made with.
    time_offset: float = 0.0  #: what was added to its times, s, because they seem to be wrong.
    #: f8 (6,), prior standard deviations of a mount that is wanted, rotation, rad, and lever arm, m; None = the mount
    #: is known.
    mount_sigma: np.ndarray | None = None
    mount_added: np.ndarray = np.zeros(6)  #: f8 (6,), what has been added of these errors: see `Common.errors`.

    @property
    def known(self) -> np.ndarray:
        """Which frames have a velocity, bool (N,)."""
        return np.asarray(np.isfinite(self.vel).all(axis=1))

    @property
    def vertical_sigma(self) -> np.ndarray:
        """Standard deviation of the prior of the vertical velocity that each holds, f8 (N,), m/s."""
        return vertical_sigma(self.vel, self.options.vertical, self.options.pitch)

    def moved(self, offset: float) -> Measured:
        """The same at times to which `offset` is added, s."""
        return self._replace(ts=self.ts + offset, time_offset=offset)

    def without(self) -> Measured:
        """The same instants without velocities."""
        return self._replace(vel=np.full_like(self.vel, np.nan))


def instants(radars: Sequence[Measured]) -> np.ndarray:
    """Instants of states, f8 (N,), s: those of the first radar, and those of others at which there is none yet.

    Between two that are one, gravity changes a velocity by no more than what is not known of it anyway.
    """
    nodes = radars[0].ts
    for each in radars[1:]:
        near = np.abs(nodes[nearest_samples(nodes, each.ts)] - each.ts) < each.options.least_error / GRAVITY
        nodes = np.union1d(nodes, each.ts[~near])
    return nodes


def swing_of(avel: np.ndarray, arm: np.ndarray) -> np.ndarray:
    """Covariance of the velocity at the end of an arm by white noise of the gyroscope, f8 (3, 3), m2/s2.

    The noise is that of second differences, 1.5 times what it is between two samples, at instants anywhere.
    """
    squares = [np.median(np.diff(each, 2) ** 2) if len(each) > 2 else 0.0 for each in avel.T]
    noise, lever = np.array(squares) / (chdtri(1, 0.5) * 6 * 1.5), skew(arm[None])[0]
    return np.asarray(matmul(lever * noise, lever.T))


def as_factor(radar: Measured, nodes: np.ndarray, imu: Recorded, memory: Memory, *, several: bool) -> RadarVelocities:
    """The velocities of a radar in the factor graph; several: whether others show how it is turned."""
    arm = radar.mount.translation - imu.mount.translation
    at, first = np.unique(nearest_samples(nodes, radar.ts), return_index=True)
    radar = radar._replace(ts=radar.ts[first], vel=radar.vel[first], cov=radar.cov[first])
    now = nodes[at] + float(PRIOR_SIGMA[6]) * np.array([[0.0], [-1.0], [1.0]])
    instants, places = np.unique(now, return_inverse=True)
    moved = memory.zeros(*now.shape, 3), memory.zeros(*now.shape, 3, 3), memory.zeros(*now.shape, 3)
    states = integrated(instants, *imu[:3], memory)
    for part in blocks(len(at), AT_ONCE):
        moved[0][:, part] = [sampled(each, imu.ts, imu.avel) for each in now[:, part]]
        rot, gained = (each[places.reshape(now.shape)[:, part]] for each in states)
        moved[1][:, part] = matmul(np.swapaxes(rot[0], 1, 2), rot)
        moved[2][:, part] = np.einsum("nji,knj->kni", rot[0], gained - gained[0])
    rows = (radar.cov[:, 2, 2] < radar.vertical_sigma**2 / 2).any()  # it sees more of the vertical than is known
    common = TUNING.scale_error if rows else TUNING.scale_error_level
    # An error of the scale is in each frame's covariance as one of its own.
    cov = radar.cov - common**2 * np.einsum("ni,nj->nij", radar.vel, radar.vel)
    known = radar.known & np.isfinite(cov).all(axis=(1, 2))
    values, axes = eigh(cov[known])  # what is left must be a covariance
    values = np.maximum(values, radar.options.least_error**2)[:, None]
    cov[known] = matmul(axes * values, np.swapaxes(axes, 1, 2))
    cov += matmul(radar.mount.rotation.T, swing_of(imu.avel, arm), radar.mount.rotation)
    vertical, min_error = radar.vertical_sigma, radar.options.least_error
    measured, information = memory.zeros(len(at), 3), memory.zeros(len(at), 3, 3)
    for part in blocks(len(at), AT_ONCE):
        measured[part], information[part] = without_prior(cov[part], radar.vel[part], vertical[part], min_error)
    mount_sigma = np.repeat([common * several, 0.0], 3) if radar.mount_sigma is None else radar.mount_sigma
    sigma = np.concatenate([[common], mount_sigma, PRIOR_SIGMA[6:]])
    added = np.concatenate([[0.0], radar.mount_added, [radar.time_offset]])
    count = _components(information, vertical)
    return RadarVelocities(at, measured, information, radar.mount.rotation, arm, *moved, count, sigma, added)


def _components(information: np.ndarray, vertical: np.ndarray) -> float:
    """Number of components of N velocities that they measure, and not what is known of a vertical one beforehand."""
    values = eigvalsh(information)
    return float((values / (values + vertical[:, None] ** -2.0))[np.isfinite(vertical)].sum())


def likely_time_offset(radar: Measured, imu: Recorded, max_offset: float) -> tuple[float, bool]:
    """A first guess of the time offset of a radar, to be added to its times, s, and whether no other is as good.

    The best offset of a coarse grid is refined by a fine one, because the graph is linearised and finds only an offset
    that is near. Offsets that may be as good must be next to the best one, and not at the end of the grid:
    the right one may be beyond it, where the motion repeats itself.

    Args:
        max_offset: s.
    """
    known = np.flatnonzero(radar.known & np.isfinite(radar.cov).all(axis=(1, 2)))
    if not len(known) or len(imu.ts) < 2:
        return 0.0, True
    radar = radar._replace(ts=radar.ts[known], vel=radar.vel[known], cov=radar.cov[known])
    interval = float(PRIOR_SIGMA[6])
    step = max(float(np.median(np.diff(imu.ts))), radar.options.least_error / GRAVITY)
    count = int(max_offset / interval)
    offsets = interval * np.arange(-count, count + 1)
    groups, excess = _costs(offsets, radar, imu)
    worse = groups - groups[:, [groups.sum(axis=0).argmin()]]
    # What errors of the stated size do, and any others, which are independent in groups of neighbouring frames.
    stated, normal = chdtri(1, FALSE_ALARM / len(offsets)), np.sqrt(chdtri(1, FALSE_ALARM))
    other = normal * np.sqrt(len(groups)) * worse.std(axis=0, ddof=1) if len(groups) > 1 else np.inf
    worse, coarse = worse.sum(axis=0), float(offsets[groups.sum(axis=0).argmin()])
    good = worse < stated + (other if excess > 1 else 0.0)
    near = np.split(good, np.flatnonzero(np.diff(worse < 2 * stated + other)) + 1)
    alone = sum(map(np.any, near)) == 1 and not (count and (good[0] or good[-1]))
    count = int(interval / step)
    fine = coarse + step * np.arange(-count, count + 1)
    return float(fine[_costs(fine, radar, imu)[0].sum(axis=0).argmin()]), alone


def _costs(offsets: np.ndarray, radar: Measured, imu: Recorded) -> tuple[np.ndarray, float]:
    """What is left between velocities and the IMU at time offsets, f8 (K,), s.

    The gyroscope rotates velocities into one frame, and the integral of the specific force is subtracted from them.
    What is left changes by gravity only, along a straight line. A line is fitted in each short part of the recording,
    and its residuals count with the loss and the prior of the factor graph. Velocities at which the IMU did not measure
    are explained by nothing: they cost what a line leaves of themselves.

    Returns:
        f8 (G, K), of G groups of neighbouring frames, as many as there are frames in one; by how much errors are larger
        than stated (Birge's ratio), by which costs were divided.
    """
    vertical, arm = radar.vertical_sigma, radar.mount.translation - imu.mount.translation
    cov = radar.cov + matmul(radar.mount.rotation.T, swing_of(imu.avel, arm), radar.mount.rotation)
    _, information = without_prior(cov, radar.vel, vertical, radar.options.least_error)
    # The bias of the gyroscope tilts gravity. Its parabola leaves a line by no more than the noise of a velocity: the
    # root mean square of t^2 / 2 less its line is T^2 / (12 sqrt(5)).
    noise = np.sqrt(np.median(np.diagonal(cov, axis1=1, axis2=2)))
    seconds = np.sqrt(12 * np.sqrt(5) * noise / (GRAVITY * TUNING.gyro_bias))
    alone, count = np.zeros(len(radar.ts)), int(np.sqrt(len(radar.ts)))
    for each in np.split(np.arange(len(radar.ts)), np.flatnonzero(np.diff(radar.ts // seconds) > 0) + 1):
        alone[each] = _cost(radar.ts[each], radar.vel[each], np.tile(np.eye(3), (len(each), 1, 1)), information[each])
    group = np.arange(len(radar.ts)) * count // len(radar.ts)
    groups = np.repeat(np.bincount(group, alone)[:, None], len(offsets), axis=1)
    covered, compared = np.zeros((2, len(offsets)))
    ends = np.flatnonzero((np.diff(imu.ts) > MAX_SILENCE) | (np.diff(imu.ts // seconds) > 0)) + 1
    for imu_ts, acc, avel in zip(*(np.split(each, ends) for each in imu[:3]), strict=True):
        rot, gained = integrated(imu_ts, imu_ts, acc, avel)
        gained += np.einsum("nij,nj->ni", rot, np.cross(avel, arm))
        table = np.concatenate([matmul(rot, radar.mount.rotation).reshape(-1, 9), gained], axis=1)
        first, last = np.searchsorted(radar.ts, [imu_ts[0] - offsets, imu_ts[-1] - offsets])
        for n in np.flatnonzero(last - first > 2):
            own = slice(first[n], last[n])
            at = radar.ts[own] + offsets[n]
            after = np.clip(np.searchsorted(imu_ts, at), 1, len(imu_ts) - 1)
            share = ((at - imu_ts[after - 1]) / (imu_ts[after] - imu_ts[after - 1]))[:, None]
            state = (1 - share) * table[after - 1] + share * table[after]
            turned = state[:, :9].reshape(-1, 3, 3)
            left = np.einsum("nij,nj->ni", turned, radar.vel[own]) - state[:, 9:]
            cost = _cost(at, left, turned, information[own])
            groups[:, n] += np.bincount(group[own], cost - alone[own], count)
            covered[n], compared[n] = covered[n] + cost.sum(), compared[n] + len(at)
    # Of velocities at which the IMU measured, at the best time offset.
    best, mean = groups.sum(axis=0).argmin(), max(_components(information, vertical), 1.0) / len(radar.ts)
    excess = max(1.0, covered[best] / (mean * max(compared[best], 1)))
    prior = OUTLIER**2 * np.log1p((offsets / PRIOR_SIGMA[6] / OUTLIER) ** 2)
    return groups / excess + prior / count, excess


def _cost(at: np.ndarray, vel: np.ndarray, turned: np.ndarray, information: np.ndarray) -> np.ndarray:
    """What a straight line leaves of velocities f8 (N, 3) at instants, f8 (N,), by the loss of the graph, f8 (N,).

    Args:
        turned: f8 (N, 3, 3), rotation from the frames in which `information` is.
    """
    line, residual = at - at.mean(), vel - vel.mean(axis=0)
    residual -= np.outer(line, (line[:, None] * residual).sum(axis=0) / max((line**2).sum(), 1e-9))
    residual = np.einsum("nji,nj->ni", turned, residual)
    misfit = np.einsum("ni,nij,nj->n", residual, information, residual)
    # Two values of each axis are the line itself.
    return np.asarray(OUTLIER**2 * np.log1p(misfit / OUTLIER**2) * len(at) / max(len(at) - 2, 1))
