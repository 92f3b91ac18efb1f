"""Virtual environments of programs that pip would not install as they are: they ask for versions that do not exist
for this Python, or for gigabytes that reading a dataset does not need.

They are made once, in `ROVER_PIPELINE_VENVS`, else in the user's cache, from package registries by pip.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ACCEPT = Path(__file__).parent / "accept"
#: Says that an environment is complete, and of what.
_COMPLETE = ".requirements"


class Environment(NamedTuple):
    """What is installed.

    Attributes:
        alone: distributions without what they ask for, which does not exist for this Python, or is not needed.
        others: distributions with what they ask for.
    """

    alone: tuple[str, ...]
    others: tuple[str, ...]


ENVIRONMENTS = {
    "l5kit": Environment(
        ("l5kit==1.5.0",),
        (
            "numcodecs<0.16", "numpy", "opencv-python-headless", "prettytable", "protobuf<=3.20.3", "pymap3d", "pyyaml",
            "scipy", "tqdm", "transforms3d", "typing_extensions", "zarr<3",
        ),
    ),
    "rslearn": Environment(
        ("rslearn==0.1.19",),
        (
            "einops", "fiona", "fsspec", "jsonargparse[signatures]", "numpy", "pillow", "pydantic", "pyproj",
            "python-dateutil", "pytimeparse", "rasterio", "shapely", "tqdm", "universal_pathlib",
        ),
    ),
}  # fmt: skip


def python_of(name: str) -> str:
    """The interpreter of an environment, which is made if it is not there. The test is skipped if it cannot be made."""
    environment = ENVIRONMENTS[name]
    root = Path(os.environ.get("ROVER_PIPELINE_VENVS", Path.home() / ".cache" / "rover-pipeline" / "venvs"))
    folder, wanted = root / name, "\n".join((*environment.alone, "", *environment.others))
    root.mkdir(parents=True, exist_ok=True)
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        complete = folder / _COMPLETE
        if not complete.exists() or complete.read_text() != wanted:
            complete.unlink(missing_ok=True)
            pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            for command in (
                [sys.executable, "-m", "venv", "--clear", str(folder)],
                [*pip, "--no-deps", *environment.alone],
                [*pip, *environment.others],
            ):
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    reason = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
                    pytest.skip(f"the environment of {name} cannot be made at {folder}: {reason[:200]}")
            complete.write_text(wanted)
    return str(folder / "bin" / "python")


def run_script(python: str, script: Path, *arguments: object) -> str:
    """What a script prints, run by another interpreter that sees nothing of this one's packages. It must succeed."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    # -P: a script that is called like the library would otherwise be imported in its place.
    command = [python, "-P", str(script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=variables)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
