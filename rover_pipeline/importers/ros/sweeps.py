"""Writes the sensor `lidar` from clouds, laser scans, and packets of Velodyne lidars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.errors import counted
from rover_pipeline.importers.points import Cloud, PointsWriter
from rover_pipeline.importers.ros import layouts
from rover_pipeline.importers.ros.sinks import Sink
from rover_pipeline.importers.velodyne import PacketWriter
from rover_pipeline.importers.velodyne_packets import Model

_HEADER = "the stamp of its header; the sensor does not say when in the sweep that is"


def _at_end(cloud: Cloud) -> tuple[Cloud, float]:
    """The returns with times after the last point, if they have times; and how long after its message it is, s."""
    cloud, later = cloud.to_end()
    return cloud.returns(), later


class SweepSink(Sink):
    """What clouds and scans have in common.

    Args:
        period: s, median interval between sweeps.
        stamped: whether the times of the trace are those of the headers, which times of points may refer to.
        source: for the sidecar.
    """

    unit = "of the scanner"  #: of intensities.

    def __init__(self, folder: Path, period: float, stamped: bool, source: str) -> None:
        super().__init__(folder)
        self._period, self._stamped = period, stamped
        self._writer = PointsWriter(folder, source, unit=self.unit, instant=_HEADER)
        self._empty, self._later = 0, 0.0

    def add(self, ns: int, prepared: tuple[Cloud, float] | None) -> None:
        """Store a sweep, at its end where the instants of its points are known."""
        if prepared is None or not (self.count or len(prepared[0].xyz)):
            self._empty += 1  # it does not show what its points would have
            return
        cloud, later = prepared
        if len(cloud.xyz):
            self._later = later
        self._writer.put(ns / 1e9 + self._later, cloud)
        self.count = self._writer.count

    def close(self) -> None:
        if self._empty:
            self.notes.append(f"left out: the first {counted(self._empty, 'sweep')}, without points")
        if self._writer.late:
            self.notes.append(f"left out: {counted(self._writer.late, 'sweep')} that would end before the one before")
        if self.count:
            self._writer.close()


class CloudSink(SweepSink):
    """`sensor_msgs/PointCloud2`. Its first cloud with a point says what all have: fields, and the unit of times."""

    _unit: layouts.TimeUnit | None = None
    _fields: tuple[str, str] | None = None

    def prepare(self, content: dict[str, Any]) -> tuple[Cloud, float] | None:
        points = content["points"] if "points" in content else layouts.columns(content)
        xyz = layouts.vectors(points)
        returned = Cloud(xyz).returned()  # drivers give points without a return any time
        kept = slice(None) if returned.all() else returned
        stamp = content["header"]["stamp"]
        if self._fields is None:
            if not returned.any():
                return None
            self._begin(points[returned], stamp)
        intensity, ring = self._fields or ("", "")
        names = [name for name in (intensity, ring, *(self._unit.fields if self._unit else ())) if name]
        taken = {name: points[name][kept] for name in names}
        offsets = self._unit.offsets(taken, stamp) if self._unit else None
        return _at_end(Cloud(xyz[kept], taken.get(intensity), taken.get(ring), offsets))

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
        self._writer.unit = f"the field {self._fields[0]!r} of the cloud"
        self.threaded = True


class LivoxSink(CloudSink):
    """`CustomMsg` of the drivers of Livox: points with their instants and lines, which need not be found out."""

    threaded = True
    unit = "reflectivity, 0 to 255"
    _fields = "reflectivity", "line"

    def __init__(self, folder: Path, period: float, stamped: bool, source: str) -> None:
        super().__init__(folder, period, stamped, source)
        self._unit = layouts.TimeUnit(("offset_time",), "ns", 1e-9, "header" if stamped else "own")
        self.notes.append(f"instants of points: {self._unit}")


class ScanSink(SweepSink):
    """`sensor_msgs/LaserScan`: points in the plane of the scanner."""

    def prepare(self, content: dict[str, Any]) -> tuple[Cloud, float]:
        first, _, step, time_step, _, nearest, farthest = content["limits"].astype("f8")
        ranges = content["ranges"].astype("f8")
        angle = first + step * np.arange(len(ranges))
        with np.errstate(invalid="ignore"):
            ranges[~((ranges >= nearest) & (ranges <= farthest))] = np.nan
        xyz = np.stack([ranges * np.cos(angle), ranges * np.sin(angle), 0 * ranges], axis=1).astype("f4")
        intensities = content["intensities"]
        timed = self._stamped and 0 < time_step * len(ranges) <= 2 * self._period
        return _at_end(
            Cloud(
                xyz,
                intensities if len(intensities) == len(ranges) else np.full(len(ranges), np.nan, "f4"),
                np.zeros(len(ranges), "u2"),
                # The header is stamped when the first ray is measured (sensor_msgs/LaserScan.msg).
                np.arange(len(ranges)) * time_step if timed else None,
            )
        )


class PacketSink(Sink):
    """`velodyne_msgs/VelodyneScan`: packets, whatever part of a revolution a message has. See `PacketWriter`."""

    def __init__(self, folder: Path, model: Model | None, source: str, *, main: bool) -> None:
        super().__init__(folder)
        self._writer = PacketWriter(folder, source, model, main=main)

    def add(self, ns: int, content: dict[str, Any]) -> None:
        # The driver stamps each packet; the header has the time of one of them, and the trace may have another clock.
        shift = ns / 1e9 - content["header"]["stamp"] / 1e9
        for packet in content["packets"]:
            self._writer.add(packet["data"].copy(), packet["stamp"] / 1e9 + shift)
        self.count = self._writer.count

    def close(self) -> None:
        self._writer.close()
        self.count = self._writer.count
        if self._writer.model:
            self.notes.append(
                f"{self._writer.model}: whole revolutions: {self._writer.whole} of {counted(self.count, 'sweep')}"
            )
        self.notes += self._writer.notes
