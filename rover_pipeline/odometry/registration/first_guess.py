"""First guesses of the trajectory: sweep-to-sweep registration by small_gicp, and a search for the speed.

The search is for a motion along which little is seen, as along the aisle of a warehouse. Most surfaces there are
parallel to the motion, so that a registration that begins with a wrong speed keeps it. Therefore speeds are searched by
correlation, as E. Olson searches poses (Real-Time Correlative Scan Matching, ICRA 2009): sweeps that are placed with
the right speed fill the smallest number of cells. Rings of few beams fill few cells at rest, too. So the best speed is
not certain, and the best few are given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import small_gicp

from rover_pipeline.kinematics.rotation import exp, log
from rover_pipeline.numerics.linear import inv, matmul
from rover_pipeline.numerics.voxel_table import pack_key
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.registration.cross_validation import BLOCK, world_rays
from rover_pipeline.odometry.registration.transforms import transform_points
from rover_pipeline.odometry.spline import SplineTrajectory

#: Approximate number of points of a sweep that make an initial guess. More make it no better. Tuned: by hand.
_POINTS = 5000
#: How often the first two sweeps are registered to one another until their motion is right. Tuned: by hand.
_FIRST_ITERATIONS = 4
#: Edge of the cells, m: larger than the noise of ranges, smaller than posts and gaps. Tuned: by hand.
_EDGE_M = 0.1
#: Largest speed, m/s, because a car on a motorway has 36; and number of speeds that are given. Tuned: by hand.
_MAX_SPEED, _KEPT = 40.0, 3


class SmallGicp:
    """Generalized ICP of a downsampled sweep on a map of Gaussian voxels, by small_gicp (Koide, JOSS 2024).

    A sweep is deskewed with the velocity of the sweep before (constant-velocity model).

    Args:
        spacing: of the points that are registered, metres.
        voxel: edge of the map's voxels, metres.
    """

    def __init__(self, spacing: float, voxel: float) -> None:
        self._spacing, self._voxel = spacing, voxel
        self._map = small_gicp.GaussianVoxelMap(voxel)
        self._pose, self._velocity, self._avel = np.eye(4), np.zeros(3), np.zeros(3)
        self._before: Sweep | None = None
        self._count = 0

    def register(self, sweep: Sweep) -> np.ndarray:
        """The lidar's pose at the end of a sweep in the frame of the first sweep, f8 (4, 4)."""
        if self._before is None:
            cloud = self._cloud(sweep)
        elif self._count > 1:
            cloud = self._align(sweep, self._before)
        else:
            # No velocity is known yet: deskew both of the first two sweeps with the motion from one to the other.
            for _ in range(_FIRST_ITERATIONS):
                self._map = small_gicp.GaussianVoxelMap(self._voxel)
                self._pose = np.eye(4)
                self._map.insert(self._cloud(self._before), self._pose)
                cloud = self._align(sweep, self._before)
        self._map.insert(cloud, self._pose)
        self._before = sweep
        self._count += 1
        return self._pose

    def _align(self, sweep: Sweep, before: Sweep) -> Any:
        """Updates the pose and the velocities to the end of a sweep. Returns the deskewed points."""
        span = sweep.end - before.end
        guess = np.eye(4)
        guess[:3, :3], guess[:3, 3] = exp(self._avel[None] * span)[0], self._velocity * span
        cloud = self._cloud(sweep)
        result = small_gicp.align(self._map, cloud, matmul(self._pose, guess), max_iterations=15)
        motion = matmul(inv(self._pose), result.T_target_source)
        # Both velocities are in the frame at the end of the sweep, where the next one begins.
        self._velocity = matmul(motion[:3, :3].T, motion[:3, 3]) / span
        self._avel = log(motion[None, :3, :3])[0] / span
        self._pose = result.T_target_source
        return cloud

    def _cloud(self, sweep: Sweep) -> Any:
        """The sweep deskewed to its end and downsampled."""
        since = (sweep.times - sweep.end)[:, None]
        part = slice(None, None, max(1, len(sweep.points) // _POINTS))
        points = transform_points(
            sweep.points[part], sweep.column[part], since * self._velocity, exp(since * self._avel)
        )
        return small_gicp.preprocess_points(points, self._spacing, num_neighbors=10)[0]


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
        part = slice(None, None, max(1, len(sweep.points) // _POINTS))
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
