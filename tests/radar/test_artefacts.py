"""Points that are no targets are marked, and targets are not: images by unequal I and Q, and wrapped coupling."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rover_pipeline.radar.options import PointsOptions
from rover_pipeline.radar.prepare import prepare
from rover_pipeline.radar.steps import points
from rover_pipeline.simulate.presets import Chirps
from tests.radar.scenes import Target, chirps, texts, words
from tests.radar.test_coupling import coupled, openradar
from tests.radar.test_points import scene

LENGTHS = {"frame_length": 64, "adc_samples": 256}
#: The most that the factor of a receiver differs from that of another, as a share.
SPREAD = 0.3


def unequal(iq: np.ndarray, level_db: float) -> np.ndarray:
    """Frames of receivers whose I and Q differ, each in its own way, so that images are at a level below targets."""
    rng = np.random.default_rng(7)
    spread = 1 + SPREAD * rng.uniform(-1, 1, (iq.shape[-2], 2)) @ [1, 1j]
    share = 10 ** (level_db / 20) * np.exp(2j) * spread
    pairs = iq.reshape(*iq.shape[:-1], -1, 2, 2).astype("f8")
    samples = pairs[..., 1, :] + 1j * pairs[..., 0, :]
    samples = samples + share[:, None, None] * samples.conj()
    return np.rint(np.stack([samples.imag, samples.real], -2)).reshape(iq.shape).astype("i2")


def found(chirp: Chirps, iq: np.ndarray, **options: Any) -> list[tuple[np.ndarray, ...]]:
    """Range and Doppler in bins, artefact and certain of the points of each frame."""
    chosen = PointsOptions(**options)
    prepared = prepare(iq, options=chosen, **texts(chirp))
    result = points(iq, np.ones(len(iq), "u1"), options=chosen, prepared=prepared, **texts(chirp))
    distance = np.linalg.norm(result["xyz"], axis=2) / chirp.range_resolution
    doppler = result["doppler"] / chirp.doppler_resolution
    channels = (distance, doppler, result["artefact"], result["certain"])
    return [tuple(each[i, :count] for each in channels) for i, count in enumerate(result["count"])]


def near(chirp: Chirps, values: tuple[np.ndarray, ...], targets: list[Target], sign: int = 1) -> np.ndarray:
    """Whether points are in the cells of targets, or with sign -1 in the opposite ones, bool (point,)."""
    hit = np.zeros(len(values[0]), bool)
    for target in targets:
        bins = (target.range_m / chirp.range_resolution, target.velocity_mps / chirp.doppler_resolution)
        away = [
            (value - sign * at + size / 2) % size - size / 2
            for value, at, size in zip(values, bins, (chirp.adc_samples, chirp.frame_length), strict=False)
        ]
        hit |= np.abs(away).max(axis=0) < 2
    return hit


@pytest.mark.parametrize(("device", "level_db"), [("AWR1843", -20.0), ("AWR1642", -25.0), ("AWR1843", -35.0)])
def test_images_of_strong_targets_are_marked_and_nothing_follows_from_them(device: str, level_db: float) -> None:
    chirp = chirps(device, **LENGTHS)
    scenes = [[each._replace(counts=8 * each.counts) for each in scene(chirp, seed)] for seed in range(6)]
    iq = unequal(np.stack([words(chirp, each, seed) for seed, each in enumerate(scenes)]), level_db)
    marked = images = wrong = 0
    for targets, values in zip(scenes, found(chirp, iq), strict=True):
        real = near(chirp, values, targets)
        image = near(chirp, values, targets, -1) & ~real
        wrong += int(values[2][real].sum())
        images, marked = images + int(image.sum()), marked + int((values[2][image] == 1).sum())
        assert not values[3][values[2] > 0].any()
    assert images > 20 and marked >= 0.95 * images and wrong == 0


@pytest.mark.parametrize("frames", [1, 6])
@pytest.mark.parametrize("relative_db", [0.0, 10.0])
def test_targets_in_the_cells_of_images_are_no_images(frames: int, relative_db: float) -> None:
    """Other targets show the imbalance; the same scene without any has no images at all."""
    chirp = chirps(**LENGTHS)
    targets = [each._replace(counts=20 * each.counts) for each in scene(chirp, 3)[:8]]
    size = chirp.adc_samples * chirp.range_resolution
    opposite = [
        each._replace(
            range_m=size - each.range_m,
            velocity_mps=-each.velocity_mps,
            azimuth=0.5 - 0.3 * n,
            counts=each.counts * 10 ** ((relative_db - 25) / 20),
        )
        for n, each in enumerate(targets[:4])
    ]
    iq = np.stack([words(chirp, targets + opposite, seed) for seed in range(frames)])
    for recorded in (iq, unequal(iq, -25.0)):
        for values in found(chirp, recorded):
            there = near(chirp, values, opposite)
            assert there.sum() >= 3 and not values[2][there].any()
            assert (values[2][near(chirp, values, targets[4:], -1)] == 1).all()


@pytest.mark.parametrize(("device", "counts"), [("AWR1843", 5000.0), ("AWR1843", 14000.0), ("AWR2944", 5000.0)])
def test_coupling_that_wraps_is_marked_and_a_target_in_the_last_bins_is_not(device: str, counts: float) -> None:
    chirp = chirps(device, **LENGTHS)
    bins = chirp.adc_samples // (2 if chirp.is_real else 1)
    far = Target((bins - 9) * chirp.range_resolution, 0.3, counts=300)
    iq = coupled(chirp, words(chirp, [Target(2.0), far])[None], counts)
    ((distance, _, artefact, _),) = found(chirp, iq, coupling="keep")
    wraps = distance > bins - 2
    assert chirp.is_real or (wraps.any() and (artefact[wraps] == 2).all())
    assert not artefact[~wraps | chirp.is_real].any() and not wraps.all()
    last = words(chirp, [Target(2.0), far._replace(range_m=(bins - 1) * chirp.range_resolution)])[None]
    ((distance, _, artefact, _),) = found(chirp, last, coupling="keep")
    assert distance.max() > bins - 2 and not artefact.any()


def test_the_real_fan_has_coupling_in_its_last_bin_and_the_mirror_of_its_own_bin_is_left_open(captures: Path) -> None:
    packed = lzma.decompress((captures / "radar_awr1642_fan" / "fan_on.bin.xz").read_bytes())
    iq = np.frombuffer(packed, "<i2").reshape(-1, 4)[:, [2, 3, 0, 1]].reshape(1000, 1, 1, 4, 512)[::50]
    sidecar = json.dumps({"shape": [1, 1, 4, 256], "range_resolution": 0.195, "doppler_resolution": 1.0})
    config, options = "radar: {args: {radar: {device: AWR1642, tx: [1]}}}", PointsOptions(coupling="keep")
    prepared = prepare(iq, options=options, sidecar=sidecar, config=config)
    whole = np.ones(len(iq), "u1")
    result = points(iq, whole, options=options, sidecar=sidecar, config=config, prepared=prepared)
    bins = np.linalg.norm(result["xyz"], axis=2) / 0.195
    assert ((result["artefact"] == 2) == (bins > 254.5)).all() and (bins > 254.5).any(axis=1).all()
    assert prepared.imbalance == (0.0,)


def test_images_that_an_added_imbalance_makes_in_a_real_capture_are_marked_and_its_own_points_are_not(
    captures: Path,
) -> None:
    iq, sidecar, _ = openradar(captures)
    options, whole = PointsOptions(board="AWR1642"), np.ones(1, "u1")
    cells, marked = [], np.zeros(0, bool)
    for recorded in (iq, unequal(iq, -20.0)):
        prepared = prepare(recorded, options=options, sidecar=sidecar)
        result = points(recorded, whole, options=options, sidecar=sidecar, prepared=prepared)
        count = int(result["count"][0])
        distance = np.linalg.norm(result["xyz"][0, :count], axis=1) / 0.0488
        cells.append(np.stack([distance, result["doppler"][0, :count] / 0.0823], axis=1))
        marked = result["artefact"][0, :count] > 0
    own = (np.abs(cells[1][:, None] - cells[0]).max(axis=2) < 1.5).any(axis=1)
    assert own.sum() >= 0.9 * len(cells[0]) and not marked[own].any()
    assert (~own).sum() >= 3 and marked[~own].mean() > 0.6
