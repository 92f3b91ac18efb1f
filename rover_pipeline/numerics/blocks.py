"""Ranges of samples that are computed one after another, so that nothing but results is as long as the recording."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np

#: Samples of a range. It is a multiple of the numbers that a processor computes at once, so that their groups are the
#: same as in the whole array. Schedule.
BLOCK = 8192


def blocks(count: int, size: int = BLOCK) -> Iterator[slice]:
    """Ranges of `size` that cover `count` samples, in order. None for no samples."""
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


class Memory:
    """Where arrays are held that are as long as the recording, and streamed through in blocks: here, in memory."""

    def zeros(self, *shape: int) -> np.ndarray:
        """f8."""
        return np.zeros(shape)

    def hold(self, values: np.ndarray) -> np.ndarray:
        """The same values, f8."""
        held = self.zeros(*values.shape)
        held[...] = values
        return held

    def blocks(self, count: int, size: int = BLOCK, step: int = 1) -> Iterator[slice]:
        """As `blocks`; step: -1 = from the last one to the first."""
        yield from [*blocks(count, size)][::step]


class OnDisk(Memory):
    """Arrays in nameless files of a folder, of which the process holds no more than what the last block has touched."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._maps = folder, list[mmap.mmap]()

    def zeros(self, *shape: int) -> np.ndarray:
        count = math.prod(shape)
        with TemporaryFile(dir=self._folder) as file:
            os.posix_fallocate(file.fileno(), 0, 8 * max(count, 1))  # a full disk is an error here
            self._maps.append(mmap.mmap(file.fileno(), 0))
        return np.frombuffer(self._maps[-1], count=count).reshape(shape)

    def blocks(self, count: int, size: int = BLOCK, step: int = 1) -> Iterator[slice]:
        for part in super().blocks(count, size, step):
            yield part
            for each in self._maps:
                each.madvise(mmap.MADV_DONTNEED)  # the file keeps them


#: Layout.
IN_MEMORY = Memory()
