"""Real file systems after a power cut: recorded calls are done again in a mounted image, of which a copy is made.

The copy has what the file system had written to its device until then, as after a power cut; it is mounted, so that
the journal is played, and read. Where mounting is not allowed, or a file system has no `mkfs`, there are no images.
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
from typing import Any

from tests.campaign.power_calls import Call
from tests.campaign.power_disk import Tree, read_tree

#: File systems -> how an image of them is made.
KINDS = {"ext4": ["mkfs.ext4", "-q"], "xfs": ["mkfs.xfs", "-q"], "btrfs": ["mkfs.btrfs", "-q"]}
_BYTES = 320 << 20  # what XFS asks for
_AT_FDCWD, _EXCHANGE = -100, 2


def kinds(folder: Path) -> list[str]:
    """File systems of which images can be made and mounted here."""
    found = []
    for kind in KINDS:
        with contextlib.suppress(OSError, subprocess.CalledProcessError), _mounted(_new(kind, folder / kind), folder):
            found.append(kind)
    return found


def states(
    kind: str, folder: Path, base: Path, root: Path, played: Sequence[Call], cuts: int, rng: random.Random
) -> Iterator[Tree]:
    """What is below `root` after power cuts at some of the calls.

    Args:
        folder: for images; base: what is below the root at first.
    """
    folder.mkdir(exist_ok=True)
    image, copy = folder / f"{kind}.image", folder / f"{kind}.copy"
    for _ in range(cuts):
        end = rng.randrange(len(played) + 1)
        synced = rng.randrange(end + 1) if rng.random() < 0.5 else -1  # the file system writes by itself, too
        with _mounted(_new(kind, image), folder) as mount:
            shutil.copytree(base, mount / "work", symlinks=True)
            _sync(mount)
            with contextlib.closing(_Player(root, mount / "work")) as player:
                for number, call in enumerate(played[:end]):
                    player.play(call)
                    if number == synced:
                        _sync(mount)
                subprocess.run(["cp", "--sparse=always", image, copy], check=True)
        with _mounted(copy, folder) as mount:
            yield read_tree(mount / "work")
        copy.unlink()


def _new(kind: str, image: Path) -> Path:
    image.unlink(missing_ok=True)
    image.touch()
    os.truncate(image, _BYTES)
    subprocess.run([*KINDS[kind], image], check=True, capture_output=True)
    return image


@contextlib.contextmanager
def _mounted(image: Path, folder: Path) -> Iterator[Path]:
    mount = folder / "mount"
    mount.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "loop", image, mount], check=True, capture_output=True)
    try:
        yield mount
    finally:
        subprocess.run(["umount", mount], check=True)


def _sync(mount: Path) -> None:
    subprocess.run(["sync", "-f", mount], check=True)


class _Player:
    """Does recorded calls again, below another folder."""

    def __init__(self, root: Path, place: Path) -> None:
        self._root, self._place = root, place
        self._open: dict[tuple[int, int], int] = {}
        self._libc = ctypes.CDLL(None, use_errno=True)

    def close(self) -> None:
        for descriptor in set(self._open.values()):
            os.close(descriptor)

    def play(self, call: Call) -> None:
        if method := getattr(self, f"_{call.name}", None):
            method(call, call.args)

    def _held(self, call: Call, number: Any) -> int | None:
        return self._open.get((0, int(number, 0))) if str(number)[:1].isdigit() else None

    def _at(self, call: Call, folder: Any, name: bytes) -> dict[str, Any] | None:
        """The path, and the descriptor of its folder where it is relative to one; None = outside of the root."""
        text = os.fsdecode(name)
        if text.startswith("/"):
            relative = os.path.relpath(text, self._root)
            return None if relative.startswith("..") else {"path": self._place / relative, "dir_fd": None}
        held = self._held(call, folder)
        return None if held is None else {"path": text, "dir_fd": held}

    def _openat(self, call: Call, args: list[Any]) -> None:
        self._drop(call.value)
        if at := self._at(call, args[0], args[1]):
            flags = 0
            for name in args[2].split("|"):
                flags |= getattr(os, name, 0)
            self._open[0, call.value] = os.open(**at, flags=flags & ~os.O_EXCL, mode=0o644)

    def _drop(self, number: int) -> None:
        if (old := self._open.pop((0, number), None)) is not None:
            os.close(old)

    def _fcntl(self, call: Call, args: list[Any]) -> None:
        if "F_DUPFD" in str(args[1]) and (held := self._held(call, args[0])) is not None:
            self._drop(call.value)
            self._open[0, call.value] = os.dup(held)

    def _write(self, call: Call, args: list[Any]) -> None:
        if (held := self._held(call, args[0])) is not None:
            os.write(held, b"".join(each for each in args if isinstance(each, bytes))[: call.value])

    _writev = _write

    def _pwrite64(self, call: Call, args: list[Any]) -> None:
        if (held := self._held(call, args[0])) is not None:
            os.pwrite(held, b"".join(each for each in args if isinstance(each, bytes))[: call.value], int(args[-1]))

    def _read(self, call: Call, args: list[Any]) -> None:
        if (held := self._held(call, args[0])) is not None:
            os.lseek(held, call.value, os.SEEK_CUR)

    def _lseek(self, call: Call, args: list[Any]) -> None:
        if (held := self._held(call, args[0])) is not None:
            os.lseek(held, call.value, os.SEEK_SET)

    def _ftruncate(self, call: Call, args: list[Any]) -> None:
        if (held := self._held(call, args[0])) is not None:
            os.ftruncate(held, int(args[1]))

    def _sendfile(self, call: Call, args: list[Any]) -> None:
        target, source = self._held(call, args[0]), self._held(call, args[1])
        if target is not None and source is not None:
            os.sendfile(target, source, None if args[2] == "NULL" else int(args[2]), call.value)

    def _fsync(self, call: Call, args: list[Any]) -> None:
        if (held := self._held(call, args[0])) is not None:
            os.fsync(held)

    _fdatasync = _fsync

    def _renameat2(self, call: Call, args: list[Any]) -> None:
        old, new = self._at(call, args[0], args[1]), self._at(call, args[2], args[3])
        if old and new:
            ends = [part for at in (old, new) for part in (at["dir_fd"] or _AT_FDCWD, os.fsencode(at["path"]))]
            flags = _EXCHANGE if len(args) > 4 and "EXCHANGE" in args[4] else 0
            if self._libc.renameat2(*ends, flags):
                raise OSError(ctypes.get_errno(), "renameat2")

    def _linkat(self, call: Call, args: list[Any]) -> None:
        old, new = self._at(call, args[0], args[1]), self._at(call, args[2], args[3])
        if old and new:
            os.link(old["path"], new["path"], src_dir_fd=old["dir_fd"], dst_dir_fd=new["dir_fd"], follow_symlinks=False)

    def _symlinkat(self, call: Call, args: list[Any]) -> None:
        if at := self._at(call, args[1], args[2]):
            os.symlink(args[0], at["path"], dir_fd=at["dir_fd"])

    def _unlinkat(self, call: Call, args: list[Any]) -> None:
        if at := self._at(call, args[0], args[1]):
            with contextlib.suppress(IsADirectoryError):
                os.unlink(**at)
                return
            os.rmdir(**at)

    def _mkdirat(self, call: Call, args: list[Any]) -> None:
        if at := self._at(call, args[0], args[1]):
            os.mkdir(**at)
