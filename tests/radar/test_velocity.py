"""The radar's own velocity: accurate on simulated motion among moving bodies, with a consistent covariance."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.radar.options import PointsOptions, VelocityOptions
from rover_pipeline.radar.steps import points
from rover_pipeline.radar.velocity import ego_velocity, velocity
from tests.kit import WHOLE
from tests.radar.motion import frames
from tests.radar.scenes import texts

BIN_MPS = 0.05
OPTIONS = VelocityOptions()


def world(
    count: int, motion: np.ndarray, seed: int, *, degrees: float = 55.0, noise_mps: float = 0.01
) -> tuple[np.ndarray, np.ndarray]:
    """Directions and Doppler of static points, as measured by a radar with the velocity `motion`."""
    rng = np.random.default_rng(seed)
    azimuth, elevation = np.radians(rng.uniform(-degrees, degrees, count)), np.radians(rng.uniform(-10, 10, count))
    level = np.cos(elevation)
    direction = np.stack([level * np.cos(azimuth), level * np.sin(azimuth), np.sin(elevation)], axis=-1)
    return direction, -direction @ motion + rng.normal(0, noise_mps, count)


@pytest.mark.parametrize("preset", ["indoor", "outdoor", "bike"] if WHOLE else ["bike"])
def test_the_velocity_of_simulated_motion_is_accurate_and_its_covariance_is_consistent(preset: str) -> None:
    chirp, iq, truth = frames(preset, np.arange(1.7, 28.0, 0.65 if WHOLE else 1.3), seed=2)
    described = texts(chirp)
    detected = points(iq, np.ones(len(iq), "u1"), options=PointsOptions(), **described)
    arrays = {name: detected[name] for name in ("xyz", "doppler", "count", "certain")}
    estimate = velocity(**arrays, options=OPTIONS, sidecar=described["sidecar"])
    valid = estimate["valid"] == 1
    assert valid.mean() > 0.9
    error = (estimate["vel"] - truth)[valid]
    ahead, across, _ = np.sqrt(np.mean(error**2, axis=0))
    assert ahead <= 0.05 and across <= 0.1
    squared = np.einsum("fi,fij,fj->f", error, np.linalg.inv(estimate["cov"][valid].astype("f8")), error)
    assert 0.5 < squared.mean() / 3 < 2.0


def test_moving_bodies_do_not_bias_the_estimate() -> None:
    motion = np.array([0.9, -0.3, 0.05])
    direction, doppler = world(60, motion, 1)
    doppler[:20] += np.random.default_rng(2).uniform(-2, 2, 20)
    estimate = ego_velocity(direction, doppler, BIN_MPS, OPTIONS)
    assert estimate.determined and 38 <= estimate.inliers <= 45
    np.testing.assert_allclose(estimate.vel, motion, atol=0.04)


def test_a_fast_radar_that_looks_up_is_no_contradiction() -> None:
    motion = 4.8 * np.array([np.cos(0.2), 0.1, np.sin(0.2)])
    errors = []
    for seed in range(10):
        estimate = ego_velocity(*world(20, motion, seed), 0.3, OPTIONS)
        assert estimate.determined and estimate.inliers > 17
        errors.append(estimate.vel[:2] - motion[:2])
    assert np.sqrt(np.mean(np.square(errors))) < 0.05


def test_the_mean_normalised_squared_error_is_one() -> None:
    ratios = []
    for seed in range(60):
        motion = np.random.default_rng([9, seed]).normal(0, [0.8, 0.3, 0.1])
        estimate = ego_velocity(*world(40, motion, seed), BIN_MPS, OPTIONS)
        error = estimate.vel - motion
        ratios.append(error @ np.linalg.solve(estimate.cov, error) / 3)
    assert 0.5 < np.mean(ratios) < 2.0


def test_points_in_one_direction_do_not_determine_the_velocity() -> None:
    estimate = ego_velocity(*world(40, np.array([1.0, 0.0, 0.0]), 3, degrees=1.0), BIN_MPS, OPTIONS)
    assert not estimate.determined


def test_contradicting_points_do_not_determine_the_velocity() -> None:
    direction, _ = world(40, np.zeros(3), 4)
    estimate = ego_velocity(direction, np.random.default_rng(5).uniform(-5, 5, 40), BIN_MPS, OPTIONS)
    assert not estimate.determined


def test_too_few_points_give_nan() -> None:
    estimate = ego_velocity(*world(4, np.array([1.0, 0.0, 0.0]), 6), BIN_MPS, OPTIONS)
    assert not estimate.determined and np.isnan(estimate.vel).all() and np.isnan(estimate.cov).all()


def test_points_without_elevation_leave_the_prior_of_the_vertical_velocity() -> None:
    direction, _ = world(40, np.zeros(3), 7)
    direction[:, 2] = 0
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    doppler = -direction @ np.array([1.0, 0.2, 0.0])
    estimate = ego_velocity(direction, doppler, BIN_MPS, OPTIONS)
    assert estimate.determined
    assert estimate.vel[2] == pytest.approx(0, abs=1e-9)
    prior = np.hypot(OPTIONS.vertical, OPTIONS.pitch * np.hypot(1.0, 0.2))
    assert np.sqrt(estimate.cov[2, 2]) == pytest.approx(prior, rel=0.01)
