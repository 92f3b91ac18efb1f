"""Compiled inner loops of the registration in continuous time: the equations that points on planes give for the control
points of a trajectory, and their solution for one sweep.
"""

from __future__ import annotations

import numpy as np

from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.odometry.kernels import _exp, _log, _multiply, evaluate_spline
from rover_pipeline.odometry.surfel_kernels import Tables, _key, _slot

_THIRD = np.array([-1.0, 3.0, -3.0, 1.0])


@compiled
def equations(
    points: np.ndarray,
    column: np.ndarray,
    pos: np.ndarray,
    rot: np.ndarray,
    tables: Tables,
    gate: float,
    noise: float,
    scale: float,
    stride: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Normal equations of each column's pose: the squared distances of its points from the planes they lie on.

    A point's plane is that of the finest voxel that has one within the gate. Distances are weighted by their variance
    and by the robust weight of Geman and McClure.

    Args:
        points: f4 (N, 3), lidar frame.
        column: i4 (N,), rising.
        pos, rot: f8 (C, 3), (C, 3, 3), of the columns.
        tables: of the map; see `SurfelMap.tables`.
        gate: metres off the plane at most.
        noise: standard deviation of a range, metres.
        scale: distance, in standard deviations, from where on points count less.
        stride: takes one point in so many.

    Returns:
        Matrices f8 (C, 6, 6) and right sides (C, 6) for a displacement in the world and a rotation in the lidar frame;
        and (3,): points looked at, points with a plane, sum of their squared distances.
    """
    matrix, right, told = np.zeros((len(pos), 6, 6)), np.zeros((len(pos), 6)), np.zeros(3)
    sizes, index, keys, planes = tables
    j = np.empty(6)
    for n in range(0, len(points), stride):
        c = column[n]
        r = rot[c]
        x, y, z = np.float64(points[n, 0]), np.float64(points[n, 1]), np.float64(points[n, 2])
        wx = pos[c, 0] + r[0, 0] * x + r[0, 1] * y + r[0, 2] * z
        wy = pos[c, 1] + r[1, 0] * x + r[1, 1] * y + r[1, 2] * z
        wz = pos[c, 2] + r[2, 0] * x + r[2, 1] * y + r[2, 2] * z
        told[0] += 1
        found, distance, variance = False, 0.0, 0.0
        for level in range(len(sizes)):
            table, known = index[level], keys[level]
            mask = len(table) - 1
            key = _key(wx, wy, wz, sizes[level])
            slot = _slot(key, mask)
            while table[slot] >= 0 and known[table[slot]] != key:
                slot = (slot + 1) & mask
            at = table[slot]
            if at >= 0 and planes[level][at, 7] > 0:
                p = planes[level][at]
                distance = (wx - p[0]) * p[3] + (wy - p[1]) * p[4] + (wz - p[2]) * p[5]
                if abs(distance) < gate:
                    found = True
                    j[0], j[1], j[2] = p[3], p[4], p[5]
                    variance = noise * noise + p[6] * p[6]
                    break
        if not found:
            continue
        told[1] += 1
        told[2] += distance * distance
        u = r[0, 0] * j[0] + r[1, 0] * j[1] + r[2, 0] * j[2]
        v = r[0, 1] * j[0] + r[1, 1] * j[1] + r[2, 1] * j[2]
        w = r[0, 2] * j[0] + r[1, 2] * j[1] + r[2, 2] * j[2]
        j[3], j[4], j[5] = y * w - z * v, z * u - x * w, x * v - y * u
        robust = 1 / (1 + distance * distance / (variance * scale * scale))
        weight = robust * robust / variance * stride
        for a in range(6):
            right[c, a] -= weight * distance * j[a]
            for b in range(a + 1):
                matrix[c, a, b] += weight * j[a] * j[b]
    for c in range(len(pos)):
        for a in range(6):
            for b in range(a):
                matrix[c, b, a] = matrix[c, a, b]
    return matrix, right, told


@compiled
def lift(
    matrix: np.ndarray, right: np.ndarray, first: np.ndarray, weights: np.ndarray, blocks: np.ndarray, sides: np.ndarray
) -> None:
    """Adds equations of columns to those of the control points that act on them.

    Args:
        matrix, right: f8 (C, 6, 6), (C, 6).
        first: i8 (C,), first control point of each column.
        weights: f8 (C, 4), of the four that act.
        blocks: f8 (M, 4, 6, 6), of a control point with itself and the three before it.
        sides: f8 (M, 6).
    """
    for c in range(len(first)):
        for k in range(4):
            m, wk = first[c] + k, weights[c, k]
            for a in range(6):
                sides[m, a] += wk * right[c, a]
            for other in range(k + 1):
                w = wk * weights[c, other]
                block = blocks[m, k - other]
                for a in range(6):
                    for b in range(6):
                        block[a, b] += w * matrix[c, a, b]


@compiled
def add_jerks(
    pos: np.ndarray, rot: np.ndarray, known: float, start: int, blocks: np.ndarray, sides: np.ndarray
) -> None:
    """Adds the expectation that third differences of control points are zero, from number `start` on.

    Args:
        pos, rot: f8 (M, 3), (M, 3, 3).
        known: weight of a squared third difference.
    """
    turns = np.empty((len(rot), 3))
    for m in range(start, len(rot) - 1):
        _log(rot[m], rot[m + 1], turns[m])
    for m in range(start, len(pos) - 3):
        for i in range(6):
            if i < 3:
                error = pos[m + 3, i] - 3 * pos[m + 2, i] + 3 * pos[m + 1, i] - pos[m, i]
            else:
                error = turns[m + 2, i - 3] - 2 * turns[m + 1, i - 3] + turns[m, i - 3]
            for k in range(4):
                sides[m + k, i] -= known * _THIRD[k] * error
                for other in range(k + 1):
                    blocks[m + k, k - other, i, i] += known * _THIRD[k] * _THIRD[other]


@compiled
def add_rates(
    pos: np.ndarray,
    rot: np.ndarray,
    step: float,
    first: np.ndarray,
    place: np.ndarray,
    rates: np.ndarray,
    known: float,
    blocks: np.ndarray,
    sides: np.ndarray,
) -> None:
    """Adds measured angular velocities, f8 (G, 3), rad/s in the lidar frame.

    Args:
        first, place: i8 (G,), f8 (G,), of their instants: first control point that acts, way to the next knot.
        known: weight of a squared difference.
    """
    if len(rates) == 0:
        return
    _, _, _, _, spins = evaluate_spline(pos, rot, step, first, place)
    matrix, right, weights = np.zeros((len(rates), 6, 6)), np.zeros((len(rates), 6)), np.empty((len(rates), 4))
    for n in range(len(rates)):
        u = place[n]
        weights[n, 0], weights[n, 3] = -(1 - u) * (1 - u) / (2 * step), u * u / (2 * step)
        weights[n, 1] = (3 * u * u - 4 * u) / (2 * step)
        weights[n, 2] = -weights[n, 0] - weights[n, 1] - weights[n, 3]
        for i in range(3):
            matrix[n, 3 + i, 3 + i] = known
            right[n, 3 + i] = known * (rates[n, i] - spins[n, i])
    lift(matrix, right, first, weights, blocks, sides)


@compiled
def solve_sweep(
    points: np.ndarray,
    column: np.ndarray,
    first: np.ndarray,
    place: np.ndarray,
    weights: np.ndarray,
    pos: np.ndarray,
    rot: np.ndarray,
    step: float,
    prior: np.ndarray,
    tables: Tables,
    gates: np.ndarray,
    strides: np.ndarray,
    noise: float,
    scale: float,
    jerk: float,
    rates: np.ndarray,
    rates_first: np.ndarray,
    rates_place: np.ndarray,
    rates_known: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Moves the control points of one sweep, in place, until its points lie on the planes of the map.

    Args:
        points, column: of the sweep; first, place, weights: of its columns, i8 (C,), f8 (C,), f8 (C, 4).
        pos, rot: f8 (M, 3), (M, 3, 3), the control points that act on the sweep.
        prior: f8 (6 K, 6 K), information of the first K of them where they are.
        gates, strides: f8 (I,), i8 (I,), iteration by iteration.
        rates, rates_first, rates_place, rates_known: measured angular velocities; see `add_rates`.

    Returns:
        Information of the control points, f8 (6 M, 6 M), and what `equations` told last.
    """
    count, known = len(pos), len(prior) // 6
    was_pos, was_rot = pos[:known].copy(), rot[:known].copy()
    away, turn = np.empty(6 * known), np.empty((3, 3))
    information, told = np.zeros((6 * count, 6 * count)), np.zeros(3)
    for iteration in range(len(gates)):
        gate = gates[iteration]
        at_pos, at_rot, _, _, _ = evaluate_spline(pos, rot, step, first, place)
        matrix, right, told = equations(
            points, column, at_pos, at_rot, tables, gate, max(noise, gate / 5), scale, strides[iteration]
        )
        blocks, sides = np.zeros((count, 4, 6, 6)), np.zeros((count, 6))
        lift(matrix, right, first, weights, blocks, sides)
        # Differences within what is known already are part of the prior.
        add_jerks(pos, rot, 1 / (jerk * step**3) ** 2, max(0, known - 3), blocks, sides)
        add_rates(pos, rot, step, rates_first, rates_place, rates, rates_known, blocks, sides)
        information[:] = 0.0
        for m in range(count):
            for k in range(min(4, m + 1)):
                for a in range(6):
                    for b in range(6):
                        information[6 * m + a, 6 * (m - k) + b] = blocks[m, k, a, b]
                        information[6 * (m - k) + b, 6 * m + a] = blocks[m, k, a, b]
        for m in range(known):
            _log(was_rot[m], rot[m], away[6 * m + 3 : 6 * m + 6])
            for a in range(3):
                away[6 * m + a] = pos[m, a] - was_pos[m, a]
        side = sides.ravel()
        for i in range(6 * known):
            for j in range(6 * known):
                information[i, j] += prior[i, j]
                side[i] -= prior[i, j] * away[j]
        _solve(information, side)
        for m in range(count):
            for a in range(3):
                pos[m, a] += side[6 * m + a]
            _exp(side[6 * m + 3], side[6 * m + 4], side[6 * m + 5], turn)
            _multiply(rot[m].copy(), turn, rot[m])
    return information, told


@compiled
def _solve(matrix: np.ndarray, side: np.ndarray) -> None:
    """Solution of a positive definite system, in place of `side`, by Cholesky's decomposition; `matrix` is kept."""
    n = len(side)
    lower = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            if i == j:
                lower[i, i] = np.sqrt(max(total, 1e-6))
            else:
                lower[i, j] = total / lower[j, j]
    for i in range(n):
        for k in range(i):
            side[i] -= lower[i, k] * side[k]
        side[i] /= lower[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            side[i] -= lower[k, i] * side[k]
        side[i] /= lower[i, i]
