"""Virtual sensors of the poses of the rig's sensors: `_radar_pose`, `_camera_pose`, `_imu_pose`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np

from rover_pipeline.clocks.clock import clock
from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import MAIN, Inspection
from rover_pipeline.errors import counted
from rover_pipeline.kinematics.mount import find_mount, mount_warnings
from rover_pipeline.kinematics.mounts import TOLERANCE
from rover_pipeline.kinematics.options import Mounted
from rover_pipeline.kinematics.stated import mount_notes
from rover_pipeline.kinematics.sweep import MAX_GAP_PERIODS
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.numerics.blocks import BLOCK, blocks
from rover_pipeline.poses.options import PosesOptions
from rover_pipeline.radar.axes import max_doppler
from rover_pipeline.radar.timing import frame_duration


def poses(
    recording: Recording,
    *,
    sensor: Mounted,
    options: PosesOptions,
    odometry: Mapping[str, np.ndarray],
    cov: np.ndarray | None = None,
    config: str | None = None,
    sidecar: str | None = None,
    radar: str | None = None,
    odometer: Literal["lidar", "radar"] = "lidar",
    main: str = MAIN,
) -> Iterator[dict[str, np.ndarray] | Inspection]:
    """States of a sensor of the rig at its own times, from the lidar's trajectory, or the radar's.

    A frame of the radar is measured while its chirps last. Its pose is that in their middle, as of its spectra.

    Args:
        odometry: the channels of `_odom`, or those of `_radar_odom` where the options say so.
        cov: f4 (state, 6, 6), its covariances; None = it states none, and those of the sensor are NaN.
        config: `config.yaml`, which may hold the extrinsics and, for the radar, the timing of its chirps.
        sidecar, radar: `radar.json` and the radar's `meta.json`, which give the maximum velocity of its Doppler bins
            and, if `config.yaml` does not, how long a frame lasts.
        odometer: what the recording has a trajectory of, unless the options say so.
        main: what `config.yaml` calls the radar whose `_radar_odom` it is; `main` = the radar.

    Yields:
        `pos`, `vel`, `acc` f8 (frame, 3), `rot` f8 (frame, 3, 3), `cov` f4 (frame, 6, 6), NaN and `valid` = 0 where the
        trajectory is not known; and an inspection with the source of the extrinsics and the largest speed.
    """
    mount, ts, lidar_ts = find_mount(sensor, options.rig, config), recording.ts, odometry["ts"]
    remarks, carried, source = [], mount, "_odom"
    if mount.covariance is None:
        # A pose without a covariance is taken for exact. How late samples arrive at best, their times do not show.
        carried = mount._replace(covariance=np.diag([0.0] * 6 + [TOLERANCE[6] ** 2]))
    if (odometer := "radar" if options.odometry == "radar" else odometer) == "radar":
        # `_radar_odom` is the radar's own trajectory.
        name = "radar" if main == MAIN or sensor != "radar" else main
        carrier = find_mount(name, options.rig, config)
        carried, source = carried.seen_from(carrier), "_radar_odom"
        if name == sensor:
            carried = carried._replace(covariance=None)
        if name != "radar" and not carrier.known:
            remarks = [f"`rig` of config.yaml must say where {name} is, which the trajectory is of: no pose is known"]
            odometry = {**odometry, "valid": np.zeros_like(odometry["valid"])}
    if options.smoothed:
        own = clock(sensor, ts, options.times)
        ts, remarks = own.best, [*remarks, *own.remarks(sensor)]
        lidar_ts = clock(odometer, lidar_ts, options.times).best
    frame = frame_duration(recording.ts, config, sidecar, radar) if sensor == "radar" else None
    instants = ts if frame is None else ts + frame.middle
    trajectory = Trajectory.of(odometry, lidar_ts, max_gap=options.max_gap)
    gap = MAX_GAP_PERIODS * float(np.median(np.diff(lidar_ts))) if len(lidar_ts) > 1 else np.inf
    count = len(instants)
    stated = np.full((len(lidar_ts), 6, 6), np.nan) if cov is None or cov.shape[1:] != (6, 6) else cov
    known, fastest = np.empty(count, bool), np.full(-(-count // BLOCK), np.nan)
    ahead = np.empty(count if sidecar is not None else 0)
    for number, part in enumerate(blocks(count)):
        state, known[part] = trajectory.at(instants[part], carried)
        times = instants[part] + carried.time_offset
        of_odometry = trajectory.interpolated(times, stated) + trajectory.bridged(times, gap)
        errors = (carried.carried(of_odometry) + carried.errors(state)).astype("f4")
        fastest[number] = np.linalg.norm(state.vel, axis=1).max(where=known[part], initial=-np.inf)
        if sidecar is not None:
            ahead[part] = np.einsum("ni,ni->n", state.vel, state.rot[:, :, 0])
        channels = {name: getattr(state, name) for name in ("pos", "rot", "vel", "acc")}
        yield {**channels, "cov": errors, "valid": known[part].astype("u1")}
    measured: dict[str, Any] = {
        **mount.describe(),
        "outside_trajectory": int((~known).sum()),
        "max_speed_mps": _largest(fastest),
    }
    warnings = [*mount_warnings(sensor, options.rig, mount), *remarks]
    if frame is not None:
        measured |= frame.describe()
        warnings += frame.warnings
    if not known.any():
        warnings.append(f"{source} has none of the {counted(recording.count, 'time')} of {sensor}: all poses are NaN")
    if sidecar is not None:
        speeds, exceeded = _compare_with_doppler(ahead, sidecar)
        measured |= speeds
        warnings += exceeded
    yield Inspection(measured, warnings, notes=mount_notes(sensor, rig=options.rig, recorded=config))


def _compare_with_doppler(vel: np.ndarray, sidecar: str) -> tuple[dict[str, Any], list[str]]:
    """The velocity along the boresight, f8 (frame,) m/s, compared with the maximum of the radar's Doppler bins."""
    limit, speed = max_doppler(sidecar), np.abs(vel)
    measured = {"max_boresight_speed_mps": _largest(speed), "max_doppler_mps": limit}
    over = 0 if limit is None else int((speed > limit).sum())
    if not over:
        return measured, []
    return measured, [
        f"the radar moves along its boresight at up to {np.nanmax(speed):.2f} m/s, its Doppler bins end at "
        f"{limit:.2f} m/s: what stands still ahead appears at a wrong velocity in the spectra of {over} of {len(vel)} "
        "frames (`_radar_points` resolves the ambiguity)"
    ]


def _largest(values: np.ndarray) -> float | None:
    known = values[np.isfinite(values)]
    return round(float(known.max()), 4) if len(known) else None
