"""Faults of the simulated radar: ghosts below the floor, phase noise, a carrier that the antennas are not made for."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.simulate.faults import Unkind
from rover_pipeline.simulate.presets import DESIGN_GHZ, Chirps
from rover_pipeline.simulate.sensors import radar
from rover_pipeline.simulate.sensors.radar import RadarErrors, with_ghosts
from tests.simulate.test_radar import chirps, echo

LEVEL = np.broadcast_to(np.eye(3), (4, 3, 3))


def beat(chirp: Chirps, target: tuple[float, float, float]) -> np.ndarray:
    """The signal of one target without noise, c16 (chirp, tx, rx, sample)."""
    return radar.synthesize(chirp, echo(chirp, target))


@pytest.mark.parametrize("height", [0.3, 1.2])
def test_a_ghost_is_as_far_as_the_mean_of_both_ways_and_below_the_horizon(height: float) -> None:
    target = np.array([3.0, 0.5, 0.4])
    both = with_ghosts(echo(chirps("AWR1843"), tuple(target)), np.full(4, height), LEVEL, 0.3)
    image = target - [0, 0, 2 * (height + target[2])]
    straight, reflected = np.linalg.norm(target), np.linalg.norm(image)
    np.testing.assert_allclose(both.distance, np.tile([straight, (straight + reflected) / 2], (4, 1)), atol=1e-9)
    np.testing.assert_allclose(both.direction[:, 1], np.tile(image[1:] / reflected, (2, 1)), atol=1e-9)
    assert both.direction[0, 1, 1] < 0
    assert both.amplitude[1] == pytest.approx(0.3 * both.amplitude[0])
    # The floor turns the wave by half of a cycle.
    assert np.exp(1j * (both.phase[1] - both.phase[0])) == pytest.approx(-1)


def test_the_ghost_of_a_radar_that_is_pitched_is_below_the_same_floor() -> None:
    angle = np.radians(20)
    pitched = np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])
    in_scene = np.array([3.0, 0.5, 0.4])
    seen = echo(chirps("AWR1843"), tuple(pitched.T @ in_scene))
    ghost = with_ghosts(seen, np.full(4, 1.0), np.broadcast_to(pitched, (4, 3, 3)), 1.0)
    image = pitched.T @ (in_scene - [0, 0, 2 * 1.4])
    np.testing.assert_allclose(ghost.direction[0, 1], image[1:] / np.linalg.norm(image), atol=1e-9)


def test_phase_noise_of_the_chirps_spreads_a_target_over_doppler_by_its_variance() -> None:
    chirp = chirps("AWR1843").model_copy(update={"frame_length": 256})
    errors = RadarErrors.of_board(chirp, Unkind(phase_noise=0.05, radar_coupling=500.0), np.random.default_rng(0))
    signal = beat(chirp, (3.0, 0.0, 0.0))
    noisy = errors.applied(signal, np.random.default_rng(1)) - errors.coupling
    doppler = np.abs(np.fft.fft(noisy, axis=0)) ** 2
    spread = doppler[1:].sum() / doppler.sum()
    assert spread == pytest.approx(0.05**2, rel=0.1)
    # What is sent and what couples have the same noise: the coupling is the same in every chirp.
    quiet = errors.applied(np.zeros_like(signal), np.random.default_rng(1))
    assert np.ptp(np.abs(quiet), axis=0).max() < 1e-9 and np.abs(quiet).max() > 100


@pytest.mark.parametrize("shift", [-1.0, 0.0, 2.0])
def test_the_phase_between_antennas_is_that_of_the_carrier_and_not_of_the_design(shift: float) -> None:
    chirp = chirps("AWR1642")
    chirp = chirp.model_copy(update={"frequency": chirp.frequency + shift})
    direction = np.array([np.cos(0.5), -np.sin(0.5), 0.0])
    signal = beat(chirp, tuple(4.0 * direction))
    middle = signal.shape[-1] // 2
    steps = np.angle(signal[:, 0, 1:, middle] * signal[:, 0, :-1, middle].conj())
    hertz = chirp.frequency * 1e9 + chirp.freq_slope * 1e12 * (
        (chirp.adc_start_time or 0) * 1e-6 + middle / (chirp.sample_rate * 1e3)
    )
    expected = np.pi * np.sin(0.5) * hertz / (DESIGN_GHZ * 1e9)
    np.testing.assert_allclose(np.abs(steps), expected, rtol=2e-3)
