"""Poses of a bag as `_reference`, and the mounts that follow from its coordinate frames."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.importers.origin import OPTICAL_FROM_CAMERA, from_rig, in_rig
from rover_pipeline.importers.reference import REFERENCE, ReferenceWriter
from rover_pipeline.importers.ros.choice import Choice, namespace
from rover_pipeline.importers.ros.messages import PACKETS
from rover_pipeline.importers.ros.sinks import BatchSink
from rover_pipeline.importers.ros.survey import FrameTree, pose_matrix
from rover_pipeline.numerics.linear import matmul


class ReferenceSink(BatchSink):
    """Odometry and poses of any kind as the virtual sensor `_reference`.

    Args:
        trace: folder of the trace.
        body: what the poses are of.
        mount: `T_body_lidar`, f8 (4, 4), where the poses are those of another body and `tf` says where the lidar is on
            it: the poses that are stored are then the lidar's. None = they are stored as they are.
        options: what the poses came from; inputs: fingerprints of the bags.
    """

    def __init__(
        self, trace: Path, body: str, mount: np.ndarray | None, options: dict[str, Any], inputs: dict[str, Any]
    ) -> None:
        super().__init__(trace / REFERENCE)
        self._trace, self._body, self._options, self._inputs = trace, body, options, inputs
        self._mount = np.eye(4) if mount is None else mount

    def add(self, ns: int, content: dict[str, Any]) -> None:
        try:
            pose = matmul(pose_matrix(content["pose"]), self._mount)
        except ValueError:  # lost for the moment, as trackers say it
            pose = np.full((4, 4), np.nan)
        self.push(ns, pose)

    def channels(self, *values: tuple[Any, ...]) -> dict[str, np.ndarray]:
        poses = np.stack(values[0])
        return {"pos": poses[:, :3, 3], "rot": poses[:, :3, :3]}

    def open_writer(self, names: Iterable[str]) -> ReferenceWriter:
        return ReferenceWriter(
            self._trace, names, body=self._body, command="import ros", options=self._options, inputs=self._inputs
        )


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
    """Add the pose of the IMU of an Ouster to a section `rig` that has none, where that of its lidar is known.

    Args:
        mount: its pose in the frame of its own lidar, which is the one in its namespace.
    """
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
