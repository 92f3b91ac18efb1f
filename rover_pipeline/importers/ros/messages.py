"""Decodes the messages of ROS that a trace can hold, from both wire formats: that of ROS 1, and CDR of ROS 2.

Definitions stand here and are not taken from the file. They are those of the packages `common_msgs`, `geometry2`,
`velodyne`, `ouster-ros` and `livox_ros_driver`, which are the same in ROS 1 and ROS 2 but for `Header.seq`. So a file
cannot make this program run or build anything, and files without definitions (rosbag2 before ROS 2 Iron) can be read.

Wire formats: ROS 1 (wiki.ros.org/roscpp/Overview/MessagesSerializationAndAdaptingTypes) packs the fields without gaps.
CDR (OMG DDS-RTPS, section 10) aligns each number to its size, and ends strings with a zero byte.
"""

from __future__ import annotations

import functools
import struct
from typing import Any

import numpy as np

#: Field -> its kind: a number (`f8`), `time`, `string`, another type; `*N` is an array of N, `[]` one of any length.
Definition = dict[str, str]

_IMAGE_SIZE = {"header": "Header", "height": "u4", "width": "u4"}
DEFINITIONS: dict[str, Definition] = {
    "Header": {"stamp": "time", "frame_id": "string"},
    "sensor_msgs/PointField": {"name": "string", "offset": "u4", "datatype": "u1", "count": "u4"},
    "sensor_msgs/PointCloud2": {
        **_IMAGE_SIZE, "fields": "sensor_msgs/PointField[]", "is_bigendian": "u1", "point_step": "u4",
        "row_step": "u4", "data": "u1[]", "is_dense": "u1",
    },
    # angle_min, angle_max, angle_increment, time_increment, scan_time, range_min, range_max
    "sensor_msgs/LaserScan": {"header": "Header", "limits": "f4*7", "ranges": "f4[]", "intensities": "f4[]"},
    # Quaternion and its covariance, angular velocity and its covariance, acceleration and its covariance.
    "sensor_msgs/Imu": {"header": "Header", "values": "f8*37"},
    "sensor_msgs/Image": {**_IMAGE_SIZE, "encoding": "string", "is_bigendian": "u1", "step": "u4", "data": "u1[]"},
    "sensor_msgs/CompressedImage": {"header": "Header", "format": "string", "data": "u1[]"},
    "sensor_msgs/CameraInfo": {
        **_IMAGE_SIZE, "distortion_model": "string", "d": "f8[]", "k": "f8*9", "r": "f8*9", "p": "f8*12",
        "binning": "u4*2", "roi": "u4*4", "do_rectify": "u1",
    },
    "sensor_msgs/NavSatFix": {
        "header": "Header", "status": "i1", "service": "u2", "position": "f8*3", "covariance": "f8*9",
        "covariance_type": "u1",
    },
    # A pose is x, y, z and a quaternion x, y, z, w.
    "nav_msgs/Odometry": {
        "header": "Header", "child_frame_id": "string", "pose": "f8*7", "covariance": "f8*36", "twist": "f8*6",
        "twist_covariance": "f8*36",
    },
    "geometry_msgs/PoseStamped": {"header": "Header", "pose": "f8*7"},
    "geometry_msgs/PoseWithCovarianceStamped": {"header": "Header", "pose": "f8*7", "covariance": "f8*36"},
    "geometry_msgs/TransformStamped": {"header": "Header", "child_frame_id": "string", "pose": "f8*7"},
    "tf2_msgs/TFMessage": {"transforms": "geometry_msgs/TransformStamped[]"},
    "velodyne_msgs/VelodynePacket": {"stamp": "time", "data": "u1*1206"},
    "velodyne_msgs/VelodyneScan": {"header": "Header", "packets": "velodyne_msgs/VelodynePacket[]"},
    "ouster_ros/PacketMsg": {"buf": "u1[]"},
    # The time base is that of the header; the offsets of points count from it, ns.
    "livox_ros_driver/CustomMsg": {
        "header": "Header", "timebase": "u8", "point_num": "u4", "lidar_id": "u1", "reserved": "u1*3",
        "points": "livox_ros_driver/CustomPoint[]",
    },
    "livox_ros_driver/CustomPoint": {
        "offset_time": "u4", "x": "f4", "y": "f4", "z": "f4", "reflectivity": "u1", "tag": "u1", "line": "u1",
    },
    "std_msgs/String": {"data": "string"},
}  # fmt: skip
DEFINITIONS["tf/tfMessage"] = DEFINITIONS["tf2_msgs/TFMessage"]
#: Names of the same messages in other versions of their drivers.
PACKETS = ("ouster_ros/PacketMsg", "ouster_sensor_msgs/PacketMsg", "ouster_msgs/PacketMsg")
LIVOX = ("livox_ros_driver/CustomMsg", "livox_ros_driver2/CustomMsg", "livox_interfaces/CustomMsg")
DEFINITIONS |= {name: DEFINITIONS[names[0]] for names in (PACKETS, LIVOX) for name in names}
#: Encapsulation identifiers of plain CDR (RTPS 2.x, table 10.1). Layout.
_CDR_BIG, _CDR_LITTLE = b"\x00\x00", b"\x00\x01"
_MAX_STRING = 1 << 20  # Schedule.


def known_type(name: str) -> str:
    """The name of a type without the `msg/` that ROS 2 writes in it."""
    package, _, rest = name.partition("/")
    return f"{package}/{rest.removeprefix('msg/')}"


def has_header(type: str) -> bool:
    return "header" in DEFINITIONS.get(type, {})


def decode(type: str, encoding: str, data: memoryview, upto: str = "") -> dict[str, Any]:
    """The fields of a message; numbers as ints or floats, arrays as views of `data`, times as ns. Raises ValueError
    where the message ends too early or too late, or is no message of this type.

    Args:
        type: a key of `DEFINITIONS`; encoding: `ros1` or `cdr`.
        upto: the last field that is wanted; `data` then needs to hold no more than these. Empty: all.
    """
    order, padding = "<", 0
    if encoding == "cdr":
        kind = bytes(data[:2])
        if kind not in (_CDR_BIG, _CDR_LITTLE):
            raise ValueError(f"begins with {kind.hex()}, which is no plain CDR")
        order, data, padding = "<" if kind == _CDR_LITTLE else ">", data[4:], 3
    cursor = _Cursor(data, order, encoding == "cdr")
    try:
        content = _record(type, cursor, upto)
    except (struct.error, IndexError) as error:
        raise ValueError(f"ends at byte {len(data)}, within a field") from error
    if not upto and not cursor.position <= len(data) <= cursor.position + padding:
        raise ValueError(f"has {len(data)} bytes where a {type} has {cursor.position}")
    return content


def _record(type: str, cursor: _Cursor, upto: str = "") -> dict[str, Any]:
    content: dict[str, Any] = {}
    if type == "Header" and not cursor.aligned:
        cursor.number("I", 4)  # seq
    for name, base, repeat, count in _plan(type):
        if repeat == "[]":
            count = cursor.number("I", 4)
        if repeat and base in _NUMBERS:
            content[name] = cursor.array(base, count)
        elif repeat and (fields := _numbers(base)):
            content[name] = cursor.table(fields, count)
        elif repeat:
            cursor.require(count)  # each takes at least one byte
            content[name] = [_record(base, cursor) for _ in range(count)]
        elif base in _NUMBERS:
            content[name] = cursor.number(*_NUMBERS[base])
        elif base == "string":
            content[name] = cursor.string()
        elif base == "time":
            content[name] = cursor.time()
        else:
            content[name] = _record(base, cursor)
        if name == upto:
            break
    return content


@functools.cache
def _numbers(type: str) -> list[tuple[str, str]]:
    """Names and kinds of the fields of a type of plain numbers, the largest first; else empty."""
    fields = [(name, base) for name, base, repeat, _ in _plan(type) if base in _NUMBERS and not repeat]
    is_plain = len(fields) == len(_plan(type))
    return fields if is_plain and _NUMBERS[fields[0][1]][1] == max(_NUMBERS[base][1] for _, base in fields) else []


@functools.cache
def _plan(type: str) -> list[tuple[str, str, str, int]]:
    """Name, kind, `*` or `[]` of an array, and fixed number of its values, of each field of a type."""
    plan = []
    for name, kind in DEFINITIONS[type].items():
        base, _, count = kind.removesuffix("[]").partition("*")
        plan.append((name, base, "[]" if kind.endswith("[]") else "*" if count else "", int(count or 0)))
    return plan


#: Kind -> its letter in `struct` and its size. Layout.
_NUMBERS = {
    "u1": ("B", 1), "i1": ("b", 1), "u2": ("H", 2), "u4": ("I", 4), "u8": ("Q", 8), "f4": ("f", 4), "f8": ("d", 8),
}  # fmt: skip


class _Cursor:
    """A place in a message. It never goes backwards and never beyond the end."""

    def __init__(self, data: memoryview, order: str, aligned: bool) -> None:
        self.data, self.order, self.aligned = data, order, aligned
        self.position = 0

    def require(self, size: int) -> None:
        if self.position + size > len(self.data):
            raise ValueError(f"claims {size:,} bytes from byte {self.position} of {len(self.data):,}")

    def number(self, letter: str, size: int) -> Any:
        self._align(size)
        (value,) = struct.unpack_from(self.order + letter, self.data, self.position)
        self.position += size
        return value

    def time(self) -> int:
        """Nanoseconds. ROS 1 counts seconds without a sign, ROS 2 with one; both are equal until 2038."""
        return int(self.number("I", 4)) * 1_000_000_000 + int(self.number("I", 4))

    def array(self, base: str, count: int) -> np.ndarray:
        size = _NUMBERS[base][1]
        if count:
            self._align(size)
        self.require(count * size)
        values = np.frombuffer(self.data, np.dtype(self.order + base), count, self.position)
        self.position += count * size
        return values

    def table(self, fields: list[tuple[str, str]], count: int) -> np.ndarray:
        """Records of numbers, a structured array (record,). CDR aligns them as C does, but nothing follows the last."""
        dtype = np.dtype([(name, self.order + base) for name, base in fields], align=self.aligned)
        if not count:
            return np.zeros(0, dtype)
        self._align(dtype.alignment)
        assert dtype.fields is not None
        kind, offset, *_ = dtype.fields[fields[-1][0]]
        size = (count - 1) * dtype.itemsize + offset + kind.itemsize
        self.require(size)
        values = np.zeros(count, dtype)
        values.view("u1")[:size] = np.frombuffer(self.data, "u1", size, self.position)
        self.position += size
        return values

    def string(self) -> str:
        length = self.number("I", 4)
        if length > _MAX_STRING:
            raise ValueError(f"claims a string of {length:,} bytes at byte {self.position}")
        self.require(length)
        text = bytes(self.data[self.position : self.position + length])
        self.position += length
        return text.removesuffix(b"\0").decode(errors="replace")

    def _align(self, size: int) -> None:
        if self.aligned:
            self.position = (self.position + size - 1) & -size
