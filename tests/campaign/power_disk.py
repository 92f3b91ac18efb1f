"""A file system that is played from recorded calls, and what may be on its disk after a power cut at any of them.

Two models. In order: names are kept in the order of the calls; data that was not synced is missing, zeros, or torn.
Weak (POSIX): besides, a change of names in a folder that was not synced since may have happened or not, each by itself.
A rename happens in both of its folders or in none of them.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress, product
from pathlib import Path
from typing import Any, NamedTuple

from rover_pipeline.format.attempt import PARTIAL

#: Path below the root -> bytes of a file, None of a folder, text of a link's target.
Tree = dict[str, bytes | str | None]
#: Form of a call with folders -> where the words for "no folder" are put.
_WITH_FOLDER: dict[str, tuple[str, tuple[int, ...]]] = {
    **{"open": ("openat", (0,)), "unlink": ("unlinkat", (0,)), "rmdir": ("unlinkat", (0,)), "mkdir": ("mkdirat", (0,))},
    **{"rename": ("renameat2", (0, 2)), "renameat": ("renameat2", ()), "link": ("linkat", (0, 2))},
    **{"symlink": ("symlinkat", (1,))},
}
_PLAYED = (
    "openat mkdirat unlinkat renameat2 linkat symlinkat write writev pwrite64 ftruncate fsync fdatasync lseek read"
)
_NEW_THREADS = ("clone", "clone3", "fork", "vfork")
_CALLS = (*_WITH_FOLDER, *_PLAYED.split(), *_NEW_THREADS, "fcntl")
#: What is put before a command whose calls are recorded. Bytes are hexadecimal; those that are read are left out.
TRACED = ["strace", "-f", "--seccomp-bpf", "-qq", "-xx", "-s", "1000000000", "-e", f"trace={','.join(_CALLS)}"]
TRACED += ["-e", "raw=read", "-e", "signal=none", "-o"]
_LINE = re.compile(r"(\d+) +(?:<\.\.\. \w+ resumed>)?(.*?)( <unfinished \.\.\.>)?\n?", re.DOTALL)
_CALL = re.compile(r"(\w+)\((.*)\) += (\w+).*", re.DOTALL)
_TOKEN = re.compile(r'"((?:\\x[0-9a-f]{2})*)"|([^,"\[\]{}]+)')
#: Changes of names that are tried in all combinations, and how many combinations of more are drawn.
_ALL, _DRAWN = 4, 24
#: What becomes of the data that was not synced.
_DATA = ("whole", "missing", "zeros", "torn", "mixed")


class Call(NamedTuple):
    """A call that succeeded. `number`: calls that had ended when it ended; `begun`: when it began.

    `args` are bytes of strings and buffers, texts of everything else.
    """

    number: int
    begun: int
    thread: int
    name: str
    args: list[Any]
    value: int


def calls(log: Path) -> Iterator[Call]:
    """Recorded calls in the order in which they ended."""
    waiting: dict[int, tuple[str, int]] = {}
    ended = 0
    with log.open(encoding="ascii") as lines:
        for match in filter(None, map(_LINE.fullmatch, lines)):
            thread, text, begun = int(match[1]), match[2], ended
            if "resumed>" in match[0][:60]:
                first, begun = waiting.pop(thread, ("", 0))
                text = first + text
            if match[3]:
                waiting[thread] = text, begun
            elif call := _CALL.fullmatch(text):
                ended += 1
                name, places = _WITH_FOLDER.get(call[1], (call[1], ()))
                tokens = (each for each in _TOKEN.finditer(call[2]) if each[1] is not None or each[2].strip())
                args = [each[2].strip() if each[2] else bytes.fromhex(each[1].replace("\\x", "")) for each in tokens]
                for place in places:
                    args.insert(place, "AT_FDCWD")
                yield Call(ended, begun, thread, name, args, int(call[3], 0))


class Node:
    """A file, folder or link.

    Attributes:
        content: of a link, its target; of a file, the bytes that are on the disk; None of a folder.
        names: of a folder.
        writes: that are not on the disk: (number of the call, offset, bytes; None = this is the size).
    """

    def __init__(self, content: bytes | str | None) -> None:
        self.content = content
        self.names: dict[str, Node] = {}
        self.writes: list[tuple[int, int, bytes | None]] = []
        self._played: tuple[int, bytes] = (0, b"")

    def data(self) -> bytes:
        """The bytes of a file as a reader sees it now."""
        done, content = self._played if self._played[0] else (0, self.content)
        assert isinstance(content, bytes)
        if done < len(self.writes):
            content = _written(content, self.writes[done:])
            self._played = len(self.writes), content
        return content

    def sync(self, last: int) -> None:
        """Let writes up to the call `last` be on the disk."""
        early = [write for write in self.writes if write[0] <= last]
        present = self.data()
        assert isinstance(self.content, bytes)
        self.writes = self.writes[len(early) :]
        self.content = _written(self.content, early) if self.writes else present
        self._played = len(self.writes), present

    def left(self, how: str, rng: random.Random) -> bytes | str:
        """What is on the disk after a power cut."""
        old = self.content
        assert old is not None
        if isinstance(old, str) or not self.writes:
            return old
        new = self.data()
        how = rng.choice(_DATA[:-1]) if how == "mixed" else how
        if how in ("whole", "missing"):
            return new if how == "whole" else old
        if how == "zeros":  # the file has its size, and its blocks were never written
            return old[: len(new)] + bytes(max(0, len(new) - len(old)))
        cut = rng.randrange(max(1, len(new)))
        cut -= cut % 512 if rng.random() < 0.5 else 0
        return new[:cut] + (bytes(len(new) - cut) if rng.random() < 0.5 else b"")


def _written(content: bytes, writes: Iterable[tuple[int, int, bytes | None]]) -> bytes:
    buffer = bytearray(content)
    for _, at, data in writes:
        end = at + len(data or b"")
        buffer.extend(bytes(max(0, end - len(buffer))))
        if data is None:
            del buffer[at:]
        else:
            buffer[at:end] = data
    return bytes(buffer)


class Change(NamedTuple):
    """A change of names by one call: (folder, name, what is there then; None = nothing). All of it happens, or none."""

    call: int
    entries: tuple[tuple[Node, str, Node | None], ...]


class _Opened:
    """An open file, and where its next byte goes."""

    def __init__(self, node: Node, append: bool) -> None:
        self.node, self.at, self.append = node, 0, append


class Disk:
    """Plays calls below `root`, in which `tree` is at first, all of it on the disk."""

    def __init__(self, root: Path, tree: Tree) -> None:
        self.root, self.top = root, Node(None)
        for path, content in sorted(tree.items()):
            folder, name = self._at(path.split("/"), self.top)
            folder.names[name] = Node(content)
        self._begin = _names(self.top)
        self._changes: list[Change] = []
        self._done: set[int] = set()  # calls whose changes of names are on the disk
        self._tables: dict[int, dict[int, _Opened]] = {0: {}}  # open files by threads; 0 = not known yet
        self._now = 0

    # --- After a power cut ----------------------------------------------------------------------------------------

    def tree(self) -> Tree:
        """What a reader sees now."""
        return self._left(lambda _: True, "whole", random.Random(0))

    def states(self, rng: random.Random) -> Iterator[tuple[str, Tree]]:
        """What may be there after a power cut now, and in which model."""
        for how in (*_DATA, "torn", "mixed", "mixed"):
            yield "ordered", self._left(lambda _: True, how, rng)
        pending = [change for change in self._changes if change.call not in self._done]
        near = _names(self.top, hidden=False)
        shown = [change.call for change in pending if any(id(folder) in near for folder, _, _ in change.entries)]
        others = [change.call for change in pending if change.call not in shown]
        if len(shown) <= _ALL:
            chosen = [set(compress(shown, pick)) for pick in product((0, 1), repeat=len(shown))]
        else:
            chosen = [_drawn(shown, rng) for _ in range(_DRAWN)]
        for each in chosen:
            for more in (set(others), _drawn(others, rng), _drawn(others, rng)):
                happened = each | more | self._done
                yield "weak", self._left(happened.__contains__, rng.choice(_DATA), rng)

    def _left(self, happened: Callable[[int], bool], how: str, rng: random.Random) -> Tree:
        names = {key: dict(entries) for key, entries in self._begin.items()}
        for change in self._changes:
            for folder, name, node in change.entries if happened(change.call) else ():
                names.setdefault(id(folder), {}).pop(name, None)
                if node is not None:
                    names[id(folder)][name] = node
        tree: Tree = {}
        contents: dict[int, bytes | str] = {}  # a file may have two names
        waiting, seen = [("", self.top)], {id(self.top)}
        while waiting:
            path, folder = waiting.pop()
            for name, node in sorted(names.get(id(folder), {}).items()):
                if node.content is not None:
                    if id(node) not in contents:
                        contents[id(node)] = node.left(how, rng)
                    tree[path + name] = contents[id(node)]
                elif id(node) not in seen:  # a folder has one name
                    seen.add(id(node))
                    tree[path + name] = None
                    waiting.append((f"{path}{name}/", node))
        return tree

    # --- Calls ----------------------------------------------------------------------------------------------------

    def play(self, call: Call) -> bool:
        """Do a call; whether it may change what is on the disk."""
        name, args, self._now = call.name, call.args, call.number
        table = self._tables.get(call.thread, self._tables[0])
        number = next((each for each in args[:1] if isinstance(each, str) and each[:1].isdigit()), "-1")
        held = table.get(int(number, 0))
        data = b"".join(each for each in args if isinstance(each, bytes))[: max(0, call.value)]
        if name in _NEW_THREADS:
            shares = any("CLONE_FILES" in str(each) for each in args)
            self._tables[call.value] = table if shares else dict(table)
        elif name == "openat":
            return self._open(call, table)
        elif name == "fcntl" and held and "F_DUPFD" in args[1]:
            table[call.value] = held
        elif name in ("write", "writev") and held:
            held.at = len(held.node.data()) if held.append else held.at
            self.write(held.node, held.at, data)
            held.at += call.value
            return True
        elif name in ("pwrite64", "ftruncate") and held:
            self.write(held.node, int(args[-1]), data if name == "pwrite64" else None)
            return True
        elif name in ("read", "lseek") and held:
            held.at = call.value + (held.at if name == "read" else 0)
        elif name in ("fsync", "fdatasync") and held:
            self.sync(held.node, call.begun)
            return True
        elif name in ("unlinkat", "mkdirat") and (place := self._place(table, args[0], args[1])):
            self.change((*place, Node(None) if name == "mkdirat" else None))
            return True
        elif name == "symlinkat" and (place := self._place(table, args[1], args[2])):
            self.change((*place, Node(os.fsdecode(args[0]))))
            return True
        elif name in ("renameat2", "linkat") and (new := self._place(table, args[2], args[3])):
            folder, old = self._place(table, args[0], args[1]) or (None, "")
            assert folder is not None, "a file comes from outside of the root"
            exchanged = new[0].names.get(new[1]) if "RENAME_EXCHANGE" in str(args[4:]) else None
            moved = (*new, folder.names[old])
            self.change(*([(folder, old, exchanged), moved] if name == "renameat2" else [moved]))
            return True
        return False

    def change(self, *entries: tuple[Node, str, Node | None]) -> None:
        """Change names."""
        for folder, name, node in entries:
            folder.names.pop(name, None)
            if node is not None:
                folder.names[name] = node
        self._changes.append(Change(self._now, entries))

    def write(self, node: Node, at: int, data: bytes | None) -> None:
        """Write bytes at an offset, or set the size."""
        node.writes.append((self._now, at, data))

    def sync(self, node: Node, last: int) -> None:
        """What the calls up to `last` did to a file, or to the names in a folder, is on the disk."""
        if node.content is not None:
            node.sync(last)
        early = (each for each in self._changes if each.call <= last)
        self._done |= {each.call for each in early if any(node is folder for folder, _, _ in each.entries)}

    def _open(self, call: Call, table: dict[int, _Opened]) -> bool:
        table.pop(call.value, None)
        place, flags = self._place(table, call.args[0], call.args[1]), call.args[2]
        if place is None or "O_TMPFILE" in flags:
            return False
        folder, name = place
        node = folder.names.get(name) if name else folder
        changes = node is None or (node.content is not None and "O_TRUNC" in flags)
        if node is None:
            node = Node(b"")
            self.change((folder, name, node))
        elif changes:
            self.write(node, 0, None)
        table[call.value] = _Opened(node, "O_APPEND" in flags)
        return changes

    def _place(self, table: dict[int, _Opened], folder: Any, name: bytes) -> tuple[Node, str] | None:
        """The folder and name of a path; None = outside of the root."""
        text = os.path.normpath(os.fsdecode(name))
        held = table.get(int(folder)) if folder.isdigit() else None
        if text.startswith("/"):
            text = os.path.relpath(text, self.root)
        elif held is None:
            return None
        top = held.node if held and not os.fsdecode(name).startswith("/") else self.top
        return (top, "") if text == "." else None if text.startswith("..") else self._at(text.split("/"), top)

    @staticmethod
    def _at(parts: Sequence[str], top: Node) -> tuple[Node, str]:
        for part in parts[:-1]:
            top = top.names[part]
        return top, parts[-1]


def _names(top: Node, *, hidden: bool = True) -> dict[int, dict[str, Node]]:
    """Names in each folder, by its identity; `hidden`: also those below scratch folders."""
    found, waiting = {}, [top]
    while waiting:
        folder = waiting.pop()
        found[id(folder)] = dict(folder.names)
        waiting += [node for name, node in folder.names.items() if node.content is None and (hidden or name != PARTIAL)]
    return found


def _drawn(some: Sequence[int], rng: random.Random) -> set[int]:
    """Some of the calls: all but one, one alone, or each with the same chance."""
    if not some:
        return set()
    one, kind, chance = rng.choice(some), rng.randrange(4), rng.choice((0.2, 0.5, 0.8))
    if kind < 2:
        return {one} if kind else {*some} - {one}
    return {call for call in some if rng.random() < chance}


def digest(tree: Tree) -> bytes:
    """Digest of a state."""
    told = hashlib.blake2b(digest_size=16)
    for path, content in sorted(tree.items()):
        told.update(os.fsencode(f"{path}\0{type(content).__name__}{len(content or ())}\0"))
        told.update(os.fsencode(content) if isinstance(content, str) else content or b"")
    return told.digest()


def read_tree(root: Path) -> Tree:
    """The state of a real folder."""
    found = ((str(path.relative_to(root)), path) for path in root.rglob("*"))
    return {
        name: os.readlink(path) if path.is_symlink() else None if path.is_dir() else path.read_bytes()
        for name, path in found
    }
