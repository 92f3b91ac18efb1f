"""Deskew: where the lidar was at every column of a sweep.

Each column of a sweep is taken at its own instant, while the lidar moves. This is the only place that turns a
trajectory into poses of columns.
"""

from __future__ import annotations

import numpy as np

from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.kinematics.trajectory import Trajectory

#: Parts of a sweep, some two milliseconds, in which the lidar moves along a straight line. A rig turns by a few
#: milliradians in that time, so that a straight line between rotation matrices is wrong by 1e-6. An interpolation of
#: the trajectory at every column would be slow.
PARTS = 64
#: Periods of the lidar above which the time between two states is a gap. When one sweep is missing, the motion of a
#: walker in between cannot be known.
MAX_GAP_PERIODS = 1.5


class SweepMotion:
    """The lidar's poses during its sweeps.

    Args:
        trajectory: of the lidar, with one state for each sweep.
        begin: first column of a sweep after the sweep's time, seconds.
        period: length of a sweep, seconds.
        parts: of a sweep, at whose ends the trajectory is evaluated.
    """

    def __init__(self, trajectory: Trajectory, begin: float, period: float, parts: int = PARTS) -> None:
        self.trajectory = trajectory
        self._delays = begin + period * np.arange(parts + 1) / parts
        self._begin, self._period = begin, period

    def columns(self, number: int, count: int) -> Poses:
        """Poses of the lidar in the world at each of `count` columns of a sweep.

        Args:
            number: of the sweep, which has a valid state.
        """
        return self._between(self.nodes(number), count)

    def relative_columns(self, number: int, count: int) -> Poses:
        """The same in the frame of the lidar at the sweep's own time."""
        poses = self.nodes(number)
        rot, pos = self.trajectory.states.rot[number], self.trajectory.states.pos[number]
        return self._between(Poses(rot.T @ poses.rot, (poses.pos - pos) @ rot), count)

    def nodes(self, number: int) -> Poses:
        """Poses of the lidar in the world at the ends of the parts of a sweep, (part + 1, ...).

        Before the first state of the trajectory, after the last one and in gaps, the lidar is assumed to keep the
        acceleration and the angular velocity of the sweep's own state. A walker is then half a centimetre away at most.
        """
        states, stamp = self.trajectory.states.select(number), self.trajectory.ts[number]
        found, known = self.trajectory.at(stamp + self._delays)
        since = self._delays[~known, None]
        if len(since):
            found.pos[~known] = states.pos + states.vel * since + states.acc * since**2 / 2
            found.rot[~known] = states.rot @ exp(since * states.avel)
        return Poses(found.rot, found.pos)

    def _between(self, nodes: Poses, count: int) -> Poses:
        """Poses at the columns, on straight lines between those at the nodes."""
        at = (len(self._delays) - 1) * np.arange(count) / count
        left = at.astype("i8")
        share = (at - left)[:, None]
        pos = (1 - share) * nodes.pos[left] + share * nodes.pos[left + 1]
        rot = (1 - share[..., None]) * nodes.rot[left] + share[..., None] * nodes.rot[left + 1]
        return Poses(rot, pos)


def odometry_gap(period: float) -> float:
    """Longest time between two states of the lidar that counts as no gap, seconds, for a lidar of this period."""
    return MAX_GAP_PERIODS * period
