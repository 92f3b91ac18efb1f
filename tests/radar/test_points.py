"""Points: all targets of a scene at their positions and nothing else; and the detection of xwr."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.ndimage import rank_filter

from rover_pipeline.radar.detect import Cells, ca_noise, sidelobe_envelope
from rover_pipeline.radar.options import PointsOptions
from rover_pipeline.radar.spectrum import unit_gain_window
from rover_pipeline.radar.steps import points
from rover_pipeline.simulate.presets import Chirps
from rover_pipeline.simulate.sensors.radar import NOISE
from tests.radar.scenes import Target, chirps, texts, words

DEVICES = ("AWR1843", "AWR1843AOP", "AWR1642", "AWR2944")


def os_noise(power: np.ndarray, guard: Cells, train: Cells, rank: float) -> np.ndarray:
    """Noise estimate of OS-CFAR, f8 (doppler, range), by SciPy: that of `find_os_peaks` in many times its time."""
    outer = [2 * (g + t) + 1 for g, t in zip(guard, train, strict=True)]
    ring = np.ones(outer, bool)
    ring[train[0] : outer[0] - train[0], train[1] : outer[1] - train[1]] = False
    edge = guard[0] + train[0]
    padded = np.pad(power.astype("f8"), ((edge, edge), (0, 0)), mode="wrap")
    index = min(int(rank * ring.sum()), int(ring.sum()) - 1)
    return rank_filter(padded, index, footprint=ring, mode="reflect")[edge : edge + len(power)]


def scene(chirp: Chirps, seed: int, count: int = 12) -> list[Target]:
    """Targets 15 to 40 dB above the noise of a cell, at least four bins apart along range or Doppler."""
    rng = np.random.default_rng(seed)
    sizes = (chirp.frame_length, chirp.adc_samples)
    hann = np.sqrt(np.prod([np.square(unit_gain_window(size, "hann")).sum() for size in sizes]))
    noise = NOISE * hann * (1 if chirp.is_real else np.sqrt(2))
    fastest = chirp.doppler_resolution * (chirp.frame_length / 2 - 2)
    targets: list[Target] = []
    while len(targets) < count:
        target = Target(
            range_m=rng.uniform(0.8, 0.85 * chirp.max_range),
            azimuth=np.radians(rng.uniform(-55, 55)),
            elevation=np.radians(rng.uniform(-8, 8)),
            velocity_mps=rng.uniform(-fastest, fastest),
            # A real wave of amplitude a has a / 2 at positive frequencies.
            counts=noise * 10 ** (rng.uniform(15, 40) / 20) * (2 if chirp.is_real else 1),
        )
        distances = (
            max(
                abs(target.range_m - other.range_m) / chirp.range_resolution,
                abs(target.velocity_mps - other.velocity_mps) / chirp.doppler_resolution,
            )
            for other in targets
        )
        if all(bins > 4 for bins in distances):
            targets.append(target)
    return targets


def run(chirp: Chirps, iq: np.ndarray, **options: Any) -> dict[str, np.ndarray]:
    """The points of one frame, `xyz`, `doppler` and `snr` without the padding."""
    result = points(iq[None], np.ones(1, "u1"), options=PointsOptions(**options), **texts(chirp))
    return {name: result[name][0, : result["count"][0]].astype("f8") for name in ("xyz", "doppler", "snr")}


@pytest.mark.parametrize(("device", "cfar"), [*((device, "os") for device in DEVICES), ("AWR1843", "ca")])
def test_twelve_targets_are_detected_at_their_positions_and_nothing_else(device: str, cfar: str) -> None:
    chirp = chirps(device, frame_length=64, adc_samples=256)
    hits = missed = false = 0
    errors = []
    for seed in range(6):
        targets = scene(chirp, seed)
        detected = run(chirp, words(chirp, targets, seed), cfar=cfar)
        distance = np.linalg.norm(detected["xyz"], axis=1)
        azimuth = np.arctan2(-detected["xyz"][:, 1], detected["xyz"][:, 0])
        taken: set[int] = set()
        for target in targets:
            bins = np.stack(
                [
                    (distance - target.range_m) / chirp.range_resolution,
                    (detected["doppler"] - target.velocity_mps) / chirp.doppler_resolution,
                ]
            )
            nearest = int(np.abs(bins).max(axis=0).argmin())
            if np.abs(bins[:, nearest]).max() > 2 or nearest in taken:
                missed += 1
                continue
            taken.add(nearest)
            errors.append([*bins[:, nearest], np.degrees(azimuth[nearest] - target.azimuth)])
        hits, false = hits + len(taken), false + len(distance) - len(taken)
    assert hits / (hits + missed) >= (0.9 if cfar == "ca" else 0.95)
    assert hits / (hits + false) >= 0.9
    in_range, in_doppler, degrees = np.median(np.abs(errors), axis=0)
    assert in_range < 0.1 and in_doppler < 0.1 and degrees < 0.5


@pytest.mark.parametrize("device", ["AWR1843", "AWR1843AOP", "AWR2944"])
@pytest.mark.parametrize("degrees", [-15.0, 0.0, 20.0])
def test_boards_with_two_rows_or_more_measure_the_elevation(device: str, degrees: float) -> None:
    chirp = chirps(device)
    target = Target(2.0, azimuth=0.3, elevation=np.radians(degrees), velocity_mps=0.7)
    detected = run(chirp, words(chirp, [target]))
    np.testing.assert_allclose(detected["xyz"][0], 2.0 * target.direction, atol=0.05)


def test_a_weak_target_beside_a_strong_one_is_not_rejected_as_its_sidelobe() -> None:
    chirp = chirps()
    strong = Target(2.0, velocity_mps=0.5, counts=5000)
    weak = Target(2.0 + 6 * chirp.range_resolution, velocity_mps=0.5, azimuth=0.4, counts=50)
    detected = run(chirp, words(chirp, [strong, weak]))
    np.testing.assert_allclose(np.linalg.norm(detected["xyz"], axis=1), [strong.range_m, weak.range_m], atol=0.03)


def test_noise_alone_gives_at_most_one_point_in_20_frames() -> None:
    chirp = chirps()
    rng = np.random.default_rng(0)
    iq = np.rint(rng.normal(0, 300, (20, *chirp.shape[:3], chirp.words))).astype("i2")
    result = points(iq, np.ones(20, "u1"), options=PointsOptions(), **texts(chirp))
    assert result["count"].sum() <= 1


def test_an_incomplete_frame_has_no_points() -> None:
    chirp = chirps()
    iq = np.stack([words(chirp, [Target(2.0)])] * 2)
    result = points(iq, np.array([1, 0], "u1"), options=PointsOptions(), **texts(chirp))
    np.testing.assert_array_equal(result["count"], [1, 0])
    assert np.isnan(result["xyz"][1]).all() and np.isnan(result["doppler"][1]).all()
    assert np.isnan(result["snr"][0, 1:]).all() and np.isfinite(result["snr"][0, 0])


def test_the_points_of_the_highest_snr_are_kept() -> None:
    chirp = chirps(frame_length=64, adc_samples=256)
    iq = words(chirp, scene(chirp, 3))
    unlimited, limited = run(chirp, iq), run(chirp, iq, max_points=4)
    np.testing.assert_array_equal(limited["snr"], unlimited["snr"][:4])
    assert (np.diff(unlimited["snr"]) <= 0).all()


def test_points_without_the_size_of_bins_are_refused() -> None:
    chirp = chirps()
    iq = words(chirp, [Target(2.0)])[None]
    with pytest.raises(ValueError, match="range_resolution"):
        points(iq, np.ones(1, "u1"), options=PointsOptions(board="AWR1843"), sidecar='{"shape": [32, 3, 4, 128]}')


def test_cell_averaging_cfar_detects_the_same_cells_as_xwr() -> None:
    xwr = pytest.importorskip("xwr.rsp.numpy.spectrum", reason="xwr is in the extra `bench`")
    rng = np.random.default_rng(4)
    amplitude = rng.rayleigh(1.0, (64, 256)).astype("f4")
    amplitude[rng.integers(0, 64, 20), rng.integers(0, 256, 20)] *= 10 ** rng.uniform(1, 4, 20)
    expected = xwr.CACFAR(guard=(3, 2), train=(8, 4), snr_thresh=6.0, discard_range=(0, 0))(amplitude[None])
    power = amplitude.astype("f8") ** 2 + 1
    noise = ca_noise(power, (2, 3), (4, 8))
    inside = slice(6, -6)  # the Doppler axis of xwr is not periodic
    np.testing.assert_array_equal((power > 6.0 * noise)[inside].T, expected.mask[0][:, inside])
    assert expected.mask[0][:, inside].sum() > 10


def test_noise_estimates_of_constant_power_are_that_power() -> None:
    flat, guard, train = np.full((32, 64), 5.0, "f4"), (1, 1), (3, 4)
    for noise in (ca_noise(flat, guard, train), os_noise(flat, guard, train, 0.6)):
        np.testing.assert_allclose(noise, 5.0)


def test_the_doppler_axis_is_periodic() -> None:
    power = np.random.default_rng(5).exponential(1.0, (32, 64)).astype("f4")
    for estimate in (ca_noise, lambda p, guard, train: os_noise(p, guard, train, 0.6)):
        shifted = estimate(np.roll(power, 9, axis=0), (1, 2), (3, 4))
        np.testing.assert_allclose(shifted, np.roll(estimate(power, (1, 2), (3, 4)), 9, axis=0), rtol=1e-9)


def test_a_strong_neighbour_raises_ca_cfar_but_not_os_cfar() -> None:
    power = np.ones((32, 64), "f4")
    power[16, 36] = 1e4
    tested = (16, 32)
    assert ca_noise(power, (1, 1), (3, 6))[tested] > 50
    assert os_noise(power, (1, 1), (3, 6), 0.6)[tested] == 1


@pytest.mark.parametrize("window", ["hann", "none"])
def test_sidelobes_of_a_tone_stay_within_6_db_of_their_envelope(window: str) -> None:
    bins = np.arange(1.0, 30.0, 0.05)
    weights = unit_gain_window(64, window)
    levels = np.abs(np.exp(-2j * np.pi * np.outer(bins, np.arange(64)) / 64) @ weights)
    assert (levels <= 2 * sidelobe_envelope(bins, window)).all()
