"""Virtual environments in which the programs live that open our exports. They need other libraries than we do."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT

_MOST_S = 900


def consumer_python(name: str, requirements: Sequence[str], python: str = sys.executable) -> Path:
    """The interpreter of an environment with these requirements, made when it is first asked for.

    The test is skipped, with the reason, where the environment cannot be made, as without a network.
    """
    folder = Path(os.environ.get("ROVER_PIPELINE_VENVS", Path.home() / ".cache" / "rover-pipeline" / "venvs"))
    digest = hashlib.blake2b("\n".join([python, *requirements]).encode(), digest_size=4).hexdigest()
    place = folder / f"{name}-{digest}"
    made = place / "made"
    if not made.exists():
        shutil.rmtree(place, ignore_errors=True)
        commands = [
            [python, "-m", "venv", str(place)],
            [str(place / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", *requirements],
        ]
        for command in commands:
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=_MOST_S, check=False)
            except (OSError, subprocess.TimeoutExpired) as error:
                pytest.skip(f"the environment {name} cannot be made: {error}")
            if done.returncode:
                last = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]
                pytest.skip(f"the environment {name} cannot be made: {' '.join(command[:4])}: {last}")
        made.touch()
    return place / "bin" / "python"


def consume(python: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `tests/consumers/SCRIPT` there, without our package in reach."""
    command = [str(python), "-I", str(CHECKOUT / "tests" / "consumers" / script), *arguments]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=_MOST_S, check=False)
