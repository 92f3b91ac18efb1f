"""A continuous trajectory: uniform cubic B-splines, in R3 of positions and, cumulative, on SO(3) of rotations.

Method: Sommer, Usenko, Schubert, Demmel, Cremers, "Efficient Derivative Computation for Cumulative B-Splines on Lie
Groups" (CVPR 2020). `T_world_lidar` throughout: rotations are world-from-lidar, angular velocities in the lidar frame.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solveh_banded

from rover_pipeline.kinematics.rotation import exp, log
from rover_pipeline.kinematics.state import State
from rover_pipeline.odometry.kernels import evaluate_spline

#: Control points that act on an instant.
ORDER = 4


@dataclass
class Trajectory:
    """Control points at equal distances in time.

    Attributes:
        start: first instant that the trajectory is defined at, seconds.
        step: between control points, seconds.
        pos: f8 (M, 3), metres.
        rot: f8 (M, 3, 3), world-from-lidar.
    """

    start: float
    step: float
    pos: np.ndarray
    rot: np.ndarray

    @staticmethod
    def at_rest(start: float, stop: float, step: float) -> Trajectory:
        """At the origin from `start` to `stop`, seconds."""
        count = int(np.ceil((stop - start) / step)) + ORDER - 1
        return Trajectory(start, step, np.zeros((count, 3)), np.tile(np.eye(3), (count, 1, 1)))

    @property
    def stop(self) -> float:
        """Last instant that it is defined at, seconds."""
        return self.start + (len(self.pos) - ORDER + 1) * self.step

    def copy(self) -> Trajectory:
        return Trajectory(self.start, self.step, self.pos.copy(), self.rot.copy())

    def locate(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First control point that acts on each of N instants, i8, and the way to the next knot, f8 in 0 to 1.

        Instants outside count as the first or last one inside.
        """
        place = (np.asarray(times, "f8") - self.start) / self.step
        first = np.clip(np.floor(place), 0, len(self.pos) - ORDER).astype("i8")
        return first, np.clip(place - first, 0.0, 1.0)

    def at(self, times: np.ndarray) -> State:
        """State at N instants, seconds; outside as at the nearest end."""
        return self.evaluate(*self.locate(times))

    def evaluate(self, first: np.ndarray, place: np.ndarray) -> State:
        """State at N instants as `locate` gives them."""
        return State(*evaluate_spline(self.pos, self.rot, self.step, first, place))

    def window(self, begin: float, end: float) -> tuple[int, Trajectory]:
        """The part that acts from one instant to another, seconds, and the number of its first control point."""
        first, _ = self.locate(np.array([begin, end]))
        low, high = int(first[0]), int(first[1]) + ORDER
        return low, Trajectory(self.start + low * self.step, self.step, self.pos[low:high], self.rot[low:high])

    def moved(self, rot: np.ndarray, pos: np.ndarray) -> Trajectory:
        """The same in another world, whose place in the new one is given by (3, 3) and (3,)."""
        return Trajectory(self.start, self.step, self.pos @ rot.T + pos, rot @ self.rot)


def basis(place: np.ndarray) -> np.ndarray:
    """Weights of the four control points, f8 (N, 4), by the way to the next knot, (N,)."""
    u = place[:, None]
    return np.concatenate(
        [(1 - u) ** 3, 3 * u**3 - 6 * u**2 + 4, -3 * u**3 + 3 * u**2 + 3 * u + 1, u**3], axis=1
    ) / 6  # fmt: skip


def fit(
    times: np.ndarray, pos: np.ndarray, rot: np.ndarray, start: float, stop: float, step: float, jerk: float
) -> Trajectory:
    """The trajectory through poses at N instants that has the least jerk between them.

    Args:
        times: f8 (N,), seconds, within `start` and `stop`.
        pos, rot: f8 (N, 3), (N, 3, 3).
        jerk: expected m/s3 and rad/s3, against an error of the poses of a millimetre and a milliradian.
    """
    trajectory = Trajectory.at_rest(start, stop, step)
    count = len(trajectory.pos)
    first, place = trajectory.locate(times)
    weights = basis(place)
    band = np.zeros((ORDER, count))
    for i in range(ORDER):
        for j in range(i + 1):
            np.add.at(band[i - j], first + j, weights[:, i] * weights[:, j])
    prior = 1e-3**2 / (jerk * step**3) ** 2 * np.outer(THIRD, THIRD)
    for i in range(ORDER):
        for j in range(i + 1):
            band[i - j, j : count - ORDER + 1 + j] += prior[i, j]
    # Without poses near an end its control points would be free.
    band[0] += 1e-12

    def solve(errors: np.ndarray, jerks: np.ndarray) -> np.ndarray:
        right = np.zeros((count, 3))
        for i in range(ORDER):
            np.add.at(right, first + i, weights[:, i, None] * errors)
            right[i : count - ORDER + 1 + i] -= prior[i, i] / THIRD[i] * jerks
        return solveh_banded(band, right, lower=True)

    nearest = np.clip(np.searchsorted(times, start + (np.arange(count) - 1) * step), 0, len(times) - 1)
    trajectory.rot = rot[nearest].copy()
    trajectory.pos = solve(pos, np.zeros((count - ORDER + 1, 3)))
    for _ in range(6):
        error = log(np.swapaxes(trajectory.at(times).rot, 1, 2) @ rot)
        turns = log(np.swapaxes(trajectory.rot[:-1], 1, 2) @ trajectory.rot[1:])
        trajectory.rot = trajectory.rot @ exp(solve(error, turns[2:] - 2 * turns[1:-1] + turns[:-2]))
    return trajectory


#: Third difference of four control points: their jerk times the cube of the step.
THIRD = np.array([-1.0, 3.0, -3.0, 1.0])
