"""Virtual sensor of the lidar's points: `_lidar_points`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rover_pipeline.kinematics.clock import odometry_clock
from rover_pipeline.kinematics.sweep import SweepMotion, odometry_gap
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.lidar.geometry import projection, sensor_info, sweep_span
from rover_pipeline.lidar.options import PointsOptions
from rover_pipeline.lidar.points import project_returns, stacked


def points(
    rng: np.ndarray,
    rfl: np.ndarray,
    nir: np.ndarray,
    ts: np.ndarray,
    *,
    options: PointsOptions,
    metadata: str,
    odometry: Mapping[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """Points of each sweep by ouster-sdk's projection, without the motion within the sweep where the options say so.

    Args:
        rng, rfl, nir: (frame, beam, column), columns in time order; ranges in mm, 0 and 65535 are no returns.
        ts: f8 (frame,), time stamps, seconds.
        metadata: `lidar.json`, the sensor's own, of old or new firmware.
        odometry: the channels of `_odom`, to undo the motion.

    Returns:
        `xyz` f4 (frame, beam, column, 3), m; the others as they are. With motion undone a sweep has `valid` 0 where
        `_odom` does not know the motion; its points are then those of a lidar that stands still.
    """
    project = projection(metadata)
    if not options.compensate or odometry is None:
        xyz = [project_returns(image, project.direction, project.offset) for image in rng]
        return {"xyz": stacked(xyz), "rfl": rfl, "nir": nir}
    begin, period = sweep_span(sensor_info(metadata), options.ts_reference)
    trajectory = Trajectory.of(odometry, odometry_clock(odometry, options.times), max_gap=odometry_gap(period))
    motion = SweepMotion(trajectory, begin, period)
    xyz, valid = [], np.zeros(len(rng), bool)
    for i, image in enumerate(rng):
        number = trajectory.index(float(ts[i]))
        valid[i] = number is not None
        poses = None if number is None else motion.relative_columns(number, rng.shape[2])
        xyz.append(project_returns(image, project.direction, project.offset, poses))
    return {"xyz": stacked(xyz), "rfl": rfl, "nir": nir, "valid": valid}
