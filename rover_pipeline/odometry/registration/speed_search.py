"""First guesses of a motion along which little is seen, as along the aisle of a warehouse.

Most surfaces there are parallel to the motion, so that a registration that begins with a wrong speed keeps it.
Therefore speeds are searched by correlation, as E. Olson searches poses (Real-Time Correlative Scan Matching, ICRA
2009): sweeps that are placed with the right speed fill the smallest number of cells. Rings of few beams fill few cells
at rest, too. So the best speed is not certain, and the best few are given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rover_pipeline.numerics.voxel_table import pack_key
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.registration.cross_validation import BLOCK, world_rays
from rover_pipeline.odometry.registration.first_guess import POINTS
from rover_pipeline.odometry.spline import SplineTrajectory

#: Edge of the cells, m: larger than the noise of ranges, smaller than posts and gaps. Tuned: by hand.
_EDGE_M = 0.1
#: Largest speed, m/s, because a car on a motorway has 36; and number of speeds that are given. Tuned: by hand.
_MAX_SPEED, _KEPT = 40.0, 3


def with_other_speeds(
    sweeps: Sequence[Sweep], guess: SplineTrajectory, direction: np.ndarray
) -> Iterator[SplineTrajectory]:
    """Trajectories of one speed along a direction, and of the guess's motion otherwise.

    Args:
        sweeps: of which the first few are compared.
        direction: f8 (3,), unit vector in the world.
    """
    still = guess.copy()
    still.pos[:] -= np.outer(((guess.pos - guess.pos[0]) * direction).sum(axis=1), direction)
    first, places, since = sweeps[:BLOCK], [], []  # in half a second a rig hardly changes its speed
    for sweep in first:
        part = slice(None, None, max(1, len(sweep.points) // POINTS))
        places.append(world_rays(sweep, still)[part, :3])
        since.append(sweep.times[sweep.column[part]] - first[0].end)
    place, time = np.concatenate(places), np.concatenate(since)
    # From one speed to the next the last sweep moves by a cell.
    step = _EDGE_M / max(float(np.ptp(time)), 1e-3)
    speeds = step * np.arange(-int(_MAX_SPEED / step), int(_MAX_SPEED / step) + 1)
    cells = np.array([_cells(place + np.outer(speed * time, direction)) for speed in speeds])
    lowest = np.flatnonzero((cells[1:-1] <= cells[:-2]) & (cells[1:-1] <= cells[2:])) + 1
    instants = guess.start + (np.arange(len(guess.pos)) - 1) * guess.step - first[0].end
    for n in lowest[np.argsort(cells[lowest], kind="stable")][:_KEPT]:
        moving = still.copy()
        moving.pos[:] += np.outer(speeds[n] * instants, direction)
        yield moving


def _cells(places: np.ndarray) -> int:
    """Number of cells that places, f8 (N, 3) m, fill."""
    keys = np.sort(pack_key(*np.floor(places / _EDGE_M).astype("i8").T))  # ten times as fast as `np.unique`
    return int(np.count_nonzero(np.diff(keys))) + 1
