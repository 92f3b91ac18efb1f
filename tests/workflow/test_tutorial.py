"""The tutorial is followed word for word: its commands are pasted in their order, and its files saved."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT

pytestmark = pytest.mark.system

#: What a test cannot do again: this environment is installed already.
INSTALLATION = [
    "git clone REPOSITORY rover_pipeline",
    "cd rover_pipeline",
    "python3 -m venv .venv",
    ". .venv/bin/activate",
    "pip install .",
]


def blocks() -> list[tuple[str, str]]:
    """Language and text of each block, in order."""
    found = re.findall(r"```(\w+)\n(.*?)```", (CHECKOUT / "docs" / "tutorial.md").read_text(), re.DOTALL)
    language, first = found[0]
    lines = first.splitlines()
    assert lines[: len(INSTALLATION)] == INSTALLATION
    return [(language, "\n".join(lines[len(INSTALLATION) :])), *found[1:]]


def test_who_follows_the_tutorial_has_what_it_promises(tmp_path: Path) -> None:
    here = tmp_path / "rover_pipeline"
    here.mkdir()
    for name in ("Snakefile", "rules", "profiles", "config"):
        (here / name).symlink_to(CHECKOUT / name)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path}
    files = {"@step": "mylab.py", "use rule": "mylab.smk"}
    shell = ["set -e"]
    for language, text in blocks():
        saved = next((name for mark, name in files.items() if mark in text), None)
        if saved:
            shell.append(f"cat > mylab/{saved} <<'END'\n{text}END")
        elif language == "python":
            shell.append(f"python - <<'END'\n{text}END")
        elif language == "sh":
            # What the tutorial sets for its own module must not hide this checkout.
            shell.append(text.replace("PYTHONPATH=.", f'PYTHONPATH=".:{os.environ.get("PYTHONPATH", "")}"'))
    done = subprocess.run(
        ["bash", "-c", "\n".join(shell)], cwd=here, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    pictures = ("range_doppler.png", "odometry.png", "mylab/energy.png")
    for made in ("demo/_report/index.html", "flat/_map/map.ply", *pictures):
        assert (here / made).stat().st_size > 1000, made
    assert (here / "flat-kitti" / "provenance.json").exists()
    assert "f8" in done.stdout and "Traceback" not in done.stderr
