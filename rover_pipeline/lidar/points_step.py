"""Virtual sensor of the lidar's points: `_lidar_points`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rover_pipeline.engine.step import MAIN, Inspection
from rover_pipeline.format.texts import parse_json
from rover_pipeline.kinematics.mount import mount_of_entry
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.kinematics.sweep import SweepMotion, odometry_trajectory
from rover_pipeline.lidar.geometry import projection
from rover_pipeline.lidar.options import PointsOptions
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.lidar.sweeps import LidarReader, lidar_reader
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
    **place: Any,
) -> dict[str, np.ndarray]:
    """Points of each sweep by ouster-sdk's projection, deskewed if `options.compensate` is set.

    Args:
        rng, rfl, nir: (frame, beam, column), columns in time order; ranges in mm, 0 and 65535 are no returns;
            rfl and nir are None where the lidar has no such channel.
        ts: f8 (frame,), time stamps, seconds, for the deskew.
        metadata: `lidar.json`, the sensor's own, of old or new firmware.
        odometry, place: for the deskew, see `_motion`.

    Returns:
        `xyz` f4 (frame, beam, column, 3), m; `rfl` and `nir` as given. After a deskew `valid` is 0 for sweeps without
        a valid state in `_odom`; their points are not deskewed.
    """
    poses: list[Poses | None] = [None] * len(rng)
    if options.compensate and odometry is not None and ts is not None:
        lidar = lidar_reader(metadata, options.ts_reference)
        motion, numbers = _motion(lidar, ts, options, odometry, **place)
        poses = [None if number is None else motion.relative_columns(number, rng.shape[2]) for number in numbers]
    xyz, project = np.empty((*rng.shape, 3), "f4"), projection(metadata)
    direction, offset = (each.reshape(xyz.shape[1:]) for each in (project.direction, project.offset))
    column = np.tile(np.arange(rng.shape[2], dtype="i4"), rng.shape[1])
    for sweep, image, pose in zip(xyz, rng, poses, strict=True):
        _project(image, direction, offset, sweep)
        if pose is not None:
            _move(sweep.reshape(-1, 3), column, pose.rot.astype("f4"), pose.pos.astype("f4"))
    result = {"xyz": xyz, **{name: each for name, each in (("rfl", rfl), ("nir", nir)) if each is not None}}
    if options.compensate:
        result["valid"] = np.array([pose is not None for pose in poses])
    return result


def of_points(
    xyz: np.ndarray,
    count: np.ndarray,
    ts: np.ndarray,
    time: np.ndarray | None = None,
    intensity: np.ndarray | None = None,
    ring: np.ndarray | None = None,
    *,
    options: PointsOptions,
    metadata: str,
    odometry: Mapping[str, np.ndarray] | None = None,
    **place: Any,
) -> dict[str, np.ndarray]:
    """Points of a lidar that is points, deskewed if `options.compensate` is set and their instants are known.

    Args:
        xyz: f4 (frame, point, 3), m, NaN past `count`, u4 (frame,).
        ts: f8 (frame,), time stamps, seconds.
        time: f4 (frame, point), s after the time stamp; None = all points are of the instant of the time stamp.
        intensity, ring: (frame, point); None where the lidar has no such channel.
        metadata: `lidar.json`, which describes points.
        odometry, place: for the deskew, see `_motion`.

    Returns:
        The same channels. After a deskew `valid` is 0 for sweeps without a valid state in `_odom`, and for all where
        the instants of points are not known and the source does not say that motion is undone.
    """
    known = {"intensity": intensity, "ring": ring, "time": time}
    result = {"xyz": xyz, "count": count, **{name: each for name, each in known.items() if each is not None}}
    if not options.compensate or odometry is None:
        return result
    lidar = lidar_reader(metadata, options.ts_reference)
    if not lidar.duration:
        return {**result, "valid": np.full(len(xyz), not lidar.notes)}
    motion, numbers = _motion(lidar, ts, options, odometry, **place)
    out, valid = xyz.copy(), np.zeros(len(xyz), bool)
    for i, number in enumerate(numbers):
        if number is None:
            continue
        poses, valid[i] = motion.relative_columns(number, _COLUMNS), True
        stored = {"xyz": xyz[i], "count": count[i], "time": result["time"][i]}
        column, points = lidar.columns_of(stored, _COLUMNS), lidar.points(stored)
        out[i, : len(points)] = points
        _move(out[i], column, poses.rot.astype("f4"), poses.pos.astype("f4"))
    return {**result, "xyz": out, "valid": valid}


def _motion(
    lidar: LidarReader,
    ts: np.ndarray,
    options: PointsOptions,
    odometry: Mapping[str, np.ndarray],
    *,
    recorded_ts: np.ndarray | None = None,
    lidars: str | None = None,
    own: str = "",
    main: str = MAIN,
) -> tuple[SweepMotion, list[int | None]]:
    """The motion of a lidar, and the number in it of each sweep that has a valid state.

    Args:
        ts: f8 (frame,), recorded times of sweeps, s, of all those in `recorded_ts`, f8 (sweep,).
        odometry: the channels of `_odom`; lidars: its `lidars.json`, which says where further lidars are, by name.
        own: a channel of the lidar. main: "main" = `_odom` is of this lidar.

    Raises:
        ValueError: it is a further lidar, of which `_odom` does not say where it is.
    """
    if main == MAIN or recorded_ts is None:
        motion = lidar.motion(odometry, options.times)
        return motion, list(map(motion.trajectory.index, ts.tolist()))
    name, stamps = own.partition("/")[0], odometry["ts"]
    entry = parse_json(lidars or "{}", "_odom/lidars.json").get(name)
    if entry is None:
        mend = f"state its pose, `rig.{name}` in config.yaml, or set lidar.points.compensate to false"
        raise ValueError(f"_odom is of another lidar and does not say where {name} is; {mend}")
    interval = float(np.median(np.diff(stamps))) if len(stamps) > 1 else lidar.period
    main_lidar = odometry_trajectory(odometry, options.times, interval)
    motion = lidar.motion_beside(main_lidar, mount_of_entry(entry, name), recorded_ts, options.times)
    numbers = np.searchsorted(recorded_ts, ts).tolist()
    return motion, [number if motion.trajectory.valid[number] else None for number in numbers]


def inspect_points(*, options: PointsOptions, metadata: str, **_: Any) -> Inspection:
    """Says that a deskew of points without times is asked for, which nothing can give."""
    notes = lidar_reader(metadata, options.ts_reference).notes if options.compensate else ()
    return Inspection({}, [f"{each}; valid is 0" for each in notes])


@compiled
def _move(xyz: np.ndarray, column: np.ndarray, rot: np.ndarray, pos: np.ndarray) -> None:
    """Move points, f4 (point, 3), by the pose of the column that each is in, i4 (point,)."""
    for n in range(len(column)):
        x, y, z = xyz[n, 0], xyz[n, 1], xyz[n, 2]
        for i in range(3):
            c = column[n]
            xyz[n, i] = rot[c, i, 0] * x + rot[c, i, 1] * y + rot[c, i, 2] * z + pos[c, i]


@compiled
def _project(rng: np.ndarray, direction: np.ndarray, offset: np.ndarray, xyz: np.ndarray) -> None:
    """Fill in the points of a sweep, f4 (beam, column, 3), m; NaN where there is no return.

    It passes over the image once, because memory traffic takes longer than the arithmetic.

    Args:
        rng: u2 (beam, column), mm; 0 and 65535 are no returns.
        direction, offset: f4 (beam, column, 3), metres per millimetre and metres, of ouster-sdk's projection.
    """
    for b in range(rng.shape[0]):
        for c in range(rng.shape[1]):
            if rng[b, c] == 0 or rng[b, c] == CLIPPED:
                xyz[b, c, 0] = xyz[b, c, 1] = xyz[b, c, 2] = np.nan
                continue
            distance = np.float32(rng[b, c])
            for i in range(3):
                xyz[b, c, i] = distance * direction[b, c, i] + offset[b, c, i]
