"""How segments that were registered independently are merged into one trajectory.

A segment shares some frames with the one before. The transform between their two worlds comes from the planes that
both have observed and, in directions that the planes leave open, from the poses of the shared frames.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from rover_pipeline.kinematics.rotation import exp, log
from rover_pipeline.kinematics.state import Poses, State
from rover_pipeline.odometry.registration.align_maps import align
from rover_pipeline.odometry.spline.bspline import SplineTrajectory
from rover_pipeline.odometry.surfels.surfel_map import SurfelMap

#: Standard deviations of the transform that shared poses give, metres and radians. They are large, so that planes
#: decide wherever they can.
_POSE_DEVIATIONS = np.array([0.01] * 3 + [0.003] * 3)
#: Smallest number of planes in common with which two segments are connected.
_MIN_PLANES = 30
_GATES = (0.3, 0.2, 0.1, 0.05, 0.05, 0.05)


class Segment(NamedTuple):
    """A part of a recording that is registered independently.

    Attributes:
        start, stop: its first frame, and one after its last.
        trajectory: in the segment's own world. The knots of all segments are on one grid.
        surfels: the finest levels of the map.
    """

    start: int
    stop: int
    trajectory: SplineTrajectory
    surfels: SurfelMap


class Seam(NamedTuple):
    """Where two segments overlap.

    Attributes:
        frame: the first shared one.
        metres, degrees: root mean square differences of the poses of the shared frames.
        planes: number of planes that both segments have observed.
    """

    frame: int
    metres: float
    degrees: float
    planes: int

    @property
    def connected(self) -> bool:
        """Whether the segments have enough planes in common to be in one world."""
        return self.planes >= _MIN_PLANES


def merge(segments: Iterable[Segment], ts: np.ndarray) -> tuple[SplineTrajectory, list[Seam]]:
    """One trajectory in the world of the first segment. Segments come in order, and two are in memory at a time.

    Args:
        ts: f8 (frame,), instants of the frames of the recording, seconds.
    """
    seams: list[Seam] = []
    before: Segment | None = None
    # The pose of the segment's world in the world of the first segment.
    world_rot, world_pos = np.eye(3), np.zeros(3)
    for segment in segments:
        if before is None:
            merged = segment.trajectory.copy()
        else:
            shared = ts[segment.start : before.stop]
            old, new = before.trajectory.at(shared), segment.trajectory.at(shared)
            (rot, pos), planes = _transform(before.surfels, segment.surfels, old, new)
            angles = log(np.swapaxes(old.rot, 1, 2) @ rot @ new.rot)
            distances = new.pos @ rot.T + pos - old.pos
            seams.append(Seam(segment.start, _rms(distances), float(np.degrees(_rms(angles))), planes))
            world_rot, world_pos = world_rot @ rot, world_rot @ pos + world_pos
            merged = _blended(merged, segment.trajectory.transformed(world_rot, world_pos), shared)
        before = segment
    return merged, seams


def _transform(before: SurfelMap, after: SurfelMap, old: State, new: State) -> tuple[Poses, int]:
    """The pose of a segment's world in the world of the segment before, and the number of planes in common.

    Args:
        before, after: the maps of the two segments.
        old, new: states of the shared frames in the two worlds.
    """
    rot = Rotation.from_matrix(old.rot @ np.swapaxes(new.rot, 1, 2)).mean().as_matrix()
    pos = (old.pos - new.pos @ rot.T).mean(axis=0)
    centres = after.centres
    if not len(centres):
        return Poses(rot, pos), 0
    # Rotations are about the middle of the shared frames, so that they do not move these frames.
    middle = new.pos.mean(axis=0)
    guess = Poses(rot, pos + rot @ middle)
    alignment = align(
        centres - middle, before.tables, guess=guess, expected=guess, deviations=_POSE_DEVIATIONS, gates=_GATES
    )
    rot, pos = alignment.rot, alignment.pos - alignment.rot @ middle
    return Poses(rot, pos), int(alignment.statistics.inliers)


def _blended(old: SplineTrajectory, new: SplineTrajectory, shared: np.ndarray) -> SplineTrajectory:
    """`old` until the shared instants and `new` after them, with a smooth transition of pose and velocity between."""
    offset = round((new.start - old.start) / old.step)
    count = offset + len(new.pos)
    blend = SplineTrajectory(old.start, old.step, np.empty((count, 3)), np.empty((count, 3, 3)))
    blend.pos[:offset], blend.rot[:offset] = old.pos[:offset], old.rot[:offset]
    blend.pos[offset:], blend.rot[offset:] = new.pos, new.rot
    both = slice(offset, min(len(old.pos), count))
    # A control point has its largest weight at its own knot, one knot after the first instant that it acts on.
    instants = old.start + (np.arange(both.start, both.stop) - 1) * old.step
    span = max(shared[-1] - shared[0], old.step)
    weight = np.clip((instants - shared[0]) / span, 0, 1)[:, None]
    weight = weight**2 * (3 - 2 * weight)
    blend.pos[both] = old.pos[both] + weight * (blend.pos[both] - old.pos[both])
    blend.rot[both] = old.rot[both] @ exp(weight * log(np.swapaxes(old.rot[both], 1, 2) @ blend.rot[both]))
    return blend


def _rms(vectors: np.ndarray) -> float:
    return float(np.sqrt((vectors**2).sum(axis=1).mean()))
