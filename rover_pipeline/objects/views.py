"""What the search for objects sees of a lidar: its images, or images made of its points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rover_pipeline.engine.recording import Recording
from rover_pipeline.kinematics.sweep import SweepMotion
from rover_pipeline.lidar.panorama import Panorama
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.lidar.sidecar import is_points
from rover_pipeline.lidar.sweeps import lidar_reader
from rover_pipeline.mapping.sweeps import placed, spread_sweeps
from rover_pipeline.objects.options import ObjectsOptions


class LidarView(NamedTuple):
    """Images of a lidar.

    Attributes:
        read: gives u2 (beam, column), mm, destaggered, of a sweep that has a valid pose.
        metadata: `lidar.json` of an Ouster sensor that makes such images.
        motion: where the lidar is at their columns.
        notes: what the user should know.
    """

    read: Callable[[int], np.ndarray]
    metadata: str
    motion: SweepMotion
    notes: tuple[str, ...] = ()


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
        return LidarView(_Images(recording), metadata, motion)
    middle = SweepMotion(motion.trajectory, lidar.begin + lidar.duration / 2, 0.0, interval=lidar.period)
    chosen = spread_sweeps(np.flatnonzero(motion.trajectory.valid & (recording.valid != 0)))
    panorama = Panorama.of([lidar.points(_stored(recording, number)) for number in chosen])
    if panorama is None:
        return None
    read = _Points(recording, metadata, options.lidar.ts_reference, motion, middle, panorama)
    return LidarView(read, panorama.metadata(), middle, lidar.notes)


@dataclass(frozen=True)
class _Images:
    """Gives sweeps of a recording of images."""

    recording: Recording

    def __call__(self, number: int) -> np.ndarray:
        return self.recording.read("rng", number, number + 1)[0]


@dataclass(frozen=True)
class _Points:
    """Gives sweeps of points as images. It can be sent to other processes.

    Attributes:
        reference: `lidar.ts_reference`.
        motion: of the lidar; middle: the same in the middle of its sweeps only.
    """

    recording: Recording
    metadata: str
    reference: str
    motion: SweepMotion
    middle: SweepMotion
    panorama: Panorama

    def __call__(self, number: int) -> np.ndarray:
        lidar = lidar_reader(self.metadata, self.reference)
        seen_from = self.middle.columns(number, 1)
        poses = self.motion.columns_seen_from(number, lidar.columns, seen_from.rot[0], seen_from.pos[0])
        sweep = lidar.sweep(_stored(self.recording, number))
        return self.panorama.image(placed(sweep, poses, 0.0, CLIPPED / 1000).reshape(-1, 3))


def _stored(recording: Recording, number: int) -> dict[str, np.ndarray]:
    return {name: recording.read(name, number, number + 1)[0] for name in recording.arguments}
