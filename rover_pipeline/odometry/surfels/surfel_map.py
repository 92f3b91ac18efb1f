"""The surfel map: points summed in voxels of several sizes, each voxel with the plane through its points.

Planes in voxels of more than one size are the idea of Yuan, Xu, Liu, Hong, Zhang, "Efficient and Probabilistic Adaptive
Voxel Mapping for Accurate Online LiDAR Odometry" (RA-L 2022).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rover_pipeline.numerics.voxel_table import empty_table
from rover_pipeline.odometry.surfels.kernels import (
    IS_PLANE,
    PLANE,
    SUMS,
    SurfelTables,
    VoxelArrays,
    fill_slots,
    insert_points,
    insert_sums,
)

_FIRST_CAPACITY = 1 << 11


class SurfelLevel:
    """The voxels of one size.

    Attributes:
        size: edge of the voxels, metres.
        voxels: arrays with room for more voxels than there are.
        count: number of voxels.
    """

    def __init__(self, size: float) -> None:
        self.size, self.count = size, 0
        self.voxels = _with_capacity(_FIRST_CAPACITY)

    def insert(self, points: np.ndarray) -> None:
        """Add points, f8 (N, 3), metres in the world."""
        self._reserve(self.count + len(points))
        self.count = insert_points(points, self.size, self.voxels, self.count)

    def add(self, keys: np.ndarray, sums: np.ndarray) -> None:
        """Add the voxels of another map of the same world, i8 (N,) and f8 (N, 11)."""
        self._reserve(self.count + len(keys))
        self.count = insert_sums(keys, sums, self.size, self.voxels, self.count)

    def planes(self) -> np.ndarray:
        """The planes of the voxels that have one, f8 (N, 8), columns as in `kernels`."""
        planes = self.voxels.planes[: self.count]
        return planes[planes[:, IS_PLANE] > 0]

    def planes_only(self) -> SurfelLevel:
        """The voxels that have a plane, without their sums."""
        thin, chosen = SurfelLevel(self.size), np.flatnonzero(self.voxels.planes[: self.count, IS_PLANE])
        keys, thin.count = self.voxels.keys[chosen], len(chosen)
        slots = empty_table(1 << int(np.ceil(np.log2(2 * len(chosen) + 2))), 2)
        fill_slots(slots, keys)
        thin.voxels = VoxelArrays(slots, keys, np.zeros((0, SUMS)), self.voxels.planes[chosen])
        return thin

    def _reserve(self, count: int) -> None:
        """Make room for `count` voxels in a hash table that is half full at most."""
        if count <= len(self.voxels.keys):
            return
        larger = _with_capacity(1 << int(np.ceil(np.log2(count))))
        for new, old in zip(larger[1:], self.voxels[1:], strict=True):
            new[: self.count] = old[: self.count]
        fill_slots(larger.slots, larger.keys[: self.count])
        self.voxels = larger


class SurfelMap:
    """Planes of the world, the finest first.

    Args:
        sizes: edges of the voxels, metres.
    """

    def __init__(self, sizes: tuple[float, ...]) -> None:
        self.levels = [SurfelLevel(size) for size in sizes]

    def insert(self, points: np.ndarray) -> None:
        """Add points, f8 (N, 3), metres in the world."""
        for level in self.levels:
            level.insert(points)

    def sums(self) -> list[np.ndarray]:
        """Keys and sums of the voxels of each level in turn, which another map of the same world can `add`."""
        return [array[: level.count] for level in self.levels for array in (level.voxels.keys, level.voxels.sums)]

    def add(self, sums: Sequence[np.ndarray]) -> None:
        """Add the `sums` of another map, as if its points had been inserted here."""
        for level, keys, values in zip(self.levels, sums[::2], sums[1::2], strict=True):
            level.add(keys, values)

    def thin(self, levels: int = 2) -> SurfelMap:
        """The planes of the finest levels only. It takes much less memory, but nothing can be added to it."""
        thin = SurfelMap(())
        thin.levels = [level.planes_only() for level in self.levels[:levels]]
        return thin

    @property
    def centres(self) -> np.ndarray:
        """A point on each plane of the finest level, f8 (N, 3), metres in the world."""
        return self.levels[0].planes()[:, :3]

    @property
    def tables(self) -> SurfelTables:
        """The map as kernels take it."""
        voxels = [level.voxels for level in self.levels]
        sizes = np.array([level.size for level in self.levels])
        return SurfelTables(sizes, tuple(each.slots for each in voxels), tuple(each.planes for each in voxels))


def _with_capacity(count: int) -> VoxelArrays:
    """Arrays for `count` voxels, a power of two."""
    return VoxelArrays(
        empty_table(2 * count, 2), np.zeros(count, "i8"), np.zeros((count, SUMS)), np.zeros((count, PLANE))
    )
