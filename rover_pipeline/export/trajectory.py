"""Poses of a trace in the formats that hold one trajectory, TUM and KITTI."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rover_pipeline.errors import FormatError, did_you_mean
from rover_pipeline.export import ExportOptions
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import run_command
from rover_pipeline.format.rig import Rig
from rover_pipeline.format.trace import Trace
from rover_pipeline.kinematics.rotation import from_matrix
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.table import TABLE
from rover_pipeline.validation.rig import read_sensor_poses

#: The sensor whose poses are exported unless another is asked for.
_ODOMETRY = "_odom"


def write_tum(trace: Path, out: Path, options: ExportOptions) -> None:
    """Write a line `timestamp tx ty tz qx qy qz qw` for each valid pose, times in seconds since the epoch.

    Positions in metres and rotations take the sensor's front-left-up frame to the world of `_odom`, the lidar's first
    valid pose (TUM RGB-D benchmark, File Formats).
    """
    ts, poses = _read_poses(trace, options)
    rows = np.column_stack([ts, poses.pos, from_matrix(poses.rot).as_quat()])
    header = f"timestamp tx ty tz qx qy qz qw, world from sensor, front-left-up, {options.sensor or _ODOMETRY}"
    np.savetxt(out, rows, fmt="%.9f", header=header)


def write_kitti(trace: Path, out: Path, options: ExportOptions) -> None:
    """Write the upper three rows of a 4x4 matrix in a line for each valid pose, without times.

    The matrices take the sensor's front-left-up frame to the world of `_odom`, in metres. They are not rotated to the
    axes of KITTI's camera (right-down-front), because a rotation of both frames changes no error of a trajectory.
    """
    _, poses = _read_poses(trace, options)
    np.savetxt(out, poses.matrices[:, :3].reshape(-1, 12), fmt="%.12e")


def _read_poses(trace: Path, options: ExportOptions) -> tuple[np.ndarray, Poses]:
    """The valid ones among every n-th pose of `_odom`, or of the sensor asked for: times, f8 (N,), s, and poses,
    world-from-sensor, f8. Raises FormatError where there is no such sensor, it holds no poses, or none of them is
    valid."""
    folder = trace / (options.sensor or _ODOMETRY)
    if not (folder / META).exists():
        hint = did_you_mean(folder.name, [*Trace(trace).sensors(), *TABLE])
        if Rig(trace).declared(folder.name) in TABLE:
            hint = f"make it: {run_command(trace, [folder.name])}, or name another with --sensor"
        raise FormatError(f"{folder}: no such sensor; {hint}")
    ts, poses, chosen = read_sensor_poses(folder)
    chosen &= poses.finite & (np.arange(len(ts)) % options.every == 0)
    if not chosen.any():
        raise FormatError(f"{folder}: no pose of {len(ts)} can be exported: valid is 0, or --every is too large")
    return ts[chosen], poses.select(chosen)
