"""Virtual sensor `_odom`: where the lidar was."""

from __future__ import annotations

import numpy as np

from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import Inspection, step
from rover_pipeline.odometry.estimate import Imu, estimate
from rover_pipeline.odometry.options import OdometryOptions


@step(
    inputs={"rng": "_lidar_image/rng"},
    files={"metadata": "lidar/lidar.json", "config": "config.yaml"},
    whole={"imu_ts": "imu/ts", "imu_avel": "imu/avel", "imu_valid": "imu/valid"},
    outputs={
        "pos": "Position of the lidar at the instant that ts refers to, m. [xyz]; the world is the first valid pose.",
        "rot": "World-from-lidar rotation. [world, lidar]",
        "vel": "Velocity in the world, m/s. [xyz]",
        "acc": "Acceleration in the world, m/s2. [xyz]",
        "avel": "Angular velocity in the lidar frame, rad/s. [xyz]",
        "inliers": "Share of the sweep's points that lie on planes of the map.",
        "residual": "Root mean square distance of those from their planes, m.",
        "information": "Smallest eigenvalue of the information of the sweep about its displacement and, times the "
        "points' distance, rotation, 1/m2: small where the surroundings leave a direction open.",
    },
    version=3,
    recording=True,
)
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
