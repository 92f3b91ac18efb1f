"""First guesses of the trajectory: sweep-to-sweep registration by small_gicp."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
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


def register_in_turn(sweeps: Sequence[Sweep], spacing: float, voxel: float) -> np.ndarray:
    """The lidar's poses at the ends of sweeps in the frame of the first one, f8 (N, 4, 4).

    Each sweep is deskewed with the velocity of the sweep before (constant-velocity model) and downsampled. It is
    registered to a map of Gaussian voxels by Generalized ICP (small_gicp; Koide, JOSS 2024).

    Args:
        spacing: of the points that are registered, metres.
        voxel: edge of the map's voxels, metres.
    """
    # Both velocities are in the frame at the end of a sweep, where the next one begins.
    found, velocity, avel = [np.eye(4)], np.zeros(3), np.zeros(3)

    def cloud(sweep: Sweep) -> Any:
        since = (sweep.times - sweep.end)[:, None]
        part = slice(None, None, max(1, len(sweep.points) // POINTS))
        points = transform_points(sweep.points[part], sweep.column[part], since * velocity, exp(since * avel))
        return small_gicp.preprocess_points(points, spacing, num_neighbors=10)[0]

    for before, sweep in itertools.pairwise(sweeps):
        span, first = sweep.end - before.end, len(found) == 1
        # No velocity is known at first: deskew both of the first two sweeps with the motion from one to the other.
        for _ in range(_FIRST_ITERATIONS if first else 1):
            if first:
                gaussians = small_gicp.GaussianVoxelMap(voxel)
                gaussians.insert(cloud(before), found[0])
            guess = np.eye(4)
            guess[:3, :3], guess[:3, 3] = exp(avel[None] * span)[0], velocity * span
            points = cloud(sweep)
            pose = small_gicp.align(gaussians, points, matmul(found[-1], guess), max_iterations=15).T_target_source
            motion = matmul(inv(found[-1]), pose)
            velocity, avel = matmul(motion[:3, :3].T, motion[:3, 3]) / span, log(motion[None, :3, :3])[0] / span
        gaussians.insert(points, pose)
        found.append(pose)
    return np.stack(found)
