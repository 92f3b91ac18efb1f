"""A map of small planes: points gathered in voxels of several sizes, each with the plane through its points.

The idea of planes in voxels of more than one size: Yuan, Xu, Liu, Hong, Zhang, "Efficient and Probabilistic Adaptive
Voxel Mapping for Accurate Online LiDAR Odometry" (RA-L 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rover_pipeline.odometry.surfel_kernels import EMPTY, Tables, add_sums, gather, rehash

#: Columns of the sums of a voxel: count, x, y, z, xx, xy, xz, yy, yz, zz from its centre, count at the last look.
SUMS = 11
#: Columns of a plane: a point on it, its normal, its thickness (standard deviation, metres), 1 where there is one.
PLANE = 8


@dataclass
class Level:
    """The voxels of one size, in a hash table."""

    size: float
    index: np.ndarray = field(default_factory=lambda: np.full(1 << 12, -1, "i4"))
    keys: np.ndarray = field(default_factory=lambda: np.full(1 << 11, EMPTY, "i8"))
    sums: np.ndarray = field(default_factory=lambda: np.zeros((1 << 11, SUMS)))
    planes: np.ndarray = field(default_factory=lambda: np.zeros((1 << 11, PLANE)))
    count: int = 0

    def insert(self, points: np.ndarray) -> None:
        self._reserve(self.count + len(points))
        self.count = gather(points, self.size, self.index, self.keys, self.sums, self.planes, self.count)

    def add(self, keys: np.ndarray, sums: np.ndarray) -> None:
        """Add the voxels of another map of the same world."""
        self._reserve(self.count + len(keys))
        self.count = add_sums(keys, sums, self.size, self.index, self.keys, self.sums, self.planes, self.count)

    def _reserve(self, wanted: int) -> None:
        """Room for `wanted` voxels in a table at most half full."""
        if wanted <= len(self.keys):
            return
        room = 1 << int(np.ceil(np.log2(wanted)))
        for name in ("keys", "sums", "planes"):
            old = getattr(self, name)
            new = np.full((room, *old.shape[1:]), EMPTY if name == "keys" else 0, old.dtype)
            new[: self.count] = old[: self.count]
            setattr(self, name, new)
        self.index = np.full(2 * room, -1, "i4")
        rehash(self.index, self.keys, self.count)


class SurfelMap:
    """Planes of the world, the finest first.

    Args:
        sizes: edges of the voxels, metres.
    """

    def __init__(self, sizes: tuple[float, ...]) -> None:
        self.levels = [Level(size) for size in sizes]

    def insert(self, points: np.ndarray) -> None:
        """Add points, f8 (N, 3), metres in the world."""
        for level in self.levels:
            level.insert(points)

    def sums(self) -> list[np.ndarray]:
        """Keys and sums of the voxels of each level in turn: what another map of the same world can `add`."""
        return [part[: level.count] for level in self.levels for part in (level.keys, level.sums)]

    def add(self, sums: Sequence[np.ndarray]) -> None:
        """Add what another map has gathered, as its `sums` gives it: as if its points had been inserted."""
        for level, keys, gathered in zip(self.levels, sums[::2], sums[1::2], strict=True):
            level.add(keys, gathered)

    def thin(self, levels: int = 2) -> SurfelMap:
        """The planes of the finest levels alone: nothing can be added, but much less is kept."""
        thin = SurfelMap(tuple(level.size for level in self.levels[:levels]))
        for level, source in zip(thin.levels, self.levels, strict=False):
            flat = np.flatnonzero(source.planes[: source.count, 7])
            level.keys, level.planes = source.keys[flat], source.planes[flat]
            level.sums, level.count = np.zeros((0, SUMS)), len(flat)
            level.index = np.full(1 << int(np.ceil(np.log2(2 * len(flat) + 2))), -1, "i4")
            rehash(level.index, level.keys, level.count)
        return thin

    @property
    def centres(self) -> np.ndarray:
        """A point on each plane of the finest level, f8 (N, 3), metres in the world."""
        level = self.levels[0]
        planes = level.planes[: level.count]
        return planes[planes[:, 7] > 0, :3]

    @property
    def tables(self) -> Tables:
        """What the kernels look planes up in: sizes, indices, keys and planes of the levels."""
        return (
            np.array([level.size for level in self.levels]),
            tuple(level.index for level in self.levels),
            tuple(level.keys for level in self.levels),
            tuple(level.planes for level in self.levels),
        )
