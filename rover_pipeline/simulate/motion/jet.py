"""Jets: a quantity with its first and second derivative in time, carried through sums, products and functions.

A jet is a Taylor polynomial that is cut off after the second order; to compute with jets is forward-mode automatic
differentiation (Griewank and Walther, Evaluating Derivatives, 2008, chapter 13). Motion is written once as plain
expressions of time. Velocities and accelerations then follow by the chain rule, exact to rounding, and cannot disagree
with the positions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.linear import matmul


class Jet(NamedTuple):
    """Values with their time derivatives, arrays of one shape with time as the first axis.

    Attributes:
        value: x, any unit.
        rate: dx/dt, per second.
        rate2: d2x/dt2, per second squared.
    """

    value: np.ndarray
    rate: np.ndarray
    rate2: np.ndarray

    def __add__(self, other: Jet) -> Jet:  # type: ignore[override]  # Fields are added; tuples are not joined.
        return Jet(self.value + other.value, self.rate + other.rate, self.rate2 + other.rate2)

    def __mul__(self, other: Jet) -> Jet:  # type: ignore[override]
        return Jet(
            self.value * other.value,
            self.rate * other.value + self.value * other.rate,
            self.rate2 * other.value + 2 * self.rate * other.rate + self.value * other.rate2,
        )

    def product(self, other: Jet) -> Jet:
        """Of matrices."""
        return Jet(
            matmul(self.value, other.value),
            matmul(self.rate, other.value) + matmul(self.value, other.rate),
            matmul(self.rate2, other.value) + matmul(2 * self.rate, other.rate) + matmul(self.value, other.rate2),
        )

    def scaled(self, factor: float) -> Jet:
        return Jet(self.value * factor, self.rate * factor, self.rate2 * factor)

    def chain(self, value: np.ndarray, slope: np.ndarray, slope2: np.ndarray) -> Jet:
        """The jet of f(x) by the chain rule, for a function given by f, f' and f'' at x."""
        return Jet(value, slope * self.rate, slope2 * self.rate**2 + slope * self.rate2)

    def sin(self) -> Jet:
        sin, cos = np.sin(self.value), np.cos(self.value)
        return self.chain(sin, cos, -sin)

    def cos(self) -> Jet:
        sin, cos = np.sin(self.value), np.cos(self.value)
        return self.chain(cos, -sin, -cos)

    def power(self, exponent: float) -> Jet:
        x, n = self.value, exponent
        return self.chain(x**n, n * x ** (n - 1), n * (n - 1) * x ** (n - 2))


def constant(like: Jet, value: float) -> Jet:
    """A constant at the instants of `like`."""
    zero = np.zeros_like(like.value)
    return Jet(zero + value, zero, zero)


def stack(jets: list[Jet]) -> Jet:
    """Jets side by side along a new last axis."""
    return Jet(*(np.stack(part, -1) for part in zip(*jets, strict=True)))


def rotation(cos: Jet, sin: Jet, axis: int) -> Jet:
    """Rotations about a coordinate axis, (N, 3, 3), by angles with this cosine and sine."""
    zero, one = constant(cos, 0.0), constant(cos, 1.0)
    rows = [[zero] * 3 for _ in range(3)]
    i, j = (axis + 1) % 3, (axis + 2) % 3
    rows[axis][axis], rows[i][i], rows[i][j], rows[j][i], rows[j][j] = one, cos, sin.scaled(-1), sin, cos
    columns = stack([stack(row) for row in rows])  # (N, column, row)
    return Jet(*(np.swapaxes(part, 1, 2) for part in columns))
