"""Virtual sensors of which cells around the radar are occupied: `_occupancy`, `_bev`."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rover_pipeline.engine.step import Inspection, Output, step
from rover_pipeline.kinematics.mount import IDENTITY, Mount, find_mount
from rover_pipeline.occupancy.options import OccupancyOptions
from rover_pipeline.poses.steps import given
from rover_pipeline.radar.axes import AXES, range_axis

# Numba and ouster-sdk take long to import, and the Snakefile, which reads this module, needs neither.
if TYPE_CHECKING:
    from rover_pipeline.occupancy.polar import Grid, Occupancy

#: What tells which way is up: how the lidar was turned, and what the accelerometer felt meanwhile.
_GRAVITY = {
    "odom_ts": "_odom/ts",
    "odom_rot": "_odom/rot",
    "odom_vel": "_odom/vel",
    "odom_valid": "_odom/valid",
    "imu_ts": "imu/ts",
    "imu_acc": "imu/acc",
    "imu_valid": "imu/valid",
}


def _occupancy_step(name: str, *, flat: bool, level: bool) -> Callable[..., dict[str, np.ndarray]]:
    """The step that finds occupied cells.

    Args:
        flat: without elevation.
        level: with the tilt of the rig taken out.
    """

    def occupied(
        rng: np.ndarray,
        rot: np.ndarray | None = None,
        *,
        options: OccupancyOptions,
        metadata: str,
        config: str | None = None,
        sidecar: str | None = None,
        radar: str | None = None,
        odom_ts: np.ndarray | None = None,
        odom_rot: np.ndarray | None = None,
        odom_vel: np.ndarray | None = None,
        odom_valid: np.ndarray | None = None,
        imu_ts: np.ndarray | None = None,
        imu_acc: np.ndarray | None = None,
        imu_valid: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """Cells that hold a return of each sweep, seen from the radar or the lidar.

        Args:
            rng: u2 (frame, beam, column), mm, destaggered.
            rot: f8 (frame, 3, 3), world-from-lidar, to take the tilt out.
            metadata: `lidar.json`.
            config: `config.yaml`, which may hold the extrinsics.
            sidecar, radar: `radar.json` and the radar's `meta.json`, which tell of its range bins.
            odom_ts, odom_rot, odom_vel, odom_valid, imu_ts, imu_acc, imu_valid: all that tells which way is up.

        Returns:
            `occupancy` u1 (frame, elevation, azimuth, range), or (frame, azimuth, range) when flat; `valid` = 0 where
            odometry does not tell how the lidar is turned.
        """
        from rover_pipeline.lidar.geometry import projection, sensor_info, stagger

        mount, finder = _origin(options, config), _finder(options, flat, sidecar, radar)
        turns = np.broadcast_to(mount.rotation.T, (len(rng), 3, 3))
        if rot is not None:
            from rover_pipeline.kinematics.gravity import uprighted

            odometry = given(odom_ts, odom_rot, odom_vel, odom_valid)
            up, _ = _up(options, config, odometry, imu_ts, imu_acc, imu_valid)
            turns = uprighted(rot @ mount.rotation, up) @ mount.rotation.T
        project, found = projection(metadata), []
        for image, turn in zip(stagger(rng, sensor_info(metadata)), turns, strict=True):
            found.append(finder.cells(image, project(image.astype("u4")), turn, mount.translation))
        cells = np.stack(found)
        return {"occupancy": cells[:, 0] if flat else cells, "valid": np.isfinite(turns).all(axis=(1, 2))}

    occupied.__name__ = occupied.__qualname__ = name
    axes = "[azimuth, range], to the right, away" if flat else "[elevation, azimuth, range], up, to the right, away"
    described = step(
        inputs={"rng": "_lidar_image/rng", **({"rot": "_odom/rot"} if level else {})},
        whole=_GRAVITY if level else {},
        files={
            "metadata": "lidar/lidar.json",
            "config": "config.yaml",
            "sidecar": "radar/radar.json",
            "radar": "radar/meta.json",
        },
        # Nearly all cells are empty: compressed, three dimensions take less space than two.
        outputs={"occupancy": Output(f"1 = a lidar return is in the cell. {axes}.", "raw" if flat else "lzmaf")},
        version=1,
        inspect=functools.partial(_told, flat=flat, level=level),
    )
    return described(occupied)


def _told(
    *,
    flat: bool,
    level: bool,
    options: OccupancyOptions,
    config: str | None = None,
    sidecar: str | None = None,
    radar: str | None = None,
    **more: Any,
) -> Inspection:
    """The middles of the cells in `axes.json`, where they are seen from, and which way is up."""
    measured: dict[str, Any] = {"origin": options.origin, "extrinsics": _origin(options, config).source}
    if level:
        odometry = given(*(more.get(name) for name in ("odom_ts", "odom_rot", "odom_vel", "odom_valid")))
        up, source = _up(options, config, odometry, *(more.get(name) for name in ("imu_ts", "imu_acc", "imu_valid")))
        measured |= {"up": [round(float(value), 5) for value in up], "up_from": source}
    return Inspection(measured, (), {AXES: _axes(_grid(options, flat, sidecar, radar))})


def _origin(options: OccupancyOptions, config: str | None) -> Mount:
    return IDENTITY if options.origin == "lidar" else find_mount("radar", options.rig, config)


@functools.lru_cache(maxsize=8)
def _finder(options: OccupancyOptions, flat: bool, sidecar: str | None, radar: str | None) -> Occupancy:
    from rover_pipeline.occupancy.polar import Occupancy

    return Occupancy(_grid(options, flat, sidecar, radar))


def _grid(options: OccupancyOptions, flat: bool, sidecar: str | None, radar: str | None) -> Grid:
    from rover_pipeline.occupancy.polar import Grid, edges

    resolution, bins = (0.1, 256) if sidecar is None else range_axis(sidecar, radar)
    elevation, count = ((-90.0, 90.0), 1) if flat else (options.elevation, options.elevation_bins)
    return Grid(
        azimuth=edges(options.azimuth, options.azimuth_bins),
        elevation=edges(elevation, count),
        resolution=options.range_resolution or resolution,
        bins=options.range_bins or bins,
        z=options.bev_z if flat else options.z,
        min_range=options.min_range,
    )


def _axes(grid: Grid) -> str:
    """The text of `axes.json`: the middle of every bin."""
    axes = {}
    for name, edges, positive in (("elevation", grid.elevation, "up"), ("azimuth", grid.azimuth, "right")):
        if len(edges) > 2 or name == "azimuth":
            axes[name] = {
                "unit": "rad",
                "positive": positive,
                "values": ((edges[:-1] + edges[1:]) / 2).round(6).tolist(),
            }
    distance = np.arange(grid.bins) * grid.resolution
    axes["range"] = {"unit": "m", "positive": "away", "values": distance.round(6).tolist()}
    return json.dumps(axes) + "\n"


def _up(
    options: OccupancyOptions,
    config: str | None,
    odometry: tuple[np.ndarray, ...],
    imu_ts: np.ndarray | None = None,
    imu_acc: np.ndarray | None = None,
    imu_valid: np.ndarray | None = None,
) -> tuple[np.ndarray, str]:
    """The direction away from gravity in the world, and who says so."""
    from rover_pipeline.engine.inputs import nearest_samples
    from rover_pipeline.kinematics.gravity import up_of_gravity

    first = np.array([0.0, 0.0, 1.0]), "first pose"
    known = (odometry[3] > 0) & np.isfinite(odometry[1]).all(axis=(1, 2)) & np.isfinite(odometry[2]).all(axis=1)
    ts, rot, vel = (channel[known] for channel in odometry[:3])
    if imu_ts is None or imu_acc is None or len(ts) < 2:
        return first
    felt = (imu_ts >= ts[0]) & (imu_ts <= ts[-1]) & np.isfinite(imu_acc).all(axis=1)
    if imu_valid is not None:
        felt &= imu_valid > 0
    near = nearest_samples(ts, imu_ts[felt])
    up = up_of_gravity(
        imu_acc[felt].astype("f8"),
        rot[near] @ find_mount("imu", options.rig, config).rotation,
        vel[-1] - vel[0],
        float(ts[-1] - ts[0]),
        rot[:, :, 2].mean(axis=0),
    )
    return first if up is None else (up, "imu")


occupancy = _occupancy_step("occupancy", flat=False, level=False)
bev = _occupancy_step("bev", flat=True, level=False)
level_occupancy = _occupancy_step("level_occupancy", flat=False, level=True)
level_bev = _occupancy_step("level_bev", flat=True, level=True)
