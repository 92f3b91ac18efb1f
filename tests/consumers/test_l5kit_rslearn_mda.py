"""Exported datasets opened by the programs that they are for, in environments of their own: `pytest -m consumers`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rover_pipeline.export.dataset import export_dataset
from rover_pipeline.export.rslearn.windows import RASTERS
from rover_pipeline.format.sensor import Sensor
from tests.consumers.forced import ACCEPT, python_of, run_script
from tests.export.street import object_channels, rig_state, street, write_sensor
from tests.kit import small_trace, times

SCRIPTS = ACCEPT.parent / "scripts"
pytestmark = pytest.mark.consumers


@pytest.fixture(scope="module")
def zarr(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("l5kit")
    trace = street(folder / "street", 30.0, lost=(140, 141, 142, 143, 144, 145))
    return export_dataset("l5kit", [str(trace)], folder / "street.zarr", settings={"splits": {"block_s": 6.0}})


@pytest.mark.parametrize("store", ["", "train.zarr", "validate.zarr", "test.zarr"])
def test_l5kit_opens_every_store(zarr: Path, store: str) -> None:
    said = run_script(python_of("l5kit"), ACCEPT / "l5kit.py", zarr / store)
    assert "OK l5kit" in said


def test_l5kit_s_own_filter_of_agents_drops_none(zarr: Path) -> None:
    said = run_script(python_of("l5kit"), SCRIPTS / "l5kit_filter.py", zarr)
    counts = np.array([line.split() for line in said.splitlines()], int)
    assert counts[:, 0].sum() > 100 and counts[:, 1].sum() == 0


def test_rslearn_reads_every_layer_and_the_ground_where_it_is(drive: Path, tmp_path: Path) -> None:
    pytest.importorskip("rasterio", reason="rasterio is not installed: pip install 'rover-pipeline[rslearn]'")
    options = {"radar": False, "objects": False, "slice_s": 1.0, "tile_px": 128}
    settings: dict[str, Any] = {"splits": {"by": "recording"}, "options": options}
    out = export_dataset("rslearn", [str(drive)], tmp_path / "set", settings=settings)
    said = run_script(python_of("rslearn"), ACCEPT / "rslearn.py", out)
    assert "OK rslearn" in said and all(name in said for name in RASTERS if name != "radar_power")
    odom = Sensor(drive / "_odom")
    ts, pos = odom.channel("ts").read(), odom.channel("pos").read()
    windows = json.loads(run_script(python_of("rslearn"), SCRIPTS / "rslearn_values.py", out))
    lines = [(each["times"], np.array(line)) for each in windows for line in each["lines"]]
    assert lines
    for (begin, end), line in lines:
        ends = np.stack([np.interp([begin, end], ts, pos[:, axis]) for axis in (0, 1)], 1)
        assert np.abs(line[[0, -1]] - ends).max() < 0.05
    occupied = np.concatenate([each["occupied"] for each in windows if each["occupied"]])
    nearest = np.min(np.linalg.norm(occupied[:, None] - pos[None, ::5, :2], axis=2))
    assert len(occupied) > 100 and nearest > 0.3, "the rig drives through what is occupied"


def test_mda_files_are_read_by_an_independent_decoder(tmp_path: Path) -> None:
    """By the reference program too, where `MDA_BIN` names it; it is on no package registry."""
    trace = small_trace(tmp_path / "trace", 25, sensors=("lidar", "camera"), invalid={})
    write_sensor(trace / "_objects", times(25), np.ones(25, "u1"), object_channels(times(25)))
    state = rig_state(times(25))
    write_sensor(trace / "_odom", times(25), np.ones(25, "u1"), state)
    write_sensor(trace / "_camera_pose", times(25), np.ones(25, "u1"), state)
    out = tmp_path / "set"
    export_dataset("mda", [str(trace)], out, settings={"splits": {"by": "recording"}})
    export_dataset("mda", [str(trace)], out, settings={"splits": {"by": "recording"}, "options": {"objects": False}})
    said = run_script(sys.executable, ACCEPT / "mda.py", out)
    assert "OK mda" in said and "3 files" in said
