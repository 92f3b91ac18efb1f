"""A stamp that is put back.

Snakemake removes the stamp of a result before it starts the job that makes it (`workflow/stamps.py`). Where a pass has
made the result already, the job only says so. Light: no NumPy.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rover_pipeline.format.provenance import files_of, read_provenance


def confirm(stamp: Path, time: Any) -> bool:
    """Put back the stamp of a result, if that is still the one that was made at `time`.

    Args:
        time: what its provenance says under `time`: when it was begun, how long it took, and the states of its inputs.

    Returns:
        False where there is another result, or none, or not the whole of it.
    """
    try:
        folder = os.open(stamp.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        # By the open folder: another process may exchange what is at the path for a result with other options.
        provenance = read_provenance(Path(f"/proc/self/fd/{folder}"))
        listed = files_of(provenance)
        there = {*os.listdir(folder), stamp.name}
        if provenance is None or provenance.get("time") != time or stamp.name not in listed or not listed <= there:
            return False
        os.close(os.open(stamp.name, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666, dir_fd=folder))
        os.fsync(folder)
        return True
    finally:
        os.close(folder)
