"""Points on planes: the normal equations of poses, compiled."""

from __future__ import annotations

import math

import numpy as np

from rover_pipeline.numerics.compiled import compiled, inlined
from rover_pipeline.numerics.voxel_table import EMPTY, find_slot, voxel_key
from rover_pipeline.odometry.registration.point_terms import (
    DEPTH,
    ELEVATION,
    Nuisance,
    PointWeights,
    Statistics,
)
from rover_pipeline.odometry.registration.transforms import raised_by
from rover_pipeline.odometry.surfel_voxels import EXTENT, FACING, IS_PLANE, RISE, THICKNESS, SurfelTables, surfel_key

#: Distance of a point from its plane, in standard deviations, beyond which it counts less. Tuned: by hand.
SCALE = 2.0
#: Squared distance of a point from its plane, relative to its variance, above which it says nothing about the noise.
#: Tuned: by hand.
_CUT_OFF = 9.0
#: Largest distance of a point of a sweep from a thick plane, in thicknesses; see `PointWeights`. Tuned: by hand.
THICK = 3.0
#: Largest distance of a point from its plane, metres, where the trajectory is nearly right; one that is farther is as
#: bad as a point without a plane. Tuned: by hand.
GATE = 0.05


@compiled
def _plane_of(x: float, y: float, z: float, size: float, slots: np.ndarray, planes: np.ndarray, extent: float) -> int:
    """Row of the plane in the voxel of one size that a point of the world lies in; -1 where there is none.

    It is no `inlined` function: that would count references to the tables at each call.
    """
    key = surfel_key(x, y, z, size)
    slot = find_slot(slots, key)
    row = slots[slot, 1]
    if slots[slot, 0] != key or planes[row, IS_PLANE] <= 0 or planes[row, EXTENT] < extent * size:
        return -1
    return int(row)


@compiled
def _add_row(
    weight: float,
    distance: float,
    j: tuple[float, float, float, float, float, float],
    matrix: np.ndarray,
    right: np.ndarray,
    c: int,
) -> None:
    """Adds the equation of a point to the lower half of the matrix of its column, and to its right side."""
    for a in range(6):
        right[c, a] -= weight * distance * j[a]
        scaled = weight * j[a]
        for b in range(a + 1):
            matrix[c, a, b] += scaled * j[b]


@inlined
def _along(rot: np.ndarray, x: float, y: float, z: float, axis: int) -> tuple[float, float, float, float, float, float]:
    """Derivatives of where a point of the lidar frame is along an axis of the world; see `pose_equations`."""
    u, v, w = rot[axis, 0], rot[axis, 1], rot[axis, 2]
    x_axis, y_axis, z_axis = (1.0 if axis == 0 else 0.0), (1.0 if axis == 1 else 0.0), (1.0 if axis == 2 else 0.0)
    return x_axis, y_axis, z_axis, y * w - z * v, z * u - x * w, x * v - y * u


@compiled
def _part_of(plane: np.ndarray, size: float, keys: np.ndarray) -> float:
    """Slot of the part of a surface that a plane is of: a voxel of the largest size, and the nearest axis."""
    ax, ay, az = abs(plane[3]), abs(plane[4]), abs(plane[5])
    axis = 0 if ax >= ay and ax >= az else (1 if ay >= az else 2)
    key = voxel_key(math.floor(plane[0] / size), math.floor(plane[1] / size), 3 * math.floor(plane[2] / size) + axis)
    slot = find_slot(keys, key)
    keys[slot, 0] = key
    return float(slot)


@compiled
def _add_to_columns(
    plane: np.ndarray, size: float, information: np.ndarray, keys: np.ndarray, in_columns: np.ndarray
) -> None:
    """Adds the information of a plane to the four upright columns that it is in, of grids that are half a column apart.

    Whatever is no wider than half a column is in one of them as a whole.
    """
    for grid in range(4):
        x, y = math.floor(plane[0] / size + 0.5 * (grid % 2)), math.floor(plane[1] / size + 0.5 * (grid // 2))
        key = voxel_key(x, y, grid)
        slot = find_slot(keys, key)
        keys[slot, 0] = key
        in_columns[slot] += information


@compiled
def _pairs(keys: np.ndarray, on_plane: np.ndarray, on_part: np.ndarray) -> tuple[float, float, float, float]:
    """`Statistics.pairs`, from the sums of each plane, and fills those of the parts; see `pose_equations`."""
    planes, same_plane, parts, other_planes = 0.0, 0.0, 0.0, 0.0
    for slot in range(len(keys)):
        if keys[slot, 0] == EMPTY:
            continue
        number, total, part = on_plane[slot, 0], on_plane[slot, 1], int(on_plane[slot, 3])
        on_part[part, 0] += number
        on_part[part, 1] += total
        on_part[part, 2] += number * number
        on_part[part, 3] += total * total
        if number > 1:
            planes += 1
            same_plane += min((total * total - on_plane[slot, 2]) / (number * (number - 1)), _CUT_OFF)
    for slot in range(len(on_part)):
        number, total = on_part[slot, 0], on_part[slot, 1]
        different = number * number - on_part[slot, 2]
        if different > 0:
            parts += 1
            other_planes += (total * total - on_part[slot, 3]) / different
    return planes, same_plane, parts, other_planes


@compiled
def pose_equations(
    points: np.ndarray,
    column: np.ndarray,
    pos: np.ndarray,
    rot: np.ndarray,
    tables: SurfelTables,
    weights: PointWeights,
) -> tuple[np.ndarray, np.ndarray, Statistics, Nuisance]:
    """Normal equations of each column's pose, from the squared distances of its points from planes of the map.

    A point's plane is that of the finest voxel that has one within the gate. Unknowns are a displacement in the world
    and a rotation in the lidar frame. Of n points on one plane whose errors have a correlation of c, each counts
    1 / (1 + c (n - 1)), because their mean has this share of the information of independent ones; those on other planes
    of the same part of a surface count in the same way (intraclass correlation; L. Kish, "Survey Sampling", 1965).

    Args:
        points: f4 (N, 3), lidar frame.
        column: i4 (N,), rising.
        pos, rot: f8 (C, 3), (C, 3, 3), poses of the columns.

    Returns:
        Matrices, f8 (C, 6, 6); right sides, f8 (C, 6); how well the points lie on the map; and of what they
        have in common, whose K is 0 where `weights.depth` is empty.
    """
    matrix, right = np.zeros((len(pos), 6, 6)), np.zeros((len(pos), 6))
    total, inliers, squared_distances, cut_off, normalised, balanced = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    gate, noise, scale, stride, thick, extent, depth, common, tilt, directions = weights
    levels = len(depth)
    unknowns = DEPTH + levels if levels > 0 else 0
    cross = np.zeros((unknowns, len(pos), 6))
    information, wanted = np.zeros((unknowns, unknowns)), np.zeros(unknowns)
    # Derivatives of a point's distance by the unknowns, and which ones these are.
    about, by, of_point = np.empty(2), np.empty(2, np.int64), np.empty(6)
    sizes, slots, planes = tables
    found, at, count = np.empty((len(points), 3)), np.empty((len(points), 4), np.int64), 0
    # Hash tables of the planes that points lie on, and of the parts of surfaces that these are of. Each has the number
    # of its points and the sum of their relative distances; planes the sum of the squares, and their part; parts the
    # sums of the squares of their planes' numbers and sums.
    room = 16
    while room < 2 * len(points):
        room *= 2
    plane_keys, on_plane = np.full((room, 1), EMPTY, np.int64), np.zeros((room, 4))
    part_keys, on_part = np.full((room, 1), EMPTY, np.int64), np.zeros((room, 4))
    columns = 4 * room if len(directions) > 0 else 1
    column_keys, in_columns = np.full((columns, 1), EMPTY, np.int64), np.zeros((columns, 6))
    for n in range(0, len(points), stride):
        c = column[n]
        x, y, z = np.float64(points[n, 0]), np.float64(points[n, 1]), np.float64(points[n, 2])
        wx = pos[c, 0] + rot[c, 0, 0] * x + rot[c, 0, 1] * y + rot[c, 0, 2] * z
        wy = pos[c, 1] + rot[c, 1, 0] * x + rot[c, 1, 1] * y + rot[c, 1, 2] * z
        wz = pos[c, 2] + rot[c, 2, 0] * x + rot[c, 2, 1] * y + rot[c, 2, 2] * z
        total += 1
        for level in range(len(sizes)):
            row = _plane_of(wx, wy, wz, sizes[level], slots[level], planes[level], extent)
            if row < 0:
                continue
            p = planes[level]
            nx, ny, nz = p[row, 3], p[row, 4], p[row, 5]
            distance = (wx - p[row, 0]) * nx + (wy - p[row, 1]) * ny + (wz - p[row, 2]) * nz
            thickness = p[row, THICKNESS]
            deeper = 0.0
            if levels > 0 and thickness > noise:
                along = (wx - pos[c, 0]) * nx + (wy - pos[c, 1]) * ny + (wz - pos[c, 2]) * nz
                along /= max(math.sqrt(x * x + y * y + z * z), 1e-9)
                deeper = math.sqrt(thickness * thickness - noise * noise) * (along - p[row, FACING])
                distance -= depth[level] * deeper
            variance = noise * noise + thickness * thickness
            if abs(distance) < gate or abs(distance) < thick * thickness:
                key = row * len(sizes) + level
                slot = find_slot(plane_keys, key)
                if plane_keys[slot, 0] == EMPTY:
                    plane_keys[slot, 0], on_plane[slot, 3] = key, _part_of(p[row], sizes[len(sizes) - 1], part_keys)
                at[count, 0], at[count, 1], at[count, 2], at[count, 3] = n, level, row, slot
                found[count, 0], found[count, 1], found[count, 2] = distance, variance, deeper
                count += 1
                toward = (wx - pos[c, 0]) * nx + (wy - pos[c, 1]) * ny + (wz - pos[c, 2]) * nz
                relative = (distance if toward > 0 else -distance) / math.sqrt(variance)
                on_plane[slot, 0] += 1.0
                on_plane[slot, 1] += relative
                on_plane[slot, 2] += relative * relative
                break
    pairs = _pairs(plane_keys, on_plane, on_part)
    for i in range(count):
        n, level, row, slot = at[i, 0], at[i, 1], at[i, 2], at[i, 3]
        distance, variance, deeper = found[i, 0], found[i, 1], found[i, 2]
        on_same = on_plane[slot, 0]
        on_others = on_part[int(on_plane[slot, 3]), 0] - on_same
        c = column[n]
        x, y, z = np.float64(points[n, 0]), np.float64(points[n, 1]), np.float64(points[n, 2])
        nx, ny, nz = planes[level][row, 3], planes[level][row, 4], planes[level][row, 5]
        inliers += 1
        squared_distances += distance * distance
        squared = min(distance * distance, gate * gate)
        cut_off += squared
        balanced += squared / (on_same + on_others)
        normalised += min(distance * distance / variance, _CUT_OFF)
        # The derivative by the rotation is the point times the normal, as a cross product in the lidar frame.
        u = rot[c, 0, 0] * nx + rot[c, 1, 0] * ny + rot[c, 2, 0] * nz
        v = rot[c, 0, 1] * nx + rot[c, 1, 1] * ny + rot[c, 2, 1] * nz
        w = rot[c, 0, 2] * nx + rot[c, 1, 2] * ny + rot[c, 2, 2] * nz
        robust = 1 / (1 + distance * distance / (variance * scale * scale))
        weight = (
            robust
            * robust
            / variance
            * stride
            / (1 + common[0] * (stride * on_same - 1) + common[1] * stride * on_others)
        )
        j = nx, ny, nz, y * w - z * v, z * u - x * w, x * v - y * u
        _add_row(weight, distance, j, matrix, right, c)
        if len(directions) > 0:
            for k in range(6):
                along = 0.0
                for a in range(6):
                    along += j[a] * directions[k, a]
                of_point[k] = weight * along * along
            _add_to_columns(planes[level][row], sizes[len(sizes) - 1], of_point, column_keys, in_columns)
        if tilt > 0:
            false = -weight * tilt * variance / planes[level][row, EXTENT] ** 2
            for i in range(3):
                _add_row(false, 0.0, _along(rot[c], x, y, z, i), matrix, right, c)
            _add_row(-false, 0.0, j, matrix, right, c)
        if unknowns > 0:
            level_up, rise = raised_by(x, y, z)
            about[0] = w * rise - level_up * (u * x + v * y) - planes[level][row, RISE]
            about[1] = -deeper
            by[0], by[1] = ELEVATION, DEPTH + level
            for k in range(2):
                scaled = weight * about[k]
                for a in range(6):
                    cross[by[k], c, a] += scaled * j[a]
                wanted[by[k]] -= scaled * distance
                for other in range(2):
                    information[by[k], by[other]] += scaled * about[other]
    for c in range(len(pos)):
        for a in range(6):
            for b in range(a):
                matrix[c, b, a] = matrix[c, a, b]
    parts = 0.0
    for slot in range(len(on_part)):
        parts += on_part[slot, 0] > 0
    single_body = (
        in_columns[:, 0].max(), in_columns[:, 1].max(), in_columns[:, 2].max(),
        in_columns[:, 3].max(), in_columns[:, 4].max(), in_columns[:, 5].max(),
    )  # fmt: skip
    statistics = Statistics(
        total, inliers, squared_distances, cut_off, normalised, inliers * balanced / max(parts, 1.0), pairs, single_body
    )
    return matrix, right, statistics, Nuisance(cross, information, wanted)
