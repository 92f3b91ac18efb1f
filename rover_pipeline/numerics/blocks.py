"""Ranges of samples that are computed one after another, so that nothing but results is as long as the recording."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

#: Samples of a range. It is a multiple of the numbers that a processor computes at once, so that their groups are the
#: same as in the whole array. Schedule.
BLOCK = 8192


def blocks(count: int, size: int = BLOCK) -> Iterator[slice]:
    """Ranges of `size` that cover `count` samples, in order. None for no samples."""
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


class Memory:
    """Where arrays are held that are as long as the recording, and streamed through in blocks; see `engine.shared`."""

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


#: Layout.
IN_MEMORY = Memory()
