"""Parts of a recording that are registered independently, and how they are put together.

A part shares some frames with the one before. The transform between the two worlds comes from the planes both have
seen; where these leave a direction open, from the poses of the shared frames.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from rover_pipeline.kinematics.rotation import exp, log
from rover_pipeline.kinematics.state import State
from rover_pipeline.odometry.solve_kernels import equations
from rover_pipeline.odometry.surfels import SurfelMap
from rover_pipeline.odometry.trajectory import Trajectory

#: Standard deviations of a transform that shared poses give, metres and radians: planes decide wherever they say more.
_POSES = np.array([0.01] * 3 + [0.003] * 3)
#: Standard deviation of the middle of a plane, metres.
_NOISE = 0.004
#: Planes in common without which two parts do not hold together.
_LEAST_PLANES = 30
_GATES = (0.3, 0.2, 0.1, 0.05, 0.05, 0.05)


class Segment(NamedTuple):
    """A part of a recording.

    Attributes:
        start, stop: its frames.
        trajectory: in the part's own world; the knots of all parts lie on one grid.
        surfels: the map, thinned; empty where no frame was of use.
    """

    start: int
    stop: int
    trajectory: Trajectory
    surfels: SurfelMap


class Seam(NamedTuple):
    """Where two parts meet.

    Attributes:
        frame: the first shared one.
        metres, degrees: root mean square differences of the poses of the shared frames.
        planes: that both parts have seen.
    """

    frame: int
    metres: float
    degrees: float
    planes: int

    @property
    def holds(self) -> bool:
        """Whether the parts have enough in common for places in one to be places in the other."""
        return self.planes >= _LEAST_PLANES


def split(ts: np.ndarray, length: float, overlap: float) -> list[tuple[int, int]]:
    """Frames of equally long parts, each reaching over both its ends by half of what neighbours share.

    Args:
        ts: f8 (N,), seconds.
        length, overlap: seconds.
    """
    span = float(ts[-1] - ts[0])
    count = max(1, round(span / length))
    edges = ts[0] + span * np.arange(1, count) / count
    starts = [0]
    for start in np.searchsorted(ts, edges - overlap / 2):
        # Where sweeps are missing, parts would be nothing but what they share.
        if ts[start] - ts[starts[-1]] >= overlap:
            starts.append(int(start))
    stops = np.append(np.searchsorted(ts, ts[starts[1:]] + overlap), len(ts))
    return [(start, int(stop)) for start, stop in zip(starts, stops, strict=True)]


def without_overlap(parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The parts up to the middle of what they share, each frame in one of them."""
    edges = [(before[1] + after[0]) // 2 for before, after in itertools.pairwise(parts)]
    return list(zip([parts[0][0], *edges], [*edges, parts[-1][1]], strict=True))


def join(segments: Iterable[Segment], ts: np.ndarray) -> tuple[Trajectory, list[Seam]]:
    """One trajectory in the world of the first part. Parts come in order, two are held at a time.

    Args:
        ts: f8 (frame,), instants of the frames of the recording, seconds.
    """
    seams: list[Seam] = []
    before: Segment | None = None
    turn, shift = np.eye(3), np.zeros(3)
    for segment in segments:
        if before is None:
            found = segment.trajectory.copy()
        else:
            shared = ts[segment.start : before.stop]
            old, new = before.trajectory.at(shared), segment.trajectory.at(shared)
            rot, pos, planes = _transform(before.surfels, segment.surfels, old, new)
            turns = log(np.swapaxes(old.rot, 1, 2) @ rot @ new.rot)
            apart = _rms(new.pos @ rot.T + pos - old.pos)
            seams.append(Seam(segment.start, apart, float(np.degrees(_rms(turns))), planes))
            turn, shift = turn @ rot, turn @ pos + shift
            found = _joined(found, segment.trajectory.moved(turn, shift), shared)
        before = segment
    return found, seams


def _joined(old: Trajectory, new: Trajectory, shared: np.ndarray) -> Trajectory:
    """`old`, from one to the other over the shared instants, and `new`; without a step, nor one in velocity."""
    offset = round((new.start - old.start) / old.step)
    count = offset + len(new.pos)
    found = Trajectory(old.start, old.step, np.empty((count, 3)), np.empty((count, 3, 3)))
    found.pos[:offset], found.rot[:offset] = old.pos[:offset], old.rot[:offset]
    found.pos[offset:], found.rot[offset:] = new.pos, new.rot
    here = slice(offset, min(len(old.pos), count))
    # A control point acts most at the knot it belongs to, one after the first.
    instants = old.start + (np.arange(here.start, here.stop) - 1) * old.step
    span = max(shared[-1] - shared[0], old.step)
    share = np.clip((instants - shared[0]) / span, 0, 1)[:, None]
    share = share**2 * (3 - 2 * share)
    found.pos[here] = old.pos[here] + share * (found.pos[here] - old.pos[here])
    found.rot[here] = old.rot[here] @ exp(share * log(np.swapaxes(old.rot[here], 1, 2) @ found.rot[here]))
    return found


def _rms(vectors: np.ndarray) -> float:
    return float(np.sqrt((vectors**2).sum(axis=1).mean()))


def _transform(before: SurfelMap, after: SurfelMap, old: State, new: State) -> tuple[np.ndarray, np.ndarray, int]:
    """Rotation and translation from the world of a part to that of the one before, and planes that both have seen.

    Args:
        before, after: what the parts have seen.
        old, new: states of the shared frames in the worlds of the parts.
    """
    rot = Rotation.from_matrix(old.rot @ np.swapaxes(new.rot, 1, 2)).mean().as_matrix()
    pos = (old.pos - new.pos @ rot.T).mean(axis=0)
    points = after.centres
    if not len(points):
        return rot, pos, 0
    # A rotation about the middle of the shared frames does not move them.
    middle = new.pos.mean(axis=0)
    local, column = (points - middle).astype("f4"), np.zeros(len(points), "i4")
    at_rot, at_pos = rot[None], (pos + rot @ middle)[None]
    guess_rot, guess_pos = at_rot[0], at_pos[0]
    planes = 0
    for gate in _GATES:
        noise = gate / 5 if gate > _GATES[-1] else _NOISE
        matrix, right, told = equations(local, column, at_pos, at_rot, before.tables, gate, noise, 2.0, 1)
        away = np.concatenate([at_pos[0] - guess_pos, log(guess_rot.T[None] @ at_rot)[0]])
        step = np.linalg.solve(matrix[0] + np.diag(_POSES**-2), right[0] - _POSES**-2 * away)
        at_pos, at_rot = at_pos + step[:3], at_rot @ exp(step[None, 3:])
        planes = int(told[1])
    return at_rot[0], at_pos[0] - at_rot[0] @ middle, planes
