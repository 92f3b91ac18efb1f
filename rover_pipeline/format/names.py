"""Names of files that other files list.

Whoever made a folder can write anything into its `provenance.json`, `meta.json` or `metadata.yaml`. So a listed name is
data: it names a file of its own folder, or nothing. Every list of names goes through here.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, TypeGuard

from rover_pipeline.errors import FormatError, short

#: Begins the name of the stamp of a result or of a dataset, an empty file that Snakemake knows it by.
STAMP = ".options-"


def is_plain(name: object) -> TypeGuard[str]:
    """Whether a value is the name of a file in a folder, and no path that leads anywhere else."""
    # Unprintable characters include those that no file name can have (zero bytes, lone surrogates) and line ends.
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or not name.isprintable():
        return False
    return len(name.encode()) <= 255  # of a file system


def plain_names(listed: Any) -> list[str]:
    """The plain names in a list. What is none, or in no list, is left out."""
    return [name for name in listed if is_plain(name)] if isinstance(listed, (list, tuple)) else []


def is_stamp(name: object) -> TypeGuard[str]:
    """Whether a value is the name of a stamp."""
    return is_plain(name) and name.startswith(STAMP)


def below(folder: Path, listed: object) -> Path:
    """The path of a file below a folder, which a list gives with `/`.

    Raises:
        FormatError: it leads out of the folder: by an absolute path, by `..`, or through a link.
    """
    parts = listed.removeprefix("./").split("/") if isinstance(listed, str) else [listed]
    path = folder
    for number, part in enumerate(parts):
        if not is_plain(part):
            raise FormatError(f"{folder}: the listed name {short(listed)} leads out of it")
        path = path / part
        if number < len(parts) - 1 and os.path.lexists(path) and not stat.S_ISDIR(os.lstat(path).st_mode):
            raise FormatError(f"{path}: is a link or no folder, where {short(listed)} needs one; move it away")
    return path
