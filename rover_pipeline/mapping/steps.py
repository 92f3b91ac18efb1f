"""Folder of files `_map`: the map of a recording, from its lidar and the lidar's trajectory."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from rover_pipeline.camera.pictures import encode_picture
from rover_pipeline.draw.map_view import map_picture
from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import Inspection
from rover_pipeline.errors import UnfitError, counted
from rover_pipeline.format.texts import parse_json
from rover_pipeline.kinematics.mount import mount_of_entry
from rover_pipeline.kinematics.sweep import SweepMotion
from rover_pipeline.lidar.sweeps import lidar_reader
from rover_pipeline.mapping.floor import Floor, levelling, turned_up
from rover_pipeline.mapping.grid import (
    FREE,
    OCCUPIED,
    UNKNOWN,
    CellCounts,
    Extent,
    Grid,
    LocalGrid,
    classify,
    yaml_text,
)
from rover_pipeline.mapping.mirrors import Boxes, Mirror, find_mirrors
from rover_pipeline.mapping.options import MapStepOptions
from rover_pipeline.mapping.ply import ply
from rover_pipeline.mapping.sweeps import max_distance, placed, spread_floor, stored_sweep
from rover_pipeline.mapping.voxels import PointTable, VoxelMap
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.numerics.voxel_table import BIAS

#: Maximum number of sweeps that are summed at once, and of frames that they are taken from: the cells around them are
#: held as an array. Sums of integers do not depend on their order. Schedule.
_SWEEPS, _FRAMES = 8, 40
#: Number of sums that are held at once: enough for sixteen threads. Schedule.
_HELD = 16


def build(
    recording: Recording,
    *,
    metadata: str,
    odometry: Mapping[str, np.ndarray],
    options: MapStepOptions,
    objects: Mapping[str, np.ndarray] | None = None,
    lidars: str = "{}",
    up: str | None = None,
) -> tuple[dict[str, bytes], Inspection]:
    """The map of all sweeps with a valid pose.

    Args:
        recording: of `rng` and `rfl`, destaggered, or of `xyz`, `count`, `time` and `intensity`.
        metadata: `lidar.json`, of images or of points.
        odometry: the channels of `_odom`.
        objects: channels of `_objects`, if what moves is left out. Then only the lidar of `_odom` makes the map.
        lidars: `lidars.json` of `_odom`: where the other lidars are, by name; up: its `up.json`.

    Raises:
        ValueError: `_odom` or `_objects` is of other sweeps, the trajectory leaves the map, or the grid is empty.
        UnfitError: `_odom` has no valid pose, or the sweeps have no return at the distances of the map.
    """
    if not np.array_equal(odometry["ts"], recording.ts):
        raise ValueError("_odom/ts differs from that of the lidar; make both again from this lidar")
    if objects is not None and not np.array_equal(objects["ts"], recording.ts):
        raise ValueError("_objects/ts differs from that of the lidar; make both again from this lidar")
    lidar = lidar_reader(metadata, options.lidar.ts_reference)
    motion = lidar.motion(odometry, options.times)
    numbers = np.flatnonzero(motion.trajectory.valid & (recording.valid != 0))[:: options.every]
    if not len(numbers):
        raise UnfitError(f"none of {counted(recording.count, 'sweep')} is valid in lidar and _odom: a map needs poses")
    stored, limits = partial(stored_sweep, recording), (options.min_range, options.max_range)
    if options.lidar_height is None:
        floor = spread_floor(stored, lidar, motion, numbers, limits, up)
    else:
        floor = Floor(turned_up(up)[2], options.lidar_height, True)
    boxes = None if objects is None else Boxes.of(objects, levelling(floor.up))
    motion = motion.rotated(levelling(floor.up))
    states = motion.trajectory.states.select(numbers)
    if np.abs(states.pos).max() + max_distance(options) >= BIAS * options.voxel:
        raise ValueError(
            f"the trajectory leaves the map, which ends {BIAS * options.voxel:.0f} m from the start in each "
            "direction; look whether _odom is right"
        )
    # The lidar's position at a column differs from that at the time stamp by the motion in up to one sweep.
    speed = float(np.linalg.norm(states.vel, axis=1).max())
    margin = max_distance(options) + speed * motion.period
    extent = Extent.around(states.pos[:, :2], margin, options.resolution, options.max_cells)
    builder = _MapBuilder(recording, metadata, motion, options, floor, extent, numbers, boxes)
    others = {} if boxes else parse_json(lidars, "lidars.json")
    builders = [builder, *(builder.beside(name, others[name]) for name in recording.others if name in others)]
    size = options.every * max(1, min(_SWEEPS, _FRAMES // options.every))
    counts = [each.recording.count for each in builders]
    ranges = [[(start, min(start + size, count)) for start in range(0, count, size)] for count in counts]
    parts = (recording.map(each, part, held=_HELD) for each, part in zip(builders, ranges, strict=True))
    return _files(builders, itertools.chain.from_iterable(parts))


@dataclass(frozen=True)
class _MapBuilder:
    """Maps ranges of sweeps. It can be sent to other processes."""

    recording: Recording
    metadata: str
    motion: SweepMotion  #: of the lidar, in a world whose z is up and whose origin is that of `_odom`.
    options: MapStepOptions
    floor: Floor  #: below this lidar; its `up` is in the frame of `_odom`.
    extent: Extent  #: of the grid.
    numbers: np.ndarray  #: of the sweeps that are used, ascending.
    boxes: Boxes | None  #: of what moves, if it is left out.

    def beside(self, name: str, entry: Mapping[str, Any]) -> _MapBuilder:
        """The same of another lidar, which is where an entry of `lidars.json` says."""
        other, mount = self.recording.others[name], mount_of_entry(entry, name)
        metadata = other.texts["metadata"]
        lidar = lidar_reader(metadata, self.options.lidar.ts_reference)
        motion = lidar.motion_beside(self.motion.trajectory, mount, other.ts, self.options.times)
        numbers = np.flatnonzero(motion.trajectory.valid & (other.valid != 0))[:: self.options.every]
        main = self.motion.trajectory.at(motion.trajectory.ts[numbers])[0].pos[:, 2]
        here = motion.trajectory.states.pos[numbers, 2]
        above = float(np.mean(here - main)) if len(numbers) else 0.0
        floor = self.floor._replace(height=self.floor.height + above)
        return replace(self, recording=other, metadata=metadata, motion=motion, numbers=numbers, floor=floor)

    def __call__(self, start: int, stop: int) -> tuple[np.ndarray, CellCounts, int] | None:
        """Voxels, as `PointTable.rows` gives them, cells, and the number of returns that were left out because they
        move, of the sweeps in a range; None when none is used."""
        numbers = self.numbers[(self.numbers >= start) & (self.numbers < stop)].tolist()
        if not numbers:
            return None
        options = self.options
        lidar = lidar_reader(self.metadata, options.lidar.ts_reference)
        poses = [self.motion.columns(number, lidar.columns) for number in numbers]
        positions = np.concatenate([each.pos[:, :2] for each in poses])
        extent = Extent.around(positions, max_distance(options), self.extent.edge)
        cells = LocalGrid(extent, np.array([0.0, options.z_min, options.z_max]) - self.floor.height)
        voxels = PointTable(options.voxel)
        since, removed = self.motion.column_times(lidar.columns), 0
        for number, pose in zip(numbers, poses, strict=True):
            stored = stored_sweep(self.recording, number)
            sweep = lidar.sweep(stored)
            points = placed(sweep, pose, options.min_range, options.max_range)
            if self.boxes is not None:
                removed += self.boxes.remove(points, number, since)
            voxels.add(points.reshape(-1, 3), lidar.intensity(stored).ravel())
            cells.add(points, pose.pos, lidar.sectors(sweep))
        counts = cells.counts(self.extent)
        return voxels.rows(), counts._replace(heights=counts.heights + self.floor.height), removed


def _files(
    builders: Sequence[_MapBuilder], parts: Iterable[tuple[np.ndarray, CellCounts, int] | None]
) -> tuple[dict[str, bytes], Inspection]:
    """The files of a map by name, and figures about it.

    Raises:
        UnfitError: there are no points at all.
        ValueError: there are none at the heights of the grid.
    """
    builder = builders[0]
    options, floor = builder.options, builder.floor
    voxels, grid = VoxelMap(options.voxel, options.max_voxels), Grid(builder.extent)
    low, high, in_band, removed = np.inf, -np.inf, 0, 0
    for rows, counts, moving in filter(None, parts):
        removed += moving
        voxels.merge(rows)
        grid.add(counts)
        low, high = min(low, counts.heights[0]), max(high, counts.heights[1])
        in_band += counts.in_band
    used = sum(len(each.numbers) for each in builders)
    if not len(voxels):
        raise UnfitError(
            f"{counted(used, 'sweep has', 'sweeps have')} no return from map.min_range = {options.min_range:g} to "
            f"map.max_range = {options.max_range:g} m"
        )
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
    above_floor = cloud.xyz + np.array([0.0, 0.0, floor.height])
    heights = options.z_min, options.z_max
    mirrors = find_mirrors(above_floor, trajectory.states.pos[trajectory.valid], heights)
    described = [_described(mirror, int(mirror.seen_in(above_floor).sum()), floor.up) for mirror in mirrors]
    measured: dict[str, Any] = {
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
        **({} if builder.boxes is None else {"returns_left_out": removed}),
        **({"mirrors": described} if described else {}),
    }
    remarks = (
        f"Seen from above: z is the direction {measured['up']} of _odom, the origin is that of _odom.",
        f"Occupied where something stands {options.z_min:g} to {options.z_max:g} m above the floor.",
    )
    files = {
        "map.ply": ply(
            # Back to the frame of _odom: the inverse of a rotation is its transpose.
            matmul(cloud.xyz, levelling(floor.up)),
            (f"frame of _odom, m; mean points of voxels of {voxels.edge:g} m",),
            intensity=cloud.intensity,
            count=cloud.counts,
        ),
        "occupancy.pgm": encode_picture(".pgm", cells[::-1]),
        "occupancy.yaml": yaml_text(grid.extent, "occupancy.pgm", remarks).encode(),
        "bev.png": map_picture(
            grid.tops, cells == FREE, cells == UNKNOWN, grid.extent.corner, grid.extent.edge, path, *heights
        ),
    }
    warnings = [_mirror_warning(mirror, len(cloud.xyz)) for mirror in measured.get("mirrors", ())]
    return files, Inspection(measured, _warnings(builder, voxels.edge) + warnings)


def _described(mirror: Mirror, points: int, up: np.ndarray) -> dict[str, Any]:
    """A mirror in the frame of `_odom`: its point that is nearest to the origin, its normal, and what it explains."""
    normal = matmul(np.array([*mirror.normal, 0.0]), levelling(up))
    return {
        "point": [round(float(value), 3) for value in mirror.distance * normal],
        "normal": [round(float(value), 4) for value in normal],
        "explained": round(float(mirror.explained), 3),
        "if_moved": round(float(mirror.moved), 3),
        "points": points,
    }


def _mirror_warning(mirror: dict[str, Any], points: int) -> str:
    point, normal = (", ".join(f"{value:.2f}" for value in mirror[key]) for key in ("point", "normal"))
    return (
        f"{mirror['points']} of {points} points are the mirror image of what stands before the plane through ({point}) "
        f"with the normal ({normal}): there is a mirror or a window, unless the place is built symmetrically"
    )


def _warnings(builder: _MapBuilder, edge: float) -> list[str]:
    options, extent = builder.options, builder.extent
    warnings = [*lidar_reader(builder.metadata, options.lidar.ts_reference).notes]
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
