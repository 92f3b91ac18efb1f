"""Ranges of samples that are computed one after another, so that nothing but results is as long as the recording."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

#: Samples of a range. It is a multiple of the numbers that a processor computes at once, so that their groups are the
#: same as in the whole array. Schedule.
BLOCK = 8192
#: The files of arrays that are on disk. Layout.
_MAPS = WeakValueDictionary[int, mmap.mmap]()


def blocks(count: int, size: int = BLOCK, step: int = 1) -> Iterator[slice]:
    """Ranges of `size` that cover `count` samples, in order, or from the last one to the first by a step of -1. None
    for no samples. Of arrays on disk the process holds no more than what the last range has touched."""
    for start in range(0, count, size)[::step]:
        yield slice(start, min(start + size, count))
        let_go()


def let_go() -> None:
    """Hold nothing of arrays that are on disk."""
    for file in _MAPS.valuerefs():  # a list: other threads may add to it
        if held := file():
            held.madvise(mmap.MADV_DONTNEED)  # the file keeps them


def release() -> None:
    """Return to the system what this process holds without need: arrays on disk, and what it has freed."""
    let_go()
    with suppress(AttributeError):  # of another library of C
        ctypes.CDLL(None).malloc_trim(0)


class Memory:
    """Where arrays are held that are as long as the recording, and streamed through in blocks: here, in memory."""

    def zeros(self, *shape: int, kind: Any = "f8") -> np.ndarray:
        return np.zeros(shape, kind)

    def hold(self, values: np.ndarray) -> np.ndarray:
        """The same values."""
        held = self.zeros(*values.shape, kind=values.dtype)
        for part in blocks(len(values)):
            held[part] = values[part]
        return held


class OnDisk(Memory):
    """Arrays in nameless files of a folder; see `blocks`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def zeros(self, *shape: int, kind: Any = "f8") -> np.ndarray:
        count = math.prod(shape)
        with TemporaryFile(dir=self._folder) as file:
            size = np.dtype(kind).itemsize * max(count, 1)
            os.posix_fallocate(file.fileno(), 0, size)  # a full disk is an error here
            held = mmap.mmap(file.fileno(), 0)
        _MAPS[id(held)] = held
        return np.frombuffer(held, kind, count).reshape(shape)


#: Layout.
IN_MEMORY = Memory()
