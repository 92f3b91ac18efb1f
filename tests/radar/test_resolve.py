"""Several targets in one range-Doppler cell: resolved when there are two, and not made up when there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rover_pipeline.radar.angles import plane_waves
from rover_pipeline.radar.boards import BOARDS
from rover_pipeline.radar.options import PointsOptions
from rover_pipeline.radar.prepare import prepare
from rover_pipeline.radar.resolve import Resolver
from rover_pipeline.radar.steps import points
from tests.radar.scenes import Target, chirps, texts, words

#: Width of a beam of eight antennas half a wavelength apart, at half of its power, as a sine.
BEAM = 0.886 * 2 / 8


def cells(device: str, separation: float, snr_db: float, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Snapshots of cells with two equal targets, with any phases; and the sines of both, f8 (cell, 2)."""
    rng = np.random.default_rng(seed)
    board = BOARDS[device]
    middle, up = rng.uniform(-0.5, 0.5, count), rng.uniform(-0.1, 0.1, count)
    sines = middle[:, None] + np.array([-0.5, 0.5]) * separation
    noise = rng.standard_normal((2, count, len(board.grid))) / np.sqrt(2)
    snapshots = noise[0] + 1j * noise[1]
    for n in range(2):
        phase = np.exp(2j * np.pi * rng.uniform(size=(count, 1)))
        snapshots += 10 ** (snr_db / 20) * phase * plane_waves(board, sines[:, n], up)
    return snapshots, sines


def resolved(device: str, method: Any, separation: float, snr_db: float = 20.0, count: int = 300) -> float:
    """Share of cells in which two targets are found, both within half of their separation."""
    snapshots, sines = cells(device, separation, snr_db, count, 1)
    found = Resolver(BOARDS[device], method, 2, 0.6, 0.0)(snapshots, np.ones(count))
    good = 0
    for cell in range(count):
        right = np.sort(found.right[found.cell == cell])
        good += len(right) == 2 and bool((np.abs(right - sines[cell]) < separation / 2).all())
    return good / count


def test_music_resolves_two_targets_0_6_of_a_beam_apart_at_20_db_in_90_per_cent_of_the_frames() -> None:
    assert resolved("AWR1843", "music", 0.6 * BEAM) >= 0.9
    assert resolved("AWR1642", "music", 0.6 * BEAM) >= 0.9


def test_capon_resolves_two_targets_a_beam_apart() -> None:
    assert resolved("AWR1843", "capon", 1.0 * BEAM) >= 0.85
    assert resolved("AWR1843", "capon", 1.5 * BEAM) >= 0.95


@pytest.mark.parametrize("method", ["music", "capon"])
@pytest.mark.parametrize("device", ["AWR1843", "AWR1843AOP", "AWR2944", "AWRL6844"])
def test_one_target_is_one_target_where_it_is(device: str, method: Any) -> None:
    count, board = 300, BOARDS[device]
    rng = np.random.default_rng(2)
    right, up = rng.uniform(-0.7, 0.7, count), rng.uniform(-0.3, 0.3, count) * board.has_elevation
    noise = rng.standard_normal((2, count, len(board.grid))) / np.sqrt(2)
    snapshots = 10 * plane_waves(board, right, up) + noise[0] + 1j * noise[1]
    found = Resolver(board, method, 3, 0.6, 0.0)(snapshots, np.ones(count))
    assert len(found.cell) <= 1.02 * count and set(found.cell.tolist()) == set(range(count))
    first = np.unique(found.cell, return_index=True)[1]
    assert np.median(np.abs(found.right[first] - right)) < 0.02
    assert np.median(np.abs(found.up[first] - up)) < 0.05
    # 20 dB over the noise, as it was made.
    assert 10 * np.log10(np.median(found.power[first])) == pytest.approx(20, abs=0.5)


def test_errors_of_the_array_are_no_second_target() -> None:
    board, count = BOARDS["AWR1843"], 200
    rng = np.random.default_rng(3)
    gains = np.exp(1j * np.radians(15) * rng.standard_normal(12))
    snapshots = 30 * gains * plane_waves(board, rng.uniform(-0.6, 0.6, count), np.zeros(count))
    single = Resolver(board, "music", 2, 0.6, 0.25)(snapshots, np.ones(count))
    split = Resolver(board, "music", 2, 0.6, 0.0)(snapshots, np.ones(count))
    assert len(single.cell) < 1.1 * count < 1.5 * count < len(split.cell)


@pytest.mark.parametrize("estimator", ["music", "capon"])
def test_a_parked_radar_sees_two_targets_at_the_same_distance(estimator: Any) -> None:
    chirp = chirps()
    targets = [
        Target(2.0, azimuth=-0.25, elevation=0.1, counts=500),
        Target(2.0, azimuth=0.2, elevation=0.1, counts=500),
    ]
    iq = words(chirp, [*targets, Target(3.5, azimuth=0.4)])[None]
    options = PointsOptions(estimator=estimator)
    prepared = prepare(iq, options=options, **texts(chirp))
    result = points(iq, np.ones(1, "u1"), options=options, prepared=prepared, **texts(chirp))
    xyz = result["xyz"][0, : result["count"][0]]
    assert (np.diff(result["snr"][0, : len(xyz)]) <= 0).all()
    near = xyz[np.abs(np.linalg.norm(xyz, axis=1) - 2.0) < 0.1]
    expected = np.array([2.0 * target.direction for target in targets])
    assert len(near) == 2 and len(xyz) == 3
    np.testing.assert_allclose(near[np.argsort(near[:, 1])][::-1], expected, atol=0.12)
