"""Coupling of the antennas: it is removed where it is seen, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rover_pipeline.radar.frames import find_coupling, make_transform
from rover_pipeline.radar.options import PointsOptions
from rover_pipeline.radar.prepare import prepare
from rover_pipeline.radar.steps import points
from rover_pipeline.simulate.faults import Unkind
from rover_pipeline.simulate.presets import Chirps
from rover_pipeline.simulate.sensors.radar import NOISE, RadarErrors
from tests.radar.scenes import Target, chirps, texts, words


def coupled(chirp: Chirps, iq: np.ndarray, counts: float = 3000.0) -> np.ndarray:
    """Frames with coupling added to their words; i2 (frame, chirp, tx, rx, word)."""
    errors = RadarErrors.of_board(chirp, Unkind(radar_coupling=counts), np.random.default_rng(1))
    signal = errors.coupling
    if chirp.is_real:
        return (iq + np.rint(signal.real)).astype("i2")
    parts = np.stack([signal.imag, signal.real], -2).reshape(*signal.shape[:2], 2, -1, 2)
    return (iq + np.rint(np.swapaxes(parts, -3, -2).reshape(*signal.shape[:2], -1))).astype("i2")


def static_power(chirp: Chirps, frame: np.ndarray, coupling: Any) -> np.ndarray:
    """Power at zero Doppler, (range,), dB."""
    transform = make_transform(frame.shape, PointsOptions(), chirp.is_real, coupling)
    return 10 * np.log10(transform.spectrum_and_power(frame)[1][chirp.frame_length // 2])


@pytest.mark.parametrize("device", ["AWR1843", "AWR2944"])
def test_coupling_falls_by_30_db_and_a_parked_radar_keeps_a_static_target_at_half_a_metre(device: str) -> None:
    chirp = chirps(device)
    iq = np.stack([words(chirp, [Target(0.5, counts=600), Target(2.0, azimuth=0.4)], seed) for seed in range(3)])
    frames = coupled(chirp, iq)
    found = find_coupling(frames, "qqii", chirp.is_real, chirp.range_resolution)
    assert found is not None
    before, after, without = (
        static_power(chirp, frame, each) for frame, each in ((frames[0], None), (frames[0], found), (iq[0], None))
    )
    assert before[:3].max() - after[:3].max() > 30
    for metres in (0.5, 2.0):
        assert after[round(metres / chirp.range_resolution)] == pytest.approx(
            without[round(metres / chirp.range_resolution)], abs=0.5
        )


def test_a_recording_without_coupling_is_left_as_it_is() -> None:
    chirp = chirps()
    for targets in ([Target(0.5), Target(2.0)], [Target(0.35, counts=4000)], [Target(3.0)]):
        iq = np.stack([words(chirp, targets, seed) for seed in range(3)])
        assert find_coupling(iq, "qqii", False, chirp.range_resolution) is None
    noise = np.random.default_rng(0).normal(0, NOISE, (4, *chirp.shape[:3], chirp.words)).astype("i2")
    assert find_coupling(noise, "qqii", False, chirp.range_resolution) is None


def test_what_is_near_in_some_frames_only_is_no_coupling() -> None:
    """A hand before the radar: its phase changes from frame to frame."""
    chirp = chirps()
    iq = np.stack([words(chirp, [Target(0.08 + 0.0007 * n, counts=3000)], n) for n in range(8)])
    assert find_coupling(iq, "qqii", False, chirp.range_resolution) is None


@pytest.mark.parametrize(("device", "far"), [("AWR1843", 6.0), ("AWR2944", 2.0)])
def test_targets_are_found_beside_coupling_and_the_coupling_is_not(device: str, far: float) -> None:
    chirp = chirps(device, frame_length=64, adc_samples=256)
    targets = [Target(0.6, counts=200), Target(3.0, azimuth=0.5, velocity_mps=1.0), Target(far, counts=200)]
    frames = coupled(chirp, np.stack([words(chirp, targets, seed) for seed in range(4)]), 10000)
    options = PointsOptions()
    prepared = prepare(frames, options=options, **texts(chirp))
    for given, expected in ((prepared, sorted([0.6, 3.0, far])), (None, None)):
        result = points(frames[:1], np.ones(1, "u1"), options=options, prepared=given, **texts(chirp))
        distance = np.sort(np.linalg.norm(result["xyz"][0, : result["count"][0]], axis=1))
        if expected:
            np.testing.assert_allclose(distance, expected, atol=0.05)
        else:
            assert len(distance) > 3
    kept = prepare(frames, options=PointsOptions(coupling="keep"), **texts(chirp))
    assert kept.coupling is None


def openradar(captures: Path) -> tuple[np.ndarray, str, str]:
    stored = np.load(captures / "radar_openradar_2tx4rx" / "doppler_example_1.npy")
    parts = [part.astype("<u2").view("<i2").reshape(128, 2, 4, 64, 2) for part in (stored.real, stored.imag)]
    iq = np.concatenate([parts[1], parts[0]], axis=-1).reshape(1, 128, 2, 4, 256)
    sidecar = json.dumps({"shape": [128, 2, 4, 128], "range_resolution": 0.0488, "doppler_resolution": 0.0823})
    return iq, sidecar, "AWR1642"


def still_life(captures: Path) -> tuple[np.ndarray, str, str]:
    groups = np.fromfile(captures / "radar_iwr6843_3tx4rx" / "adc_data.bin", "<i2").reshape(-1, 4)
    sidecar = json.dumps({"shape": [85, 3, 4, 512], "range_resolution": 0.03925, "doppler_resolution": 0.0229})
    return groups[:, [2, 3, 0, 1]].reshape(1, 85, 3, 4, 1024), sidecar, "IWR6843"


@pytest.mark.parametrize(
    ("capture", "groups"),
    [
        # (range in bins, Doppler in bins from zero) as the README of the captures has them.
        (openradar, [(60, 7), (61, -6), (60, -10), (60, 0), (107, 0)]),
        (still_life, [(26.5, 0), (39.5, 0), (43.5, 0), (216, 0)]),
    ],
)
def test_real_captures_have_no_coupling_among_their_strongest_points_and_every_group_of_targets(
    captures: Path, capture: Any, groups: list[tuple[float, float]]
) -> None:
    iq, sidecar, board = capture(captures)
    options = PointsOptions(board=board)
    prepared = prepare(iq, options=options, sidecar=sidecar)
    assert prepared.coupling is not None
    result = points(iq, np.ones(1, "u1"), options=options, sidecar=sidecar, prepared=prepared)
    count, about = int(result["count"][0]), json.loads(sidecar)
    bins = np.linalg.norm(result["xyz"][0, :count], axis=1) / about["range_resolution"]
    doppler = result["doppler"][0, :count] / about["doppler_resolution"]
    size = about["shape"][-1]
    assert ((bins[:5] > 10) & (bins[:5] < size - 10)).all()
    assert not ((bins < 5) | (bins > size - 3)).any()
    for distance, speed in groups:
        assert ((np.abs(bins - distance) < 1.2) & (np.abs(doppler - speed) < 1.5)).any(), (distance, speed)
