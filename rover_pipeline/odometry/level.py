"""The direction of up in the world of a trajectory, from an accelerometer that was carried along it.

An accelerometer measures R'(a + u) + b, with its rotation R, its acceleration a in the world, up u, which has the size
of gravity, and its bias b. Turned into the world and integrated over a window of time T, this is

    integral of R f = change of velocity + T u + (integral of R) b,

where the accelerometer's velocity is that of the lidar and what the lever arm between them adds: the change of
R (w x arm). Up, bias and arm are unknown; what no turn of the rig separates is left to what is known of bias and arm
before, and the covariance says so.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.rotation import skew
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.numerics.linear import eigh, eigvalsh, inv, matmul, solve

#: Gravity, m/s2, and how much it and the scale of an accelerometer vary.
GRAVITY, _GRAVITY_SIGMA = 9.80665, 0.05
#: Standard deviations known before: bias of each axis of a MEMS accelerometer, m/s2, and a lever arm, m.
_BIAS_SIGMA, _ARM_SIGMA = 0.2, 0.3
#: Windows, s; fewest of them; and largest time between two samples, s.
_WINDOW, _FEWEST, _MAX_GAP = 0.5, 4, 0.1
#: Largest standard deviation of a tilt that can be used, rad, and of the velocities of windows, relative to gravity.
_MAX_TILT, _MAX_RESIDUAL = np.radians(5.0), 0.15
#: Samples that are turned into the world at once.
_CHUNK = 20000
#: Iterations, and residual in its deviation from which a window weighs less.
_ITERATIONS, _HUBER = 6, 2.0
#: How many times smaller the squared residuals must be for a device that gives gravity, which points down.
_DOWNWARD = 4.0


class Level(NamedTuple):
    """Up, as an accelerometer tells it.

    Attributes:
        up: f8 (3,), unit vector in the world.
        tilt_sigma: standard deviation of its direction, rad.
        bias: f8 (3,), m/s2, of the specific force in the IMU frame; bias_sigma: f8 (3,).
        arm: f8 (3,), m, of the IMU in the lidar frame.
        downward: whether the device gives gravity, which points down, instead of the specific force.
    """

    up: np.ndarray
    tilt_sigma: float
    bias: np.ndarray
    bias_sigma: np.ndarray
    arm: np.ndarray
    downward: bool

    def summary(self) -> dict[str, Any]:
        """What provenance says about it."""
        return {
            "tilt_sigma_deg": round(float(np.degrees(self.tilt_sigma)), 3),
            "acc_bias_m_s2": self.bias.round(4).tolist(),
            "acc_bias_sigma_m_s2": self.bias_sigma.round(4).tolist(),
        }


class _Windows(NamedTuple):
    """Integrals over K windows.

    Attributes:
        force: f8 (K, 3), of the specific force in the world, m/s; change: f8 (K, 3), of the lidar's velocity, m/s.
        turned: f8 (K, 3, 3), of the rotation world-from-imu, s; arm: f8 (K, 3, 3), change of velocity by lever arm.
    """

    force: np.ndarray
    change: np.ndarray
    turned: np.ndarray
    arm: np.ndarray


def find_level(trajectory: Trajectory, times: np.ndarray, acc: np.ndarray, mount: Mount, mount_sigma: float) -> Level:
    """Up in the world of a trajectory.

    Args:
        times: f8 (N,), rising, by the clock of the trajectory, s.
        acc: f8 (N, 3), m/s2, IMU frame, gravity included; NaN where not valid.
        mount: of the IMU; its translation is not used.
        mount_sigma: standard deviation of its rotation, rad.

    Raises:
        ValueError: the accelerometer does not tell it, and why.
    """
    fits = _both(trajectory, times, acc, mount)
    # Nearly all devices give the specific force, which points up at rest. The motion tells those that give gravity.
    upward = fits[1][2] * _DOWNWARD > fits[0][2]
    unknowns, covariance, residual = fits[0] if upward else fits[1]
    size = float(np.linalg.norm(unknowns[:3], axis=0))
    deviation = float(np.sqrt(residual)) / _WINDOW
    if deviation > _MAX_RESIDUAL * GRAVITY:
        raise ValueError(f"the acceleration of the trajectory differs by {deviation:.1f} m/s2 from the measured one")
    up = unknowns[:3] / size
    level = eigh(np.outer(up, up))[1][:, :2].T
    tilt = np.sqrt(eigvalsh(matmul(level, covariance[:3, :3], level.T))[-1]) / size
    tilt = float(np.hypot(tilt, mount_sigma))
    if tilt > _MAX_TILT:
        raise ValueError(f"up is known to {np.degrees(tilt):.1f} degrees only")
    bias_sigma = np.sqrt(np.diag(covariance)[3:6])
    return Level(up, tilt, unknowns[3:6], bias_sigma, unknowns[6:], downward=not upward)


def handedness(trajectory: Trajectory, times: np.ndarray, acc: np.ndarray, mount: Mount) -> int:
    """What the accelerometer feels of a trajectory: 1 = its accelerations, -1 = their opposites, 0 = not certain.

    Where the lidar sees a mirrored world, and the mount is that by which the gyroscope agrees with it all the same, the
    accelerometer feels the opposites: angular velocities and accelerations behave differently in a mirror.

    Args:
        times, acc, mount: as for `find_level`.
    """
    try:
        fit, opposite = _both(trajectory, times, acc, mount)
    except ValueError:
        return 0
    better, worse = sorted((fit[2], opposite[2]))
    if better * _DOWNWARD > worse or np.sqrt(better) > _MAX_RESIDUAL * GRAVITY * _WINDOW:
        return 0
    return 1 if fit[2] == better else -1


_Fit = tuple[np.ndarray, np.ndarray, float]


def _both(trajectory: Trajectory, times: np.ndarray, acc: np.ndarray, mount: Mount) -> tuple[_Fit, _Fit]:
    """The fits of the measured force and of its opposite.

    Raises:
        ValueError: there are too few windows.
    """
    good = np.isfinite(acc).all(axis=1)
    windows = _integrated(trajectory, times[good], acc[good], mount)
    if len(windows.force) < _FEWEST:
        raise ValueError(f"there are less than {_FEWEST * _WINDOW:.0f} s with valid poses and accelerations")
    design = np.concatenate([np.tile(_WINDOW * np.eye(3), (len(windows.force), 1, 1)), windows.turned, windows.arm], 2)
    return _fit(design, windows.force - windows.change), _fit(design, -windows.force - windows.change)


def _integrated(trajectory: Trajectory, times: np.ndarray, acc: np.ndarray, mount: Mount) -> _Windows:
    """Integrals over all windows in which the motion and the accelerations are known."""
    imu = Mount(np.zeros(3), mount.rotation)
    parts: list[_Windows] = []
    for start in range(0, len(times) - 1, _CHUNK):
        # One sample of the next chunk closes the last interval.
        part = slice(start, start + _CHUNK + 1)
        state, known = trajectory.at(times[part], imu)
        steps = np.diff(times[part])
        whole = known[1:] & known[:-1] & (steps <= _MAX_GAP)
        force = np.einsum("nij,nj->ni", state.rot, acc[part])
        number = np.floor(times[part] / _WINDOW).astype("i8")
        edges = np.flatnonzero(np.diff(number)) + 1
        for first, last in pairwise(edges):
            if not whole[first:last].all():
                continue
            weight, ends = steps[first:last, None] / 2, [first, last]
            sums = [
                (weight.reshape(-1, *[1] * (each.ndim - 1)) * (each[first:last] + each[first + 1 : last + 1])).sum(0)
                for each in (force, state.rot)
            ]
            lever = matmul(state.rot[ends], skew(state.avel[ends]))
            change = state.vel[last] - state.vel[first]
            span = float(times[part][last] - times[part][first]) / _WINDOW
            parts.append(_Windows(*(each / span for each in (sums[0], change, sums[1], lever[1] - lever[0]))))
    return _Windows(*(np.array(each) for each in zip(*parts, strict=True))) if parts else _Windows(*[np.zeros(0)] * 4)


def _fit(design: np.ndarray, force: np.ndarray) -> _Fit:
    """Up, bias and arm, f8 (9,), their covariance, and the mean squared residual of the agreeing windows, m2/s2."""
    prior = np.diag([0.0] * 3 + [_BIAS_SIGMA**-2.0] * 3 + [_ARM_SIGMA**-2.0] * 3)
    weight = np.ones(len(force))
    unknowns, variance = np.zeros(9), 1.0
    for _ in range(_ITERATIONS):
        normal = np.einsum("k,kai,kaj->ij", weight, design, design) / variance + prior
        right = np.einsum("k,kai,ka->i", weight, design, force) / variance
        up = unknowns[:3]
        if up.any():
            # The size of gravity is known, which tells the bias along it.
            row = up / np.linalg.norm(up, axis=0)
            normal[:3, :3] += np.outer(row, row) / _GRAVITY_SIGMA**2
            right[:3] += row * GRAVITY / _GRAVITY_SIGMA**2
        unknowns = solve(normal, right)
        residual = np.linalg.norm(force - matmul(design, unknowns), axis=1)
        variance = max(float(np.median(residual)) ** 2 / 2.366, 1e-8)
        weight = np.minimum(1.0, _HUBER * np.sqrt(3 * variance) / np.maximum(residual, 1e-12))
    return unknowns, inv(normal), 3 * variance
