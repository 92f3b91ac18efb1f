"""How bodies move: nearly constant velocity, as of a person, or nearly constant speed and turn rate, as of a car.

A person may step aside. A car moves where it heads, so that its sides tell its direction, and a bend of some seconds is
one turn rate. A body of nearly constant velocity would need a large acceleration there, and with it a velocity that
follows every error of a position (Schubert, Richter and Wanielik, Comparison and evaluation of advanced motion models
for vehicle tracking, 2008: CTRV).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from rover_pipeline.numerics.linear import matmul
from rover_pipeline.objects.measurements import SPEED_SD

#: What is known of a body's place, heading and turn rate beforehand: standard deviations, m, rad, rad/s.
_PLACE_SD, _HEADING_SD, _TURN_SD = 100.0, 1.0, 0.7
#: Variance by which a body drifts sideways, m2/s: the middle of a car does not quite move where the car heads.
_SLIP = 0.0025


class Model(Protocol):
    """A motion of states, f8 (N, S), whose first two values are x and y, m."""

    def predicted(self, state: np.ndarray, dt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The states after times, f8 (N,), s, and their derivatives by the states, f8 (N, S, S)."""

    def information(self, state: np.ndarray, dt: np.ndarray) -> np.ndarray:
        """Inverse covariance of what the motion adds to the predicted states, f8 (N, S, S)."""

    def prior(self) -> np.ndarray:
        """Inverse variances of the first state, f8 (S,), of which next to nothing is known."""

    def radial(self, state: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The velocities along directions, f8 (N, 2): f8 (N,), m/s, and their derivatives, f8 (N, S)."""

    def heading(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """The headings, f8 (N,), rad, and their derivatives, f8 (N, S); None if the model has none."""

    def motion(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """x, y and their velocities, f8 (N, 4), and their derivatives by the states, f8 (N, 4, S)."""


def _doubly_integrated(noise: float, dt: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inverse covariance of a value and its rate, whose change is white noise of this power spectral density."""
    return 12 / (noise * dt**3), -6 / (noise * dt**2), 4 / (noise * dt)


class Straight(NamedTuple):
    """State: x, y, m, and their velocities, m/s.

    Attributes:
        noise: power spectral density of the acceleration, m2/s3: the velocity's variance grows by this in a second.
    """

    noise: float

    def predicted(self, state: np.ndarray, dt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        change = np.tile(np.eye(4), (len(state), 1, 1))
        change[:, 0, 2] = change[:, 1, 3] = dt
        return np.einsum("nij,nj->ni", change, state), change

    def information(self, state: np.ndarray, dt: np.ndarray) -> np.ndarray:
        result = np.zeros((len(dt), 4, 4))
        place, both, rate = _doubly_integrated(self.noise, dt)
        for axis in range(2):
            result[:, axis, axis], result[:, 2 + axis, 2 + axis] = place, rate
            result[:, axis, 2 + axis] = result[:, 2 + axis, axis] = both
        return result

    def prior(self) -> np.ndarray:
        return np.array([_PLACE_SD, _PLACE_SD, SPEED_SD, SPEED_SD]) ** -2.0

    def radial(self, state: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        slope = np.column_stack([np.zeros_like(direction), direction])
        return np.einsum("ni,ni->n", slope, state), slope

    def heading(self, state: np.ndarray) -> None:
        return None

    def motion(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return state, np.tile(np.eye(4), (len(state), 1, 1))


class Turning(NamedTuple):
    """State: x, y, m, heading, rad, speed, m/s, and turn rate, rad/s.

    Attributes:
        ahead: power spectral density of the acceleration along the way, m2/s3.
        turn: that of the change of the turn rate, rad2/s3.
    """

    ahead: float
    turn: float

    def predicted(self, state: np.ndarray, dt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        half = state[:, 4] * dt / 2
        chord = np.sinc(half / np.pi)
        way, angle = state[:, 3] * dt * chord, state[:, 2] + half
        cos, sin = np.cos(angle), np.sin(angle)
        change = np.tile(np.eye(5), (len(state), 1, 1))
        # The chord differs from the arc in second order of the turn, which its derivative leaves out.
        change[:, 0, 2], change[:, 1, 2] = -way * sin, way * cos
        change[:, 0, 3], change[:, 1, 3] = dt * chord * cos, dt * chord * sin
        change[:, 0, 4], change[:, 1, 4] = -dt / 2 * way * sin, dt / 2 * way * cos
        change[:, 2, 4] = dt
        result = state.copy()
        result[:, 0] += way * cos
        result[:, 1] += way * sin
        result[:, 2] += 2 * half
        return result, change

    def information(self, state: np.ndarray, dt: np.ndarray) -> np.ndarray:
        own = np.zeros((len(dt), 5, 5))
        for noise, value, rate in ((self.ahead, 0, 3), (self.turn, 2, 4)):
            own[:, value, value], both, own[:, rate, rate] = _doubly_integrated(noise, dt)
            own[:, value, rate] = own[:, rate, value] = both
        own[:, 1, 1] = 1 / (_SLIP * dt)
        angle = state[:, 2] + state[:, 4] * dt / 2
        axes = np.tile(np.eye(5), (len(dt), 1, 1))
        axes[:, 0, 0] = axes[:, 1, 1] = np.cos(angle)
        axes[:, 0, 1] = np.sin(angle)
        axes[:, 1, 0] = -axes[:, 0, 1]
        return np.asarray(matmul(axes.transpose(0, 2, 1), own, axes))

    def prior(self) -> np.ndarray:
        return np.array([_PLACE_SD, _PLACE_SD, _HEADING_SD, SPEED_SD, _TURN_SD]) ** -2.0

    def radial(self, state: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cos, sin, speed = np.cos(state[:, 2]), np.sin(state[:, 2]), state[:, 3]
        along = direction[:, 0] * cos + direction[:, 1] * sin
        slope = np.zeros((len(state), 5))
        slope[:, 2], slope[:, 3] = speed * (direction[:, 1] * cos - direction[:, 0] * sin), along
        return speed * along, slope

    def heading(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        slope = np.zeros((len(state), 5))
        slope[:, 2] = 1
        return state[:, 2], slope

    def motion(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cos, sin, speed = np.cos(state[:, 2]), np.sin(state[:, 2]), state[:, 3]
        slope = np.zeros((len(state), 4, 5))
        slope[:, 0, 0] = slope[:, 1, 1] = 1
        slope[:, 2, 2], slope[:, 2, 3] = -speed * sin, cos
        slope[:, 3, 2], slope[:, 3, 3] = speed * cos, sin
        return np.column_stack([state[:, :2], speed * cos, speed * sin]), slope
