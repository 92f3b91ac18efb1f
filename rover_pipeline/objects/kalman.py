"""Kalman filter and smoother of a body that moves in a plane with nearly constant velocity."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.compiled import compiled

#: Kinds of measurements: none (a time at which the state is wanted), a position, a radial velocity.
NOTHING, POSITION, RADIAL = range(3)
#: Standard deviation of the velocity of which nothing is known, m/s.
SPEED_SD = 8.0
#: A residual of more standard deviations than this counts as one of a less certain measurement (Huber, 1964).
_HUBER = 3.0


class Measurements(NamedTuple):
    """Measurements of one body, in the order of their times.

    Attributes:
        time: f8 (N,), s.
        kind: i8 (N,), NOTHING, POSITION or RADIAL.
        value: f8 (N, 2), x and y, m, or the radial velocity, m/s, and nothing.
        direction: f8 (N, 2), the horizontal part of the unit vector along which a radial velocity is measured.
        variance: f8 (N,), of each value.
    """

    time: np.ndarray
    kind: np.ndarray
    value: np.ndarray
    direction: np.ndarray
    variance: np.ndarray

    @staticmethod
    def positions(time: np.ndarray, value: np.ndarray, variance: np.ndarray) -> Measurements:
        """Positions, f8 (N, 2), m, with their variances, f8 (N,), m2, at times, f8 (N,), s."""
        count = len(time)
        return Measurements(time, np.full(count, POSITION), value, np.zeros((count, 2)), variance)

    def merged(self, other: Measurements) -> Measurements:
        """Both, in the order of their times."""
        both = [np.concatenate(arrays) for arrays in zip(self, other, strict=True)]
        order = np.argsort(both[0], kind="stable")
        return Measurements(*(array[order] for array in both))


class Smoothed(NamedTuple):
    """The motion of a body at the times of its measurements.

    Attributes:
        state: f8 (N, 4), x, y, m, and their velocities, m/s.
        cov: f8 (N, 4, 4).
        likelihood: logarithm of the probability density of the measurements.
    """

    state: np.ndarray
    cov: np.ndarray
    likelihood: float


def smooth(measured: Measurements, noise: float) -> Smoothed:
    """The motion that all measurements together tell (Rauch, Tung and Striebel, 1965).

    Args:
        measured: at least one of them a position. The first position begins the motion.
        noise: power spectral density of the acceleration, m2/s3: the velocity's variance grows by this in a second.
    """
    begin = int(np.argmax(measured.kind == POSITION))
    state = np.array([*measured.value[begin], 0.0, 0.0])
    return Smoothed(*_smooth(*measured, state, noise, SPEED_SD**2, _HUBER))


def most_likely(measured: Measurements, noises: tuple[float, ...], scales: tuple[float, ...]) -> Smoothed:
    """The motion with the noise of the acceleration and the scale of the variances that make the data most likely."""
    best: Smoothed | None = None
    for scale in scales:
        scaled = measured._replace(
            variance=np.where(measured.kind == POSITION, scale * measured.variance, measured.variance)
        )
        for noise in noises:
            found = smooth(scaled, noise)
            if best is None or found.likelihood > best.likelihood:
                best = found
    assert best is not None
    return best


@compiled
def _smooth(
    time: np.ndarray,
    kind: np.ndarray,
    value: np.ndarray,
    direction: np.ndarray,
    variance: np.ndarray,
    begin: np.ndarray,
    noise: float,
    speed_variance: float,
    huber: float,
) -> tuple[np.ndarray, np.ndarray, float]:
    count = len(time)
    predicted, filtered = np.zeros((count, 4)), np.zeros((count, 4))
    before, after = np.zeros((count, 4, 4)), np.zeros((count, 4, 4))
    x, p = begin.copy(), np.zeros((4, 4))
    p[0, 0] = p[1, 1] = 1e4
    p[2, 2] = p[3, 3] = speed_variance
    likelihood, positions = 0.0, 0
    h, f, q = np.zeros(4), np.eye(4), np.zeros((4, 4))
    for n in range(count):
        dt = time[n] - time[n - 1] if n else 0.0
        _transition(dt, noise, f, q)
        x = f @ x
        p = f @ p @ f.T + q
        predicted[n], before[n] = x, p
        if kind[n] == 1:
            positions += 1
        for k in range(2 if kind[n] == 1 else 1 if kind[n] == 2 else 0):
            h[:] = 0.0
            if kind[n] == 1:
                h[k] = 1.0
            else:
                h[2], h[3] = direction[n, 0], direction[n, 1]
            ph = p @ h
            r = variance[n]
            s = h @ ph + r
            residual = value[n, k] - h @ x
            ratio = residual * residual / s
            if ratio > huber * huber and positions > 2:
                r = r + (np.sqrt(ratio) * huber / huber**2 - 1.0) * s
                s = h @ ph + r
                ratio = residual * residual / s
            if positions > 2:
                likelihood -= 0.5 * (np.log(2 * np.pi * s) + ratio)
            gain = ph / s
            x = x + gain * residual
            p = p - np.outer(gain, ph)
            p = 0.5 * (p + p.T)
        filtered[n], after[n] = x, p
    for n in range(count - 2, -1, -1):
        _transition(time[n + 1] - time[n], noise, f, q)
        # after @ f.T @ inverse(before), by the solution of a symmetric system
        gain = np.linalg.solve(before[n + 1] + 1e-12 * np.eye(4), f @ after[n]).T
        filtered[n] = filtered[n] + gain @ (filtered[n + 1] - predicted[n + 1])
        after[n] = after[n] + gain @ (after[n + 1] - before[n + 1]) @ gain.T
    return filtered, after, likelihood


@compiled
def _transition(dt: float, noise: float, f: np.ndarray, q: np.ndarray) -> None:
    """The motion over a time at constant velocity, and what a white acceleration adds to the covariance."""
    f[0, 2] = f[1, 3] = dt
    for k in range(2):
        q[k, k] = noise * dt**3 / 3
        q[k, k + 2] = q[k + 2, k] = noise * dt**2 / 2
        q[k + 2, k + 2] = noise * dt
