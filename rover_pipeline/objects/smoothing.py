"""The motion of a body from all of its measurements at once.

The most probable states at all wanted times are found together, by Gauss-Newton steps on a block-tridiagonal system.
For a linear motion this is the smoother of Rauch, Tung and Striebel (1965); for another one it is the iterated smoother
(Bell, The iterated Kalman smoother as a Gauss-Newton method, SIAM Journal on Optimization, 1994), which a wrong first
guess of the heading does not lead astray as it does an extended Kalman filter.

The model and its noises are those that make the measurements most likely (Laplace's approximation of the evidence), so
that nobody needs to know beforehand how a body moves.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.linear import cho_solve_banded, cholesky, cholesky_banded, inv, matmul
from rover_pipeline.numerics.nearest import nearest_samples
from rover_pipeline.objects.tracking import ConstantTurn, ConstantVelocity, Model
from rover_pipeline.objects.tuning import TUNING

#: Degrees of freedom of the t distribution of the residuals: a few are far larger than the others.
#: Noise: Lange, Little and Taylor, Robust statistical modeling using the t distribution, JASA 1989.
_FREEDOM = 4.0
#: Deviations within which 99.7 % of them are. Noise: t distribution of these degrees of freedom.
OUTLIER_SDS = 6.62
#: Number of places from which a motion can be estimated: they are more values than it has states. Physics: algebra.
MIN_PLACES = 3
#: Solver: maximum number of steps and halvings of a step; change of a state at which it ends, m, rad, m/s. Schedule.
_STEPS, _HALVINGS, _CONVERGED = 12, 4, 1e-3
#: Grids of what is estimated: scale of the variances of positions; power spectral densities of the acceleration, m2/s3;
#: and, for a body that drives, those along its heading and of the change of its turn rate, rad2/s3. Tuned: by hand.
_SCALES, NOISES = (0.3, 1.5, 7.5), (0.05, 0.3, 2.0, 12.0)
_AHEAD, _TURNS = (0.1, 1.0, 10.0), (0.01, 0.1, 1.0)


class Measurements(NamedTuple):
    """Single values that were measured of one body."""

    time: np.ndarray  #: f8 (M,), s.
    value: np.ndarray  #: f8 (M,), m, m/s or rad.
    variance: np.ndarray  #: f8 (M,).
    weights: np.ndarray  #: f8 (M, 4), of x, y and their velocities in the value; all zero where the value is a heading.

    @staticmethod
    def positions(time: np.ndarray, xy: np.ndarray, variance: np.ndarray, yaw: np.ndarray) -> Measurements:
        """Positions, f8 (N, 2), m, with variances along a direction, f8 (N,), rad, and to its left, f8 (N, 2), m2."""
        cos, sin = np.cos(yaw), np.sin(yaw)
        axes = np.concatenate([np.column_stack([cos, sin]), np.column_stack([-sin, cos])])
        value = np.einsum("mi,mi->m", axes, np.tile(xy, (2, 1)))
        return Measurements(np.tile(time, 2), value, variance.T.ravel(), np.pad(axes, ((0, 0), (0, 2))))

    @staticmethod
    def radial(time: np.ndarray, value: np.ndarray, variance: np.ndarray, direction: np.ndarray) -> Measurements:
        """Velocities along directions, the horizontal parts of unit vectors, f8 (M, 2)."""
        return Measurements(time, value, variance, np.pad(direction, ((0, 0), (2, 0))))

    @staticmethod
    def headings(time: np.ndarray, value: np.ndarray, variance: np.ndarray) -> Measurements:
        return Measurements(time, value, variance, np.zeros((len(time), 4)))

    def merged(self, other: Measurements | None) -> Measurements:
        """Both, of which the other ones may be none."""
        parts = [self] if other is None else [self, other]
        return Measurements(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def select(self, chosen: np.ndarray) -> Measurements:
        return Measurements(*(array[chosen] for array in self))


class Smoothed(NamedTuple):
    """The motion of a body at the wanted times."""

    state: np.ndarray  #: f8 (N, 4), x, y, m, and their velocities, m/s.
    cov: np.ndarray  #: f8 (N, 4, 4).
    likelihood: float  #: logarithm of the probability density of the measurements.
    heading: np.ndarray | None = None  #: f8 (N,), rad, without jumps; None for the model of constant velocity.
    choice: tuple[int, ...] = ()  #: numbers of the model's parameters in their grids.

    @staticmethod
    def standing(time: np.ndarray, xy: np.ndarray, wanted: np.ndarray) -> Smoothed:
        """A first guess: positions, f8 (M, 2), m, that are interpolated, without a velocity."""
        place = [np.interp(wanted, time, xy[:, axis]) for axis in range(2)]
        return Smoothed(np.column_stack([*place, np.zeros((len(wanted), 2))]), np.zeros((len(wanted), 4, 4)), -np.inf)


def fit_motion(measured: Measurements, wanted: np.ndarray, before: Smoothed, search: bool = True) -> Smoothed:
    """The most likely motion through measurements, at the wanted times.

    A body whose headings are measured in some sweeps, and which is not slow, drives where it heads.

    Args:
        wanted: f8 (N,), s, ascending.
        before: a motion at these times that is nearly right.
        search: whether other parameters of the model are tried than those of that motion.
    """
    is_heading = (measured.weights == 0).all(axis=1)
    speed = float(np.median(np.hypot(before.state[:, 2], before.state[:, 3])))
    grids: tuple[tuple[float, ...], ...]
    model: type[ConstantTurn] | type[ConstantVelocity]
    if speed >= TUNING.min_speed and is_heading.sum() >= MIN_PLACES:
        headings = measured.select(is_heading)
        yaw = np.interp(wanted, headings.time, np.unwrap(headings.value))
        ahead = np.einsum("ni,ni->n", before.state[:, 2:], np.column_stack([np.cos(yaw), np.sin(yaw)]))
        begin = np.column_stack([before.state[:, :2], yaw, ahead, np.zeros(len(yaw))])
        model, grids = ConstantTurn, (_SCALES, _AHEAD, _TURNS)
    else:
        measured, begin = measured.select(~is_heading), before.state
        model, grids = ConstantVelocity, (_SCALES, NOISES)
    is_place = measured.weights[:, :2].any(axis=1)

    def at(choice: tuple[int, ...]) -> Solution:
        scale, *noises = (grid[index] for grid, index in zip(grids, choice, strict=True))
        variance = np.where(is_place, scale, 1.0) * measured.variance
        return solve(model(*noises), measured._replace(variance=variance), wanted, begin)

    # Solutions of a long track take megabytes, so that the best one is found again, and none is kept.
    likelihood = functools.cache(lambda choice: at(choice).likelihood)
    choice = before.choice if len(before.choice) == len(grids) else tuple(len(grid) // 2 for grid in grids)
    while search:
        around = [
            (*choice[:axis], choice[axis] + step, *choice[axis + 1 :])
            for axis, grid in enumerate(grids)
            for step in (-1, 1)
            if 0 <= choice[axis] + step < len(grid)
        ]
        best = max(around, key=likelihood)
        if likelihood(best) <= likelihood(choice):
            break
        choice = best
    return at(choice).smoothed()._replace(choice=choice)


class Solution(NamedTuple):
    """The most probable states."""

    model: Model
    state: np.ndarray  #: f8 (N, S).
    diagonal: np.ndarray  #: f8 (N, S, S), blocks of their information matrix.
    below: np.ndarray  #: f8 (N - 1, S, S), blocks below these.
    likelihood: float  #: logarithm of the probability density of the measurements.

    def smoothed(self) -> Smoothed:
        """The motion, with its covariances."""
        plane, slope = self.model.in_plane(self.state)
        heading = self.state[:, 2] if isinstance(self.model, ConstantTurn) else None
        cov = matmul(slope, _covariances(self.diagonal, self.below), slope.transpose(0, 2, 1))
        return Smoothed(plane, cov, self.likelihood, heading)


def solve(model: Model, measured: Measurements, times: np.ndarray, begin: np.ndarray) -> Solution:
    """The most probable states at the wanted times.

    Args:
        measured: at least two of them of a position; headings only for `ConstantTurn`.
        times: f8 (N,), s, ascending. A measurement is taken for one at the nearest time, moved by the model.
        begin: f8 (N, S), a first guess. Its first state is also the mean of the prior, which is wide.
    """
    node = nearest_samples(times, measured.time)
    dt = np.maximum(np.diff(times), 1e-3)  # sweeps may have the same time stamp
    problem = _Problem(model, measured, node, measured.time - times[node], dt, begin[0])
    state = begin.copy()
    cost = problem.cost(state)
    for _ in range(_STEPS):
        step = problem.system(state).step()
        for _ in range(_HALVINGS):
            tried = state + step
            found = problem.cost(tried)
            if found <= cost:
                break
            step = step / 2
        else:
            break
        state, cost = tried, found
        if np.abs(step).max() < _CONVERGED:
            break
    system = problem.system(state)
    # The states' density at the most probable ones, over that of their Gaussian around these.
    scale = np.log(2 * np.pi * measured.variance).sum() / 2
    likelihood = -cost - scale + system.log_motion / 2 - np.log(system.factor()[0]).sum()
    return Solution(model, state, system.diagonal, system.below, float(likelihood))


class _Problem(NamedTuple):
    """Measurements, and a motion between nodes, which are the wanted times."""

    model: Model
    measured: Measurements
    node: np.ndarray  #: i8 (M,), the node that is nearest to each measurement.
    later: np.ndarray  #: f8 (M,), s after it.
    dt: np.ndarray  #: f8 (N - 1,), s, between nodes.
    prior: np.ndarray  #: f8 (S,), mean of the first state.

    def residuals(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Residuals in standard deviations, f8 (M,), and derivatives of the expected values so, f8 (M, S)."""
        there, change = self.model.predicted(state[self.node], self.later)
        plane, slope = self.model.in_plane(there)
        weights = self.measured.weights
        expected, derivative = np.einsum("mi,mi->m", weights, plane), np.einsum("mi,mij->mj", weights, slope)
        heading = (weights == 0).all(axis=1)
        expected[heading], derivative[heading, 2] = there[heading, 2], 1.0
        sd = np.sqrt(self.measured.variance)
        return (self.measured.value - expected) / sd, np.einsum("mi,mij->mj", derivative, change) / sd[:, None]

    def cost(self, state: np.ndarray) -> float:
        """Negative logarithm of the states' probability density, without its constants."""
        seen = (_FREEDOM + 1) / 2 * np.log1p(self.residuals(state)[0] ** 2 / _FREEDOM).sum()
        change = state[1:] - self.model.predicted(state[:-1], self.dt)[0]
        moved = np.einsum("ni,nij,nj->", change, self.model.information(state[:-1], self.dt), change) / 2
        return float(seen + moved + (self.model.prior() * (state[0] - self.prior) ** 2).sum() / 2)

    def system(self, state: np.ndarray) -> _System:
        """The linear system of a Gauss-Newton step."""
        count, size = state.shape
        diagonal, right = np.zeros((count, size, size)), np.zeros((count, size))
        known = self.model.prior()
        diagonal[0] += np.diag(known)
        right[0] -= known * (state[0] - self.prior)
        after, change = self.model.predicted(state[:-1], self.dt)
        weight = self.model.information(state[:-1], self.dt)
        apart = np.einsum("nij,nj->ni", weight, state[1:] - after)
        back = change.transpose(0, 2, 1)
        diagonal[1:] += weight
        diagonal[:-1] += matmul(back, weight, change)
        right[1:] -= apart
        right[:-1] += np.einsum("nij,nj->ni", back, apart)
        residual, slope = self.residuals(state)
        trust = (_FREEDOM + 1) / (_FREEDOM + residual**2)
        np.add.at(diagonal, self.node, trust[:, None, None] * slope[:, :, None] * slope[:, None, :])
        np.add.at(right, self.node, (trust * residual)[:, None] * slope)
        logs = float(2 * np.log(np.diagonal(cholesky(weight), axis1=1, axis2=2)).sum() + np.log(known).sum())
        return _System(diagonal, -matmul(weight, change), right, logs)


class _System(NamedTuple):
    """A block-tridiagonal system."""

    diagonal: np.ndarray  #: f8 (N, S, S), blocks of its matrix.
    below: np.ndarray  #: f8 (N - 1, S, S), blocks below these.
    right: np.ndarray  #: f8 (N, S).
    log_motion: float  #: logarithm of the determinant of the information of the motion and of the prior.

    def factor(self) -> np.ndarray:
        """Its Cholesky factor, in the lower banded form of scipy."""
        count, size = self.right.shape
        band = np.zeros((2 * size, count, size))
        for column, row in np.ndindex(size, size):
            if row >= column:
                band[row - column, :, column] = self.diagonal[:, row, column]
            band[size + row - column, :-1, column] = self.below[:, row, column]
        return cholesky_banded(band.reshape(2 * size, -1))

    def step(self) -> np.ndarray:
        """The change of the states, f8 (N, S)."""
        return cho_solve_banded(self.factor(), self.right.ravel()).reshape(self.right.shape)


def _covariances(diagonal: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Diagonal blocks of the inverse of a block-tridiagonal matrix, f8 (N, S, S)."""
    rest = diagonal.copy()
    inverse = np.zeros_like(diagonal)
    for n in range(len(diagonal)):
        if n:
            rest[n] -= matmul(below[n - 1], inverse[n - 1], below[n - 1].T)
        inverse[n] = inv(rest[n])
    result = inverse.copy()
    for n in range(len(diagonal) - 2, -1, -1):
        gain = matmul(inverse[n], below[n].T)
        result[n] += matmul(gain, result[n + 1], gain.T)
    return result
