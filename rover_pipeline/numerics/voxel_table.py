"""A hash table of voxels for kernels: open addressing with linear probing and Fibonacci hashing (Knuth, The Art of
Computer Programming 3, section 6.4).

A table is one array, i8 (slot, 1 + n): the voxel's key, or `EMPTY`, and n numbers of the table's user. A voxel and its
numbers are in one cache line, because nearly every access to a large table is a cache miss.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rover_pipeline.numerics.compiled import compiled, inlined

#: A key holds the three indices of a voxel, 21 bits each, which are from -BIAS to BIAS - 1. Layout.
BITS = 21
BIAS = 1 << (BITS - 1)
#: Key of a slot that holds no voxel; mask of an index. Layout.
EMPTY = -1
_MASK = (1 << BITS) - 1


def pack_key(i: Any, j: Any, k: Any) -> Any:
    """Key of a voxel, for indices that are integers or arrays of integers."""
    return ((i + BIAS) << (2 * BITS)) | ((j + BIAS) << BITS) | (k + BIAS)


def unpack_key(key: Any) -> Any:
    """The three indices of a voxel, for a key that is an integer or an array of integers."""
    return ((key >> (2 * BITS)) & _MASK) - BIAS, ((key >> BITS) & _MASK) - BIAS, (key & _MASK) - BIAS


#: The same functions for use in kernels.
voxel_key, voxel_indices = inlined(pack_key), inlined(unpack_key)


@compiled
def find_slot(table: np.ndarray, key: int) -> Any:
    """The slot that holds a voxel, or the empty slot where it belongs.

    It is no `inlined` function: that would count references to the table at each call, for half as much time again.

    Args:
        table: has a power of two of slots, and at least one empty slot.
    """
    mask = len(table) - 1
    slot = ((key * 0x1E3779B97F4A7C15) >> 32) & mask
    while table[slot, 0] != key and table[slot, 0] != EMPTY:
        slot = (slot + 1) & mask
    return slot


def empty_table(slots: int, width: int) -> np.ndarray:
    """A table without voxels, i8 (slot, width). `slots` is a power of two."""
    table = np.zeros((slots, width), "i8")
    table[:, 0] = EMPTY
    return table


@compiled
def copy_voxels(old: np.ndarray, table: np.ndarray) -> None:
    """Copies all voxels of a table to an empty larger table of the same width."""
    for n in range(len(old)):
        if old[n, 0] != EMPTY:
            slot = find_slot(table, old[n, 0])
            for part in range(old.shape[1]):
                table[slot, part] = old[n, part]
