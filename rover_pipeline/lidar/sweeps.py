"""The one reader of sweeps: what a step sees of a lidar, whether it measures range images or points.

A sweep is a table of places in rows and columns. All places of a column were measured at the same instant. Those of an
image are its beams and columns as the sensor sends them. Points are sorted into columns of equal time; where all of
them are of one instant there is a single column.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from rover_pipeline.clocks.clock import clock
from rover_pipeline.clocks.options import TimesSection
from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.sweep import MAX_GAP_PERIODS, SweepMotion, odometry_trajectory
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.lidar.geometry import projection, sectors, sensor_info, stagger, sweep_span
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.lidar.sidecar import PointsSidecar, is_points, read_points
from rover_pipeline.numerics.compiled import compiled

#: Columns that points with times of their own are sorted into. At 30 m/s one is 1.5 mm beside its place. Layout.
_COLUMNS = 1024
#: Note for points whose motion within the sweep is not known.
UNKNOWN_MOTION = (
    "the points of the lidar have no times, and nothing says that the motion within sweeps is undone: they are taken "
    "as measured at one instant, which is wrong by the way the lidar moves in a sweep"
)


class Sweep(NamedTuple):
    """The places of a sweep."""

    xyz: np.ndarray  #: f4 (row, column, 3), m, lidar frame, each as seen at the instant of its column.
    #: u2 (row, column), mm; 0 and 65535 = no return. For points: distance from the origin, at most 65534.
    rng: np.ndarray


class LidarReader(ABC):
    """The sweeps of a lidar."""

    columns: int  #: number of the columns of a sweep.
    begin: float  #: time from a sweep's time stamp to column 0, s.
    duration: float  #: from column 0 to the end of the last one, s; 0 where all points are of one instant.
    period: float  #: median time between sweeps, s.
    notes: tuple[str, ...] = ()  #: what the user should know of the sweeps.

    @abstractmethod
    def sweep(self, stored: Mapping[str, np.ndarray]) -> Sweep:
        """The places of one sweep, from its channels by argument: `rng` destaggered, or `xyz`, `count`, `time`."""

    @abstractmethod
    def intensity(self, stored: Mapping[str, np.ndarray]) -> np.ndarray:
        """How bright the places of the same sweep are, u1 (row, column)."""

    @abstractmethod
    def sectors(self, sweep: Sweep) -> np.ndarray:
        """The sector of each place, about two columns of an image wide, i4 (row, column); see `geometry.sectors`."""

    def columns_of(self, stored: Mapping[str, np.ndarray], columns: int) -> np.ndarray:
        """The nearest of `columns` columns of each point of a sweep, i4 (point,); of one without a time, the first.
        Images have no points."""
        raise NotImplementedError

    def points(self, stored: Mapping[str, np.ndarray]) -> np.ndarray:
        """The points of a sweep, f4 (point, 3), m; NaN for those whose instant is damaged. Images have none."""
        raise NotImplementedError

    @property
    def span(self) -> tuple[float, float]:
        """`begin` and `duration`."""
        return self.begin, self.duration

    def is_near(self, ts: np.ndarray, stamps: np.ndarray, tolerance: float) -> np.ndarray:
        """Whether instants, f8 (N,), s, are within a tolerance of the middle of sweeps with these time stamps."""
        return np.asarray(np.abs(stamps + self.begin + self.duration / 2 - ts) <= tolerance)

    def motion(self, odometry: Mapping[str, np.ndarray], times: TimesSection) -> SweepMotion:
        """Where the lidar is at the columns of its sweeps, by the channels of `_odom`."""
        trajectory = odometry_trajectory(odometry, times, self.period or self.duration)
        return SweepMotion(trajectory, self.begin, self.duration, interval=self.period)

    def motion_beside(self, main: Trajectory, mount: Mount, ts: np.ndarray, times: TimesSection) -> SweepMotion:
        """The same of a lidar that is mounted on another one, whose trajectory is known.

        Args:
            ts: f8 (frame,), recorded times of its sweeps, s.
        """
        stamps = clock("lidar", ts, times).best
        trajectory = Trajectory(stamps, *main.at(stamps, mount), max_gap=MAX_GAP_PERIODS * self.period)
        return SweepMotion(trajectory, self.begin, self.duration, interval=self.period)


@functools.lru_cache(maxsize=8)
def lidar_reader(metadata: str, reference: str) -> LidarReader:
    """The reader of the lidar with this `lidar.json`.

    Args:
        reference: the instant of a sweep that time stamps refer to, `lidar.ts_reference`.

    Raises:
        FormatError, ValueError: the text describes neither an Ouster sensor nor points.
    """
    return _Points(read_points(metadata)) if is_points(metadata) else _Images(metadata, reference)


class _Images(LidarReader):
    """Range images of an Ouster sensor."""

    def __init__(self, metadata: str, reference: str) -> None:
        self._info, self._project = sensor_info(metadata), projection(metadata)
        self.columns = self._info.format.columns_per_frame
        self.begin, self.duration = sweep_span(self._info, reference)
        self.period = self.duration
        self._sectors = sectors(metadata)

    def sweep(self, stored: Mapping[str, np.ndarray]) -> Sweep:
        image = stagger(stored["rng"][None], self._info)[0]
        return Sweep(self._project(image.astype("u4")), image)

    def intensity(self, stored: Mapping[str, np.ndarray]) -> np.ndarray:
        if "rfl" not in stored:
            return np.zeros(stored["rng"].shape, "u1")
        return stagger(stored["rfl"][None], self._info)[0]

    def sectors(self, sweep: Sweep) -> np.ndarray:
        return self._sectors


class _Points(LidarReader):
    """Points with times of their own, or all of one instant."""

    #: Sectors of 0.7 degrees. Spinning lidars fire every 0.1 to 0.4 degrees, so that each sector has some beams.
    _SECTORS = 512

    def __init__(self, sidecar: PointsSidecar) -> None:
        first, last = sidecar.span_s
        self.timed = sidecar.motion == "times" and last > first
        self.columns = _COLUMNS if self.timed else 1
        # Without times all points are of the instant in ts; where all have the same time, of that one.
        self.begin, self.duration = (first, last - first) if sidecar.motion == "times" else (0.0, 0.0)
        self.period = sidecar.period_s
        self.notes = (UNKNOWN_MOTION,) if sidecar.motion == "unknown" else ()
        self._full = sidecar.full_intensity

    def columns_of(self, stored: Mapping[str, np.ndarray], columns: int) -> np.ndarray:
        count = min(int(stored["count"]), len(stored["xyz"]))
        if not self.timed:
            return np.zeros(count, "i4")
        if "time" not in stored:
            raise ValueError("lidar.json says that the points have times, but there is no channel time; restore it")
        since = np.nan_to_num(stored["time"][:count].astype("f8") - self.begin)
        return np.clip(since * (columns / self.duration) + 0.5, 0, columns - 1).astype("i4")

    def points(self, stored: Mapping[str, np.ndarray]) -> np.ndarray:
        points = stored["xyz"][: int(stored["count"])]
        if self.timed and not (known := np.isfinite(stored["time"][: len(points)])).all():
            return np.where(known[:, None], points, np.float32(np.nan))
        return points

    def sweep(self, stored: Mapping[str, np.ndarray]) -> Sweep:
        (row, column, shape), points = self._places(stored), self.points(stored)
        xyz, rng = np.full((*shape, 3), np.nan, "f4"), np.zeros(shape, "u2")
        xyz[row, column] = points
        with np.errstate(invalid="ignore"):
            distance = np.nan_to_num(np.linalg.norm(points, axis=1) * 1000, nan=0.0, posinf=CLIPPED)
        rng[row, column] = np.where(distance > 0, np.clip(np.round(distance), 1, CLIPPED - 1), 0)
        return Sweep(xyz, rng)

    def intensity(self, stored: Mapping[str, np.ndarray]) -> np.ndarray:
        row, column, shape = self._places(stored)
        bright = np.zeros(shape, "u1")
        if "intensity" in stored:
            share = np.nan_to_num(stored["intensity"][: len(row)] / self._full)
            bright[row, column] = np.clip(np.round(255 * share), 0, 255)
        return bright

    def sectors(self, sweep: Sweep) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            turn = np.nan_to_num(np.arctan2(sweep.xyz[..., 1], sweep.xyz[..., 0]) / (2 * np.pi) + 0.5)
        return (turn * self._SECTORS).astype("i4") % self._SECTORS

    def _places(self, stored: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
        """Row and column of each point, and their numbers. Points of a column are in the order they came in."""
        column = self.columns_of(stored, self.columns)
        row, filled = _rows(column, self.columns)
        return row, column, (max(1, int(filled.max(initial=0))), self.columns)


@compiled
def _rows(column: np.ndarray, columns: int) -> tuple[np.ndarray, np.ndarray]:
    row, filled = np.empty(len(column), np.int32), np.zeros(columns, np.int32)
    for n in range(len(column)):
        row[n] = filled[column[n]]
        filled[column[n]] += 1
    return row, filled


def one_sweep(arrays: Mapping[str, np.ndarray | None], number: int) -> dict[str, np.ndarray]:
    """The channels of one sweep from blocks of them, (frame, ...) each, without those that are None."""
    return {name: block[number] for name, block in arrays.items() if block is not None}
