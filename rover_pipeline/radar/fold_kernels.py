"""Compiled kernels of the search for a velocity at which the points of a frame are at rest, with folded Doppler."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rover_pipeline.numerics.compiled import compiled_with_fma


@compiled_with_fma
def variance_at(vx: float, vy: float, errors: tuple[float, float]) -> Any:
    """Variance of the Doppler of a point at rest, m2/s2: of its own error, and of the direction's by the speed.

    Args:
        errors: variance of the Doppler, m2/s2, and of the direction, as a share of the squared speed.
    """
    return errors[0] + errors[1] * (vx * vx + vy * vy)


@compiled_with_fma
def rest_odds(variance: float, span: float) -> Any:
    """Logarithm of the odds that a point is at rest whose Doppler is just that of the velocity.

    A point that moves has any Doppler of the span. Without this, a fast velocity, which tells the Doppler of points
    less accurately, would explain any points.

    Args:
        variance: of the Doppler, m2/s2; span: of Doppler, m/s, times the odds that a point is at rest.
    """
    return max(math.log(span / math.sqrt(2 * math.pi * variance)), 0.0)


@compiled_with_fma
def rest_scores(
    direction: np.ndarray,
    doppler: np.ndarray,
    likelihood: np.ndarray,
    velocities: np.ndarray,
    errors: tuple[float, float],
    span: float,
    pitch: float,
    scores: np.ndarray,
) -> None:
    """How much better each velocity explains the points than that none of them is at rest.

    Args:
        direction: f8 (point, fold, 3), unit vectors; doppler, likelihood: f8 (point, fold), m/s, logarithm.
        velocities: f8 (velocity, 3), front-left-up, m/s.
        errors: see `variance_at`; span: see `rest_odds`.
        pitch: what the vertical velocity may be off by, as a share of the speed; 0 = it is known.
        scores: f8 (velocity,), result.
    """
    points, folds = doppler.shape
    for n in range(len(velocities)):
        vx, vy, vz = velocities[n, 0], velocities[n, 1], velocities[n, 2]
        variance = variance_at(vx, vy, errors)
        odds = rest_odds(variance, span)
        vertical = pitch * pitch * (vx * vx + vy * vy)
        total = 0.0
        for p in range(points):
            best = -odds
            for k in range(folds):
                if likelihood[p, k] > best:
                    up = direction[p, k, 2]
                    residual = doppler[p, k] + vx * direction[p, k, 0] + vy * direction[p, k, 1] + vz * up
                    square = residual * residual / (variance + vertical * up * up)
                    best = max(best, likelihood[p, k] - 0.5 * square)
            total += best + odds
        scores[n] = total


@compiled_with_fma
def refine_rest(
    direction: np.ndarray,
    doppler: np.ndarray,
    likelihood: np.ndarray,
    errors: tuple[float, float],
    span: float,
    vertical: float,
    velocity: np.ndarray,
) -> None:
    """Replaces a velocity, f8 (3,), by that of least squares over the points at rest at it; see `rest_scores`.

    Args:
        vertical: prior standard deviation of the vertical velocity, m/s.
    """
    points, folds = doppler.shape
    for _ in range(3):
        vx, vy, vz = velocity[0], velocity[1], velocity[2]
        variance = variance_at(vx, vy, errors)
        weight, odds = 0.5 / variance, rest_odds(variance, span)
        prior = variance / (vertical * vertical)
        # The prior of 1e-3 about the level velocity so far only keeps the matrix regular.
        xx, xy, yy, xz, yz, zz = 1e-3, 0.0, 1e-3, 0.0, 0.0, prior
        x, y, z, count = 0.0, 0.0, prior * vz, 0
        for p in range(points):
            least, at, off = odds, -1, 0.0
            for k in range(folds):
                residual = doppler[p, k] + vx * direction[p, k, 0] + vy * direction[p, k, 1] + vz * direction[p, k, 2]
                total = weight * residual * residual - likelihood[p, k]
                if total < least:
                    least, at, off = total, k, residual
            if at >= 0:
                a, b, c = direction[p, at, 0], direction[p, at, 1], direction[p, at, 2]
                xx += a * a
                xy += a * b
                yy += b * b
                xz += a * c
                yz += b * c
                zz += c * c
                x += a * off
                y += b * off
                z += c * off
                count += 1
        if count < 3:
            break
        # The vertical velocity is eliminated first: the prior keeps its diagonal above zero.
        xx, xy, yy = xx - xz * xz / zz, xy - xz * yz / zz, yy - yz * yz / zz
        x, y = x - xz * z / zz, y - yz * z / zz
        determinant = xx * yy - xy * xy
        forward, left = (yy * x - xy * y) / determinant, (xx * y - xy * x) / determinant
        velocity[0] -= forward
        velocity[1] -= left
        velocity[2] -= (z - xz * forward - yz * left) / zz
