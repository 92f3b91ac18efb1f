"""Sensors of which nothing is made are named, with the reason."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rover_pipeline.cli import main
from rover_pipeline.format.meta import META
from rover_pipeline.validation.unused import unused_sensors
from tests.kit import small_trace


def without(sensor: Path, *channels: str) -> None:
    """Remove channels of a sensor."""
    meta = json.loads((sensor / META).read_text())
    for name in channels:
        del meta[name]
        (sensor / name).unlink()
    (sensor / META).write_text(json.dumps(meta))


def test_every_sensor_that_gives_no_result_is_named_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("lidar", "radar", "camera", "imu"))
    assert not [*unused_sensors(trace)]
    shutil.copytree(trace / "radar", trace / "radar_rear")
    shutil.copytree(trace / "imu", trace / "sonar")
    (trace / "config.yaml").write_text("radar_rear: {type: radar}\nimu: {type: imu}\n")
    without(trace / "radar_rear", "iq")
    without(trace / "sonar", "acc")
    rear, sonar = unused_sensors(trace)
    assert rear.startswith(f"{trace / 'radar_rear'}: gives no result but times, poses") and rear.endswith("lacks iq")
    assert sonar.startswith(f"{trace / 'sonar'}: gives no result but its place in _sync: neither config.yaml nor")
    main(["check", str(trace)])
    assert f"rover-pipeline: {sonar}" in capsys.readouterr().err.splitlines()
