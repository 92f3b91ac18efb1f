"""A process that decodes bytes of others is confined: what a hostile file may make it do stays in it.

From `enter` on, until it ends, the process and its children cannot write outside of a few folders, reach a network or a
socket of this machine, or take all of its memory. They still read what the user can read. Linux's Landlock and seccomp
do this without privileges; where a kernel has none of them, or on other processors, the limits of memory and time stay.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path, user_config_path

#: Landlock's system calls, whose numbers are the same on all processors. Layout.
_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
#: Its rights to change something, by the version that brought them. A file can have some of them. Layout.
_RIGHTS = {1: 0x1FF2, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_OF_FILES = 1 << 1 | 1 << 14 | 1 << 15
#: Signals, and abstract sockets, of processes outside; since a version. Layout.
_TO_OTHERS, _SCOPED_SINCE = 3, 6
#: To make and remove folders, and to move them elsewhere: no file is changed by that. Layout.
_OF_FOLDERS = 1 << 4 | 1 << 7 | 1 << 13
#: Options of the system call `prctl`. Layout.
_KILL_WITH_PARENT, _NO_NEW_PRIVILEGES, _SECCOMP = 1, 38, 22
#: Of a processor: its number in seccomp, and that of the call `socket`. Layout.
_PROCESSORS = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
#: Makes sockets too; calls from `_OTHERS` on are of another interface of the same processor. Layout.
_IO_URING, _OTHERS = 425, 0x40000000
#: What a program of seccomp answers; the error of a refused call is EACCES. Layout.
_ALLOW, _REFUSE = 0x7FFF0000, 0x0005000D
#: Seconds of a processor: three times what the longest recordings take. Share of the machine's memory, and bytes that
#: threads and libraries reserve and never use. Schedule.
_CPU_S, _MEMORY, _RESERVED = 100 * 3600, 0.8, 4 << 30


def version() -> int:
    """Version of the kernel's Landlock; 0 = it has none."""
    return max(0, _call(_CREATE, None, 0, 1))


@contextmanager
def folders() -> Iterator[list[Path]]:
    """What a process in a cage may write besides its results: a new folder for temporary files, and caches.

    Whoever takes such a process over can put code into the cache of compiled kernels, which later jobs load.
    """
    with tempfile.TemporaryDirectory(prefix="rover-pipeline-") as temporary:
        known = [Path(temporary), user_cache_path("rover_pipeline"), user_cache_path("matplotlib")]
        known += [Path(os.environ[name]) for name in ("NUMBA_CACHE_DIR", "MPLCONFIGDIR") if os.environ.get(name)]
        # Matplotlib complains where there is no folder for its settings; it writes none.
        for folder in (*known, user_config_path("matplotlib")):
            with suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
        # Semaphores of worker processes are files in /dev/shm.
        yield [*known, Path("/dev/shm"), Path("/dev/null")]


def enter(writable: Iterable[Path], publishes: Iterable[Path] = (), *, network: bool = False) -> None:
    """Confine this process, which has one thread, for the rest of its life.

    Args:
        writable: files and folders that may be written; the first one gets temporary files.
        publishes: folders below which folders may be moved, made, and removed when they are empty, and no file changed.
        network: leave it, for a scheduler of Dask. What Dask's workers do on other machines is not confined.
    """
    writable = list(writable)
    tempfile.tempdir = str(writable[0])
    if not network:  # Slurm hands the environment on to other machines
        os.environ["TMPDIR"] = tempfile.tempdir
    if not os.access(user_cache_path("rover_pipeline"), os.W_OK):  # kernels are compiled for this process alone
        os.environ.setdefault("NUMBA_CACHE_DIR", tempfile.tempdir)
    memory = _RESERVED + int(_MEMORY * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_CPU: _CPU_S, resource.RLIMIT_AS: memory}
    for kind, limit in limits.items():
        hard = resource.getrlimit(kind)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (limit, limit))
    if platform.system() == "Linux":
        _control(_KILL_WITH_PARENT, 9)
        _control(_NO_NEW_PRIVILEGES, 1)
        if found := version():
            rights = sum(each for since, each in _RIGHTS.items() if since <= found)
            _restrict(rights, {**dict.fromkeys(publishes, rights & _OF_FOLDERS), **dict.fromkeys(writable, rights)})
        if not network and platform.machine() in _PROCESSORS:
            _refuse_sockets(*_PROCESSORS[platform.machine()])


def _restrict(rights: int, allowed: dict[Path, int]) -> None:
    """Refuse some rights everywhere but at and below the paths that have them."""
    attributes = struct.pack("=QQQ", rights, 0, _TO_OTHERS)[: 24 if version() >= _SCOPED_SINCE else 8]
    rules = _call(_CREATE, attributes, len(attributes), 0)
    for path, own in allowed.items():
        with suppress(OSError):  # what is not there cannot be written
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            _call(_ADD_RULE, rules, 1, struct.pack("=Qi", own if path.is_dir() else own & _OF_FILES, descriptor), 0)
            os.close(descriptor)
    _call(_RESTRICT, rules, 0)
    os.close(rules)


def _refuse_sockets(processor: int, socket: int) -> None:
    """Refuse new sockets of any kind, for TCP, UDP or services of this machine. Pipes to other processes stay."""
    load, equal, is_from, end = 0x20, 0x15, 0x35, 0x06
    program = [
        *((load, 0, 0, 4), (equal, 0, 4, processor)),
        *((load, 0, 0, 0), (is_from, 2, 0, _OTHERS), (equal, 1, 0, _IO_URING), (equal, 0, 1, socket)),
        *((end, 0, 0, _REFUSE), (end, 0, 0, _ALLOW)),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in program))
    _control(_SECCOMP, 2, struct.pack("@HP", len(program), ctypes.addressof(code)))


def _control(*arguments: Any) -> None:
    ctypes.CDLL(None).prctl(
        *(ctypes.c_ulong(each) if isinstance(each, int) else each for each in (*arguments, 0, 0, 0))
    )


def _call(number: int, *arguments: Any) -> int:
    """A system call that Python has no function for; -1 = it failed."""
    long = [ctypes.c_long(each) if isinstance(each, int) else each for each in (number, *arguments)]
    return int(ctypes.CDLL(None).syscall(*long))
