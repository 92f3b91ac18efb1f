"""The lidar's trajectory as a continuous motion, and what it says about another sensor of the rig."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.poses.turning import turn_between
from rover_pipeline.rig import IDENTITY, Mount


class Kinematics(NamedTuple):
    """A sensor at N instants, NaN where its trajectory does not say.

    Attributes:
        pos, vel, acc: f8 (N, 3) in the world frame, m, m/s, m/s2.
        rot: f8 (N, 3, 3), world-from-sensor.
        valid: bool (N,), whether the trajectory says.
    """

    pos: np.ndarray
    rot: np.ndarray
    vel: np.ndarray
    acc: np.ndarray
    valid: np.ndarray


class Trajectory:
    """A motion through known states: position, velocity and acceleration are those of the quintic through the states
    on both sides (continuous to the acceleration), rotation and angular velocity those of `turn_between`.

    Args:
        ts: f8 (N,), seconds, increasing.
        pos, vel, acc: f8 (N, 3) in the world frame, m, m/s, m/s2.
        rot: f8 (N, 3, 3), world-from-lidar.
        avel: f8 (N, 3), rad/s, in the lidar frame.
        valid: (N,), 0 = the state is not to be trusted: nothing is told about the time between it and its neighbours.
        max_gap: seconds; nothing is told about the time between states that are farther apart.
    """

    def __init__(
        self,
        ts: np.ndarray,
        pos: np.ndarray,
        rot: np.ndarray,
        vel: np.ndarray,
        acc: np.ndarray,
        avel: np.ndarray,
        valid: np.ndarray,
        *,
        max_gap: float = np.inf,
    ) -> None:
        self._ts, self._pos, self._rot, self._vel, self._acc, self._avel = ts, pos, rot, vel, acc, avel
        states = np.concatenate([pos, vel, acc, avel, rot.reshape(-1, 9)], axis=1)
        self._good = np.asarray(valid, bool) & np.isfinite(states).all(axis=1)
        self._told = self._good[:-1] & self._good[1:] & (np.diff(ts) <= max_gap)

    def at(self, time: np.ndarray, mount: Mount = IDENTITY) -> Kinematics:
        """A sensor of the rig at N instants, f8 seconds. Never extrapolated: NaN before, after and in gaps.

        Args:
            mount: the sensor's pose in the lidar frame.
        """
        count = len(time)
        vectors, rot = np.full((3, count, 3), np.nan), np.full((count, 3, 3), np.nan)
        known, left = self._bracket(np.asarray(time, "f8"))
        if known.any():
            vectors[:, known], rot[known] = self._between(time[known], left[known], mount)
        return Kinematics(vectors[0], rot, vectors[1], vectors[2], known)

    def _bracket(self, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whether each instant lies between two good states, or on one, and the first state of its interval."""
        last = len(self._ts) - 2
        if last < 0:
            # A single state is no motion that could be told about, but it is where it is.
            return np.zeros(len(time), bool), np.zeros(len(time), "i8")
        left = np.clip(np.searchsorted(self._ts, time, side="right") - 1, 0, last)
        inside = (time >= self._ts[0]) & (time <= self._ts[-1])
        # An instant on a good state whose next interval is bad belongs to the one before.
        before = np.maximum(left - 1, 0)
        switch = (time == self._ts[left]) & ~self._told[left] & self._told[before] & (left > 0)
        left = np.where(switch, before, left)
        return inside & self._told[left], left

    def _between(self, time: np.ndarray, left: np.ndarray, mount: Mount) -> tuple[np.ndarray, np.ndarray]:
        """`pos, vel, acc` as (3, N, 3), and `rot`."""
        right = left + 1
        span = self._ts[right] - self._ts[left]
        share = (time - self._ts[left]) / span
        pos, vel, acc = _quintic(
            (self._pos[left], self._vel[left], self._acc[left]),
            (self._pos[right], self._vel[right], self._acc[right]),
            span[:, None],
            share[:, None],
        )
        turn = turn_between((self._rot[left], self._rot[right]), (self._avel[left], self._avel[right]), span, share)
        arm = np.broadcast_to(mount.translation, turn.avel.shape)
        swing = np.cross(turn.avel, arm)
        pull = np.cross(turn.aacc, arm) + np.cross(turn.avel, swing)
        moved = [part + _turned(turn.rot, by) for part, by in ((pos, arm), (vel, swing), (acc, pull))]
        return np.stack(moved), turn.rot @ mount.rotation


def _turned(rot: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    turned: np.ndarray = np.einsum("nij,nj->ni", rot, vectors)
    return turned


_State = tuple[np.ndarray, np.ndarray, np.ndarray]


def _quintic(begin: _State, end: _State, span: np.ndarray, s: np.ndarray) -> _State:
    """The polynomial of degree five with given value, first and second derivative at both ends, at share `s`."""
    x0, v0, a0 = begin[0], begin[1] * span, begin[2] * span**2
    step, v1, a1 = end[0] - x0, end[1] * span, end[2] * span**2
    c3 = 10 * step - 6 * v0 - 4 * v1 - 1.5 * a0 + 0.5 * a1
    c4 = -15 * step + 8 * v0 + 7 * v1 + 1.5 * a0 - a1
    c5 = 6 * step - 3 * (v0 + v1) - 0.5 * (a0 - a1)
    value = x0 + s * (v0 + s * (a0 / 2 + s * (c3 + s * (c4 + s * c5))))
    rate = v0 + s * (a0 + s * (3 * c3 + s * (4 * c4 + s * 5 * c5)))
    rate2 = a0 + s * (6 * c3 + s * (12 * c4 + s * 20 * c5))
    return value, rate / span, rate2 / span**2
