"""Where an accelerometer contradicts a trajectory: over half a second, it tells how far the rig has gone.

From a velocity that the lidar's positions tell, the specific force minus gravity, integrated twice, gives the
displacement over a short window within centimetres. A trajectory that slips along a corridor, follows companions that
set off, or jumps from one map to another differs from it by more, however well its sweeps fit.
"""

from __future__ import annotations

from typing import NamedTuple

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
#: Means of accelerations over this time, s, which white noise and vibration leave.
_SMOOTHED = 0.1
#: Mean angular rate above which a rig does not only slide, rad/s: an IMU that feels nothing then is broken.
_TURNS = np.radians(2.0)
#: Largest share of samples that repeat the one before: others are from a frozen IMU.
_MAX_REPEATED = 0.2
#: Speed above which a rig does not stand, m/s, and acceleration below which an IMU still feels nothing, m/s2.
_MOVES, _NOTHING = 0.1, 0.2


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
    windows = _Windows.of(times, broken)
    if not len(windows.first):
        return result
    begin = np.searchsorted(trajectory.ts, times[windows.first])
    end = np.searchsorted(trajectory.ts, times[windows.last])
    # What the accelerometer does not explain of the motion: a constant velocity, where both agree.
    rest = state.pos - pos
    off = windows.curvature(rest)
    wrong = off > max(_LEAST, _DEVIATIONS * float(np.median(off)))
    if wrong.mean() > _MAX_SHARE:
        wrong[:] = False
    # An accelerometer that feels nothing contradicts a change of velocity, in however many windows it is. The level of
    # a world whose bodies set off is wrong by a mean acceleration, which is one of the whole recording.
    usual = np.median(force[known], axis=0)
    felt = np.linalg.norm(_smoothed(force - usual, times), axis=1)
    repeated = np.concatenate([[0.0], (np.diff(acc, axis=0) == 0).all(axis=1)])
    turns = np.interp(times, trajectory.ts, np.linalg.norm(trajectory.states.avel, axis=1))
    unfelt = (
        (windows.curvature(rest + usual * ((times - times[0]) ** 2 / 2)[:, None]) > _LEAST + windows.reach(felt))
        & (windows.mean(repeated) < _MAX_REPEATED)
        & (windows.mean(turns) < _TURNS)
    )
    for start, stop in zip(begin[wrong | unfelt], end[wrong | unfelt], strict=True):
        result[max(start - 1, 0) : stop + 1] = True
    if unfelt.any():
        # As long as it feels nothing, the rig has one velocity before and after the change, and it is not known which,
        # but where the rig stands.
        quiet = np.interp(trajectory.ts, times, felt) < _NOTHING
        result |= _joined(result, quiet & (np.linalg.norm(trajectory.states.vel, axis=1) > _MOVES))
    return result


class _Windows(NamedTuple):
    """Windows of half a second, by the numbers of samples.

    Attributes:
        times: f8 (N,), of the samples, s.
        before, after: i8 (K,), around the begin, between which the velocity is measured; first, last: i8 (K,).
    """

    times: np.ndarray
    before: np.ndarray
    first: np.ndarray
    after: np.ndarray
    last: np.ndarray

    @classmethod
    def of(cls, times: np.ndarray, broken: np.ndarray) -> _Windows:
        """Those in which `broken`, i8 (N,), the number of gaps so far, stays the same."""
        begins = np.arange(times[0] + _AROUND, times[-1] - _WINDOW, _STEP)
        shifts = (-_AROUND, 0.0, _AROUND, _WINDOW)
        numbers = [np.minimum(np.searchsorted(times, begins + by), len(times) - 1) for by in shifts]
        whole = broken[numbers[0]] == broken[numbers[-1]]
        return cls(times, *(each[whole] for each in numbers))

    def curvature(self, path: np.ndarray) -> np.ndarray:
        """How far a path, f8 (N, 3), m, is at the end from where its first velocity leads to, f8 (K,), m."""
        times = self.times
        velocity = (path[self.after] - path[self.before]) / (times[self.after] - times[self.before])[:, None]
        covered = velocity * (times[self.last] - times[self.first])[:, None]
        off: np.ndarray = np.linalg.norm(path[self.last] - path[self.first] - covered, axis=1)
        return off

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Mean of values of samples, f8 (N,), in each window, f8 (K,)."""
        sums = np.concatenate([[0.0], np.cumsum(values)])
        means: np.ndarray = (sums[self.last] - sums[self.first]) / np.maximum(self.last - self.first, 1)
        return means

    def reach(self, accelerations: np.ndarray) -> np.ndarray:
        """How far accelerations, f8 (N,), m/s2, can move something that rests, in each window, f8 (K,), m."""
        return np.sqrt(self.mean(accelerations**2)) * _WINDOW**2 / 2


def _smoothed(values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Means over a tenth of a second around each sample, f8 (N, 3)."""
    sums = np.concatenate([np.zeros((1, 3)), np.cumsum(values, axis=0)])
    first = np.searchsorted(times, times - _SMOOTHED / 2)
    last = np.searchsorted(times, times + _SMOOTHED / 2, side="right")
    means: np.ndarray = (sums[last] - sums[first]) / (last - first)[:, None]
    return means


def _joined(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The frames of stretches of `some` or `others` that hold one of `some`, bool (frame,)."""
    either = some | others
    number = np.cumsum(np.diff(either.astype(int), prepend=0) == 1)
    return either & np.isin(number, number[some])


def _integral(values: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The integral from the first sample to each, by trapezia, f8 (N, 3)."""
    areas = (values[1:] + values[:-1]) / 2 * steps[:, None]
    return np.concatenate([np.zeros((1, 3)), np.cumsum(areas, axis=0)])
