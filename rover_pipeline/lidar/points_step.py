"""Virtual sensor of the lidar's points: `_lidar_points`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rover_pipeline.engine.step import Inspection
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.kinematics.sweep import odometry_motion
from rover_pipeline.lidar.geometry import projection, sensor_info, sweep_span
from rover_pipeline.lidar.options import PointsOptions
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.lidar.sweeps import lidar_reader
from rover_pipeline.numerics.compiled import compiled

#: Columns that points are deskewed in: a car at 30 m/s moves by 0.7 mm from one to the next. Layout.
_COLUMNS = 4096


def points(
    rng: np.ndarray,
    rfl: np.ndarray | None = None,
    nir: np.ndarray | None = None,
    ts: np.ndarray | None = None,
    *,
    options: PointsOptions,
    metadata: str,
    odometry: Mapping[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """Points of each sweep by ouster-sdk's projection, deskewed if `options.compensate` is set.

    Args:
        rng, rfl, nir: (frame, beam, column), columns in time order; ranges in mm, 0 and 65535 are no returns;
            rfl and nir are None where the lidar has no such channel.
        ts: f8 (frame,), time stamps, seconds, for the deskew.
        metadata: `lidar.json`, the sensor's own, of old or new firmware.
        odometry: the channels of `_odom`, for the deskew.

    Returns:
        `xyz` f4 (frame, beam, column, 3), m; `rfl` and `nir` as given. After a deskew `valid` is 0 for sweeps without
        a valid state in `_odom`; their points are not deskewed.
    """
    project = projection(metadata)
    poses: list[Poses | None] = [None] * len(rng)
    if options.compensate and odometry is not None and ts is not None:
        motion = odometry_motion(odometry, options.times, *sweep_span(sensor_info(metadata), options.ts_reference))
        numbers = [motion.trajectory.index(stamp) for stamp in ts.tolist()]
        poses = [None if number is None else motion.relative_columns(number, rng.shape[2]) for number in numbers]
    sweeps = [
        _project_returns(image, project.direction, project.offset, pose) for image, pose in zip(rng, poses, strict=True)
    ]
    xyz = sweeps[0][None] if len(sweeps) == 1 else np.stack(sweeps)  # a single sweep is not copied
    result = {"xyz": xyz, **{name: each for name, each in (("rfl", rfl), ("nir", nir)) if each is not None}}
    if options.compensate:
        result["valid"] = np.array([pose is not None for pose in poses])
    return result


def of_points(
    xyz: np.ndarray,
    count: np.ndarray,
    ts: np.ndarray,
    time: np.ndarray | None = None,
    *,
    options: PointsOptions,
    metadata: str,
    odometry: Mapping[str, np.ndarray] | None = None,
    **known: np.ndarray,
) -> dict[str, np.ndarray]:
    """Points of a lidar that is points, deskewed if `options.compensate` is set and their instants are known.

    Args:
        xyz: f4 (frame, point, 3), m, NaN past `count`, u4 (frame,).
        ts: f8 (frame,), time stamps, seconds.
        time: f4 (frame, point), s after the time stamp; None = all points are of the instant of the time stamp.
        metadata: `lidar.json`, which describes points.
        odometry: the channels of `_odom`, for the deskew.
        known: intensity and ring, (frame, point).

    Returns:
        The same channels. After a deskew `valid` is 0 for sweeps without a valid state in `_odom`, and for all where
        the instants of points are not known and the source does not say that motion is undone.
    """
    result = {"xyz": xyz, "count": count, **known, **({} if time is None else {"time": time})}
    if not options.compensate or odometry is None:
        return result
    lidar = lidar_reader(metadata, options.ts_reference)
    if not lidar.duration:
        return {**result, "valid": np.full(len(xyz), not lidar.notes)}
    motion, out, valid = lidar.motion(odometry, options.times), xyz.copy(), np.zeros(len(xyz), bool)
    for i, stamp in enumerate(ts.tolist()):
        if (number := motion.trajectory.index(stamp)) is None:
            continue
        poses, valid[i] = motion.relative_columns(number, _COLUMNS), True
        stored = {"xyz": xyz[i], "count": count[i], "time": result["time"][i]}
        column, points = lidar.columns_of(stored, _COLUMNS), lidar.points(stored)
        out[i, : len(points)] = points
        _move(out[i], column, poses.rot.astype("f4"), poses.pos.astype("f4"))
    return {**result, "xyz": out, "valid": valid}


def inspect_points(*, options: PointsOptions, metadata: str, **_: Any) -> Inspection:
    """Says that a deskew of points without times is asked for, which nothing can give."""
    notes = lidar_reader(metadata, options.ts_reference).notes if options.compensate else ()
    return Inspection({}, [f"{each}; valid is 0" for each in notes])


def _project_returns(
    rng: np.ndarray, direction: np.ndarray, offset: np.ndarray, poses: Poses | None = None
) -> np.ndarray:
    """Points of a sweep, f4 (beam, column, 3), metres; NaN where there is no return.

    Args:
        rng: u2 (beam, column), mm; 0 and 65535 are no returns.
        direction, offset: f4 (beam * column, 3), metres per millimetre and metres, of ouster-sdk's projection.
        poses: of the lidar at each column, in the frame of the result; None = each column stays in its own frame.
    """
    # The kernels pass over the images once, because memory traffic takes longer than the arithmetic.
    xyz = np.empty((*rng.shape, 3), "f4")
    direction, offset = direction.reshape(xyz.shape), offset.reshape(xyz.shape)
    if poses is None:
        _project(rng, direction, offset, xyz)
    else:
        _project_deskewed(rng, direction, offset, poses.rot.astype("f4"), poses.pos.astype("f4"), xyz)
    return xyz


@compiled
def _move(xyz: np.ndarray, column: np.ndarray, rot: np.ndarray, pos: np.ndarray) -> None:
    for n in range(len(column)):
        x, y, z = xyz[n, 0], xyz[n, 1], xyz[n, 2]
        for i in range(3):
            c = column[n]
            xyz[n, i] = rot[c, i, 0] * x + rot[c, i, 1] * y + rot[c, i, 2] * z + pos[c, i]


@compiled
def _project(rng: np.ndarray, direction: np.ndarray, offset: np.ndarray, xyz: np.ndarray) -> None:
    for b in range(rng.shape[0]):
        for c in range(rng.shape[1]):
            if rng[b, c] == 0 or rng[b, c] == CLIPPED:
                xyz[b, c, 0] = xyz[b, c, 1] = xyz[b, c, 2] = np.nan
                continue
            distance = np.float32(rng[b, c])
            for i in range(3):
                xyz[b, c, i] = distance * direction[b, c, i] + offset[b, c, i]


@compiled
def _project_deskewed(
    rng: np.ndarray, direction: np.ndarray, offset: np.ndarray, rot: np.ndarray, pos: np.ndarray, xyz: np.ndarray
) -> None:
    _project(rng, direction, offset, xyz)
    for b in range(rng.shape[0]):
        for c in range(rng.shape[1]):
            x, y, z = xyz[b, c, 0], xyz[b, c, 1], xyz[b, c, 2]
            for i in range(3):
                xyz[b, c, i] = rot[c, i, 0] * x + rot[c, i, 1] * y + rot[c, i, 2] * z + pos[c, i]
