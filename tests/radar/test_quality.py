"""How far a frame can be trusted: saturation, interference and its repair, antennas and their coherence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.radar.health import antenna_power, clipped_share, conclude, excise, find_bursts, interfered_share
from rover_pipeline.radar.options import PointsOptions
from rover_pipeline.radar.spectrum import samples_of, words_of
from rover_pipeline.radar.steps import points
from rover_pipeline.simulate.presets import Chirps
from rover_pipeline.simulate.sensors import radar
from rover_pipeline.simulate.sensors.radar import bursts
from rover_pipeline.table import find_step
from tests.kit import check_virtual_sensor, small_trace
from tests.radar.motion import frames
from tests.radar.scenes import Target, chirps, texts, words, write_targets

CHIRP = chirps("AWR1642", frame_length=64)
TARGETS = [Target(1.2 + 0.5 * n, np.radians(11 * n - 40), velocity_mps=0.3 * n - 1, counts=6 + 2 * n) for n in range(8)]


def interfered(
    chirp: Chirps, share: float, seed: int = 0, targets: list[Target] = TARGETS
) -> tuple[np.ndarray, np.ndarray]:
    """A frame with interference in a share of its chirps, and bool (chirp, tx), which ones."""
    added = bursts(chirp, share, np.random.default_rng(seed))
    clean = samples_of(words(chirp, targets), False, "qqii")
    return words_of(clean + added, False, "qqii"), np.abs(added).max(axis=(2, 3)) > 0


def matched(found: dict[str, np.ndarray]) -> int:
    """How many of the targets are among the points of the first frame."""
    xyz = found["xyz"][0, : found["count"][0]]
    near = [np.linalg.norm(xyz - each.range_m * each.direction, axis=1).min(initial=np.inf) for each in TARGETS]
    return int(np.sum(np.array(near) < 0.25))


def detect(iq: np.ndarray, how: str = "keep") -> dict[str, np.ndarray]:
    return points(iq[None], np.ones(1, "u1"), options=PointsOptions(interference=how), **texts(CHIRP))


def test_values_at_either_limit_are_clipped_and_the_largest_ones_below_are_not() -> None:
    iq = np.zeros((3, 2, 1, 4, 8), "i2")
    iq[0, 0, 0, 0, :4] = 32767, -32768, 32766, -32767
    iq[2] = -32768
    np.testing.assert_array_equal(clipped_share(iq), np.array([2 / 64, 0, 1], "f4"))


def test_a_converter_of_12_bits_is_seen_at_its_own_rails() -> None:
    loud = samples_of(words(CHIRP, [Target(2.0, counts=6000.0)]), False, "qqii")
    iq = words_of(loud, False, "qqii")[None]
    share = float(np.mean(np.abs(iq) >= 2047))
    assert share > 0.3 and clipped_share(iq)[0] == 0
    assert clipped_share(np.clip(iq, -2048, 2047))[0] == pytest.approx(share, rel=0.01)


def test_the_quality_of_a_radar_keeps_the_promises_of_the_contract(tmp_path: Path) -> None:
    check_virtual_sensor("_radar_quality", small_trace(tmp_path / "trace"), "_radar_quality", kills=0)


@pytest.mark.parametrize("order", ["qqii", "iiqq"])
def test_words_become_samples_and_samples_words(order: str) -> None:
    frame = words(CHIRP, TARGETS)
    np.testing.assert_array_equal(words_of(samples_of(frame, False, order), False, order), frame)


def test_chirps_with_interference_are_found_and_no_others() -> None:
    frame, truth = interfered(CHIRP, 0.3)
    found = find_bursts(samples_of(frame, False, "qqii"))
    marked = np.asarray(found.any(axis=-1))
    assert not marked[~truth].any() and marked[truth].mean() > 0.85
    assert interfered_share(found) == pytest.approx(truth.mean(), abs=0.06)
    clean = find_bursts(samples_of(words(CHIRP, TARGETS), False, "qqii"))
    assert interfered_share(clean) == 0
    assert np.isnan(interfered_share(find_bursts(samples_of(frame[:3], False, "qqii"))))


def test_interference_beside_a_strong_target_that_moves_is_found() -> None:
    frame, truth = interfered(CHIRP, 0.2, targets=[Target(3.0, -0.2, velocity_mps=1.0)])
    marked = np.asarray(find_bursts(samples_of(frame, False, "qqii")).any(axis=-1))
    assert not marked[~truth].any() and marked[truth].all()


def test_echoes_of_many_targets_that_beat_against_one_another_are_no_interference() -> None:
    _, moving, _ = frames("smooth", np.linspace(0.5, 3.0, 16))
    assert not any(find_bursts(samples_of(frame, False, "qqii")).any() for frame in moving)


@pytest.mark.parametrize("how", ["time", "chirp"])
def test_targets_lost_to_interference_in_30_percent_of_the_chirps_are_found_when_it_is_excised(how: str) -> None:
    frame, _ = interfered(CHIRP, 0.3)
    whole = matched(detect(words(CHIRP, TARGETS)))
    assert whole == len(TARGETS) and matched(detect(frame)) < whole
    repaired = detect(frame, how)
    assert matched(repaired) >= 0.95 * whole
    assert repaired["count"][0] <= whole + 2


def test_a_share_above_nothing_is_not_called_0_percent() -> None:
    found = {"valid": np.ones(10, "u1"), "antenna_power": np.zeros((10, 3, 4), "f4"), "coherence": np.ones(10, "f4")}
    found |= {"clipped": np.full(10, 2e-5, "f4"), "interfered": np.full(10, 1e-3, "f4")}
    clipped, interfered = conclude(found).warnings
    assert "up to 0.002% of them" in clipped and "in 0.1% of the chirps" in interfered


def test_a_frame_without_interference_is_not_changed() -> None:
    frame = words(CHIRP, TARGETS)
    np.testing.assert_array_equal(excise(frame, "time", False, "qqii"), frame)


def test_only_samples_near_a_burst_are_replaced() -> None:
    frame, truth = interfered(CHIRP, 0.3)
    changed = (excise(frame, "time", False, "qqii") != frame).any(axis=(2, 3))
    assert not changed[~truth].any() and changed[truth].mean() > 0.85


def test_points_of_a_saturated_frame_are_not_valid() -> None:
    loud = samples_of(words(CHIRP, [Target(2.0, counts=20000.0)]), False, "qqii") * 4
    saturated = points(words_of(loud, False, "qqii")[None], np.ones(1, "u1"), options=PointsOptions(), **texts(CHIRP))
    assert not saturated["valid"][0]
    assert detect(words(CHIRP, TARGETS))["valid"][0]


def test_a_weak_antenna_stands_out() -> None:
    samples = samples_of(words(CHIRP, TARGETS), False, "qqii")
    samples[:, 1, 2] = 0.01 * samples[:, 1, 2]
    power = antenna_power(samples)
    assert power[1, 2] < -30 and np.abs(np.delete(power.ravel(), 6)).max() < 6


def test_the_report_is_told_of_saturation(tmp_path: Path) -> None:
    write_targets(small_trace(tmp_path / "trace", sensors=("radar",)))
    path = tmp_path / "trace" / "radar" / "iq"
    shape = Sensor(tmp_path / "trace" / "radar").channel("iq").read().shape
    samples = samples_of(np.fromfile(path, "<i2").reshape(shape), False, "qqii")
    samples[-1] *= 1000
    words_of(samples, False, "qqii").astype("<i2").tofile(path)
    run_step(find_step("_radar_quality"), tmp_path / "trace", "_radar_quality", Request())
    quality = Sensor(tmp_path / "trace" / "_radar_quality")
    assert quality.channel("clipped").read()[-1] > 0.1 and not quality.channel("clipped").read()[:-1].any()
    assert np.nanmin(quality.channel("coherence").read()[:-1]) > 0.5
    notes = json.loads((tmp_path / "trace" / "_radar_quality" / PROVENANCE).read_text())["notes"]
    assert any("with clipped samples" in note for note in notes), notes


def test_the_simulator_interferes_with_the_share_that_it_was_asked_for() -> None:
    added = bursts(CHIRP, 0.3, np.random.default_rng(1))
    hit = np.abs(added).max(axis=(2, 3)) > 10 * radar.NOISE
    assert hit.mean() == pytest.approx(0.3, abs=0.1)
