"""Code that lies beside the data, or where a command is typed, never runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaign.planted import plant, ran
from tests.kit import environment, small_trace

pytestmark = pytest.mark.system


@pytest.mark.parametrize("plan", ["steps", "recordings"])
def test_a_run_in_a_folder_with_code_of_others_runs_none_of_it(plan: str, tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "data" / "one", 4, sensors=("imu", "radar"))
    for folder in (tmp_path / "data", trace, trace / "imu"):
        plant(folder, tmp_path / "ran")
    command = [sys.executable, "-P", "-m", "rover_pipeline", "run", "one", "--outputs", "imu_filtered,radar_quality"]
    command += ["--cores", "1", "--config", f"plan={plan}"]
    done = subprocess.run(
        command, cwd=tmp_path / "data", env=environment(), capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (trace / "_imu_filtered" / "meta.json").exists()
    assert ran(tmp_path / "ran") == []


@pytest.mark.parametrize("command", [["report", "."], ["check", "one"], ["info", "one"]], ids=lambda each: each[0])
def test_a_command_in_a_folder_with_settings_of_others_takes_none_of_them(command: list[str], tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "data" / "one", 4)
    for folder in (tmp_path / "data", trace):
        plant(folder, tmp_path / "ran")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "rover_pipeline", *command],
        cwd=tmp_path / "data", env=environment(), capture_output=True,
        text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert ran(tmp_path / "ran") == []


def test_numba_takes_no_settings_from_the_folder_that_a_command_is_typed_in(tmp_path: Path) -> None:
    plant(tmp_path, tmp_path / "ran")
    script = "import rover_pipeline.numerics.compiled, numba; print([numba.config.DISABLE_JIT, numba.config.CACHE_DIR])"
    env = {name: value for name, value in environment().items() if not name.startswith("NUMBA_")}
    command = [sys.executable, "-P", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "[0, '']\n"
