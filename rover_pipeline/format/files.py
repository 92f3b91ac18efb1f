"""Opening files of a trace for reading: regular files only, without waiting, and with a bound on what is read whole.
Light: jobs whose result is there import it, and no NumPy.

A trace can come from anywhere. A named pipe where a file belongs would block its reader for ever, a device may never
end, and a sparse file of a few blocks can claim terabytes.

Folders that are made here keep their names in a power cut.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any, TypeGuard

from rover_pipeline.errors import FormatError, short

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextmanager
def opened_regular(path: Path) -> Iterator[int]:
    """The file descriptor of a regular file, which is closed at the end of the block. Raises FormatError where the path
    is no regular file, and OSError where the file cannot be opened."""
    require_regular(path, os.stat(path))  # opening a device can have effects, so look at it first
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        require_regular(path, os.fstat(descriptor))
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def opened_file(path: Path, buffering: int = 1 << 16) -> Iterator[BufferedReader]:
    """A regular file as an object with `read` and `seek`, for libraries that take one. Raises as `opened_regular`."""
    with opened_regular(path) as descriptor, FileIO(descriptor, closefd=False) as file:
        yield BufferedReader(file, buffering)


@contextmanager
def opened(path: Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    """The descriptor of what this program has made. It is closed at the end of the block."""
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    with opened(path) as descriptor:
        os.fsync(descriptor)


def replace_file(path: Path, text: str) -> None:
    """Write `text` to `path`, for good. A kill or a full disk leaves the whole old content or the whole new one.

    The scratch file is always a new one: what stands under its name may be a link to something else.
    """
    scratch = path.with_name(f".{path.name}.new")
    scratch.unlink(missing_ok=True)
    try:
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except OSError:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)
        raise
    sync_file(path.parent)


def replace_json(path: Path, content: object) -> None:
    """The same of a value as JSON, indented for people."""
    replace_file(path, json.dumps(content, indent=2) + "\n")


def make_folders(folder: Path) -> None:
    """Make a folder and the missing ones above it, for good: what is synced in a folder is lost with its name."""
    missing = [each for each in (folder, *folder.parents) if not os.path.lexists(each)]
    folder.mkdir(parents=True, exist_ok=True)
    for each in missing:
        with suppress(OSError):  # another process has removed it, or a power cut in the next seconds could
            sync_file(each.parent)


def existing(text: str) -> Path:
    """The path of an argument that must name a file or folder: one that is missing is reported before work begins."""
    path = Path(text)
    if not path.exists():
        raise FormatError(f"{text}: no such file or folder")
    return path


def regular_size(path: Path) -> int:
    """Bytes of a regular file. Raises FormatError when the path is something else, OSError when there is nothing."""
    status = os.stat(path)
    require_regular(path, status)
    return status.st_size


def require_regular(path: Path, status: os.stat_result) -> None:
    """Raise FormatError unless a path is a regular file."""
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise FormatError(f"{path}: is {kind} where a file belongs; put the file there")


def read_bounded(path: Path, limit: int, what: str) -> bytes:
    """The bytes of a regular file of at most `limit` bytes; `what` is what such a file is one of, for the message.
    Raises FormatError where the path is no regular file, or the file is larger, and OSError where it cannot be read."""
    with opened_regular(path) as descriptor:
        size = os.fstat(descriptor).st_size
        if size > limit:
            raise FormatError(f"{path}: has {size:,} bytes, more than the {limit:,} of {what}; replace it")
        # The file may grow while it is read: one byte more than the limit shows that.
        data = read_exactly(descriptor, size + 1, 0)
        if len(data) > limit:
            raise FormatError(f"{path}: became larger than {limit:,} bytes while it was read; try again")
        return data


def read_exactly(descriptor: int, size: int, offset: int) -> bytes:
    """`size` bytes at `offset`, fewer only at the end of the file. Threads may share the descriptor."""
    parts = []
    while size > 0 and (part := os.pread(descriptor, size, offset)):
        parts.append(part)
        size, offset = size - len(part), offset + len(part)
    return b"".join(parts)


def exists(path: Path) -> bool:
    """Whether there is anything at a path.

    Only the answer "does not exist" means that something is absent. A link to nothing, or to itself, is there: whatever
    it should lead to is missing, which its reader says. Any other error, of a disk say, is raised.
    """
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return os.path.islink(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        if error.errno != errno.ELOOP:
            raise
    return True


# Names of files that other files list.
#
# Whoever made a folder can write anything into its `provenance.json`, `meta.json` or `metadata.yaml`. So a listed name
# is data: it names a file of its own folder, or nothing. Every list of names goes through here.

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
    """The path of a file below a folder, which a list gives with `/`. Raises FormatError where it leads out of the
    folder: by an absolute path, by `..`, or through a link."""
    parts = listed.removeprefix("./").split("/") if isinstance(listed, str) else [listed]
    path = folder
    for number, part in enumerate(parts):
        if not is_plain(part):
            raise FormatError(f"{folder}: the listed name {short(listed)} leads out of it")
        path = path / part
        if number < len(parts) - 1 and os.path.lexists(path) and not stat.S_ISDIR(os.lstat(path).st_mode):
            raise FormatError(f"{path}: is a link or no folder, where {short(listed)} needs one; move it away")
    return path
