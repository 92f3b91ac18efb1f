"""KITTI trajectories: the upper three rows of a 4x4 matrix in a line for each pose."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rover_pipeline.export import ExportOptions
from rover_pipeline.export.trajectory import read_poses


def write(trace: Path, out: Path, options: ExportOptions) -> None:
    """Write the valid poses without times. Samples that are not valid have no line.

    The matrices take the sensor's front-left-up frame to the world of `_odom`, the lidar's first valid pose, in metres.
    They are not rotated to the axes of KITTI's camera (right-down-front), because a rotation of both frames changes no
    error of a trajectory.
    """
    _, poses = read_poses(trace, options)
    rows = np.concatenate([poses.rot, poses.pos[:, :, None]], 2).reshape(-1, 12)
    np.savetxt(out, rows, fmt="%.12e")
