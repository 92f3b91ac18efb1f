"""Layouts of `sensor_msgs/PointCloud2`: names of fields that drivers use, and the units of their times.

Names are those of the drivers velodyne, ouster-ros, livox_ros_driver, hesai_ros_driver, rslidar_sdk, nebula, luminar,
ti_mmwave_rospkg, reve (RIO) and sick_scan_xd.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.importers.tuning import TUNING

#: Radial velocity of each point, m/s.
DOPPLER = (
    "v_doppler_mps", "doppler", "velocity", "vrad", "v_r", "radial_velocity", "radial_speed", "doppler_velocity",
    "range_rate", "vr",
)  # fmt: skip
#: Signal over noise of a radar's point, dB; and other names of how strong it is.
SNR = ("snr_db", "snr")
STRENGTH = ("intensity", "power", "amplitude", "rcs", "rcsi")
INTENSITY = ("intensity", "reflectivity", "i", "remission", "reflectance")
RING = ("ring", "line", "laser_id", "laser_number", "channel", "ch_id", "beam")
#: Fields of the instant of each point. `time_sec` comes with `time_nsec`.
_TIMES = ("t", "time", "timestamp", "time_stamp", "timeStamp", "offset_time", "timestamp_sec", "ts", "stamp")
_SPLIT = (("time_sec", "time_nsec"), ("timestamp_sec", "timestamp_nsec"), ("sec", "nsec"))
#: Types of PointField, numbers 1 to 8.
_TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8")
#: Units in which drivers count time, s. Layout.
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def find_field(names: Sequence[str], wanted: Sequence[str]) -> str:
    """The first of the wanted fields that a cloud has; "" if it has none."""
    return next((name for name in wanted if name in names), "")


def time_fields(names: Sequence[str]) -> tuple[str, ...]:
    """The field, or two, with the instant of each point; empty if there is none."""
    for pair in _SPLIT:
        if set(pair) <= set(names):
            return pair
    found = find_field(names, _TIMES)
    return (found,) if found else ()


def columns(content: dict[str, Any]) -> np.ndarray:
    """The points of a decoded PointCloud2 as a structured array (point,), a view of its data. Raises ValueError where
    its sizes do not fit, or a field is outside of a point."""
    step, width, height = content["point_step"], content["width"], content["height"]
    order = ">" if content["is_bigendian"] else "<"
    names, formats, offsets = [], [], []
    for each in content["fields"]:
        if not 1 <= each["datatype"] <= len(_TYPES):
            raise ValueError(f"its field {each['name']!r} has the unknown type {each['datatype']}")
        if each["name"] in names:
            continue
        kind = np.dtype(order + _TYPES[each["datatype"] - 1])
        if each["offset"] + kind.itemsize > step:
            raise ValueError(f"its field {each['name']!r} is outside of a point of {step} bytes")
        names.append(each["name"])
        formats.append(kind)
        offsets.append(each["offset"])
    if not {"x", "y", "z"} <= set(names):
        raise ValueError("is a cloud without x, y and z")
    data, row = content["data"], content["row_step"]
    dtype = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": step})
    if not width * height:
        return np.zeros(0, dtype)
    if height == 1:
        row = width * step  # some drivers leave it zero
    if row < width * step or len(data) < (height - 1) * row + width * step:
        raise ValueError(f"has {len(data):,} bytes of data for {height} x {width} points of {step} bytes")
    return np.ndarray((height, width), dtype, data, strides=(row, step)).reshape(-1)


def vectors(points: np.ndarray) -> np.ndarray:
    """x, y and z of each point, f4 (point, 3)."""
    return np.stack([points[axis] for axis in "xyz"], axis=1, dtype="f4", casting="unsafe")


class TimeUnit(NamedTuple):
    """How the instants of points are stored."""

    fields: tuple[str, ...]  #: one name, or those of seconds and nanoseconds.
    unit: str  #: name of the unit.
    seconds: float  #: its length.
    #: `header` = counted from the header's stamp; `epoch` = of the header's clock; `own` = of another clock, of which
    #: only differences can be used.
    reference: str

    def offsets(self, points: np.ndarray | Mapping[str, np.ndarray], stamp: int) -> np.ndarray:
        """Instants of points, a structured array (point,) or the columns of its fields, after the header's `stamp`, ns:
        f8 s; after the last point where the clock is another one."""
        values = points[self.fields[0]]
        if not len(values):
            return np.zeros(0)
        if len(self.fields) == 2:
            whole = values.astype("i8") - stamp // 1_000_000_000
            offsets = whole + (points[self.fields[1]].astype("i8") - stamp % 1_000_000_000) / 1e9
        elif values.dtype.kind in "iu":
            # Whole ticks, without rounding: f8 has 0.2 us of the time since 1970.
            begin = round(stamp / (self.seconds * 1e9)) if self.reference == "epoch" else 0
            offsets = (values.astype("i8") - begin) * self.seconds
        elif self.reference == "epoch":
            offsets = (values.astype("f8") - stamp / 1e9 / self.seconds) * self.seconds
        else:
            offsets = values.astype("f8") * self.seconds
        return offsets - np.nanmax(offsets) if self.reference == "own" else offsets

    def __str__(self) -> str:
        reference = {
            "header": "after the header's stamp", "epoch": "of the header's clock",
            "own": "of another clock: the header's stamp is taken for the end of the sweep",
        }[self.reference]  # fmt: skip
        return f"{' and '.join(self.fields)} in {self.unit}, {reference}"


def find_unit(points: np.ndarray, stamp: int, period: float) -> TimeUnit | None:
    """How the instants of the points of a sweep are stored; None if that cannot be known.

    Drivers do not say their unit. A sweep takes about as long as the interval between sweeps and never much longer, so
    the unit is the largest one by which it takes no longer: units are a factor of a thousand apart.

    Args:
        period: s, median interval between sweeps.
    """
    fields = time_fields(points.dtype.names or ())
    if not fields or not len(points):
        return None
    if len(fields) == 2:
        unit = TimeUnit(fields, "s and ns", 1.0, "epoch")
        return unit if _is_near(unit.offsets(points, stamp)) else unit._replace(reference="own")
    values = points[fields[0]].astype("f8")
    values = values[np.isfinite(values)]
    span = float(values.max() - values.min()) if len(values) else 0.0
    if span <= 0:
        return None
    fitting = [name for name, seconds in _UNITS.items() if round(span * seconds / period) <= 1]
    if not fitting:
        return None
    unit = TimeUnit(fields, fitting[0], _UNITS[fitting[0]], "header")
    if np.abs(values * unit.seconds).max() <= TUNING.same_clock_s:
        return unit
    epoch = unit._replace(reference="epoch")
    return epoch if _is_near(epoch.offsets(points, stamp)) else unit._replace(reference="own")


def _is_near(offsets: np.ndarray) -> bool:
    return bool(np.nanmax(np.abs(offsets)) <= TUNING.same_clock_s)
