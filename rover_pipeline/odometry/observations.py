"""What the lidar and the gyroscope saw of the motion, and how much each is believed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Sweep(NamedTuple):
    """Points of a sweep in the lidar frame, each seen at the instant of its column.

    Attributes:
        points: f4 (N, 3), metres.
        column: i4 (N,), rising, into `times`.
        times: f8 (C,), rising, seconds.
        end: the instant that the sweep's pose refers to, seconds.
    """

    points: np.ndarray
    column: np.ndarray
    times: np.ndarray
    end: float


class Gyro(NamedTuple):
    """Measured angular velocities.

    Attributes:
        times: f8 (G,), rising, seconds.
        rates: f8 (G, 3), rad/s, in the lidar frame.
    """

    times: np.ndarray
    rates: np.ndarray

    def between(self, start: float, stop: float) -> Gyro:
        part = slice(*np.searchsorted(self.times, (start, stop)))
        return Gyro(self.times[part], self.rates[part])


NO_GYRO = Gyro(np.zeros(0), np.zeros((0, 3)))


@dataclass(frozen=True)
class Refinement:
    """How points are weighed.

    Attributes:
        voxels: edges of the voxels of the map, metres, finest first.
        noise: standard deviation of a range, metres.
        scale: distance from a plane, in standard deviations, from where on points count less.
        jerk: expected of the motion, m/s3 and rad/s3.
        rate_noise: standard deviation of a measured angular velocity, rad/s.
        gates: greatest distance from a plane, metres, iteration by iteration.
        strides: one point in so many is looked at, iteration by iteration.
        least_inliers: share of points within the last gate, below which a sweep is left where it was guessed.
        furthest: from where it was guessed, metres, beyond which too.
    """

    voxels: tuple[float, ...] = (0.25, 0.5, 1.0)
    noise: float = 0.01
    scale: float = 2.0
    jerk: float = 30.0
    rate_noise: float = 0.02
    gates: tuple[float, ...] = (0.4, 0.2, 0.1, 0.05, 0.05)
    strides: tuple[int, ...] = (4, 4, 4, 1, 1)
    least_inliers: float = 0.3
    furthest: float = 0.5


class Fit(NamedTuple):
    """How well a sweep lies on the map.

    Attributes:
        inliers: share of the points within the last gate of a plane.
        residual: root mean square of their distances, metres.
        matrix: f8 (6, 6), information of a displacement (1/m2) and a rotation (1/rad2) of the whole sweep.
    """

    inliers: float
    residual: float
    matrix: np.ndarray
