"""From sweeps to clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import ndimage

from rover_pipeline.engine.recording import Recording
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.kinematics.sweep import SweepMotion
from rover_pipeline.lidar.geometry import sensor_info, stagger
from rover_pipeline.lidar.panorama import Panorama
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.lidar.sidecar import is_points
from rover_pipeline.lidar.sweeps import LidarReader, lidar_reader
from rover_pipeline.mapping.sweeps import placed, spread_sweeps, stored_sweep
from rover_pipeline.objects.clusters import (
    Clusters,
    Look,
    Points,
    View,
    labels,
    moving_clusters,
    still_clusters,
    thinned,
)
from rover_pipeline.objects.options import ObjectsOptions
from rover_pipeline.objects.tuning import LONG_CAR_M, TUNING

#: Schedule of the sweeps that give evidence: time between them, s, and from the sweep in question, dense near to it and
#: wide far away. What stands for longer than the farthest is seen to move only before and after. Tuned: by hand.
_NEAR_S, _NEAR_SPAN_S = 0.5, 3.0
FAR_S, _FAR_SPAN_S = 2.0, 11.0
# Before that a slow body is still in its own place.
_MIN_SPAN_S = TUNING.surface_m / TUNING.min_speed
#: Edge of a cell of the ground, m. Tuned: by hand.
_CELL_M = 0.5


class Ground(NamedTuple):
    """Heights of the ground."""

    corner: np.ndarray  #: f8 (2,), x and y of the first cell's corner, m.
    height: np.ndarray  #: f8 (x cell, y cell), z of the ground, m.

    @staticmethod
    def of(points: np.ndarray) -> Ground | None:
        """The ground below points, f8 (N, 3) m, z up; None without points.

        The lowest points of cells are opened, as in the progressive filter of Zhang et al. (A progressive
        morphological filter, 2003): what is narrower than a long car, below which no ground is seen, and rises above
        its surroundings is not ground. They are closed before, by a smaller window: pits are false returns.
        """
        if not len(points):
            return None
        corner = np.floor(points[:, :2].min(axis=0) / _CELL_M) * _CELL_M
        cell = ((points[:, :2] - corner) / _CELL_M).astype("i8")
        shape = cell.max(axis=0) + 1
        lowest = np.full(shape, np.inf)
        np.minimum.at(lowest, (cell[:, 0], cell[:, 1]), points[:, 2])
        # Cells without points have the height of the nearest one with some.
        nearest = ndimage.distance_transform_edt(np.isinf(lowest), return_distances=False, return_indices=True)
        closed = ndimage.grey_closing(lowest[tuple(nearest)], size=5, mode="nearest")
        opened = ndimage.grey_opening(closed, size=round(LONG_CAR_M / _CELL_M), mode="nearest")
        return Ground(corner, ndimage.uniform_filter(opened, 3, mode="nearest"))

    def at(self, points: np.ndarray) -> np.ndarray:
        """z of the ground below points, f8 (N, 2 or 3), m; that of the nearest cell outside of the cells."""
        cell = np.clip(((points[:, :2] - self.corner) / _CELL_M).astype("i8"), 0, np.array(self.height.shape) - 1)
        return np.asarray(self.height[cell[:, 0], cell[:, 1]])


def beside_nearer(rng: np.ndarray) -> np.ndarray:
    """Whether the surface of a pixel may go on behind something nearer, beside it: bool (beam, column).

    Args:
        rng: u2 (beam, column), mm, destaggered.
    """
    known = (rng > 0) & (rng != CLIPPED)
    metres = np.where(known, 0.001 * rng, np.inf)
    nearest = np.full(rng.shape, np.inf)
    for columns in range(1, TUNING.window_columns + 1):
        for way in (-columns, columns):
            nearest = np.minimum(nearest, np.roll(metres, way, axis=1))
    margin = 2 * (TUNING.surface_m + TUNING.surface_share * np.where(known, metres, 0))
    return np.asarray(known & (nearest < metres - margin))


@dataclass(frozen=True)
class Detector:
    """Finds the clusters of ranges of sweeps. It can be sent to other processes."""

    read: Callable[[int], np.ndarray]  #: gives u2 (beam, column), mm, destaggered, of a sweep.
    metadata: str
    motion: SweepMotion  #: of the lidar, in a world whose z is up.
    usable: np.ndarray  #: bool (frame,), sweeps with a valid pose.
    options: ObjectsOptions
    origin: float  #: s, time that all times are counted from.

    def __call__(self, start: int, stop: int) -> tuple[Clusters, Clusters]:
        """The clusters that move, and those that do not, of the sweeps `start:stop`."""
        numbers = start + np.flatnonzero(self.usable[start:stop])
        if not len(numbers):
            return Clusters.none(), Clusters.none()
        lidar, view, options = lidar_reader(self.metadata, "start"), View.of(self.metadata), self.options
        columns = lidar.columns
        images = {number: self.read(number) for number in numbers.tolist()}
        poses = {number: self.motion.columns(number, columns) for number in numbers.tolist()}
        times = self.motion.column_times(columns)
        sweeps = []
        for number in numbers.tolist():
            sweep = lidar.sweep({"rng": images[number]})
            cloud = placed(sweep, poses[number], options.min_range, options.max_range)
            beam, column = np.nonzero(np.isfinite(cloud[..., 0]))
            xyz = cloud[beam, column]
            hidden = stagger(beside_nearer(images[number]).astype("u1")[None], sensor_info(self.metadata))[0]
            chosen, ends = thinned(xyz, hidden[beam, column] != 0)
            sweeps.append((xyz[chosen], times[column[chosen]], ends))
        ground = Ground.of(np.concatenate([xyz for xyz, *_ in sweeps]))
        if ground is None:
            return Clusters.none(), Clusters.none()
        looks = self._looks(start, stop, images, poses)
        moving, still = [], []
        for number, (xyz, since, ends) in zip(numbers.tolist(), sweeps, strict=True):
            floor = ground.at(xyz)
            height = xyz[:, 2] - floor
            above = (height >= options.min_height) & (height <= options.max_height)
            stamp = self.motion.trajectory.ts[number]
            others = [look for look in looks if _MIN_SPAN_S <= abs(stamp - look.time) <= look.span]
            found = labels(xyz[above], others, view)
            points = Points(xyz[above], stamp - self.origin + since[above], floor[above], found, ends[above])
            pos = self.motion.trajectory.states.pos[number]
            moving.append(moving_clusters(points, number, pos, view.step, options.min_points))
            if options.still:
                still.append(still_clusters(points, number, pos, view.step, options.min_points))
        return Clusters.joined(moving), Clusters.joined(still)

    def _looks(self, start: int, stop: int, images: dict[int, np.ndarray], poses: dict[int, Poses]) -> list[Look]:
        """The sweeps that give evidence of places in a range of sweeps."""
        ts, interval, looks = self.motion.trajectory.ts, self.motion.interval, []
        near, far = (max(1, round(seconds / interval)) for seconds in (_NEAR_S, FAR_S))
        reach = round(_FAR_SPAN_S / interval)
        for number in range(max(0, start - reach), min(len(ts), stop + reach)):
            span = _FAR_SPAN_S if number % far == 0 else _NEAR_SPAN_S if number % near == 0 else 0.0
            if self.usable[number] and span and ts[start] - span <= ts[number] <= ts[stop - 1] + span:
                image = images[number] if number in images else self.read(number)
                pose = poses[number] if number in poses else self.motion.columns(number, image.shape[1])
                looks.append(Look(float(ts[number]), span, image, pose))
        return looks


# What the search for objects sees of a lidar: its images, or images made of its points.


class LidarView(NamedTuple):
    """Images of a lidar."""

    #: gives u2 (beam, column), mm, destaggered, of a sweep that has a valid pose; other processes can take it.
    read: Callable[[int], np.ndarray]
    metadata: str  #: `lidar.json` of an Ouster sensor that makes such images.
    motion: SweepMotion  #: where the lidar is at their columns.
    notes: tuple[str, ...] = ()  #: what the user should know.


def lidar_view(
    recording: Recording, metadata: str, odometry: Mapping[str, np.ndarray], options: ObjectsOptions
) -> LidarView | None:
    """The images of a recording of `rng`, or of `xyz`, `count` and `time`; None where there are no points at all.

    Points are seen from where the lidar was in the middle of their sweep, all at that instant: the motion within the
    sweep is undone. A car at 10 m/s is then half a metre away from where the first and the last points were seen from,
    which matters only at the edges of what is near.
    """
    lidar = lidar_reader(metadata, options.lidar.ts_reference)
    motion = lidar.motion(odometry, options.times)
    if not is_points(metadata):
        return LidarView(partial(_image, recording), metadata, motion)
    middle = SweepMotion(motion.trajectory, lidar.begin + lidar.duration / 2, 0.0, interval=lidar.period)
    chosen = spread_sweeps(np.flatnonzero(motion.trajectory.valid & (recording.valid != 0)))
    panorama = Panorama.of([lidar.points(stored_sweep(recording, number)) for number in chosen])
    if panorama is None:
        return None
    read = partial(_image_of_points, recording, lidar, motion, middle, panorama)
    return LidarView(read, panorama.metadata(), middle, lidar.notes)


def _image(recording: Recording, number: int) -> np.ndarray:
    return stored_sweep(recording, number)["rng"]


def _image_of_points(
    recording: Recording, lidar: LidarReader, motion: SweepMotion, middle: SweepMotion, panorama: Panorama, number: int
) -> np.ndarray:
    """A sweep of points as an image.

    Args:
        motion: of the lidar; middle: the same in the middle of its sweeps only.
    """
    seen_from = middle.columns(number, 1)
    poses = motion.columns_seen_from(number, lidar.columns, seen_from.rot[0], seen_from.pos[0])
    sweep = lidar.sweep(stored_sweep(recording, number))
    return panorama.image(placed(sweep, poses, 0.0, CLIPPED / 1000).reshape(-1, 3))
