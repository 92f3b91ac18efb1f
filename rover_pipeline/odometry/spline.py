"""The lidar's trajectory in continuous time: uniform cubic B-splines of positions in R3 and, cumulative, of rotations
on SO(3).

Method: Sommer, Usenko, Schubert, Demmel, Cremers, "Efficient Derivative Computation for Cumulative B-Splines on Lie
Groups" (CVPR 2020). Rotations are world-from-lidar, angular velocities are in the lidar frame.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rover_pipeline.kinematics.rotation import exp, log
from rover_pipeline.kinematics.state import State
from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.numerics.linear import matmul, solveh_banded

#: Number of control points that act on an instant: the spline is cubic. Layout.
ORDER = 4
#: Third difference of four control points: their jerk times the cube of the knot distance. Physics: cubic B-splines.
THIRD_DIFFERENCE = np.array([-1.0, 3.0, -3.0, 1.0])


class Instants(NamedTuple):
    """Instants as the spline locates them."""

    first: np.ndarray  #: i8 (N,), number of the first of the four control points that act on each instant.
    fraction: np.ndarray  #: f8 (N,), of the knot interval that has gone by, 0 to 1.

    def relative_to(self, start: int) -> Instants:
        """The same for a part of the spline that begins with control point `start`."""
        return Instants(self.first - start, self.fraction)

    def control_range(self) -> tuple[int, int]:
        """Number of the first control point that acts on any of the instants, and one after the last."""
        return int(self.first.min()), int(self.first.max()) + ORDER

    def weights(self) -> np.ndarray:
        """Weights of the four control points that act on each instant, f8 (N, 4)."""
        u = self.fraction[:, None]
        return np.concatenate(
            [(1 - u) ** 3, 3 * u**3 - 6 * u**2 + 4, -3 * u**3 + 3 * u**2 + 3 * u + 1, u**3], axis=1
        ) / 6  # fmt: skip


@compiled
def exp_so3(x: float, y: float, z: float, out: np.ndarray) -> None:
    """Writes the rotation matrix of a rotation vector (Rodrigues)."""
    square = x * x + y * y + z * z
    if square < 1e-8:
        a, b = 1 - square / 6, 0.5 - square / 24
    else:
        angle = math.sqrt(square)
        a, b = np.sin(angle) / angle, (1 - np.cos(angle)) / square
    out[0, 0], out[1, 1], out[2, 2] = 1 - b * (y * y + z * z), 1 - b * (x * x + z * z), 1 - b * (x * x + y * y)
    out[0, 1], out[1, 0] = b * x * y - a * z, b * x * y + a * z
    out[0, 2], out[2, 0] = b * x * z + a * y, b * x * z - a * y
    out[1, 2], out[2, 1] = b * y * z - a * x, b * y * z + a * x


@compiled
def log_so3(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """Writes the rotation vector of a'b, for rotations that differ by much less than 180 degrees."""
    trace = 0.0
    for i in range(3):
        for k in range(3):
            trace += a[k, i] * b[k, i]
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        out[i] = 0.0
        for n in range(3):
            out[i] += a[n, k] * b[n, j] - a[n, j] * b[n, k]
    sine = 0.5 * math.sqrt(out[0] * out[0] + out[1] * out[1] + out[2] * out[2])
    angle = np.arctan2(sine, 0.5 * (trace - 1))
    scale = 0.5 if sine < 1e-9 else 0.5 * angle / sine
    for i in range(3):
        out[i] *= scale


@compiled
def multiply(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """Writes the product of two 3x3 matrices."""
    for i in range(3):
        for j in range(3):
            out[i, j] = a[i, 0] * b[0, j] + a[i, 1] * b[1, j] + a[i, 2] * b[2, j]


@compiled
def _weigh(u: float, weight: np.ndarray) -> None:
    """Writes the weights of the four control points at a fraction of a knot interval."""
    v = 1 - u
    weight[0], weight[3] = v * v * v / 6, u * u * u / 6
    weight[1] = (3 * (u * u * u) - 6 * u * u + 4) / 6
    weight[2] = 1 - weight[0] - weight[1] - weight[3]


@compiled
def evaluate_poses(trajectory: SplineTrajectory, instants: Instants) -> tuple[np.ndarray, np.ndarray]:
    """Position and rotation at N instants, those of `evaluate_spline`, in half the time."""
    _, _, pos, rot = trajectory
    count = len(instants.first)
    out_pos, out_rot = np.zeros((count, 3)), np.empty((count, 3, 3))
    differences = np.empty((len(rot), 3))
    for m in range(len(rot) - 1):
        log_so3(rot[m], rot[m + 1], differences[m])
    factor, product, turned, weight = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3)), np.empty(4)
    for n in range(count):
        m = instants.first[n]
        _weigh(instants.fraction[n], weight)
        for k in range(4):
            for i in range(3):
                out_pos[n, i] += weight[k] * pos[m + k, i]
        for i in range(3):
            for j in range(3):
                turned[i, j] = rot[m, i, j]
        for k in range(3):
            total = 0.0
            for j in range(k + 1, 4):
                total += weight[j]
            delta = differences[m + k]
            exp_so3(total * delta[0], total * delta[1], total * delta[2], factor)
            multiply(turned, factor, product)
            for i in range(3):
                for j in range(3):
                    turned[i, j] = product[i, j]
        for i in range(3):
            for j in range(3):
                out_rot[n, i, j] = turned[i, j]
    return out_pos, out_rot


@compiled
def evaluate_spline(
    trajectory: SplineTrajectory, instants: Instants
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Position, rotation, velocity, acceleration and angular velocity (lidar frame) at N instants."""
    _, step, pos, rot = trajectory
    count = len(instants.first)
    out_pos, out_rot = evaluate_poses(trajectory, instants)
    out_vel, out_acc, out_avel = np.zeros((count, 3)), np.zeros((count, 3)), np.zeros((count, 3))
    factor, delta, before = np.empty((3, 3)), np.empty(3), np.empty(3)
    weight, rate, rate2 = np.empty(4), np.empty(4), np.empty(4)
    for n in range(count):
        u, m = instants.fraction[n], instants.first[n]
        v = 1 - u
        _weigh(u, weight)
        rate[0], rate[1], rate[3] = -v * v / 2, (3 * u * u - 4 * u) / 2, u * u / 2
        rate[2] = -rate[0] - rate[1] - rate[3]
        rate2[0], rate2[1] = v, 3 * u - 2
        rate2[2], rate2[3] = 1 - 3 * u, u
        for k in range(4):
            for i in range(3):
                out_vel[n, i] += rate[k] * pos[m + k, i] / step
                out_acc[n, i] += rate2[k] * pos[m + k, i] / (step * step)
        # The cumulative form: each rotation difference is scaled by the sum of the weights after it.
        for k in range(3):
            total, total_rate = 0.0, 0.0
            for j in range(k + 1, 4):
                total += weight[j]
                total_rate += rate[j] / step
            log_so3(rot[m + k], rot[m + k + 1], delta)
            exp_so3(total * delta[0], total * delta[1], total * delta[2], factor)
            for i in range(3):
                before[i] = out_avel[n, i]
            for i in range(3):
                out_avel[n, i] = factor[0, i] * before[0] + factor[1, i] * before[1] + factor[2, i] * before[2]
                out_avel[n, i] += total_rate * delta[i]
    return out_pos, out_rot, out_vel, out_acc, out_avel


class SplineTrajectory(NamedTuple):
    """A trajectory by control points at equal distances in time."""

    start: float  #: first instant that the trajectory is defined at, seconds.
    step: float  #: distance of the knots, seconds.
    pos: np.ndarray  #: f8 (M, 3), control points of the position, metres.
    rot: np.ndarray  #: f8 (M, 3, 3), control points of the rotation, world-from-lidar.

    @staticmethod
    def at_rest(start: float, stop: float, step: float) -> SplineTrajectory:
        """A lidar that stays at the origin from `start` to `stop`, seconds."""
        count = int(np.ceil((stop - start) / step)) + ORDER - 1
        return SplineTrajectory(start, step, np.zeros((count, 3)), np.tile(np.eye(3), (count, 1, 1)))

    @property
    def stop(self) -> float:
        """Last instant that the trajectory is defined at, seconds."""
        return self.start + (len(self.pos) - ORDER + 1) * self.step

    def backwards(self) -> SplineTrajectory:
        """The same motion from its end to its beginning, at negative instants."""
        return SplineTrajectory(-self.stop, self.step, self.pos[::-1].copy(), self.rot[::-1].copy())

    def copy(self) -> SplineTrajectory:
        return SplineTrajectory(self.start, self.step, self.pos.copy(), self.rot.copy())

    def locate(self, times: np.ndarray) -> Instants:
        """Where N instants, f8 seconds, lie between the knots. Instants outside count as the nearest one inside."""
        knots = (np.asarray(times, "f8") - self.start) / self.step
        first = np.clip(np.floor(knots), 0, len(self.pos) - ORDER).astype("i8")
        return Instants(first, np.clip(knots - first, 0.0, 1.0))

    def at(self, times: np.ndarray) -> State:
        """State at N instants, f8 seconds. Outside of the trajectory it is that at the nearest end."""
        return State(*evaluate_spline(self.in_order(), self.locate(times)))

    def poses(self, instants: Instants) -> tuple[np.ndarray, np.ndarray]:
        """Positions, f8 (N, 3), and rotations, f8 (N, 3, 3), at some instants that are near to one another."""
        low, high = instants.control_range()
        return evaluate_poses(self.part(low, high).in_order(), instants.relative_to(low))

    def in_order(self) -> SplineTrajectory:
        """The same. Kernels would be compiled once more for control points that a solver left in another order."""
        return self._replace(pos=np.ascontiguousarray(self.pos))

    def part(self, low: int, high: int) -> SplineTrajectory:
        """A view of the control points from number `low` until before `high`."""
        return SplineTrajectory(self.start + low * self.step, self.step, self.pos[low:high], self.rot[low:high])

    def window(self, begin: float, end: float) -> tuple[int, SplineTrajectory]:
        """The part that acts from one instant to another, seconds, and the number of its first control point."""
        low, high = self.locate(np.array([begin, end])).control_range()
        return low, self.part(low, high)

    def transformed(self, rot: np.ndarray, pos: np.ndarray) -> SplineTrajectory:
        """The trajectory in another world, given the pose of the old world in the new one, (3, 3) and (3,)."""
        return SplineTrajectory(self.start, self.step, matmul(self.pos, rot.T) + pos, matmul(rot, self.rot))


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
    count, instants = len(spline.pos), spline.locate(times)
    information = 1e-3**2 / (jerk * step**3) ** 2
    # Control points that no pose determines, near the ends, would make the matrix singular.
    band = least_squares(instants, count, information, 1e-12)

    def solve(errors: np.ndarray, jerks: np.ndarray) -> np.ndarray:
        right = weighted(instants, count, errors)
        for i in range(ORDER):
            right[i : count - ORDER + 1 + i] -= information * THIRD_DIFFERENCE[i] ** 2 / THIRD_DIFFERENCE[i] * jerks
        return solveh_banded(band, right)

    nearest = np.clip(np.searchsorted(times, start + (np.arange(count) - 1) * step), 0, len(times) - 1)
    spline = spline._replace(rot=rot[nearest].copy(), pos=solve(pos, np.zeros((count - ORDER + 1, 3))))
    # Rotations are not linear in their control points: Gauss-Newton.
    for _ in range(6):
        error = log(matmul(np.swapaxes(spline.at(times).rot, 1, 2), rot))
        differences = log(matmul(np.swapaxes(spline.rot[:-1], 1, 2), spline.rot[1:]))
        jerks = differences[2:] - 2 * differences[1:-1] + differences[:-2]
        spline = spline._replace(rot=matmul(spline.rot, exp(solve(error, jerks))))
    return spline


def least_squares(instants: Instants, count: int, information: float, ridge: float) -> np.ndarray:
    """The matrix, in lower banded form, f8 (4, count), of control points that have to be at values at some instants.

    Args:
        information: of a third difference that is to be zero; ridge: of a control point that is, relative to a value's.
    """
    band, weights = np.zeros((ORDER, count)), instants.weights()
    for i in range(ORDER):
        for j in range(i + 1):
            np.add.at(band[i - j], instants.first + j, weights[:, i] * weights[:, j])
            band[i - j, j : count - ORDER + 1 + j] += information * (THIRD_DIFFERENCE[i] * THIRD_DIFFERENCE[j])
    band[0] += ridge
    return band


def weighted(instants: Instants, count: int, values: np.ndarray) -> np.ndarray:
    """The right side of these equations, f8 (count, A), of values, f8 (N, A)."""
    right, weights = np.zeros((count, values.shape[1])), instants.weights()
    for i in range(ORDER):
        np.add.at(right, instants.first + i, weights[:, i, None] * values)
    return right
