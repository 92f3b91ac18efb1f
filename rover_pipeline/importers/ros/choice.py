"""Which topic becomes which sensor of the trace, where that is mounted, and what is left out, with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.errors import ConfigError, did_you_mean
from rover_pipeline.importers.origin import MAX_SENSORS, OPTICAL_FROM_CAMERA, from_rig, in_rig, sensor_name
from rover_pipeline.importers.ros.layouts import DOPPLER, find_field, time_fields
from rover_pipeline.importers.ros.messages import LIVOX, PACKETS
from rover_pipeline.importers.ros.survey import ENCODINGS, TF, FrameTree, Topic, is_imu_packets
from rover_pipeline.importers.tuning import TUNING
from rover_pipeline.numerics.linear import matmul

#: Role -> the types of messages that can play it.
ROLES: dict[str, tuple[str, ...]] = {
    "lidar": (
        "sensor_msgs/PointCloud2", "velodyne_msgs/VelodyneScan", "sensor_msgs/LaserScan", *LIVOX, *PACKETS,
    ),
    "radar": ("sensor_msgs/PointCloud2",),
    "camera": ("sensor_msgs/CompressedImage", "sensor_msgs/Image"),
    "camera_info": ("sensor_msgs/CameraInfo",),
    "imu": ("sensor_msgs/Imu", *PACKETS),
    "gnss": ("sensor_msgs/NavSatFix",),
    "reference": (
        "nav_msgs/Odometry", "geometry_msgs/PoseStamped", "geometry_msgs/PoseWithCovarianceStamped",
        "geometry_msgs/TransformStamped",
    ),
}  # fmt: skip
#: Keys of the metadata of an Ouster, of old and new firmware.
_METADATA = ("beam_altitude_angles", "lidar_data_format")
#: Pixels that are no picture: distances, labels.
_NO_PICTURE = ("16UC1", "32FC1", "mono16", "16SC1", "32SC1", "64FC1")


#: Frames of the world (REP 105), in which maps are published that are made of other clouds.
_WORLD = ("map", "odom", "earth", "world")
#: Roles that one topic plays. Each of the others is played by all that can.
_SINGLE = ("reference", "camera_info")


class Choice(NamedTuple):
    """What topics become."""

    topics: dict[str, Topic]  #: sensor, or `reference` -> topic; the main sensor of a role has the name of the role.
    roles: dict[str, str]  #: sensor -> its role.
    lenses: dict[str, Topic]  #: camera -> its CameraInfo.
    left: dict[str, str]  #: topic -> why it is left out.


def choose_topics(topics: Mapping[str, Topic], wanted: Sequence[str], described: bool = False) -> Choice:
    """The topics of each role: all that can play it, and one reference.

    The main sensor of a role is of the best topic: for the lidar the packets of an Ouster, then the
    cloud whose points have times or rings, then packets of others, then any cloud, then a laser scan; for the camera
    compressed pictures, then the topic with most bytes; for the IMU one that is no packets; for the reference a topic
    that is called truth. Among equals it is the one with most messages, then the first by its name. A topic that is
    another form of one that is taken, such as the packets that a cloud is made of, is left out. Raises ConfigError
    where a role or a topic is not known, or the topic cannot play the role.

    Args:
        wanted: `ROLE=TOPIC` of `--topic`, of which a role has only the topics that are given for it; `ROLE=` leaves a
            role out.
        described: whether the metadata of an Ouster is given; else a topic must have it.
    """
    asked = _parse(topics, wanted, described)
    given = {name for names in asked.values() for name in names}
    left: dict[str, str] = {}
    candidates: dict[str, list[Topic]] = {role: [] for role in ROLES}
    for topic in topics.values():
        if problem := _unreadable(topic) or _undescribed(topic, topics, described):
            left[topic.name] = problem
        elif topic.name in given:
            continue
        elif (role := _role(topic)) in candidates:
            candidates[role].append(topic)
        elif role != "tf":
            left[topic.name] = role
    sensors: dict[str, Topic] = {}
    roles: dict[str, str] = {}
    for role, found in candidates.items():
        if role == "camera_info":
            continue
        ordered = [topics[name] for name in asked[role]] if role in asked else sorted(found, key=partial(_order, role))
        for topic in ordered[: 1 if role in _SINGLE else None]:
            taken = [sensors[name] for name, played in roles.items() if played == role]
            if taken and role not in asked and (why := _redundant(topic, taken, topics)):
                left[topic.name] = f"{why}; --topic {role}={topic.name} takes it instead"
                continue
            name = sensor_name(role, _label(topic), _label(taken[0]), sensors) if taken else role
            sensors[name], roles[name] = topic, role
    cameras = {name: topic for name, topic in sensors.items() if roles[name] == "camera"}
    infos = {name: _info_of(candidates["camera_info"], topic) for name, topic in cameras.items()}
    lenses = {name: info for name, info in infos.items() if info}
    if "camera_info" in asked:
        lenses = lenses | {"camera": topics[asked["camera_info"][0]]} if asked["camera_info"] else {}
    used = {topic.name for topic in (*sensors.values(), *lenses.values())}
    for role, found in candidates.items():
        for topic in found:
            if topic.name not in used | left.keys():
                first = lenses.get("camera") if role == "camera_info" else sensors.get(role)
                why = f"the {role} is {first.name}" if first else f"no {role} was asked for"
                left[topic.name] = f"{why}; --topic {role}={topic.name} takes it instead"
    return Choice(sensors, roles, lenses, {name: why for name, why in left.items() if name not in used})


def namespace(topic: Topic) -> str:
    """The name of a topic without its last part, which all topics of a driver share."""
    return topic.name.rpartition("/")[0]


def _label(topic: Topic) -> str:
    """The name of a topic without what image_transport adds for compressed pictures."""
    return topic.name.removesuffix("/compressed") if topic.type == "sensor_msgs/CompressedImage" else topic.name


def _redundant(topic: Topic, taken: Sequence[Topic], topics: Mapping[str, Topic]) -> str:
    """Why a topic is no sensor of its own beside those that are taken; empty where it is one."""
    if len(taken) >= MAX_SENSORS:
        return f"there are {MAX_SENSORS} before it, and a trace has no more of a kind"
    if topic.type == "sensor_msgs/PointCloud2" and topic.frame in _WORLD:
        return f"its frame {topic.frame!r} is the world's, so it is a map and no sweep"
    for each in taken:
        # Drivers publish packets, clouds and scans of one sensor in its frame; those of Ouster in one namespace.
        beside = {topic.type, each.type} & {*PACKETS} and namespace(topic) == namespace(each) != ""
        framed = topic.type in ROLES["lidar"] and topic.frame == each.frame != ""
        if topic.type != each.type and (beside or _label(topic) == _label(each) or framed):
            return f"it is another form of {each.name}"
    if topic.type in PACKETS and not metadata_of(topics, topic, own=True):
        return "packets of an Ouster, whose metadata no std_msgs/String topic in their namespace has"
    return ""


def metadata_of(topics: Mapping[str, Topic], packets: Topic, own: bool = False) -> str:
    """The metadata of the sensor that packets are of: from their namespace, or, unless `own`, the only one there is.

    It is empty where there is none.
    """
    found = {}
    for topic in topics.values():
        text = topic.first.get("data") if topic.type == "std_msgs/String" else None
        if isinstance(text, str) and text.lstrip().startswith("{") and any(key in text for key in _METADATA):
            found[namespace(topic)] = text
    return found.get(namespace(packets)) or (next(iter(found.values())) if len(found) == 1 and not own else "")


def _undescribed(topic: Topic, topics: Mapping[str, Topic], described: bool) -> str:
    if topic.type not in PACKETS or described or metadata_of(topics, topic):
        return ""
    return (
        "packets of an Ouster, whose metadata no std_msgs/String topic beside them has; "
        "--meta FILE gives it: the sensor's .json"
    )


def _parse(topics: Mapping[str, Topic], wanted: Sequence[str], described: bool) -> dict[str, list[str]]:
    """Role -> the topics that are given for it."""
    asked: dict[str, list[str]] = {}
    for each in wanted:
        role, equals, name = each.partition("=")
        if not equals:
            raise ConfigError(f"--topic {each}: must be ROLE=TOPIC, such as lidar=/points; roles: {', '.join(ROLES)}")
        if role not in ROLES:
            raise ConfigError(f"--topic {each}: no sensor is called {role!r}; {did_you_mean(role, ROLES)}")
        if role in asked and (role in _SINGLE or not (name and asked[role])):
            raise ConfigError(f"--topic {each}: {role} was given before; a trace holds one")
        if not name:
            asked[role] = []
            continue
        name = name if name in topics or f"/{name}" not in topics else f"/{name}"
        if name not in topics:
            raise ConfigError(f"--topic {each}: the recording has no topic {name}; {did_you_mean(name, topics)}")
        topic = topics[name]
        if problem := _unreadable(topic) or _undescribed(topic, topics, described):
            raise ConfigError(f"--topic {each}: {problem}")
        if topic.type not in ROLES[role] or (role == "radar" and not find_field(topic.fields, DOPPLER)):
            held = f"with the fields {', '.join(topic.fields)}" if topic.fields else ""
            raise ConfigError(
                f"--topic {each}: is a {topic.type} {held}, which is no {role}; that takes {', '.join(ROLES[role])}"
                + (" with a Doppler velocity" if role == "radar" else "")
            )
        if name in (known for names in asked.values() for known in names):
            raise ConfigError(f"--topic {each}: {name} was given before")
        asked.setdefault(role, []).append(name)
    return asked


def _unreadable(topic: Topic) -> str:
    if topic.encoding not in ENCODINGS:
        return f"its messages are encoded as {topic.encoding!r}, not by ROS"
    if topic.decodable and not topic.count:
        return "it has no messages"
    if topic.decodable and len(topic.damaged) == topic.count:
        return f"none of its messages can be decoded: {topic.damaged[0]}"
    return ""


def _role(topic: Topic) -> str:
    """The role that a topic can play, `tf`, or why it can play none."""
    if topic.type in TF:
        return "tf"
    if topic.type == "sensor_msgs/PointCloud2":
        if find_field(topic.fields, DOPPLER) and topic.points <= TUNING.max_radar_points:
            return "radar"
        return "lidar" if {"x", "y", "z"} <= set(topic.fields) else "a cloud without x, y and z"
    if topic.type in PACKETS:
        return "imu" if is_imu_packets(topic.name) else "lidar"
    if topic.type in ("sensor_msgs/Image", "sensor_msgs/CompressedImage"):
        encoding = str(topic.first.get("encoding") or topic.first.get("format", ""))
        if encoding.startswith(_NO_PICTURE) or "compressedDepth" in encoding:
            return f"pictures of {encoding!r} are distances or labels, not a camera's"
    for role, types in ROLES.items():
        if topic.type in types:
            return role
    return f"a trace has no place for {topic.type}"


def _order(role: str, topic: Topic) -> tuple[object, ...]:
    """What sorts the topics that can play a role, the best one first."""
    first = 0
    if role == "camera":
        return topic.type != "sensor_msgs/CompressedImage", -topic.bytes, topic.name
    if role == "lidar":
        cloud = topic.type == "sensor_msgs/PointCloud2"
        detailed = cloud and bool(time_fields(topic.fields) or find_field(topic.fields, ("ring", "line", "laser_id")))
        coloured = cloud and bool({"rgb", "rgba"} & set(topic.fields))
        scan = topic.type == "sensor_msgs/LaserScan"
        kind = 4 if scan else 3 if coloured else 0 if detailed or topic.type in LIVOX else 2 if cloud else 1
        first = -1 if topic.type in PACKETS else kind
    elif role == "imu":
        first = topic.type in PACKETS
    elif role == "reference":
        first = not any(word in topic.name.lower() for word in ("truth", "gt"))
    return first, -topic.count, topic.name


def _info_of(candidates: Sequence[Topic], camera: Topic) -> Topic | None:
    """The CameraInfo of a camera: that in its namespace, or of its frame. Any other would be of another camera."""
    parts = camera.name.strip("/").split("/")

    def shared(topic: Topic) -> int:
        own = topic.name.strip("/").split("/")
        return next((i for i, (a, b) in enumerate(zip(parts, own, strict=False)) if a != b), min(len(parts), len(own)))

    beside = [topic for topic in candidates if 0 < shared(topic) == len(topic.name.strip("/").split("/")) - 1]
    framed = [topic for topic in candidates if topic.frame and topic.frame == camera.frame]
    return max(beside or framed, key=lambda topic: (shared(topic), topic.name), default=None)


# The mounts of the sensors that were chosen, from the coordinate frames of the bag.


def mounts(frames: FrameTree, choice: Choice) -> tuple[dict[str, Any], list[str]]:
    """The section `rig`: sensor -> its pose in the frame of the main lidar; and which `tf` does not connect to it."""
    rig, notes = {}, []
    lidar = choice.topics.get("lidar")
    for sensor, topic in choice.topics.items():
        if topic is lidar or lidar is None or choice.roles[sensor] == "reference" or not frames.parents:
            continue
        if {topic.type, lidar.type} <= {*PACKETS} and namespace(topic) != namespace(lidar):
            if choice.roles[sensor] == "lidar":  # the frame that drivers name by default would be that of both
                notes.append(f"{sensor}: packets name no coordinate frame: no extrinsics")
            continue
        pose = frames.between(lidar.frame, topic.frame)
        if pose is None:
            notes.append(f"{sensor}: tf does not connect {topic.frame!r} to the lidar's {lidar.frame!r}: no extrinsics")
            continue
        if choice.roles[sensor] == "camera" and _is_optical(topic.frame):
            pose = matmul(pose, OPTICAL_FROM_CAMERA)
        # Without the last digits, in which the results of two processors may differ. -0.0 becomes 0.0.
        rig[sensor] = in_rig(np.round(pose, 9) + 0.0)
    return rig, notes


def with_imu(rig: dict[str, Any], choice: Choice, imu: str, mount: dict[str, Any]) -> None:
    """Add the pose of the IMU of an Ouster to a section `rig` that has none, where that of its lidar is known. `mount`
    is its pose in the frame of its own lidar, which is the one in its namespace."""
    ours = [name for name, topic in choice.topics.items() if choice.roles[name] == "lidar" and topic.type in PACKETS]
    beside = [name for name in ours if namespace(choice.topics[name]) == namespace(choice.topics[imu])]
    lidar = next(iter(beside or (ours if len(ours) == 1 else [])), "")
    if lidar == "lidar":
        rig.setdefault(imu, mount)
    elif lidar in rig and imu not in rig:
        rig[imu] = in_rig(matmul(from_rig(rig[lidar]), from_rig(mount)))


def _is_optical(frame: str) -> bool:
    """Whether a frame of pictures is an optical one, as sensor_msgs/Image.msg demands, unless its name denies it."""
    return "optical" in frame or not frame.endswith(("_link", "base"))
