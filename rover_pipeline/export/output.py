"""New files and directories that become visible only when they are complete, and that never replace another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rover_pipeline.errors import InTheWayError, named_if_not_written
from rover_pipeline.format.attempt import Attempt, remove_tree
from rover_pipeline.format.channels.base import sync_file, sync_new_name


@contextmanager
def new_output(path: Path) -> Iterator[Path]:
    """A scratch path to build a new file or directory at. It becomes `path` when the block ends without an error.

    Raises:
        InTheWayError: `path` exists, or another process is making it.
    """
    path = path.absolute()
    attempt = Attempt(path, wait=False)
    attempt.begin()
    try:
        output = attempt.folder / path.name
        with named_if_not_written(path):
            yield output
            for directory, _, files in os.walk(output):
                for name in files:
                    sync_file(Path(directory) / name)
            sync_file(output)
        _publish(output, path)
    finally:
        remove_tree(attempt.folder)
        attempt.end()


def _publish(output: Path, path: Path) -> None:
    """Give `output` its final name.

    A hard link to a file, and a rename of a directory, fail when the name was taken in the meantime.
    """
    try:
        if output.is_dir():
            os.rename(output, path)
        else:
            os.link(output, path)
    except OSError as error:
        if os.path.lexists(path):
            raise InTheWayError(f"{path}: already exists; remove it or choose another name") from error
        os.rename(output, path)  # the file system has no hard links
    sync_new_name(path)
