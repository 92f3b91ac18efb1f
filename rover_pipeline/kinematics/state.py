"""What is known of a moving sensor at some instants."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.linear import matmul


class State(NamedTuple):
    """A moving sensor at N instants; without the first axis, at one instant."""

    pos: np.ndarray  #: f8 (N, 3), m, in the world frame.
    rot: np.ndarray  #: f8 (N, 3, 3), world-from-sensor.
    vel: np.ndarray  #: f8 (N, 3), m/s, in the world frame.
    acc: np.ndarray  #: f8 (N, 3), m/s2 without gravity, in the world frame.
    avel: np.ndarray  #: f8 (N, 3), rad/s, in the sensor's own frame.

    def select(self, chosen: int | slice | np.ndarray) -> State:
        """The states at some of the instants."""
        return State(*(array[chosen] for array in self))

    def rotated(self, rotation: np.ndarray) -> State:
        """The same states in another world frame, (3, 3) other-from-world, with the same origin."""
        pos, vel, acc = (matmul(vector, rotation.T) for vector in (self.pos, self.vel, self.acc))
        return State(pos, matmul(rotation, self.rot), vel, acc, self.avel)

    @staticmethod
    def standing(count: int) -> State:
        """N times the state of a sensor that stands still at the origin."""
        pos = np.zeros((count, 3))
        return State(pos, np.tile(np.eye(3), (count, 1, 1)), pos, pos, pos)

    def finite(self) -> np.ndarray:
        """Whether all numbers of an instant are finite, bool (N,)."""
        return np.all([np.isfinite(array).all(axis=tuple(range(1, array.ndim))) for array in self], axis=0)


class Poses(NamedTuple):
    """Poses of a sensor at N instants."""

    rot: np.ndarray  #: (N, 3, 3), world-from-sensor.
    pos: np.ndarray  #: (N, 3), m, in the world frame.

    @property
    def finite(self) -> np.ndarray:
        """Which of them are finite, bool (N,)."""
        return np.asarray(np.isfinite(self.pos).all(1) & np.isfinite(self.rot).all((1, 2)))

    @property
    def matrices(self) -> np.ndarray:
        """The same as transforms, f8 (N, 4, 4)."""
        made = np.zeros((*np.shape(self.pos)[:-1], 4, 4))
        made[..., :3, :3], made[..., :3, 3], made[..., 3, 3] = self.rot, self.pos, 1.0
        return made

    def select(self, chosen: int | slice | np.ndarray) -> Poses:
        """The poses at some of the instants."""
        return Poses(self.rot[chosen], self.pos[chosen])

    def rotated(self, rotation: np.ndarray) -> Poses:
        """The same poses in another world frame, (3, 3) other-from-world, with the same origin."""
        return Poses(matmul(rotation, self.rot), matmul(self.pos, rotation.T))
