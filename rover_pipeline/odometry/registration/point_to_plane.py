"""Points on planes: the normal equations of poses, compiled."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.compiled import compiled, inlined
from rover_pipeline.numerics.voxel_table import EMPTY, find_slot, voxel_key
from rover_pipeline.odometry.registration.point_terms import (
    DEPTH,
    ELEVATION,
    THICK,
    Nuisance,
    PointWeights,
    Statistics,
)
from rover_pipeline.odometry.registration.transforms import raised_by
from rover_pipeline.odometry.surfels import (
    DIRECTION,
    ELEVATIONS,
    EXTENT,
    FACING,
    IS_PLANE,
    LONG,
    PLANE,
    RISE,
    THICKNESS,
    SurfelTables,
    surfel_key,
)

_CUT_OFF = THICK * THICK


class Matches(NamedTuple):
    """Points of a sweep that lie on planes of a map, in their order."""

    number: np.ndarray  #: i4 (I, 3), of the point, of the size of its plane's voxel, and of its plane.
    #: f8 (I, 7), distance from the plane, m; its variance; by how much it shrinks for each unit of depth; the distance
    #: relative to its deviation, positive behind the plane; and x, y, z in the world of the offset along the plane from
    #: its mean point, m.
    values: np.ndarray
    planes: np.ndarray  #: f8 (P, 16), those planes, see `surfels.PLANE`.
    #: f8 (P, 4), of each plane: number of its points, sum of their relative distances and of the squares of these, and
    #: number of the part of a surface that it is of.
    sums: np.ndarray
    #: f8 (Q, 4), of those parts: number of points, sum of the relative distances, and sums of the squares of both over
    #: planes.
    parts: np.ndarray
    fit: np.ndarray  #: f8 (5,), number of the points that were looked up, and `Statistics.pairs`.


@compiled
def _row_of(key: int, slots: np.ndarray) -> int:
    """Row of the voxel with a key; -1 where there is none. Inlined, it would count references to the table."""
    slot = find_slot(slots, key)
    return int(slots[slot, 1]) if slots[slot, 0] == key else -1


@compiled
def _add_row(
    weight: float,
    j: tuple[float, float, float, float, float, float],
    matrix: np.ndarray,
    c: int,
) -> None:
    """Adds the information of a direction to the lower half of the matrix of a column."""
    for a in range(6):
        scaled = weight * j[a]
        for b in range(a + 1):
            matrix[c, a, b] += scaled * j[b]


@inlined
def _along(rot: np.ndarray, x: float, y: float, z: float, axis: int) -> tuple[float, float, float, float, float, float]:
    """Derivatives of where a point of the lidar frame is along an axis of the world; see `pose_equations`."""
    u, v, w = rot[axis, 0], rot[axis, 1], rot[axis, 2]
    x_axis, y_axis, z_axis = (1.0 if axis == 0 else 0.0), (1.0 if axis == 1 else 0.0), (1.0 if axis == 2 else 0.0)
    return x_axis, y_axis, z_axis, y * w - z * v, z * u - x * w, x * v - y * u


@inlined
def _part_of(plane: np.ndarray, size: float) -> int:
    """Key of the part of a surface that a plane is of: a voxel of the largest size, and the nearest axis."""
    ax, ay, az = abs(plane[3]), abs(plane[4]), abs(plane[5])
    axis = 0 if ax >= ay and ax >= az else (1 if ay >= az else 2)
    return voxel_key(math.floor(plane[0] / size), math.floor(plane[1] / size), 3 * math.floor(plane[2] / size) + axis)


@compiled
def _number_of(key: int, table: np.ndarray, count: int) -> int:
    """Number of a key in a hash table, i8 (slot, 2); `count`, which is entered, where it is new."""
    slot = find_slot(table, key)
    if table[slot, 0] == EMPTY:
        table[slot, 0], table[slot, 1] = key, count
    return int(table[slot, 1])


@compiled
def _add_pairs(planes: np.ndarray, sums: np.ndarray, of_parts: np.ndarray, parts: np.ndarray, fit: np.ndarray) -> None:
    """Fills the sums of parts from those of planes, and counts the pairs of both; see `Matches`.

    Args:
        planes, of_parts: hash tables of their numbers.
    """
    for slot in range(len(planes)):
        if planes[slot, 0] == EMPTY:
            continue
        s = sums[planes[slot, 1]]
        number, total, part = s[0], s[1], int(s[3])
        parts[part, 0] += number
        parts[part, 1] += total
        parts[part, 2] += number * number
        parts[part, 3] += total * total
        if number > 1:
            fit[1] += 1
            fit[2] += min((total * total - s[2]) / (number * (number - 1)), _CUT_OFF)
    for slot in range(len(of_parts)):
        if of_parts[slot, 0] == EMPTY:
            continue
        s = parts[of_parts[slot, 1]]
        different = s[0] * s[0] - s[2]
        if different > 0:
            fit[3] += 1
            fit[4] += (s[1] * s[1] - s[3]) / different


@compiled
def match_points(
    points: np.ndarray,
    column: np.ndarray,
    pos: np.ndarray,
    rot: np.ndarray,
    tables: SurfelTables,
    weights: PointWeights,
) -> Matches:
    """The plane of each point: that of the finest voxel that has one within the gate; see `pose_equations`."""
    gate, noise, _, stride, thick, extent, depth, _, _, _, _ = weights
    sizes, all_slots, all_planes = tables
    used = (len(points) + stride - 1) // stride
    levels, rows = np.full(used, -1, np.int32), np.empty(used, np.int64)
    values, number = np.empty((used, 7)), np.empty((used, 3), np.int32)
    block = 512  # points that stay in the processor's cache
    world, left, found = np.empty((3, block)), np.empty(block, np.int64), np.empty(block, np.int64)
    for start in range(0, used, block):
        count = 0
        for at in range(start, min(start + block, used)):
            n = at * stride
            c = column[n]
            x, y, z = np.float64(points[n, 0]), np.float64(points[n, 1]), np.float64(points[n, 2])
            for i in range(3):
                world[i, count] = pos[c, i] + rot[c, i, 0] * x + rot[c, i, 1] * y + rot[c, i, 2] * z
            left[count] = at
            count += 1
        # One size after the other: to take an array out of a tuple means to count references to it. And first the rows
        # of all points, and then their planes: so the processor can wait for many of them at once.
        for level in range(len(sizes)):
            slots, p, size = all_slots[level], all_planes[level], sizes[level]
            for i in range(count):
                found[i] = surfel_key(world[0, i], world[1, i], world[2, i], size)
            for i in range(count):
                found[i] = _row_of(found[i], slots)
            before, count = count, 0
            for i in range(before):
                at, row, wx, wy, wz = left[i], found[i], world[0, i], world[1, i], world[2, i]
                left[count], world[0, count], world[1, count], world[2, count] = at, wx, wy, wz
                count += 1
                if row < 0 or p[row, IS_PLANE] <= 0 or p[row, EXTENT] < extent * size:
                    continue
                n = at * stride
                c = column[n]
                nx, ny, nz = p[row, 3], p[row, 4], p[row, 5]
                x, y, z = wx - p[row, 0], wy - p[row, 1], wz - p[row, 2]
                distance = x * nx + y * ny + z * nz
                values[at, 4], values[at, 5], values[at, 6] = x - distance * nx, y - distance * ny, z - distance * nz
                toward = (wx - pos[c, 0]) * nx + (wy - pos[c, 1]) * ny + (wz - pos[c, 2]) * nz
                thickness = p[row, THICKNESS]
                deeper = 0.0
                if len(depth) > 0 and thickness > noise:
                    x, y, z = np.float64(points[n, 0]), np.float64(points[n, 1]), np.float64(points[n, 2])
                    along = toward / max(math.sqrt(x * x + y * y + z * z), 1e-9)
                    deeper = math.sqrt(thickness * thickness - noise * noise) * (along - p[row, FACING])
                    distance -= depth[level] * deeper
                if abs(distance) < gate or abs(distance) < thick * thickness:
                    variance = noise * noise + thickness * thickness
                    levels[at], rows[at] = level, row
                    values[at, 0], values[at, 1], values[at, 2] = distance, variance, deeper
                    values[at, 3] = (distance if toward > 0 else -distance) / math.sqrt(variance)
                    count -= 1
    room = 16
    while room < 2 * used:
        room *= 2
    # Sums over planes and over parts are added in the order of these hash tables.
    of_planes, of_parts = np.full((room, 2), EMPTY, np.int64), np.full((room, 2), EMPTY, np.int64)
    planes, sums = np.empty((used, PLANE)), np.zeros((used, 4))
    parts, fit = np.zeros((used, 4)), np.zeros(5)
    fit[0] = used
    count, plane_count, part_count = 0, 0, 0
    for at in range(used):
        if levels[at] < 0:
            continue
        plane = _number_of(rows[at] * len(sizes) + levels[at], of_planes, plane_count)
        if plane == plane_count:
            p = all_planes[levels[at]]
            for k in range(PLANE):
                planes[plane, k] = p[rows[at], k]
            part = _number_of(_part_of(planes[plane], sizes[len(sizes) - 1]), of_parts, part_count)
            sums[plane, 3] = part
            plane_count, part_count = plane_count + 1, max(part_count, part + 1)
        number[count, 0], number[count, 1], number[count, 2] = at * stride, levels[at], plane
        for k in range(7):
            values[count, k] = values[at, k]
        sums[plane, 0] += 1.0
        sums[plane, 1] += values[at, 3]
        sums[plane, 2] += values[at, 3] * values[at, 3]
        count += 1
    _add_pairs(of_planes, sums, of_parts, parts, fit)
    return Matches(number[:count], values[:count], planes[:plane_count], sums[:plane_count], parts[:part_count], fit)


@inlined
def _weight_of(matches: Matches, i: int, scale: float, stride: int, common: tuple[float, float]) -> float:
    """How much a point counts, 1/m2; see `pose_equations`."""
    distance, variance, plane = matches.values[i, 0], matches.values[i, 1], matches.number[i, 2]
    on_same = matches.sums[plane, 0]
    on_others = matches.parts[int(matches.sums[plane, 3]), 0] - on_same
    robust = 1 / (1 + distance * distance / (variance * scale * scale))
    return (
        robust * robust / variance * stride / (1 + common[0] * (stride * on_same - 1) + common[1] * stride * on_others)
    )


@inlined
def _into_lidar(rot: np.ndarray, x: float, y: float, z: float) -> tuple[float, float, float]:
    """A direction of the world in the lidar frame."""
    return (
        rot[0, 0] * x + rot[1, 0] * y + rot[2, 0] * z,
        rot[0, 1] * x + rot[1, 1] * y + rot[2, 1] * z,
        rot[0, 2] * x + rot[1, 2] * y + rot[2, 2] * z,
    )


@compiled
def weighted_derivatives(
    points: np.ndarray, column: np.ndarray, rot: np.ndarray, matches: Matches, weights: PointWeights, axes: np.ndarray
) -> np.ndarray:
    """Derivatives of the distances of points along some axes, each times the root of the point's weight, f8 (I, K).

    Their squares are the information of the points along the axes.

    Args:
        points, column, rot: as in `pose_equations`; matches: of the points.
        axes: f8 (K, 6), in each row a displacement in the world and a rotation in the lidar frame.
    """
    found = np.empty((len(matches.number), len(axes)))
    for i in range(len(matches.number)):
        n, plane = matches.number[i, 0], matches.number[i, 2]
        x, y, z = np.float64(points[n, 0]), np.float64(points[n, 1]), np.float64(points[n, 2])
        nx, ny, nz = matches.planes[plane, 3], matches.planes[plane, 4], matches.planes[plane, 5]
        u, v, w = _into_lidar(rot[column[n]], nx, ny, nz)
        j = nx, ny, nz, y * w - z * v, z * u - x * w, x * v - y * u
        root = math.sqrt(_weight_of(matches, i, weights.scale, weights.stride, weights.common))
        for k in range(len(axes)):
            along = 0.0
            for a in range(6):
                along += j[a] * axes[k, a]
            found[i, k] = root * along
    return found


@compiled
def matched_equations(
    points: np.ndarray, column: np.ndarray, rot: np.ndarray, matches: Matches, weights: PointWeights
) -> tuple[np.ndarray, np.ndarray, Statistics, Nuisance]:
    """The same as `pose_equations` for points whose planes are known."""
    matrix, right = np.zeros((len(rot), 6, 6)), np.zeros((len(rot), 6))
    squared_distances, cut_off, normalised, balanced = 0.0, 0.0, 0.0, 0.0
    of_noise, precision = 0.0, 0.0
    gate, _, scale, stride, _, _, depth, common, tilted, beam, spacing = weights
    unknowns = DEPTH + len(depth) if len(depth) > 0 else 0
    cross = np.zeros((unknowns, len(rot), 6))
    information, wanted, of_beams = np.zeros((unknowns, unknowns)), np.zeros(unknowns), np.zeros(180)
    # Derivatives of a point's distance by the unknowns, and which ones these are.
    about, by = np.empty(2), np.empty(2, np.int64)
    _, values, planes, sums, parts, fit = matches
    for i in range(len(matches.number)):
        n, level, plane = matches.number[i, 0], matches.number[i, 1], matches.number[i, 2]
        distance, variance, deeper = values[i, 0], values[i, 1], values[i, 2]
        c = column[n]
        x, y, z = np.float64(points[n, 0]), np.float64(points[n, 1]), np.float64(points[n, 2])
        squared_distances += distance * distance
        tx, ty, tz = values[i, 4], values[i, 5], values[i, 6]
        # The variance of the plane's direction grows where points of one sweep err alike; see `PointWeights.tilted`.
        tilt = tilted * planes[plane, DIRECTION] * (1 + common[0] * (stride * sums[plane, 0] - 1))
        lx, ly, lz = planes[plane, LONG], planes[plane, LONG + 1], planes[plane, LONG + 2]
        long = lx * tx + ly * ty + lz * tz
        squared = distance * distance
        across = tx * tx + ty * ty + tz * tz - long * long
        squared = squared - tilt * across if squared < gate * gate else gate * gate
        cut_off += squared
        balanced += squared / parts[int(sums[plane, 3]), 0]
        nx, ny, nz = planes[plane, 3], planes[plane, 4], planes[plane, 5]
        # The derivative by the rotation is the point times the normal, as a cross product in the lidar frame.
        u, v, w = _into_lidar(rot[c], nx, ny, nz)
        expected, false = variance, 0.0
        if beam > 0:
            # The beams that drew a plane each err across it, by as much as their directions do so far away.
            by_beams = beam * beam * max(x * x + y * y + z * z - (x * u + y * v + z * w) ** 2, 0.0)
            extent = planes[plane, EXTENT]
            false = tilt + by_beams / ((1 + planes[plane, ELEVATIONS] / spacing) * extent * extent)
            expected += false * across
        relative = min(distance * distance / expected, _CUT_OFF)
        normalised += relative
        of_noise += relative / expected
        precision += 1 / (expected * expected)
        j = nx, ny, nz, y * w - z * v, z * u - x * w, x * v - y * u
        weight = _weight_of(matches, i, scale, stride, common)
        _add_row(weight, j, matrix, c)
        tx, ty, tz = tx - long * lx, ty - long * ly, tz - long * lz
        ex, ey, ez = distance * nx - tilt * tx, distance * ny - tilt * ty, distance * nz - tilt * tz
        eu, ev, ew = _into_lidar(rot[c], ex, ey, ez)
        error = ex, ey, ez, y * ew - z * ev, z * eu - x * ew, x * ev - y * eu
        for a in range(6):
            right[c, a] -= weight * error[a]
        if beam > 0:
            for k in range(3):
                _add_row(-weight * false, _along(rot[c], x, y, z, k), matrix, c)
            _add_row(weight * false, j, matrix, c)
        if unknowns > 0:
            # A plane whose beams are raised tilts as well: it is compared where its mean point is.
            mx, my, mz = _into_lidar(rot[c], values[i, 4], values[i, 5], values[i, 6])
            mx, my, mz = x - mx, y - my, z - mz
            level_up, rise = raised_by(mx, my, mz)
            about[0] = w * rise - level_up * (u * mx + v * my) - planes[plane, RISE]
            about[1] = -deeper
            by[0], by[1] = ELEVATION, DEPTH + level
            degree = math.floor(math.degrees(math.atan2(z, math.sqrt(x * x + y * y))))
            of_beams[min(90 + degree, 179)] -= weight * about[0] * distance
            for k in range(2):
                scaled = weight * about[k]
                for a in range(6):
                    cross[by[k], c, a] += scaled * j[a]
                wanted[by[k]] -= scaled * distance
                for other in range(2):
                    information[by[k], by[other]] += scaled * about[other]
    for c in range(len(rot)):
        for a in range(6):
            for b in range(a):
                matrix[c, b, a] = matrix[c, a, b]
    inliers, pairs = float(len(values)), (fit[1], fit[2], fit[3], fit[4])
    balanced = inliers * balanced / max(float(len(parts)), 1.0)
    variance_of_ranges = of_noise, precision
    statistics = Statistics(
        fit[0], inliers, squared_distances, cut_off, normalised, variance_of_ranges, balanced, pairs
    )
    return matrix, right, statistics, Nuisance(cross, information, wanted, of_beams)


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
    What planes pull along them because noise has tilted them is left out; see `PointWeights.tilted`.

    Args:
        points: f4 (N, 3), lidar frame.
        column: i4 (N,), rising.
        pos, rot: f8 (C, 3), (C, 3, 3), poses of the columns.

    Returns:
        Matrices, f8 (C, 6, 6); right sides, f8 (C, 6); how well the points lie on the map; and of what they
        have in common, whose K is 0 where `weights.depth` is empty.
    """
    matches = match_points(points, column, pos, rot, tables, weights)
    return matched_equations(points, column, rot, matches, weights)
