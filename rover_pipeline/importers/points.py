"""The writer of a lidar that is points: the sensor `lidar` with `xyz`, `count`, and what else is known of each point.

All sweeps of the sensor have as many places as its largest one has points, which is known only after the last sweep.
Until then the points of all sweeps stand one after the other in scratch files. Only some sweeps are in memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from rover_pipeline.errors import FormatError, explain
from rover_pipeline.format.channels import encode_sample
from rover_pipeline.format.channels.base import MAX_SAMPLES
from rover_pipeline.format.files import replace_json
from rover_pipeline.format.meta import MAX_SAMPLE_BYTES, ChannelSpec, raw
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, Closing, SensorWriter
from rover_pipeline.lidar.sidecar import MAX_TIME_S, POINTS, PointsSidecar

#: Maximum number of points of a sweep: larger samples are no channel. Layout.
MAX_POINTS = MAX_SAMPLE_BYTES // 12
#: Sweeps that are compressed at once. Schedule.
_BATCH = 8
#: Largest intensities of the scales that sources use: shares, percent, bytes and words. A map shows the smallest that
#: none exceeds as its brightest. Layout.
_SCALES = (1.0, 100.0, 255.0, 65535.0)
#: What time stamps are of where the instants of points are known.
END = "the end of the sweep"


class Cloud(NamedTuple):
    """The points of a sweep, in any order. Every array but `xyz` may be None where it is not known."""

    #: (N, 3), m, in the sensor frame, front-left-up. Points that are not finite, or lie at the origin, are no returns
    #: and are left out.
    xyz: np.ndarray
    intensity: np.ndarray | None = None  #: (N,), in the unit of the source.
    ring: np.ndarray | None = None  #: (N,), number of the beam.
    #: (N,), when each point was measured, s after the time stamp of the sweep; negative before it.
    time: np.ndarray | None = None

    def returns(self) -> Cloud:
        """Those of the points that are returns and whose instant is known, in the types that are stored."""
        kept = self.returned()
        if self.time is not None:
            kept &= np.isfinite(np.asarray(self.time, "<f4"))
        chosen = slice(None) if kept.all() else kept
        arrays = zip(self, ("<f4", "<f4", "<u2", "<f4"), strict=True)
        return Cloud._make(None if each is None else np.asarray(each, kind)[chosen] for each, kind in arrays)

    def returned(self) -> np.ndarray:
        """Which points are returns, whenever they were measured, bool (N,): their distance is finite and not zero."""
        x, y, z = np.asarray(self.xyz, "<f4").T
        with np.errstate(over="ignore", invalid="ignore"):
            square = x * x + y * y + z * z
        return (square > 0) & (square < np.inf)

    def to_end(self) -> tuple[Cloud, float]:
        """The same sweep with times after its last point, and how long after the old time stamp that is, s.

        Recordings of the rig stamp the end of a sweep, and so do imports that know when each point was measured.
        """
        if self.time is None or not np.isfinite(self.time).any():
            return self, 0.0
        last = float(np.nanmax(np.where(np.isfinite(self.time), self.time, -np.inf)))
        return self._replace(time=np.asarray(self.time, "f8") - last), last


class _Column(NamedTuple):
    """A channel whose samples have one row, of `dtype` and `width`, for each place, while its rows are in a scratch
    file. `fill` stands in places past `count`."""

    file: IO[bytes]
    dtype: np.dtype[Any]
    width: int
    fill: float
    desc: str

    def spec(self, places: int, compressed: bool) -> ChannelSpec:
        shape = (places, self.width) if self.width > 1 else (places,)
        kind = f"{self.dtype.kind}{self.dtype.itemsize}"
        return ChannelSpec(format="lzmaf" if compressed else "raw", type=kind, shape=shape, desc=self.desc)

    def samples(self, counts: Sequence[int], places: int) -> Iterator[np.ndarray]:
        """The sweeps of so many points each, (places, width) or (places,)."""
        self.file.seek(0)
        for count in counts:
            sample = np.full((places, self.width), self.fill, self.dtype)
            data = self.file.read(count * self.width * self.dtype.itemsize)
            sample[:count] = np.frombuffer(data, self.dtype).reshape(-1, self.width)
            yield sample if self.width > 1 else sample[:, 0]


class PointsWriter(Closing):
    """Writes the sensor `lidar` of a new trace, sweep after sweep, when it is closed.

    Use it inside `new_trace`, which makes the finished directory visible at once. The first sweep says which channels
    there are.

    Args:
        path: directory of the sensor, which must not exist.
        source: what the points came from, for the sidecar.
        unit: of intensities, for their description.
        instant: what time stamps are of where points have no times, for their description. Where they have, it is the
            end of the sweep.
        compensated: whether the source says that the motion within sweeps is undone, so that all points are as seen at
            the instant that `ts` refers to.
        compress: store `lzmaf` instead of `raw`. It takes half the space and twenty times as long.
    """

    def __init__(
        self,
        path: Path,
        source: str = "",
        *,
        unit: str = "in the unit of the source",
        instant: str = END,
        compensated: bool = False,
        compress: bool = False,
    ) -> None:
        self.path, self.unit = path, unit
        self.count = self.late = 0  #: sweeps that were written, and those that `put` left out.
        self._instant, self._source, self._compress = instant, source, compress
        self._motion = "compensated" if compensated else "unknown"
        self._brightest, self._largest = 0.0, 0
        self._span: tuple[float, float] | None = None
        self._ts: list[float] = []
        self._valid: list[bool] = []
        self._counts: list[int] = []
        self._columns: dict[str, _Column] = {}

    def _begin(self, first: Cloud) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        seen = "all as seen at the time stamp"
        if first.time is not None:
            self._motion, self._instant = "times", END
            seen = "each as seen from where the lidar was at its own instant"
        columns = {
            "xyz": ("<f4", 3, np.nan, f"Points, m, front-left-up, {seen}; NaN past count. [point, xyz]"),
            "intensity": ("<f4", 1, np.nan, f"Intensity, {self.unit}; NaN past count. [point]"),
            "ring": ("<u2", 1, 0, "Number of the beam; 0 past count. [point]"),
            "time": (
                "<f4",
                1,
                np.nan,
                "Instant of each point after ts, s, negative before it; NaN past count. [point]",
            ),
        }
        self._columns = {
            name: _Column(TemporaryFile(dir=self.path.parent), np.dtype(kind), width, fill, desc)  # noqa: SIM115
            for name, (kind, width, fill, desc) in columns.items()
            if getattr(first, name) is not None
        }

    def put(self, ts: float, cloud: Cloud, *, valid: bool = True) -> None:
        """Add a sweep as `append` does, unless it is not later than the one before."""
        if self._ts and ts <= self._ts[-1]:
            self.late += 1
        else:
            self.append(ts, cloud, valid=valid)

    def append(self, ts: float, cloud: Cloud, *, valid: bool = True) -> None:
        """Add a sweep. One without any return is not valid.

        `ts`: its time stamp, seconds since 1970. Raises FormatError where it is not later than the sweep before, it has
        more points than any lidar measures, a channel is missing, or its times are no seconds.
        """
        where = f"{self.path.name}: sweep {self.count}"
        if not np.isfinite(ts) or (self._ts and ts <= self._ts[-1]):
            before = f"the one before, {self._ts[-1]:.6f} s" if self._ts else "1970"
            raise FormatError(f"{where}: its time {ts:.6f} s is not after that of {before}")
        if self.count >= MAX_SAMPLES:
            raise FormatError(f"{where}: is more than the {MAX_SAMPLES:,} sweeps of any recording")
        if not self._columns:
            self._begin(cloud)
        arrays = cloud.returns()._asdict()
        for name in self._columns:
            if arrays[name] is None or len(arrays[name]) != len(arrays["xyz"]):
                raise FormatError(f"{where}: has no {name} for each of its points, as the sweeps before it have")
        points = len(arrays["xyz"])
        if points > MAX_POINTS:
            raise FormatError(f"{where}: has {points:,} points, more than the {MAX_POINTS:,} that a sweep can have")
        self._note(where, arrays)
        self._largest = max(self._largest, points)
        for name, column in self._columns.items():
            column.file.write(np.ascontiguousarray(arrays[name], column.dtype).data)
        self._ts.append(float(ts))
        self._counts.append(points)
        self._valid.append(valid and points > 0)
        self.count += 1

    def close(self) -> None:
        """Write the sensor. Raises FormatError where there is no sweep, or none has a point."""
        if not self._largest:
            raise FormatError(f"{self.path.name}: no sweep has any point")
        steps = np.diff(self._ts)
        described: dict[str, Any] = {
            "max_points": self._largest,
            "motion": self._motion,
            "span_s": self._span or (0.0, 0.0),
            "period_s": float(np.median(steps)) if len(steps) else 0.1,
            "full_intensity": next((n for n in _SCALES if self._brightest <= n), self._brightest),
            "source": self._source[:400],
        }
        try:
            sidecar = PointsSidecar.model_validate(described)
        except ValidationError as error:
            problem = (
                f"what its points say is no lidar's: {explain(error)}; is it damaged, or in another order of columns?"
            )
            raise FormatError(f"{self._source or self.path}: {problem}") from error
        refers = f"Time of each sweep, {self._instant}, seconds since the Unix epoch."
        count = raw("u4", (), "Number of points of the sweep.")
        specs = {TS: TS_SPEC.model_copy(update={"desc": refers}), VALID: VALID_SPEC, "count": count}
        specs |= {name: each.spec(self._largest, self._compress) for name, each in self._columns.items()}
        encode = partial(encode_sample, "lzmaf") if self._compress else lambda sample: sample[None]
        with SensorWriter(self.path, specs) as writer, ThreadPoolExecutor() as pool:
            replace_json(self.path / "lidar.json", {POINTS: sidecar.model_dump()})
            writer.append(ts=np.array(self._ts), valid=np.array(self._valid), count=np.array(self._counts))
            for name, column in self._columns.items():
                samples = column.samples(self._counts, self._largest)
                while batch := list(itertools.islice(samples, _BATCH if self._compress else 1)):
                    for each in pool.map(encode, batch):
                        writer.append(**{name: each})
                column.file.close()

    def _note(self, where: str, arrays: dict[str, Any]) -> None:
        """Keep the limits of intensities and times."""
        if not len(arrays["xyz"]):
            return
        if "intensity" in self._columns:
            finite = arrays["intensity"][np.isfinite(arrays["intensity"])]
            self._brightest = max(self._brightest, float(finite.max(initial=0.0)))
        if "time" in self._columns:
            first, last = float(arrays["time"].min()), float(arrays["time"].max())
            if max(-first, last) > MAX_TIME_S:
                raise FormatError(f"{where}: times of its points are {first:g} to {last:g} s from its own; no sweep is")
            low, high = self._span or (first, last)
            self._span = min(low, first), max(high, last)

    def release(self) -> None:
        for column in self._columns.values():
            column.file.close()
