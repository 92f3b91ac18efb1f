"""Matched samples and corrected times of a simulated recording."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.table import find_step
from tests.kit import small_trace, times

SENSORS = ("lidar", "radar", "camera", "imu")


def synced(trace: Path, reference: str = "lidar", /, **options: object) -> Sensor:
    run_step(find_step("_sync"), trace, "_sync", Request({"reference": reference, **options}))
    return Sensor(trace / "_sync")


def measured(sensor: Sensor) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((sensor.path / PROVENANCE).read_text())["measured"]
    return found


@pytest.mark.parametrize("reference", ["lidar", "camera"])
def test_every_sensors_nearest_sample_is_found_by_looking_at_all_of_them(reference: str, drive: Path) -> None:
    made = synced(drive, reference, reference=reference)
    assert set(made.specs) == {"ts", "valid", *SENSORS, *(f"{name}_dt" for name in SENSORS)}
    base = Sensor(drive / reference).channel("ts").read()
    for name in SENSORS:
        ts = Sensor(drive / name).channel("ts").read()
        every = ts[None] - base[:, None]
        nearest, difference = np.abs(every).argmin(axis=1), np.abs(every).min(axis=1)
        match, late = made.channel(name).read(), made.channel(f"{name}_dt").read()
        assert (match.dtype, late.dtype) == (np.dtype("i4"), np.dtype("f4"))
        assert (match == np.where(difference <= 0.1, nearest, -1)).all()
        np.testing.assert_array_equal(
            late, np.where(difference <= 0.1, every[np.arange(len(base)), nearest], np.nan).astype("f4")
        )
    assert (made.channel(reference).read() == np.arange(len(base))).all()


def test_a_clock_whose_offset_the_rig_states_is_matched_without_it(drive: Path) -> None:
    shift = 0.02
    plain = synced(drive).channel("radar_dt").read()
    late = synced(drive, rig={"radar": {"time_offset": shift}})
    ts, base = (Sensor(drive / name).channel("ts").read() for name in ("radar", "lidar"))
    chosen = late.channel("radar").read()
    expected = np.where(chosen >= 0, ts[chosen] + shift - base, np.nan).astype("f4")
    np.testing.assert_allclose(late.channel("radar_dt").read(), expected, atol=1e-6)
    assert not np.array_equal(plain, late.channel("radar_dt").read(), equal_nan=True)
    np.testing.assert_array_equal(synced(drive).channel("camera_dt").read(), late.channel("camera_dt").read())


def test_samples_outside_of_the_tolerance_are_not_matched(drive: Path) -> None:
    camera = np.abs(synced(drive, tolerance=0.1).channel("camera_dt").read())
    tolerance = float(np.median(camera)) + 1e-6
    made = synced(drive, tolerance=tolerance)
    tight, late = made.channel("camera").read(), made.channel("camera_dt").read()
    assert ((tight >= 0) == (camera <= tolerance)).all() and (tight < 0).any() and (tight >= 0).any()
    assert (np.isnan(late) == (tight < 0)).all()


def test_provenance_holds_residuals_and_clocks(drive: Path) -> None:
    made = synced(drive)
    figures = measured(made)["sensors"]
    late = made.channel("radar_dt").read()
    assert figures["radar"]["residual_ms"]["p50"] == pytest.approx(np.median(late[np.isfinite(late)]) * 1e3, abs=0.01)
    truth = json.loads((drive / "_truth" / "truth.json").read_text())["clocks"]
    for name in SENSORS:
        assert figures[name]["rate_hz"] == pytest.approx(1 / truth[name]["period"], rel=1e-3)
        assert 0 <= figures[name]["latency_ms"]["least"] < figures[name]["latency_ms"]["p95"] < 10


def test_lost_samples_are_counted(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", 30)
    np.delete(times(32), [7, 20]).tofile(trace / "radar" / "ts")
    figures = measured(synced(trace))["sensors"]
    assert (figures["lidar"]["lost"], figures["radar"]["lost"]) == (0, 2)


def test_smoothed_times_are_nearer_to_the_true_times_of_samples(drive: Path) -> None:
    clocks = json.loads((drive / "_truth" / "truth.json").read_text())["clocks"]
    raw, smooth = synced(drive).channel("imu_dt").read(), synced(drive, smoothed=True).channel("imu_dt").read()
    true = {
        name: Sensor(drive / f"_truth{more}").channel("true_ts").read()
        for name, more in (("lidar", ""), ("imu", "_imu"))
    }
    index = synced(drive, smoothed=True).channel("imu").read()
    exact = true["imu"][index] - true["lidar"] + clocks["imu"]["delay"] - clocks["lidar"]["delay"]
    assert np.std(smooth - exact) < np.std(raw - exact) / 2


@pytest.mark.parametrize("sensor", SENSORS)
def test_corrected_times_come_with_the_recorded_ones(sensor: str, drive: Path) -> None:
    run_step(find_step(f"_{sensor}_times"), drive, f"_{sensor}_times", Request())
    made = Sensor(drive / f"_{sensor}_times")
    ts, smooth, number = (made.channel(name).read() for name in ("ts", "smooth", "number"))
    assert (ts == Sensor(drive / sensor).channel("ts").read()).all()
    truth = Sensor(drive / ("_truth" if sensor == "lidar" else f"_truth_{sensor}")).channel("true_ts").read()
    assert np.std(smooth - truth) < np.std(ts - truth) / 2  # two dozen arrivals; see tests/clocks for more of them
    assert number[0] == 0 and number[-1] == round((truth[-1] - truth[0]) / np.median(np.diff(truth)))


@pytest.mark.parametrize("frames", [1, 2, 3])
def test_recordings_of_a_few_samples_are_matched_too(frames: int, tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", frames, sensors=("lidar", "radar", "camera"))
    made = synced(trace)
    for name in ("lidar", "radar", "camera"):
        assert made.channel(name).read().tolist() == list(range(frames))
        assert not made.channel(f"{name}_dt").read().any()


def test_a_sensor_that_recorded_nothing_is_left_out_and_noted(drive: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    shutil.copytree(drive, trace, ignore=shutil.ignore_patterns("_*"))
    for path in (trace / "imu").iterdir():
        if path.name != "meta.json":
            path.write_bytes(b"")
    made = synced(trace)
    assert "imu" not in made.specs and (made.channel("radar").read() >= 0).all()
    notes = json.loads((made.path / PROVENANCE).read_text())["notes"]
    assert notes == ["imu/ts holds no samples; done without"]
