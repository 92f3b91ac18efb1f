"""Options of the registration in continuous time, and what it tells about a sweep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.registration.point_to_plane import PointWeights
from rover_pipeline.odometry.registration.spline_equations import Schedule


@dataclass(frozen=True)
class RegistrationOptions:
    """How points and rates are weighted.

    Attributes:
        voxels: edges of the voxels of the map, metres, finest first.
        noise: standard deviation of a range, metres.
        jerk: expected of the motion, m/s3 and rad/s3.
        rate_noise: standard deviation of a measured angular velocity, rad/s.
        scale: distance from a plane, in standard deviations, beyond which a point counts less.
        gates: largest distance of a point from its plane, metres, for each iteration.
        strides: one point in so many is used, for each iteration.
        min_inliers: smallest fraction of inliers of a sweep that fits the map.
        max_correction: largest correction of the initial guess of a sweep that fits the map, metres.
    """

    voxels: tuple[float, ...] = (0.25, 0.5, 1.0)
    noise: float = 0.01
    jerk: float = 30.0
    rate_noise: float = 0.02
    scale: float = 2.0
    gates: tuple[float, ...] = (0.4, 0.2, 0.1, 0.05, 0.05)
    strides: tuple[int, ...] = (4, 4, 4, 1, 1)
    min_inliers: float = 0.3
    max_correction: float = 0.5

    @staticmethod
    def of(options: OdometrySection) -> RegistrationOptions:
        """What the user's options say."""
        return RegistrationOptions(options.voxels, options.range_noise, options.jerk, options.gyro_noise)

    @property
    def schedule(self) -> Schedule:
        """The iterations of a single sweep."""
        return Schedule(np.array(self.gates), np.array(self.strides), self.noise, self.scale, self.jerk)

    @property
    def final_weights(self) -> PointWeights:
        """The weights of points of a trajectory that is nearly right."""
        return PointWeights(self.gates[-1], self.noise, self.scale, 1)


class SweepFit(NamedTuple):
    """How well a sweep lies on the map.

    Attributes:
        inliers: fraction of the points that lie on a plane.
        residual: root mean square of their distances from the planes, metres.
        information: f8 (6, 6), information matrix of a displacement (1/m2) and a rotation (1/rad2) of the sweep.
    """

    inliers: float
    residual: float
    information: np.ndarray
