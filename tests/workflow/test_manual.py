"""The manual's worked example of a derived channel is run as it is printed there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.format.sensor import Sensor
from tests.conftest import CHECKOUT
from tests.kit import small_trace
from tests.odometry.room import write_room

pytestmark = pytest.mark.system


def block(language: str, containing: str) -> str:
    """The code block of the page in a language that contains a text."""
    page = CHECKOUT / "docs" / "how-to" / "own-channel.md"
    blocks = re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)
    return next(text for text in blocks if containing in text)


def test_the_example_of_a_derived_channel_works_as_printed(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    write_room(small_trace(trace))
    (tmp_path / "mylab.py").write_text(block("python", "def energy"))
    (tmp_path / "mylab.smk").write_text(block("snakemake", "radar_energy"))
    printed = block("sh", "PYTHONPATH=. rover-pipeline run").strip()
    bin_folder = str(Path(sys.executable).parent)
    done = subprocess.run(
        printed.replace("TRACE", str(trace)),
        shell=True,
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    power = Sensor(trace / "_radar_range_doppler").channel("power").read()
    energy = Sensor(trace / "_radar_energy").channel("energy").read()
    expected = 10 * np.log10((10 ** (power[:, :, 4:] / 10)).sum(axis=1))
    np.testing.assert_allclose(energy, expected, rtol=1e-5)
