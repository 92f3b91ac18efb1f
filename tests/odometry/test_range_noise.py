"""The noise of ranges is what thin planes show, also where most points are on thick ones."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.odometry.registration.cross_validation import evaluate, range_noise
from rover_pipeline.odometry.registration.point_terms import NO_ERRORS
from rover_pipeline.odometry.registration.transforms import transform_rays
from rover_pipeline.odometry.spline import SplineTrajectory
from rover_pipeline.odometry.surfels import SurfelMap

OPTIONS = OdometryOptions()


def places(rng: np.random.Generator, count: int, clutter: float) -> np.ndarray:
    """Points on two walls and a floor, f8 (N, 3), and for a share of them in bodies that are 15 cm deep."""
    side, along, up = rng.uniform(-8, 8, (3, count))
    at = rng.integers(0, 3, count)
    deep = np.where(rng.random(count) < clutter, 0.15 * rng.random(count), 0.0) * np.sign(side)
    # Bodies and bare walls are on different sides.
    deep = np.where(side > 0, deep, 0.0)
    walls = np.stack([np.full(count, 6.1) + deep, side, 0.2 * up], 1), np.stack([side, 6.1 + deep, 0.2 * up], 1)
    return np.choose(at[:, None], [*walls, np.stack([side, along, -1.66 + deep], 1)])


def seen(rng: np.random.Generator, points: np.ndarray, noise: float) -> np.ndarray:
    """Points, f4 (N, 3), whose ranges from the origin have noise, m."""
    return (
        points * (1 + noise * rng.standard_normal((len(points), 1)) / np.linalg.norm(points, axis=1)[:, None])
    ).astype("f4")


@pytest.mark.parametrize("clutter", [0.0, 0.9])
@pytest.mark.parametrize("noise", [0.002, 0.006, 0.02])
def test_noise_is_found_on_thin_planes_beside_thick_ones(noise: float, clutter: float) -> None:
    rng = np.random.default_rng(1)
    surfels, still = SurfelMap(OPTIONS.voxels), SplineTrajectory.at_rest(0.0, 1.0, OPTIONS.knots)
    many = seen(rng, places(rng, 60000, clutter), noise)
    surfels.insert(transform_rays(many, np.zeros(len(many), "i4"), np.zeros((1, 3)), np.eye(3)[None]))
    options, errors = OPTIONS.model_copy(update={"range_noise": 0.05}), NO_ERRORS
    for _ in range(3):
        fits = []
        for _ in range(4):
            points = seen(rng, places(rng, 4000, clutter), noise)
            sweep = Sweep(points, np.zeros(len(points), "i4"), np.array([0.5]), 0.5)
            fits.append(evaluate(sweep, still, surfels, options, errors))
        errors = errors._replace(noise=range_noise(fits))
    # Along the normal a range is as uncertain as it is times the cosine of the incidence. Bodies add a little.
    assert 0.4 * noise < errors.noise < (1 + clutter) * noise


def test_the_noise_of_the_options_is_the_largest_and_that_of_rounding_the_smallest() -> None:
    rounding = np.spacing(np.float32(OPTIONS.max_range))
    for shown, taken in ((np.inf, OPTIONS.range_noise), (0.004, 0.004), (0.0, rounding), (0.5, OPTIONS.range_noise)):
        assert NO_ERRORS._replace(noise=shown).weights(OPTIONS, np.zeros(0)).noise == taken


def test_sweeps_without_points_show_no_noise() -> None:
    assert range_noise([]) == np.inf
