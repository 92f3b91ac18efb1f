"""Gaps in which the lidar was silent: where they are, and how the parts on both sides are joined.

Nobody knows how the lidar moved in a gap. The part after it is registered independently, in a world of its own, and its
planes are searched for in the map of the part before. Where they fit at no pose, or at several, the parts are not
connected.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.kinematics.rotation import exp, log
from rover_pipeline.kinematics.state import Poses, State
from rover_pipeline.numerics.linear import eigvalsh, matmul
from rover_pipeline.odometry.registration.map_alignment import align
from rover_pipeline.odometry.registration.point_terms import GATE
from rover_pipeline.odometry.spline import SplineTrajectory
from rover_pipeline.odometry.surfels import SurfelMap

#: Longest time between two sweeps that the motion before it bridges, seconds. A walker's speed changes by 1 m/s
#: in it, so that the guess is wrong by 0.2 m: the registration can still mend that. Tuned: walks.
MAX_BRIDGED = 0.45
#: Planes farther from the first pose after the gap than this, metres, are not searched for, nor more than so many.
#: Tuned: by hand.
_NEAR, _MAX_PLANES = 30.0, 1500
#: Largest error of the guess that is searched: m for each second of gap, and degrees; the steps of the search, and
#: their largest number. Tuned: by hand.
_SPEED_ERROR, _TURN_ERROR, _STEP, _TURN_STEP, _MAX_STEPS = 1.5, 30.0, 0.6, 10.0, 3
#: Weak prior: it holds the directions that no plane determines. Tuned: by hand.
_DEVIATIONS = np.array([1.0] * 3 + [0.5] * 3)
#: Smallest share of the planes that fit, and largest share that fit at another pose, relative to the best one. Poses
#: that differ by less than so many metres or radians are the same. Tuned: by hand.
_MIN_FIT, _MAX_ALTERNATIVE, _SAME = 0.6, 0.85, 0.05


class Join(NamedTuple):
    """The pose of the world after a gap in the world before it."""

    poses: Poses  #: rotation (3, 3) and position (3,).
    planes: int  #: number of planes that fit.
    certain: bool  #: whether it is the only pose at which they fit.


def gaps(ts: np.ndarray, used: np.ndarray) -> list[int]:
    """Numbers of the frames before which the lidar was silent.

    Args:
        ts: f8 (frame,), seconds; used: bool (frame,), whether the sweep may be used.
    """
    frames = np.flatnonzero(used)
    return [int(frame) for frame in frames[1:][np.diff(ts[frames]) > MAX_BRIDGED]]


def join(
    before: tuple[State, SurfelMap], after: tuple[State, SurfelMap], seconds: float, rotation: np.ndarray | None
) -> Join:
    """How the worlds on both sides of a gap lie to one another.

    Args:
        before, after: the state of the last frame before the gap and of the first one after it, each in its own
            world, and the maps of these worlds.
        seconds: between these frames.
        rotation: of the lidar between them, as the gyroscope measures it, (3,) rad; None without one.
    """
    last, first = before[0], after[0]
    # Unknown motion goes on as it was, as far as that is likely.
    turn = last.avel[0] * min(seconds, MAX_BRIDGED) if rotation is None else rotation
    guess_rot, guess_pos = matmul(last.rot[0], exp(turn[None])[0]), last.pos[0] + last.vel[0] * seconds
    centres = after[1].centres
    centres = centres[np.linalg.norm(centres - first.pos[0], axis=1) < _NEAR]
    centres = centres[:: max(1, -(-len(centres) // _MAX_PLANES))] - first.pos[0]
    if not len(centres):
        return Join(Poses(matmul(guess_rot, first.rot[0].T), guess_pos), 0, False)
    results = []
    for shift, angle in _starts(seconds, rotation is None):
        # The search turns about the first pose after the gap, so that a rotation does not move it.
        start = Poses(matmul(exp(angle[None])[0], guess_rot, first.rot[0].T), guess_pos + shift)
        pose, information, statistics = align(
            centres, before[1].tables, guess=start, expected=start, deviations=_DEVIATIONS
        )
        results.append((statistics.inliers, pose, information))
    results.sort(key=lambda each: -each[0])
    inliers, best, information = results[0]
    alternatives = [count for count, pose, _ in results[1:] if _differ(pose, best)]
    certain = (
        inliers >= _MIN_FIT * len(centres)
        and max(alternatives, default=0.0) <= _MAX_ALTERNATIVE * inliers
        and eigvalsh(information)[0] >= GATE**-2  # the batch finds the rest
    )
    return Join(Poses(best.rot, best.pos - matmul(best.rot, first.pos[0])), int(inliers), bool(certain))


def _starts(seconds: float, turns: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    """Errors of the guess that the search begins with: displacements (3,) m, rotations about the vertical (3,) rad."""
    steps = min(_MAX_STEPS, int(np.ceil(_SPEED_ERROR * seconds / _STEP)))
    grid = _STEP * np.arange(-steps, steps + 1)
    angles = np.radians(np.arange(-_TURN_ERROR, _TURN_ERROR + 1, _TURN_STEP)) if turns else np.zeros(1)
    return [(np.array([x, y, 0.0]), np.array([0.0, 0.0, angle])) for x in grid for y in grid for angle in angles]


def _differ(first: Poses, second: Poses) -> bool:
    angle = np.linalg.norm(log(matmul(first.rot.T[None], second.rot))[0], axis=0)
    return bool(np.linalg.norm(first.pos - second.pos, axis=0) > _SAME or angle > _SAME)


def bridged(before: SplineTrajectory, start: float) -> SplineTrajectory:
    """A trajectory that goes on until `start`, seconds, with the velocity that it has at its end."""
    count = max(0, round((start - before.start) / before.step) - len(before.pos))
    steps = np.arange(1, count + 1)[:, None]
    move, turn = before.pos[-1] - before.pos[-2], log(matmul(before.rot[-2].T[None], before.rot[-1]))
    pos = np.concatenate([before.pos, before.pos[-1] + steps * move])
    rot = np.concatenate([before.rot, matmul(before.rot[-1], exp(np.minimum(steps, MAX_BRIDGED / before.step) * turn))])
    return SplineTrajectory(before.start, before.step, pos, rot)
