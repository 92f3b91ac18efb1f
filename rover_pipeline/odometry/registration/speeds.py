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
from rover_pipeline.numerics.voxel_table import voxel_key
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
    speeds, cells = filled(np.concatenate(places), np.concatenate(since), axes, [EDGE_M])
    lowest = np.flatnonzero((cells[1:-1] <= cells[:-2]) & (cells[1:-1] <= cells[2:])) + 1
    instants = guess.start + (np.arange(len(guess.pos)) - 1) * guess.step - first[0].end
    for n in lowest[np.argsort(cells[lowest], kind="stable")][:_KEPT]:
        moving = still.copy()
        moving.pos[:] += np.outer(speeds[n] * instants, direction)
        yield moving


def filled(
    places: np.ndarray, since: np.ndarray, axes: np.ndarray, edges: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Speeds, f8 (K,), m/s, and the number of cells that points fill at each of them, f8 (K,).

    The grids of the cells are along the axes. In one that leans, a floor would fill fewer cells where it moves by a
    whole layer from one sweep to the next. Rings on a floor do so where they move by a whole number of cells, which is
    at other speeds in a grid of another edge.

    Args:
        places: f8 (N, 3), m, at a speed of 0; since: f8 (N,), instants of the points, s.
        axes: f8 (3, 3), unit vectors in its rows, of which the first is the direction of the speed.
        edges: of the cells, m, of each grid. The cells of all grids are counted.
    """
    # From one speed to the next the last sweep moves by a cell of the first grid.
    step = edges[0] / max(float(np.ptp(since)), 1e-3)
    speeds = step * np.arange(-int(_MAX_SPEED / step), int(_MAX_SPEED / step) + 1)
    along = matmul(places, axes.T)
    return speeds, np.sum([_count_cells(along / edge, since, speeds / edge) for edge in edges], axis=0)


@compiled
def _count_cells(places: np.ndarray, since: np.ndarray, speeds: np.ndarray) -> np.ndarray:
    """Number of cells of edge 1 that points fill at some speeds along x, f8 (K,), but for those that share a bit.

    Args:
        places: f8 (N, 3); since: f8 (N,); speeds: f8 (K,).
    """
    # A bit for each cell: 512 KB, which the second cache of a processor holds.
    filled, bits = np.zeros(len(speeds)), np.empty(1 << 19, np.uint8)
    across = np.floor(places).astype(np.int64)
    for k in range(len(speeds)):
        bits[:] = 0
        count = 0
        for n in range(len(places)):
            key = voxel_key(math.floor(places[n, 0] + speeds[k] * since[n]), across[n, 1], across[n, 2])
            bit = ((key * 0x1E3779B97F4A7C15) >> 32) & (8 * len(bits) - 1)
            if bits[bit >> 3] & (1 << (bit & 7)) == 0:
                bits[bit >> 3] |= 1 << (bit & 7)
                count += 1
        filled[k] = count
    return filled
