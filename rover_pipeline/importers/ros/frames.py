"""Coordinate frames that `tf` connects, and the mounts of the sensors that follow from them (REP 105)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.spatial.transform import Rotation

from rover_pipeline.importers.tuning import TUNING
from rover_pipeline.numerics.linear import inv, matmul

#: Maximum number of frames between two sensors, of which a robot has a dozen, and of all frames. Schedule.
_MAX_DEPTH = 100
_MAX_FRAMES = 10_000


def pose_matrix(pose: np.ndarray) -> np.ndarray:
    """A pose of seven numbers, x y z and a quaternion x y z w, as f8 (4, 4).

    Raises:
        ValueError: the quaternion is zero, or a number is not finite.
    """
    values = np.asarray(pose, "f8")
    if not np.isfinite(values).all() or not np.linalg.norm(values[3:], axis=0) > 0.5:
        raise ValueError("is no pose: its quaternion is not of length one")
    matrix = np.eye(4)
    matrix[:3, :3] = Rotation.from_quat(values[3:]).as_matrix()
    matrix[:3, 3] = values[:3]
    return matrix


@dataclass
class FrameTree:
    """A tree of frames: each has at most one parent. Transforms that move do not connect frames for good.

    Attributes:
        parents: child -> parent and `T_parent_child`, seven numbers.
        moving: children whose transforms differ between messages.
    """

    parents: dict[str, tuple[str, np.ndarray]] = field(default_factory=dict)
    moving: set[str] = field(default_factory=set)

    def add(self, parent: str, child: str, pose: np.ndarray, static: bool) -> None:
        """Take a transform from a message. A child whose parent or transform changes counts as moving."""
        parent, child = parent.lstrip("/"), child.lstrip("/")
        known = self.parents.get(child)
        if known is None:
            if len(self.parents) < _MAX_FRAMES:
                self.parents[child] = (parent, pose)
        elif known[0] != parent or not np.allclose(known[1], pose, rtol=0, atol=TUNING.equal_transform):
            if static:  # the last one that is sent holds
                self.parents[child] = (parent, pose)
            else:
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
