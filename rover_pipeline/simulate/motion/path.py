"""Closed paths through waypoints, for the rig and for the bodies that move."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import BSpline

from rover_pipeline.numerics.linear import solve


class ClosedPath:
    """A smooth closed curve: a periodic quintic spline through waypoints, (N, 2) or with a height (N, 3), metres.

    Attributes:
        length: the period of the parameter, metres. The parameter is the length of the polygon through the waypoints,
            so that one unit of it is about one metre of the curve. The package calls it the arc length.
    """

    def __init__(self, waypoints: ArrayLike) -> None:
        closed = np.concatenate([waypoints, np.asarray(waypoints)[:1]])
        knots = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(closed, axis=0), axis=1))])
        self.length = float(knots[-1])
        # `make_interp_spline` does the same with LAPACK. Knots and coefficients begin again after each period.
        count = len(knots) - 1
        turn, number = np.divmod(np.arange(-5, len(knots) + 5), count)
        around = knots[number] + turn * self.length
        design, number = BSpline.design_matrix(knots[:-1], around, 5).toarray(), np.arange(count + 5) % count
        matrix = np.zeros((count, count))
        np.add.at(matrix.T, number, design.T)
        spline = BSpline(around, solve(matrix, closed[:-1])[number], 5, extrapolate="periodic")
        self._derivatives = [spline, *(spline.derivative(order) for order in (1, 2, 3))]

    def derivative(self, order: int, arc_length: np.ndarray) -> np.ndarray:
        """The `order`-th derivative (0 to 3) of (x, y) or (x, y, z) by arc length, (N, 2) or (N, 3)."""
        values: np.ndarray = self._derivatives[order](np.mod(arc_length, self.length))
        return values


class Beside(ClosedPath):
    """The curve at a distance to the left of a path, with the path's own parameter: who walks there keeps abreast."""

    def __init__(self, path: ClosedPath, left: float) -> None:
        self.length = path.length
        self._path, self._left = path, left

    def derivative(self, order: int, arc_length: np.ndarray) -> np.ndarray:
        """Position (order 0) or its first derivative by the path's arc length, (N, 2)."""
        if order > 1:
            raise ValueError("the curve beside a path has no second derivative here")
        tangent, bend = self._path.derivative(1, arc_length)[:, :2], self._path.derivative(2, arc_length)[:, :2]
        length = np.linalg.norm(tangent, axis=1, keepdims=True)
        unit = tangent / length
        if order == 0:
            return self._path.derivative(0, arc_length)[:, :2] + self._left * np.stack([-unit[:, 1], unit[:, 0]], -1)
        turn = (bend - unit * np.sum(unit * bend, axis=1, keepdims=True)) / length
        return tangent + self._left * np.stack([-turn[:, 1], turn[:, 0]], -1)


def ellipse(x: float, y: float, half_x: float, half_y: float) -> ClosedPath:
    """A counter-clockwise ellipse around (x, y) with half axes along x and y, metres."""
    angle = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    return ClosedPath(np.stack([x + half_x * np.cos(angle), y + half_y * np.sin(angle)], -1))


def rounded_rectangle(half_x: float, half_y: float, radius: float, direction: int = 1) -> ClosedPath:
    """A rectangle around the origin with rounded corners; `direction` is 1 for counter-clockwise, -1 for clockwise."""
    arc = np.radians([0.0, 22.5, 45.0, 67.5, 90.0])
    points = []
    for quarter, (sx, sy) in enumerate([(1, 1), (-1, 1), (-1, -1), (1, -1)]):
        angle = arc + quarter * np.pi / 2
        points += [
            [sx * (half_x - radius), sy * (half_y - radius)] + radius * np.stack([np.cos(angle), np.sin(angle)], -1)
        ]
    corners = np.roll(np.concatenate(points), 1, axis=0)  # The path begins with a straight.
    # Waypoints every few metres along the straights keep the spline from swinging out there.
    waypoints: list[np.ndarray] = []
    for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        count = max(1, round(float(np.linalg.norm(end - start, axis=0)) / 4.0))
        waypoints += [start + (end - start) * number / count for number in range(count)]
    return ClosedPath(waypoints[::direction])
