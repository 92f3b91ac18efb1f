"""Options that stand outside of the section of the step that uses them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from rover_pipeline.errors import ConfigError
from rover_pipeline.table import find_step
from rover_pipeline.workflow.flow import Flow
from tests.kit import small_trace


def test_the_lens_and_the_named_rig_reach_the_steps_that_use_them_and_no_others(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("lidar", "radar", "camera"))
    (trace / "camera" / "camera.json").write_text("{}")
    flow = Flow({"traces": str(trace), "camera": {"lens": "brown"}, "rig": "iq1m"})
    options = {}
    for name in ("_camera_frames", "_camera_depth", "_camera_pose"):
        flow.makes(name)
        options[name] = json.loads(flow.step_options(SimpleNamespace(trace=str(trace), product=name[1:])))["options"]
        model = find_step(name).options
        assert model is not None and model.parse(options[name])
    assert [values.get("lens") for values in options.values()] == ["brown", "brown", None]
    assert [values.get("rig", {}).get("name") for values in options.values()] == [None, "iq1m", "iq1m"]
    with pytest.raises(ConfigError, match=r"options\('camera\.lens'\): is an option of the config and no section"):
        flow.config.section("camera.lens")
    with pytest.raises(ConfigError, match=r"camera\.lens.*'fisheye' or 'brown'"):
        Flow({"traces": str(trace), "camera": {"lens": "fish"}})
