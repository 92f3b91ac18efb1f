"""The lidar's trajectory as a continuous motion through known states, and that of the other sensors of the rig."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from rover_pipeline.kinematics.mount import IDENTITY, Mount
from rover_pipeline.kinematics.rotation import interpolate_rotation, rotated
from rover_pipeline.kinematics.state import State
from rover_pipeline.numerics.linear import matmul


@dataclass(eq=False)
class Trajectory:
    """The motion through known states.

    Between two states the position is the quintic polynomial that has their positions, velocities and accelerations
    at its ends, so it is continuous up to the acceleration. The rotation is that of `interpolate_rotation`.
    """

    ts: np.ndarray  #: f8 (N,), instants of the states, seconds, increasing.
    states: State  #: of the lidar at these instants.
    valid: np.ndarray  #: (N,), 0 = the state cannot be trusted: the motion between it and its neighbours is not known.
    max_gap: float = field(default=np.inf, kw_only=True)  #: longest time between states with a known motion, seconds.
    #: f8 (N,), recorded times of the states, seconds; f8 (0,) = those are `ts`.
    stamps: np.ndarray = field(default_factory=lambda: np.zeros(0), kw_only=True)

    def __post_init__(self) -> None:
        self.stamps = self.stamps if len(self.stamps) else self.ts
        self.valid = np.asarray(self.valid, bool) & self.states.finite()
        self._spans = self.valid[:-1] & self.valid[1:] & (np.diff(self.ts) <= self.max_gap)

    @staticmethod
    def of(odometry: Mapping[str, np.ndarray], ts: np.ndarray | None = None, *, max_gap: float = np.inf) -> Trajectory:
        """The trajectory that `_odom` holds.

        Args:
            odometry: all channels of `_odom`, by name.
            ts: f8 (N,), instants of the states without the jitter of their arrival, seconds, as `odometry_clock` gives
                them; None = as recorded.
        """
        states, stamps = State(*(odometry[name] for name in State._fields)), odometry["ts"]
        return Trajectory(stamps if ts is None else ts, states, odometry["valid"], max_gap=max_gap, stamps=stamps)

    def rotated(self, rotation: np.ndarray) -> Trajectory:
        """The same trajectory in another world frame, (3, 3) other-from-world, with the same origin."""
        return replace(self, states=self.states.rotated(rotation))

    def index(self, stamp: float) -> int | None:
        """Number of the valid state whose recorded time is `stamp`, seconds; None where there is none."""
        number = int(np.searchsorted(self.stamps, stamp))
        return number if number < len(self.stamps) and self.stamps[number] == stamp and self.valid[number] else None

    def at(self, time: np.ndarray, mount: Mount = IDENTITY) -> tuple[State, np.ndarray]:
        """A sensor of the rig at N instants, f8 seconds, by its own clock. The trajectory is never extrapolated.

        Args:
            mount: the sensor's pose in the lidar frame, and the offset of its clock.

        Returns:
            The sensor's state, and bool (N,), whether it is known. Unknown states are NaN.
        """
        states = State(*(np.full((len(time), *each.shape[1:]), np.nan) for each in self.states))
        time = np.asarray(time, "f8") + mount.time_offset
        known, left = self._bracket(time)
        if known.any():
            for whole, part in zip(states, self._between(time[known], left[known], mount), strict=True):
                whole[known] = part
        return states, known

    def interpolated(self, time: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Values of the states, (N, ...), between them at M instants, f8 seconds; NaN where the motion is not known."""
        known, left = self._bracket(time)
        out, left = np.full((len(time), *values.shape[1:]), np.nan), left[known]
        later = (time[known] - self.ts[left]) / (self.ts[left + 1] - self.ts[left])
        later = later.reshape(-1, *[1] * (values.ndim - 1))
        out[known] = (1 - later) * values[left] + later * values[left + 1]
        return out

    def bridged(self, time: np.ndarray, gap: float) -> np.ndarray:
        """Covariance of what the motion between the states at both ends of a gap differs by from that of `at`.

        The polynomial is the mean of all motions whose acceleration is a random walk, and the rotation that of those
        whose angular velocity is one; the walks are as wide as those from state to state outside of gaps. What is left
        of them between two known ends is an integrated Brownian bridge.

        Args:
            time: f8 (N,), s; gap: time between two states above which it is one, s.

        Returns:
            f8 (N, 6, 6), of a displacement, m, and a rotation vector, rad; 0 outside of gaps.
        """
        (known, left), steps = self._bracket(time), np.diff(self.ts)
        used, cov = self._spans & (steps <= gap), np.zeros((len(time), 6, 6))
        inside = np.flatnonzero(known)[steps[left[known]] > gap]
        if not len(inside) or not used.any():
            return cov
        begin, span = self.ts[left[inside]], steps[left[inside]]
        bridge = (time[inside] - begin) * (begin + span - time[inside]) / span
        for values, axes, spread in (
            (self.states.acc, slice(0, 3), bridge**5 / 20),
            (self.states.avel, slice(3, 6), bridge**3 / 3),
        ):
            density = (np.diff(values, axis=0)[used] ** 2).sum() / (3 * steps[used].sum())
            cov[inside, axes, axes] = density * spread[:, None, None] * np.eye(3)
        return cov

    def _bracket(self, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whether each instant lies between two valid states, or on one, and the first state of its interval."""
        last = len(self.ts) - 2
        if last < 0:
            # A single state has a pose but no motion.
            return np.zeros(len(time), bool), np.zeros(len(time), "i8")
        left = np.clip(np.searchsorted(self.ts, time, side="right") - 1, 0, last)
        inside = (time >= self.ts[0]) & (time <= self.ts[-1])
        # An instant on a valid state whose next interval is unknown belongs to the interval before.
        before = np.maximum(left - 1, 0)
        switch = (time == self.ts[left]) & ~self._spans[left] & self._spans[before] & (left > 0)
        left = np.where(switch, before, left)
        return inside & self._spans[left], left

    def _between(self, time: np.ndarray, left: np.ndarray, mount: Mount) -> State:
        """State of a mounted sensor at instants in the intervals that begin with the states `left`."""
        begin, end = self.states.select(left), self.states.select(left + 1)
        span = self.ts[left + 1] - self.ts[left]
        fraction = (time - self.ts[left]) / span
        pos, vel, acc = _quintic(
            (begin.pos, begin.vel, begin.acc), (end.pos, end.vel, end.acc), span[:, None], fraction[:, None]
        )
        rot, avel, aacc = interpolate_rotation((begin.rot, end.rot), (begin.avel, end.avel), span, fraction)
        # Velocity and acceleration that the rotation adds at the end of the lever arm, in the lidar frame.
        arm = np.broadcast_to(mount.translation, avel.shape)
        arm_vel = np.cross(avel, arm)
        arm_acc = np.cross(aacc, arm) + np.cross(avel, arm_vel)
        return State(
            pos=pos + rotated(rot, arm),
            rot=matmul(rot, mount.rotation),
            vel=vel + rotated(rot, arm_vel),
            acc=acc + rotated(rot, arm_acc),
            avel=matmul(avel, mount.rotation),
        )


_Motion = tuple[np.ndarray, np.ndarray, np.ndarray]


def _quintic(begin: _Motion, end: _Motion, span: np.ndarray, s: np.ndarray) -> _Motion:
    """The polynomial of degree five with given value, first and second derivative at both ends, at the fraction `s`."""
    x0, v0, a0 = begin[0], begin[1] * span, begin[2] * span**2
    step, v1, a1 = end[0] - x0, end[1] * span, end[2] * span**2
    c3 = 10 * step - 6 * v0 - 4 * v1 - 1.5 * a0 + 0.5 * a1
    c4 = -15 * step + 8 * v0 + 7 * v1 + 1.5 * a0 - a1
    c5 = 6 * step - 3 * (v0 + v1) - 0.5 * (a0 - a1)
    value = x0 + s * (v0 + s * (a0 / 2 + s * (c3 + s * (c4 + s * c5))))
    rate = v0 + s * (a0 + s * (3 * c3 + s * (4 * c4 + s * 5 * c5)))
    rate2 = a0 + s * (6 * c3 + s * (12 * c4 + s * 20 * c5))
    return value, rate / span, rate2 / span**2
