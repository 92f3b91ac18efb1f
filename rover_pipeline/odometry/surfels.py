"""The surfel map: points summed in voxels of several sizes, each voxel with the plane through its points.

Planes in voxels of more than one size are the idea of Yuan, Xu, Liu, Hong, Zhang, "Efficient and Probabilistic Adaptive
Voxel Mapping for Accurate Online LiDAR Odometry" (RA-L 2022).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rover_pipeline.numerics.voxel_table import empty_table
from rover_pipeline.odometry.surfel_voxels import (
    IS_PLANE,
    PLANE,
    SUMS,
    SurfelTables,
    VoxelArrays,
    fill_slots,
    insert_points,
    insert_sums,
)

#: Edge of the voxels from which on a body that moves, such as a person, is no plane, metres. Tuned: by hand.
LARGE = 1.0
#: Smallest number of levels that kernels are given: that of the option `odometry.voxels` unless it is set. Layout.
_LEVELS = 4


class SurfelLevel:
    """The voxels of one size.

    Attributes:
        size: edge of the voxels, metres.
        voxels: arrays with room for more voxels than there are.
        count: number of voxels.
    """

    def __init__(self, size: float) -> None:
        self.size, self.count = size, 0
        self.voxels = _with_capacity(1 << 11)

    def insert(self, rays: np.ndarray, fit: bool = True) -> None:
        """Add points; see `SurfelMap.insert`."""
        self._reserve(self.count + len(rays))
        self.count = insert_points(rays, self.size, self.voxels, self.count, fit)

    def add(self, keys: np.ndarray, sums: np.ndarray) -> None:
        """Add the voxels of another map of the same world, i8 (N,) and f8 (N, 19)."""
        self._reserve(self.count + len(keys))
        self.count = insert_sums(keys, sums, self.size, self.voxels, self.count)

    def planes(self) -> np.ndarray:
        """The planes of the voxels that have one, f8 (N, 13), columns as from `NORMAL` to `PLANE`."""
        planes = self.voxels.planes[: self.count]
        return planes[planes[:, IS_PLANE] > 0]

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

    def insert(self, rays: np.ndarray, fit: bool = True) -> None:
        """Add points.

        Args:
            rays: f8 (N, 10), of each point x, y, z in the world, metres; those of the unit vector from the lidar to it;
                the sine of its elevation in the lidar frame, which distinguishes the beams; and x, y, z of how it moves
                if its beam is raised, m/rad.
            fit: False = fit no planes, for a map of which only the `sums` are asked for.
        """
        for level in self.levels:
            level.insert(rays, fit)

    def sums(self) -> list[np.ndarray]:
        """Keys and sums of the voxels of each level in turn, which another map of the same world can `add`."""
        return [array[: level.count] for level in self.levels for array in (level.voxels.keys, level.voxels.sums)]

    def add(self, sums: Sequence[np.ndarray]) -> None:
        """Add the `sums` of another map, as if its points had been inserted here."""
        for level, keys, values in zip(self.levels, sums[::2], sums[1::2], strict=True):
            level.add(keys, values)

    def planes(self) -> list[np.ndarray]:
        """Size, keys and planes of each level in turn, of the voxels that have a plane; see `of_planes`."""
        arrays = []
        for level in self.levels:
            chosen = np.flatnonzero(level.voxels.planes[: level.count, IS_PLANE])
            arrays += [np.array(level.size), level.voxels.keys[chosen], level.voxels.planes[chosen]]
        return arrays

    @staticmethod
    def of_planes(arrays: Sequence[np.ndarray]) -> SurfelMap:
        """The map of the `planes` of another one. It takes much less memory, but nothing can be added to it."""
        thin = SurfelMap(tuple(map(float, arrays[::3])))
        for level, keys, planes in zip(thin.levels, arrays[1::3], arrays[2::3], strict=True):
            slots = empty_table(1 << int(np.ceil(np.log2(2 * len(keys) + 2))), 2)
            fill_slots(slots, keys)
            level.count, level.voxels = len(keys), VoxelArrays(slots, keys, np.zeros((0, SUMS)), planes)
        return thin

    @property
    def large(self) -> SurfelMap:
        """The levels of large voxels, which share their arrays with this map; the coarsest one if all are small."""
        part = SurfelMap(())
        part.levels = [level for level in self.levels if level.size >= LARGE] or self.levels[-1:]
        return part

    @property
    def centres(self) -> np.ndarray:
        """A point on each plane of the finest level, f8 (N, 3), metres in the world."""
        return self.levels[0].planes()[:, :3]

    @property
    def tables(self) -> SurfelTables:
        """The map as kernels take it."""
        voxels = [level.voxels for level in self.levels]
        # A kernel is compiled again for each number of levels, so there are tables without a size that it never reads.
        voxels += voxels[:1] * (_LEVELS - len(voxels))
        sizes = np.array([level.size for level in self.levels])
        return SurfelTables(sizes, tuple(each.slots for each in voxels), tuple(each.planes for each in voxels))


def _with_capacity(count: int) -> VoxelArrays:
    """Arrays for `count` voxels, a power of two."""
    return VoxelArrays(
        empty_table(2 * count, 2), np.zeros(count, "i8"), np.zeros((count, SUMS)), np.zeros((count, PLANE))
    )
