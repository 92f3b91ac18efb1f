"""Rotation that is faster than the knots of the trajectory, such as vibration, as the gyroscope measures it.

The rates are split by frequency. What a spline with the knots of the trajectory can follow is a measurement of the
spline's angular velocity. The rest is integrated to small rotations between the spline and the lidar, which vibrates
about it. Points that are turned by them lie where a lidar that follows the spline would have measured them, so the
registration needs no denser knots.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicHermiteSpline, CubicSpline

from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.numerics.linear import solveh_banded
from rover_pipeline.odometry.observations import MAX_GAP, MIN_RATES, Sweep
from rover_pipeline.odometry.registration.transforms import transform_points
from rover_pipeline.odometry.spline import SplineTrajectory, least_squares, weighted

#: Weight of the third differences that determine control points at the ends, relative to that of a sample.
#: Tuned: by hand.
_ENDS = 1e-6
#: Rotation that is worth while, rad, and relative to that of the gyroscope's noise. Tuned: by hand.
_MIN_ANGLE, _NOISES = 3e-4, 4.0


class Vibration(NamedTuple):
    """Rotations of the lidar relative to the trajectory's spline."""

    times: np.ndarray  #: f8 (G,), rising, s.
    angle: np.ndarray  #: f8 (G, 3), rad, rotation vectors spline-from-lidar.
    rate: np.ndarray  #: f8 (G, 3), rad/s, how these change.

    def at(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rotation vectors, f8 (N, 3), and how they change, f8 (N, 3), at N instants; 0 where nothing was measured."""
        angle, rate = np.zeros((len(times), 3)), np.zeros((len(times), 3))
        after = np.searchsorted(self.times, times)
        inside = (after > 0) & (after < len(self.times))
        inside[inside] = np.diff(self.times)[after[inside] - 1] <= MAX_GAP
        if not inside.any():
            return angle, rate
        low, high = int(after[inside].min()) - 1, int(after[inside].max()) + 1
        between = CubicHermiteSpline(self.times[low:high], self.angle[low:high], self.rate[low:high])
        angle[inside], rate[inside] = between(times[inside]), between(times[inside], 1)
        return angle, rate

    def removed(self, sweep: Sweep) -> Sweep:
        """The sweep as a lidar that follows the spline would have measured it."""
        if not len(self.times):
            return sweep
        poses = np.zeros((len(sweep.times), 3)), exp(self.at(sweep.times)[0])
        return sweep.changed(lambda each: each._replace(points=transform_points(*each, *poses).astype("f4")))


#: Layout.
NO_VIBRATION = Vibration(np.zeros(0), np.zeros((0, 3)), np.zeros((0, 3)))


def split_rates(times: np.ndarray, rates: np.ndarray, step: float) -> tuple[np.ndarray, Vibration]:
    """Rates that a spline can follow, f8 (G, 3), and the rest as rotations.

    Rotation vectors are integrated axis by axis. The rest is small and alternates within a few knots, so what this
    leaves out is some thousandths of it.

    Args:
        times: f8 (G,), rising, s; rates: f8 (G, 3), rad/s, in the lidar frame.
        step: between knots, s, of which one is at 0 s.
    """
    slow, angle, rest = rates.copy(), np.zeros_like(rates), np.zeros_like(rates)
    for part in np.split(np.arange(len(times)), np.flatnonzero(np.diff(times) > MAX_GAP) + 1):
        # Between two knots there must be more rates than control points.
        if len(part) < MIN_RATES or np.median(np.diff(times[part])) > step / 2:
            continue
        # The integral of an interpolating spline keeps vibration that has only a few samples in a period.
        turned = CubicSpline(times[part], rates[part]).antiderivative()(times[part])
        value, slope = _smoothed(times[part], turned, step)
        slow[part], angle[part], rest[part] = slope, turned - value, rates[part] - slope
    return slow, Vibration(times, angle, rest)


def worth_while(vibration: Vibration, noise: float, step: float) -> bool:
    """Whether the rotations are larger than the errors that they have themselves, and larger than a lidar's.

    Args:
        noise: standard deviation of the gyroscope's white noise, rad/s; step: of the knots, s.
    """
    moved = vibration.angle[(vibration.angle != 0).any(axis=1)]
    if not len(moved):
        return False
    period = float(np.median(np.diff(vibration.times)))
    # White noise of density noise^2 * period, integrated, above the highest frequency that the knots follow.
    own = noise * np.sqrt(period * max(2 * step - 2 * period, 0.0) / (2 * np.pi**2))
    # The largest of the means over tenths of the recording: a rig may vibrate for a while only.
    parts = [part for part in np.array_split(moved, 10) if len(part)]
    largest = max(float(np.sqrt((part**2).mean(axis=0).max())) for part in parts)
    return largest > max(_MIN_ANGLE, _NOISES * own)


def _smoothed(times: np.ndarray, values: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """The least-squares cubic spline of values, f8 (N, 3), on given knots, and its derivative, both at the samples."""
    grid = SplineTrajectory.at_rest(np.floor(times[0] / step) * step, times[-1], step)
    instants, count = grid.locate(times), len(grid.pos)
    band = least_squares(instants, count, _ENDS, _ENDS * 1e-3)
    states = grid._replace(pos=solveh_banded(band, weighted(instants, count, values))).at(times)
    return states.pos, states.vel
