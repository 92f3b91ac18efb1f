"""Virtual sensors of what the lidar sees as others would: `_occupancy`, `_bev`, `_camera_depth`."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rover_pipeline.occupancy.options import DepthOptions, OccupancyOptions
from rover_pipeline.poses.steps import ODOMETRY
from rover_pipeline.rig import IDENTITY, Mount, find_mount
from rover_pipeline.steps import Inspection, Output, step

# Numba and ouster-sdk take long to import, and the Snakefile, which reads this module, needs neither.
if TYPE_CHECKING:
    from rover_pipeline.occupancy.depth import DepthCamera
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


def _occupancy_step(name: str, *, flat: bool, level: bool) -> Callable[..., np.ndarray]:
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
    ) -> np.ndarray:
        """Cells that hold a return of each sweep, seen from the radar or the lidar.

        Args:
            rng: u2 (frame, beam, column), mm, destaggered.
            rot: f8 (frame, 3, 3), world-from-lidar, to take the tilt out.
            metadata: `lidar.json`.
            config: `config.yaml`, which may hold the extrinsics.
            sidecar, radar: `radar.json` and the radar's `meta.json`, which tell of its range bins.
            odom_ts, odom_rot, odom_vel, odom_valid, imu_ts, imu_acc, imu_valid: all that tells which way is up.

        Returns:
            u1 (frame, elevation, azimuth, range), or (frame, azimuth, range) when flat.
        """
        from rover_pipeline.lidar.geometry import projection, sensor_info, stagger

        mount, finder = _origin(options, config), _finder(options, flat, sidecar, radar)
        turns = np.broadcast_to(mount.rotation.T, (len(rng), 3, 3))
        if rot is not None:
            from rover_pipeline.occupancy.upright import uprighted

            odometry = _given(odom_ts, odom_rot, odom_vel, odom_valid)
            up, _ = _up(options, config, odometry, imu_ts, imu_acc, imu_valid)
            turns = uprighted(rot @ mount.rotation, up) @ mount.rotation.T
        project, found = projection(metadata), []
        for image, turn in zip(stagger(rng, sensor_info(metadata)), turns, strict=True):
            found.append(finder.cells(image, project(image.astype("u4")), turn, mount.translation))
        cells = np.stack(found)
        return cells[:, 0] if flat else cells

    def told(
        *,
        options: OccupancyOptions,
        config: str | None = None,
        sidecar: str | None = None,
        radar: str | None = None,
        **more: Any,
    ) -> Inspection:
        """The middles of the cells in `axes.json`, where they are seen from, and which way is up."""
        measured: dict[str, Any] = {"origin": options.origin, "extrinsics": _origin(options, config).source}
        if level:
            odometry = _given(*(more.get(key) for key in ("odom_ts", "odom_rot", "odom_vel", "odom_valid")))
            imu = (more.get(key) for key in ("imu_ts", "imu_acc", "imu_valid"))
            up, source = _up(options, config, odometry, *imu)
            measured |= {"up": [round(float(value), 5) for value in up], "up_from": source}
        return Inspection(measured, (), {"axes.json": _axes(_grid(options, flat, sidecar, radar))})

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
        inspect=told,
    )
    return described(occupied)


occupancy = _occupancy_step("occupancy", flat=False, level=False)
bev = _occupancy_step("bev", flat=True, level=False)
level_occupancy = _occupancy_step("level_occupancy", flat=False, level=True)
level_bev = _occupancy_step("level_bev", flat=True, level=True)


def _depth_step(name: str, *, moving: bool) -> Callable[..., dict[str, np.ndarray]]:
    """The step that draws depth; `moving` = with the rig's motion between sweep and picture."""

    def drawn(
        ts: np.ndarray,
        rng: np.ndarray,
        lidar_ts: np.ndarray,
        *,
        options: DepthOptions,
        metadata: str,
        intrinsics: str,
        recorded: str,
        config: str | None = None,
        published: str | None = None,
        odom_ts: np.ndarray | None = None,
        pos: np.ndarray | None = None,
        rot: np.ndarray | None = None,
        vel: np.ndarray | None = None,
        acc: np.ndarray | None = None,
        avel: np.ndarray | None = None,
        odom_valid: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """The lidar sweep nearest in time to each picture, in the picture's pixels.

        Args:
            ts: f8 (frame,), of the pictures, s.
            rng: u2 (frame, beam, column), mm, destaggered; lidar_ts: f8 (frame,), s: the nearest sweeps.
            metadata: `lidar.json`; intrinsics: `camera.json`; config: `config.yaml`, which may hold the extrinsics.
            recorded, published: `meta.json` of the camera and of the published one, which say how large pictures are.
            odom_ts, pos, rot, vel, acc, avel, odom_valid: the whole of `_odom`.

        Returns:
            `depth` u2 (frame, height, width), mm, 0 = no return, and `valid` = 0 where no sweep is near enough or the
            odometry does not tell of the time.
        """
        from rover_pipeline.lidar.geometry import projection, sensor_info, stagger, sweep_span
        from rover_pipeline.occupancy.depth import seen_from
        from rover_pipeline.poses.trajectory import Trajectory

        info, project = sensor_info(metadata), projection(metadata)
        mount = find_mount("camera", options.rig, config)
        camera = _camera(intrinsics, _picture_size(recorded, published), options)
        trajectory = Trajectory(*_given(odom_ts, pos, rot, vel, acc, avel, odom_valid)) if moving else None
        begin, period = sweep_span(info, options.lidar.ts_reference)
        turns, shifts = seen_from(ts, lidar_ts, begin, period, trajectory, mount)
        out = np.zeros((len(ts), options.height, options.width), "u2")
        valid = (np.abs(lidar_ts - ts) <= options.tolerance) & np.isfinite(shifts).all(axis=(1, 2))
        drawn_ts, image, xyz = np.nan, np.empty(0), np.empty(0)
        for i in np.flatnonzero(valid):
            if lidar_ts[i] != drawn_ts:  # several pictures share a sweep
                image = stagger(rng[i : i + 1], info)[0]
                drawn_ts, xyz = lidar_ts[i], project(image.astype("u4"))
            out[i] = camera.depth(image, xyz, turns[i], shifts[i])
        return {"depth": out, "valid": valid.astype("u1")}

    drawn.__name__ = drawn.__qualname__ = name
    described = step(
        inputs={"ts": "camera/ts"},
        nearest={"rng": "_lidar_image/rng", "lidar_ts": "_lidar_image/ts"},
        whole=ODOMETRY if moving else {},
        files={
            "metadata": "lidar/lidar.json",
            "config": "config.yaml",
            "intrinsics": "camera/camera.json",
            "recorded": "camera/meta.json",
            "published": "_camera/meta.json",
        },
        outputs={"depth": "Distance along the camera's axis to the nearest return, mm; 0 = none. [row, column]"},
        version=1,
    )
    return described(drawn)


depth = _depth_step("depth", moving=True)
still_depth = _depth_step("still_depth", moving=False)


def _given(*odometry: np.ndarray | None) -> tuple[np.ndarray, ...]:
    """Channels of `_odom`, all of which are needed."""
    found = tuple(channel for channel in odometry if channel is not None)
    if len(found) < len(odometry):
        raise ValueError("_odom is not there, or lacks channels; the step that makes it is to run first")
    return found


def _origin(options: OccupancyOptions, config: str | None) -> Mount:
    return IDENTITY if options.origin == "lidar" else find_mount("radar", options.rig, config)


@functools.lru_cache(maxsize=8)
def _finder(options: OccupancyOptions, flat: bool, sidecar: str | None, radar: str | None) -> Occupancy:
    from rover_pipeline.occupancy.polar import Occupancy

    return Occupancy(_grid(options, flat, sidecar, radar))


def _grid(options: OccupancyOptions, flat: bool, sidecar: str | None, radar: str | None) -> Grid:
    from rover_pipeline.occupancy.polar import Grid, edges
    from rover_pipeline.radar.axes import range_axis

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
    from rover_pipeline.occupancy.upright import up_of_gravity
    from rover_pipeline.source import nearest_samples

    first = np.array([0.0, 0.0, 1.0]), "first pose"
    ts, rot, vel = (channel[odometry[3] > 0] for channel in odometry[:3])
    if imu_ts is None or imu_acc is None or len(ts) < 2:
        return first
    felt = (imu_ts >= ts[0]) & (imu_ts <= ts[-1])
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


@functools.lru_cache(maxsize=4)
def _camera(intrinsics: str, size: tuple[int, int], options: DepthOptions) -> DepthCamera:
    from rover_pipeline.camera.lens import Lens
    from rover_pipeline.occupancy.depth import DepthCamera

    lens = Lens.parse(intrinsics, *size).resized(options.width, options.height)
    return DepthCamera(lens if options.distorted else lens.straight(), options.min_range)


def _picture_size(*metas: str | None) -> tuple[int, int]:
    """Width and height of the recorded pictures, from the `meta.json` that lists them."""
    for meta in filter(None, metas):
        try:
            height, width = json.loads(meta)["video.avi"]["shape"][:2]
            return int(width), int(height)
        except (ValueError, KeyError, TypeError):
            continue
    raise ValueError("neither camera/meta.json nor _camera/meta.json says how large the pictures of video.avi are")
