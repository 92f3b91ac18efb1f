"""The surfel map: points summed in voxels of several sizes, each voxel with the plane through its points.

Planes in voxels of more than one size are the idea of Yuan, Xu, Liu, Hong, Zhang, "Efficient and Probabilistic Adaptive
Voxel Mapping for Accurate Online LiDAR Odometry" (RA-L 2022). What sums and planes need at every point is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.numerics.compiled import compiled, inlined
from rover_pipeline.numerics.voxel_table import EMPTY, empty_table, find_slot, voxel_indices, voxel_key

#: Columns of the sums of a voxel: number of points; x, y, z, xx, xy, xz, yy, yz, zz relative to the voxel's centre;
#: x, y, z of the unit vectors from the lidar to them; the sine of their elevation in the lidar frame, and its square;
#: x, y, z of how they move if all beams are raised, m/rad; number of points when its plane was fitted last. Layout.
COUNT, VIEW, SINE, RAISE, FITTED, SUMS = 0, 10, 13, 15, 18, 19
#: Columns of a plane: x, y, z of a point on it; x, y, z of its unit normal; its thickness, which is the standard
#: deviation of its points along the normal, metres; 1 where the voxel has a plane, else 0; the standard deviation of
#: its points along its shorter side, metres; the mean of the unit vectors from the lidar to its points, along the
#: normal; how far it moves along the normal if all beams are raised, m/rad; the variance of its direction if its points
#: are independent, about its longer side, rad2; the range of the sines of the elevations of the beams that drew it; and
#: x, y, z of a vector along its longer side, whose squared length is the share by which that variance is smaller for
#: a tilt along this side. Layout.
NORMAL, THICKNESS, IS_PLANE, EXTENT, FACING, RISE, DIRECTION, ELEVATIONS, LONG, PLANE = 3, *range(6, 14), 16
#: Offset of the voxel grid from the world's origin, in voxels. Floors and walls often lie at round coordinates. Without
#: an offset they would lie on the border of two voxels. Tuned: by hand.
_OFFSET = 0.371
#: Smallest number of points that a plane is fitted to. Tuned: by hand.
_MIN_POINTS = 8
#: Largest thickness of a plane, and its smallest extent along its shorter side, relative to the voxel's edge. Leaves of
#: a bush and blades of grass are thick planes: each point says little, but thousands of them show where the bush is.
#: Tuned: by hand.
_MAX_THICKNESS, _MIN_EXTENT = 0.2, 0.08
#: A single beam that turns through leaves, which return it from any depth, draws a thin plane that holds the beam, and
#: moves along with the lidar. So a plane of one beam must be thin along the ray, too. The points of one beam have the
#: same elevation, within this deviation of its sine: neighbouring beams are 0.005 and more apart.
#: Tuned: by hand, and data sheets.
_ONE_BEAM = 0.002
#: Edge of the voxels from which on a body that moves, such as a person, is no plane, metres. Tuned: by hand.
LARGE = 1.0
#: Smallest number of levels that kernels are given: that of the option `odometry.voxels` unless it is set. Layout.
_LEVELS = 4


class VoxelArrays(NamedTuple):
    """The voxels of one size. Rows are in the order in which the voxels were first touched."""

    slots: np.ndarray  #: i8 (slot, 2), hash table of keys (see `numerics.voxel_table`) and rows.
    keys: np.ndarray  #: i8 (row,).
    sums: np.ndarray  #: f8 (row, 19).
    planes: np.ndarray  #: f8 (row, 16).


class SurfelTables(NamedTuple):
    """A surfel map as kernels look planes up in it."""

    sizes: np.ndarray  #: f8 (level,), edges of the voxels, metres, finest first.
    slots: tuple[np.ndarray, ...]  #: of each level; see `VoxelArrays`.
    planes: tuple[np.ndarray, ...]  #: of each level; see `VoxelArrays`.


@inlined
def surfel_key(x: float, y: float, z: float, size: float) -> Any:
    """Key of the voxel that a point of the world lies in."""
    return voxel_key(
        math.floor(x / size + _OFFSET),
        math.floor(y / size + _OFFSET),
        math.floor(z / size + _OFFSET),
    )


@inlined
def _centre(key: int, size: float) -> Any:
    i, j, k = voxel_indices(key)
    return (
        (np.float64(i) - _OFFSET + 0.5) * size,
        (np.float64(j) - _OFFSET + 0.5) * size,
        (np.float64(k) - _OFFSET + 0.5) * size,
    )


@compiled
def fill_slots(slots: np.ndarray, keys: np.ndarray) -> None:
    """Enters all keys and their rows into an empty hash table."""
    for row in range(len(keys)):
        slot = find_slot(slots, keys[row])
        slots[slot, 0], slots[slot, 1] = keys[row], row


@compiled
def insert_points(rays: np.ndarray, size: float, voxels: VoxelArrays, count: int, fit: bool) -> int:
    """Adds points to the sums of their voxels. Fits the planes of voxels that have grown by 10 % again.

    Args:
        rays: as in `SurfelMap.insert`.
        count: number of voxels before; there is room for N more.
        fit: False = fit no planes.

    Returns:
        The number of voxels.
    """
    slots, keys, sums, planes = voxels
    # Rows are looked up first, and then their sums are added to: so the processor can wait for many of them at once.
    rows = np.empty(len(rays), np.int64)
    last, row = EMPTY, 0
    for n in range(len(rays)):
        key = surfel_key(rays[n, 0], rays[n, 1], rays[n, 2], size)
        if key != last:
            slot = find_slot(slots, key)
            if slots[slot, 0] == EMPTY:
                slots[slot, 0], slots[slot, 1], keys[count] = key, count, key
                count += 1
            row, last = slots[slot, 1], key
        rows[n] = row
    touched = np.empty(len(rays), np.int32)
    number = 0
    for n in range(len(rays)):
        row = rows[n]
        if fit and sums[row, FITTED] >= 0:
            # A negative number marks a voxel that is on the list already.
            sums[row, FITTED] = -sums[row, FITTED] - 1
            touched[number] = row
            number += 1
        cx, cy, cz = _centre(keys[row], size)
        x, y, z = rays[n, 0] - cx, rays[n, 1] - cy, rays[n, 2] - cz
        sums[row, COUNT] += 1
        sums[row, 1] += x
        sums[row, 2] += y
        sums[row, 3] += z
        sums[row, 4] += x * x
        sums[row, 5] += x * y
        sums[row, 6] += x * z
        sums[row, 7] += y * y
        sums[row, 8] += y * z
        sums[row, 9] += z * z
        sums[row, VIEW] += rays[n, 3]
        sums[row, VIEW + 1] += rays[n, 4]
        sums[row, VIEW + 2] += rays[n, 5]
        sums[row, SINE] += rays[n, 6]
        sums[row, SINE + 1] += rays[n, 6] * rays[n, 6]
        sums[row, RAISE] += rays[n, 7]
        sums[row, RAISE + 1] += rays[n, 8]
        sums[row, RAISE + 2] += rays[n, 9]
    for n in range(number):
        row = touched[n]
        s = sums[row]
        fitted = -s[FITTED] - 1
        if s[COUNT] >= _MIN_POINTS and s[COUNT] > 1.1 * fitted:
            _fit_plane(keys[row], size, s, planes[row])
            fitted = s[COUNT]
        s[FITTED] = fitted
    return count


@compiled
def insert_sums(other_keys: np.ndarray, other_sums: np.ndarray, size: float, voxels: VoxelArrays, count: int) -> int:
    """Adds the sums of another map's voxels, i8 (N,) and f8 (N, 19).

    Args:
        count: number of voxels before; there is room for N more.

    Returns:
        The number of voxels.
    """
    slots, keys, sums, _ = voxels
    for n in range(len(other_keys)):
        key = other_keys[n]
        slot = find_slot(slots, key)
        if slots[slot, 0] == EMPTY:
            slots[slot, 0], slots[slot, 1], keys[count] = key, count, key
            count += 1
        row = slots[slot, 1]
        for i in range(FITTED):
            sums[row, i] += other_sums[n, i]
    return count


@compiled
def fit_planes(size: float, voxels: VoxelArrays, count: int) -> None:
    """Fits the planes of those voxels, of which there are so many, that have grown since they were fitted last."""
    _, keys, sums, planes = voxels
    for row in range(count):
        if sums[row, COUNT] >= _MIN_POINTS and sums[row, COUNT] > sums[row, FITTED]:
            _fit_plane(keys[row], size, sums[row], planes[row])
            sums[row, FITTED] = sums[row, COUNT]


@compiled
def _fit_plane(key: int, size: float, s: np.ndarray, plane: np.ndarray) -> None:
    """Fits the plane of a voxel by the eigenvalues of its points' covariance.

    There is no plane where the points are not flat, lie along a line or along a face of the voxel, or are of
    one beam in a plane that holds it.
    """
    n = s[COUNT]
    mx, my, mz = s[1] / n, s[2] / n, s[3] / n
    a, b, c = s[4] / n - mx * mx, s[5] / n - mx * my, s[6] / n - mx * mz
    d, e, f = s[7] / n - my * my, s[8] / n - my * mz, s[9] / n - mz * mz
    # Eigenvalues of a symmetric 3x3 matrix in closed form (Smith, Communications of the ACM 4, 1961).
    mean = (a + d + f) / 3
    da, dd, df = a - mean, d - mean, f - mean
    p = math.sqrt((da * da + dd * dd + df * df + 2 * (b * b + c * c + e * e)) / 6)
    plane[IS_PLANE] = 0.0
    if p < 1e-9:
        return
    ua, ud, uf = da / p, dd / p, df / p
    ub, uc, ue = b / p, c / p, e / p
    half = 0.5 * (ua * (ud * uf - ue * ue) - ub * (ub * uf - ue * uc) + uc * (ub * ue - ud * uc))
    angle = np.arccos(min(1.0, max(-1.0, half))) / 3
    largest = mean + 2 * p * np.cos(angle)
    smallest = mean + 2 * p * np.cos(angle + 2 * np.pi / 3)
    middle = 3 * mean - largest - smallest
    thick, wide = _MAX_THICKNESS * size, _MIN_EXTENT * size
    if smallest > thick * thick or middle < wide * wide or middle < 4 * smallest:
        return
    # The normal is orthogonal to the rows of A - smallest * I: take the longest cross product of two rows.
    a, d, f = a - smallest, d - smallest, f - smallest
    x1, y1, z1 = b * e - c * d, c * b - a * e, a * d - b * b
    x2, y2, z2 = b * f - c * e, c * c - a * f, a * e - b * c
    x3, y3, z3 = d * f - e * e, e * c - b * f, b * e - d * c
    q1, q2, q3 = x1 * x1 + y1 * y1 + z1 * z1, x2 * x2 + y2 * y2 + z2 * z2, x3 * x3 + y3 * y3 + z3 * z3
    if q2 > q1:
        x1, y1, z1 = x2, y2, z2
        q1 = q2
    if q3 > q1:
        x1, y1, z1 = x3, y3, z3
        q1 = q3
    if q1 <= 0:
        return
    scale = 1 / math.sqrt(q1)
    x1, y1, z1 = x1 * scale, y1 * scale, z1 * scale
    thickness = math.sqrt(max(smallest, 0.0))
    sine = s[SINE] / n
    spread = max(s[SINE + 1] / n - sine * sine, 0.0)
    if spread < _ONE_BEAM * _ONE_BEAM:
        x, y, z = s[VIEW], s[VIEW + 1], s[VIEW + 2]
        across = abs(x1 * x + y1 * y + z1 * z)
        along = math.sqrt(x * x + y * y + z * z)
        if thickness * along > _MAX_THICKNESS * size * across:
            return
    # The voxel's face cuts off some points of a surface along it. The mean of the rest is beside the surface.
    inside = 0.5 * size - max(0.01, 3 * thickness)
    if (abs(x1) > 0.9 and abs(mx) > inside) or (abs(y1) > 0.9 and abs(my) > inside):
        return
    if abs(z1) > 0.9 and abs(mz) > inside:
        return
    cx, cy, cz = _centre(key, size)
    plane[0], plane[1], plane[2] = mx + cx, my + cy, mz + cz
    plane[3], plane[4], plane[5] = x1, y1, z1
    plane[6], plane[7], plane[EXTENT] = thickness, 1.0, math.sqrt(middle)
    plane[FACING] = (x1 * s[VIEW] + y1 * s[VIEW + 1] + z1 * s[VIEW + 2]) / n
    # The product of the covariance less each of its two smaller eigenvalues has only the direction of the third one.
    other = middle - smallest
    la, ld, lf = a * a + b * b + c * c - other * a, b * b + d * d + e * e - other * d, c * c + e * e + f * f - other * f
    lb, lc = a * b + b * d + c * e - other * b, a * c + b * e + c * f - other * c
    le = b * c + d * e + e * f - other * e
    if la >= ld and la >= lf:
        lx, ly, lz = la, lb, lc
    elif ld >= lf:
        lx, ly, lz = lb, ld, le
    else:
        lx, ly, lz = lc, le, lf
    scale = math.sqrt((1 - middle / largest) / max(lx * lx + ly * ly + lz * lz, 1e-300))
    plane[LONG], plane[LONG + 1], plane[LONG + 2] = scale * lx, scale * ly, scale * lz
    plane[DIRECTION] = max(smallest, 0.0) / (n * middle)
    plane[ELEVATIONS] = math.sqrt(12 * spread)  # of an even distribution
    plane[RISE] = (x1 * s[RAISE] + y1 * s[RAISE + 1] + z1 * s[RAISE + 2]) / n


@dataclass
class SurfelLevel:
    """The voxels of one size."""

    size: float  #: edge of the voxels, metres.
    voxels: VoxelArrays  #: with room for more voxels than there are.
    count: int = 0  #: number of voxels.

    def clear(self) -> None:
        """Remove all voxels, and keep the memory for others."""
        self.voxels.slots[:, 0] = EMPTY
        self.voxels.sums[: self.count], self.voxels.planes[: self.count] = 0, 0
        self.count = 0

    def planes(self) -> np.ndarray:
        """The planes of the voxels that have one, f8 (N, 13), columns as from `NORMAL` to `PLANE`."""
        planes = self.voxels.planes[: self.count]
        return planes[planes[:, IS_PLANE] > 0]

    def reserve(self, more: int) -> None:
        """Make room for more voxels in a hash table that is half full at most."""
        if (count := self.count + more) <= len(self.voxels.keys):
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
        self.levels = [SurfelLevel(size, _with_capacity(1 << 11)) for size in sizes]

    def insert(self, rays: np.ndarray, fit: bool = True) -> None:
        """Add points.

        Args:
            rays: f8 (N, 10), of each point x, y, z in the world, metres; those of the unit vector from the lidar to it;
                the sine of its elevation in the lidar frame, which distinguishes the beams; and x, y, z of how it moves
                if its beam is raised, m/rad.
            fit: False = the planes stay as they are until `fit`.
        """
        for level in self.levels:
            level.reserve(len(rays))
            level.count = insert_points(rays, level.size, level.voxels, level.count, fit)

    def fit(self) -> None:
        """Fit the planes to all points."""
        for level in self.levels:
            fit_planes(level.size, level.voxels, level.count)

    def sums(self) -> list[np.ndarray]:
        """Keys and sums of the voxels of each level in turn, which another map of the same world can `add`."""
        return [array[: level.count] for level in self.levels for array in (level.voxels.keys, level.voxels.sums)]

    def add(self, sums: Sequence[np.ndarray]) -> None:
        """Add the `sums` of another map, as if its points had been inserted here; the planes stay until `fit`."""
        for level, keys, values in zip(self.levels, sums[::2], sums[1::2], strict=True):
            level.reserve(len(keys))
            level.count = insert_sums(keys, values, level.size, level.voxels, level.count)

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
        thin = SurfelMap(())
        for size, keys, planes in zip(arrays[::3], arrays[1::3], arrays[2::3], strict=True):
            slots = empty_table(1 << int(np.ceil(np.log2(2 * len(keys) + 2))), 2)
            fill_slots(slots, keys)
            voxels = VoxelArrays(slots, keys, np.zeros((0, SUMS)), planes)
            thin.levels.append(SurfelLevel(float(size), voxels, len(keys)))
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
