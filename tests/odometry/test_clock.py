"""A host clock that is set while a recording is made does not disturb its trajectory, and nobody trusts the rest."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.options import InputOptions
from rover_pipeline.table import find_step

_SWEEPS = 8
_SET_BEFORE = 3


def test_a_year_that_the_clock_skips_changes_no_pose_but_only_those_on_one_side_are_valid(
    tiny: Path, tmp_path: Path
) -> None:
    for name, skipped in (("even", 0.0), ("set", 31_536_000.0)):
        trace = tmp_path / name
        trace.mkdir()
        for part in ("lidar", "imu"):
            shutil.copytree(tiny / part, trace / part)
        shutil.copy(tiny / "config.yaml", trace)
        os.truncate(trace / "lidar" / "ts", 8 * _SWEEPS)
        at = np.fromfile(trace / "lidar" / "ts")[_SET_BEFORE] - 0.01
        for part in ("lidar", "imu"):
            ts = np.fromfile(trace / part / "ts")
            np.where(ts >= at, ts + skipped, ts).tofile(trace / part / "ts")
        for step in ("_lidar_image", "_odom"):
            run_step(find_step(step), trace, step, Request(input=InputOptions(truncate=True, mark_corrupt=False)))
    even, jumped = (Sensor(tmp_path / name / "_odom") for name in ("even", "set"))
    assert even.valid(_SWEEPS).all()
    assert jumped.valid(_SWEEPS).tolist() == [0] * _SET_BEFORE + [1] * (_SWEEPS - _SET_BEFORE)
    provenance = json.loads((tmp_path / "set" / "_odom" / "provenance.json").read_text())
    assert any("frame 3: lidar/ts jumps by 31536000 s" in note for note in provenance["notes"])
    # The world is the frame of the first valid pose.
    rot, pos = (even.channel(name).read()[_SET_BEFORE] for name in ("rot", "pos"))
    moved = (even.channel("pos").read() - pos) @ rot
    assert np.abs(moved - jumped.channel("pos").read()).max() < 1e-3
    assert np.abs(even.channel("vel").read() @ rot - jumped.channel("vel").read()).max() < 1e-2
