"""Where an accelerometer contradicts a trajectory: over half a second, it tells how far the rig has gone.

From a velocity that the lidar's positions tell, the specific force minus gravity, integrated twice, gives the
displacement over a short window within centimetres. A trajectory that slips along a corridor, follows companions that
set off, or jumps from one map to another differs from it by more, however well its sweeps fit.
"""

from __future__ import annotations

import numpy as np

from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.odometry.level import GRAVITY, Level

#: Length of a window, and time from one to the next, s; largest time between two samples, s.
_WINDOW, _STEP, _MAX_GAP = 0.5, 0.1, 0.1
#: Half of the time over which the lidar's positions tell the velocity at the begin of a window, s. A single sweep that
#: is off by 4 mm makes the velocity of the spline wrong by 0.1 m/s, which would be 5 cm at the end of the window.
_AROUND = 0.1
#: A displacement is contradicted where it is off by more than so many deviations of the recording's windows, and by
#: more than this, metres: what half a second may be off in two seconds that are called right.
_DEVIATIONS, _LEAST = 6.0, 0.05
#: Largest share of contradicted windows. Where there are more, the accelerometer is what is wrong.
_MAX_SHARE = 0.5


def contradicted(
    trajectory: Trajectory, times: np.ndarray, acc: np.ndarray, rotation: np.ndarray, level: Level
) -> np.ndarray:
    """Where an accelerometer contradicts a trajectory, bool (frame,), for each of its states.

    Args:
        times: f8 (N,), rising, by the clock of the trajectory, s.
        acc: f8 (N, 3), m/s2, IMU frame, gravity included; NaN where not valid.
        rotation: f8 (3, 3), lidar-from-imu.
        level: what the accelerometer tells of the whole trajectory.
    """
    good = np.isfinite(acc).all(axis=1)
    times, acc = times[good], acc[good]
    result = np.zeros(len(trajectory.ts), bool)
    if len(times) < 2:
        return result
    state, known = trajectory.at(times, Mount(level.arm, rotation))
    force = np.einsum("nij,nj->ni", state.rot, (-acc if level.downward else acc) - level.bias) - GRAVITY * level.up
    steps = np.diff(times)
    broken = np.concatenate([[0], np.cumsum(~(known[1:] & known[:-1]) | (steps > _MAX_GAP))])
    vel = _integral(np.where(known[:, None], force, 0.0), steps)
    pos = _integral(vel, steps)
    # What the accelerometer does not explain of the motion: a constant velocity, where both agree.
    rest = state.pos - pos
    begins = np.arange(times[0] + _AROUND, times[-1] - _WINDOW, _STEP)
    shifts = (-_AROUND, 0.0, _AROUND, _WINDOW)
    before, first, after, last = (np.minimum(np.searchsorted(times, begins + by), len(times) - 1) for by in shifts)
    whole = broken[before] == broken[last]
    before, first, after, last = before[whole], first[whole], after[whole], last[whole]
    if not len(first):
        return result
    velocity = (rest[after] - rest[before]) / (times[after] - times[before])[:, None]
    off = np.linalg.norm(rest[last] - rest[first] - velocity * (times[last] - times[first])[:, None], axis=1)
    wrong = off > max(_LEAST, _DEVIATIONS * float(np.median(off)))
    if wrong.mean() > _MAX_SHARE:
        return result
    begin, end = np.searchsorted(trajectory.ts, times[first[wrong]]), np.searchsorted(trajectory.ts, times[last[wrong]])
    for start, stop in zip(begin, end, strict=True):
        result[max(start - 1, 0) : stop + 1] = True
    return result


def _integral(values: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The integral from the first sample to each, by trapezia, f8 (N, 3)."""
    areas = (values[1:] + values[:-1]) / 2 * steps[:, None]
    return np.concatenate([np.zeros((1, 3)), np.cumsum(areas, axis=0)])
