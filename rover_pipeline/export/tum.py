"""TUM trajectories: a line `timestamp tx ty tz qx qy qz qw` for each pose."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from rover_pipeline.export import ExportOptions
from rover_pipeline.export.trajectory import ODOMETRY, read_poses


def write(trace: Path, out: Path, options: ExportOptions) -> None:
    """Write the valid poses with their times, seconds since the epoch.

    Positions in metres and rotations take the sensor's front-left-up frame to the world of `_odom`, the lidar's first
    valid pose (TUM RGB-D benchmark, File Formats).
    """
    ts, poses = read_poses(trace, options)
    rows = np.column_stack([ts, poses.pos, Rotation.from_matrix(poses.rot).as_quat()])
    header = f"timestamp tx ty tz qx qy qz qw, world from sensor, front-left-up, {options.sensor or ODOMETRY}"
    np.savetxt(out, rows, fmt="%.9f", header=header)
