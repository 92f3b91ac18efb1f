"""The map of a recording: sums over ranges of sweeps, and the files that they become."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import Inspection
from rover_pipeline.kinematics.sweep import SweepMotion
from rover_pipeline.lidar.geometry import sensor_info, stagger
from rover_pipeline.mapping.bev import picture
from rover_pipeline.mapping.floor import Floor, find_floor, levelling
from rover_pipeline.mapping.grid import FREE, OCCUPIED, Extent, Grid, classify, extent_around, pgm, yaml_text
from rover_pipeline.mapping.options import MapStepOptions
from rover_pipeline.mapping.ply import ply
from rover_pipeline.mapping.sweeps import PartialMap, Sensor, map_sweeps, max_distance, project_to_map
from rover_pipeline.mapping.voxels import VoxelMap
from rover_pipeline.numerics.voxel_table import BIAS

#: Number of sweeps that the floor is estimated from.
_FLOOR_SWEEPS = 8


@dataclass(frozen=True)
class MapBuilder:
    """Maps ranges of sweeps. It can be sent to other processes.

    Attributes:
        motion: of the lidar, in a world whose z is up and whose origin is that of `_odom`.
        floor: below the lidar; its `up` is in the frame of `_odom`.
        extent: of the grid.
        selected: bool (sweep,), which sweeps are used.
    """

    recording: Recording
    metadata: str
    motion: SweepMotion
    options: MapStepOptions
    floor: Floor
    extent: Extent
    selected: np.ndarray

    @staticmethod
    def of(recording: Recording, metadata: str, motion: SweepMotion, options: MapStepOptions) -> MapBuilder:
        """Estimate the floor, and rotate the world so that its z is the floor's normal.

        Args:
            motion: of the lidar, in the frame of `_odom`.

        Raises:
            ValueError: no sweep can be used, or the trajectory is longer than the largest map.
        """
        selected = np.zeros(recording.count, bool)
        selected[np.flatnonzero(motion.trajectory.valid & (recording.valid != 0))[:: options.every]] = True
        if not selected.any():
            raise ValueError(
                f"no sweep to make a map from: of {recording.count} sweeps none is valid in lidar and _odom; leave map "
                "out of `outputs`"
            )
        height = 0.0 if options.lidar_height is None else options.lidar_height
        floor, extent = Floor(np.array([0.0, 0.0, 1.0]), height, True), Extent(0, 0, 1, 1, 1.0)
        builder = MapBuilder(recording, metadata, motion, options, floor, extent, selected)
        if options.lidar_height is None:
            floor = builder._find_floor()
        motion = motion.rotated(levelling(floor.up))
        states = motion.trajectory.states.select(selected)
        if np.abs(states.pos).max() + max_distance(options) >= BIAS * options.voxel:
            raise ValueError(
                f"the trajectory leaves the map, which ends {BIAS * options.voxel:.0f} m from the start in each "
                "direction; look whether _odom is right"
            )
        # The lidar's position at a column differs from that at the time stamp by the motion in up to one sweep.
        speed = float(np.linalg.norm(states.vel, axis=1).max())
        margin = max_distance(options) + speed * motion.period
        extent = extent_around(states.pos[:, :2], margin, options.resolution, options.max_cells)
        return replace(builder, motion=motion, floor=floor, extent=extent)

    def __call__(self, start: int, stop: int) -> PartialMap | None:
        """The part of the map that the selected sweeps of a range make; None when there are none."""
        numbers = [number for number in range(start, stop) if self.selected[number]]
        if not numbers:
            return None
        sensor = Sensor.of(self.metadata)
        return map_sweeps(self._read, numbers, sensor, self.motion, self.floor.height, self.extent, self.options)

    def _read(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        info = sensor_info(self.metadata)
        rng, rfl = (self.recording.read(name, number, number + 1) for name in ("rng", "rfl"))
        return stagger(rng, info)[0], stagger(rfl, info)[0]

    def _find_floor(self) -> Floor:
        numbers = np.flatnonzero(self.selected)
        numbers = numbers[np.unique(np.linspace(0, len(numbers) - 1, _FLOOR_SWEEPS).astype(int))]
        sensor, sweeps = Sensor.of(self.metadata), []
        for number in numbers.tolist():
            points = np.empty((*sensor.sectors.shape, 3))
            poses = self.motion.columns(number, points.shape[1])
            project_to_map(self._read(number)[0], sensor, poses, self.options, points)
            sweeps.append((points - poses.pos).reshape(-1, 3))
        return find_floor(sweeps)


def map_files(builder: MapBuilder, parts: Iterable[PartialMap | None]) -> tuple[dict[str, bytes], Inspection]:
    """The files of a map by name, and figures about it.

    Raises:
        ValueError: there are no points at all, or none at the heights of the grid.
    """
    options, floor = builder.options, builder.floor
    voxels, grid = VoxelMap(options.voxel, options.max_voxels), Grid(builder.extent)
    low, high, in_band = np.inf, -np.inf, 0
    for part in filter(None, parts):
        voxels.merge(part.voxels)
        grid.add(part.counts)
        low, high = min(low, part.heights[0]), max(high, part.heights[1])
        in_band += part.in_band
    used = int(builder.selected.sum())
    if not len(voxels):
        raise ValueError(
            f"the map is empty: {used} sweeps have no return from map.min_range = {options.min_range:g} to "
            f"map.max_range = {options.max_range:g} m"
        )
    low, high = low + floor.height, high + floor.height
    if not in_band:
        raise ValueError(
            f"the occupancy grid is empty: it shows heights from map.z_min = {options.z_min:g} to map.z_max = "
            f"{options.z_max:g} m above the floor, but the points are from {low:.2f} to {high:.2f} m above it (the "
            f"lidar is at {floor.height:.2f} m); set map.z_min and map.z_max, or map.lidar_height"
        )
    grid = grid.cropped()
    cells = classify(grid, options.occupied_above)
    cloud = voxels.cloud()
    trajectory = builder.motion.trajectory
    path = np.where(trajectory.valid[:, None], trajectory.states.pos[:, :2], np.nan)
    measured = {
        "sweeps": used,
        "points": len(cloud.xyz),
        "voxel_m": voxels.edge,
        "resolution_m": grid.extent.edge,
        "cells": [grid.extent.height, grid.extent.width],
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
            cloud.xyz @ levelling(floor.up),  # back to the frame of _odom: the inverse of a rotation is its transpose
            (f"frame of _odom, m; mean points of voxels of {voxels.edge:g} m",),
            intensity=cloud.intensity,
            count=cloud.counts,
        ),
        "occupancy.pgm": pgm(cells),
        "occupancy.yaml": yaml_text(grid.extent, "occupancy.pgm", remarks).encode(),
        "bev.png": picture(grid, cells, path, options.z_min, options.z_max),
    }
    return files, Inspection(measured, _warnings(builder, voxels.edge))


def _warnings(builder: MapBuilder, edge: float) -> list[str]:
    options, extent = builder.options, builder.extent
    warnings = []
    if not builder.floor.is_plane:
        warnings.append(
            f"no floor was found below the lidar; the lowest points, {builder.floor.height:.2f} m below it, are taken "
            "for it. If that is wrong set map.lidar_height"
        )
    if edge != options.voxel:
        warnings.append(f"voxels are {edge:g} m instead of {options.voxel:g} m to keep within map.max_voxels")
    if extent.edge != options.resolution:
        warnings.append(f"cells are {extent.edge:g} m instead of {options.resolution:g} m to keep within map.max_cells")
    return warnings
