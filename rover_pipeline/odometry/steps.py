"""Virtual sensor `_odom`: the trajectory of the lidar."""

from __future__ import annotations

import numpy as np

from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import Inspection
from rover_pipeline.odometry.estimate import Imu, estimate
from rover_pipeline.odometry.options import OdometryOptions


def odom(
    recording: Recording,
    *,
    options: OdometryOptions,
    metadata: str,
    config: str | None = None,
    imu_ts: np.ndarray | None = None,
    imu_avel: np.ndarray | None = None,
    imu_valid: np.ndarray | None = None,
) -> tuple[dict[str, np.ndarray], Inspection]:
    """The lidar's trajectory over a whole recording.

    Args:
        recording: of `rng`, u2 (frame, beam, column), mm, destaggered.
        metadata: `lidar.json`; config: `config.yaml`, which may hold the extrinsics.
        imu_ts, imu_avel, imu_valid: f8 (sample,), s; (sample, 3), rad/s, IMU frame; u1 (sample,).
    """
    return estimate(recording, options, metadata, config, Imu(imu_ts, imu_avel, imu_valid))
