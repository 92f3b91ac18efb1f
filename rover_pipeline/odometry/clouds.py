"""How sweeps come into the odometry: as range images, or as points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rover_pipeline.engine.recording import Recording
from rover_pipeline.kinematics.options import OwnRegion
from rover_pipeline.lidar.sweeps import LidarReader, lidar_reader
from rover_pipeline.odometry.observations import COLUMNS, HELD_OUT, NO_POINTS, Points, PointSelection, Sweep, one_in
from rover_pipeline.odometry.options import OdometryOptions

#: Sweeps that are read at once, and kept together. Schedule.
BLOCK = 16


#: A sweep as it was read: a destaggered range image, u2 (beam, column), mm, or all of its points, whose columns, those
#: of equal time (see `COLUMNS`), are in any order.
Scan = np.ndarray | Points


@dataclass
class ScanReader:
    """Reads sweeps of a recording, and selects what is registered of them."""

    recording: Recording  #: of `rng`, or of `xyz`, `count` and, where points have times, `time`.
    options: OdometryOptions
    metadata: str  #: `lidar.json`.
    own: tuple[OwnRegion, ...] = ()  #: where the rig itself is seen, which is left out.
    density: int = 1  #: how many times as many points as the options ask for are registered.

    @property
    def lidar(self) -> LidarReader:
        return lidar_reader(self.metadata, self.options.lidar.ts_reference)

    def scans(self, start: int, stop: int) -> Iterator[Scan]:
        """The sweeps `start:stop` in order."""
        for first in range(start, stop, BLOCK):
            last = min(first + BLOCK, stop)
            if "xyz" not in self.recording.arguments:
                images = self.recording.read("rng", first, last)
                yield from images
                continue
            blocks = {name: self.recording.read(name, first, last) for name in self.recording.arguments}
            for number in range(last - first):
                yield self._cloud({name: block[number] for name, block in blocks.items()})

    def sweep(self, scan: Scan, number: int, stamp: float) -> Sweep:
        """What is registered of a sweep; see `PointSelection.sweep`."""
        if isinstance(scan, Points):
            found = self._of_cloud(scan, number, stamp)
        else:
            found = self._images.sweep(scan, number, stamp)
        return found.changed(lambda each: each.where(outside(each.points, self.own))) if self.own else found

    def _cloud(self, stored: Mapping[str, np.ndarray]) -> Points:
        lidar = self.lidar
        cloud = Points(lidar.points(stored), lidar.columns_of(stored, min(COLUMNS, lidar.columns)))
        return cloud.where(np.isfinite(cloud.points).all(1))  # all of them, unless the recording is damaged

    @cached_property
    def _images(self) -> PointSelection:
        return PointSelection(self.metadata, self.options, self.density)

    def _of_cloud(self, cloud: Points, number: int, stamp: float) -> Sweep:
        """Some of the points of a sweep, spread over it. Others are taken from one sweep to the next."""
        lidar, options = self.lidar, self.options
        columns = min(COLUMNS, lidar.columns)
        times = lidar.begin + lidar.duration * np.arange(columns) / columns
        distance = np.linalg.norm(cloud.points, axis=1)
        inside = np.flatnonzero((distance >= options.min_range) & (distance <= options.max_range))
        every = one_in(len(inside), options.points, self.density)
        chosen = inside[number % every :: every]
        held_out = NO_POINTS
        if every > 1:
            held_out = _in_order(cloud, inside[(number + every // 2) % every :: every][::HELD_OUT])
        return Sweep(*_in_order(cloud, chosen), stamp + times, stamp, held_out)


def is_same(scan: Scan, other: Scan) -> bool:
    """Whether two sweeps are equal to the last digit, as those are that were stored twice."""
    if isinstance(scan, Points) or isinstance(other, Points):
        return isinstance(scan, Points) and isinstance(other, Points) and np.array_equal(scan.points, other.points)
    # Nearly all sweeps differ in their first row already.
    return np.array_equal(scan[:1], other[:1]) and np.array_equal(scan, other)


def _in_order(cloud: Points, chosen: np.ndarray) -> Points:
    """Some of the points, in the order of their columns."""
    chosen = chosen[np.argsort(cloud.column[chosen], kind="stable")]
    return Points(np.ascontiguousarray(cloud.points[chosen]), cloud.column[chosen])


def outside(points: np.ndarray, regions: Sequence[OwnRegion]) -> np.ndarray:
    """Which points, f4 (N, 3), m, lidar frame, are in none of the regions of the rig itself; bool (N,).

    Half a view of a board or a mast holds a rig where it is. People who walk along stand still in the lidar's frame as
    well, and ranges cannot distinguish them. So only what the user declares (`rig.own`) is left out.
    """
    inside = np.zeros(len(points), bool)
    x, y, z = points.astype("f8").T
    for region in regions:
        if region.box is not None:
            low, high = np.array(region.box)
            inside |= ((points >= low) & (points <= high)).all(1)
            continue
        flat = np.hypot(x, y)
        start, stop = region.azimuth
        turned = (np.degrees(np.arctan2(y, x)) - start) % 360
        up = np.degrees(np.arctan2(z, flat))
        found = (np.hypot(flat, z) <= region.range) & (up >= region.elevation[0]) & (up <= region.elevation[1])
        inside |= found & (turned <= stop - start)
    return ~inside
