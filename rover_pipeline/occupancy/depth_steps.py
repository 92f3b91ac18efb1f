"""Virtual sensor of the depth of the camera's pixels: `_camera_depth`."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rover_pipeline.camera.intrinsics import read_intrinsics
from rover_pipeline.camera.lens import Lens
from rover_pipeline.clocks.clock import corrected
from rover_pipeline.engine.step import Inspection
from rover_pipeline.errors import FormatError
from rover_pipeline.format.texts import parse_json
from rover_pipeline.kinematics.mount import Mount, find_mount, mount_warnings
from rover_pipeline.kinematics.state import Poses, State
from rover_pipeline.kinematics.stated import mount_notes
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.lidar.sweeps import Sweep, lidar_reader, one_sweep
from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.occupancy.options import DepthOptions
from rover_pipeline.occupancy.sweeps import MOVED, STILL, columns_in, sensor_poses, still_columns

#: Largest standard deviation of a return in the picture, pixels, of which pixels are looked at. Schedule.
_WIDEST = 2.0
#: Covariance of the pose of a camera that is known. Layout.
_EXACT = np.zeros((6, 6))


def inspect_lens(
    *,
    options: DepthOptions,
    metadata: str,
    intrinsics: str,
    recorded: str,
    config: str | None = None,
    published: str | None = None,
    **_: Any,
) -> Inspection:
    """The source of the camera's extrinsics, and the intrinsics of the depth pixels as `camera.json`."""
    found = read_intrinsics(intrinsics, *_picture_size(recorded, published), options.lens)
    lens, mount = _pixels(found.lens, options), find_mount("camera", options.rig, config)
    measured: dict[str, Any] = {**mount.describe(), "motion": MOVED if options.motion else STILL}
    measured |= {"lens": found.lens.model, "lens_from": found.model_from}
    notes = lidar_reader(metadata, options.lidar.ts_reference).notes if options.motion else ()
    warnings = [*notes, *found.warnings, *mount_warnings("camera", options.rig, mount)]
    files = {"camera.json": json.dumps(lens.describe(), indent=2) + "\n"}
    return Inspection(measured, warnings, files, mount_notes("camera", rig=options.rig, recorded=config))


def depth(
    ts: np.ndarray,
    lidar_ts: np.ndarray,
    *,
    options: DepthOptions,
    metadata: str,
    intrinsics: str,
    recorded: str,
    config: str | None = None,
    published: str | None = None,
    odometry: Mapping[str, np.ndarray] | None = None,
    recorded_ts: np.ndarray | None = None,
    **stored: np.ndarray,
) -> dict[str, np.ndarray]:
    """Depth by the sweep at the time of each picture.

    Args:
        ts: f8 (frame,), of the pictures, s; lidar_ts: f8 (frame,), of the sweep of each picture, s.
        metadata: `lidar.json`; intrinsics: `camera.json`; config: `config.yaml`, which may hold the extrinsics.
        recorded, published: `meta.json` of `camera/` and of its published copy `_camera/`, for the size of pictures.
        odometry: the channels of `_odom`; None = assume that the rig stands still.
        recorded_ts: f8 (picture,), times of all pictures, for the clock of the camera.
        stored: channels of the sweeps: `rng` u2 (frame, beam, column), mm, destaggered; or `xyz` f4 (frame, point, 3),
            m, and, if there are some, `count` (frame,) and `time` f4 (frame, point), s after the sweep's time stamp.

    Returns:
        `depth` u2 (frame, height, width), mm, 0 = no return, or none that is certain, and `valid` = 0 where no sweep is
        within the tolerance or the motion is not known.
    """
    reader = lidar_reader(metadata, options.lidar.ts_reference)
    mount = find_mount("camera", options.rig, config)
    lens = _lens(intrinsics, _picture_size(recorded, published), options)
    columns: Iterator[Poses | None] = itertools.repeat(still_columns(mount.rotation.T, mount, reader.columns))
    errors = mount.errors(State.standing(len(ts)))
    if odometry is not None and recorded_ts is not None:
        motion = reader.motion(odometry, options.times)
        pictures = corrected("camera", ts, recorded_ts, options.times)
        errors = mount.errors(motion.trajectory.at(pictures, mount)[0])
        cameras = sensor_poses(motion, lidar_ts, pictures + mount.time_offset, mount)
        columns = columns_in(cameras, motion, map(motion.trajectory.index, lidar_ts.tolist()), reader.columns)
    out = np.zeros((len(ts), options.height, options.width), "u2")
    valid = reader.is_near(ts + mount.time_offset, lidar_ts, options.tolerance)
    read_ts = np.nan
    for i, lidar in enumerate(itertools.islice(columns, len(ts))):
        valid[i] &= lidar is not None
        if lidar is None or not valid[i]:
            continue
        if lidar_ts[i] != read_ts:  # several pictures share a sweep
            sweep = reader.sweep(one_sweep(stored, i))
            read_ts = lidar_ts[i]
        out[i] = depth_image(sweep, lens, lidar, mount, options.min_range, errors[i], options.ambiguity)
    return {"depth": out, "valid": valid}


@functools.lru_cache(maxsize=4)
def _lens(intrinsics: str, size: tuple[int, int], options: DepthOptions) -> Lens:
    return _pixels(read_intrinsics(intrinsics, *size, options.lens).lens, options)


def _pixels(recorded: Lens, options: DepthOptions) -> Lens:
    """The lens of the pixels that get a depth."""
    lens = recorded.resized(options.width, options.height)
    return lens if options.distorted else lens.undistorted()


def _picture_size(*metas: str | None) -> tuple[int, int]:
    """Width and height of the recorded pictures, from the first `meta.json` that lists them."""
    for meta in filter(None, metas):
        try:
            height, width = parse_json(meta, "meta.json")["video.avi"]["shape"][:2]
            return int(width), int(height)
        except (FormatError, ValueError, LookupError, TypeError, ArithmeticError):
            continue
    raise ValueError("neither camera/meta.json nor _camera/meta.json gives the shape of video.avi")


def depth_image(
    sweep: Sweep,
    lens: Lens,
    lidar: Poses,
    mount: Mount,
    min_range: float,
    errors: np.ndarray = _EXACT,
    ambiguity: float = np.inf,
) -> np.ndarray:
    """Depth of the nearest return in each pixel of a camera, u2 (height, width), mm along the axis; 0 = none.

    Args:
        lens: of the pixels.
        lidar: f8, of the lidar at each column, in the camera's frame at the picture's instant, both front-left-up.
        mount: the camera's pose in the lidar frame.
        min_range: minimum depth of a return, m along the camera's axis, also when it was measured: the rig moves along.
        errors: f8 (6, 6), covariance of a displacement and a rotation vector of the camera, in its frame; 0 = none.
        ambiguity: share by which depths of returns that a pixel may see differ where it has no depth.
    """
    out = np.zeros((lens.height, lens.width), "u2")
    poses = np.concatenate([lidar.rot.reshape(-1, 9), lidar.pos], axis=1)
    front = np.append(mount.rotation[:, 0], matmul(-mount.rotation[:, 0], mount.translation))
    bounds = np.zeros((2, *out.shape) if errors.any() else (0, 0, 0))
    numbers = np.array([lens.fx, lens.fy, lens.cx, lens.cy, *lens.k, *lens.p, lens.max_tangent**2])
    _project(sweep.rng, sweep.xyz, poses, front, numbers, lens.is_fisheye, min_range, errors, out, bounds)
    if len(bounds):
        out[bounds[1] > bounds[0] * (1 + ambiguity)] = 0
    return out


@compiled
def _deviation(row: tuple[float, ...], covariance: np.ndarray) -> float:
    square = 0.0
    for i in range(6):
        for j in range(6):
            square += row[i] * covariance[i, j] * row[j]
    return np.sqrt(max(square, 0.0))


@compiled
def _extend(bounds: np.ndarray, depth: float, u: float, v: float, wide: float, high: float) -> None:
    """The smallest and the largest depth of all returns that a pixel may see, within two standard deviations."""
    height, width = bounds.shape[1:]
    far = np.inf if max(wide, high) > _WIDEST else depth  # too many pixels: all that is near is uncertain
    wide, high = 2 * min(wide, _WIDEST), 2 * min(high, _WIDEST)
    for row in range(max(0, int(v - high + 0.5)), min(height - 1, int(v + high + 0.5)) + 1):
        for column in range(max(0, int(u - wide + 0.5)), min(width - 1, int(u + wide + 0.5)) + 1):
            if bounds[1, row, column] == 0 or depth < bounds[0, row, column]:
                bounds[0, row, column] = depth
            bounds[1, row, column] = max(bounds[1, row, column], far)


@compiled
def _project(
    rng: np.ndarray, xyz: np.ndarray, poses: np.ndarray, front: np.ndarray, lens: np.ndarray,
    is_fisheye: bool, min_depth: float, errors: np.ndarray, out: np.ndarray, bounds: np.ndarray,
) -> None:  # fmt: skip
    fx, fy, cx, cy, k1, k2, k3, k4, p1, p2, max_square = lens
    height, width = out.shape
    for beam in range(rng.shape[0]):
        for column in range(rng.shape[1]):
            if rng[beam, column] == 0 or rng[beam, column] == CLIPPED:
                continue
            pose = poses[column]
            px, py, pz = xyz[beam, column, 0], xyz[beam, column, 1], xyz[beam, column, 2]
            depth = pose[0] * px + pose[1] * py + pose[2] * pz + pose[9]
            if not (depth > min_depth and front[0] * px + front[1] * py + front[2] * pz + front[3] > min_depth):
                continue
            x = -(pose[3] * px + pose[4] * py + pose[5] * pz + pose[10]) / depth
            y = -(pose[6] * px + pose[7] * py + pose[8] * pz + pose[11]) / depth
            square = x * x + y * y
            if square > max_square:
                continue
            scale, argument = 1.0, square
            if is_fisheye and square > 0:
                radius = np.sqrt(square)
                theta = np.arctan(radius)
                scale, argument = theta / radius, theta * theta
            radial = scale * (1 + argument * (k1 + argument * (k2 + argument * (k3 + argument * k4))))
            u = fx * (x * radial + 2 * p1 * x * y + p2 * (square + 2 * x * x)) + cx
            v = fy * (y * radial + p1 * (square + 2 * y * y) + 2 * p2 * x * y) + cy
            if len(bounds):
                # Pixels that the return may be in: where its displacement and the rotation of the camera move it.
                from_u = (x / depth, 1 / depth, 0.0, y, -x * y, 1 + x * x)
                from_v = (y / depth, 0.0, 1 / depth, -x, -1 - y * y, x * y)
                wide = fx * radial * _deviation(from_u, errors)
                high = fy * radial * _deviation(from_v, errors)
                _extend(bounds, depth, u, v, wide, high)
            if not (-0.5 <= u < width - 0.5 and -0.5 <= v < height - 0.5):
                continue
            column_out, row_out = int(u + 0.5), int(v + 0.5)
            mm = int(depth * 1000 + 0.5)
            # What is farther than u2 holds has no depth, as a pixel without a return.
            if mm < CLIPPED and (out[row_out, column_out] == 0 or mm < out[row_out, column_out]):
                out[row_out, column_out] = mm
