"""Virtual sensors of the occupied cells around the radar: `_occupancy`, `_bev`."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rover_pipeline.clocks.clock import clock, corrected, odometry_clock
from rover_pipeline.engine.step import Inspection
from rover_pipeline.format.descriptions import AXES
from rover_pipeline.format.texts import parse_json
from rover_pipeline.kinematics.mount import IDENTITY, Mount, find_mount, mount_of_entry, mount_warnings
from rover_pipeline.kinematics.rotation import remove_tilt
from rover_pipeline.kinematics.state import Poses, State
from rover_pipeline.kinematics.stated import mount_notes
from rover_pipeline.kinematics.sweep import SweepMotion
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.lidar.sweeps import lidar_reader, one_sweep
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.occupancy.options import OccupancyOptions
from rover_pipeline.occupancy.polar import PolarGrid, edges, share_kept
from rover_pipeline.occupancy.sweeps import MOVED, STILL, columns_in, sensor_poses, still_columns
from rover_pipeline.radar.axes import range_axis
from rover_pipeline.radar.timing import frame_duration

#: Share of the occupied cells that must be certain in a valid frame. Layout.
_KEPT = 0.5


def occupancy(
    lidar_ts: np.ndarray,
    ts: np.ndarray | None = None,
    *,
    flat: bool,
    options: OccupancyOptions,
    metadata: str,
    config: str | None = None,
    sidecar: str | None = None,
    radar: str | None = None,
    odometry: Mapping[str, np.ndarray] | None = None,
    radar_ts: np.ndarray | None = None,
    imu: Mapping[str, np.ndarray] | None = None,
    lidars: str | None = None,
    others: Mapping[str, Mapping[str, Any]] | None = None,
    **stored: np.ndarray,
) -> dict[str, np.ndarray]:
    """Cells that hold a return, in the frame of the radar or the lidar at the instant of each frame.

    Args:
        lidar_ts: f8 (frame,), recorded times of the sweeps that belong to the frames, s.
        ts: f8 (frame,), recorded times of frames of the radar, s; None = the frames are the sweeps.
        flat: True = one elevation bin, which is no axis of the result.
        metadata: `lidar.json`.
        config: `config.yaml`, which may hold the extrinsics and the timing of the radar's chirps.
        sidecar, radar: `radar.json` and the radar's `meta.json`, for the size and number of its range bins.
        odometry: the channels of `_odom`, for the motion and the tilt.
        radar_ts: f8, recorded times of all frames of the radar, s.
        imu: `ts`, `acc` and `valid` of the IMU, for the direction of up.
        lidars: `lidars.json` of `_odom`: where the other lidars are, by name.
        others: what is given of their sweeps, by name; see `FrameTask.read`. Their returns are in the cells too.
        stored: channels of the sweeps, as for `depth_steps.depth`.

    Returns:
        `occupancy` u1 (frame, elevation, azimuth, range), or (frame, azimuth, range) when flat. Where the motion or the
        tilt is needed and not known, or no sweep is within the tolerance, no cell is occupied and `valid` is 0. It is 0
        too where the covariance of the mount that `rig` states leaves open what half of the cells or more hold.
    """
    mount, polar = _origin(options, config), _grid(options, flat, sidecar, radar)
    reader, frames = lidar_reader(metadata, options.lidar.ts_reference), len(lidar_ts)
    instants, near, errors = None, np.ones(frames, bool), mount.errors(State.standing(frames))
    if ts is not None and radar_ts is not None:
        middle = frame_duration(radar_ts, config, sidecar, radar).middle
        late = find_mount("radar", options.rig, config).time_offset
        near = reader.is_near(ts + middle + late, lidar_ts, options.tolerance)
        instants = corrected("radar", ts, radar_ts, options.times) + middle + late
    beside: list[Iterator[np.ndarray | int]] = []
    columns: Iterator[Poses | None] = itertools.repeat(still_columns(mount.rotation.T, mount, reader.columns))
    if odometry is not None:
        motion = reader.motion(odometry, options.times)
        if instants is not None:  # by the radar's clock
            errors = mount.errors(motion.trajectory.at(instants - mount.time_offset, mount)[0])
        sensors = sensor_poses(motion, lidar_ts, instants, mount)
        grid_from_sensor = np.broadcast_to(np.eye(3), sensors.rot.shape)
        if options.level:
            up, _ = _up(options, config, odometry, imu)
            grid_from_sensor = remove_tilt(sensors.rot, up)
        grids = Poses(matmul(sensors.rot, np.swapaxes(grid_from_sensor, 1, 2)), sensors.pos)
        columns = columns_in(grids, motion, map(motion.trajectory.index, lidar_ts.tolist()), reader.columns)
        if not options.motion:
            turned = matmul(grid_from_sensor, mount.rotation.T)
            columns = (still_columns(rotation, mount, reader.columns) for rotation in turned)
        when, known = lidar_ts if instants is None else instants, others or {}
        for name, entry in parse_json(lidars, "lidars.json").items() if lidars and known else ():
            if name in known:
                place = mount_of_entry(entry, name)
                beside.append(_cells_beside(known[name], place, motion, grids, when, polar, mount, options))
    cells, valid = np.zeros((frames, *polar.shape), "u1"), np.zeros(frames, bool)
    for i, (lidar, *further) in enumerate(zip(itertools.islice(columns, frames), *beside, strict=True)):
        valid[i] = near[i] and lidar is not None and np.isfinite(lidar.rot[0]).all()
        if valid[i] and lidar is not None:
            cells[i] = polar.occupied(reader.sweep(one_sweep(stored, i)), lidar, mount.translation)
            for each in further:
                cells[i] |= each
            valid[i] = share_kept(cells[i], polar, errors[i]) > _KEPT
    return {"occupancy": cells[:, 0] if flat else cells, "valid": valid}


def _cells_beside(
    other: Mapping[str, Any],
    place: Mount,
    motion: SweepMotion,
    grids: Poses,
    when: np.ndarray,
    polar: PolarGrid,
    origin: Mount,
    options: OccupancyOptions,
) -> Iterator[np.ndarray | int]:
    """Cells of another lidar's sweep at each frame; 0 = none, where it has no sweep nearby that can be used.

    Args:
        other: what is given of it; place: its pose in the main lidar's frame; motion: of the main lidar.
        grids: poses in the world of the cells of each frame, f8 (frame, ...); when: f8 (frame,), s, their instants.
        origin: pose in the main lidar's frame of what the cells are around.
    """
    reader, numbers = lidar_reader(other["metadata"], options.lidar.ts_reference), other["sample"]
    beside = reader.motion_beside(motion.trajectory, place, other["ts"], options.times)
    usable = reader.is_near(when, beside.trajectory.ts[numbers] + place.time_offset, options.tolerance)
    usable &= (other["valid"] != 0) & beside.trajectory.valid[numbers]
    sweeps = [number if known else None for number, known in zip(numbers.tolist(), usable, strict=True)]
    for i, columns in enumerate(columns_in(grids, beside, sweeps, reader.columns)):
        if columns is None:
            yield 0
            continue
        sweep = reader.sweep(one_sweep({name: other.get(name) for name in ("rng", "xyz", "count", "time")}, i))
        yield polar.occupied(sweep, columns, origin.seen_from(place).translation)


def inspect_cells(
    *,
    flat: bool,
    options: OccupancyOptions,
    metadata: str | None = None,
    config: str | None = None,
    sidecar: str | None = None,
    radar: str | None = None,
    odometry: Mapping[str, np.ndarray] | None = None,
    imu: Mapping[str, np.ndarray] | None = None,
    radar_ts: np.ndarray | None = None,
    **_: Any,
) -> Inspection:
    """The centres of the cells as `axes.json`, the source of the extrinsics, the instant, and the direction of up."""
    mount = _origin(options, config)
    measured: dict[str, Any] = {"origin": options.origin, **mount.describe()}
    measured |= {"motion": MOVED if options.motion else STILL}
    warnings = mount_warnings("radar", options.rig, mount) if options.origin == "radar" else []
    if options.motion and metadata is not None:
        warnings = [*lidar_reader(metadata, options.lidar.ts_reference).notes, *warnings]
    if radar_ts is not None:
        frame = frame_duration(radar_ts, config, sidecar, radar)
        measured, warnings = measured | frame.describe(), [*warnings, *frame.warnings]
    if options.level and odometry is not None:
        up, source = _up(options, config, odometry, imu)
        measured |= {"up": [round(float(value), 5) for value in up], "up_from": source}
    # Without a radar it is the lidar that the cells are around.
    notes = mount_notes("radar", rig=options.rig, recorded=config) if options.origin == "radar" and radar else ()
    return Inspection(measured, warnings, {AXES: _axes(_grid(options, flat, sidecar, radar))}, notes)


def _origin(options: OccupancyOptions, config: str | None) -> Mount:
    return IDENTITY if options.origin == "lidar" else find_mount("radar", options.rig, config)


@functools.lru_cache(maxsize=8)
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
    imu: Mapping[str, np.ndarray] | None,
) -> tuple[np.ndarray, str]:
    """The direction of up in the world frame, f8 (3,), and where it comes from.

    The mean of what an accelerometer measures over some time is gravity plus the mean acceleration, which is the change
    of velocity by the time. It is not used when it is less than half of gravity or more than one and a half times it.
    """
    first = np.array([0.0, 0.0, 1.0]), "first pose"
    if imu is None or not len(imu["ts"]):
        return first
    trajectory = Trajectory.of(odometry, odometry_clock(odometry, options.times))
    states, ts = trajectory.states.select(trajectory.valid), trajectory.ts[trajectory.valid]
    # Poses and accelerations at the same instants, by the clocks of their sensors.
    there, usable = trajectory.at(clock("imu", imu["ts"], options.times).best, find_mount("imu", options.rig, config))
    usable &= np.isfinite(imu["acc"]).all(axis=1) & (imu["valid"] > 0)
    if not usable.any():
        return first
    acc, seconds = imu["acc"][usable].astype("f8"), float(ts[-1] - ts[0])
    mean = np.einsum("nij,nj->i", there.rot[usable], acc) / len(acc)
    if seconds <= 0 or not 0.5 < np.linalg.norm(mean, axis=0) / 9.81 < 1.5:
        return first
    # Some devices report the specific force, which points up at rest, others gravity, which points down.
    sign = np.sign(matmul(mean, states.rot[:, :, 2].mean(axis=0))) or 1.0
    up = sign * mean - (states.vel[-1] - states.vel[0]) / seconds
    return np.asarray(up / np.linalg.norm(up, axis=0)), "imu"
