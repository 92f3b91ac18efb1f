"""Points: the targets of a scene, all of them and nothing else, where they are; and detection beside xwr's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rover_pipeline.radar.detect import cell_averaging, envelope, ordered_statistic, smallest_of
from rover_pipeline.radar.options import PointsOptions
from rover_pipeline.radar.spectrum import taper
from rover_pipeline.radar.steps import points
from rover_pipeline.simulate.sensors.chirps import Chirps
from rover_pipeline.simulate.sensors.radar import NOISE
from tests.radar.scenes import Target, chirps, texts, words

DEVICES = ("AWR1843", "AWR1843AOP", "AWR1642", "AWR2944")


def scene(chirp: Chirps, seed: int, count: int = 12) -> list[Target]:
    """Targets 15 to 40 dB above the noise of a cell, at least four bins apart along range or Doppler."""
    rng = np.random.default_rng(seed)
    hann = np.sqrt(
        np.square(taper(chirp.frame_length, "hann")).sum() * np.square(taper(chirp.adc_samples, "hann")).sum()
    )
    noise = NOISE * hann * (1 if chirp.is_real else np.sqrt(2))
    fastest = chirp.doppler_resolution * (chirp.frame_length / 2 - 2)
    found: list[Target] = []
    while len(found) < count:
        target = Target(
            range_m=rng.uniform(0.8, 0.85 * chirp.max_range),
            azimuth=np.radians(rng.uniform(-55, 55)),
            elevation=np.radians(rng.uniform(-8, 8)),
            velocity_mps=rng.uniform(-fastest, fastest),
            # A real wave of amplitude a has a / 2 at positive frequencies.
            counts=noise * 10 ** (rng.uniform(15, 40) / 20) * (2 if chirp.is_real else 1),
        )
        apart = (
            max(
                abs(target.range_m - other.range_m) / chirp.range_resolution,
                abs(target.velocity_mps - other.velocity_mps) / chirp.doppler_resolution,
            )
            for other in found
        )
        if all(bins > 4 for bins in apart):
            found.append(target)
    return found


def run(chirp: Chirps, iq: np.ndarray, **options: Any) -> dict[str, np.ndarray]:
    """The points of one frame, `xyz`, `doppler` and `snr` without the padding."""
    found = points(iq[None], np.ones(1, "u1"), options=PointsOptions(**options), **texts(chirp))
    return {name: found[name][0, : found["count"][0]].astype("f8") for name in ("xyz", "doppler", "snr")}


@pytest.mark.parametrize(
    ("device", "cfar"), [*((device, "caso") for device in DEVICES), ("AWR1843", "ca"), ("AWR1843", "os")]
)
def test_twelve_targets_are_found_where_they_are_and_nothing_else(device: str, cfar: str) -> None:
    chirp = chirps(device, frame_length=64, adc_samples=256)
    hits = missed = false = 0
    errors = []
    for seed in range(6):
        targets = scene(chirp, seed)
        found = run(chirp, words(chirp, targets, seed), cfar=cfar)
        distance = np.linalg.norm(found["xyz"], axis=1)
        azimuth = np.arctan2(-found["xyz"][:, 1], found["xyz"][:, 0])
        taken: set[int] = set()
        for target in targets:
            bins = np.stack(
                [
                    (distance - target.range_m) / chirp.range_resolution,
                    (found["doppler"] - target.velocity_mps) / chirp.doppler_resolution,
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
def test_boards_with_two_rows_or_more_tell_the_elevation(device: str, degrees: float) -> None:
    chirp = chirps(device)
    target = Target(2.0, azimuth=0.3, elevation=np.radians(degrees), velocity_mps=0.7)
    found = run(chirp, words(chirp, [target]))
    np.testing.assert_allclose(found["xyz"][0], 2.0 * target.direction, atol=0.05)


def test_a_weak_target_beside_a_strong_one_is_not_taken_for_its_sidelobe() -> None:
    chirp = chirps()
    strong = Target(2.0, velocity_mps=0.5, counts=5000)
    weak = Target(2.0 + 6 * chirp.range_resolution, velocity_mps=0.5, azimuth=0.4, counts=50)
    found = run(chirp, words(chirp, [strong, weak]))
    np.testing.assert_allclose(np.linalg.norm(found["xyz"], axis=1), [strong.range_m, weak.range_m], atol=0.03)


def test_noise_alone_gives_next_to_no_points() -> None:
    chirp = chirps()
    rng = np.random.default_rng(0)
    iq = np.rint(rng.normal(0, 300, (20, *chirp.shape[:3], chirp.words))).astype("i2")
    found = points(iq, np.ones(20, "u1"), options=PointsOptions(), **texts(chirp))
    assert found["count"].sum() <= 1


def test_a_frame_that_is_not_whole_has_no_points() -> None:
    chirp = chirps()
    iq = np.stack([words(chirp, [Target(2.0)])] * 2)
    found = points(iq, np.array([1, 0], "u1"), options=PointsOptions(), **texts(chirp))
    np.testing.assert_array_equal(found["count"], [1, 0])
    assert np.isnan(found["xyz"][1]).all() and np.isnan(found["doppler"][1]).all()
    assert np.isnan(found["snr"][0, 1:]).all() and np.isfinite(found["snr"][0, 0])


def test_the_strongest_points_are_kept() -> None:
    chirp = chirps(frame_length=64, adc_samples=256)
    iq = words(chirp, scene(chirp, 3))
    every, few = run(chirp, iq), run(chirp, iq, max_points=4)
    np.testing.assert_array_equal(few["snr"], every["snr"][:4])
    assert (np.diff(every["snr"]) <= 0).all()


def test_without_the_size_of_bins_there_are_no_metres() -> None:
    chirp = chirps()
    iq = words(chirp, [Target(2.0)])[None]
    with pytest.raises(ValueError, match="range_resolution"):
        points(iq, np.ones(1, "u1"), options=PointsOptions(board="AWR1843"), sidecar='{"shape": [32, 3, 4, 128]}')


def test_cell_averaging_detects_what_that_of_xwr_does() -> None:
    theirs = pytest.importorskip("xwr.rsp.numpy.spectrum", reason="xwr is in the extra `bench`")
    rng = np.random.default_rng(4)
    amplitude = rng.rayleigh(1.0, (64, 256)).astype("f4")
    amplitude[rng.integers(0, 64, 20), rng.integers(0, 256, 20)] *= 10 ** rng.uniform(1, 4, 20)
    expected = theirs.CACFAR(guard=(3, 2), train=(8, 4), snr_thresh=6.0, discard_range=(0, 0))(amplitude[None])
    power = amplitude.astype("f8") ** 2 + 1
    noise = cell_averaging(power, (2, 3), (4, 8), wrap=False)
    np.testing.assert_array_equal((power > 6.0 * noise).T, expected.mask[0])
    assert expected.mask.sum() > 10


@pytest.mark.parametrize("shape", [(16, 40), (5, 7)])
def test_the_smaller_sides_are_those_of_a_direct_construction(shape: tuple[int, int]) -> None:
    """Doppler wraps around, range is mirrored at its ends, even when there are fewer cells than are averaged."""
    power = np.random.default_rng(6).exponential(1.0, shape).astype("f4")
    guard, train = (1, 2), (3, 8)
    sides = []
    for axis, mode in enumerate(("wrap", "reflect")):
        reach = guard[axis] + train[axis]
        width = [(reach, reach) if each == axis else (0, 0) for each in range(2)]
        padded = np.moveaxis(np.pad(power.astype("f8"), width, mode=mode), axis, 0)  # type: ignore[call-overload]
        means = np.lib.stride_tricks.sliding_window_view(padded, train[axis], axis=0).mean(axis=-1)
        smaller = np.minimum(means[: shape[axis]], means[reach + guard[axis] + 1 :])
        sides.append(np.moveaxis(smaller, 0, axis))
    np.testing.assert_allclose(smallest_of(power, guard, train), np.maximum(*sides), rtol=1e-12)


def test_noise_estimates_of_an_even_floor_are_the_floor() -> None:
    flat = np.full((32, 64), 5.0, "f4")
    for noise in (
        cell_averaging(flat, (1, 1), (3, 4)),
        ordered_statistic(flat, (1, 1), (3, 4), 0.6),
        smallest_of(flat, (1, 1), (3, 4)),
    ):
        np.testing.assert_allclose(noise, 5.0)


def test_the_doppler_axis_is_a_circle() -> None:
    power = np.random.default_rng(5).exponential(1.0, (32, 64)).astype("f4")
    for estimate in (cell_averaging, smallest_of, lambda p, guard, train: ordered_statistic(p, guard, train, 0.6)):
        turned = estimate(np.roll(power, 9, axis=0), (1, 2), (3, 4))
        np.testing.assert_allclose(turned, np.roll(estimate(power, (1, 2), (3, 4)), 9, axis=0), rtol=1e-9)


def test_a_neighbour_raises_the_mean_but_neither_the_rank_nor_the_smaller_side() -> None:
    power = np.ones((32, 64), "f4")
    power[16, 36] = 1e4
    tested = (16, 32)
    assert cell_averaging(power, (1, 1), (3, 6))[tested] > 50
    assert ordered_statistic(power, (1, 1), (3, 6), 0.6)[tested] == 1
    assert smallest_of(power, (1, 1), (3, 6))[tested] == pytest.approx(1)


@pytest.mark.parametrize("window", ["hann", "none"])
def test_sidelobes_of_a_tone_stay_within_6_db_of_their_envelope(window: str) -> None:
    bins = np.arange(1.0, 30.0, 0.05)
    weights = taper(64, window)
    levels = np.abs(np.exp(-2j * np.pi * np.outer(bins, np.arange(64)) / 64) @ weights)
    assert (levels <= 2 * envelope(bins, window)).all()
