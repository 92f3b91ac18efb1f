"""What the Doppler of points at rest says of the radar's velocity: candidates, errors of residuals, least squares.

A static point in direction u recedes at -u . v when the radar moves at v. Radar frame, front-left-up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.linear import matmul, solve
from rover_pipeline.radar.options import VelocitySection

#: A residual above this many standard deviations is an outlier: the point moves.
OUTLIER = 3.0
#: Iterations of reweighted least squares; each takes weights and inliers from the estimate before.
_ITERATIONS = 6
#: Information added to every axis, s2/m2 (a standard deviation of 1 km/s): keeps the matrix regular.
_REGULARISATION = 1e-6


class Echoes(NamedTuple):
    """Points of a frame.

    Attributes:
        direction: f8 (point, 3), unit vectors.
        doppler: f8 (point,), m/s, positive recedes.
        error: f8 (point, 2), standard deviations of the sines of azimuth and elevation.
    """

    direction: np.ndarray
    doppler: np.ndarray
    error: np.ndarray

    def select(self, chosen: np.ndarray) -> Echoes:
        """Some of the points, by a mask or by numbers."""
        return Echoes(*(each[chosen] for each in self))


class Fit(NamedTuple):
    """Weighted least squares over the points at rest.

    Attributes:
        vel: f8 (3,), m/s.
        weight: f8 (point,), s2/m2, of each point in the last iteration; 0 of those that move.
        prior: standard deviation of the prior of the vertical velocity, m/s.
        residual: f8 (point,), in standard deviations; inlier: bool (point,), whether the point is at rest.
    """

    vel: np.ndarray
    weight: np.ndarray
    prior: float
    residual: np.ndarray
    inlier: np.ndarray


def vertical_sigma(vel: np.ndarray, vertical: float, pitch: float) -> np.ndarray:
    """Prior standard deviation of the vertical velocity at velocities, f8 (..., 3), m/s; f8 (...,), m/s.

    Args:
        vertical, pitch: options of `_radar_velocity`: m/s, and a share of the level speed.
    """
    sigma: np.ndarray = np.hypot(vertical, pitch * np.hypot(vel[..., 0], vel[..., 1]))
    return sigma


def slopes(direction: np.ndarray, velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of the Doppler by the sines of azimuth (to the left) and elevation, f8 (..., point), m/s.

    Args:
        direction: f8 (point, 3), unit vectors; velocity: f8 (..., 3), m/s.
    """
    # Derivative of the forward component of a unit vector by the other two, but for its sign; bounded at the sides.
    slope = direction[:, 1:] / np.maximum(direction[:, :1], 0.1)
    ahead, left, up = (velocity[..., axis, None] for axis in range(3))
    return left - ahead * slope[:, 0], up - ahead * slope[:, 1]


def residual_variance(echoes: Echoes, velocity: np.ndarray, doppler_sigma: float) -> np.ndarray:
    """Variance of each residual, from the errors of the Doppler and of the direction, f8 (..., point), m2/s2.

    Args:
        velocity: f8 (..., 3), m/s; doppler_sigma: standard deviation of the Doppler, m/s.
    """
    azimuth, elevation = slopes(echoes.direction, velocity)
    variance: np.ndarray = (
        doppler_sigma**2 + (echoes.error[:, 0] * azimuth) ** 2 + (echoes.error[:, 1] * elevation) ** 2
    )
    return variance


def fit(echoes: Echoes, velocity: np.ndarray, doppler_sigma: float, options: VelocitySection) -> Fit | None:
    """The velocity at which the points near a velocity are at rest; None if there are too few of them.

    Args:
        velocity: f8 (3,), m/s, where the search begins.
        doppler_sigma: standard deviation of the Doppler, m/s.
    """
    direction, doppler, _ = echoes
    both = np.column_stack([direction, -doppler])
    for _ in range(_ITERATIONS):
        prior = float(vertical_sigma(velocity, options.vertical, options.pitch))
        sigma = np.sqrt(residual_variance(echoes, velocity, doppler_sigma))
        residual = (doppler + matmul(direction, velocity)) / sigma
        inlier = np.abs(residual) < OUTLIER
        if np.count_nonzero(inlier) < options.min_inliers:
            return None
        # Tukey's biweight: the larger a residual, the smaller its weight.
        weight = np.where(inlier, (1 - (residual / OUTLIER) ** 2) ** 2, 0) / sigma**2
        product = matmul(direction.T, both * weight[:, None])
        velocity = solve(information(product[:, :3], prior), product[:, 3])
    return Fit(velocity, weight, prior, residual, inlier)


def information(matrix: np.ndarray, prior: float) -> np.ndarray:
    """Information of weighted least squares with a prior of no vertical motion, f8 (3, 3), s2/m2.

    Args:
        matrix: that of the points alone, which is changed.
        prior: its standard deviation, m/s.
    """
    matrix.flat[::4] += _REGULARISATION
    matrix[2, 2] += 1 / prior**2
    return matrix


def level_velocities(direction: np.ndarray, doppler: np.ndarray, pairs: np.ndarray, least_angle: float) -> np.ndarray:
    """Level velocities at which both points of a pair would be at rest, f8 (velocity, 3), m/s.

    Args:
        direction: f8 (point, 3), unit vectors; doppler: f8 (point,), m/s.
        pairs: i8 (2, pair), numbers of points; least_angle: sine of the smallest angle between the two of a pair.
    """
    first, second = direction[pairs, :2]
    cross = first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]
    usable = np.abs(cross) > least_angle
    first, second, cross = first[usable], second[usable], cross[usable]
    a, b = -doppler[pairs[:, usable]]
    level = np.stack([a * second[:, 1] - b * first[:, 1], b * first[:, 0] - a * second[:, 0]], axis=-1) / cross[:, None]
    return np.append(level, np.zeros((len(level), 1)), axis=1)
