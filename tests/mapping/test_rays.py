"""Cells after one sweep: hit, passed by a ray, or not observed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rover_pipeline.mapping.grid import FREE, OCCUPIED, UNKNOWN, Extent, Grid, LocalGrid, classify

EDGE = 0.1
EXTENT = Extent(-100, -100, 200, 200, EDGE)
COLUMNS = 720


def sweep(height: float, walls: list[tuple[float, float, float]], band: tuple[float, float] = (0.3, 1.8)) -> np.ndarray:
    """Cells after one sweep of a lidar at a height above the floor, in the middle of round walls (radius, bottom, top).

    Beams from 45 degrees below to 45 above end at the first wall or the floor, or have no return. u1 (row, column).
    """
    elevation = np.radians(np.linspace(45, -45, 181))[:, None]
    azimuth = (2 * np.pi * (np.arange(COLUMNS) + 0.5) / COLUMNS)[None, :]
    with np.errstate(divide="ignore"):
        distance = np.where(elevation < 0, -height / np.tan(elevation), np.inf) + 0 * azimuth
    for radius, bottom, top in walls:
        z = height + radius * np.tan(elevation)
        distance = np.where((z >= bottom) & (z <= top) & (distance > radius), radius, distance)
    distance = np.where(distance < 9, distance, np.nan)
    points = np.stack([distance * np.cos(azimuth), distance * np.sin(azimuth), distance * np.tan(elevation)], -1)
    sectors = np.broadcast_to(np.arange(COLUMNS, dtype="i4"), points.shape[:2])
    local, grid = LocalGrid(EXTENT, np.array([0.0, *band]) - height), Grid(EXTENT)
    local.add(points, np.zeros((COLUMNS, 3)), np.ascontiguousarray(sectors))
    grid.add(local.counts(EXTENT))
    return classify(grid, 0.25)


def along(cells: np.ndarray) -> dict[float, int]:
    """The cells from the lidar along x, by the distance of their middle, m."""
    return {round((n + 0.5) * EDGE, 2): int(cells[100, 100 + n]) for n in range(90)}


def rings(cells: np.ndarray) -> list[tuple[float, float, int]]:
    """Runs of equal cells along x: start and end in m, and the cells' value."""
    row = list(along(cells).values())
    starts = [0, *(n for n in range(1, len(row)) if row[n] != row[n - 1]), len(row)]
    return [(round(a * EDGE, 1), round(b * EDGE, 1), row[a]) for a, b in itertools.pairwise(starts)]


def test_cells_are_free_up_to_a_wall_and_unknown_behind_it() -> None:
    assert rings(sweep(1.25, [(5.02, 0.0, 2.5)])) == [(0.0, 5.0, FREE), (5.0, 5.1, OCCUPIED), (5.1, 9.0, UNKNOWN)]


def test_a_low_box_is_not_cleared_by_beams_over_it() -> None:
    runs = rings(sweep(1.25, [(3.02, 0.0, 0.6), (6.02, 0.0, 2.5)]))
    assert runs[:2] == [(0.0, 3.0, FREE), (3.0, 3.1, OCCUPIED)]
    assert all(value != FREE for start, _, value in runs if start > 3.1)


def test_walls_below_or_above_the_band_are_no_obstacles() -> None:
    runs = rings(sweep(1.25, [(3.02, 0.0, 0.25), (4.02, 2.0, 2.5), (6.02, 0.0, 2.5)]))
    assert runs == [(0.0, 6.0, FREE), (6.0, 6.1, OCCUPIED), (6.1, 9.0, UNKNOWN)]


def test_open_ground_is_free_as_far_as_beams_were_in_the_band() -> None:
    (start, stop, value), (_, end, beyond) = rings(sweep(1.25, []))
    # The beam that ends on the ground at 9 m leaves the band, 0.3 m above the ground, after 0.76 of its length.
    assert (start, value, end, beyond) == (0.0, FREE, 9.0, UNKNOWN)
    assert stop == pytest.approx(9 * 0.95 / 1.25, abs=0.6)


@pytest.mark.parametrize(("height", "band", "begin"), [(3.0, (0.3, 1.8), 1.2), (0.2, (0.7, 1.8), 0.5)])
def test_around_a_lidar_outside_of_the_band_cells_that_no_beam_enters_are_unknown(
    height: float, band: tuple[float, float], begin: float
) -> None:
    runs = rings(sweep(height, [(5.02, 0.0, 6.0)], band))
    assert [value for *_, value in runs] == [UNKNOWN, FREE, OCCUPIED, UNKNOWN]
    assert runs[0][1] == pytest.approx(begin, abs=0.11)


def test_a_cell_is_occupied_by_the_fraction_of_sweeps_that_hit_it() -> None:
    grid = Grid(Extent(0, 0, 4, 1, EDGE))
    grid.hits[0] = [0, 1, 1, 0]
    grid.misses[0] = [5, 3, 4, 0]
    assert classify(grid, 0.25).tolist() == [[FREE, OCCUPIED, FREE, UNKNOWN]]
