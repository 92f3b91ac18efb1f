"""Where a body was when its points were measured."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.objects.measurements import Smoothed


class PlanePoses(NamedTuple):
    """Where a body was at the times of its clusters, and how it moved.

    Attributes:
        centre: f8 (C, 2), m; yaw: f8 (C,), rad; vel: f8 (C, 2), m/s; turn: f8 (C,), rad/s.
    """

    centre: np.ndarray
    yaw: np.ndarray
    vel: np.ndarray
    turn: np.ndarray

    @staticmethod
    def standing(centre: np.ndarray, yaw: np.ndarray) -> PlanePoses:
        """Of something that does not move."""
        return PlanePoses(centre, yaw, np.zeros((len(yaw), 2)), np.zeros(len(yaw)))

    @staticmethod
    def of(motion: Smoothed, yaw: np.ndarray, times: np.ndarray, wanted: np.ndarray) -> PlanePoses:
        """At the wanted times, f8 (C,), s, of a motion that is known at others.

        Args:
            yaw: f8 (N,), rad, without jumps; times: f8 (N,), s, ascending.
        """
        after = np.clip(np.searchsorted(times, wanted), 1, max(1, len(times) - 1))
        near = np.clip(after - (wanted - times[after - 1] < times[after % len(times)] - wanted), 0, len(times) - 1)
        dt = (wanted - times[near])[:, None]
        vel = np.column_stack([np.interp(wanted, times, motion.state[:, 2 + axis]) for axis in range(2)])
        centre = motion.state[near, :2] + dt * (vel + motion.state[near, 2:]) / 2
        turn = np.zeros(len(times))
        if motion.heading is not None and len(times) > 1:
            turn = np.gradient(motion.heading, times)
        return PlanePoses(centre, np.interp(wanted, times, yaw), vel, np.interp(wanted, times, turn))


def at_once(xy: np.ndarray, later: np.ndarray, poses: PlanePoses) -> np.ndarray:
    """Points of a moving body, moved to where they were at the times of their clusters.

    A body that is seen by the beginning and the end of a revolution has moved on by half a metre, or turned, between
    its points.

    Args:
        xy: f8 (C, P, 2), m; later: f8 (C, P), s, when each was measured after its cluster's time.
    """
    half = poses.turn[:, None] * later / 2
    # On an arc, a body moves as it heads in the middle between two times.
    way = _turned(np.broadcast_to(poses.vel[:, None], xy.shape), half) * later[..., None]
    return poses.centre[:, None] + _turned(xy - way - poses.centre[:, None], -2 * half)


def _turned(vectors: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Vectors, (..., 2), turned to the left by angles, (...), rad."""
    cos, sin = np.cos(angle), np.sin(angle)
    x, y = vectors[..., 0], vectors[..., 1]
    return np.stack([cos * x - sin * y, sin * x + cos * y], axis=-1)
