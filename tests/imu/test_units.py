"""Units of an IMU and the hand of its axes, as gravity shows them."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.imu.units import units_of
from tests.imu.motion import ride, tilt_error
from tests.imu.test_filtered import record, run_filtered

#: Biases of a gyroscope, rad/s: none, and the largest ones of data sheets.
BIASES = np.array([[0.0, 0.0, 0.0], [0.2, -0.2, 0.15]])


@pytest.mark.parametrize("preset", ["indoor", "outdoor", "bike", "car"])
@pytest.mark.parametrize("seconds", [4.0, 30.0])
def test_gravity_shows_degrees_a_second_and_never_takes_radians_for_them(preset: str, seconds: float) -> None:
    data = ride(preset, seconds)
    for bias in BIASES:
        assert units_of(data.ts, data.acc, data.avel + bias) == (1.0, "m/s2", "rad/s", False)
        assert units_of(data.ts, data.acc, np.degrees(data.avel + bias)) == (1.0, "m/s2", "deg/s", False)
    assert units_of(data.ts, data.acc / 9.80665, np.degrees(data.avel))[1:3] == ("g", "deg/s")


def test_a_device_that_turns_over_within_seconds_has_gravity_all_the_same() -> None:
    times = np.arange(2000) / 100
    angle = 3 * times
    acc = 9.80665 * np.stack([0 * angle, np.sin(angle), np.cos(angle)], axis=1)
    avel = np.tile([3.0, 0.0, 0.0], (2000, 1))
    assert np.linalg.norm(acc.reshape(-1, 500, 3).mean(axis=1), axis=1).max() < 3, "means of its own axes have none"
    assert units_of(times, acc, avel) == (1.0, "m/s2", "rad/s", False)
    assert units_of(times, acc, np.degrees(avel)) == (1.0, "m/s2", "deg/s", False)


def test_a_turn_that_leaves_gravity_where_it_is_shows_no_unit_and_the_declared_one_is_believed() -> None:
    acc = np.tile([0.0, 0.0, 9.8], (3000, 1)) + np.random.default_rng(0).normal(0, 0.02, (3000, 3))
    avel = np.tile([0.0, 0.0, 20.0], (3000, 1))
    assert units_of(np.arange(3000) / 100, acc, avel) == (1.0, "m/s2", "rad/s", False)


def test_a_left_handed_imu_of_a_real_drive_is_found(captures: Path) -> None:
    with lzma.open(captures / "imu_lio" / "imu.txt.xz") as file:
        times, acc, avel = np.split(np.loadtxt(file), [1, 4], axis=1)
    exchanged = [1, 0, 2]
    for unit, values in (("rad/s", avel), ("deg/s", np.degrees(avel))):
        assert units_of(times[:, 0], acc, values) == (1.0, "m/s2", unit, False)
        assert units_of(times[:, 0], acc[:, exchanged], values[:, exchanged]) == (1.0, "m/s2", unit, True)


def test_degrees_a_second_become_radians_with_a_warning(tmp_path: Path) -> None:
    data = ride("indoor", 20.0)
    clean, _ = run_filtered(record(tmp_path / "clean", data))
    sensor, provenance = run_filtered(record(tmp_path / "trace", data._replace(avel=np.degrees(data.avel))))
    assert "avel is in deg/s" in provenance["notes"][0] and sensor.valid(len(data.ts)).all()
    np.testing.assert_allclose(sensor.channel("avel").read(), clean.channel("avel").read(), atol=1e-5)
    assert tilt_error(sensor.channel("quat").read(), data.truth).max() < 1, "71 degrees RMS where it is not found"


def test_no_sample_of_a_left_handed_imu_is_valid(tmp_path: Path) -> None:
    times = np.arange(6000) / 100
    angle = np.sin(times / 3)
    data = ride("indoor", 60.0)
    count = min(len(data.ts), 6000)
    acc = 9.80665 * np.stack([0 * angle, np.sin(angle), np.cos(angle)], axis=1)[:count]
    avel = np.stack([np.cos(times / 3) / 3, 0 * times, 0 * times], axis=1)[:count]
    data = data.only(np.arange(len(data.ts)) < count)._replace(ts=times[:count], acc=acc, avel=-avel)
    sensor, provenance = run_filtered(record(tmp_path / "trace", data))
    assert not sensor.valid(count).any() and any("the other way about" in each for each in provenance["notes"])
    right, _ = run_filtered(record(tmp_path / "right", data._replace(avel=avel)))
    assert right.valid(count).all()


def test_a_clock_that_is_set_during_the_recording_takes_no_memory_and_changes_no_unit(tmp_path: Path) -> None:
    data = ride("indoor", 30.0)
    late = 1.6e9 * (np.arange(len(data.ts)) >= len(data.ts) // 2)
    for times in (data.ts + late, data.ts - late):
        assert units_of(times, data.acc, data.avel) == (1.0, "m/s2", "rad/s", False)
    sensor, _ = run_filtered(record(tmp_path / "trace", data._replace(ts=data.ts + late)))
    assert sensor.valid(len(data.ts)).all()
