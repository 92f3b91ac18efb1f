"""Jets: a quantity with its first and second derivative in time, carried through sums, products and functions.

Motion is written once as plain expressions of time; velocities and accelerations then follow by the chain rule,
exact to rounding, and cannot disagree with the positions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


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

    def __add__(self, other: Jet) -> Jet:  # type: ignore[override]  # a tuple of fields, not a sequence to extend
        return Jet(self.value + other.value, self.rate + other.rate, self.rate2 + other.rate2)

    def __mul__(self, other: Jet) -> Jet:  # type: ignore[override]
        return Jet(
            self.value * other.value,
            self.rate * other.value + self.value * other.rate,
            self.rate2 * other.value + 2 * self.rate * other.rate + self.value * other.rate2,
        )

    def __matmul__(self, other: Jet) -> Jet:
        return Jet(
            self.value @ other.value,
            self.rate @ other.value + self.value @ other.rate,
            self.rate2 @ other.value + 2 * self.rate @ other.rate + self.value @ other.rate2,
        )

    def scaled(self, factor: float) -> Jet:
        return Jet(self.value * factor, self.rate * factor, self.rate2 * factor)

    def through(self, value: np.ndarray, slope: np.ndarray, slope2: np.ndarray) -> Jet:
        """f(x) for a function given by f, f' and f'' at x."""
        return Jet(value, slope * self.rate, slope2 * self.rate**2 + slope * self.rate2)

    def sin(self) -> Jet:
        sin, cos = np.sin(self.value), np.cos(self.value)
        return self.through(sin, cos, -sin)

    def cos(self) -> Jet:
        sin, cos = np.sin(self.value), np.cos(self.value)
        return self.through(cos, -sin, -cos)

    def power(self, exponent: float) -> Jet:
        x, n = self.value, exponent
        return self.through(x**n, n * x ** (n - 1), n * (n - 1) * x ** (n - 2))


def constant(like: Jet, value: float) -> Jet:
    zero = np.zeros_like(like.value)
    return Jet(zero + value, zero, zero)


def stacked(parts: list[Jet]) -> Jet:
    """Jets side by side along a new last axis."""
    return Jet(
        np.stack([part.value for part in parts], -1),
        np.stack([part.rate for part in parts], -1),
        np.stack([part.rate2 for part in parts], -1),
    )
