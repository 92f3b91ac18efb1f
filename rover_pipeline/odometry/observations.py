"""What the lidar and the gyroscope measured."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.kinematics.rotation import exp, log
from rover_pipeline.odometry.spline import SplineTrajectory

#: Largest time without a rate at either end of an interval whose rotation the gyroscope tells, seconds.
_MAX_GAP = 0.05
#: Smallest number of rates that a bias is estimated from.
_MIN_RATES = 10


class Sweep(NamedTuple):
    """Points of a sweep in the lidar frame, each measured at the instant of its column.

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

    def rotation(self, start: float, stop: float) -> np.ndarray | None:
        """Rotation vector (3,) from one instant to another, radians; None where rates are missing."""
        part = self.between(start, stop)
        if len(part.times) < 2 or part.times[0] - start > _MAX_GAP or stop - part.times[-1] > _MAX_GAP:
            return None
        edges = np.concatenate([[start], (part.times[1:] + part.times[:-1]) / 2, [stop]])
        rotation = np.eye(3)
        for step in exp(part.rates * np.diff(edges)[:, None]):
            rotation = rotation @ step
        return log(rotation[None])[0]

    def without_bias(self, trajectory: SplineTrajectory) -> Gyro:
        """The rates within a trajectory, minus the median of their differences from its angular velocities."""
        part = self.between(trajectory.start, trajectory.stop)
        if len(part.times) < _MIN_RATES:
            return NO_GYRO
        bias = np.median(part.rates - trajectory.at(part.times).avel, axis=0)
        return Gyro(part.times, part.rates - bias)


NO_GYRO = Gyro(np.zeros(0), np.zeros((0, 3)))
