"""How a finished directory takes the place of an older one, so that one of the two is there at every moment."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

#: Of Linux: "in the working directory" (`fcntl.h`), and "exchange the names" (`fs.h`). Layout.
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
#: What systems and file systems answer that cannot exchange two names.
_CANNOT = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV)
#: What they answer that cannot give an entry a second name: a folder, or any file on some file systems.
_NOT_LINKED = (errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)


def switch(new: Path, old: Path, ours: Collection[str], mark: str, last: Sequence[str]) -> None:
    """Give the directory `new` the name `old`, where nothing or an older result is.

    Linux exchanges two names in one step (`renameat2` with RENAME_EXCHANGE), so that a kill at any moment leaves the
    whole old directory or the whole new one. Where a file system cannot, or where others keep folders in `old`, files
    are replaced one by one, `last` after all others: an error takes everything back, a kill leaves a directory without
    the names in `last`. Whatever was replaced is in `new` afterwards.

    Args:
        ours: names in `old` that may be replaced. All others keep their path.
        mark: name of the file that shows whose directory it is; it is there at every moment.
        last: names that make the directory count, in the order in which they are published.

    Raises:
        OSError: nothing was changed.
    """
    if not _is_filled(old):
        os.rename(new, old)
        return
    others = sorted(set(os.listdir(old)) - set(ours))
    if not (_link(old, new, others) and _exchange(new, old)):
        for name in others:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(new / name)
        _replace_files(new, old, ours, mark, last)


def _link(source: Path, target: Path, names: Sequence[str]) -> bool:
    """Give files a second name in another directory; False where that is not possible, as it is for folders."""
    try:
        for name in names:
            os.link(source / name, target / name, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NOT_LINKED:
            raise
        return False
    return True


def _is_filled(folder: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return bool(os.listdir(folder))
    return False


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two names in one step; False where that is not possible."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(first))


def _replace_files(new: Path, old: Path, ours: Collection[str], mark: str, last: Sequence[str]) -> None:
    """Replace our files in `old` by those of `new` one by one. An error takes back what was done."""
    names = [name for name in sorted(os.listdir(new)) if name not in (mark, *last)]
    aside = new / ".older"
    aside.mkdir()
    undo: list[tuple[Path, Path]] = []
    try:
        for name in [*reversed(last), *sorted(set(ours) - {mark, *last})]:
            if os.path.lexists(old / name):
                os.rename(old / name, aside / name)
                undo.append((aside / name, old / name))
        shutil.copyfile(old / mark, aside / mark, follow_symlinks=False)
        os.rename(new / mark, old / mark)
        undo.append((aside / mark, old / mark))
        for name in [*names, *last]:
            if os.path.lexists(new / name):
                os.rename(new / name, old / name)
                undo.append((old / name, new / name))
    except OSError:
        for source, target in reversed(undo):
            os.rename(source, target)
        raise
