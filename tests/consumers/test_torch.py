"""Synced samples are a dataset as torch's DataLoader takes one, in this process and in workers of both kinds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rover_pipeline as rp
from tests.conftest import CHECKOUT
from tests.consumers.environments import consume, consumer_python
from tests.reading.rig import write_rig

pytestmark = pytest.mark.consumers

#: The build for CPUs: the one without a suffix brings gigabytes of libraries for GPUs along.
REQUIREMENTS = (
    "torch==2.13.0+cpu",
    "numpy",
    "pydantic",
    "pyyaml",
    "imagecodecs",
    "simplejpeg",
    "opencv-python-headless",
)
CPU_INDEX = ("--extra-index-url", "https://download.pytorch.org/whl/cpu")


def test_the_data_loader_gives_every_sample_once_with_forked_and_spawned_workers(tmp_path: Path) -> None:
    python = consumer_python("torch", (*CPU_INDEX, *REQUIREMENTS))
    trace = write_rig(tmp_path / "walk", invalid={"_bev": (3,)}, pictures="jpg")
    done = consume(python, "scripts/torch_loader.py", str(CHECKOUT), str(trace))
    assert done.returncode == 0, done.stderr
    count = len(rp.open(trace).synced("camera", "power", "bev"))
    assert json.loads(done.stdout) == {"None": count, "fork": count, "spawn": count, "absent": "refused"}
