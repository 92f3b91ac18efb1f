"""A file system that is played from recorded calls, and what may be on its disk after a power cut at any of them.

Two models. In order: names are kept in the order of the calls; data that was not synced is missing, zeros, or torn.
Weak (POSIX): besides, a change of names in a folder that was not synced since may have happened or not, each by itself.
A rename happens in both of its folders or in none of them.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from rover_pipeline.format.attempt import PARTIAL
from tests.campaign.power_calls import Call, Opened, Tables

#: Path below the root -> bytes of a file, None of a folder, text of a link's target.
Tree = dict[str, bytes | str | None]
#: Changes of names that are tried in all combinations, and how many combinations of more are drawn.
_ALL, _DRAWN = 4, 24
_SECTOR = 512
#: What becomes of the data that was not synced.
_DATA = ("whole", "missing", "zeros", "torn", "mixed")


class Node:
    """A file, folder or link.

    Attributes:
        content: of a link, its target; of a file, the bytes that are on the disk.
        names: of a folder.
        writes: that are not on the disk: (number of the call, offset, bytes; None = this is the size).
    """

    def __init__(self, kind: str = "file", content: bytes | str = b"") -> None:
        self.kind, self.content = kind, content
        self.names: dict[str, Node] = {}
        self.writes: list[tuple[int, int, bytes | None]] = []
        self._played: tuple[int, bytes] = (0, b"")

    def data(self) -> bytes:
        """The bytes of a file, or its target of a link, as a reader sees it now."""
        assert isinstance(self.content, bytes)
        done, content = self._played if self._played[0] else (0, self.content)
        if done < len(self.writes):
            content = _written(content, self.writes[done:])
            self._played = len(self.writes), content
        return content

    def sync(self, last: int) -> bool:
        """Let writes up to the call `last` be on the disk; whether there were any."""
        early = [write for write in self.writes if write[0] <= last]
        present = self.data()
        assert isinstance(self.content, bytes)
        self.writes = self.writes[len(early) :]
        self.content = _written(self.content, early) if self.writes else present
        self._played = len(self.writes), present
        return bool(early)

    def left(self, how: str, rng: random.Random) -> bytes:
        """What is on the disk after a power cut."""
        assert isinstance(self.content, bytes)
        new, old = self.data(), self.content
        how = rng.choice(_DATA[:-1]) if how == "mixed" else how
        if not self.writes or how == "whole":
            return new
        if how == "missing":
            return old
        if how == "zeros":  # the file has its size, and its blocks were never written
            return old[: len(new)] + bytes(max(0, len(new) - len(old)))
        cut = rng.randrange(max(1, len(new)))
        cut -= cut % _SECTOR if rng.random() < 0.5 else 0
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


class Disk:
    """Plays calls below `root`, in which `tree` is at first, all of it on the disk."""

    def __init__(self, root: Path, tree: Tree) -> None:
        self.root, self.top = root, Node("folder")
        for path, content in sorted(tree.items()):
            folder, name = self._at(path.split("/"))
            kind = "folder" if content is None else "link" if isinstance(content, str) else "file"
            folder.names[name] = Node(kind, content or b"")
        self._begin = _names(self.top)
        self._changes: list[Change] = []
        self._done: set[int] = set()  # calls whose changes of names are on the disk
        self._tables = Tables()
        self._now = 0
        self._moved = False

    # --- After a power cut ----------------------------------------------------------------------------------------

    def tree(self) -> Tree:
        """What a reader sees now."""
        return self._left(lambda change: True, "whole", random.Random(0))

    def states(self, rng: random.Random) -> Iterator[tuple[str, Tree]]:
        """What may be there after a power cut now, and in which model."""
        for how in _DATA:
            yield "ordered", self._left(lambda change: True, how, rng)
        pending = [change for change in self._changes if change.call not in self._done]
        near = _names(self.top, hidden=False)
        shown = [change.call for change in pending if any(id(folder) in near for folder, _, _ in change.entries)]
        others = [change.call for change in pending if change.call not in shown]
        if len(shown) <= _ALL:
            chosen = [
                {call for call, has in zip(shown, pick, strict=True) if has}
                for pick in product((0, 1), repeat=len(shown))
            ]
        else:
            chosen = [_drawn(shown, rng) for _ in range(_DRAWN)]
        for each in chosen:
            for more in (set(others), _drawn(others, rng)):
                happened = each | more | self._done
                yield "weak", self._left(lambda change, now=happened: change.call in now, rng.choice(_DATA), rng)

    def _left(self, happened: Callable[[Change], bool], how: str, rng: random.Random) -> Tree:
        names = {key: dict(entries) for key, entries in self._begin.items()}
        for change in filter(happened, self._changes):
            for folder, name, node in change.entries:
                if node is None:
                    names.setdefault(id(folder), {}).pop(name, None)
                else:
                    names.setdefault(id(folder), {})[name] = node
        tree: Tree = {}
        bytes_of: dict[int, bytes] = {}  # a file may have two names
        waiting, seen = [("", self.top)], {id(self.top)}
        while waiting:
            path, folder = waiting.pop()
            for name, node in sorted(names.get(id(folder), {}).items()):
                if node.kind != "folder":
                    tree[path + name] = (
                        node.content
                        if isinstance(node.content, str)
                        else bytes_of.setdefault(id(node), node.left(how, rng))
                    )
                elif id(node) not in seen:  # a folder has one name
                    seen.add(id(node))
                    tree[path + name] = None
                    waiting.append((f"{path}{name}/", node))
        return tree

    # --- Calls ----------------------------------------------------------------------------------------------------

    def play(self, call: Call) -> bool:
        """Do a call; whether it changes what may be on the disk."""
        self._now = call.number
        self._moved = False
        if call.name in ("clone", "clone3", "fork", "vfork"):
            self._tables.follow(call)
        elif method := getattr(self, f"_{_SAME.get(call.name, call.name)}", None):
            method(call, self._tables.of(call.thread), call.args)
        return self._moved

    def _path(self, table: Mapping[int, Opened], folder: Any, name: bytes) -> tuple[Node, str] | None:
        """The folder and name of a path; None = outside of the root."""
        text = os.fsdecode(name)
        if text.startswith("/"):
            relative = os.path.relpath(os.path.normpath(text), self.root)
            if relative == ".":
                return self.top, ""
            return None if relative.startswith("..") else self._at(relative.split("/"))
        text = os.path.normpath(text)
        held = table.get(int(folder)) if str(folder).isdigit() else None
        if held is None or held.node is None or held.node.kind != "folder":
            return None
        return (held.node, "") if text == "." else self._at(text.split("/"), held.node)

    def _at(self, parts: list[str], top: Node | None = None) -> tuple[Node, str]:
        node = top or self.top
        for part in parts[:-1]:
            node = node.names[part]
        return node, parts[-1]

    def _change(self, *entries: tuple[Node, str, Node | None]) -> None:
        for folder, name, node in entries:
            if node is None:
                folder.names.pop(name, None)
            else:
                folder.names[name] = node
        self._changes.append(Change(self._now, entries))
        self._moved = True

    def _openat(self, call: Call, table: dict[int, Opened], args: list[Any]) -> None:
        place, flags = self._path(table, args[0], args[1]), args[2]
        node = None
        if place is not None and "O_TMPFILE" not in flags:
            folder, name = place
            node = folder.names.get(name) if name else folder
            if node is None and "O_CREAT" in flags:
                node = Node()
                self._change((folder, name, node))
            elif node is not None and "O_TRUNC" in flags:
                self._write(node, 0, None)
        table[call.value] = Opened(node, "O_APPEND" in flags)

    def _write(self, node: Node | None, at: int, data: bytes | None) -> None:
        if node is not None and node.kind == "file":
            node.writes.append((self._now, at, data))
            self._moved = True

    def _stream(self, call: Call, table: dict[int, Opened], args: list[Any]) -> None:
        held = table.get(int(args[0]))
        if held is not None and held.node is not None:
            held.at = len(held.node.data()) if held.append else held.at
            self._write(held.node, held.at, b"".join(each for each in args if isinstance(each, bytes))[: call.value])
            held.at += call.value

    def _pwrite64(self, call: Call, table: dict[int, Opened], args: list[Any]) -> None:
        held = table.get(int(args[0]))
        data = b"".join(each for each in args[1:] if isinstance(each, bytes))[: call.value]
        if held is not None:
            self._write(held.node, int(args[-1]), data)

    def _read(self, call: Call, table: dict[int, Opened], args: list[Any]) -> None:
        if held := table.get(int(args[0], 0)):
            held.at += call.value

    def _lseek(self, call: Call, table: dict[int, Opened], args: list[Any]) -> None:
        if held := table.get(int(args[0])):
            held.at = call.value

    def _ftruncate(self, call: Call, table: dict[int, Opened], args: list[Any]) -> None:
        if held := table.get(int(args[0])):
            self._write(held.node, int(args[1]), None)

    def _sendfile(self, call: Call, table: dict[int, Opened], args: list[Any]) -> None:
        target, source = table.get(int(args[0])), table.get(int(args[1]))
        if target is None or target.node is None:
            return
        assert source is not None and source.node is not None, "a copy from outside"
        start = source.at if args[2] == "NULL" else int(args[2])
        self._write(target.node, target.at, source.node.data()[start : start + call.value])
        target.at += call.value

    def _unknown(self, call: Call, table: dict[int, Opened], args: list[Any]) -> None:
        held = table.get(int(args[4])) if call.name == "mmap" and args[4].isdigit() else None
        if call.name != "mmap":
            held = next((each for at in args[:3] if str(at).isdigit() and (each := table.get(int(at)))), None)
        shared = call.name != "mmap" or ("MAP_SHARED" in args[3] and "PROT_WRITE" in args[2])
        assert not (shared and held and held.node), f"{call.name} is not played"

    def _dup(self, call: Call, table: dict[int, Opened], args: list[Any]) -> None:
        if call.name != "fcntl" or "F_DUPFD" in str(args[1]):
            table[call.value] = table.get(int(args[0]), Opened(None))

    def _fsync(self, call: Call, table: dict[int, Opened], args: list[Any]) -> None:
        held = table.get(int(args[0]))
        if held is None or held.node is None:
            return
        if held.node.kind == "file":
            self._moved = held.node.sync(call.begun)
            return
        early = [each for each in self._changes if each.call <= call.begun and each.call not in self._done]
        self._done |= {each.call for each in early if any(held.node is folder for folder, _, _ in each.entries)}
        self._moved = True

    def _renameat2(self, call: Call, table: dict[int, Opened], args: list[Any]) -> None:
        old, new = self._path(table, args[0], args[1]), self._path(table, args[2], args[3])
        assert (old is None) == (new is None), "a rename out of the root"
        if old is None or new is None:
            return
        node, other = old[0].names[old[1]], new[0].names.get(new[1])
        exchanged = other if len(args) > 4 and "RENAME_EXCHANGE" in args[4] else None
        self._change((*old, exchanged), (*new, node))

    def _linkat(self, call: Call, table: dict[int, Opened], args: list[Any]) -> None:
        old, new = self._path(table, args[0], args[1]), self._path(table, args[2], args[3])
        if new is not None:
            assert old is not None, "a link to what is outside of the root"
            self._change((*new, old[0].names[old[1]]))

    def _symlinkat(self, call: Call, table: dict[int, Opened], args: list[Any]) -> None:
        if new := self._path(table, args[1], args[2]):
            self._change((*new, Node("link", os.fsdecode(args[0]))))

    def _unlinkat(self, call: Call, table: dict[int, Opened], args: list[Any]) -> None:
        if place := self._path(table, args[0], args[1]):
            self._change((*place, None))

    def _mkdirat(self, call: Call, table: dict[int, Opened], args: list[Any]) -> None:
        if place := self._path(table, args[0], args[1]):
            self._change((*place, Node("folder")))


#: Calls that are played as another one. What is not played must not touch what is below the root.
_SAME = {
    **dict.fromkeys(("write", "writev"), "stream"),
    **dict.fromkeys(("pwritev", "pwritev2"), "pwrite64"),
    **dict.fromkeys(("read", "readv"), "read"),
    **dict.fromkeys(("dup", "dup2", "dup3", "fcntl"), "dup"),
    **dict.fromkeys(("mmap", "fallocate", "copy_file_range", "syncfs"), "unknown"),
    "fdatasync": "fsync",
}


def _names(top: Node, *, hidden: bool = True) -> dict[int, dict[str, Node]]:
    """Names in each folder, by its identity; `hidden`: also those below scratch folders."""
    found, waiting = {}, [top]
    while waiting:
        folder = waiting.pop()
        found[id(folder)] = dict(folder.names)
        waiting += [
            node for name, node in folder.names.items() if node.kind == "folder" and (hidden or name != PARTIAL)
        ]
    return found


def _drawn(calls: Sequence[int], rng: random.Random) -> set[int]:
    """Some of the calls: all but one, one alone, or each with the same chance."""
    if not calls:
        return set()
    one, kind = rng.choice(calls), rng.randrange(4)
    if kind < 2:
        return {one} if kind else {*calls} - {one}
    chance = rng.choice((0.2, 0.5, 0.8))
    return {call for call in calls if rng.random() < chance}


def digest(tree: Tree) -> bytes:
    """Digest of a state."""
    told = hashlib.blake2b(digest_size=16)
    for path, content in sorted(tree.items()):
        told.update(f"{path}\0{type(content).__name__}{len(content or ())}\0".encode("utf-8", "surrogateescape"))
        told.update(os.fsencode(content) if isinstance(content, str) else content or b"")
    return told.digest()


def read_tree(root: Path) -> Tree:
    """The state of a real folder."""
    tree: Tree = {}
    for place, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(place, name)
            key = str(path.relative_to(root))
            tree[key] = os.readlink(path) if path.is_symlink() else None if path.is_dir() else path.read_bytes()
    return tree
