"""Writes the sensor `lidar` from clouds, laser scans, and packets of Velodyne lidars."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.importers.points import Cloud, SweepsWriter
from rover_pipeline.importers.ros import layouts
from rover_pipeline.importers.ros.sinks import Sink
from rover_pipeline.importers.velodyne import PacketWriter, SweepBuilder
from rover_pipeline.importers.velodyne_packets import Model

_HEADER = "the stamp of its header; the sensor does not say when in the sweep that is"


class _Sweep(NamedTuple):
    """A sweep that can be stored.

    Attributes:
        later: s, how long after the time of its message it ends.
        unit: of its intensity.
    """

    cloud: Cloud
    later: float
    unit: str

    @classmethod
    def of(cls, cloud: Cloud, unit: str) -> _Sweep:
        """The sweep of points with times after that of the message, if they have times."""
        cloud, later = cloud.to_end()
        return cls(cloud.returns(), later, unit)


class SweepSink(Sink):
    """What clouds and scans have in common.

    Args:
        period: s, median interval between sweeps.
        stamped: whether the times of the trace are those of the headers, which times of points may refer to.
        source: for the sidecar.
    """

    def __init__(self, folder: Path, period: float, stamped: bool, source: str) -> None:
        super().__init__(folder)
        self._period, self._stamped = period, stamped
        self._sweeps = SweepsWriter(folder, source)
        self._empty, self._later = 0, 0.0

    def add(self, ns: int, prepared: _Sweep | None) -> None:
        """Store a sweep, at its end where the instants of its points are known."""
        if prepared is None or not (self.count or len(prepared.cloud.xyz)):
            self._empty += 1  # it does not show what its points would have
            return
        if len(prepared.cloud.xyz):
            self._later = prepared.later
        instant = _HEADER if prepared.cloud.time is None else "the end of the sweep"
        self._sweeps.put(ns / 1e9 + self._later, prepared.cloud, prepared.unit, instant)
        self.count = self._sweeps.count

    def close(self) -> None:
        if self._empty:
            self.notes.append(f"the first {self._empty} sweeps are left out: they have no points")
        if self._sweeps.late:
            self.notes.append(f"{self._sweeps.late} sweeps are left out: they end before the one before them does")
        self._sweeps.close()


class CloudSink(SweepSink):
    """`sensor_msgs/PointCloud2`. Its first cloud with a point says what all have: fields, and the unit of times."""

    heavy = True
    _unit: layouts.TimeUnit | None = None
    _fields: tuple[str, str] | None = None

    @property
    def ready(self) -> bool:
        return self._fields is not None

    def prepare(self, content: dict[str, Any], number: int) -> _Sweep | None:
        points = layouts.columns(content)
        xyz = layouts.vectors(points)
        returned = Cloud(xyz).returned()  # drivers give points without a return any time
        kept = slice(None) if len(returned) == len(points) else returned
        stamp = content["header"]["stamp"]
        if self._fields is None:
            if not len(returned):
                return None
            self._begin(points[returned], stamp)
        intensity, ring = self._fields or ("", "")
        names = [name for name in (intensity, ring, *(self._unit.fields if self._unit else ())) if name]
        taken = {name: points[name][kept] for name in names}
        offsets = self._unit.offsets(taken, stamp) if self._unit else None
        cloud = Cloud(xyz[kept], taken.get(intensity), taken.get(ring), offsets)
        return _Sweep.of(cloud, f"the field {intensity!r} of the cloud")

    def _begin(self, points: np.ndarray, stamp: int) -> None:
        names = points.dtype.names or ()
        self._unit = layouts.find_unit(points, stamp, self._period)
        if self._unit and not self._stamped:
            self._unit = self._unit._replace(reference="own")
        if self._unit:
            self.notes.append(f"instants of points: {self._unit}")
        elif layouts.time_fields(names):
            self.notes.append(f"the unit of {' and '.join(layouts.time_fields(names))} is not known: left out")
        self._fields = layouts.find_field(names, layouts.INTENSITY), layouts.find_field(names, layouts.RING)


class LivoxSink(SweepSink):
    """`CustomMsg` of the drivers of Livox: points with their instants and lines."""

    heavy = True

    def __init__(self, folder: Path, period: float, stamped: bool, source: str) -> None:
        super().__init__(folder, period, stamped, source)
        self._unit = layouts.TimeUnit(("offset_time",), "ns", 1e-9, "header" if stamped else "own")
        self.notes.append(f"instants of points: {self._unit}")

    def prepare(self, content: dict[str, Any], number: int) -> _Sweep:
        points, xyz = content["points"], layouts.vectors(content["points"])
        returned = Cloud(xyz).returned()
        taken = {name: points[name][returned] for name in ("offset_time", "reflectivity", "line")}
        offsets = self._unit.offsets(taken, content["header"]["stamp"])
        return _Sweep.of(Cloud(xyz[returned], taken["reflectivity"], taken["line"], offsets), "reflectivity, 0 to 255")


class ScanSink(SweepSink):
    """`sensor_msgs/LaserScan`: points in the plane of the scanner."""

    def prepare(self, content: dict[str, Any], number: int) -> _Sweep:
        first, _, step, time_step, _, nearest, farthest = content["limits"].astype("f8")
        ranges = content["ranges"].astype("f8")
        angle = first + step * np.arange(len(ranges))
        with np.errstate(invalid="ignore"):
            ranges[~((ranges >= nearest) & (ranges <= farthest))] = np.nan
        xyz = np.stack([ranges * np.cos(angle), ranges * np.sin(angle), 0 * ranges], axis=1).astype("f4")
        intensities = content["intensities"]
        timed = self._stamped and 0 < time_step * len(ranges) <= 2 * self._period
        return _Sweep.of(
            Cloud(
                xyz,
                intensities if len(intensities) == len(ranges) else np.full(len(ranges), np.nan, "f4"),
                np.zeros(len(ranges), "u2"),
                # The header is stamped when the first ray is measured (sensor_msgs/LaserScan.msg).
                np.arange(len(ranges)) * time_step if timed else None,
            ),
            "of the scanner",
        )


class PacketSink(Sink):
    """`velodyne_msgs/VelodyneScan`: packets, whatever part of a revolution a message has.

    Args:
        model: the lidar that the user names; main: whether it is that one, whatever the packets say.
    """

    def __init__(self, folder: Path, model: Model | None, source: str, *, main: bool = True) -> None:
        super().__init__(folder)
        self._builder = SweepBuilder(model) if main else SweepBuilder(otherwise=model)
        self._sweeps = PacketWriter(folder, source)

    def add(self, ns: int, content: dict[str, Any]) -> None:
        # The driver stamps each packet; the header has the time of one of them, and the trace may have another clock.
        shift = ns / 1e9 - content["header"]["stamp"] / 1e9
        for packet in content["packets"]:
            self._sweeps.take(self._builder.add(packet["data"].copy(), packet["stamp"] / 1e9 + shift))
        self.count = self._sweeps.count

    def close(self) -> None:
        self._sweeps.take(self._builder.finish())
        self._sweeps.close()
        self.count = self._sweeps.count
        if self._builder.model:
            whole = f"{self._sweeps.whole} of its {self.count} sweeps are whole revolutions"
            self.notes += [f"{self._builder.model.name}: {whole}", *self._sweeps.notes]
        if self._builder.lost:
            self.notes.append(f"{self._builder.lost} packets are missing: sweeps that lack more than 1 % are not valid")
