"""The map of a recording put together: what every range of sweeps is told, and the files in the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import Inspection
from rover_pipeline.kinematics.sweep import SweepMotion
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.lidar.geometry import projection, sensor_info, stagger, sweep_span
from rover_pipeline.mapping.bev import picture
from rover_pipeline.mapping.floor import Floor, find_floor, level
from rover_pipeline.mapping.grid import FREE, OCCUPIED, Frame, Grid, classify, frame_around, pgm, yaml_text
from rover_pipeline.mapping.options import MapStepOptions
from rover_pipeline.mapping.ply import ply
from rover_pipeline.mapping.sweeps import Part, Sensor, add_sweeps, put, reach
from rover_pipeline.mapping.voxels import VoxelMap
from rover_pipeline.numerics.voxel_table import BIAS

#: Sweeps in which the floor is looked for.
_FLOOR_SWEEPS = 8


@dataclass(frozen=True)
class Job:
    """Sums of a range of sweeps; can be sent to other processes.

    Attributes:
        trajectory: of the lidar, in a world whose z is up and whose origin is that of `_odom`.
        floor: below the lidar; its `up` is in the frame of `_odom`.
        frame: cells of the grid.
        chosen: bool (sweep,), which sweeps are used.
    """

    recording: Recording
    metadata: str
    trajectory: Trajectory
    options: MapStepOptions
    floor: Floor
    frame: Frame
    chosen: np.ndarray

    @staticmethod
    def of(recording: Recording, metadata: str, trajectory: Trajectory, options: MapStepOptions) -> Job:
        """Finds the floor, and so which way is up. Raises ValueError when no sweep can be used."""
        usable = trajectory.valid & (recording.valid != 0)
        chosen = np.zeros(recording.count, bool)
        chosen[np.flatnonzero(usable)[:: options.every]] = True
        if not chosen.any():
            raise ValueError(
                f"no sweep to make a map from: of {recording.count} sweeps none is valid in lidar and _odom; leave map "
                "out of `outputs`"
            )
        job = Job(
            recording, metadata, trajectory, options, Floor(np.array([0.0, 0.0, 1.0]), 0.0, True), _NOWHERE, chosen
        )
        floor = job._look_down() if options.lidar_height is None else job.floor._replace(height=options.lidar_height)
        trajectory = trajectory.turned(level(floor.up))
        places = trajectory.states.pos[chosen]
        if np.abs(places).max() + reach(options) >= BIAS * options.voxel:
            raise ValueError(
                f"the trajectory leaves the map, {BIAS * options.voxel:.0f} m to each side; is _odom right?"
            )
        # Columns are seen from where the lidar is at their instants, up to a sweep away from that of the time stamp.
        speed = float(np.linalg.norm(trajectory.states.vel[chosen], axis=1).max())
        around = reach(options) + speed * job._sweep_span()[1]
        frame = frame_around(places[:, :2], around, options.resolution, options.max_cells)
        return replace(job, trajectory=trajectory, floor=floor, frame=frame)

    def __call__(self, start: int, stop: int) -> Part | None:
        numbers = [number for number in range(start, stop) if self.chosen[number]]
        if not numbers:
            return None
        motion = self._motion()
        return add_sweeps(self._read, numbers, self._sensor(), motion, self.floor.height, self.frame, self.options)

    def _read(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        info = sensor_info(self.metadata)
        rng, rfl = (self.recording.read(name, number, number + 1) for name in ("rng", "rfl"))
        pixels = info.format
        if rng.shape[1:] != (shape := (pixels.pixels_per_column, pixels.columns_per_frame)):
            raise ValueError(f"lidar.json is of a sensor with {shape} pixels, the ranges have {rng.shape[1:]}")
        return stagger(rng, info)[0], stagger(rfl, info)[0]

    def _sensor(self) -> Sensor:
        pixels = sensor_info(self.metadata).format
        return Sensor(projection(self.metadata), np.asarray(pixels.pixel_shift_by_row), pixels.columns_per_frame)

    def _sweep_span(self) -> tuple[float, float]:
        return sweep_span(sensor_info(self.metadata), self.options.lidar.ts_reference)

    def _motion(self) -> SweepMotion:
        return SweepMotion(self.trajectory, *self._sweep_span())

    def _look_down(self) -> Floor:
        numbers = np.flatnonzero(self.chosen)
        numbers = numbers[np.unique(np.linspace(0, len(numbers) - 1, _FLOOR_SWEEPS).astype(int))]
        sensor, motion, sweeps = self._sensor(), self._motion(), []
        for number in numbers.tolist():
            rng, _ = self._read(number)
            points, poses = np.empty((*rng.shape, 3)), motion.columns(number, sensor.columns)
            put(rng, sensor, poses, self.options, points)
            sweeps.append((points - poses.pos).reshape(-1, 3))
        return find_floor(sweeps)


_NOWHERE = Frame(0, 0, 1, 1, 1.0)


def publish(job: Job, parts: Iterable[Part | None]) -> tuple[dict[str, bytes], Inspection]:
    """The files of a map, and figures about it.

    Raises:
        ValueError: there are no points at all, or none at the heights asked for.
    """
    options, floor = job.options, job.floor
    voxels, grid = VoxelMap(options.voxel, options.max_voxels), Grid(job.frame)
    low, high, in_band = np.inf, -np.inf, 0
    for part in filter(None, parts):
        voxels.merge(part.voxels)
        grid.add(part.seen)
        low, high = min(low, part.heights[0]), max(high, part.heights[1])
        in_band += part.in_band
    used = int(job.chosen.sum())
    if not len(voxels):
        raise ValueError(
            f"the map is empty: {used} sweeps have no return from map.min_range = {options.min_range:g} to "
            f"map.max_range = {options.max_range:g} m"
        )
    low, high = low + floor.height, high + floor.height
    if not in_band:
        raise ValueError(
            f"the occupancy grid is empty: map.z_min = {options.z_min:g} to map.z_max = {options.z_max:g} m above the "
            f"floor were asked for, the points are from {low:.2f} to {high:.2f} m above it (the lidar at "
            f"{floor.height:.2f} m); set map.z_min and map.z_max, or map.lidar_height"
        )
    grid = grid.cropped()
    cells = classify(grid, options.occupied_above)
    cloud = voxels.cloud()
    path = np.where(job.trajectory.valid[:, None], job.trajectory.states.pos[:, :2], np.nan)
    measured = {
        "sweeps": used,
        "points": len(cloud.xyz),
        "voxel_m": voxels.edge,
        "resolution_m": grid.frame.edge,
        "cells": [grid.frame.height, grid.frame.width],
        "occupied_cells": int((cells == OCCUPIED).sum()),
        "free_cells": int((cells == FREE).sum()),
        "lidar_height_m": round(floor.height, 4),
        "up": [round(float(value), 6) for value in floor.up],
        "heights_m": [round(float(low), 3), round(float(high), 3)],
    }
    remarks = (
        f"Seen from above: z is the direction {measured['up']} of _odom, the origin is that of _odom.",
        f"Occupied where something stands {options.z_min:g} to {options.z_max:g} m above the floor.",
    )
    files = {
        "map.ply": ply(
            cloud.xyz @ level(floor.up),  # back to the frame of _odom: the inverse of a rotation is its transpose
            (f"frame of _odom, m; mean points of voxels of {voxels.edge:g} m",),
            intensity=cloud.intensity,
            count=cloud.counts,
        ),
        "occupancy.pgm": pgm(cells),
        "occupancy.yaml": yaml_text(grid.frame, "occupancy.pgm", remarks).encode(),
        "bev.png": picture(grid, cells, path, options.z_min, options.z_max),
    }
    return files, Inspection(measured, _warnings(job, voxels.edge))


def _warnings(job: Job, edge: float) -> list[str]:
    options, found = job.options, []
    if not job.floor.found:
        found.append(
            f"no floor was found below the lidar; the lowest points, {job.floor.height:.2f} m below it, are taken for "
            "it. If that is wrong set map.lidar_height"
        )
    if edge != options.voxel:
        found.append(f"voxels are {edge:g} m instead of {options.voxel:g} m to keep within map.max_voxels")
    if job.frame.edge != options.resolution:
        found.append(f"cells are {job.frame.edge:g} m instead of {options.resolution:g} m to keep within map.max_cells")
    return found
