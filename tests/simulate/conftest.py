"""Recordings that several tests read, each made once per session."""

from __future__ import annotations

from pathlib import Path

import pytest

from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.record import simulate


@pytest.fixture(scope="session")
def full_hd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Like `tiny`, with a few pictures of 1920 x 1080."""
    trace = tmp_path_factory.mktemp("simulated") / "full_hd"
    preset = PRESETS["tiny"].model_copy(update={"width": 1920, "height": 1080, "camera_rate": 2.0})
    simulate(trace, preset=preset, duration=1.8, seed=1)
    return trace
