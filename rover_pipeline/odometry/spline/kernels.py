"""Compiled inner loops of the spline: rotations, and its state at many instants."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.compiled import compiled

#: Third difference of four control points: their jerk times the cube of the knot distance.
THIRD_DIFFERENCE = np.array([-1.0, 3.0, -3.0, 1.0])


class ControlPoints(NamedTuple):
    """Neighbouring control points of a spline.

    Attributes:
        pos: f8 (M, 3), metres.
        rot: f8 (M, 3, 3), world-from-lidar.
        step: distance of the knots, seconds.
    """

    pos: np.ndarray
    rot: np.ndarray
    step: float


class Instants(NamedTuple):
    """Instants as the spline locates them.

    Attributes:
        first: i8 (N,), number of the first of the four control points that act on each instant.
        fraction: f8 (N,), of the knot interval that has gone by, 0 to 1.
    """

    first: np.ndarray
    fraction: np.ndarray

    def relative_to(self, start: int) -> Instants:
        """The same for a part of the spline that begins with control point `start`."""
        return Instants(self.first - start, self.fraction)


@compiled
def exp_so3(x: float, y: float, z: float, out: np.ndarray) -> None:
    """Writes the rotation matrix of a rotation vector (Rodrigues)."""
    square = x * x + y * y + z * z
    if square < 1e-8:
        a, b = 1 - square / 6, 0.5 - square / 24
    else:
        angle = np.sqrt(square)
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
    sine = 0.5 * np.sqrt(out[0] ** 2 + out[1] ** 2 + out[2] ** 2)
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
def evaluate_spline(
    control: ControlPoints, instants: Instants
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Position, rotation, velocity, acceleration and angular velocity (lidar frame) at N instants."""
    pos, rot, step = control
    count = len(instants.first)
    out_pos, out_vel, out_acc = np.zeros((count, 3)), np.zeros((count, 3)), np.zeros((count, 3))
    out_rot, out_avel = np.empty((count, 3, 3)), np.empty((count, 3))
    differences = np.empty((len(rot), 3))
    for m in range(len(rot) - 1):
        log_so3(rot[m], rot[m + 1], differences[m])
    factor, product = np.empty((3, 3)), np.empty((3, 3))
    weight, rate, rate2, sums, sum_rates = np.empty(4), np.empty(4), np.empty(4), np.empty(3), np.empty(3)
    avel = np.empty(3)
    for n in range(count):
        u, m = instants.fraction[n], instants.first[n]
        v = 1 - u
        weight[0], weight[1], weight[2], weight[3] = v * v * v / 6, (3 * u**3 - 6 * u * u + 4) / 6, 0.0, u * u * u / 6
        weight[2] = 1 - weight[0] - weight[1] - weight[3]
        rate[0], rate[1], rate[3] = -v * v / 2, (3 * u * u - 4 * u) / 2, u * u / 2
        rate[2] = -rate[0] - rate[1] - rate[3]
        rate2[0], rate2[1], rate2[2], rate2[3] = v, 3 * u - 2, 1 - 3 * u, u
        for k in range(4):
            for i in range(3):
                out_pos[n, i] += weight[k] * pos[m + k, i]
                out_vel[n, i] += rate[k] * pos[m + k, i] / step
                out_acc[n, i] += rate2[k] * pos[m + k, i] / (step * step)
        # The cumulative form: each rotation difference is scaled by the sum of the weights after it.
        for k in range(3):
            sums[k], sum_rates[k] = 0.0, 0.0
            for j in range(k + 1, 4):
                sums[k] += weight[j]
                sum_rates[k] += rate[j] / step
        out_rot[n] = rot[m]
        avel[:] = 0.0
        for k in range(3):
            delta = differences[m + k]
            exp_so3(sums[k] * delta[0], sums[k] * delta[1], sums[k] * delta[2], factor)
            multiply(out_rot[n], factor, product)
            out_rot[n] = product
            for i in range(3):
                out_avel[n, i] = factor[0, i] * avel[0] + factor[1, i] * avel[1] + factor[2, i] * avel[2]
            for i in range(3):
                avel[i] = out_avel[n, i] + sum_rates[k] * delta[i]
        out_avel[n] = avel
    return out_pos, out_rot, out_vel, out_acc, out_avel
