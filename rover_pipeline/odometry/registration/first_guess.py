"""First guesses of the trajectory: sweep-to-sweep registration by small_gicp."""

from __future__ import annotations

from typing import Any

import numpy as np
import small_gicp

from rover_pipeline.kinematics.rotation import exp, log
from rover_pipeline.numerics.linear import inv, matmul
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.registration.transforms import transform_points

#: Approximate number of points of a sweep that make an initial guess. More make it no better. Tuned: by hand.
POINTS = 5000
#: How often the first two sweeps are registered to one another until their motion is right. Tuned: by hand.
_FIRST_ITERATIONS = 4


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
        part = slice(None, None, max(1, len(sweep.points) // POINTS))
        points = transform_points(
            sweep.points[part], sweep.column[part], since * self._velocity, exp(since * self._avel)
        )
        return small_gicp.preprocess_points(points, self._spacing, num_neighbors=10)[0]
