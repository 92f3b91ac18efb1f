"""Points of a sweep: which of them are returns, and where they lie once the lidar's own motion is undone."""

from __future__ import annotations

from typing import TypeVar, cast

import numba
import numpy as np

from rover_pipeline.poses.columns import PARTS, Poses, State, between_nodes, node_poses
from rover_pipeline.poses.trajectory import Trajectory

F = TypeVar("F")


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


def keep_returns(
    xyz: np.ndarray, rng: np.ndarray, turns: np.ndarray | None = None, shifts: np.ndarray | None = None
) -> np.ndarray:
    """The points of a sweep with NaN where there is no return, in place: a fresh array would cost more than the work.

    Args:
        xyz: f4 (beam, column, 3), metres; is changed.
        rng: u2 (beam, column), mm; 0 and 65535 are no returns.
        turns, shifts: f4 (column, 3, 3), (column, 3): where the points of each column are moved to.
    """
    if turns is None or shifts is None:
        _mask(xyz, rng)
    else:
        _move(xyz, rng, turns, shifts)
    return xyz


def stacked(sweeps: list[np.ndarray]) -> np.ndarray:
    """(frame, ...) of frames; a single one is not copied."""
    return sweeps[0][None] if len(sweeps) == 1 else np.stack(sweeps)


def _compiled(function: F) -> F:
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


@_compiled
def _mask(xyz: np.ndarray, rng: np.ndarray) -> None:
    for b in range(rng.shape[0]):
        for c in range(rng.shape[1]):
            if rng[b, c] == 0 or rng[b, c] == 65535:
                for i in range(3):
                    xyz[b, c, i] = np.nan


@_compiled
def _move(xyz: np.ndarray, rng: np.ndarray, turns: np.ndarray, shifts: np.ndarray) -> None:
    for b in range(rng.shape[0]):
        for c in range(rng.shape[1]):
            if rng[b, c] == 0 or rng[b, c] == 65535:
                xyz[b, c] = np.nan
                continue
            x, y, z = xyz[b, c, 0], xyz[b, c, 1], xyz[b, c, 2]
            for i in range(3):
                xyz[b, c, i] = turns[c, i, 0] * x + turns[c, i, 1] * y + turns[c, i, 2] * z + shifts[c, i]
