"""Real captures: peaks at the known targets of their scenes, and two movers on opposite sides of zero Doppler."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.importers.dca1000 import import_dca1000
from rover_pipeline.radar.options import PointsOptions
from rover_pipeline.radar.steps import points
from rover_pipeline.table import find_step


@pytest.fixture
def still_life(captures: Path, tmp_path: Path) -> Path:
    """A trace with one frame of an IWR6843 in a room."""
    folder = captures / "radar_iwr6843_3tx4rx"
    import_dca1000(folder / "adc_data.bin", folder / "mmwaveDevice.mmwave.json", tmp_path / "trace")
    return tmp_path / "trace"


def test_points_of_the_still_life_are_at_its_targets_with_zero_doppler(still_life: Path) -> None:
    run_step(find_step("_radar_points"), still_life, "_radar_points", Request())
    sensor = Sensor(still_life / "_radar_points")
    count = int(sensor.channel("count").read()[0])
    xyz, doppler = sensor.channel("xyz").read()[0, :count], sensor.channel("doppler").read()[0, :count]
    distance = np.linalg.norm(xyz, axis=1)
    static = np.abs(doppler) < 0.03
    for peak in (1.0, 1.6, 1.7, 8.5):
        assert np.abs(distance[static] - peak).min() < 0.06
    # The last target is weak, but it has the highest SNR between 4 and 10 m.
    snr = np.where((distance > 4) & (distance < 10), sensor.channel("snr").read()[0, :count], 0)
    assert distance[snr.argmax()] == pytest.approx(8.5, abs=0.06) and snr.max() > 15


def test_the_order_of_words_of_the_still_life_is_measured_and_a_wrong_one_reported(
    still_life: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    provenances = []
    for order in ("qqii", "iiqq"):
        run_step(
            find_step("_radar_range_azimuth"), still_life, "_radar_range_azimuth", Request({"sample_order": order})
        )
        provenances.append(json.loads((still_life / "_radar_range_azimuth" / PROVENANCE).read_text()))
    assert provenances[0]["measured"]["mirrored_range_energy"] < 0.1 and not provenances[0]["notes"]
    assert provenances[1]["measured"]["mirrored_range_energy"] > 10
    assert "try radar.sample_order: qqii" in provenances[1]["notes"][0]
    assert "seem swapped" in capsys.readouterr().err


def test_two_movers_at_2_9_metres_are_on_opposite_sides_of_zero_doppler(captures: Path) -> None:
    stored = np.load(captures / "radar_openradar_2tx4rx" / "doppler_example_1.npy")
    parts = [part.astype("<u2").view("<i2").reshape(128, 2, 4, 64, 2) for part in (stored.real, stored.imag)]
    iq = np.concatenate([parts[1], parts[0]], axis=-1).reshape(1, 128, 2, 4, 256)
    sidecar = json.dumps({"shape": [128, 2, 4, 128], "range_resolution": 0.0488, "doppler_resolution": 0.0823})
    result = points(iq, np.ones(1, "u1"), options=PointsOptions(board="AWR1642"), sidecar=sidecar)
    count = int(result["count"][0])
    distance = np.linalg.norm(result["xyz"][0, :count], axis=1)
    near = np.abs(distance - 2.93) < 0.15
    speeds = result["doppler"][0, :count][near]
    assert speeds.max() == pytest.approx(0.58, abs=0.1)
    assert -0.9 < speeds.min() < -0.4
