"""The wheel carries the workflow: what pip installs runs where there is no checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from rover_pipeline.format.sensor import Sensor
from tests.conftest import CHECKOUT
from tests.kit import small_trace

pytestmark = pytest.mark.system


def test_the_wheel_runs_the_workflow_and_installs_its_profile_without_a_checkout(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(tmp_path), str(CHECKOUT)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    trace = small_trace(tmp_path / "trace")
    home = tmp_path / "home"
    home.mkdir()
    env = {
        **os.environ,
        "PYTHONPATH": str(tmp_path / "site"),
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
    }

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", *arguments], cwd=home, env=env, capture_output=True, text=True)

    outputs = "radar_range_doppler,report"
    done = call("rover_pipeline", "run", str(trace), "--cores", "2", "--outputs", outputs)
    assert done.returncode == 0, done.stderr
    assert str(CHECKOUT) not in done.stderr
    assert Sensor(trace / "_radar_range_doppler").length() == Sensor(trace / "radar").length()

    assert "What do the words mean?" in (trace / "_report" / "index.html").read_text()

    installed = call("rover_pipeline", "profile", "cluster", "--install")
    assert installed.returncode == 0, installed.stderr
    assert Path(installed.stdout.strip()) == home / ".config" / "snakemake" / "cluster" / "config.yaml"
    shown = call("snakemake", "--profile", "cluster", "--dry-run", "--forceall", "--config", f"traces={trace}")
    assert shown.returncode == 0, shown.stderr
    assert "1 of 1 recording" in shown.stdout + shown.stderr
    given = ("--config", f"traces={trace}", "plan=steps")  # a job for each output, as on one machine
    shown = call("snakemake", "--profile", "cluster", "--dry-run", "--forceall", *given)
    assert shown.returncode == 0 and "radar_range_doppler" in shown.stdout, shown.stderr
