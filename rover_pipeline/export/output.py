"""A new file or folder that is there whole or not at all, and never takes the place of another."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rover_pipeline.errors import InTheWayError, named_if_not_written
from rover_pipeline.format.channels.base import sync_file
from rover_pipeline.format.trace import clear


@contextmanager
def new_output(path: Path) -> Iterator[Path]:
    """A place to build a new file or folder at; what is there when the block ends without an error becomes `path`.

    Raises:
        InTheWayError: `path` exists, or another process is making it.
    """
    path = path.absolute()
    scratch = path.with_name(f".{path.name}.partial")
    scratch.mkdir(parents=True, exist_ok=True)
    lock = os.open(scratch, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InTheWayError(f"{path}: is being made by another process; wait for it to end") from error
        try:
            clear(scratch)
            made = scratch / path.name
            with named_if_not_written(path):
                yield made
                _sync(made)
            _publish(made, path)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    finally:
        os.close(lock)


def _sync(made: Path) -> None:
    for folder, _, files in os.walk(made):
        for name in files:
            sync_file(Path(folder) / name)
    sync_file(made)


def _publish(made: Path, path: Path) -> None:
    """Give `made` its name, unless something took it: links of files and renames of folders refuse what is there."""
    try:
        if made.is_dir():
            os.rename(made, path)
        else:
            os.link(made, path)
    except OSError as error:
        if os.path.lexists(path):
            raise InTheWayError(f"{path}: is there already; remove it or choose another name") from error
        os.rename(made, path)  # file systems without links
    sync_file(path.parent)
