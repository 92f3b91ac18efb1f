"""The notebooks run from the first to the last cell and show what they promise."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.consumers.environments import consumer_python
from tests.consumers.test_torch import CPU_INDEX, REQUIREMENTS
from tests.notebooks.execute import NOTEBOOKS, execute, pictures, printed


@pytest.mark.system
def test_a_recording_is_looked_at(tiny: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny, tmp_path / "walk")
    shown = execute(NOTEBOOKS / "look_at_a_recording.ipynb", tmp_path)
    assert pictures(shown) == 5
    error = re.search(r"largest distance from the truth: ([\d.]+) mm", printed(shown))
    assert error is not None and float(error[1]) < 50


@pytest.mark.consumers
def test_a_network_learns_occupancy_from_radar_better_than_a_guess(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = consumer_python("torch", (*CPU_INDEX, *REQUIREMENTS))
    shown = execute(NOTEBOOKS / "train_occupancy_from_radar.ipynb", tmp_path, python)
    losses = re.search(r"validation loss ([\d.]+) -> ([\d.]+), guess ([\d.]+)", printed(shown))
    assert losses is not None
    first, last, guess = map(float, losses.groups())
    assert last < first and last < 0.95 * guess
    assert pictures(shown) == 2
