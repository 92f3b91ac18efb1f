"""Virtual sensor of the lidar's points: `_lidar_points`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rover_pipeline.kinematics.state import Poses
from rover_pipeline.kinematics.sweep import odometry_motion
from rover_pipeline.lidar.geometry import projection, sensor_info, sweep_span
from rover_pipeline.lidar.options import PointsOptions
from rover_pipeline.lidar.points import project_returns


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
    """Points of each sweep by ouster-sdk's projection, deskewed if `options.compensate` is set.

    Args:
        rng, rfl, nir: (frame, beam, column), columns in time order; ranges in mm, 0 and 65535 are no returns.
        ts: f8 (frame,), time stamps, seconds.
        metadata: `lidar.json`, the sensor's own, of old or new firmware.
        odometry: the channels of `_odom`, for the deskew.

    Returns:
        `xyz` f4 (frame, beam, column, 3), m; `rfl` and `nir` as given. After a deskew `valid` is 0 for sweeps without
        a valid state in `_odom`; their points are not deskewed.
    """
    project = projection(metadata)
    poses: list[Poses | None] = [None] * len(rng)
    if options.compensate and odometry is not None:
        motion = odometry_motion(odometry, options.times, *sweep_span(sensor_info(metadata), options.ts_reference))
        numbers = [motion.trajectory.index(stamp) for stamp in ts.tolist()]
        poses = [None if number is None else motion.relative_columns(number, rng.shape[2]) for number in numbers]
    sweeps = [
        project_returns(image, project.direction, project.offset, pose) for image, pose in zip(rng, poses, strict=True)
    ]
    xyz = sweeps[0][None] if len(sweeps) == 1 else np.stack(sweeps)  # a single sweep is not copied
    if not options.compensate:
        return {"xyz": xyz, "rfl": rfl, "nir": nir}
    return {"xyz": xyz, "rfl": rfl, "nir": nir, "valid": np.array([pose is not None for pose in poses])}
