"""The published reader opens what we write. It is not on the package index: the tests run where it is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.table import find_step
from tests.kit import small_trace
from tests.odometry.room import write_room
from tests.test_virtual_sensors import OPTIONS, SENSORS, write_lens

roverd = pytest.importorskip("roverd", reason="roverd is not on the package index; install it from its repository")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small recording with all our virtual sensors."""
    path = small_trace(tmp_path_factory.mktemp("roverd") / "trace", sensors=("lidar", "radar", "camera", "imu"))
    write_room(path)
    write_lens(path)
    for sensor in SENSORS:
        run_step(find_step(sensor), path, sensor, Request(OPTIONS.get(sensor, {})), stamps=(".options-0",))
    return path


def test_the_published_reader_reads_every_channel_as_we_do(trace: Path) -> None:
    theirs = roverd.Trace.from_config(str(trace), include_virtual=True)
    for name in ("lidar", "radar", "camera", "imu", *SENSORS):
        ours = Sensor(trace / name)
        for channel in ours.specs:
            # FFmpeg and libjpeg interpolate colour between pixels differently.
            tolerance = 8 if ours.specs[channel].format == "mjpg" else 0
            read = theirs[name][channel].read()
            np.testing.assert_allclose(read.astype("f8"), ours.channel(channel).read(), rtol=0, atol=tolerance)


def test_the_published_validation_finds_no_error(trace: Path, tmp_path: Path) -> None:
    schema = tmp_path / "schema.yaml"
    schema.write_text("".join(f"{name}: [{', '.join(Sensor(trace / name).specs)}]\n" for name in SENSORS))
    program = Path(sys.executable).with_name("roverd")
    shown = subprocess.run(
        [str(program), "validate", str(trace), "--schema", str(schema)], capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stdout
    assert "1 traces with 0" in shown.stdout
