"""What the lidar and the gyroscope measured: the points of a sweep that are registered, and angular rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from rover_pipeline.kinematics.preintegration import preintegrate
from rover_pipeline.kinematics.rotation import log
from rover_pipeline.lidar.geometry import CLIPPED, rays, sensor_info, stagger
from rover_pipeline.lidar.sweeps import lidar_reader
from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.numerics.voxel_table import pack_key
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.odometry.spline import SplineTrajectory

#: Largest number of columns of a sweep. A walker moves by a millimetre from one to the next. Tuned: walks.
COLUMNS = 512
#: Of the columns of images, and of points that are not registered, one in so many is held out to measure how good the
#: registration is. Tuned: by hand.
HELD_OUT = 4
#: Largest time without a rate that rotations are integrated across, seconds; and smallest number of rates that a bias
#: or a vibration is estimated from. Tuned: by hand.
MAX_GAP, MIN_RATES = 0.05, 10


class Points(NamedTuple):
    """Points in the lidar frame, each measured at the instant of its column."""

    points: np.ndarray  #: f4 (N, 3), metres.
    column: np.ndarray  #: i4 (N,), rising, into the `times` of the sweep.

    def one_a_voxel(self, size: float) -> Points:
        """One point, chosen at random, of those in each voxel, so that each counts for the surface that it is on.

        A lidar sees a body that is ten times as near with a hundred times as many points.

        Args:
            size: edge of the voxels, metres.
        """
        shuffled = np.random.default_rng(len(self.points)).permutation(len(self.points))
        voxels = pack_key(*np.floor(self.points[shuffled].T.astype("f8") / size).astype("i8"))
        return self.where(np.sort(shuffled[np.unique(voxels, return_index=True)[1]]))

    def where(self, kept: np.ndarray) -> Points:
        """Those of a mask, bool (N,), or of numbers, i8 (K,), which rise as their columns do."""
        return Points(self.points[kept], self.column[kept])


#: Of a sweep whose points are all registered. Layout.
NO_POINTS = Points(np.zeros((0, 3), "f4"), np.zeros(0, "i4"))


class Sweep(NamedTuple):
    """Points of a sweep in the lidar frame, each measured at the instant of its column."""

    points: np.ndarray  #: f4 (N, 3), metres.
    column: np.ndarray  #: i4 (N,), rising, into `times`.
    times: np.ndarray  #: f8 (C,), rising, seconds.
    end: float  #: the instant that the sweep's pose refers to, seconds.
    held_out: Points = NO_POINTS  #: other points, which are not registered. They measure how good the registration is.

    @property
    def evaluated(self) -> Points:
        """The points that show how well the sweep fits: the held-out ones, or all where there are none."""
        return self.held_out if len(self.held_out.points) else Points(self.points, self.column)

    def backwards(self) -> Sweep:
        """The same from its last column to its first one, at negative instants."""
        last = len(self.times) - 1
        points, held_out = (
            Points(each.points[::-1].copy(), last - each.column[::-1])
            for each in (Points(self.points, self.column), self.held_out)
        )
        times = -self.times[::-1]
        return Sweep(*points, times, float(times[-1]), held_out)

    def raised(self, angle: float) -> Sweep:
        """The sweep with all of its beams raised by an angle, rad."""
        return self.changed(lambda each: each._replace(points=_raised(each.points, angle)))

    def changed(self, change: Callable[[Points], Points]) -> Sweep:
        """The sweep with its points, and the held-out ones, as a function makes them of these."""
        points, column = change(Points(self.points, self.column))
        return self._replace(points=points, column=column, held_out=change(self.held_out))


def _raised(points: np.ndarray, angle: float) -> np.ndarray:
    """Points, f4 (N, 3), of beams that are raised by an angle, rad."""
    x, y, z = points.astype("f8").T
    level, sine, cosine = np.maximum(np.hypot(x, y), 1e-9), np.sin(angle), np.cos(angle)
    along = cosine - sine * z / level
    return np.column_stack([along * x, along * y, cosine * z + sine * level]).astype("f4")


class _Pixels(NamedTuple):
    """Selected pixels of an image, and the lines that their returns lie on."""

    beam: np.ndarray  #: i8 (N,), in a destaggered image.
    column: np.ndarray  #: i8 (N,), in a destaggered image.
    number: np.ndarray  #: i4 (N,), of the column among the columns that are used.
    start: np.ndarray  #: f8 (N, 3), m, of the line.
    direction: np.ndarray  #: f8 (N, 3), m/mm, of the line.

    def of_columns(self, every: int) -> _Pixels:
        """Those of one used column in `every`."""
        return _Pixels(*(each[self.number % every == 0] for each in self))


class PointSelection:
    """A fixed selection of pixels, spread evenly. The beams alternate from column to column and from sweep to sweep.

    Args:
        metadata: `lidar.json`.
        density: how many times as many as the options ask for.
    """

    def __init__(self, metadata: str, options: OdometryOptions, density: int) -> None:
        start, direction = rays(metadata)
        beams, columns = self._shape = start.shape[:2]
        # Columns of the same pixels in a destaggered image.
        places = stagger(np.tile(np.arange(columns, dtype="i4"), (1, beams, 1)), sensor_info(metadata))[0]
        used = np.arange(0, columns, max(1, -(-columns // COLUMNS)))
        every = one_in(beams * len(used), options.points, density)
        self._patterns = []
        for pattern in range(every):
            chosen = [np.arange((pattern + i) % every, beams, every) for i in range(len(used))]
            beam = np.concatenate(chosen)
            number = np.repeat(np.arange(len(used)), [len(each) for each in chosen]).astype("i4")
            column = used[number]
            lines = start[beam, column], direction[beam, column]
            self._patterns.append(_Pixels(beam, places[beam, column].astype("i8"), number, *lines))
        # Where all pixels are registered, none are held out.
        self._held_out = [each.of_columns(HELD_OUT) for each in self._patterns] if every > 1 else []
        begin, period = lidar_reader(metadata, options.lidar.ts_reference).span
        self._times = begin + period * used / columns
        self._range_mm = options.min_range * 1000, options.max_range * 1000

    def sweep(self, ranges: np.ndarray, number: int, stamp: float) -> Sweep:
        """The selected points of one sweep.

        Args:
            ranges: u2 (beam, column), mm, destaggered.
            number: of the sweep, which decides on the beams.
            stamp: its time stamp, seconds.

        Raises:
            ValueError: the image is of a sensor with other pixels.
        """
        if ranges.shape != self._shape:
            beams, columns = self._shape
            raise ValueError(
                f"lidar.json is of a sensor with {beams} x {columns} pixels, the images have {ranges.shape}"
            )
        count = len(self._patterns)
        points, column = _project(ranges, self._patterns[number % count], *self._range_mm)
        held_out = NO_POINTS
        if self._held_out:
            held_out = Points(*_project(ranges, self._held_out[(number + count // 2) % count], *self._range_mm))
        return Sweep(points, column, stamp + self._times, stamp, held_out)


@compiled
def _project(ranges: np.ndarray, pixels: _Pixels, min_mm: float, max_mm: float) -> tuple[np.ndarray, np.ndarray]:
    """Points, f4 (N, 3), and their columns, i4 (N,), of the selected pixels that are returns within the range."""
    points, columns = np.empty((len(pixels.beam), 3), np.float32), np.empty(len(pixels.beam), np.int32)
    count = 0
    for n in range(len(pixels.beam)):
        mm = np.float64(ranges[pixels.beam[n], pixels.column[n]])
        if mm > 0 and min_mm <= mm <= max_mm and mm < CLIPPED:
            for i in range(3):
                points[count, i] = pixels.start[n, i] + mm * pixels.direction[n, i]
            columns[count] = pixels.number[n]
            count += 1
    return points[:count].copy(), columns[:count].copy()


def packed(sweeps: Sequence[Sweep | None]) -> list[np.ndarray]:
    """Sweeps as a few arrays, of which `unpacked` makes them again. None is one without points."""
    times = next((np.zeros_like(each.times) for each in sweeps if each), np.zeros(0))
    filled = [each or Sweep(*NO_POINTS, times, 0.0) for each in sweeps]
    points, column = zip(*(part for each in filled for part in (each[:2], each.held_out)), strict=True)
    numbers = np.array([each.times for each in filled]), np.array([each.end for each in filled])
    return [np.concatenate(points), np.concatenate(column), np.cumsum([len(part) for part in points]), *numbers]


def unpacked(arrays: Sequence[np.ndarray]) -> list[Sweep | None]:
    """The sweeps of `packed` arrays."""
    points, column, stops, times, ends = arrays
    parts = list(map(Points, np.split(points, stops[:-1]), np.split(column, stops[:-1])))
    rows = zip(parts[::2], times, ends, parts[1::2], strict=True)
    return [Sweep(*own, instants, end, held_out) if len(own.points) else None for own, instants, end, held_out in rows]


def one_in(count: int, wanted: int, density: int) -> int:
    """One point in how many is registered.

    Args:
        count: of the points that there are; wanted: of those that the options ask for.
        density: how many times as many are wanted. It leaves others to judge by, where there are any.
    """
    every = max(1, round(count / wanted))
    return every if density == 1 else max(min(every, 2), round(every / density))


class Gyro(NamedTuple):
    """Measured angular velocities."""

    times: np.ndarray  #: f8 (G,), rising, seconds.
    rates: np.ndarray  #: f8 (G, 3), rad/s, in the lidar frame.
    noise: float  #: standard deviation of a rate, rad/s.

    def between(self, start: float, stop: float) -> Gyro:
        part = slice(*np.searchsorted(self.times, (start, stop)))
        return self._replace(times=self.times[part], rates=self.rates[part])

    def rotation(self, start: float, stop: float) -> np.ndarray | None:
        """Rotation vector (3,) from one instant to another, radians; None where rates are missing."""
        if not len(self.times):
            return None
        motion = preintegrate(np.array([start, stop]), self.times, np.zeros_like(self.rates), self.rates)
        return log(motion.rot)[0] if motion.longest[0] <= MAX_GAP else None

    def without_bias(self, trajectory: SplineTrajectory) -> Gyro:
        """The rates within a trajectory, minus the median of their differences from its angular velocities."""
        part = self.between(trajectory.start, trajectory.stop)
        if len(part.times) < MIN_RATES:
            return NO_GYRO
        bias = np.median(part.rates - trajectory.at(part.times).avel, axis=0)
        return part._replace(rates=part.rates - bias)


#: No rates. Layout.
NO_GYRO = Gyro(np.zeros(0), np.zeros((0, 3)), np.inf)
