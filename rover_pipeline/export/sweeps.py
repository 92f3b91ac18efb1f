"""Deskewed sweeps of the lidar with their poses, for formats in which a sweep is taken at one instant."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.texts import read_text
from rover_pipeline.kinematics.state import Poses, State
from rover_pipeline.lidar.geometry import destagger, sensor_info
from rover_pipeline.lidar.points_step import of_points, points
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.lidar.sidecar import read_points
from rover_pipeline.lidar.sweeps import Sweep as LidarSweep
from rover_pipeline.lidar.sweeps import lidar_reader
from rover_pipeline.report.read.rig import clock_options, whole_sensor


class Sweep(NamedTuple):
    """The returns of a sweep.

    Attributes:
        xyz: f4 (N, 3), m, in the frame that the lidar had at the sweep's time stamp, front-left-up.
        rfl: u1 (N,), reflectivity; None where the lidar has none.
    """

    xyz: np.ndarray
    rfl: np.ndarray | None


class RawSweeps:
    """The sweeps of a lidar of either kind, as they were recorded. Can be shared by threads.

    Attributes:
        sensor: that holds them; channels: of it, that they are read from.
        reader: gives their places.

    Raises:
        FormatError: the lidar has neither ranges nor points.
    """

    def __init__(self, trace: Path, reference: str) -> None:
        self.sensor = Sensor(trace / "lidar")
        metadata = read_text(trace / "lidar" / "lidar.json")
        has_points, known = lidar_channels(self.sensor)
        self.channels = tuple(name for name in known if name not in ("rfl", "intensity"))
        self.reader = lidar_reader(metadata, reference)
        self._info = None if has_points else sensor_info(metadata)

    def read(self, number: int) -> LidarSweep:
        """One sweep. Raises SampleError when it cannot be decoded."""
        stored = {name: self.sensor.channel(name).read(number, number + 1)[0] for name in self.channels}
        if self._info is not None:
            stored = {name: destagger(image[None], self._info)[0] for name, image in stored.items()}
        return self.reader.sweep(stored)


def lidar_channels(lidar: Sensor) -> tuple[bool, tuple[str, ...]]:
    """Whether a lidar is points, and which channels its sweeps are read from.

    Raises:
        FormatError: it has neither ranges nor points.
    """
    has_points = "xyz" in lidar.specs and "rng" not in lidar.specs
    known = ("xyz", "count", "time", "intensity") if has_points else ("rng", "rfl")
    if known[0] not in lidar.specs:
        raise FormatError(f"{lidar.path}: has neither ranges (rng) nor points (xyz); there are no sweeps")
    return has_points, tuple(name for name in known if name in lidar.specs)


class PosedSweeps:
    """The sweeps whose pose is known. Can be shared by threads.

    Attributes:
        ts: f8 (N,), time stamps of all sweeps, s, as recorded.
        poses: f8 (N, ...), world-from-lidar at `ts`.
        good: indices of the sweeps that are valid and have a valid pose.
        has_points: whether the lidar is points and has no images.

    Raises:
        FormatError: no sweep has a valid pose.
    """

    def __init__(self, trace: Path) -> None:
        self._lidar = Sensor(trace / "lidar")
        self._metadata = read_text(trace / "lidar" / "lidar.json")
        self._options = clock_options(trace)
        self._odometry = whole_sensor(trace / "_odom", *State._fields)
        self.has_points, self._channels = lidar_channels(self._lidar)
        self.ts = self._odometry["ts"]
        self.poses = Poses(self._odometry["rot"], self._odometry["pos"])
        count = min(len(self.ts), self._lidar.length(truncate=True, channels=self._channels))
        if not np.array_equal(self._lidar.times(count), self.ts[:count]):
            raise FormatError(f"{trace / '_odom'}: is not of this lidar: their ts differ; make it again")
        good = self._lidar.valid(count).astype(bool) & self._odometry["valid"][:count].astype(bool)
        good &= np.isfinite(self.poses.pos[:count]).all(1) & np.isfinite(self.poses.rot[:count]).all((1, 2))
        self.good = np.flatnonzero(good)
        if not len(self.good):
            raise FormatError(f"{trace / '_odom'}: none of its {len(self.ts)} poses is valid; nothing can be exported")

    def read(self, number: int) -> Sweep:
        """One of the `good` sweeps, deskewed. Raises SampleError when it cannot be decoded."""
        return self.deskewed(number, self.images(number))

    def images(self, number: int) -> dict[str, np.ndarray]:
        """`rng`, u2 mm, and `rfl`, u1, where the lidar has it, (beam, column), columns in time order; or the points."""
        return {name: self._lidar.channel(name).read(number, number + 1)[0] for name in self._channels}

    def destaggered(self, images: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The same with columns at equal azimuth, and 0 where a range was clipped."""
        info = sensor_info(self._metadata)
        aligned = {name: destagger(image[None], info)[0] for name, image in images.items()}
        aligned["rng"][aligned["rng"] == CLIPPED] = 0
        return aligned

    def deskewed(self, number: int, images: dict[str, np.ndarray]) -> Sweep:
        """The returns in the `images` of a sweep."""
        if self.has_points:
            return self._deskewed_points(number, images)
        read = {name: image[None] for name, image in images.items()}
        none = np.zeros_like(read["rng"], "u1")
        made = points(
            read["rng"],
            read.get("rfl", none),
            none,
            self.ts[number : number + 1],
            options=self._options,
            metadata=self._metadata,
            odometry=self._odometry,
        )
        is_return = np.isfinite(made["xyz"][0]).all(-1)
        return Sweep(made["xyz"][0][is_return], made["rfl"][0][is_return] if "rfl" in read else None)

    def _deskewed_points(self, number: int, stored: dict[str, np.ndarray]) -> Sweep:
        """The same of a lidar that is points. Those of unknown motion are taken as they are."""
        made = of_points(
            **{name: values[None] for name, values in stored.items() if name != "intensity"},
            ts=self.ts[number : number + 1],
            options=self._options,
            metadata=self._metadata,
            odometry=self._odometry,
        )
        xyz = made["xyz"][0][: int(stored["count"])]
        if "intensity" not in stored:
            return Sweep(xyz, None)
        share = np.nan_to_num(stored["intensity"][: len(xyz)] / read_points(self._metadata).full_intensity)
        return Sweep(xyz, np.clip(np.round(255 * share), 0, 255).astype("u1"))
