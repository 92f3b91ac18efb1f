"""The motion that all measurements of a body together tell.

The most probable states at all wanted times are found at once, by Gauss-Newton steps on a block-tridiagonal system. For
a linear motion this is the smoother of Rauch, Tung and Striebel (1965); for another one it is the iterated smoother
(Bell, The iterated Kalman smoother as a Gauss-Newton method, SIAM Journal on Optimization, 1994), which a first guess
of the heading that is wrong does not lead astray as it does an extended Kalman filter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.linear import cho_solve_banded, cholesky, cholesky_banded, inv, matmul
from rover_pipeline.objects.measurements import HEADING, POSITION, RADIAL, Measurements, Smoothed
from rover_pipeline.objects.models import Model

#: Degrees of freedom of the t distribution of the residuals: a few are far larger than the others (Lange, Little and
#: Taylor, Robust statistical modeling using the t distribution, JASA 1989).
_FREEDOM = 4.0
#: Maximum number of steps, halvings of a step, and the change of a state below which the steps end, m, rad, m/s.
_STEPS, _HALVINGS, _ENOUGH = 12, 4, 1e-3
#: Least time between two states, s.
_LEAST_DT = 1e-3


class Solution(NamedTuple):
    """The most probable states.

    Attributes:
        state: f8 (N, S).
        diagonal, below: f8 (N, S, S) and (N - 1, S, S), blocks of their information matrix.
        likelihood: logarithm of the probability density of the measurements (Laplace's approximation).
    """

    model: Model
    state: np.ndarray
    diagonal: np.ndarray
    below: np.ndarray
    likelihood: float

    def smoothed(self) -> Smoothed:
        """The motion, with its covariances."""
        whole, slope = self.model.motion(self.state)
        heading = self.model.heading(self.state)
        cov = matmul(slope, _covariances(self.diagonal, self.below), slope.transpose(0, 2, 1))
        return Smoothed(whole, cov, self.likelihood, None if heading is None else heading[0])


class _Rows(NamedTuple):
    """Measurements of one value each.

    Attributes:
        node: i8 (M,), number of the nearest wanted time; dt: f8 (M,), s after it.
        kind: i8 (M,); value, sd: f8 (M,); direction: f8 (M, 2).
    """

    node: np.ndarray
    dt: np.ndarray
    kind: np.ndarray
    value: np.ndarray
    direction: np.ndarray
    sd: np.ndarray

    @staticmethod
    def of(measured: Measurements, times: np.ndarray) -> _Rows:
        after = np.clip(np.searchsorted(times, measured.time), 1, max(1, len(times) - 1))
        nearer = after - (measured.time - times[after - 1] < times[np.minimum(after, len(times) - 1)] - measured.time)
        node = np.clip(nearer, 0, len(times) - 1)
        dt = measured.time - times[node]
        place = measured.kind == POSITION
        left = np.column_stack([-measured.direction[:, 1], measured.direction[:, 0]])
        first = np.where(place, np.einsum("ni,ni->n", measured.direction, measured.value), measured.value[:, 0])
        second = np.einsum("ni,ni->n", left, measured.value)
        return _Rows(
            np.concatenate([node, node[place]]),
            np.concatenate([dt, dt[place]]),
            np.concatenate([measured.kind, measured.kind[place]]),
            np.concatenate([first, second[place]]),
            np.concatenate([measured.direction, left[place]]),
            np.sqrt(np.concatenate([measured.variance[:, 0], measured.variance[place, 1]])),
        )

    def residuals(self, model: Model, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Residuals in standard deviations, f8 (M,), and derivatives of the expected values so, f8 (M, S)."""
        there, change = model.predicted(state[self.node], self.dt)
        expected = np.zeros(len(self.value))
        slope = np.zeros((len(self.value), state.shape[1]))
        place, radial, heading = (self.kind == kind for kind in (POSITION, RADIAL, HEADING))
        expected[place] = np.einsum("ni,ni->n", self.direction[place], there[place, :2])
        slope[place, :2] = self.direction[place]
        expected[radial], slope[radial] = model.radial(there[radial], self.direction[radial])
        if heading.any():
            told = model.heading(there[heading])
            if told is None:
                raise ValueError("a model without a heading has no measured headings")
            expected[heading], slope[heading] = told
        slope = np.einsum("ni,nij->nj", slope, change)
        return (self.value - expected) / self.sd, slope / self.sd[:, None]


def solve(model: Model, measured: Measurements, times: np.ndarray, begin: np.ndarray) -> Solution:
    """The most probable states at the wanted times.

    Args:
        measured: at least one of them a position; headings only for a model that has one.
        times: f8 (N,), s, ascending. A measurement is taken for one at the nearest time, moved by the model.
        begin: f8 (N, S), a first guess. Its first state is also what is known beforehand, next to nothing.
    """
    rows, dt = _Rows.of(measured, times), np.maximum(np.diff(times), _LEAST_DT)
    state = begin.copy()
    cost = _cost(model, rows, dt, state, begin[0])
    for _ in range(_STEPS):
        system = _System.of(model, rows, dt, state, begin[0])
        step = system.step()
        for _ in range(_HALVINGS):
            tried = state + step
            found = _cost(model, rows, dt, tried, begin[0])
            if found <= cost:
                break
            step = step / 2
        else:
            break
        state, cost = tried, found
        if np.abs(step).max() < _ENOUGH:
            break
    system = _System.of(model, rows, dt, state, begin[0])
    # The states' density at the most probable ones, over that of their Gaussian around these.
    scale = np.log(2 * np.pi) * len(rows.sd) / 2 + np.log(rows.sd).sum()
    likelihood = -cost - scale + system.log_motion / 2 - system.log_determinant() / 2
    return Solution(model, state, system.diagonal, system.below, float(likelihood))


def _cost(model: Model, rows: _Rows, dt: np.ndarray, state: np.ndarray, begin: np.ndarray) -> float:
    """Negative logarithm of the states' probability density, without its constants."""
    seen = (_FREEDOM + 1) / 2 * np.log1p(rows.residuals(model, state)[0] ** 2 / _FREEDOM).sum()
    change = state[1:] - model.predicted(state[:-1], dt)[0]
    moved = np.einsum("ni,nij,nj->", change, model.information(state[:-1], dt), change) / 2
    return float(seen + moved + (model.prior() * (state[0] - begin) ** 2).sum() / 2)


class _System(NamedTuple):
    """The linear system of a Gauss-Newton step.

    Attributes:
        diagonal, below: f8 (N, S, S) and (N - 1, S, S), blocks of its matrix; right: f8 (N, S).
        log_motion: logarithm of the determinant of the motion's information, with what is known beforehand.
    """

    diagonal: np.ndarray
    below: np.ndarray
    right: np.ndarray
    log_motion: float

    @staticmethod
    def of(model: Model, rows: _Rows, dt: np.ndarray, state: np.ndarray, begin: np.ndarray) -> _System:
        count, size = state.shape
        diagonal, right = np.zeros((count, size, size)), np.zeros((count, size))
        known = model.prior()
        diagonal[0] += np.diag(known)
        right[0] -= known * (state[0] - begin)
        after, change = model.predicted(state[:-1], dt)
        weight = model.information(state[:-1], dt)
        apart = np.einsum("nij,nj->ni", weight, state[1:] - after)
        back = change.transpose(0, 2, 1)
        diagonal[1:] += weight
        diagonal[:-1] += matmul(back, weight, change)
        right[1:] -= apart
        right[:-1] += np.einsum("nij,nj->ni", back, apart)
        residual, slope = rows.residuals(model, state)
        trust = (_FREEDOM + 1) / (_FREEDOM + residual**2)
        np.add.at(diagonal, rows.node, trust[:, None, None] * slope[:, :, None] * slope[:, None, :])
        np.add.at(right, rows.node, (trust * residual)[:, None] * slope)
        logs = float(2 * np.log(np.diagonal(cholesky(weight), axis1=1, axis2=2)).sum() + np.log(known).sum())
        return _System(diagonal, -matmul(weight, change), right, logs)

    def _factor(self) -> np.ndarray:
        """Its Cholesky factor, in the lower banded form of scipy."""
        count, size = self.right.shape
        band = np.zeros((2 * size, count, size))
        for column in range(size):
            for row in range(size):
                if row >= column:
                    band[row - column, :, column] = self.diagonal[:, row, column]
                band[size + row - column, :-1, column] = self.below[:, row, column]
        return cholesky_banded(band.reshape(2 * size, -1))

    def step(self) -> np.ndarray:
        """The change of the states, f8 (N, S)."""
        return cho_solve_banded(self._factor(), self.right.ravel()).reshape(self.right.shape)

    def log_determinant(self) -> float:
        return float(2 * np.log(self._factor()[0]).sum())


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
