"""The steps that the manual shows work as they are printed there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.table import find_step
from tests.conftest import CHECKOUT
from tests.kit import small_trace


def printed() -> list[str]:
    """The blocks of Python of the page."""
    page = (CHECKOUT / "docs" / "how-to" / "own-channel.md").read_text()
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


@pytest.fixture
def mylab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that holds all steps of the page."""
    blocks = [block for block in printed() if "@step" in block]
    assert len(blocks) == 4
    (tmp_path / "mylab_of_the_manual.py").write_text("\n".join(blocks))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mylab_of_the_manual", raising=False)
    return "mylab_of_the_manual"


def test_a_channel_a_step_for_a_whole_recording_and_a_folder_are_made_as_printed(mylab: str, tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", sensors=("radar",))
    for name in ("_radar_range_doppler", "_radar_points"):
        run_step(find_step(name), trace, name, Request())
    for name in ("energy", "mean", "listing", "profile"):
        step = find_step(f"{mylab}:{name}")
        run_step(step, trace, step.sensor, Request({"first_bin": 4} if name == "energy" else {}), threads=2)
    power = Sensor(trace / "_radar_range_doppler").channel("power").read()
    energy, mean = Sensor(trace / "_radar_energy"), Sensor(trace / "_radar_mean")
    np.testing.assert_allclose(
        energy.channel("energy").read(), 10 * np.log10((10 ** (power[:, :, 4:] / 10)).sum(axis=1)), rtol=1e-5
    )
    np.testing.assert_allclose(mean.channel("mean").read(), power.mean(axis=(1, 2)), rtol=1e-5)
    profile = Sensor(trace / "_radar_profile").channel("power").read()
    np.testing.assert_allclose(profile, (10 ** (power / 10)).mean(axis=1), rtol=1e-3)
    counts = Sensor(trace / "_radar_points").channel("count").read()
    assert (trace / "_radar_list" / "points.csv").read_text().split() == [str(count) for count in counts]


def test_a_notebook_runs_the_first_step_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = small_trace(tmp_path / "TRACE", sensors=("radar",))
    run_step(find_step("_radar_range_doppler"), trace, "_radar_range_doppler", Request())
    (tmp_path / "mylab.py").write_text(printed()[0])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mylab", raising=False)
    (block,) = (each for each in printed() if "rp.run(" in each)
    names: dict[str, Any] = {}
    exec(block.replace("rp.run(", "made = rp.run("), names)
    power = Sensor(trace / "_radar_range_doppler").channel("power").read()
    np.testing.assert_allclose(names["made"], 10 * np.log10((10 ** (power[:, :, 4:] / 10)).sum(axis=1)), rtol=1e-5)
