"""Writes `_reference`, the poses that came with a recording, and computes mounts from its coordinate frames."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rover_pipeline import __version__
from rover_pipeline.format.meta import ChannelSpec, replace_file
from rover_pipeline.format.provenance import MADE_BY, PROVENANCE, versions
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC
from rover_pipeline.importers.ros.frames import FrameTree, pose_matrix
from rover_pipeline.importers.ros.sinks import BatchSink, raw
from rover_pipeline.importers.ros.survey import Topic

REFERENCE = "_reference"


class ReferenceSink(BatchSink):
    """Odometry and poses of any kind as the virtual sensor `_reference`.

    Args:
        mount: `T_body_lidar`, f8 (4, 4), where the poses are those of another body and `tf` tells where the lidar is on
            it; None = the poses are stored as they are.
        provenance: what made it, for its `provenance.json`.
    """

    specs: ClassVar[dict[str, ChannelSpec]] = {
        TS: TS_SPEC,
        VALID: VALID_SPEC,
        "pos": raw("f8", (3,), "Position in the world of the reference, m. [xyz]"),
        "rot": raw("f8", (3, 3), "Rotation, world from body. [world xyz, body xyz]"),
    }

    def __init__(self, folder: Path, mount: np.ndarray | None, provenance: dict[str, Any]) -> None:
        super().__init__(folder)
        self._mount = np.eye(4) if mount is None else mount
        self._provenance = provenance

    def add(self, ts: float, content: dict[str, Any]) -> None:
        try:
            pose, valid = pose_matrix(content["pose"]) @ self._mount, 1
        except ValueError:  # lost for the moment, as trackers say it
            pose, valid = np.full((4, 4), np.nan), 0
        self.push(ts, pose, valid)

    def channels(self, rows: list[tuple[Any, ...]]) -> dict[str, np.ndarray]:
        poses = np.stack([row[1] for row in rows])
        return {
            TS: np.array([row[0] for row in rows]),
            VALID: np.array([row[2] for row in rows], "u1"),
            "pos": poses[:, :3, 3],
            "rot": poses[:, :3, :3],
        }

    def close(self) -> None:
        super().close()
        if self.count:
            content = {
                "made_by": MADE_BY,
                "sensor": REFERENCE,
                "version": __version__,
                **self._provenance,
                "packages": versions(),
                "files": sorted(self.specs),
            }
            replace_file(self.folder / PROVENANCE, json.dumps(content, indent=2) + "\n")


def mounts(frames: FrameTree, topics: dict[str, Topic]) -> tuple[dict[str, Any], list[str]]:
    """The section `rig`: sensor -> its pose in the lidar frame; and which sensors `tf` does not connect to the lidar.

    Args:
        topics: sensor -> the topic that it comes from.
    """
    rig, notes = {}, []
    lidar = topics.get("lidar")
    for sensor in ("radar", "camera", "imu"):
        topic = topics.get(sensor)
        if topic is None or lidar is None or not frames.parents:
            continue
        pose = frames.between(lidar.frame, topic.frame)
        if pose is None:
            notes.append(f"{sensor}: tf does not connect {topic.frame!r} to the lidar's {lidar.frame!r}: no extrinsics")
            continue
        if sensor == "camera" and _is_optical(topic.frame):
            pose = pose @ _FORWARD_OPTICAL
        rig[sensor] = {"translation": _rounded(pose[:3, 3]), "rotation": _rounded(pose[:3, :3])}
    return rig, notes


#: `T_optical_camera`: REP 103's optical frame is right-down-ahead, that of a trace's camera front-left-up.
_FORWARD_OPTICAL = np.array([[0.0, -1, 0, 0], [0, 0, -1, 0], [1, 0, 0, 0], [0, 0, 0, 1]])


def _is_optical(frame: str) -> bool:
    """Whether a frame of pictures is an optical one, as sensor_msgs/Image.msg demands, unless its name denies it."""
    return "optical" in frame or not frame.endswith(("_link", "base"))


def _rounded(values: np.ndarray) -> list[Any]:
    """Numbers without the last digits, in which the results of two processors may differ. -0.0 becomes 0.0."""
    return (np.round(values, 9) + 0.0).tolist()
