"""Folders of the user's caches, and what stands for them where there are none, as with HOME=/dev/null."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from platformdirs import user_cache_path, user_config_path


def can_be_written(folder: Path) -> bool:
    """Whether a folder, which may not exist yet, can be written."""
    there = next(path for path in (folder, *folder.parents) if os.path.exists(path))
    return os.access(there, os.W_OK | os.X_OK)


def give_matplotlib_a_folder() -> None:
    """Give Matplotlib a folder for this process and its children, where it would warn that it has none."""
    usual = (user_cache_path("matplotlib"), user_config_path("matplotlib"))
    if "MPLCONFIGDIR" not in os.environ and not all(map(can_be_written, usual)):
        os.environ["MPLCONFIGDIR"] = folder = tempfile.mkdtemp(prefix="rover-pipeline-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
