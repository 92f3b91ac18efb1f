"""The trajectory that a recording's `_odom` holds, and the lidar's clock that belongs to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.export.rig import times_options, whole_sensor
from rover_pipeline.kinematics.clock import corrected, odometry_clock
from rover_pipeline.kinematics.state import State
from rover_pipeline.kinematics.trajectory import Trajectory

ODOMETRY = "_odom"


def read_trajectory(trace: Path, max_gap: float = np.inf) -> Trajectory:
    """The lidar's motion at times without the jitter of their arrival, as `_odom` was made with.

    Args:
        max_gap: seconds; the motion is not known between states with a longer time between them.

    Raises:
        FormatError: no pose is valid.
    """
    odometry = whole_sensor(trace / ODOMETRY, *State._fields)
    trajectory = Trajectory.of(odometry, odometry_clock(odometry, times_options(trace)), max_gap=max_gap)
    if not trajectory.valid.any():
        raise FormatError(f"{trace / ODOMETRY}: none of its {len(odometry['ts'])} poses is valid")
    return trajectory


def lidar_clock(trace: Path, ts: np.ndarray, trajectory: Trajectory) -> np.ndarray:
    """Times of a sensor that has those of the lidar, f8 (N,), s, without the jitter of their arrival."""
    return corrected("lidar", ts, trajectory.stamps, times_options(trace))
