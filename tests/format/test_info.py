"""The description of a recording by `info`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.cli import main
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format.info import as_text, trace_info
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.table import find_step
from tests.kit import START_S, small_trace


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Ten samples of each sensor at 10 Hz, a gap of the lidar from 0.4 to 0.9 s, a virtual sensor and a product."""
    trace = small_trace(tmp_path / "rec", 10, sensors=("lidar", "radar", "camera", "imu"), invalid={"radar": (2, 3)})
    ts = np.fromfile(trace / "lidar/ts", "f8")
    ts[5:] += 0.4
    ts.tofile(trace / "lidar/ts")
    run_step(find_step("_lidar_image"), trace, "_lidar_image", Request())
    (trace / "_map").mkdir()
    (trace / "_map/map.ply").write_bytes(bytes(1234))
    (trace / "_map" / PROVENANCE).write_text('{"made_by": "rover_pipeline", "step": "a:b", "version": 3}')
    (trace / "_slam").mkdir()
    return trace


def test_counts_rates_durations_gaps_and_sizes_are_those_of_the_files(trace: Path) -> None:
    info = trace_info(trace)
    lidar, radar = info["sensors"]["lidar"], info["sensors"]["radar"]
    assert (lidar["samples"], lidar["gaps"], lidar["invalid"]) == (10, 1, 0)
    assert lidar["start_s"] == START_S and lidar["duration_s"] == pytest.approx(1.3, abs=1e-6)
    assert lidar["longest_gap_s"] == pytest.approx(0.5, abs=1e-6) and lidar["rate_hz"] == pytest.approx(9 / 1.3)
    assert (radar["samples"], radar["invalid"], radar["gaps"]) == (10, 2, 0)
    assert radar["rate_hz"] == pytest.approx(10)
    for name, sensor in info["sensors"].items():
        for channel, entry in sensor["channels"].items():
            assert entry["bytes"] == (trace / name / channel).stat().st_size and entry["samples"] == 10
        assert sensor["bytes"] == sum(entry["bytes"] for entry in sensor["channels"].values())
    assert lidar["channels"]["rng"]["ratio"] == pytest.approx(10 * 8 * 32 * 2 / (trace / "lidar/rng").stat().st_size)
    assert info["duration_s"] == pytest.approx(1.3, abs=1e-6) and info["start_s"] == START_S


def test_results_say_what_made_them_and_folders_of_files_are_listed(trace: Path) -> None:
    info = trace_info(trace)
    assert info["sensors"]["_lidar_image"]["made_by"] == "rover_pipeline.lidar.steps:image version 1"
    assert info["products"] == {"_map": {"bytes": 1234, "made_by": "a:b version 3", "files": {"map.ply": 1234}}}
    assert info["bytes"] == 1234 + sum(sensor["bytes"] for sensor in info["sensors"].values())


def test_the_table_has_a_line_for_each_sensor_channel_and_file(trace: Path) -> None:
    text = as_text(trace_info(trace))
    first, *lines = text.splitlines()
    assert first.startswith(f"{trace}: ") and first.endswith("1.30 s from 2023-11-14 22:13:20 UTC")
    names = [line.split()[0] for line in lines]
    assert {"lidar", "radar", "camera", "imu", "_lidar_image", "_map"} <= set(names)
    assert {"rng", "iq", "video.avi", "avel", "map.ply"} <= set(names)
    assert "1 gap, longest 0.500 s" in text and "2 invalid" in text


def test_json_holds_the_errors_of_unreadable_sensors_and_channels(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (trace / "camera/ts").unlink()
    (trace / "radar/iq").unlink()
    assert main(["info", "--json", str(trace)]) == 0
    (info,) = json.loads(capsys.readouterr().out)
    assert "camera/ts: is listed in meta.json but ts is missing" in info["sensors"]["camera"]["error"]
    assert "radar/iq: is listed" in info["sensors"]["radar"]["channels"]["iq"]["error"]
    assert info["sensors"]["lidar"]["samples"] == 10
    assert main(["info", str(trace)]) == 0
    assert "camera/ts: is listed" in capsys.readouterr().out


def test_times_that_are_not_dates_are_printed_as_numbers(trace: Path) -> None:
    for name in ("lidar", "radar", "camera", "imu"):
        (1e30 + 1e20 * np.arange(10)).tofile(trace / name / "ts")
    assert "from 1e+30 s" in as_text(trace_info(trace))
