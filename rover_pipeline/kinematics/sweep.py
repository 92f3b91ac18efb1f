"""Deskew: where the lidar was at every column of a sweep.

Each column of a sweep is taken at its own instant, while the lidar moves. This is the only place that turns a
trajectory into poses of columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from rover_pipeline.clocks.clock import odometry_clock
from rover_pipeline.clocks.options import TimesSection
from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.numerics.linear import matmul

#: Parts of a revolution, some two milliseconds, in which the lidar moves along a straight line. A rig turns by a few
#: milliradians in that time, so that a straight line between rotation matrices is wrong by 1e-6. An interpolation of
#: the trajectory at every column would be slow. Tuned: by hand.
_PARTS = 64
#: Periods of the lidar above which the time between two states is a gap. When one sweep is missing, the motion of a
#: walker in between cannot be known. Tuned: by hand.
MAX_GAP_PERIODS = 1.5


@dataclass(eq=False)
class SweepMotion:
    """The lidar's poses during its sweeps."""

    trajectory: Trajectory  #: of the lidar, with one state for each sweep.
    begin: float  #: from a sweep's time stamp to column 0, seconds; a sensor with an azimuth window need not have it.
    period: float  #: of a revolution, seconds.
    #: between sweeps, seconds; 0 = the period. Points can all be of one instant.
    interval: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        self.interval = self.interval or self.period
        self._delays = self.begin + self.period * np.arange(_PARTS + 1) / _PARTS
        self._block: tuple[int, Poses] | None = None

    def rotated(self, rotation: np.ndarray) -> SweepMotion:
        """The same motion in another world frame, (3, 3) other-from-world, with the same origin."""
        return replace(self, trajectory=self.trajectory.rotated(rotation))

    def column_times(self, count: int) -> np.ndarray:
        """When each of `count` columns is taken, f8 (column,), s after the sweep's time stamp."""
        return np.asarray(self.begin + self.period * np.arange(count) / count)

    def columns(self, number: int, count: int) -> Poses:
        """Poses of the lidar in the world at each of `count` columns of a sweep.

        Args:
            number: of the sweep, which has a valid state.
        """
        return self._between(self.nodes(number), count)

    def relative_columns(self, number: int, count: int) -> Poses:
        """The same in the frame of the lidar at the sweep's own time."""
        states = self.trajectory.states
        return self.columns_seen_from(number, count, states.rot[number], states.pos[number])

    def columns_seen_from(self, number: int, count: int, rot: np.ndarray, pos: np.ndarray) -> Poses:
        """The same in another frame.

        Args:
            rot: f8 (3, 3), world-from-frame; pos: f8 (3,), the frame's origin in the world, m.
        """
        poses = self.nodes(number)
        return self._between(Poses(matmul(rot.T, poses.rot), matmul(poses.pos - pos, rot)), count)

    def nodes(self, number: int) -> Poses:
        """Poses of the lidar in the world at the ends of the parts of a sweep, (part + 1, ...).

        Before the first state of the trajectory, after the last one and in gaps, the lidar is assumed to keep the
        acceleration and the angular velocity of the sweep's own state. A walker is then half a centimetre away at most.
        """
        first = number - number % 16  # the poses of so many sweeps take little longer than those of one
        if (block := self._block) is None or block[0] != first:
            self._block = block = first, self._nodes(slice(first, first + 16))
        return block[1].select(number - first)

    def _nodes(self, part: slice) -> Poses:
        """The same of some sweeps, (sweep, part + 1, ...); NaN for those without a valid state."""
        states, stamps = self.trajectory.states.select(part), self.trajectory.ts[part]
        poses, known = self.trajectory.at((stamps[:, None] + self._delays).ravel())
        pos, rot = poses.pos.reshape(len(stamps), -1, 3), poses.rot.reshape(len(stamps), -1, 3, 3)
        sweep, delay = np.nonzero(~known.reshape(len(stamps), -1) & self.trajectory.valid[part, None])
        if len(sweep):
            since, own = self._delays[delay, None], states.select(sweep)
            pos[sweep, delay] = own.pos + own.vel * since + own.acc * since**2 / 2
            rot[sweep, delay] = matmul(own.rot, exp(since * own.avel))
        return Poses(rot, pos)

    def _between(self, nodes: Poses, count: int) -> Poses:
        """Poses at the columns, on straight lines between those at the nodes."""
        position = (len(self._delays) - 1) * np.arange(count) / count
        left = position.astype("i8")
        fraction = (position - left)[:, None]
        pos = (1 - fraction) * nodes.pos[left] + fraction * nodes.pos[left + 1]
        rot = (1 - fraction[..., None]) * nodes.rot[left] + fraction[..., None] * nodes.rot[left + 1]
        return Poses(rot, pos)


def odometry_trajectory(odometry: Mapping[str, np.ndarray], times: TimesSection, interval: float) -> Trajectory:
    """The lidar's trajectory through the states of `_odom` at times without jitter. A missing sweep is a gap.

    Args:
        odometry: the channels of `_odom`; interval: between sweeps, seconds.
    """
    return Trajectory.of(odometry, odometry_clock(odometry, times), max_gap=MAX_GAP_PERIODS * interval)
