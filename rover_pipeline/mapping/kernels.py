"""Compiled inner loops of the map: points moved to the map, sectors of a sweep, and counts of cells.

A sector is a direction, a few columns wide, in which a sweep's beams look. In each sector one ray in the plane of the
grid says which cells are free.
"""

from __future__ import annotations

import numpy as np

from rover_pipeline.numerics.compiled import compiled


@compiled
def transform_points(
    xyz: np.ndarray, rng: np.ndarray, near: int, far: int, rot: np.ndarray, pos: np.ndarray, out: np.ndarray
) -> None:
    """Moves the points of a sweep to the map by the lidar's pose at each column's own instant.

    Args:
        xyz: f4 (beam, column, 3), m, lidar frame.
        rng: u2 (beam, column), mm. A point is used when its range is at least `near` and less than `far`.
        rot, pos: f8 (column, 3, 3), f8 (column, 3): pose of the lidar at each column.
        out: f8 (beam, column, 3), filled; NaN where a point is not used.
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
def find_rays(
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
    """Finds the ray of each sector through the band of heights between `low` and `high`.

    Args:
        points: f8 (beam, column, 3), m, z up; NaN = no return.
        pos: f8 (column, 3), position of the lidar at each column.
        sectors: i4 (beam, column), the sector of each pixel.
        low, high: m above the lidar.
        nearest: f8 (sector, 5), filled: the nearest point in the band as squared horizontal distance, x and y of the
            point, x and y of the lidar. The distance is infinite where no point is in the band.
        farthest: f8 (sector, 5), filled: the same for the farthest position at which a beam was still in the band on
            its way to a point outside. The distance is zero where there is none.
        entry: f8 (sector,), filled: squared horizontal distance at which beams enter the band. It is zero when the
            lidar itself is in the band, and infinite where no beam enters it.
        heights: f8 (2,), minimum and maximum height of a point above the lidar; updated.
    """
    nearest[:, 0] = np.inf
    farthest[:, 0] = 0.0
    edge = low if low > 0.0 else (high if high < 0.0 else 0.0)  # the limit that faces a lidar outside of the band
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
            # The fraction of the beam after which it leaves the band; it never does when the lidar is outside too.
            fraction = 0.0
            if dz < low <= 0.0:
                fraction = low / dz
            elif dz > high >= 0.0:
                fraction = high / dz
            if fraction * fraction * distance > farthest[s, 0]:
                farthest[s, 0] = fraction * fraction * distance
                farthest[s, 1], farthest[s, 2] = pos[c, 0] + fraction * dx, pos[c, 1] + fraction * dy
                farthest[s, 3], farthest[s, 4] = pos[c, 0], pos[c, 1]


@compiled
def count_hits(
    points: np.ndarray,
    pos: np.ndarray,
    band: np.ndarray,
    corner: np.ndarray,
    edge: float,
    sweep: int,
    hit_by: np.ndarray,
    hits: np.ndarray,
    tops: np.ndarray,
) -> int:
    """Counts once each cell in which a sweep has a point in the band, and updates the heights of surfaces.

    Args:
        points, pos: as for `find_rays`.
        band: f8 (3,), m above the lidar: the floor, and the bottom and the top of the band.
        corner: f8 (2,), m: lower left corner of the cells.
        edge: of a cell, m.
        sweep: number of this sweep, from 1 on.
        hit_by: u2 (row, column), number of the last sweep that hit the cell.
        hits: u2 (row, column), number of sweeps that did.
        tops: u1 (row, column), height of the highest surface up to the top of the band: 0 = nothing, 1 = at the floor
            or below, 255 = at the top of the band.

    Returns:
        The number of points in the band.
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
                if hit_by[i, j] != sweep:
                    hit_by[i, j] = sweep
                    hits[i, j] += 1
    return count


@compiled
def count_misses(
    nearest: np.ndarray,
    farthest: np.ndarray,
    entry: np.ndarray,
    corner: np.ndarray,
    edge: float,
    sweep: int,
    hit_by: np.ndarray,
    passed_by: np.ndarray,
    misses: np.ndarray,
) -> None:
    """Counts once each cell that a sweep's rays pass through and in which the sweep has no hit.

    The ray of a sector begins at the lidar, or where beams enter the band. It ends at the nearest point in the band,
    or, where there is none, at the farthest position at which a beam was in the band (Amanatides and Woo, A Fast Voxel
    Traversal Algorithm for Ray Tracing, 1987).

    Args:
        nearest, farthest, entry: as `find_rays` fills them.
        corner, edge, sweep, hit_by: as for `count_hits`, which must have been called for this sweep.
        passed_by: u2 (row, column), number of the last sweep with a ray through the cell.
        misses: u2 (row, column), number of sweeps with a ray through the cell and no hit.
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
        # Length of the ray in a cell's width and height, and up to the next column and row.
        per_column = abs(1.0 / dx) if dx != 0.0 else np.inf
        per_row = abs(1.0 / dy) if dy != 0.0 else np.inf
        next_j = ((j + 1 - x0) if dx > 0 else (x0 - j)) * per_column if dx != 0.0 else np.inf
        next_i = ((i + 1 - y0) if dy > 0 else (y0 - i)) * per_row if dy != 0.0 else np.inf
        for _ in range(abs(last_j - j) + abs(last_i - i)):
            if hit_by[i, j] != sweep and passed_by[i, j] != sweep:
                passed_by[i, j] = sweep
                misses[i, j] += 1
            if next_j < next_i:
                next_j += per_column
                j += step_j
            else:
                next_i += per_row
                i += step_i
