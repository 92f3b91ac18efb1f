"""Where an accelerometer contradicts a trajectory: it measures the acceleration over some tenths of a second.

A trajectory that slips along a corridor, follows bodies that set off, or jumps from one map to another has other
accelerations, however well its sweeps fit. Until it slips back, its velocity is wrong, which no acceleration shows.
Accelerations are second differences of its positions (`level`), because a single sweep that is off by 4 mm makes the
velocity of the spline wrong by 0.1 m/s.
"""

from __future__ import annotations

import numpy as np
from scipy import ndimage
from scipy.constants import g as GRAVITY  # noqa: N812

from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.odometry.level import SPAN, STEP, Accelerations, Level

#: An acceleration is contradicted where it is off by more than so many deviations of the recording's windows, and by
#: more than this, m/s2: two seconds that are called right may be off by 5 cm over half a second. And largest error of
#: its scale: three deviations of 3 %, which data sheets of consumer devices allow (MPU-9250). Tuned: by hand.
_DEVIATIONS, _MIN_DIFFERENCE, _SCALE = 6.0, 0.3, 0.1
#: Speed above which a rig does not stand, m/s, and mean angular rate above which it does not only slide, rad/s: an IMU
#: that feels nothing then is broken. Tuned: by hand.
_MOVES, _TURNS = 0.1, np.radians(2.0)


def contradicted(
    trajectory: Trajectory, times: np.ndarray, acc: np.ndarray, rotation: np.ndarray, level: Level
) -> np.ndarray:
    """Where an accelerometer contradicts a trajectory, bool (frame,), for each of its states.

    Args:
        times: f8 (N,), rising, by the clock of the trajectory, s.
        acc: f8 (N, 3), m/s2, IMU frame, gravity included; NaN where not valid.
        rotation: f8 (3, 3), lidar-from-imu.
        level: up and the bias, as the accelerometer measures them over the whole trajectory.
    """
    ts, result = trajectory.ts, np.zeros(len(trajectory.ts), bool)
    found = _measured(trajectory, times, acc, rotation)
    if not len(found.begin):
        return result
    sign = -1.0 if level.downward else 1.0
    off = found.residual(np.concatenate([GRAVITY * level.up, level.bias, level.arm]), sign)
    size = np.linalg.norm(off, axis=1)
    usual = float(np.median(size))
    wrong = size > max(_MIN_DIFFERENCE, _DEVIATIONS * usual) + _SCALE * np.linalg.norm(found.moved, axis=1)
    # An accelerometer that feels nothing contradicts a change of velocity, in however many windows it is. Where bodies
    # set off in most of a recording, its level is wrong by their mean acceleration, and the median force is right.
    unfelt = np.linalg.norm(off - np.median(off + found.moved, axis=0), axis=1)
    wrong |= (np.minimum(size, unfelt) > _MIN_DIFFERENCE + found.vibration) & (found.rate < _TURNS)
    first, last = np.searchsorted(ts, found.begin), np.searchsorted(ts, found.end)
    for start, stop in zip(first[wrong], last[wrong], strict=True):
        result[max(start - 1, 0) : stop + 1] = True
    for run in np.split(np.arange(len(size)), np.flatnonzero(np.diff(found.begin) > 1.5 * STEP) + 1):
        # All windows that overlap one of these have a part of the change of velocity.
        changes = ndimage.binary_dilation(wrong[run], np.ones(SPAN, bool))
        for (event,) in ndimage.find_objects(ndimage.label(changes)[0]):
            # A jump contradicts two accelerations that cancel out. Of one at an end, only one of these may be measured.
            cut = event.start == 0 or event.stop == len(run)
            changes[event] &= not (cut and event.stop - event.start < 2 * SPAN)
        velocity, moved = (
            np.linalg.norm(np.cumsum(changes[:, None] * each[run], axis=0), axis=1) * STEP
            for each in (off, found.moved)
        )
        doubtful = velocity > _MOVES + _SCALE * moved + usual * STEP * np.cumsum(changes)
        # Where the trajectory does not come back to the velocity that it had, nobody knows which of both is wrong.
        doubtful |= doubtful[-1]
        for start, stop in zip(first[run][doubtful], last[run][doubtful], strict=True):
            result[max(start - 1, 0) : stop + 1] = True
    return result


def felt_at_rest(trajectory: Trajectory, times: np.ndarray, acc: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """Where a trajectory stands while an accelerometer usually feels a motion, bool (frame,), for each of its states.

    Neither a clock nor a mount that is wrong explains that, and no calibration is needed: at rest the force is one
    vector, and what a rig moves in its place is felt as strongly at another time and in another direction.

    Args:
        times, acc, rotation: as for `contradicted`.
    """
    ts, pos = trajectory.ts, trajectory.states.pos
    found, result = _measured(trajectory, times, acc, rotation), np.zeros(len(trajectory.ts), bool)
    before, after = (np.searchsorted(ts, ts + half).clip(0, len(ts) - 1) for half in (-0.5, 0.5))
    stands = np.linalg.norm(pos[after] - pos[before], axis=1) < _MOVES * np.maximum(ts[after] - ts[before], 1e-3)
    for stretch in np.split(np.arange(len(ts)), np.flatnonzero(np.diff(stands)) + 1):
        within = (found.begin >= ts[stretch[0]]) & (found.end <= ts[stretch[-1]])
        if stands[stretch[0]] and within.sum() >= 2 * SPAN:
            felt, moved = (
                np.median(np.linalg.norm(each - np.median(each, axis=0), axis=1))
                for each in (found.force[within], found.moved[within])
            )
            result[stretch] = felt > moved + _MIN_DIFFERENCE
    return result


def _measured(trajectory: Trajectory, times: np.ndarray, acc: np.ndarray, rotation: np.ndarray) -> Accelerations:
    """Those of an accelerometer; one that repeats a sample is frozen, and measures nothing."""
    repeats = np.concatenate([[False], (np.diff(acc, axis=0) == 0).all(axis=1)])
    return Accelerations.of(trajectory, times, np.where(repeats[:, None], np.nan, acc), rotation)
