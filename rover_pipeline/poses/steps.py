"""Virtual sensors of where every sensor was: `_radar_pose`, `_camera_pose`, `_imu_pose`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import Inspection, step
from rover_pipeline.kinematics.mount import Mounted, find_mount
from rover_pipeline.poses.options import PosesOptions

#: All of `_odom` that a trajectory is made from.
ODOMETRY = {
    "odom_ts": "_odom/ts",
    "pos": "_odom/pos",
    "rot": "_odom/rot",
    "vel": "_odom/vel",
    "acc": "_odom/acc",
    "avel": "_odom/avel",
    "odom_valid": "_odom/valid",
}


def _pose_step(sensor: Mounted) -> Callable[..., tuple[dict[str, np.ndarray], Inspection]]:
    """The step that finds one sensor's poses."""

    def poses(
        recording: Recording,
        *,
        options: PosesOptions,
        odom_ts: np.ndarray,
        pos: np.ndarray,
        rot: np.ndarray,
        vel: np.ndarray,
        acc: np.ndarray,
        avel: np.ndarray,
        odom_valid: np.ndarray,
        config: str | None = None,
        sidecar: str | None = None,
    ) -> tuple[dict[str, np.ndarray], Inspection]:
        """A sensor of the rig at its own times, from the lidar's trajectory.

        Args:
            odom_ts, pos, rot, vel, acc, avel, odom_valid: the whole of `_odom`.
            config: `config.yaml`, which may hold the extrinsics.
            sidecar: `radar.json` for the radar: how large a velocity its Doppler bins tell apart.

        Returns:
            `pos`, `vel`, `acc` f8 (frame, 3), `rot` f8 (frame, 3, 3), NaN and `valid` = 0 outside the trajectory and
            beside odometry that is not valid; and where the extrinsics are from, and the largest speed.
        """
        from rover_pipeline.kinematics.clock import clock
        from rover_pipeline.kinematics.trajectory import Trajectory

        mount, ts = find_mount(sensor, options.rig, config), recording.ts
        if options.smoothed:
            ts = clock(sensor, ts, options.sync.times).smooth
            odom_ts = clock("lidar", odom_ts, options.sync.times).smooth
        trajectory = Trajectory(odom_ts, pos, rot, vel, acc, avel, odom_valid, max_gap=options.max_gap)
        found = trajectory.at(ts, mount)
        measured: dict[str, Any] = {
            "extrinsics": mount.source,
            "outside_trajectory": int((~found.valid).sum()),
            "max_speed_mps": _largest(np.linalg.norm(found.vel, axis=1)),
        }
        warnings = []
        if not found.valid.any():
            warnings.append(f"_odom tells of none of the {recording.count} times of {sensor}: all poses are NaN")
        if sidecar is not None:
            compared, exceeded = _against_doppler(np.einsum("ni,ni->n", found.vel, found.rot[:, :, 0]), sidecar)
            measured |= compared
            warnings += exceeded
        channels = {"pos": found.pos, "rot": found.rot, "vel": found.vel, "acc": found.acc}
        return {**channels, "valid": found.valid.astype("u1")}, Inspection(measured, warnings)

    poses.__name__ = poses.__qualname__ = sensor
    described = step(
        inputs={"ts": f"{sensor}/ts"},
        whole=ODOMETRY,
        files={"config": "config.yaml", **({"sidecar": "radar/radar.json"} if sensor == "radar" else {})},
        outputs={
            "pos": "Position in the world, m; NaN where odometry tells of none. [xyz]",
            "rot": "World-from-sensor rotation. [world, sensor]",
            "vel": "Velocity in the world, m/s. [xyz]",
            "acc": "Acceleration in the world, without gravity, m/s2. [xyz]",
        },
        recording=True,
        version=1,
    )
    return described(poses)


radar = _pose_step("radar")
camera = _pose_step("camera")
imu = _pose_step("imu")


def given(*odometry: np.ndarray | None) -> tuple[np.ndarray, ...]:
    """Channels of `_odom`, all of which are needed."""
    found = tuple(channel for channel in odometry if channel is not None)
    if len(found) < len(odometry):
        raise ValueError("_odom is not there, or lacks channels; the step that makes it is to run first")
    return found


def _against_doppler(ahead: np.ndarray, sidecar: str) -> tuple[dict[str, Any], list[str]]:
    """The speed along the boresight, m/s, against the largest that the radar's Doppler bins tell apart."""
    from rover_pipeline.radar.axes import max_doppler

    limit, speed = max_doppler(sidecar), np.abs(ahead)
    measured = {"max_boresight_speed_mps": _largest(speed), "max_doppler_mps": limit}
    over = 0 if limit is None else int((speed > limit).sum())
    if not over:
        return measured, []
    return measured, [
        f"the radar moves along its boresight at up to {np.nanmax(speed):.2f} m/s, its Doppler bins end at "
        f"{limit:.2f} m/s: what stands still ahead appears at a wrong velocity in {over} of {len(ahead)} frames"
    ]


def _largest(values: np.ndarray) -> float | None:
    known = values[np.isfinite(values)]
    return round(float(known.max()), 4) if len(known) else None
