"""Where a result is built before it is published: a folder of one attempt, which no other attempt ever uses.

`TRACE/.partial/_name.PROCESS-TOKEN/` is the scratch folder of an attempt to make `TRACE/_name`, and
`TRACE/.partial/_name.lock` the lock that other attempts wait for. The lock ends with its process, so that nothing has
to be cleaned up by hand: the next attempt removes the folders that killed ones have left.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
import socket
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from rover_pipeline.errors import InTheWayError, naming
from rover_pipeline.format.files import make_folders

#: The folder of a trace that holds scratch folders and locks. It is removed when it is empty.
PARTIAL = ".partial"
LOCK = ".lock"
#: What `flock` says on a file system without locks, such as Lustre without its option `flock`.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
#: Time between two tries to take a lock, and after which a wait is reported, s. Schedule.
_POLL_S = 0.2
_REMIND_S = 30.0


#: Name of a scratch folder: that of the result, the process and a random number.
_FOLDER = re.compile(r"(.+)\.\d+-[0-9a-f]{16}")


def attempts(path: Path) -> list[Path]:
    """Scratch folders of all attempts, alive or killed, to make the result at `path`."""
    return [path.parent / PARTIAL / name for name, result in _folders(path.parent).items() if result == path.name]


def unfinished(trace: Path) -> list[Path]:
    """The results that attempts, alive or killed, were begun for."""
    return [trace / name for name in sorted(set(_folders(trace).values()))]


def _folders(trace: Path) -> dict[str, str]:
    """Names of scratch folders -> the results that they are for."""
    try:
        names = sorted(os.listdir(trace / PARTIAL))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {name: match[1] for name in names if (match := _FOLDER.fullmatch(name))}


def remove_tree(folder: Path) -> None:
    """Remove a scratch folder with all that is in it. Follows no link. One error of the disk is tried again."""
    for _ in range(2):
        if os.path.islink(folder):
            _remove(folder.unlink)
        else:
            shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            return


class Attempt:
    """The scratch folder of one attempt to make the file or folder at `path`, and the lock on it."""

    def __init__(self, path: Path, wait: bool = True) -> None:
        self.path = path
        self.wait = wait  #: for another process that makes the same; False = that is an error.
        self.base = path.parent / PARTIAL
        self.lock = self.base / f"{path.name}{LOCK}"
        self.folder = self.base / f"{path.name}.{os.getpid()}-{secrets.token_hex(8)}"  #: of this attempt alone.
        self.waited = False  #: whether this process waited for another one, which may have made the same result.
        self.alone = True  #: whether a lock keeps all others away. False on a file system without locks.
        self._descriptor: int | None = None

    def begin(self, remove: Callable[[Path], None] = remove_tree) -> None:
        """Wait for the lock, remove what killed attempts have left, and make the folder.

        `remove` is called with each folder that a killed attempt has left. Raises InTheWayError where something that is
        not ours stands where the folder or the lock belongs, or another process makes the same, and `wait` is False.
        """
        self._acquire()
        try:
            if self.alone:
                for folder in attempts(self.path):
                    remove(folder)
            self.folder.mkdir()
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Give the lock back. What cannot be removed now is removed by the next attempt."""
        if self._descriptor is None:
            return
        _remove(self.lock.unlink)
        os.close(self._descriptor)
        self._descriptor = None
        _remove(self.base.rmdir)  # it succeeds only when the directory is empty

    def _acquire(self, reminded: float = 0.0) -> None:
        """Take an exclusive lock. Wait while another live process makes the same result. `reminded` is when it was last
        said that this waits, on the monotonic clock."""
        while self._descriptor is None:
            _make_folder(self.base)
            try:
                descriptor = open_regular(self.lock)
            except FileNotFoundError:
                continue  # the other process has just removed the empty directory
            except OSError:
                _remove(self.base.rmdir)
                raise
            try:
                if self._try_lock(descriptor):
                    self._descriptor = descriptor
                    with contextlib.suppress(OSError):  # this note for waiting processes may fail on a full disk
                        os.ftruncate(descriptor, 0)
                        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
                    return
            except BlockingIOError as error:
                if not self.wait:
                    os.close(descriptor)
                    text = f"{self.path}: is being made by another process; wait for it to end"
                    raise InTheWayError(text) from error
                self.waited = True
                if time.monotonic() > reminded + _REMIND_S:
                    holder = os.pread(descriptor, 200, 0).decode(errors="replace") or "another process"
                    print(f"{self.path}: waiting for {holder}, which makes it now", file=sys.stderr, flush=True)
                    reminded = time.monotonic()
                time.sleep(_POLL_S)
            except BaseException:
                if not os.fstat(descriptor).st_size:  # nobody has ever held it
                    _remove(self.lock.unlink)
                    _remove(self.base.rmdir)
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _try_lock(self, descriptor: int) -> bool:
        """Whether the lock is ours now. Raises BlockingIOError while another process holds it."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            # Attempts never share a folder and publish by one rename, so that two at once only do the work twice.
            self.alone = False
            return True
        try:
            # The previous holder removes the file that it had locked, so only a lock on the present file counts.
            return os.fstat(descriptor).st_ino == os.lstat(self.lock).st_ino
        except FileNotFoundError:
            return False


@contextlib.contextmanager
def scratch(path: Path, remove: Callable[[Path], None] = remove_tree, *, wait: bool = False) -> Iterator[Path]:
    """The folder of an attempt, which is locked while the block lasts, and removed then. See `Attempt` and `begin`."""
    attempt = Attempt(path, wait)
    attempt.begin(remove)
    try:
        yield attempt.folder
    finally:
        remove_tree(attempt.folder)
        attempt.end()


def wait_for_others(path: Path) -> None:
    """Wait while another process makes the result at `path`, without a word unless it takes long."""
    attempt = Attempt(path)
    if attempt.lock.exists():
        attempt._acquire(reminded=time.monotonic())
        attempt.end()


def remove_left(path: Path, remove: Callable[[Path], None] = remove_tree) -> None:
    """Remove what killed attempts to make `path` have left, unless another process makes it; see `Attempt.begin`."""
    if (path.parent / PARTIAL).is_dir():  # perhaps with a lock alone, or empty
        with contextlib.suppress(InTheWayError, OSError), scratch(path, remove):
            pass  # what is at the path is whole, or absent


def _remove(call: Callable[[], None]) -> None:
    """Remove something that nobody needs. One error of the disk may pass."""
    for _ in range(2):
        with contextlib.suppress(OSError):
            call()
            return


def open_regular(path: Path) -> int:
    """Open a file of ours to read and write, and make it where it does not exist. Follows no link. Raises InTheWayError
    where it is a link, has another name elsewhere, or is no regular file: writing could change other data."""
    problem = f"{path}: is not a file of this program, but a link or no regular file; remove it"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise InTheWayError(problem) from error
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        raise InTheWayError(problem)
    return descriptor


def _make_folder(folder: Path) -> None:
    """Make a folder of ours. Raises InTheWayError where something else has its name."""
    make_folders(folder.parent)
    denied = naming(folder.parent, PermissionError, made=InTheWayError, remedy="; choose a folder to write to")
    with contextlib.suppress(FileExistsError), denied:
        folder.mkdir()
    with contextlib.suppress(FileNotFoundError):  # another process has just removed it
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            raise InTheWayError(f"{folder}: is not a folder of this program, but a link or a file; remove it")


# How a finished directory takes the place of an older one, so that one of the two is there at every moment.

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
    the names in `last`. Whatever was replaced is in `new` afterwards. Raises OSError where nothing was changed.

    Args:
        ours: names in `old` that may be replaced. All others keep their path.
        mark: name of the file that shows whose directory it is; it is there at every moment.
        last: names that make the directory count, in the order in which they are published.
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
