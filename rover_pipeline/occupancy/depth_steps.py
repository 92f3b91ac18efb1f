"""Virtual sensor of how far the camera's pixels see: `_camera_depth`."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rover_pipeline.engine.step import Inspection, step
from rover_pipeline.kinematics.mount import find_mount
from rover_pipeline.occupancy.options import DepthOptions
from rover_pipeline.poses.steps import ODOMETRY, given

# Numba and ouster-sdk take long to import, and the Snakefile, which reads this module, needs neither.
if TYPE_CHECKING:
    from rover_pipeline.occupancy.depth import DepthCamera


def inspect_lens(
    *,
    options: DepthOptions,
    intrinsics: str,
    recorded: str,
    config: str | None = None,
    published: str | None = None,
    **more: Any,
) -> Inspection:
    """Where the camera is on the rig, and the intrinsics of the pixels, beside them."""
    lens = _camera(intrinsics, _picture_size(recorded, published), options).lens
    measured = {"extrinsics": find_mount("camera", options.rig, config).source}
    return Inspection(measured, (), {"camera.json": json.dumps(lens.describe(), indent=2) + "\n"})


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
        every_ts: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """The lidar sweep nearest in time to each picture, in the picture's pixels.

        Args:
            ts: f8 (frame,), of the pictures, s.
            rng: u2 (frame, beam, column), mm, destaggered; lidar_ts: f8 (frame,), s: the nearest sweeps.
            metadata: `lidar.json`; intrinsics: `camera.json`; config: `config.yaml`, which may hold the extrinsics.
            recorded, published: `meta.json` of the camera and of the published one, which say how large pictures are.
            odom_ts, pos, rot, vel, acc, avel, odom_valid: the whole of `_odom`; every_ts: times of all pictures.

        Returns:
            `depth` u2 (frame, height, width), mm, 0 = no return, and `valid` = 0 where no sweep is near enough or the
            odometry does not tell of the time.
        """
        from rover_pipeline.kinematics.clock import taken
        from rover_pipeline.kinematics.trajectory import Trajectory
        from rover_pipeline.lidar.geometry import projection, sensor_info, stagger, sweep_span
        from rover_pipeline.occupancy.depth import seen_from

        info, project = sensor_info(metadata), projection(metadata)
        mount = find_mount("camera", options.rig, config)
        camera = _camera(intrinsics, _picture_size(recorded, published), options)
        near, trajectory = np.abs(lidar_ts - ts) <= options.tolerance, None
        seen, swept = ts, lidar_ts
        if moving:
            all_ts, odom_ts, *states = given(every_ts, odom_ts, pos, rot, vel, acc, avel, odom_valid)
            times = options.sync.times
            seen, swept = taken("camera", ts, all_ts, times), taken("lidar", lidar_ts, odom_ts, times)
            trajectory = Trajectory(taken("lidar", odom_ts, odom_ts, times), *states)
        begin, period = sweep_span(info, options.lidar.ts_reference)
        turns, shifts = seen_from(seen, swept, begin, period, trajectory, mount)
        out = np.zeros((len(ts), options.height, options.width), "u2")
        valid = near & np.isfinite(shifts).all(axis=(1, 2))
        drawn_ts = np.nan
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
        whole={**ODOMETRY, "every_ts": "camera/ts"} if moving else {},
        files={
            "metadata": "lidar/lidar.json",
            "config": "config.yaml",
            "intrinsics": "camera/camera.json",
            "recorded": "camera/meta.json",
            "published": "_camera/meta.json",
        },
        outputs={"depth": "Distance along the camera's axis to the nearest return, mm; 0 = none. [row, column]"},
        version=1,
        inspect=inspect_lens,
    )
    return described(drawn)


depth = _depth_step("depth", moving=True)
still_depth = _depth_step("still_depth", moving=False)


@functools.lru_cache(maxsize=4)
def _camera(intrinsics: str, size: tuple[int, int], options: DepthOptions) -> DepthCamera:
    from rover_pipeline.camera.lens import Lens
    from rover_pipeline.occupancy.depth import DepthCamera

    lens = Lens.parse(intrinsics, *size).resized(options.width, options.height)
    return DepthCamera(lens if options.distorted else lens.undistorted(), options.min_range)


def _picture_size(*metas: str | None) -> tuple[int, int]:
    """Width and height of the recorded pictures, from the `meta.json` that lists them."""
    for meta in filter(None, metas):
        try:
            height, width = json.loads(meta)["video.avi"]["shape"][:2]
            return int(width), int(height)
        except (ValueError, KeyError, TypeError):
            continue
    raise ValueError("neither camera/meta.json nor _camera/meta.json says how large the pictures of video.avi are")
