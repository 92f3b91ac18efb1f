"""Velocities of radars as factors of the graph of radar-inertial odometry: see `factor_graph`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.constants import g as GRAVITY  # noqa: N812
from scipy.special import chdtri

from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.mounts import PRIOR_SIGMA
from rover_pipeline.kinematics.preintegration import AT_ONCE, sampled
from rover_pipeline.kinematics.rotation import skew
from rover_pipeline.numerics.blocks import Memory
from rover_pipeline.numerics.linear import eigh, matmul
from rover_pipeline.numerics.nearest import nearest_samples
from rover_pipeline.radar.ego_motion import vertical_sigma
from rover_pipeline.radar.factor_graph import MIN_ERROR, RadarVelocities, without_prior
from rover_pipeline.radar.tuning import TUNING


class Measured(NamedTuple):
    """The velocities of a radar.

    Attributes:
        ts: f8 (N,), s, increasing; vel: f8 (N, 3), m/s, NaN where there is none, cov: f8 (N, 3, 3), in its own frame.
        mount: of the radar.
        vertical, pitch: of the prior of the vertical velocity that each holds; see `vertical_sigma`.
        added: what was added to its times, s, because they seem to be wrong, and its standard deviation.
    """

    ts: np.ndarray
    vel: np.ndarray
    cov: np.ndarray
    mount: Mount
    vertical: float
    pitch: float
    added: float = 0.0
    added_sd: float = 0.0

    @property
    def known(self) -> np.ndarray:
        """Which frames have a velocity, bool (N,)."""
        return np.asarray(np.isfinite(self.vel).all(axis=1))

    def at_times(self, added: float, deviation: float) -> Measured:
        """The same at times to which `added` is added, s."""
        return self._replace(ts=self.ts + added, added=added, added_sd=deviation)

    def without(self) -> Measured:
        """The same instants without velocities."""
        return self._replace(vel=np.full_like(self.vel, np.nan))


def instants(radars: Sequence[Measured]) -> np.ndarray:
    """Instants of states, f8 (N,), s: those of the first radar, and those of others at which there is none yet.

    Between two that are one, gravity changes a velocity by no more than what is not known of it anyway.
    """
    nodes = radars[0].ts
    for each in radars[1:]:
        near = np.abs(nodes[nearest_samples(nodes, each.ts)] - each.ts) < MIN_ERROR / GRAVITY
        nodes = np.union1d(nodes, each.ts[~near])
    return nodes


def swing_of(avel: np.ndarray, arm: np.ndarray) -> np.ndarray:
    """Covariance of the velocity at the end of an arm by white noise of the gyroscope, f8 (3, 3), m2/s2.

    The noise is that of second differences, 1.5 times what it is between two samples, at instants anywhere.
    """
    noise = np.median(np.diff(avel, 2, axis=0) ** 2, axis=0) / (chdtri(1, 0.5) * 6 * 1.5) if len(avel) > 2 else 0 * arm
    lever = skew(arm[None])[0]
    return np.asarray(matmul(lever * noise, lever.T))


def as_factor(
    radar: Measured,
    nodes: np.ndarray,
    recorded: tuple[np.ndarray, np.ndarray, np.ndarray],
    imu: Mount,
    swing: np.ndarray | None,
    memory: Memory,
) -> RadarVelocities:
    """The velocities of a radar in the factor graph.

    Args:
        recorded: times of the IMU, f8 (M,), s, specific force and angular velocity, f8 (M, 3), m/s2 and rad/s.
        swing: see `Estimate`; None = it is the only radar.
    """
    cov, common, at = radar.cov, 0.0, np.arange(len(nodes))
    if swing is not None:
        at, first = np.unique(nearest_samples(nodes, radar.ts), return_index=True)
        radar = radar._replace(ts=radar.ts[first], vel=radar.vel[first], cov=radar.cov[first])
        vertical = vertical_sigma(radar.vel, radar.vertical, radar.pitch)
        rows = (radar.cov[:, 2, 2] < vertical**2 / 2).any()  # it sees more of the vertical than is known beforehand
        common = TUNING.scale_error if rows else TUNING.scale_error_level
        # An error of the scale is in each frame's covariance as one of its own.
        cov = radar.cov - common**2 * np.einsum("ni,nj->nij", radar.vel, radar.vel)
        known = radar.known & np.isfinite(cov).all(axis=(1, 2))
        values, axes = eigh(cov[known])  # what is left must be a covariance
        values = np.maximum(values, MIN_ERROR**2)[:, None]
        cov[known] = matmul(axes * values, np.swapaxes(axes, 1, 2))
        cov += matmul(radar.mount.rotation.T, swing, radar.mount.rotation)
    vertical = vertical_sigma(radar.vel, radar.vertical, radar.pitch)
    measured, information = memory.zeros(len(at), 3), memory.zeros(len(at), 3, 3)
    for part in memory.blocks(len(at), AT_ONCE):
        measured[part], information[part] = without_prior(cov[part], radar.vel[part], vertical[part])
    arm = radar.mount.translation - imu.translation
    errors = common, float(PRIOR_SIGMA[6]), radar.added
    imu_ts, acc, avel = recorded
    step, (force, turning) = float(np.median(np.diff(imu_ts))), np.zeros((2, len(at), 3))
    # How fast velocities change is wanted on average over the times at which they may have been measured (statistical
    # linearisation; A. Gelb, Applied Optimal Estimation, 1974): a vibration that is faster averages out.
    around = nodes[at] + np.sqrt(3) * radar.added_sd * np.linspace(-1, 1, 9)[:, None]
    for now in around:
        own, rate = sampled(now, imu_ts, acc), sampled(now, imu_ts, avel)
        change = (sampled(now + step, imu_ts, avel) - sampled(now - step, imu_ts, avel)) / (2 * step)
        force += (own + np.cross(change, arm) + np.cross(rate, np.cross(rate, arm))) / len(around)
        turning += rate / len(around)
    rates = sampled(nodes[at], imu_ts, avel)
    return RadarVelocities(at, measured, information, radar.mount.rotation, arm, rates, force, turning, *errors)
