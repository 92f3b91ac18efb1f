"""An EdgeFirst dataset as edgefirst-client sees it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.export.dataset import export_dataset
from rover_pipeline.export.edgefirst import describe
from rover_pipeline.table import find_step
from tests.consumers.environments import consume, consumer_python
from tests.export.objects import write_objects

pytestmark = pytest.mark.consumers

REQUIREMENTS = ("edgefirst-client==2.19.0", "polars>=1.35,<3", "pyarrow", "numpy", "pillow", "pypcd4")


def test_the_vendors_client_polars_and_pypcd4_open_it_and_refuse_a_damaged_one(drive: Path, tmp_path: Path) -> None:
    python = consumer_python("edgefirst", REQUIREMENTS)
    trace = tmp_path / "walk"
    shutil.copytree(drive, trace)
    for step in ("_lidar_image", "_sync", "_camera_pose", "_radar_points", "_camera_depth"):
        run_step(find_step(step), trace, step, Request())
    write_objects(trace)
    splits = {"block_s": 0.5, "gap_s": 0.1}
    dataset = export_dataset("edgefirst", [str(trace)], tmp_path / "rooms", settings={"splits": splits})
    done = consume(python, "open_edgefirst.py", str(dataset))
    assert done.returncode == 0, done.stderr
    seen, held = json.loads(done.stdout), describe(dataset)
    assert (seen["samples"], seen["rows"]) == (held["samples"], held["rows"]) and seen["boxes"] > 0
    next(dataset.rglob("*.camera.jpeg")).unlink()
    assert consume(python, "open_edgefirst.py", str(dataset)).returncode != 0
