"""The radar against xwr: a single target appears in its range, Doppler, azimuth and elevation bin, signs included."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.constants import speed_of_light
from xwr.rsp import numpy as xwr

from rover_pipeline.simulate.presets import Chirps
from rover_pipeline.simulate.scene.world import Light, World
from rover_pipeline.simulate.sensors import radar
from rover_pipeline.simulate.sensors.radar import NODES, Paths, Scatterers, paths

DEVICES: dict[str, Any] = {
    "AWR1843": xwr.AWR1843Boost,
    "AWR1843AOP": xwr.AWR1843AOP,
    "AWR1642": xwr.AWR1642Boost,
    "AWR2944": xwr.AWR2944EVM,
}
ALL_DEVICES = pytest.mark.parametrize("device", list(DEVICES))
EMPTY = World([], Light(np.array([0.0, 0.0, 1.0]), 0.0, np.zeros((0, 3)), 0.3, (0.0, 0.0, 0.0), 100.0))
AZIMUTH_BINS, ELEVATION_BINS = 64, 32


@cache
def processor(device: str) -> Any:
    return DEVICES[device](window=False, size={"azimuth": AZIMUTH_BINS, "elevation": ELEVATION_BINS})


def chirps(device: Any) -> Chirps:
    return Chirps(
        device=device, idle_time=20.0, ramp_end_time=59.0, freq_slope=67.012, adc_samples=128, sample_rate=5000,
        frame_length=16,
    )  # fmt: skip


def echo(chirp: Chirps, target: tuple[float, float, float], velocity: tuple[float, float, float] = (0, 0, 0)) -> Paths:
    """The path from a radar at the origin that looks along x to one point; `velocity` is that of the radar."""
    point = Scatterers(
        np.array([target]), -np.array([target]) / np.linalg.norm(target), np.ones(1), np.zeros(1), np.array([-1])
    )
    times = NODES * chirp.duration
    pos = times[:, None] * np.array(velocity, "f8")
    return paths(EMPTY, point, times, pos, np.broadcast_to(np.eye(3), (4, 3, 3)), 20.0)


def spectrum(chirp: Chirps, path: Paths) -> np.ndarray:
    """xwr's magnitudes of a recorded frame, (Doppler, elevation, azimuth, range)."""
    words = radar.digitize(radar.synthesize(chirp, path), chirp.is_real, np.random.default_rng(0))
    power: np.ndarray = np.abs(processor(chirp.device)(words[None])[0])
    return power


@ALL_DEVICES
@pytest.mark.parametrize("distance", [0.8, 2.5, 5.0])
def test_a_target_appears_in_its_range_bin(device: str, distance: float) -> None:
    chirp = chirps(device)
    power = spectrum(chirp, echo(chirp, (distance, 0.0, 0.0))).max(axis=(0, 1, 2))
    assert abs(power.argmax() - distance / chirp.range_resolution) <= 0.6


@ALL_DEVICES
@pytest.mark.parametrize("approaching", [2.0, -1.2, 0.0])
def test_an_approaching_target_appears_below_the_middle_of_the_doppler_axis(device: str, approaching: float) -> None:
    chirp = chirps(device)
    power = spectrum(chirp, echo(chirp, (4.0, 0.0, 0.0), (approaching, 0.0, 0.0))).max(axis=(1, 2, 3))
    measured = (power.argmax() - chirp.frame_length // 2) * chirp.doppler_resolution
    assert measured == pytest.approx(-approaching, abs=0.6 * chirp.doppler_resolution)


@ALL_DEVICES
@pytest.mark.parametrize("right", [-40.0, -15.0, 0.0, 25.0, 50.0])
def test_azimuth_bins_increase_to_the_right(device: str, right: float) -> None:
    chirp, angle = chirps(device), np.radians(right)
    power = spectrum(chirp, echo(chirp, (4 * np.cos(angle), -4 * np.sin(angle), 0.0))).max(axis=(0, 1, 3))
    measured = (power.argmax() - AZIMUTH_BINS / 2) / (AZIMUTH_BINS / 2)
    assert measured == pytest.approx(np.sin(angle), abs=1.5 / AZIMUTH_BINS)


@pytest.mark.parametrize("device", ["AWR1843", "AWR1843AOP", "AWR2944"])
@pytest.mark.parametrize("above", [-9.0, 4.0, 9.0])
def test_elevation_bins_increase_upward(device: str, above: float) -> None:
    chirp, angle = chirps(device), np.radians(above)
    power = spectrum(chirp, echo(chirp, (4 * np.cos(angle), 0.0, 4 * np.sin(angle)))).max(axis=(0, 2, 3))
    # xwr's axis is that of an FFT, except for the AWR2944, where it runs from -1 to 1 inclusive. The rows of that board
    # are 0.8 wavelengths apart, so sines that differ by 1.25 are ambiguous.
    last = ELEVATION_BINS - 1 if device == "AWR2944" else ELEVATION_BINS
    measured = 2 * power.argmax() / last - 1
    assert measured == pytest.approx(np.sin(angle), abs=1.5 / ELEVATION_BINS)


@ALL_DEVICES
def test_transmitters_fire_one_after_another_so_a_moving_target_changes_phase_between_them(device: str) -> None:
    chirp = chirps(device)
    speed = 1.0
    signal = radar.synthesize(chirp, echo(chirp, (4.0, 0.0, 0.0), (-speed, 0.0, 0.0)))
    middle = signal[:, :, 0, chirp.adc_samples // 2]
    phase_step = np.angle(np.mean(middle[:, 1:] * middle[:, :-1].conj()))
    assert phase_step == pytest.approx(4 * np.pi * speed * chirp.ramp_period / chirp.wavelength, abs=0.01)


def test_the_gridded_sum_of_echoes_equals_the_direct_sum() -> None:
    chirp = chirps("AWR1843").model_copy(update={"frame_length": 8, "adc_samples": 256})
    rng = np.random.default_rng(5)
    start = rng.uniform(0.3, 10.0, 40)
    distance = start + np.outer(NODES, rng.uniform(-0.05, 0.05, 40)) + np.outer(NODES**3, rng.uniform(-0.01, 0.01, 40))
    many = Paths(distance, rng.uniform(-0.5, 0.5, (2, 40, 2)), rng.uniform(0.1, 1.0, 40), rng.uniform(0, 6, 40))
    signal = radar.synthesize(chirp, many)
    transmitters, receivers = chirp.antennas
    cubic: np.ndarray = np.polynomial.polynomial.polyfit(NODES, distance, 3)
    for loop, tx, rx in [(0, 0, 0), (3, 1, 2), (7, 2, 3)]:
        fraction = ((3 * loop + tx) * chirp.ramp_period + chirp.middle_sample) / chirp.duration
        instants = (np.arange(256) - 128) / (chirp.sample_rate * 1e3)
        d = np.array([1.0, fraction, fraction**2, fraction**3]) @ cubic
        speed = np.array([0.0, 1.0, 2 * fraction, 3 * fraction**2]) @ cubic / chirp.duration
        direction = many.direction[0] + fraction * (many.direction[1] - many.direction[0])
        side = direction @ (transmitters[tx] + receivers[rx])
        cycles = 2 * d * chirp.centre_frequency / speed_of_light - side
        beat = 2 * (d * chirp.slope + speed * chirp.centre_frequency) / speed_of_light
        strength = radar.GAIN * many.amplitude * np.clip((chirp.max_range - d) / (0.1 * chirp.max_range), 0, 1)
        waves = np.exp(2j * np.pi * (cycles[:, None] + beat[:, None] * instants) + 1j * many.phase[:, None])
        np.testing.assert_allclose(signal[loop, tx, rx], strength @ waves, atol=2e-6 * strength.sum())


def test_words_are_stored_as_two_q_then_two_i_and_saturate() -> None:
    signal = np.array([1e3 + 2e3j, 3e3 + 4e3j, 5e3 - 6e3j, 1e9 - 1e9j]).reshape(1, 1, 1, 4)
    words = radar.digitize(signal, False, np.random.default_rng(0)).ravel()
    expected = [2000, 4000, 1000, 3000, -6000, -32768, 5000, 32767]
    np.testing.assert_allclose(words, expected, atol=6 * radar.NOISE)
    assert words[5] == -32768 and words[7] == 32767


def test_thermal_noise_is_white_and_of_the_stated_strength() -> None:
    words = radar.digitize(np.zeros((16, 3, 4, 256), "c16"), False, np.random.default_rng(0)).astype("f8")
    assert words.std() == pytest.approx(radar.NOISE, rel=0.01)
    assert abs(np.corrcoef(words[..., :-1].ravel(), words[..., 1:].ravel())[0, 1]) < 0.01


def test_lost_packets_leave_zeros_in_whole_packets() -> None:
    words = np.ones((16, 3, 4, 128), "i2")
    lost = radar.drop_packets(words, np.random.default_rng(3)).ravel()
    packets = np.unique(np.flatnonzero(lost == 0) // radar.PACKET_WORDS)
    assert 1 <= len(packets) <= 3
    assert not any(lost[n * radar.PACKET_WORDS : (n + 1) * radar.PACKET_WORDS].any() for n in packets)
