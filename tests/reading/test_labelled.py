"""Labelled arrays and figures have the values, units and directions of the recording."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rover_pipeline as rp
from rover_pipeline.errors import MissingExtraError
from rover_pipeline.format.meta import META
from tests.reading.rig import times, write_rig


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_rig(tmp_path_factory.mktemp("labelled") / "walk", invalid={"_power": (4,)}, pictures="jpg")
    meta = json.loads((path / "_power" / META).read_text())
    meta["power"]["desc"] = "Power, dB. [azimuth, range]"
    (path / "_power" / META).write_text(json.dumps(meta))
    azimuth = {"unit": "rad", "positive": "right", "values": [-0.5, 0.0, 0.5]}
    ranges = {"unit": "m", "positive": "away", "values": [0.0, 0.2, 0.4, 0.6, 0.8]}
    (path / "_power" / "axes.json").write_text(json.dumps({"azimuth": azimuth, "range": ranges}))
    values = np.zeros((len(times("radar", 3.0)), 3, 5), "f4")
    values[:, 2, 1] = 30.0  # a target half a radian to the right, 0.2 m away
    (path / "_power" / "power").write_bytes(values.tobytes())
    return path


def test_a_target_is_found_at_its_place_by_its_coordinates(trace: Path) -> None:
    xarray = pytest.importorskip("xarray", reason="extra xarray")
    power = rp.open(trace)["power"].to_xarray()["power"]
    assert isinstance(power, xarray.DataArray) and power.dims == ("time", "azimuth", "range")
    there = power.isel(time=0).argmax(("azimuth", "range"))
    assert float(power.azimuth[there["azimuth"]]) == 0.5 and float(power.range[there["range"]]) == 0.2
    assert power.attrs["units"] == "dB" and power.range.attrs["units"] == "m"
    assert not bool(power.valid[4]) and bool(power.valid[5])


def test_times_are_those_of_the_samples_to_the_nanosecond(trace: Path) -> None:
    pytest.importorskip("xarray", reason="extra xarray")
    pos = rp.open(trace)["odom"].pos.to_xarray(slice(3, 9))
    exact = [round(ts * 1e7) * 100 for ts in times("lidar", 3.0)[3:9]]
    assert np.abs(pos.time.values.astype("i8") - exact).max() <= 300  # as much as f8 seconds can tell
    assert (pos.ts.values == times("lidar", 3.0)[3:9]).all()
    np.testing.assert_array_equal(pos.values, rp.open(trace)["odom"].pos[3:9])


def test_axes_of_one_name_in_a_channel_are_told_apart(tmp_path: Path) -> None:
    pytest.importorskip("xarray", reason="extra xarray")
    path = write_rig(tmp_path / "walk")
    meta = json.loads((path / "_power" / META).read_text())
    meta["cov"] = {"format": "raw", "type": "f4", "shape": [3, 3], "desc": "Covariance, m2/s2. [xyz, xyz]"}
    (path / "_power" / META).write_text(json.dumps(meta))
    (path / "_power" / "cov").write_bytes(np.zeros((len(times("radar", 3.0)), 9), "f4").tobytes())
    made = rp.open(path)["power"].to_xarray([0, 2])
    assert made["cov"].dims == ("time", "xyz", "xyz_2") and list(made.xyz_2.values) == ["x", "y", "z"]
    assert made["power"].dims == ("time", "power_axis_1", "power_axis_2") and made.sizes["time"] == 2


def test_without_xarray_the_error_names_the_extra(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(MissingExtraError, match=r"rover-pipeline\[xarray\]"):
        rp.open(trace)["odom"].to_xarray()


def test_a_figure_shows_the_target_at_its_place_with_units(trace: Path) -> None:
    figure = rp.open(trace)["power"].power.plot(4)
    plot = figure.axes[0]
    assert plot.get_xlabel() == "range (m), positive: away"
    assert plot.get_ylabel() == "azimuth (degrees), positive: right"
    assert figure.axes[1].get_ylabel() == "power (dB)" and "not valid" in str(figure.get_suptitle())
    mesh: Any = plot.collections[0]
    row, column = np.unravel_index(np.argmax(mesh.get_array()), (3, 5))
    corner = mesh.get_coordinates()[row, column], mesh.get_coordinates()[row + 1, column + 1]
    assert corner[0][0] < 0.2 < corner[1][0] and corner[0][1] < np.degrees(0.5) < corner[1][1]
    shown: Any = figure
    assert shown._repr_png_().startswith(b"\x89PNG")  # notebooks show it without pyplot


def test_every_kind_of_channel_has_a_figure(trace: Path) -> None:
    opened = rp.open(trace)
    assert opened["camera"].picture.plot(-1).axes[0].images and opened["lidar"].rng.plot().axes[0].yaxis_inverted()
    assert len(opened["odom"].pos.plot(7).axes[0].get_lines()) == 4  # x, y, z and the mark of the sample
    assert opened["bev"].occupancy.plot(3).axes[0].collections
    assert _deep(trace).plot(0).axes[0].get_ylabel() == "axis 2 (number, counted from 0)"
    assert opened["odom"].plot(7).axes  # that of the command `picture`
    with pytest.raises(IndexError):
        opened["odom"].plot(30)


def _deep(trace: Path) -> rp.Channel:
    meta = json.loads((trace / "_power" / META).read_text())
    meta["deep"] = {"format": "raw", "type": "u1", "shape": [3, 4, 5]}
    (trace / "_power" / META).write_text(json.dumps(meta))
    (trace / "_power" / "deep").write_bytes(bytes(len(times("radar", 3.0)) * 60))
    return rp.open(trace)["power"]["deep"]
