"""Deskewed sweeps of the lidar with their poses, for formats in which a sweep is taken at one instant."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.errors import FormatError, SampleError
from rover_pipeline.export.recording import Recording
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.texts import read_text
from rover_pipeline.kinematics.state import Poses, State
from rover_pipeline.lidar.geometry import destagger, sensor_info
from rover_pipeline.lidar.points_step import of_points, points
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.lidar.sidecar import read_points
from rover_pipeline.lidar.sweeps import lidar_reader
from rover_pipeline.validation.rig import clock_options, whole_sensor


class Sweep(NamedTuple):
    """The returns of a sweep: points, f4 (N, 3), m, in the frame that the lidar had at the sweep's time stamp,
    front-left-up, and their reflectivity, u1 (N,); None where the lidar has none."""

    xyz: np.ndarray
    rfl: np.ndarray | None


class RawSweeps:
    """The sweeps of a lidar of either kind as they were recorded, and the `_odom` of it. Can be shared by threads.
    Raises FormatError where the lidar has neither ranges nor points, or `_odom` is of another one.

    Attributes:
        has_points: whether the lidar is points and has no images.
        options: of its clock; odometry: channels of `_odom`.
        ts: f8 (N,), time stamps of all sweeps, s, as recorded.
        valid: bool, which sweeps are valid: of those that have both a sample and a pose.
        reader: gives the places of a sweep.
    """

    def __init__(self, recording: Recording, intensity: bool = True) -> None:
        """`intensity`: whether the sweeps have it; a damaged one is none then."""
        self._lidar, self._metadata = Sensor(recording.folder("lidar")), read_text(recording.file("lidar/lidar.json"))
        self._odom = recording.path / "_odom"
        self.options = clock_options(recording.path)
        self.odometry = whole_sensor(self._odom, *State._fields)
        specs = self._lidar.specs
        self.has_points = "xyz" in specs and "rng" not in specs
        places, bright = (("xyz", "count", "time"), "intensity") if self.has_points else (("rng",), "rfl")
        if places[0] not in specs:
            raise FormatError(f"{self._lidar.path}: has neither ranges (rng) nor points (xyz); there are no sweeps")
        self._channels = tuple(name for name in (*places, *((bright,) if intensity else ())) if name in specs)
        self.ts = self.odometry["ts"]
        self.reader = lidar_reader(self._metadata, self.options.ts_reference)
        count = min(len(self.ts), self._lidar.length(truncate=True, channels=self._channels))
        if not np.array_equal(self._lidar.times(count), self.ts[:count]):
            raise FormatError(f"{self._odom}: is not of this lidar: their ts differ; make it again")
        self.valid = self._lidar.valid(count).astype(bool)

    def known(self, has_pose: np.ndarray) -> np.ndarray:
        """Indices of the valid sweeps of those with a pose, bool (N,). Raises FormatError where there is none."""
        found = np.flatnonzero(self.valid & has_pose[: len(self.valid)])
        if not len(found):
            raise FormatError(f"{self._odom}: no pose of {len(self.ts)} is valid; nothing can be exported")
        return found

    def images(self, number: int) -> dict[str, np.ndarray]:
        """`rng`, u2 mm, and `rfl`, u1, where the lidar has it, (beam, column), columns in time order; or the points."""
        return {name: self._lidar.channel(name).sample(number) for name in self._channels}

    def stored(self, number: int) -> dict[str, np.ndarray] | None:
        """The channels of one sweep as `reader` takes them; None when it cannot be decoded."""
        try:
            stored = self.images(number)
        except SampleError:
            return None
        return stored if self.has_points else {"rng": destagger(stored["rng"][None], sensor_info(self._metadata))[0]}


class PosedSweeps(RawSweeps):
    """The sweeps whose pose is known. Raises FormatError where no sweep has a valid pose, or as `RawSweeps`.

    Attributes:
        poses: f8 (N, ...), world-from-lidar at `ts`.
        good: indices of the sweeps that are valid and have a valid pose.
    """

    def __init__(self, recording: Recording) -> None:
        super().__init__(recording)
        self.poses = Poses(self.odometry["rot"], self.odometry["pos"])
        self.good = self.known(self.poses.finite & self.odometry["valid"].astype(bool))

    def read(self, number: int) -> Sweep:
        """One of the `good` sweeps, deskewed. Raises SampleError when it cannot be decoded."""
        return self.deskewed(number, self.images(number))

    def destaggered(self, images: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The same with columns at equal azimuth, and 0 where a range was clipped."""
        info = sensor_info(self._metadata)
        aligned = {name: destagger(image[None], info)[0] for name, image in images.items()}
        aligned["rng"][aligned["rng"] == CLIPPED] = 0
        return aligned

    def deskewed(self, number: int, images: dict[str, np.ndarray]) -> Sweep:
        """The returns in the `images` of a sweep, but for points whose instant is damaged. Where nothing is known of
        the motion within sweeps, as `reader.notes` say, points stay where they were measured."""
        given: dict[str, Any] = {name: image[None] for name, image in images.items()}
        made = (of_points if self.has_points else points)(
            **given,
            ts=self.ts[number : number + 1],
            options=self.options,
            metadata=self._metadata,
            odometry=self.odometry,
        )
        xyz, bright = made["xyz"][0], images.get("rfl")
        if self.has_points:
            xyz = xyz[: int(images["count"])]
        if "intensity" in images:
            share = np.nan_to_num(images["intensity"][: len(xyz)] / read_points(self._metadata).full_intensity)
            bright = np.clip(np.round(255 * share), 0, 255).astype("u1")
        known = np.isfinite(xyz).all(-1)
        return Sweep(xyz[known], None if bright is None else bright[known])
