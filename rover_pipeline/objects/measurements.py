"""What is measured of one body, and the motion that is made from it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: Kinds of measurements: a position, a radial velocity, a heading.
POSITION, RADIAL, HEADING = range(3)
#: Standard deviation of the velocity of which nothing is known, m/s.
SPEED_SD = 8.0


class Measurements(NamedTuple):
    """Measurements of one body, in the order of their times.

    Attributes:
        time: f8 (N,), s.
        kind: i8 (N,), POSITION, RADIAL or HEADING.
        value: f8 (N, 2), x and y, m; or the radial velocity, m/s, and nothing; or the heading, rad, and nothing.
        direction: f8 (N, 2), unit vector of the first of the two axes along which a position is measured; or the
            horizontal part of the unit vector along which a radial velocity is measured.
        variance: f8 (N, 2), of a position along the direction and to its left, m2; or of the one value, twice.
    """

    time: np.ndarray
    kind: np.ndarray
    value: np.ndarray
    direction: np.ndarray
    variance: np.ndarray

    @staticmethod
    def positions(
        time: np.ndarray, value: np.ndarray, variance: np.ndarray, direction: np.ndarray | None = None
    ) -> Measurements:
        """Positions, f8 (N, 2), m, at times, f8 (N,), s.

        Args:
            variance: m2, f8 (N,) in all directions, or f8 (N, 2) along `direction`, f8 (N, 2), and to its left.
        """
        count = len(time)
        along = np.tile([1.0, 0.0], (count, 1)) if direction is None else direction
        both = np.column_stack([variance, variance]) if variance.ndim == 1 else variance
        return Measurements(time, np.full(count, POSITION), value, along, both)

    @staticmethod
    def radial(time: np.ndarray, value: np.ndarray, variance: np.ndarray, direction: np.ndarray) -> Measurements:
        """Radial velocities, f8 (N,), m/s, along `direction`, f8 (N, 2), with variances, f8 (N,)."""
        return Measurements._single(RADIAL, time, value, variance, direction)

    @staticmethod
    def headings(time: np.ndarray, value: np.ndarray, variance: np.ndarray) -> Measurements:
        """Headings, f8 (N,), rad, with variances, f8 (N,)."""
        return Measurements._single(HEADING, time, value, variance, np.zeros((len(time), 2)))

    @staticmethod
    def _single(
        kind: int, time: np.ndarray, value: np.ndarray, variance: np.ndarray, direction: np.ndarray
    ) -> Measurements:
        values = np.column_stack([value, np.zeros(len(time))])
        return Measurements(
            time, np.full(len(time), kind), values, direction, np.column_stack([variance, variance])
        ).sorted()

    def sorted(self) -> Measurements:
        """The same, in the order of their times."""
        order = np.argsort(self.time, kind="stable")
        return Measurements(*(array[order] for array in self))

    def merged(self, other: Measurements) -> Measurements:
        """Both, in the order of their times."""
        return Measurements(*(np.concatenate(arrays) for arrays in zip(self, other, strict=True))).sorted()


class Smoothed(NamedTuple):
    """The motion of a body at the wanted times.

    Attributes:
        state: f8 (N, 4), x, y, m, and their velocities, m/s.
        cov: f8 (N, 4, 4).
        likelihood: logarithm of the probability density of the measurements.
        heading: f8 (N,), rad, without jumps; None where the model has none.
        choice: numbers of the parameters of its model among those that are tried.
    """

    state: np.ndarray
    cov: np.ndarray
    likelihood: float
    heading: np.ndarray | None = None
    choice: tuple[int, ...] = ()
