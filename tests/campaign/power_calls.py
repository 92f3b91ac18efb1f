"""System calls of a recorded process that change files, as strace wrote them down."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_CHANGES = (
    *("open", "openat", "write", "pwrite64", "writev", "pwritev", "pwritev2", "ftruncate", "truncate", "fallocate"),
    *("copy_file_range", "sendfile", "fsync", "fdatasync", "sync", "syncfs", "rename", "renameat", "renameat2", "link"),
    *("linkat", "symlink", "symlinkat", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "lseek", "read", "readv"),
    *("mmap", "dup", "dup2", "dup3", "fcntl", "clone", "clone3", "fork", "vfork"),
)
#: What is put before a command whose calls are recorded. Bytes are hexadecimal; those that are only read are left out.
TRACED = ["strace", "-f", "--seccomp-bpf", "-qq", "-xx", "-s", "1000000000", "-e", f"trace={','.join(_CHANGES)}"]
TRACED += ["-e", "raw=read,readv", "-e", "signal=none", "-o"]
_LINE = re.compile(r"(\d+) +(.*)")
_CALL = re.compile(r"(\w+)\((.*)\) += (-?\w+|\?)(.*)", re.DOTALL)
_UNFINISHED, _RESUMED = re.compile(r"(.*) <unfinished \.\.\.>"), re.compile(r"<\.\.\. \w+ resumed>(.*)")
_TOKEN = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?|([^,"\[\]{}]+)')


class Call(NamedTuple):
    """A call that succeeded.

    Attributes:
        number: calls that had ended when it ended; begun: when it began.
        thread: number of the thread that made it.
        name: of its form with the folder of each path, such as `openat`.
        args: bytes of strings and buffers, texts of everything else.
        value: what it returned.
    """

    number: int
    begun: int
    thread: int
    name: str
    args: list[Any]
    value: int


def calls(log: Path) -> Iterator[Call]:
    """Calls in the order in which they ended."""
    waiting: dict[int, tuple[str, int]] = {}
    ended = 0
    with log.open(encoding="ascii") as lines:
        for line in lines:
            match = _LINE.match(line.rstrip("\n"))
            if match is None or match[2].startswith(("+++", "---")):
                continue
            thread, text, begun = int(match[1]), match[2], ended
            if unfinished := _UNFINISHED.fullmatch(text):
                waiting[thread] = unfinished[1], ended
                continue
            if resumed := _RESUMED.fullmatch(text):
                if thread not in waiting:  # it began before the recording did
                    continue
                first, begun = waiting.pop(thread)
                text = first + resumed[1]
            call = _CALL.fullmatch(text)
            if call is None or call[3].startswith(("-", "?")):
                continue
            ended += 1
            name, args = call[1], _args(call[2])
            if name in _WITH_FOLDER:
                name, places = _WITH_FOLDER[name]
                for place in places:
                    args.insert(place, "AT_FDCWD")
            yield Call(ended, begun, thread, name, args, int(call[3], 0))


#: Form of a call with folders -> where these are put.
_WITH_FOLDER: dict[str, tuple[str, tuple[int, ...]]] = {
    "open": ("openat", (0,)),
    "rename": ("renameat2", (0, 2)),
    "renameat": ("renameat2", ()),
    "link": ("linkat", (0, 2)),
    "symlink": ("symlinkat", (1,)),
    "unlink": ("unlinkat", (0,)),
    "rmdir": ("unlinkat", (0,)),
    "mkdir": ("mkdirat", (0,)),
}


def _args(text: str) -> list[Any]:
    found: list[Any] = []
    for match in _TOKEN.finditer(text):
        if match[1] is not None:
            assert not match[2], "strace cut a buffer off"
            found.append(bytes.fromhex(match[1].replace("\\x", "")))
        elif match[3].strip():
            found.append(match[3].strip())
    return found


class Opened:
    """An open file: what it is, and where the next byte goes."""

    def __init__(self, node: Any, append: bool = False) -> None:
        self.node, self.at, self.append = node, 0, append


class Tables:
    """Open files of each process, by the number of a thread. Threads share a table, forked processes get a copy."""

    def __init__(self) -> None:
        self._first: dict[int, Opened] = {}
        self._of: dict[int, dict[int, Opened]] = {}

    def of(self, thread: int) -> dict[int, Opened]:
        # A new thread may make calls before the call that made it returns.
        return self._of.get(thread, self._first)

    def follow(self, call: Call) -> None:
        """Know of a new thread or process."""
        mine = self.of(call.thread)
        self._of[call.value] = mine if any("CLONE_FILES" in str(each) for each in call.args) else dict(mine)
