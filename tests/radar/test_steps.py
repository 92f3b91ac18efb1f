"""The files that radar steps publish beside their channels, and their options."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.config import Config
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import RoverError
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.radar.options import PointsOptions
from rover_pipeline.radar.prepare import check_order
from rover_pipeline.table import find_step
from tests.kit import small_trace
from tests.radar.scenes import chirps, texts


@pytest.mark.parametrize(("name", "channel"), [("range_doppler", "power"), ("range_azimuth", "power")])
def test_the_axes_beside_a_channel_have_its_shape(name: str, channel: str, tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", sensors=("radar",))
    run_step(find_step(f"_radar_{name}"), trace, f"_radar_{name}", Request())
    sensor = Sensor(trace / f"_radar_{name}")
    axes = json.loads((sensor.path / "axes.json").read_text())
    assert tuple(len(axis["values"]) for axis in axes.values()) == sensor.specs[channel].shape
    assert all(f"{axis}, " in (sensor.specs[channel].desc or "") or axis == "range" for axis in axes)
    provenance = json.loads((sensor.path / PROVENANCE).read_text())
    assert 0.1 < provenance["measured"]["mirrored_range_energy"] < 10  # of noise, which has no direction
    assert "axes.json" in provenance["files"]


def test_a_recording_without_a_valid_frame_still_has_its_axes(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", 3, sensors=("radar",), invalid={"radar": (0, 1, 2)})
    run_step(find_step("_radar_range_doppler"), trace, "_radar_range_doppler", Request())
    assert (trace / "_radar_range_doppler" / "axes.json").exists()
    assert json.loads((trace / "_radar_range_doppler" / PROVENANCE).read_text())["measured"] == {}


def test_bins_of_unknown_size_have_no_values(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", sensors=("radar",))
    (trace / "radar" / "radar.json").unlink()
    run_step(find_step("_radar_range_doppler"), trace, "_radar_range_doppler", Request())
    axes = json.loads((trace / "_radar_range_doppler" / "axes.json").read_text())
    assert axes["range"]["values"] is None and axes["doppler"]["values"] is None


def test_an_unknown_board_stops_the_step_with_a_list_of_the_known_ones(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", sensors=("radar",))
    with pytest.raises(RoverError, match=r"'AWR9' is unknown.*AWR1642, AWR1642BOOST, AWR1843"):
        run_step(find_step("_radar_points"), trace, "_radar_points", Request({"board": "AWR9"}))
    assert not (trace / "_radar_points").exists()


def test_options_of_the_radar_section_reach_all_of_its_steps() -> None:
    config = Config.parse({"radar": {"board": "AWR1642", "points": {"max_points": 9}}})
    section = config.section("radar.points", around=True)
    assert (section["board"], section["sample_order"], section["max_points"]) == ("AWR1642", "qqii", 9)
    assert "traces" not in section and "range_doppler" not in section


@pytest.mark.parametrize(("key", "factor"), [("range_resolution", 1.2), ("doppler_resolution", 0.9), ("shape", 1)])
def test_bins_of_another_size_than_the_chirps_say_are_warned_of(key: str, factor: float) -> None:
    described = texts(chirps("AWR1642", frame_length=16))
    sidecar = json.loads(described["sidecar"])
    text = json.dumps({**sidecar, key: factor * sidecar[key]})
    iq = np.zeros((0, *sidecar["shape"][:3], 2 * sidecar["shape"][3]), "i2")
    found = check_order(iq, options=PointsOptions(), sidecar=text, config=described["config"])
    assert [each.startswith("radar.json says that bins are") for each in found.warnings] == [True] * (factor != 1)
