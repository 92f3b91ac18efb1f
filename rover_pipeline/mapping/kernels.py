"""Compiled inner loops of the map: points placed, directions looked in, cells counted."""

from __future__ import annotations

import numpy as np

from rover_pipeline.numerics.compiled import compiled


@compiled
def place(
    xyz: np.ndarray,
    rng: np.ndarray,
    near: int,
    far: int,
    rot: np.ndarray,
    pos: np.ndarray,
    out: np.ndarray,
) -> None:
    """Takes the points of a sweep from the lidar at each column's own instant to the map; NaN for no return.

    Args:
        xyz: f4 (beam, column, 3), m, lidar frame.
        rng: u2 (beam, column), mm; returns are used from `near` up to, not including, `far`.
        rot, pos: f8 (column, 3, 3), f8 (column, 3): pose of the lidar at each column.
        out: f8 (beam, column, 3), filled.
    """
    beams, columns = rng.shape
    for beam in range(beams):
        for c in range(columns):
            if near <= rng[beam, c] < far:
                x, y, z = xyz[beam, c, 0], xyz[beam, c, 1], xyz[beam, c, 2]
                out[beam, c, 0] = rot[c, 0, 0] * x + rot[c, 0, 1] * y + rot[c, 0, 2] * z + pos[c, 0]
                out[beam, c, 1] = rot[c, 1, 0] * x + rot[c, 1, 1] * y + rot[c, 1, 2] * z + pos[c, 1]
                out[beam, c, 2] = rot[c, 2, 0] * x + rot[c, 2, 1] * y + rot[c, 2, 2] * z + pos[c, 2]
            else:
                out[beam, c, 0] = out[beam, c, 1] = out[beam, c, 2] = np.nan


@compiled
def look(
    points: np.ndarray,
    pos: np.ndarray,
    sectors: np.ndarray,
    low: float,
    high: float,
    nearest: np.ndarray,
    farthest: np.ndarray,
    entry: np.ndarray,
    heights: np.ndarray,
) -> None:
    """What a sweep says about the heights between `low` and `high`, direction by direction.

    Args:
        points: f8 (beam, column, 3), m, z up; NaN = no return.
        pos: f8 (column, 3), the lidar at each column.
        sectors: i4 (beam, column), the direction that a pixel belongs to.
        low, high: m above the lidar.
        nearest: f8 (sector, 5): squared distance, place and place of the lidar, in x and y, of the nearest point in
            the band; infinite distance where there is none.
        farthest: the same of the farthest place in the band that a beam passed through on its way; zero if none.
        entry: f8 (sector,), squared distance at which beams come into the band: zero unless the lidar is outside of it,
            infinite where none does.
        heights: f8 (2,), the least and the greatest height above the lidar so far; updated.
    """
    nearest[:, 0] = np.inf
    farthest[:, 0] = 0.0
    edge = low if low > 0.0 else (high if high < 0.0 else 0.0)  # of the band, towards the lidar
    entry[:] = np.inf if edge != 0.0 else 0.0
    beams, columns = sectors.shape
    for beam in range(beams):
        for c in range(columns):
            if np.isnan(points[beam, c, 0]):
                continue
            dx, dy = points[beam, c, 0] - pos[c, 0], points[beam, c, 1] - pos[c, 1]
            dz = points[beam, c, 2] - pos[c, 2]
            heights[0], heights[1] = min(heights[0], dz), max(heights[1], dz)
            distance, s = dx * dx + dy * dy, sectors[beam, c]
            if edge != 0.0 and dz / edge >= 1.0:
                entry[s] = min(entry[s], (edge / dz) ** 2 * distance)
            if low <= dz <= high:
                if distance < nearest[s, 0]:
                    nearest[s, 0], nearest[s, 1], nearest[s, 2] = distance, pos[c, 0] + dx, pos[c, 1] + dy
                    nearest[s, 3], nearest[s, 4] = pos[c, 0], pos[c, 1]
                continue
            # Where the beam left the band on its way to the point; it never did when the lidar is outside too.
            share = 0.0
            if dz < low <= 0.0:
                share = low / dz
            elif dz > high >= 0.0:
                share = high / dz
            if share * share * distance > farthest[s, 0]:
                farthest[s, 0] = share * share * distance
                farthest[s, 1], farthest[s, 2] = pos[c, 0] + share * dx, pos[c, 1] + share * dy
                farthest[s, 3], farthest[s, 4] = pos[c, 0], pos[c, 1]


@compiled
def mark_hits(
    points: np.ndarray,
    pos: np.ndarray,
    band: np.ndarray,
    corner: np.ndarray,
    edge: float,
    sweep: int,
    seen: np.ndarray,
    hits: np.ndarray,
    tops: np.ndarray,
) -> int:
    """Counts the cells in which a sweep has a point in the band, each once, and notes how high surfaces reach.

    Args:
        points, pos: as for `look`.
        band: f8 (3,), m above the lidar: the floor, and the bottom and the top of the band.
        corner: f8 (2,), m: where the window of cells begins.
        edge: of a cell, m.
        sweep: number of this sweep, from 1 on.
        seen: u2 (row, column of the grid), the last sweep that hit a cell.
        hits: u2 of the same shape, sweeps that did.
        tops: u1 of the same shape: 1 at the floor and below, 255 at the top of the band, 0 = nothing at or below it.

    Returns:
        Points in the band.
    """
    floor, low, high = band
    beams, columns = points.shape[:2]
    count = 0
    for beam in range(beams):
        for c in range(columns):
            if np.isnan(points[beam, c, 0]):
                continue
            dz = points[beam, c, 2] - pos[c, 2]
            if dz > high:
                continue
            j = int((points[beam, c, 0] - corner[0]) / edge)
            i = int((points[beam, c, 1] - corner[1]) / edge)
            top = np.uint8(1 + min(254.0, max(0.0, 254.0 * (dz - floor) / (high - floor))))
            if top > tops[i, j]:
                tops[i, j] = top
            if dz >= low:
                count += 1
                if seen[i, j] != sweep:
                    seen[i, j] = sweep
                    hits[i, j] += 1
    return count


@compiled
def mark_rays(
    nearest: np.ndarray,
    farthest: np.ndarray,
    entry: np.ndarray,
    corner: np.ndarray,
    edge: float,
    sweep: int,
    seen: np.ndarray,
    passed: np.ndarray,
    misses: np.ndarray,
) -> None:
    """Counts the cells that a sweep looked through without a hit, each once.

    Every sector is followed from the lidar, or where its beams come into the band, to its nearest point in the band or,
    where there is none, as far as a beam was in the band (Amanatides and Woo, A Fast Voxel Traversal Algorithm for Ray
    Tracing, 1987).

    Args:
        passed: u2 (row, column), the last sweep that looked through a cell.
        misses: u2 of the same shape, sweeps that did.
        nearest, farthest, entry, corner, edge, sweep, seen: as for `look` and `mark_hits`, which came before.
    """
    for s in range(len(nearest)):
        row = nearest[s] if nearest[s, 0] < np.inf else farthest[s]
        if row[0] <= entry[s]:
            continue
        x0, y0 = (row[3] - corner[0]) / edge, (row[4] - corner[1]) / edge
        x1, y1 = (row[1] - corner[0]) / edge, (row[2] - corner[1]) / edge
        skipped = np.sqrt(entry[s] / row[0])
        x0, y0 = x0 + skipped * (x1 - x0), y0 + skipped * (y1 - y0)
        dx, dy = x1 - x0, y1 - y0
        j, i, last_j, last_i = int(x0), int(y0), int(x1), int(y1)
        step_j, step_i = (1 if dx > 0 else -1), (1 if dy > 0 else -1)
        wide = abs(1.0 / dx) if dx != 0.0 else np.inf
        high = abs(1.0 / dy) if dy != 0.0 else np.inf
        next_j = ((j + 1 - x0) if dx > 0 else (x0 - j)) * wide if dx != 0.0 else np.inf
        next_i = ((i + 1 - y0) if dy > 0 else (y0 - i)) * high if dy != 0.0 else np.inf
        for _ in range(abs(last_j - j) + abs(last_i - i)):
            if seen[i, j] != sweep and passed[i, j] != sweep:
                passed[i, j] = sweep
                misses[i, j] += 1
            if next_j < next_i:
                next_j += wide
                j += step_j
            else:
                next_i += high
                i += step_i
