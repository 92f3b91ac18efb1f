"""Bags for tests, written by rosbags and by the writer of MCAP: other implementations than those that are tested."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mcap.writer import CompressionType
from mcap.writer import Writer as McapWriter
from rosbags.rosbag1 import Reader as Reader1
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from rover_pipeline.format.channels.jpeg import encode

#: Times at which bags of tests begin, ns.
START = 1_700_000_000_000_000_000
STORE1, STORE2 = get_typestore(Stores.ROS1_NOETIC), get_typestore(Stores.ROS2_HUMBLE)
STORE1.register(get_types_from_msg("geometry_msgs/TransformStamped[] transforms\n", "tf2_msgs/msg/TFMessage"))
for _store, _stamp in ((STORE1, "time"), (STORE2, "builtin_interfaces/Time")):
    _packet = f"{_stamp} stamp\nuint8[1206] data\n"
    _store.register(get_types_from_msg(_packet, "velodyne_msgs/msg/VelodynePacket"))
    _scan = "std_msgs/Header header\nvelodyne_msgs/VelodynePacket[] packets\n"
    _store.register(get_types_from_msg(_scan, "velodyne_msgs/msg/VelodyneScan"))
    for _package in ("ouster_ros", "ouster_sensor_msgs", "ouster_msgs"):
        _store.register(get_types_from_msg("uint8[] buf\n", f"{_package}/msg/PacketMsg"))
    for _package in ("livox_ros_driver", "livox_ros_driver2"):
        _point = "uint32 offset_time\nfloat32 x\nfloat32 y\nfloat32 z\nuint8 reflectivity\nuint8 tag\nuint8 line\n"
        _store.register(get_types_from_msg(_point, f"{_package}/msg/CustomPoint"))
        _cloud = "std_msgs/Header header\nuint64 timebase\nuint32 point_num\nuint8 lidar_id\nuint8[3] rsvd\n"
        _cloud += f"{_package}/CustomPoint[] points\n"
        _store.register(get_types_from_msg(_cloud, f"{_package}/msg/CustomMsg"))


class Sent(NamedTuple):
    """A message: when it was recorded, ns, and its fields in the order of its definition, without their names."""

    topic: str
    type: str
    time: int
    fields: tuple[Any, ...]


def header(stamp: int, frame: str = "sensor") -> tuple[Any, ...]:
    return ("std_msgs/msg/Header", (stamp, frame))


def build(store: Any, type: str, fields: Sequence[Any]) -> Any:
    """A message from nested tuples: `(type, fields)` is a message, a list holds messages, an int a time where due."""
    made = []
    for value in fields:
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and "/msg/" in value[0]:
            if value[0] == "std_msgs/msg/Header":
                made.append(_header(store, *value[1]))
            else:
                made.append(build(store, *value))
        elif isinstance(value, list):
            made.append([build(store, *each) for each in value])
        else:
            made.append(value)
    return store.types[type](*made)


def time_of(store: Any, stamp: int) -> Any:
    return store.types["builtin_interfaces/msg/Time"](stamp // 10**9, stamp % 10**9)


def _header(store: Any, stamp: int, frame: str) -> Any:
    made = store.types["std_msgs/msg/Header"]
    return made(7, time_of(store, stamp), frame) if store is STORE1 else made(time_of(store, stamp), frame)


def write_ros1(path: Path, messages: Sequence[Sent], compression: str = "") -> Path:
    writer = Writer1(path)
    if compression:
        writer.set_compression(Writer1.CompressionFormat[compression])
    with writer:
        connections: dict[str, Any] = {}
        for sent in messages:
            if sent.topic not in connections:
                connections[sent.topic] = writer.add_connection(sent.topic, sent.type, typestore=STORE1)
            raw = STORE1.serialize_ros1(build(STORE1, sent.type, sent.fields), sent.type)
            writer.write(connections[sent.topic], sent.time, bytes(raw))
    return path


def write_ros2(path: Path, messages: Sequence[Sent], compression: str = "") -> Path:
    """A folder of rosbag2 with a database."""
    writer = Writer2(path)
    if compression:
        writer.set_compression(Writer2.CompressionMode[compression], Writer2.CompressionFormat.ZSTD)
    with writer:
        connections: dict[str, Any] = {}
        for sent in messages:
            if sent.topic not in connections:
                connections[sent.topic] = writer.add_connection(sent.topic, sent.type, typestore=STORE2)
            raw = STORE2.serialize_cdr(build(STORE2, sent.type, sent.fields), sent.type)
            writer.write(connections[sent.topic], sent.time, bytes(raw))
    return path


def write_mcap(path: Path, messages: Sequence[Sent], compression: str = "ZSTD") -> Path:
    with path.open("wb") as file:
        writer = McapWriter(file, chunk_size=1 << 16, compression=CompressionType[compression])
        writer.start()
        channels: dict[str, int] = {}
        for sent in messages:
            if sent.topic not in channels:
                schema = writer.register_schema(sent.type, "ros2msg", b"")
                channels[sent.topic] = writer.register_channel(sent.topic, "cdr", schema)
            raw = STORE2.serialize_cdr(build(STORE2, sent.type, sent.fields), sent.type)
            writer.add_message(channels[sent.topic], sent.time, bytes(raw), sent.time)
        writer.finish()
    return path


def write_all(folder: Path) -> None:
    """The same short recording in every container."""
    folder.mkdir()
    messages = rig()
    write_ros1(folder / "plain.bag", messages)
    write_ros1(folder / "lz4.bag", messages, "LZ4")
    write_ros1(folder / "bz2.bag", messages, "BZ2")
    write_mcap(folder / "zstd.mcap", messages)
    write_mcap(folder / "plain.mcap", messages, "NONE")
    shutil.move(next(write_ros2(folder / "two", messages).glob("*.db3")), folder / "two.db3")
    shutil.rmtree(folder / "two")
    write_ros2(folder / "packed", messages, "MESSAGE")
    write_mcap(folder / "several.mcap", several())
    write_capture(folder / "velodyne.pcap")
    write_capture(folder / "two.pcap", addresses=(201, 202))


def as_ros2(bag: Path, folder: Path) -> Path:
    """A bag of ROS 1 as a folder of rosbag2, converted by rosbags."""
    with Reader1(bag) as reader, Writer2(folder) as writer:
        connections = {
            each.id: writer.add_connection(each.topic, each.msgtype, typestore=STORE2)
            for each in reader.connections
            if each.msgtype in STORE2.FIELDDEFS
        }
        for connection, time, raw in reader.messages():
            if connection.id in connections:
                cdr = STORE2.ros1_to_cdr(raw, connection.msgtype)
                writer.write(connections[connection.id], time, bytes(cdr))
    return folder


_CODES = {"i1": 1, "u1": 2, "i2": 3, "u2": 4, "i4": 5, "u4": 6, "f4": 7, "f8": 8}


def cloud(topic: str, stamp: int, points: np.ndarray, *, time: int = 0, frame: str = "lidar") -> Sent:
    """A PointCloud2 of a structured array (point,)."""
    fields = points.dtype.fields
    assert fields is not None
    described = [
        ("sensor_msgs/msg/PointField", (name, offset, _CODES[kind.str[1:]], 1))
        for name, (kind, offset, *_) in fields.items()
    ]
    step, data = points.dtype.itemsize, np.frombuffer(points.tobytes(), "u1")
    big = any(kind.str[0] == ">" for kind, *_ in fields.values())
    values = (header(stamp, frame), 1, len(points), described, big, step, step * len(points), data, True)
    return Sent(topic, "sensor_msgs/msg/PointCloud2", time or stamp, values)


def vector(x: float, y: float, z: float) -> tuple[str, tuple[float, ...]]:
    return ("geometry_msgs/msg/Vector3", (x, y, z))


def quaternion(x: float, y: float, z: float, w: float) -> tuple[str, tuple[float, ...]]:
    return ("geometry_msgs/msg/Quaternion", (x, y, z, w))


def imu(topic: str, stamp: int, acc: tuple[float, float, float], *, time: int = 0, frame: str = "imu") -> Sent:
    values = (
        header(stamp, frame), quaternion(0, 0, 0, 1), np.zeros(9), vector(0.1, 0.2, 0.3), np.zeros(9), vector(*acc),
        np.zeros(9),
    )  # fmt: skip
    return Sent(topic, "sensor_msgs/msg/Imu", time or stamp, values)


def transform(stamp: int, parent: str, child: str, xyz: tuple[float, float, float], xyzw: tuple[float, ...]) -> Any:
    pose = ("geometry_msgs/msg/Transform", (vector(*xyz), quaternion(*xyzw)))
    return ("geometry_msgs/msg/TransformStamped", (header(stamp, parent), child, pose))


def rig(count: int = 5) -> list[Sent]:
    """Messages of all kinds that become sensors."""
    kind = np.dtype([*((axis, "<f4") for axis in "xyz"), ("intensity", "<f4"), ("t", "<u4"), ("ring", "<u2")])
    echoes = np.ones(6, np.dtype([*((axis, "<f4") for axis in "xyz"), ("snr_db", "<f4"), ("v_doppler_mps", "<f4")]))
    picture = np.random.default_rng(0).integers(0, 255, (16, 24, 3), dtype="u1")
    jpeg = np.frombuffer(encode(picture), "u1")
    pose = ("geometry_msgs/msg/Pose", (("geometry_msgs/msg/Point", (1.0, 2.0, 3.0)), quaternion(0, 0, 0, 1)))
    tree = [transform(START, "base", frame, (0, 0, 1), (0, 0, 0, 1)) for frame in ("lidar", "imu", "radar")]
    sent = [Sent("/tf_static", "tf2_msgs/msg/TFMessage", START, (tree,))]
    for i in range(count):
        stamp = START + i * 100_000_000
        points = np.zeros(20 + i, kind)
        points["x"], points["t"] = np.arange(20 + i) + 1, np.linspace(0, 9e7, 20 + i)
        values = (header(stamp), "jpeg", jpeg)
        sent += [
            cloud("/points", stamp, points),
            cloud("/radar", stamp, echoes, frame="radar"),
            imu("/imu", stamp, (0, 0, 9.8)),
            Sent("/cam/compressed", "sensor_msgs/msg/CompressedImage", stamp, values),
            Sent("/pose", "geometry_msgs/msg/PoseStamped", stamp, (header(stamp), pose)),
        ]
    return sent


#: Sensor that a topic of `several` becomes -> topic, coordinate frame, and where it is on the rig, m, as seen from the
#: main lidar.
TOPICS = {
    "lidar": ("/top/points", "top", (0, 0, 0)), "lidar_rear": ("/rear/points", "rear", (-1, 0, -0.5)),
    "radar": ("/radar/front/cloud", "radar_front", (2, 0, -1)),
    "radar_rear": ("/radar/rear/cloud", "radar_rear", (-2, 0, -1)),
    "camera": ("/camera/front/image/compressed", "cam0", (1, 0, -0.2)),
    "camera_left": ("/camera/left/image/compressed", "cam1", (1, 0.5, -0.2)),
    "camera_right": ("/camera/right/image", "cam2", (1, -0.5, -0.2)),
    "imu": ("/imu/a/data", "imu_a", (0, 0, -0.1)), "imu_b": ("/imu/b/data", "imu_b", (0.3, 0, -0.1)),
    "gnss": ("/gnss/fix", "antenna", (0, 0, 0.4)),
}  # fmt: skip


def sample(sensor: str, i: int) -> np.ndarray:
    """What a sensor of `several` measured: points, a picture, both vectors of an IMU, or a position."""
    random = np.random.default_rng([*sensor.encode(), i])
    kind = sensor.partition("_")[0]
    if kind in ("lidar", "radar"):
        return random.uniform(1, 20, (12 + i + len(sensor), 4)).astype("f4")  # x y z, and intensity or Doppler
    if kind == "camera":
        return np.full((16, 40 - 8 * (sensor == "camera_left"), 3), random.integers(20, 230, 3), "u1")
    return random.uniform(1, 9, 6)


def several(count: int = 5) -> list[Sent]:
    """Messages of a rig with two lidars, two radars, three cameras, two IMUs and a GNSS."""
    fields = {"lidar": "intensity", "radar": "v_doppler_mps"}
    tree = [transform(START, "top", frame, xyz, (0, 0, 0, 1)) for _, frame, xyz in TOPICS.values() if frame != "top"]
    sent = [Sent("/tf_static", "tf2_msgs/msg/TFMessage", START, (tree,))]
    for i in range(count):
        for number, (sensor, (topic, frame, _)) in enumerate(TOPICS.items()):
            if i == count - 1 and sensor in ("lidar_rear", "radar_rear", "imu_b"):
                continue  # the main ones have most messages
            stamp, kind, values = (
                START + i * 100_000_000 + number * 1_000_000,
                sensor.partition("_")[0],
                sample(sensor, i),
            )
            if kind in fields:
                names = [*((axis, "<f4") for axis in "xyz"), (fields[kind], "<f4")]
                points = np.ascontiguousarray(values).view(np.dtype(names))[:, 0]
                sent.append(cloud(topic, stamp, points, frame=frame))
            elif kind == "imu":
                sent.append(imu(topic, stamp, (*values[:3],), frame=frame))
            elif kind == "gnss":
                status = ("sensor_msgs/msg/NavSatStatus", (0, 1))
                cov = np.diag(values[3:]).ravel()
                sent.append(
                    Sent(topic, "sensor_msgs/msg/NavSatFix", stamp, (header(stamp, frame), status, *values[:3], cov, 2))
                )
            elif topic.endswith("compressed"):
                jpeg = np.frombuffer(encode(values), "u1")
                sent.append(Sent(topic, "sensor_msgs/msg/CompressedImage", stamp, (header(stamp, frame), "jpeg", jpeg)))
                sent.append(
                    camera_info(topic.replace("image/compressed", "camera_info"), stamp, values.shape[:2], 50 + number)
                )
            else:
                size = values.shape[:2]
                taken = (header(stamp, frame), *size, "rgb8", 0, 3 * size[1], values.ravel())
                sent.append(Sent(topic, "sensor_msgs/msg/Image", stamp, taken))
    return sent


def camera_info(topic: str, stamp: int, size: tuple[int, int], focal: float) -> Sent:
    k, roi = np.array([focal, 0, 12, 0, focal, 8, 0, 0, 1.0]), ("sensor_msgs/msg/RegionOfInterest", (0, 0, 0, 0, False))
    values = (header(stamp), *size, "plumb_bob", np.zeros(5), k, np.eye(3).ravel(), np.zeros(12), 0, 0, roi)
    return Sent(topic, "sensor_msgs/msg/CameraInfo", stamp, values)


def write_capture(path: Path, packets: int = 160, addresses: Sequence[int] = (201,)) -> Path:
    """A capture of VLP-16 at addresses 192.168.1.N, of packets of 4.8 degrees. Returns are farther by 2 m for each."""
    data = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 16, 1)
    for i, (number, address) in ((i, each) for i in range(packets) for each in enumerate(addresses)):
        clock = int(i * 1327.1)
        payload = b""
        for block in range(12):
            returns = b"".join(struct.pack("<HB", 500 + 1000 * number + lane, lane) for lane in range(32))
            payload += b"\xff\xee" + struct.pack("<H", (480 * i + 40 * block) % 36000) + returns
        payload += struct.pack("<IBB", clock, 0x37, 0x22)
        udp = struct.pack(">HHHH", 2368, 2368, 8 + len(payload), 0) + payload
        source = bytes((192, 168, 1, address))
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), i, 0, 64, 17, 0, source, b"\xff" * 4)
        frame = b"\xff" * 6 + b"\x60" * 6 + b"\x08\x00" + ip + udp
        data += struct.pack("<IIII", START // 10**9, clock, len(frame), len(frame)) + frame
    path.write_bytes(data)
    return path
