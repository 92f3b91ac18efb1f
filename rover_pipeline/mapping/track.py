"""Where the lidar was while it swept: its pose at every column of a sweep."""

from __future__ import annotations

import numpy as np

from rover_pipeline.poses.columns import PARTS, Poses, State, between_nodes, node_poses
from rover_pipeline.poses.trajectory import Trajectory

#: States of the lidar farther apart than this, s, say nothing about the time between them.
MAX_GAP_S = 0.5


class Track:
    """The states of the lidar at the time stamps of its sweeps, one a sweep.

    Attributes:
        ts: f8 (N,), s.
        pos, vel, acc: f8 (N, 3), m, m/s, m/s2, in the world.
        rot: f8 (N, 3, 3), world-from-lidar.
        avel: f8 (N, 3), rad/s, in the lidar frame.
        valid: bool (N,), whether the state is to be trusted.
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
    ) -> None:
        self.ts, self.pos, self.rot, self.vel, self.acc, self.avel = ts, pos, rot, vel, acc, avel
        parts = np.concatenate([pos, vel, acc, avel, rot.reshape(-1, 9)], 1)
        self.valid = (np.asarray(valid) != 0) & np.isfinite(parts).all(1)
        self._between = Trajectory(ts, pos, rot, vel, acc, avel, self.valid, max_gap=MAX_GAP_S)

    def turned(self, turn: np.ndarray) -> Track:
        """The same in another world, (3, 3) other-from-world."""
        vectors = (array @ turn.T for array in (self.pos, self.vel, self.acc))
        pos, vel, acc = vectors
        return Track(self.ts, pos, turn @ self.rot, vel, acc, self.avel, self.valid)

    def sweep(self, number: int, delays: np.ndarray) -> Poses:
        """Poses `delays`, f8 (N,) s and increasing, after the time stamp of a sweep whose state is valid."""
        state = State(*(channel[number] for channel in (self.pos, self.rot, self.vel, self.acc, self.avel)))
        nodes = np.linspace(delays[0], delays[-1], PARTS + 1)
        return between_nodes(node_poses(self._between, self.ts[number], state, nodes), nodes, delays)
