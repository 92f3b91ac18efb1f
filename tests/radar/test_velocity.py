"""The radar's own velocity: right on the simulated motions among moving bodies, honest about its errors."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.radar.ego_motion import velocity
from rover_pipeline.radar.options import PointsOptions, VelocityOptions
from rover_pipeline.radar.steps import points
from rover_pipeline.radar.velocity import ego_velocity
from tests.radar.motion import frames
from tests.radar.scenes import texts

BIN_MPS = 0.05
OPTIONS = VelocityOptions()


def world(
    count: int, moves: np.ndarray, seed: int, *, degrees: float = 55.0, noise_mps: float = 0.01
) -> tuple[np.ndarray, np.ndarray]:
    """Directions and Doppler of points at rest, as a radar that moves sees them."""
    rng = np.random.default_rng(seed)
    azimuth, elevation = np.radians(rng.uniform(-degrees, degrees, count)), np.radians(rng.uniform(-10, 10, count))
    level = np.cos(elevation)
    direction = np.stack([level * np.cos(azimuth), level * np.sin(azimuth), np.sin(elevation)], axis=-1)
    return direction, -direction @ moves + rng.normal(0, noise_mps, count)


@pytest.mark.parametrize("preset", ["indoor", "outdoor", "bike"])
def test_the_velocity_of_simulated_motion_is_found_and_its_covariance_is_honest(preset: str) -> None:
    chirp, iq, truth = frames(preset, np.arange(1.7, 28.0, 0.65), seed=2)
    described = texts(chirp)
    seen = points(iq, np.ones(len(iq), "u1"), options=PointsOptions(), **described)
    del seen["snr"]
    found = velocity(**seen, options=OPTIONS, sidecar=described["sidecar"])
    valid = found["valid"] == 1
    assert valid.mean() > 0.9
    error = (found["vel"] - truth)[valid]
    ahead, across, _ = np.sqrt(np.mean(error**2, axis=0))
    assert ahead <= 0.05 and across <= 0.1
    squared = np.einsum("fi,fij,fj->f", error, np.linalg.inv(found["cov"][valid].astype("f8")), error)
    assert 0.5 < squared.mean() / 3 < 2.0


def test_bodies_that_move_do_not_pull_the_estimate() -> None:
    moves = np.array([0.9, -0.3, 0.05])
    direction, doppler = world(60, moves, 1)
    doppler[:20] += np.random.default_rng(2).uniform(-2, 2, 20)
    found = ego_velocity(direction, doppler, BIN_MPS, OPTIONS)
    assert found.determined and 38 <= found.inliers <= 45
    np.testing.assert_allclose(found.vel, moves, atol=0.04)


def test_the_normalised_error_squared_is_what_it_should_be() -> None:
    ratios = []
    for seed in range(60):
        moves = np.random.default_rng([9, seed]).normal(0, [0.8, 0.3, 0.1])
        found = ego_velocity(*world(40, moves, seed), BIN_MPS, OPTIONS)
        error = found.vel - moves
        ratios.append(error @ np.linalg.solve(found.cov, error) / 3)
    assert 0.5 < np.mean(ratios) < 2.0


def test_points_in_one_direction_do_not_determine_the_velocity() -> None:
    found = ego_velocity(*world(40, np.array([1.0, 0.0, 0.0]), 3, degrees=1.0), BIN_MPS, OPTIONS)
    assert not found.determined


def test_points_that_contradict_one_another_do_not_determine_it() -> None:
    direction, _ = world(40, np.zeros(3), 4)
    found = ego_velocity(direction, np.random.default_rng(5).uniform(-5, 5, 40), BIN_MPS, OPTIONS)
    assert not found.determined


def test_few_points_give_no_number_at_all() -> None:
    found = ego_velocity(*world(4, np.array([1.0, 0.0, 0.0]), 6), BIN_MPS, OPTIONS)
    assert not found.determined and np.isnan(found.vel).all() and np.isnan(found.cov).all()


def test_without_elevation_the_vertical_velocity_is_as_unsure_as_before() -> None:
    direction, _ = world(40, np.zeros(3), 7)
    direction[:, 2] = 0
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    found = ego_velocity(direction, -direction @ np.array([1.0, 0.2, 0.0]), BIN_MPS, OPTIONS)
    assert found.determined
    assert found.vel[2] == pytest.approx(0, abs=1e-9)
    assert np.sqrt(found.cov[2, 2]) == pytest.approx(OPTIONS.vertical, rel=0.01)
