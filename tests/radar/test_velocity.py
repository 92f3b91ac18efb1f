"""The radar's own velocity: accurate on simulated motion among moving bodies, with a consistent covariance."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import chdtri

from rover_pipeline.radar.options import PointsOptions, VelocityOptions
from rover_pipeline.radar.steps import points
from rover_pipeline.radar.velocity import Velocity, ego_velocity, velocity
from tests.kit import WHOLE
from tests.radar.motion import frames
from tests.radar.scenes import chirps, texts

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
    arrays = {name: detected[name] for name in ("xyz", "doppler", "count", "certain", "deviation")}
    estimate = velocity(**arrays, options=OPTIONS, sidecar=described["sidecar"], config=described["config"])
    valid = estimate["valid"] == 1
    assert valid.mean() > 0.9
    error = (estimate["vel"] - truth)[valid]
    ahead, across, _ = np.sqrt(np.mean(error**2, axis=0))
    assert ahead <= 0.05 and across <= 0.1
    squared = np.einsum("fi,fij,fj->f", error, np.linalg.inv(estimate["cov"][valid].astype("f8")), error)
    assert 0.5 < squared.mean() / 3 < 2.0


@pytest.mark.parametrize("factor", [0.5, 0.95, 1.1, 2.0])
def test_a_speed_is_as_uncertain_as_what_the_chirps_and_the_sidecar_say_of_it_are_apart(factor: float) -> None:
    chirp = chirps("AWR1843", frame_length=64)
    motion, described = np.array([1.0, 0.2, 0.0]), texts(chirp)
    direction, doppler = world(40, motion, 0)
    arrays = {"xyz": 5 * direction[None], "doppler": factor * doppler[None], "count": np.array([40])}
    arrays |= {"certain": np.ones((1, 40)), "deviation": np.full((1, 40, 2), 0.01)}
    sidecar = json.loads(described["sidecar"])
    scaled = json.dumps({**sidecar, "doppler_resolution": factor * sidecar["doppler_resolution"]})
    found = velocity(**arrays, options=OPTIONS, sidecar=scaled, config=described["config"])
    error, cov = (found["vel"] - motion)[0], found["cov"][0].astype("f8")
    assert np.linalg.norm(error) > 0.04 and error @ np.linalg.solve(cov, error) < chdtri(3, 0.05)
    assert found["valid"][0] == (abs(factor - 1) < 0.2)
    believed = velocity(**arrays, options=OPTIONS, sidecar=scaled, config=None)
    assert error @ np.linalg.solve(believed["cov"][0].astype("f8"), error) > chdtri(3, 0.01)
    same, alone = (
        velocity(**arrays, options=OPTIONS, sidecar=json.dumps(sidecar), config=config)
        for config in (described["config"], None)
    )
    assert all((same[name] == alone[name]).all() for name in same)


def test_moving_bodies_do_not_bias_the_estimate() -> None:
    motion = np.array([0.9, -0.3, 0.05])
    direction, doppler = world(60, motion, 1)
    doppler[:20] += np.random.default_rng(2).uniform(-2, 2, 20)
    estimate = ego_velocity(direction, doppler, BIN_MPS, OPTIONS)
    assert estimate.determined and 38 <= estimate.inliers <= 45
    np.testing.assert_allclose(estimate.vel, motion, atol=0.04)


def test_a_radar_that_does_not_say_how_it_rounds_its_velocities_has_no_bins() -> None:
    motion = np.array([0.9, -0.3, 0.05])
    estimate = ego_velocity(*world(40, motion, 1), 0.0, OPTIONS)  # without a warning, which would be an error here
    assert estimate.determined
    np.testing.assert_allclose(estimate.vel, motion, atol=0.04)


def test_velocities_that_a_radar_rounds_to_whole_bins_are_no_surer_than_their_bins() -> None:
    wide = 0.125
    for speed in (0.03, 0.06, 0.2, 0.6):
        squared = []
        for seed in range(60):
            heading = np.random.default_rng(1000 + seed).uniform(0, 2 * np.pi)
            motion = speed * np.array([np.cos(heading), np.sin(heading), 0])
            direction, doppler = world(40, motion, seed, noise_mps=0.02)
            estimate = ego_velocity(direction, wide * np.round(doppler / wide), wide, OPTIONS)
            if estimate.determined:
                error = (estimate.vel - motion)[:2]
                squared.append(error @ np.linalg.inv(estimate.cov[:2, :2]) @ error / 2)
        assert len(squared) > 50
        assert np.mean(squared) < 1.5 and max(squared) < 5


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


def moved_together(motion: np.ndarray, other: np.ndarray, count: int, movers: int, seed: int) -> Velocity:
    """The estimate where `movers` of `count` points move as if they were at rest at the velocity `other`."""
    direction, doppler = world(count, motion, seed)
    doppler[:movers] -= direction[:movers] @ (other - motion)
    return ego_velocity(direction, doppler, BIN_MPS, OPTIONS)


def test_points_that_move_together_are_no_world_at_rest() -> None:
    """A truck ahead: with a third of the points it is told apart, with about half of them nothing can tell."""
    motion = np.array([2.0, 0.1, 0.0])
    for seed in range(10):
        few = moved_together(motion, np.array([5.0, 0.3, 0.0]), 40, 10, seed)
        assert few.determined
        np.testing.assert_allclose(few.vel[:2], motion[:2], atol=0.1)
        for movers in (18, 20, 22):
            assert not moved_together(motion, np.array([5.0, 0.3, 0.0]), 40, movers, seed).determined


def test_points_that_move_each_on_its_own_are_no_rival() -> None:
    motion = np.array([1.5, 0.2, 0.0])
    for seed in range(10):
        direction, doppler = world(60, motion, seed)
        doppler[:30] += np.random.default_rng([seed, 1]).uniform(-4, 4, 30)
        assert ego_velocity(direction, doppler, BIN_MPS, OPTIONS).determined


@pytest.mark.parametrize("degrees", [10, 30])
def test_a_radar_that_looks_down_among_moving_points_is_right_or_says_that_it_does_not_know(degrees: int) -> None:
    """The consensus takes the motion for level: it found points of about one elevation and some that moved."""
    tilt, determined = np.radians(degrees), 0
    for seed in range(60):
        rng = np.random.default_rng([seed, degrees, 5])
        motion = rng.uniform(1, 9) * np.array([np.cos(tilt), rng.normal(0, 0.1), -np.sin(tilt)])
        direction, doppler = world(int(rng.integers(12, 40)), motion, seed, noise_mps=0.02)
        doppler[rng.random(len(doppler)) < 0.3] += rng.uniform(-6, 6)
        estimate = ego_velocity(direction, doppler, 0.15, OPTIONS)
        if estimate.determined:
            determined += 1
            error = (estimate.vel - motion)[:2]
            assert np.linalg.norm(error) < 0.3, seed
    assert determined > 20


def test_points_at_one_direction_and_two_opinions_at_the_sides_are_ambiguous() -> None:
    """Most points agree on both velocities; those that do not are as many for one as for the other."""
    azimuth = np.radians([-0.6, -0.3, 0.0, 0.2, 0.4, 0.6, 40, 42, -40, -42])
    direction = np.stack([np.cos(azimuth), np.sin(azimuth), 0 * azimuth], axis=-1)
    doppler = -direction @ np.array([2.0, 0.4, 0.0])
    assert ego_velocity(direction, doppler, BIN_MPS, OPTIONS).determined
    doppler[8:] = -direction[8:] @ np.array([2.0, -0.9, 0.0])
    assert not ego_velocity(direction, doppler, BIN_MPS, OPTIONS).determined
