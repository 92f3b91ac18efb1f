"""Virtual sensors of the occupied cells around the radar: `_occupancy`, `_bev`."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from rover_pipeline.engine.step import Inspection
from rover_pipeline.kinematics.gravity import remove_tilt, up_of_gravity
from rover_pipeline.kinematics.mount import IDENTITY, Mount, find_mount, mount_warnings
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.lidar.geometry import projection, sensor_info, stagger
from rover_pipeline.numerics.nearest import nearest_samples
from rover_pipeline.occupancy.options import OccupancyOptions
from rover_pipeline.occupancy.polar import PolarGrid, PolarOccupancy, edges
from rover_pipeline.radar.axes import AXES, range_axis


def occupancy(
    rng: np.ndarray,
    rot: np.ndarray | None = None,
    *,
    flat: bool,
    options: OccupancyOptions,
    metadata: str,
    config: str | None = None,
    sidecar: str | None = None,
    radar: str | None = None,
    odometry: Mapping[str, np.ndarray] | None = None,
    imu_ts: np.ndarray | None = None,
    imu_acc: np.ndarray | None = None,
    imu_valid: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Cells that hold a return of each sweep, in the frame of the radar or the lidar.

    Args:
        rng: u2 (frame, beam, column), mm, destaggered.
        rot: f8 (frame, 3, 3), world-from-lidar, to remove the tilt; None = keep the tilt.
        flat: True = one elevation bin, which is no axis of the result.
        metadata: `lidar.json`.
        config: `config.yaml`, which may hold the extrinsics.
        sidecar, radar: `radar.json` and the radar's `meta.json`, for the size and number of its range bins.
        odometry, imu_ts, imu_acc, imu_valid: the channels of `_odom` and of the accelerometer, for the direction of up.

    Returns:
        `occupancy` u1 (frame, elevation, azimuth, range), or (frame, azimuth, range) when flat; `valid` = 0 where the
        rotation of the lidar is needed and not known.
    """
    mount, polar = _origin(options, config), _occupancy(options, flat, sidecar, radar)
    rotations = np.broadcast_to(mount.rotation.T, (len(rng), 3, 3))
    if rot is not None and odometry is not None:
        up, _ = _up(options, config, odometry, imu_ts, imu_acc, imu_valid)
        rotations = remove_tilt(rot @ mount.rotation, up) @ mount.rotation.T
    project = projection(metadata)
    cells = np.stack([
        polar.cells(image, project(image.astype("u4")), rotation, mount.translation)
        for image, rotation in zip(stagger(rng, sensor_info(metadata)), rotations, strict=True)
    ])  # fmt: skip
    return {"occupancy": cells[:, 0] if flat else cells, "valid": np.isfinite(rotations).all(axis=(1, 2))}


def inspect_cells(
    *,
    flat: bool,
    options: OccupancyOptions,
    config: str | None = None,
    sidecar: str | None = None,
    radar: str | None = None,
    odometry: Mapping[str, np.ndarray] | None = None,
    imu_ts: np.ndarray | None = None,
    imu_acc: np.ndarray | None = None,
    imu_valid: np.ndarray | None = None,
    **_: Any,
) -> Inspection:
    """The centres of the cells as `axes.json`, the source of the extrinsics, and the direction of up."""
    mount = _origin(options, config)
    measured: dict[str, Any] = {"origin": options.origin, "extrinsics": mount.source}
    warnings = mount_warnings("radar", options.rig, mount) if options.origin == "radar" else []
    if odometry is not None:
        up, source = _up(options, config, odometry, imu_ts, imu_acc, imu_valid)
        measured |= {"up": [round(float(value), 5) for value in up], "up_from": source}
    return Inspection(measured, warnings, {AXES: _axes(_grid(options, flat, sidecar, radar))})


def _origin(options: OccupancyOptions, config: str | None) -> Mount:
    return IDENTITY if options.origin == "lidar" else find_mount("radar", options.rig, config)


@functools.lru_cache(maxsize=8)
def _occupancy(options: OccupancyOptions, flat: bool, sidecar: str | None, radar: str | None) -> PolarOccupancy:
    return PolarOccupancy(_grid(options, flat, sidecar, radar))


def _grid(options: OccupancyOptions, flat: bool, sidecar: str | None, radar: str | None) -> PolarGrid:
    resolution, bins = (0.1, 256) if sidecar is None else range_axis(sidecar, radar)
    elevation, count = ((-90.0, 90.0), 1) if flat else (options.elevation, options.elevation_bins)
    return PolarGrid(
        azimuth=edges(options.azimuth, options.azimuth_bins),
        elevation=edges(elevation, count),
        resolution=options.range_resolution or resolution,
        bins=options.range_bins or bins,
        z=options.bev_z if flat else options.z,
        min_range=options.min_range,
    )


def _axes(grid: PolarGrid) -> str:
    """The text of `axes.json`: the centre of every bin."""
    axes = {}
    for name, limits, positive in (("elevation", grid.elevation, "up"), ("azimuth", grid.azimuth, "right")):
        if len(limits) > 2 or name == "azimuth":
            axes[name] = {
                "unit": "rad",
                "positive": positive,
                "values": ((limits[:-1] + limits[1:]) / 2).round(6).tolist(),
            }
    distance = np.arange(grid.bins) * grid.resolution
    axes["range"] = {"unit": "m", "positive": "away", "values": distance.round(6).tolist()}
    return json.dumps(axes) + "\n"


def _up(
    options: OccupancyOptions,
    config: str | None,
    odometry: Mapping[str, np.ndarray],
    imu_ts: np.ndarray | None,
    imu_acc: np.ndarray | None,
    imu_valid: np.ndarray | None,
) -> tuple[np.ndarray, str]:
    """The direction of up in the world frame, and where it comes from."""
    first = np.array([0.0, 0.0, 1.0]), "first pose"
    trajectory = Trajectory.of(odometry)
    states, ts = trajectory.states.select(trajectory.valid), trajectory.ts[trajectory.valid]
    if imu_ts is None or imu_acc is None or len(ts) < 2:
        return first
    usable = (imu_ts >= ts[0]) & (imu_ts <= ts[-1]) & np.isfinite(imu_acc).all(axis=1)
    if imu_valid is not None:
        usable &= imu_valid > 0
    nearest = nearest_samples(ts, imu_ts[usable])
    up = up_of_gravity(
        imu_acc[usable].astype("f8"),
        states.rot[nearest] @ find_mount("imu", options.rig, config).rotation,
        states.vel[-1] - states.vel[0],
        float(ts[-1] - ts[0]),
        states.rot[:, :, 2].mean(axis=0),
    )
    return first if up is None else (up, "imu")
