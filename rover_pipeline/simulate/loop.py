"""Closed ways through waypoints, for the rig and for everything that moves."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import make_interp_spline


class Loop:
    """A smooth closed curve through waypoints, (N, 2) or with a height (N, 3), metres, by length: a periodic quintic
    spline.

    Attributes:
        length: the parameter's period, metres; one unit of it is about one metre.
    """

    def __init__(self, waypoints: np.ndarray) -> None:
        closed = np.concatenate([waypoints, waypoints[:1]])
        knots = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(closed, axis=0), axis=1))])
        self.length = float(knots[-1])
        spline = make_interp_spline(knots, closed, k=5, bc_type="periodic")
        self._derivatives = [spline, *(spline.derivative(order) for order in (1, 2, 3))]

    def derivative(self, order: int, way: np.ndarray) -> np.ndarray:
        """d^order(x, y)/dway^order, (N, 2), or of (x, y, z), (N, 3)."""
        values: np.ndarray = self._derivatives[order](np.mod(way, self.length))
        return values


def ellipse(x: float, y: float, along: float, across: float) -> Loop:
    """A way round a point, counter-clockwise, with half axes along x and y; metres."""
    angle = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    return Loop(np.stack([x + along * np.cos(angle), y + across * np.sin(angle)], -1))


def ring(x: float, y: float, corner: float, turn: int = 1) -> Loop:
    """A rectangle of half sides x and y with rounded corners, counter-clockwise; `turn` -1 goes the other way."""
    arc = np.radians([0.0, 22.5, 45.0, 67.5, 90.0])
    points = []
    for quarter, (sx, sy) in enumerate([(1, 1), (-1, 1), (-1, -1), (1, -1)]):
        angle = arc + quarter * np.pi / 2
        points += [[sx * (x - corner), sy * (y - corner)] + corner * np.stack([np.cos(angle), np.sin(angle)], -1)]
    corners = np.roll(np.concatenate(points), 1, axis=0)  # the way begins with a straight
    # More waypoints along the straights, so that the spline does not swing out there.
    way: list[np.ndarray] = []
    for here, there in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        steps = max(1, round(float(np.linalg.norm(there - here)) / 4.0))
        way += [here + (there - here) * step / steps for step in range(steps)]
    return Loop(np.array(way[::turn]))
