"""The lidar's trajectory in continuous time: uniform cubic B-splines of positions in R3 and, cumulative, of rotations
on SO(3).

Method: Sommer, Usenko, Schubert, Demmel, Cremers, "Efficient Derivative Computation for Cumulative B-Splines on Lie
Groups" (CVPR 2020). Rotations are world-from-lidar, angular velocities are in the lidar frame.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solveh_banded

from rover_pipeline.kinematics.rotation import exp, log
from rover_pipeline.kinematics.state import State
from rover_pipeline.odometry.spline.kernels import THIRD_DIFFERENCE, ControlPoints, Instants, evaluate_spline

#: Number of control points that act on an instant.
ORDER = 4


@dataclass
class SplineTrajectory:
    """A trajectory by control points at equal distances in time.

    Attributes:
        start: first instant that the trajectory is defined at, seconds.
        step: distance of the knots, seconds.
        pos: f8 (M, 3), control points of the position, metres.
        rot: f8 (M, 3, 3), control points of the rotation, world-from-lidar.
    """

    start: float
    step: float
    pos: np.ndarray
    rot: np.ndarray

    @staticmethod
    def at_rest(start: float, stop: float, step: float) -> SplineTrajectory:
        """A lidar that stays at the origin from `start` to `stop`, seconds."""
        count = int(np.ceil((stop - start) / step)) + ORDER - 1
        return SplineTrajectory(start, step, np.zeros((count, 3)), np.tile(np.eye(3), (count, 1, 1)))

    @property
    def stop(self) -> float:
        """Last instant that the trajectory is defined at, seconds."""
        return self.start + (len(self.pos) - ORDER + 1) * self.step

    @property
    def control_points(self) -> ControlPoints:
        """All control points as kernels take them."""
        return ControlPoints(self.pos, self.rot, self.step)

    def copy(self) -> SplineTrajectory:
        return SplineTrajectory(self.start, self.step, self.pos.copy(), self.rot.copy())

    def locate(self, times: np.ndarray) -> Instants:
        """Where N instants, f8 seconds, lie between the knots. Instants outside count as the nearest one inside."""
        knots = (np.asarray(times, "f8") - self.start) / self.step
        first = np.clip(np.floor(knots), 0, len(self.pos) - ORDER).astype("i8")
        return Instants(first, np.clip(knots - first, 0.0, 1.0))

    def at(self, times: np.ndarray) -> State:
        """State at N instants, f8 seconds. Outside of the trajectory it is that at the nearest end."""
        return State(*evaluate_spline(self.control_points, self.locate(times)))

    def poses(self, instants: Instants) -> tuple[np.ndarray, np.ndarray]:
        """Positions, f8 (N, 3), and rotations, f8 (N, 3, 3), at some instants that are near to one another."""
        low, high = control_range(instants)
        window = ControlPoints(self.pos[low:high], self.rot[low:high], self.step)
        pos, rot, *_ = evaluate_spline(window, instants.relative_to(low))
        return pos, rot

    def window(self, begin: float, end: float) -> tuple[int, SplineTrajectory]:
        """The part that acts from one instant to another, seconds, and the number of its first control point."""
        low, high = control_range(self.locate(np.array([begin, end])))
        return low, SplineTrajectory(self.start + low * self.step, self.step, self.pos[low:high], self.rot[low:high])

    def transformed(self, rot: np.ndarray, pos: np.ndarray) -> SplineTrajectory:
        """The trajectory in another world, given the pose of the old world in the new one, (3, 3) and (3,)."""
        return SplineTrajectory(self.start, self.step, self.pos @ rot.T + pos, rot @ self.rot)


def control_range(instants: Instants) -> tuple[int, int]:
    """Number of the first control point that acts on any of the instants, and one after the last."""
    return int(instants.first.min()), int(instants.first.max()) + ORDER


def basis(fraction: np.ndarray) -> np.ndarray:
    """Weights of the four control points, f8 (N, 4), at fractions of the knot interval, (N,)."""
    u = fraction[:, None]
    return np.concatenate(
        [(1 - u) ** 3, 3 * u**3 - 6 * u**2 + 4, -3 * u**3 + 3 * u**2 + 3 * u + 1, u**3], axis=1
    ) / 6  # fmt: skip


def fit_spline(
    times: np.ndarray, pos: np.ndarray, rot: np.ndarray, start: float, stop: float, step: float, jerk: float
) -> SplineTrajectory:
    """The trajectory through poses at N instants that has the smallest jerk between them.

    Args:
        times: f8 (N,), seconds, within `start` and `stop`.
        pos, rot: f8 (N, 3), (N, 3, 3).
        jerk: expected m/s3 and rad/s3, relative to errors of the poses of a millimetre and a milliradian.
    """
    spline = SplineTrajectory.at_rest(start, stop, step)
    count = len(spline.pos)
    first, fraction = spline.locate(times)
    weights = basis(fraction)
    band = np.zeros((ORDER, count))
    for i in range(ORDER):
        for j in range(i + 1):
            np.add.at(band[i - j], first + j, weights[:, i] * weights[:, j])
    prior = 1e-3**2 / (jerk * step**3) ** 2 * np.outer(THIRD_DIFFERENCE, THIRD_DIFFERENCE)
    for i in range(ORDER):
        for j in range(i + 1):
            band[i - j, j : count - ORDER + 1 + j] += prior[i, j]
    # Control points that no pose determines, near the ends, would make the matrix singular.
    band[0] += 1e-12

    def solve(errors: np.ndarray, jerks: np.ndarray) -> np.ndarray:
        right = np.zeros((count, 3))
        for i in range(ORDER):
            np.add.at(right, first + i, weights[:, i, None] * errors)
            right[i : count - ORDER + 1 + i] -= prior[i, i] / THIRD_DIFFERENCE[i] * jerks
        return solveh_banded(band, right, lower=True)

    nearest = np.clip(np.searchsorted(times, start + (np.arange(count) - 1) * step), 0, len(times) - 1)
    spline.rot = rot[nearest].copy()
    spline.pos = solve(pos, np.zeros((count - ORDER + 1, 3)))
    # Rotations are not linear in their control points: Gauss-Newton.
    for _ in range(6):
        error = log(np.swapaxes(spline.at(times).rot, 1, 2) @ rot)
        differences = log(np.swapaxes(spline.rot[:-1], 1, 2) @ spline.rot[1:])
        jerks = differences[2:] - 2 * differences[1:-1] + differences[:-2]
        spline.rot = spline.rot @ exp(solve(error, jerks))
    return spline
