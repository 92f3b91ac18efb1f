"""Parts of a recording that are registered independently, and how they are put together.

A part shares some frames with the one before. The transform between the two worlds comes from the planes both have
seen; where these leave a direction open, from the poses of the shared frames.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from rover_pipeline.odometry.refine import Fit
from rover_pipeline.odometry.solve_kernels import equations
from rover_pipeline.odometry.surfels import SurfelMap
from rover_pipeline.odometry.trajectory import State, exp, log

#: Standard deviations of a transform that shared poses give, metres and radians: planes decide wherever they say more.
_POSES = np.array([0.01] * 3 + [0.003] * 3)
#: Standard deviation of the middle of a plane, metres.
_NOISE = 0.004
_GATES = (0.3, 0.2, 0.1, 0.05, 0.05, 0.05)


class Segment(NamedTuple):
    """A part of a recording.

    Attributes:
        start, stop: its frames.
        state: of the lidar at each of them, in the part's own world.
        fits: how well each lies on the map; None where a frame was left out.
        surfels: the map, thinned.
    """

    start: int
    stop: int
    state: State
    fits: list[Fit | None]
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


def split(ts: np.ndarray, length: float, overlap: float) -> list[tuple[int, int]]:
    """Frames of equally long parts, each with the beginning of the next one.

    Args:
        ts: f8 (N,), seconds.
        length, overlap: seconds.
    """
    span = float(ts[-1] - ts[0])
    count = max(1, round(span / length))
    edges = np.searchsorted(ts, ts[0] + span * np.arange(1, count) / count)
    starts = np.unique(np.concatenate([[0], edges]))
    stops = np.append(np.searchsorted(ts, ts[starts[1:]] + overlap), len(ts))
    return [(int(start), int(stop)) for start, stop in zip(starts, stops, strict=True)]


def join(segments: Iterable[Segment], count: int) -> tuple[State, list[Fit | None], list[Seam]]:
    """One trajectory of `count` frames in the world of the first part. Parts come in order, two are held at a time."""
    vectors, rots = np.zeros((4, count, 3)), np.tile(np.eye(3), (count, 1, 1))
    fits: list[Fit | None] = [None] * count
    seams = []
    before: Segment | None = None
    turn, shift = np.eye(3), np.zeros(3)
    for segment in segments:
        if before is not None:
            rot, pos, planes = _transform(before, segment)
            turn, shift = turn @ rot, turn @ pos + shift
        state = _moved(segment.state, turn, shift)
        shared = before.stop - segment.start if before is not None else 0
        here = slice(segment.start, segment.start + shared)
        if shared:
            apart = state.pos[:shared] - vectors[0, here]
            angles = log(np.swapaxes(rots[here], 1, 2) @ state.rot[:shared])
            seams.append(Seam(segment.start, _rms(apart), float(np.degrees(_rms(angles))), planes))
        # From one part to the other without a step, nor one in velocity.
        share = (np.arange(shared) + 0.5) / max(shared, 1)
        share = share**2 * (3 - 2 * share)
        new = np.stack([state.pos, state.vel, state.acc, state.avel])
        vectors[:, here] += share[:, None] * (new[:, :shared] - vectors[:, here])
        turned = log(np.swapaxes(rots[here], 1, 2) @ state.rot[:shared]) if shared else np.zeros((0, 3))
        rots[here] = rots[here] @ exp(share[:, None] * turned)
        rest = slice(segment.start + shared, segment.stop)
        vectors[:, rest], rots[rest] = new[:, shared:], state.rot[shared:]
        for i in range(segment.start + shared // 2, segment.stop):
            fits[i] = segment.fits[i - segment.start]
        before = segment
    return State(vectors[0], rots, vectors[1], vectors[2], vectors[3]), fits, seams


def _rms(vectors: np.ndarray) -> float:
    return float(np.sqrt((vectors**2).sum(axis=1).mean()))


def _moved(state: State, turn: np.ndarray, shift: np.ndarray) -> State:
    return State(state.pos @ turn.T + shift, turn @ state.rot, state.vel @ turn.T, state.acc @ turn.T, state.avel)


def _transform(before: Segment, segment: Segment) -> tuple[np.ndarray, np.ndarray, int]:
    """Rotation and translation from the world of a part to that of the one before, and planes that both have seen."""
    shared = before.stop - segment.start
    old = State(*(part[-shared:] for part in before.state))
    new = State(*(part[:shared] for part in segment.state))
    rot = Rotation.from_matrix(old.rot @ np.swapaxes(new.rot, 1, 2)).mean().as_matrix()
    pos = (old.pos - new.pos @ rot.T).mean(axis=0)
    points = segment.surfels.centres
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
        matrix, right, told = equations(local, column, at_pos, at_rot, before.surfels.tables, gate, noise, 2.0, 1)
        away = np.concatenate([at_pos[0] - guess_pos, log(guess_rot.T[None] @ at_rot)[0]])
        step = np.linalg.solve(matrix[0] + np.diag(_POSES**-2), right[0] - _POSES**-2 * away)
        at_pos, at_rot = at_pos + step[:3], at_rot @ exp(step[None, 3:])
        planes = int(told[1])
    return at_rot[0], at_pos[0] - at_rot[0] @ middle, planes
