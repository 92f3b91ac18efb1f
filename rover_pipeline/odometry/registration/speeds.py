"""Speeds at which sweeps fit one another.

Most surfaces along the aisle of a warehouse are parallel to the motion, so that a registration that begins with a wrong
speed keeps it. Therefore speeds are searched by correlation, as E. Olson searches poses (Real-Time Correlative Scan
Matching, ICRA 2009): sweeps that are placed with the right speed fill the smallest number of cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.numerics.linear import eigh, matmul
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.registration.cross_validation import BLOCK, world_rays
from rover_pipeline.odometry.registration.first_guess import POINTS
from rover_pipeline.odometry.spline import SplineTrajectory

#: Edge of the cells, m: larger than the noise of ranges, smaller than posts and gaps. Tuned: by hand.
EDGE_M = 0.1
#: Largest speed, m/s, because a car on a motorway has 36; and number of speeds that are given. Tuned: by hand.
_MAX_SPEED, _KEPT = 40.0, 3
#: Share of the information about a position below which hardly any surface faces a direction. It is a third where
#: surfaces face all directions alike. Tuned: by hand.
_FACING = 0.05


def open_direction(information: np.ndarray) -> np.ndarray | None:
    """The direction that hardly any surface faces, and two across it, f8 (3, 3); None if there is none.

    Rows are unit vectors in the world, the last one that of most surfaces.

    Args:
        information: f8 (6, 6), of a displacement in the world and of a rotation.
    """
    values, directions = eigh(information[:3, :3])
    return np.ascontiguousarray(directions.T) if values[0] < _FACING * values.sum() else None


def with_other_speeds(sweeps: Sequence[Sweep], guess: SplineTrajectory, axes: np.ndarray) -> Iterator[SplineTrajectory]:
    """Trajectories of one speed along a direction, and of the guess's motion otherwise.

    Rings of few beams fill few cells at rest, too. So the best speed is not certain, and the best few are given.

    Args:
        sweeps: of which the first few are compared.
        axes: f8 (3, 3), see `open_direction`.
    """
    still, direction = guess.copy(), axes[0]
    still.pos[:] -= np.outer(((guess.pos - guess.pos[0]) * direction).sum(axis=1), direction)
    first, places, since = sweeps[:BLOCK], [], []  # in half a second a rig hardly changes its speed
    for sweep in first:
        part = slice(None, None, max(1, len(sweep.points) // POINTS))
        places.append(world_rays(sweep, still)[part, :3])
        since.append(sweep.times[sweep.column[part]] - first[0].end)
    speeds, cells = filled(places, since, axes, [EDGE_M])
    lowest = np.flatnonzero((cells[1:-1] <= cells[:-2]) & (cells[1:-1] <= cells[2:])) + 1
    instants = guess.start + (np.arange(len(guess.pos)) - 1) * guess.step - first[0].end
    for n in lowest[np.argsort(cells[lowest], kind="stable")][:_KEPT]:
        moving = still.copy()
        moving.pos[:] += np.outer(speeds[n] * instants, direction)
        yield moving


def filled(
    places: Sequence[np.ndarray], since: Sequence[np.ndarray], axes: np.ndarray, edges: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Speeds, f8 (K,), m/s, and the number of cells that points fill at each of them, f8 (K,).

    The grids of the cells are along the axes. In one that leans, a floor would fill fewer cells where it moves by a
    whole layer from one sweep to the next. Rings on a floor do so where they move by a whole number of cells, which is
    at other speeds in a grid of another edge.

    Args:
        places: of each sweep, f8 (N, 3), m, at a speed of 0; since: f8 (N,) of each sweep, instants of the points, s.
        axes: f8 (3, 3), unit vectors in its rows, of which the first is the direction of the speed.
        edges: of the cells, m, of each grid. The cells of all grids are counted.
    """
    instants = np.concatenate(since)
    # From one speed to the next the last sweep moves by a cell of the first grid.
    step = edges[0] / max(float(np.ptp(instants)), 1e-3)
    speeds = step * np.arange(-int(_MAX_SPEED / step), int(_MAX_SPEED / step) + 1)
    along = matmul(np.concatenate(places), axes.T)
    sweep = np.repeat(np.arange(len(places)), [len(each) for each in places])
    return speeds, np.sum([_filled(along / edge, sweep, instants, speeds / edge) for edge in edges], axis=0)


def _filled(places: np.ndarray, sweep: np.ndarray, since: np.ndarray, speeds: np.ndarray) -> np.ndarray:
    """Number of cells of edge 1 that points fill at some speeds along x, i8 (K,).

    Of the points of a sweep in a cell, one counts: they are seen at nearly the same instant, so that they share a cell
    at any speed.

    Args:
        places: f8 (N, 3); sweep: i8 (N,), its number; since: f8 (N,); speeds: f8 (K,).
    """
    # Each point stays in its row of cells along x at all speeds.
    cells = np.column_stack([np.floor(places), sweep])[:, [1, 2, 3, 0]]
    order = np.lexsort(cells.T[::-1])
    changes = np.diff(cells[order], axis=0, prepend=np.nan) != 0
    one = changes.any(axis=1)
    new_row, order = changes[one, :2].any(axis=1), order[one]
    edges = np.append(np.flatnonzero(new_row), len(order))
    return _count_cells(np.ascontiguousarray(places[order, 0]), since[order], edges, speeds)


@compiled
def _count_cells(along: np.ndarray, since: np.ndarray, edges: np.ndarray, speeds: np.ndarray) -> np.ndarray:
    """Number of cells of length 1 that points of several rows fill at some speeds, i8 (K,).

    Cells of a row that are a multiple of 16,384 apart count as one.

    Args:
        along: f8 (N,), places in the rows; since: f8 (N,); speeds: f8 (K,).
        edges: i8 (M + 1,), numbers of the first points of the rows, and of one after the last.
    """
    # The number of the row and speed that has filled a cell last. Those that a row fills are in the first cache.
    last = np.zeros(1 << 14, np.int64)
    filled, number = np.zeros(len(speeds), np.int64), 0
    for row in range(len(edges) - 1):
        if edges[row + 1] - edges[row] == 1:
            filled += 1
            continue
        for k in range(len(speeds)):
            number, count = number + 1, 0
            for n in range(edges[row], edges[row + 1]):
                cell = math.floor(along[n] + speeds[k] * since[n]) & (len(last) - 1)
                # A branch would be mispredicted often.
                count += last[cell] != number
                last[cell] = number
            filled[k] += count
    return filled
