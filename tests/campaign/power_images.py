"""Real file systems after a power cut: recorded calls are done again in a mounted image, of which a copy is made.

The copy has what the file system had written to its device until then. It is mounted, so that its journal is played.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.campaign.power_disk import Call, Disk, Node, Tree, read_tree

_KINDS = {"ext4": ["mkfs.ext4", "-q"], "xfs": ["mkfs.xfs", "-q"], "btrfs": ["mkfs.btrfs", "-q"]}
_BYTES = 320 << 20  # what XFS asks for
_AT_FDCWD, _EXCHANGE = -100, 2


def on_real_disks(folder: Path, played: Sequence[Call], cuts: int, rng: random.Random) -> Iterator[tuple[str, Tree]]:
    """What is left by power cuts at some of the calls, on each file system: of `folder/work`, which began as `base`."""
    image, copy, root = folder / "image", folder / "copy", folder / "work"
    for kind in _KINDS if cuts else ():
        for _ in range(cuts):
            end = rng.randrange(len(played) + 1)
            written = rng.randrange(end + 1) if rng.random() < 0.5 else -1  # the file system writes by itself, too
            image.unlink(missing_ok=True)
            with image.open("wb") as file:
                file.truncate(_BYTES)
            subprocess.run([*_KINDS[kind], image], check=True, capture_output=True)
            with _mounted(image, folder / "mount") as mount:
                shutil.copytree(folder / "base", mount / "work", symlinks=True)
                subprocess.run(["sync", "-f", mount], check=True)
                with contextlib.closing(_Mirror(root, read_tree(folder / "base"), mount / "work")) as mirror:
                    for number, call in enumerate(played[:end]):
                        mirror.play(call)
                        if number == written:
                            subprocess.run(["sync", "-f", mount], check=True)
                    subprocess.run(["cp", "--sparse=always", image, copy], check=True)
            with _mounted(copy, folder / "mount") as mount:
                yield kind, read_tree(mount / "work")


@contextlib.contextmanager
def _mounted(image: Path, mount: Path) -> Iterator[Path]:
    mount.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "loop", image, mount], check=True)
    try:
        yield mount
    finally:
        subprocess.run(["umount", mount], check=True)


class _Mirror(Disk):
    """Does what it plays below `place`, too, where the same files are."""

    def __init__(self, root: Path, tree: Tree, place: Path) -> None:
        super().__init__(root, tree)
        self._copy, self._open_of = place, dict[int, int]()
        self._libc = ctypes.CDLL(None, use_errno=True)

    def close(self) -> None:
        """Close all files, so that the file system can be unmounted."""
        for descriptor in self._open_of.values():
            os.close(descriptor)

    def change(self, *entries: tuple[Node, str, Node | None]) -> None:
        paths = [(self._path(folder) or self._copy) / name for folder, name, _ in entries]
        node = entries[-1][2]
        if len(entries) == 2:
            ends = [part for path in paths for part in (_AT_FDCWD, os.fsencode(path))]
            if self._libc.renameat2(*ends, _EXCHANGE if entries[0][2] else 0):
                raise OSError(ctypes.get_errno(), "renameat2", str(paths[0]))
        elif node is None:
            (Path.unlink if entries[0][0].names[entries[0][1]].content is not None else Path.rmdir)(paths[0])
        elif node.content is None:
            paths[0].mkdir()
        elif isinstance(node.content, str):
            paths[0].symlink_to(node.content)
        elif (known := self._path(node)) is not None:
            os.link(known, paths[0])
        else:
            self._open_of[id(node)] = os.open(paths[0], os.O_RDWR | os.O_CREAT | os.O_EXCL)
        super().change(*entries)

    def _path(self, wanted: Node) -> Path | None:
        """Where a file or folder is now; None = nowhere."""
        waiting = [(self._copy, self.top)]
        while waiting:
            path, node = waiting.pop()
            if node is wanted:
                return path
            waiting += [(path / name, each) for name, each in node.names.items()]
        return None

    def _descriptor(self, node: Node) -> int:
        if id(node) not in self._open_of:
            flags = os.O_RDONLY if node.content is None else os.O_RDWR
            self._open_of[id(node)] = os.open(self._path(node) or "", flags)
        return self._open_of[id(node)]

    def write(self, node: Node, at: int, data: bytes | None) -> None:
        os.ftruncate(self._descriptor(node), at) if data is None else os.pwrite(self._descriptor(node), data, at)
        super().write(node, at, data)

    def sync(self, node: Node, last: int) -> None:
        os.fsync(self._descriptor(node))
        super().sync(node, last)
