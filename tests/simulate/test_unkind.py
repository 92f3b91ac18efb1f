"""Unkind worlds: each error is as large as its value says, the truth stays the truth, and nothing else changes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.spatial.transform import Rotation

from rover_pipeline.errors import ConfigError
from rover_pipeline.format.trace import Trace
from rover_pipeline.simulate.faults import DEFAULTS, Unkind, put_on
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.record import simulate
from rover_pipeline.simulate.rig import MOUNTS, Rig, build
from rover_pipeline.simulate.sensors import imu, lidar


def rig(*faults: str, preset: str = "tiny", seed: int = 1) -> Rig:
    unkind = put_on(faults, Unkind())
    return build(PRESETS[preset].model_copy(update={"unkind": unkind}), seed)


def angle(first: np.ndarray, second: np.ndarray) -> float:
    """Between two rotation matrices, degrees."""
    return float(np.degrees(Rotation.from_matrix(first.T @ second).magnitude()))


def scan(faults: tuple[str, ...], echoes: lidar.Echoes) -> lidar.Scan:
    unkind = rig(*faults)
    rays = lidar.rays(unkind.beams, echoes.distance.shape[1])
    return lidar.measure(echoes, rays, 35.0, 100.0, np.random.default_rng(0), unkind.lidars["lidar"].errors)


def plate(distance: float, reflectivity: float) -> lidar.Echoes:
    shape = (32, 512)
    near, bright, light = (np.full(shape, value, "f4") for value in (distance, reflectivity, 0.2))
    return lidar.Echoes(near, bright, light, np.full(shape, -1, "i2"))


@pytest.mark.parametrize("name", [*DEFAULTS])
def test_every_error_is_off_in_a_preset_and_can_be_put_on(name: str) -> None:
    assert not getattr(PRESETS["tiny"].unkind, name)
    assert getattr(put_on([name.replace("_", "-")], Unkind()), name) == DEFAULTS[name]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("gyro-bais", "did you mean 'gyro-bias'"),
        ("gyro-bias=much", "gyro_bias"),
        ("gyro-bias=nan", "gyro_bias"),
        ("unkind=3", "takes no value"),
        ("lidar-silence=9", "lidar-silence"),
    ],
)
def test_a_fault_that_is_none_is_refused_by_name(tmp_path: Path, fault: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        simulate(tmp_path / "never", preset="tiny", faults=[fault])
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("distance", [5.0, 20.0])
def test_range_noise_grows_with_the_distance_as_the_data_sheet_says(distance: float) -> None:
    rng = scan(("range-noise",), plate(distance, 0.6)).rng
    assert rng[rng > 0].std() / 1000 == pytest.approx(0.008 + 0.0004 * distance, rel=0.1)


def test_dark_surfaces_seem_farther_away_than_bright_ones() -> None:
    dark, bright = (scan(("range-bias=0.02",), plate(3.0, value)).rng for value in (0.05, 0.9))
    mean = [image[image > 0].mean() / 1000 for image in (dark, bright)]
    assert mean[0] - mean[1] == pytest.approx(0.02 * np.log10(0.9 / 0.05), abs=0.002)


def test_returns_at_an_edge_lie_between_both_sides_and_none_elsewhere() -> None:
    echoes = plate(5.0, 0.6)
    echoes.distance[:, 256:] = 6.0
    metres = scan(("mixed-pixels=0.5",), echoes).rng / 1000 - rig().lidars["lidar"].rays.range_offset
    between = (metres > 5.1) & (metres < 5.9)
    assert 0.3 < between[:, 255:257].mean() < 0.5
    assert between[:, 5:255].sum() == between[:, 257:507].sum() == 0


def test_weak_returns_are_lost_on_dark_and_grazing_surfaces_only() -> None:
    share = {value: (scan(("weak-returns",), plate(14.0, value)).rng > 0).mean() for value in (0.02, 0.03, 0.6)}
    kind = {value: (scan((), plate(14.0, value)).rng > 0).mean() for value in share}
    assert share[0.02] < 0.5 * kind[0.02] and share[0.03] < 0.8 * kind[0.03]
    assert share[0.6] == kind[0.6]


def test_beams_are_off_the_sidecars_by_what_is_asked_for() -> None:
    off = rig("beam-angles=0.02", preset="indoor")
    true, said = off.lidars["lidar"].rays.direction, lidar.rays(off.beams, PRESETS["indoor"].columns).direction
    angles = np.degrees(np.linalg.norm(true - said, axis=-1))[:, 0]
    # Two angles of 0.02 degrees RMS each; that about the vertical counts less for beams that look up or down.
    assert 0.02 < np.sqrt((angles**2).mean()) < 0.035


def test_the_imu_has_the_bias_scale_and_limits_that_are_asked_for() -> None:
    errors = rig("gyro-bias=0.01", "acc-bias=0.1", "imu-scale=0.01").imu_errors()
    assert np.linalg.norm(errors.avel_bias) == pytest.approx(0.01)
    assert np.linalg.norm(errors.acc_bias) == pytest.approx(0.1)
    np.testing.assert_allclose(abs(errors.acc_scale - 1), 0.01)
    ideal = imu.Reading(*(np.tile([0.1, -0.9, 0.3], (4000, 1)) for _ in range(3)))
    for fault, expected in [
        ("imu-degrees", np.degrees([0.1, -0.9, 0.3])),
        ("imu-axes", np.array([-0.9, 0.1, 0.3])),
        ("gyro-limit=0.5", np.array([0.1, -0.5, 0.3])),
    ]:
        errors = rig(fault).imu_errors()
        measured = imu.measure(ideal, errors, np.random.default_rng(0)).avel.mean(0)
        np.testing.assert_allclose(measured, expected, atol=0.02 * np.abs(expected).max())


def test_the_imus_mounting_differs_from_section_rig_and_the_truth_knows_it() -> None:
    off = rig("imu-misalignment=1")
    assert angle(off.mounts["imu"].rotation, MOUNTS["imu"].rotation) == pytest.approx(1.0)
    assert off.config()["rig"]["imu"]["rotation"] == MOUNTS["imu"].rotation.tolist()
    unknown = rig("imu-mount")
    assert angle(unknown.mounts["imu"].rotation, MOUNTS["imu"].rotation) > 5
    assert set(unknown.config()["rig"]) == {"radar", "camera"}
    assert "rig" not in rig("no-rig").config()


def test_stamps_of_the_imu_are_late_and_clocks_are_off_by_constants() -> None:
    late = rig("imu-late=0.012")
    key = late.key("imu")
    ticks, kind = (list(each.clocks["imu"].ticks(1.0, key)) for each in (late, rig()))
    np.testing.assert_allclose([a.stamp - b.stamp for a, b in zip(ticks, kind, strict=True)], 0.012, atol=1e-6)
    assert [tick.time for tick in ticks] == [tick.time for tick in kind]
    off = rig("clock-offsets=0.05").clocks
    assert all(0.001 < abs(off[name].delay - rig().clocks[name].delay) < 0.05 for name in ("radar", "camera", "imu"))
    assert off["lidar"] == rig().clocks["lidar"]


def test_vibration_and_heel_strikes_have_their_size_below_20_hz_and_none_at_rest() -> None:
    time = np.arange(3.0, 8.0, 0.001)
    kind = rig().motion.at(time)
    shaken = rig("vibration=0.3").motion.at(time)
    angles = np.array([angle(a, b) for a, b in zip(kind.rot[::7], shaken.rot[::7], strict=True)])
    assert 0.3 < angles.max() < 0.45
    struck = rig("heel-strikes=5").motion.at(time)
    vertical = struck.acc[:, 2] - kind.acc[:, 2]
    assert abs(vertical).max() == pytest.approx(5.0, rel=0.05)
    for state in (shaken.avel[:, 1] - kind.avel[:, 1], vertical):
        power = abs(np.fft.rfft(state * np.hanning(len(state)))) ** 2
        assert power[np.fft.rfftfreq(len(state), 0.001) > 20.5].sum() < 1e-3 * power.sum()
    rest = np.array([0.1, 0.2])
    np.testing.assert_array_equal(rig("vibration", "heel-strikes").motion.at(rest).rot, rig().motion.at(rest).rot)


def test_the_truth_of_an_unkind_recording_is_that_of_a_kind_one(tiny: Path, tmp_path: Path) -> None:
    faults = ["range-noise", "mixed-pixels", "range-bias", "lidar-silence=0.3", "no-rig"]
    simulate(tmp_path / "unkind", preset="tiny", seed=1, duration=1.2, faults=faults, sensors=["lidar"])
    truth, kind = (Trace(path).sensor("_truth") for path in (tmp_path / "unkind", tiny))
    instants, all_instants = truth.channel("true_ts").read(), kind.channel("true_ts").read()
    assert np.diff(instants).max() == pytest.approx(0.4, abs=1e-3)
    same = np.isin(all_instants, instants)
    np.testing.assert_array_equal(truth.channel("pos").read(), kind.channel("pos").read()[same])
    assert "rig" not in yaml.safe_load((tmp_path / "unkind" / "config.yaml").read_text())
    description = json.loads((truth.path / "truth.json").read_text())
    assert description["preset"]["unkind"]["lidar_silence"] == 0.3
    assert description["imu_errors"]["acc_limit"] is None and set(description["mounts"]) == set(MOUNTS)


def test_a_recording_says_beforehand_how_long_it_will_take(tmp_path: Path) -> None:
    said: list[str] = []
    simulate(tmp_path / "said", preset="tiny", duration=0.6, sensors=["imu"], threads=2, say=said.append)
    assert len(said) == 1 and "0.6 s of recording will take about" in said[0]
