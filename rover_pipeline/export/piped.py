"""A file that another library writes, through a pipe: a full disk is then an error, where the library would hang."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: What the process at the other end of the pipe does. It needs no lock of this interpreter, so that a library may wait
#: for it while it holds that. When the disk is full it reads on, so that nobody waits, and tells the error's number.
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
        told, _ = process.communicate()
    number = int(told) if told.strip().isdigit() else None
    if number is None:
        raise OSError(f"{path}: the process that writes it ended with status {process.returncode}")
    if number:
        raise OSError(number, os.strerror(number), str(path))
