"""The first reading of a recording: which topics it has, how many messages, and when they were taken.

It keeps two times for each message, and of the messages themselves only what the choice of topics depends on.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from rover_pipeline.errors import FormatError, counted, short
from rover_pipeline.importers.ros.bags import Recording
from rover_pipeline.importers.ros.files import Message
from rover_pipeline.importers.ros.messages import DEFINITIONS, LIVOX, PACKETS, decode, has_header, known_type
from rover_pipeline.importers.tuning import TUNING
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.numerics.jumps import is_set, jumps
from rover_pipeline.numerics.linear import inv, matmul

# Coordinate frames that `tf` connects, and the mounts of the sensors that follow from them (REP 105).

#: Maximum number of frames between two sensors, of which a robot has a dozen, and of all frames. Schedule.
_MAX_DEPTH = 100
_MAX_FRAMES = 10_000


def pose_matrix(pose: np.ndarray) -> np.ndarray:
    """A pose of seven numbers, x y z and a quaternion x y z w, as f8 (4, 4). Raises ValueError where the quaternion is
    zero, or a number is not finite."""
    values = np.asarray(pose, "f8")
    if not np.isfinite(values).all() or not np.linalg.norm(values[3:], axis=0) > 0.5:
        raise ValueError("is no pose: its quaternion is not of length one")
    return Poses(Rotation.from_quat(values[3:]).as_matrix(), values[:3]).matrices


@dataclass
class FrameTree:
    """A tree of frames: each has at most one parent. Transforms that move do not connect frames for good."""

    #: child -> parent and `T_parent_child`, seven numbers.
    parents: dict[str, tuple[str, np.ndarray]] = field(default_factory=dict)
    moving: set[str] = field(default_factory=set)  #: children whose transforms differ between messages.

    def add(self, parent: str, child: str, pose: np.ndarray, static: bool) -> None:
        """Take a transform from a message. A child whose parent or transform changes counts as moving."""
        parent, child = parent.lstrip("/"), child.lstrip("/")
        known = self.parents.get(child)
        if known is None:
            if len(self.parents) < _MAX_FRAMES:
                self.parents[child] = (parent, pose)
        elif static:  # the last one that is sent holds
            self.parents[child] = (parent, pose)
        elif child not in self.moving and (known[0] != parent or not np.allclose(known[1], pose)):
            self.moving.add(child)

    def between(self, target: str, source: str) -> np.ndarray | None:
        """`T_target_source`, f8 (4, 4), from transforms that do not move; None where they do not connect the frames."""
        to_target, to_source = self._ancestors(target), self._ancestors(source)
        for frame, matrix in to_source.items():
            if frame in to_target:
                return np.asarray(matmul(inv(to_target[frame]), matrix))
        return None

    def _ancestors(self, frame: str) -> dict[str, np.ndarray]:
        """The frame and its ancestors that do not move against it -> `T_ancestor_frame`, nearest first."""
        found = {frame: np.eye(4)}
        while frame in self.parents and frame not in self.moving and len(found) < _MAX_DEPTH:
            parent, pose = self.parents[frame]
            if parent in found:
                break
            try:
                found[parent] = matmul(pose_matrix(pose), found[frame])
            except ValueError:
                break
            frame = parent
        return found


#: Encodings of messages that can be decoded.
ENCODINGS = ("ros1", "cdr")
TF = ("tf2_msgs/TFMessage", "tf/tfMessage")
#: Against a damaged file, whose topics would fill the memory. Schedule.
_MAX_TOPICS = 5000


@dataclass
class Topic:
    """What is known of a topic."""

    name: str
    type: str
    encoding: str
    recorded: array[int] = field(default_factory=lambda: array("q"))  #: i8 ns, when each message was recorded.
    #: i8 ns, the stamp of its header; 0 for a type without a header.
    stamped: array[int] = field(default_factory=lambda: array("q"))
    damaged: dict[int, str] = field(default_factory=dict)  #: numbers of messages that cannot be decoded.
    #: the fields of the first message, for types that describe themselves by it.
    first: dict[str, Any] = field(default_factory=dict)
    points: int = 0  #: most points of a cloud.
    bytes: int = 0

    @property
    def count(self) -> int:
        return len(self.recorded)

    @property
    def decodable(self) -> bool:
        return self.encoding in ENCODINGS and self.type in DEFINITIONS

    @property
    def frame(self) -> str:
        """The coordinate frame that the messages refer to, without the leading slash of old names."""
        return str(self.first.get("header", {}).get("frame_id", "")).lstrip("/")

    @property
    def fields(self) -> list[str]:
        """Names of the fields of a cloud."""
        return [each["name"] for each in self.first.get("fields", [])]


@dataclass
class Survey:
    """Attributes: topics: name -> what is known; frames: coordinate frames that `tf` connects."""

    topics: dict[str, Topic] = field(default_factory=dict)
    frames: FrameTree = field(default_factory=FrameTree)


#: Type of clouds -> the fields whose product is the number of points, the last one in a message first.
_SIZES = {"sensor_msgs/PointCloud2": ("width", "height"), **dict.fromkeys(LIVOX, ("point_num",))}
#: Type -> the last field that is read of its first message; "" = all of it.
_READ = {
    "nav_msgs/Odometry": "child_frame_id",
    "sensor_msgs/PointCloud2": "fields",
    "sensor_msgs/CameraInfo": "",
    "sensor_msgs/Image": "encoding",
    "sensor_msgs/CompressedImage": "format",
    "std_msgs/String": "",
    **dict.fromkeys(LIVOX, "point_num"),
    **dict.fromkeys(PACKETS, ""),
}
#: Coordinate frames of the packets of an Ouster, as its driver names them by default.
_OUSTER_FRAMES = {"lidar": "os_sensor", "imu": "os_imu"}


def survey(recording: Recording, advance: Callable[[int], object]) -> Survey:
    """Read the beginnings of all messages.

    `advance` is called with the number of bytes that were read since its last call. Raises FormatError where a file is
    damaged, or has more topics than any robot.
    """
    found = Survey()
    for message in recording.messages(heads=True, advance=advance):
        topic = found.topics.get(message.topic)
        if topic is None:
            if len(found.topics) >= _MAX_TOPICS:
                raise FormatError(f"{recording.files[0].path}: has more than {_MAX_TOPICS} topics; it is damaged")
            topic = Topic(message.topic, known_type(message.type), message.encoding)
            found.topics[message.topic] = topic
        stamp = 0
        if topic.decodable:
            try:
                if (known_type(message.type), message.encoding) != (topic.type, topic.encoding):
                    raise ValueError(f"is a {short(message.type)}, others of its topic are {topic.type}")
                stamp = _look(message, topic, found)
            except ValueError as error:
                topic.damaged[topic.count] = str(error)
        topic.recorded.append(_in_range(message.time))
        topic.stamped.append(_in_range(stamp))
        topic.bytes += message.size
    return found


def _look(message: Message, topic: Topic, found: Survey) -> int:
    """Keep what is needed of a message, and return the stamp of its header, ns."""
    if topic.type in TF:
        for each in decode(topic.type, topic.encoding, message.data)["transforms"]:
            parent, child = each["header"]["frame_id"], each["child_frame_id"]
            found.frames.add(parent, child, np.array(each["pose"]), "static" in topic.name)
        return 0
    if not has_header(topic.type):
        if not topic.first and topic.type in _READ:
            topic.first = decode(topic.type, topic.encoding, message.data)
            if topic.type in PACKETS:  # its bytes would keep the chunk that they are in
                kind = "imu" if is_imu_packets(topic.name) else "lidar"
                topic.first = {"size": len(topic.first["buf"]), "header": {"frame_id": _OUSTER_FRAMES[kind]}}
        return 0
    sizes = _SIZES.get(topic.type, ())
    upto = [*sizes, "header"][0] if topic.first else _READ.get(topic.type, "header")
    content = decode(topic.type, topic.encoding, message.data, upto)
    topic.first = topic.first or content
    points = math.prod(content[name] for name in sizes) if sizes else 0
    if points > message.size:
        raise ValueError(f"claims {points:,} points in {message.size:,} bytes")
    topic.points = max(topic.points, points)
    return int(content["header"]["stamp"])


def is_imu_packets(topic: str) -> bool:
    """Whether a topic of packets of an Ouster has those of its IMU, by its name."""
    return "imu" in topic.rpartition("/")[2].lower()


def _in_range(time: int) -> int:
    return time if 0 <= time < 1 << 63 else 0


# When samples were taken: by the stamps of message headers, or by the times at which messages were recorded.


class Stamps(NamedTuple):
    """Times of the messages of a topic."""

    times: np.ndarray  #: f8 (kept,), s, strictly increasing.
    #: i8 (message,), the place of each message among those that are kept; -1 = left out, because its time is that of
    #: another one, or before it by more than `TUNING.max_late` messages.
    rank: np.ndarray
    source: str  #: `header`, `bag`, or `bag+offset`.
    note: str  #: what the user should know; empty otherwise.
    ns: np.ndarray  #: i8 (kept,), the times without rounding, ns.


def choose_stamps(
    topics: Mapping[str, tuple[np.ndarray, np.ndarray]],
    wanted: str,
    first: str | None = None,
    packets: Collection[str] = (),
) -> dict[str, Stamps]:
    """The times of topics, all of one clock.

    Header stamps are when a sensor measured, and the recorder's times are when its message arrived, so headers are
    better where they are good: above zero, in order, not repeated, and without a jump that the recorder does not show.
    They must also be of one clock. Topics whose headers keep the same offset from the recorder's time share one. If
    there are several clocks, the trace has the one that was set (1990 to 2100), that most topics have, and that `first`
    has. All other topics have the time of the recorder plus the offset of that clock.

    Args:
        topics: name -> recorded and stamped times, i8 (message,), ns; stamps are zero where there is no header.
        wanted: `auto` as above; `header` = each topic has its own stamps; `bag` = times of the recorder.
        first: the topic that decides between equals.
        packets: topics of parts of samples. All of them are kept in their order, also those that came at one time.
    """

    def ordered(times: np.ndarray, source: str, note: str, name: str) -> Stamps:
        if name not in packets:
            return _in_order(times, source, note)
        running = np.maximum.accumulate(times)
        return Stamps(running / 1e9, np.arange(len(times)), source, note, running)

    if wanted == "bag":
        return {name: ordered(recorded, "bag", "", name) for name, (recorded, _) in topics.items()}
    offsets, problems = {}, {}
    for name, (recorded, stamped) in topics.items():
        problems[name] = _problem(recorded, stamped)
        if not problems[name] or (wanted == "header" and (stamped > 0).any()):
            offsets[name] = int(np.median(stamped - recorded))
    if wanted == "header":
        sources = {name: "header" if name in offsets else "bag" for name in topics}
        return {name: ordered(topics[name][name in offsets], sources[name], problems[name], name) for name in topics}
    clock = _clock(topics, offsets, first)
    result = {}
    for name, (recorded, stamped) in topics.items():
        if name in clock:
            result[name] = ordered(stamped, "header", "", name)
            continue
        note = problems[name] or "its header stamps are of another clock"
        if clock:
            shift = int(np.median([offsets[each] for each in clock]))
            note += f"; it has bag times, moved by {shift / 1e9:+.3f} s to the clock of {sorted(clock)[0]}"
            result[name] = ordered(recorded + shift, "bag+offset", note, name)
        else:
            result[name] = ordered(recorded, "bag", f"{note}; it has bag times", name)
    return result


def _clock(
    topics: Mapping[str, tuple[np.ndarray, np.ndarray]], offsets: Mapping[str, int], first: str | None
) -> set[str]:
    """Names of the topics whose headers are of the clock of the trace."""
    groups: list[list[str]] = []
    for name in sorted(offsets, key=lambda name: offsets[name]):
        if groups and offsets[name] - offsets[groups[-1][-1]] < TUNING.same_clock_s * 1e9:
            groups[-1].append(name)
        else:
            groups.append([name])

    def worth(group: list[str]) -> tuple[bool, int, bool, int]:
        stamps = topics[group[0]][1]
        return is_set(np.sort(stamps) / 1e9), len(group), first in group, -abs(offsets[group[0]])

    return set(sorted(groups, key=worth)[-1]) if groups else set()


def _problem(recorded: np.ndarray, stamped: np.ndarray) -> str:
    """Why header stamps are no times of measurement; empty when they are."""
    if not len(stamped) or not (stamped > 0).any():
        return "its messages have no header stamps"
    if (stamped <= 0).any():
        return f"{int((stamped <= 0).sum())} of its {len(stamped)} header stamps are zero"
    odd = int((_kept_ranks(stamped) < 0).sum())
    if odd > TUNING.max_odd * len(stamped):
        return f"{odd} of its {len(stamped)} header stamps repeat or come late"
    if len(jumps(np.sort(stamped) / 1e9)) > len(jumps(np.sort(recorded) / 1e9)):
        return "its header stamps jump where the recorder's times do not"
    return ""


def _in_order(times: np.ndarray, source: str, note: str) -> Stamps:
    rank = _kept_ranks(times)
    if lost := int((rank < 0).sum()):
        note += f"{'; ' if note else ''}left out: {counted(lost, 'message')} of {len(rank)}: times repeat or come late"
    kept = np.empty(int(rank.max(initial=-1)) + 1, "i8")
    kept[rank[rank >= 0]] = times[rank >= 0]
    return Stamps(kept / 1e9, rank, source, note, kept)


def _kept_ranks(times: np.ndarray) -> np.ndarray:
    """The place of each message in the order of times, i8 (message,); -1 for repeated and very late ones."""
    seconds = times / 1e9
    if (np.diff(seconds) > 0).all():
        return np.arange(len(times))
    # A message is very late when a later one was recorded more than `max_late` messages before it.
    highest = np.maximum.accumulate(times)
    limit = np.concatenate([np.full(min(TUNING.max_late, len(times)), -(1 << 62)), highest[: -TUNING.max_late]])
    kept = np.flatnonzero(times > limit)
    order = kept[np.argsort(times[kept], kind="stable")]
    # Times are stored as seconds in f8, which are equal when they differ by less than 0.2 us.
    new = np.concatenate([[True], np.diff(seconds[order]) > 0]) if len(order) else np.zeros(0, bool)
    rank = np.full(len(times), -1, "i8")
    rank[order[new]] = np.arange(int(new.sum()))
    return rank
