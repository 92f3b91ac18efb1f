"""Points of a sweep: which of them are returns, and where they lie once the lidar's own motion is undone."""

from __future__ import annotations

import numpy as np

from rover_pipeline.kinematics.columns import PARTS, Poses, State, between_nodes, node_poses
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.numerics.compiled import compiled


class SweepMotion:
    """Where the columns of a sweep were taken, seen from where the lidar was at the instant of its stamp.

    Args:
        ts: f8 (frame,), stamps of all sweeps, seconds; valid: (frame,).
        states: `pos`, `rot`, `vel`, `acc`, `avel` at these instants, as `_odom` holds them.
        begin, period: of a sweep: its first column after its stamp, and its length; seconds.
    """

    def __init__(
        self,
        ts: np.ndarray,
        valid: np.ndarray,
        states: tuple[np.ndarray, ...],
        begin: float,
        period: float,
        columns: int,
    ) -> None:
        self._ts, self._valid, self._states = ts, np.asarray(valid, bool), states
        pos, rot, vel, acc, avel = states
        # Between sweeps with one missing in their middle the motion of a walker is anybody's guess.
        self._trajectory = Trajectory(ts, pos, rot, vel, acc, avel, valid, max_gap=1.5 * period)
        self._columns = begin + period * np.arange(columns) / columns
        self._nodes = begin + period * np.arange(PARTS + 1) / PARTS

    def within(self, stamp: float) -> tuple[np.ndarray, np.ndarray, bool]:
        """Rotations f4 (column, 3, 3) and translations f4 (column, 3) from the frame at each column's instant to that
        at the stamp, and whether they are known; nothing moves where they are not."""
        at = int(np.searchsorted(self._ts, stamp))
        columns = len(self._columns)
        if at >= len(self._ts) or self._ts[at] != stamp or not self._valid[at]:
            return np.tile(np.eye(3, dtype="f4"), (columns, 1, 1)), np.zeros((columns, 3), "f4"), False
        state = State(*(channel[at] for channel in self._states))
        there = node_poses(self._trajectory, stamp, state, self._nodes)
        seen = Poses(state.rot.T @ there.rot, (there.pos - state.pos) @ state.rot)
        turn, shift = between_nodes(seen, self._nodes, self._columns)
        return turn.astype("f4"), shift.astype("f4"), True


def returns_of(
    rng: np.ndarray,
    direction: np.ndarray,
    offset: np.ndarray,
    turns: np.ndarray | None = None,
    shifts: np.ndarray | None = None,
) -> np.ndarray:
    """Points of a sweep, f4 (beam, column, 3), metres; NaN where there is no return.

    Args:
        rng: u2 (beam, column), mm; 0 and 65535 are no returns.
        direction, offset: f4 (beam * column, 3), metres a millimetre, metres: of ouster-sdk's projection.
        turns, shifts: f4 (column, 3, 3), (column, 3): where the points of each column are moved to.
    """
    # One pass over the images: what the memory takes is what this costs.
    xyz = np.empty((*rng.shape, 3), "f4")
    direction, offset = direction.reshape(xyz.shape), offset.reshape(xyz.shape)
    if turns is None or shifts is None:
        _project(rng, direction, offset, xyz)
    else:
        _project_moved(rng, direction, offset, turns, shifts, xyz)
    return xyz


def stacked(sweeps: list[np.ndarray]) -> np.ndarray:
    """(frame, ...) of frames; a single one is not copied."""
    return sweeps[0][None] if len(sweeps) == 1 else np.stack(sweeps)


@compiled
def _project(rng: np.ndarray, direction: np.ndarray, offset: np.ndarray, xyz: np.ndarray) -> None:
    for b in range(rng.shape[0]):
        for c in range(rng.shape[1]):
            if rng[b, c] == 0 or rng[b, c] == 65535:
                xyz[b, c, 0] = xyz[b, c, 1] = xyz[b, c, 2] = np.nan
                continue
            distance = np.float32(rng[b, c])
            for i in range(3):
                xyz[b, c, i] = distance * direction[b, c, i] + offset[b, c, i]


@compiled
def _project_moved(
    rng: np.ndarray,
    direction: np.ndarray,
    offset: np.ndarray,
    turns: np.ndarray,
    shifts: np.ndarray,
    xyz: np.ndarray,
) -> None:
    _project(rng, direction, offset, xyz)
    for b in range(rng.shape[0]):
        for c in range(rng.shape[1]):
            x, y, z = xyz[b, c, 0], xyz[b, c, 1], xyz[b, c, 2]
            for i in range(3):
                xyz[b, c, i] = turns[c, i, 0] * x + turns[c, i, 1] * y + turns[c, i, 2] * z + shifts[c, i]
