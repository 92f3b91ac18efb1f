"""New files and directories that become visible only when they are complete, and that never replace another."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rover_pipeline.errors import InTheWayError, named_if_not_written
from rover_pipeline.format.attempt import scratch
from rover_pipeline.format.channels.base import sync_file, sync_new_name

#: What the process at the other end of the pipe does. It needs no lock of this interpreter, so that a library may wait
#: for it while it holds that. When the disk is full it reads on, so that nobody waits, and prints the error's number.
_COPY = """
import os, sys
failed, file = 0, None
while data := os.read(0, 1 << 20):
    try:
        file = file or open(sys.argv[1], "wb", buffering=0)
        while data and not failed:
            data = data[file.write(data):]
    except OSError as error:
        failed = error.errno
print(failed)
"""


@contextmanager
def new_output(path: Path) -> Iterator[Path]:
    """A scratch path to build a new file or directory at. It becomes `path` when the block ends without an error.

    Raises:
        InTheWayError: `path` exists, or another process is making it.
    """
    path = path.absolute()
    with scratch(path) as folder:
        output = folder / path.name
        with named_if_not_written(path):
            yield output
            for directory, _, files in os.walk(output):
                for name in files:
                    sync_file(Path(directory) / name)
            sync_file(output)
        _publish(output, path)


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


@contextmanager
def piped(path: Path) -> Iterator[str]:
    """A name to open and write to once, from the first byte to the last; the bytes become the new file `path`.

    Raises:
        OSError: the file could not be written; when the block ends, which must have closed what it opened.
    """
    read, write = os.pipe()
    command = [sys.executable, "-I", "-S", "-c", _COPY, str(path)]
    with subprocess.Popen(command, stdin=read, stdout=subprocess.PIPE) as process:
        os.close(read)
        try:
            yield f"/dev/fd/{write}"
        except BaseException:
            process.kill()
            raise
        finally:
            os.close(write)
        printed, _ = process.communicate()
    number = int(printed) if printed.strip().isdigit() else None
    if number is None:
        raise OSError(f"{path}: the process that writes it ended with status {process.returncode}")
    if number:
        raise OSError(number, os.strerror(number), str(path))
