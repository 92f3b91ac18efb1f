"""Rotations without tilt."""

from __future__ import annotations

import numpy as np


def remove_tilt(rotation: np.ndarray, up: np.ndarray) -> np.ndarray:
    """Level-from-sensor rotations, f8 (N, 3, 3): a level frame has the sensor's heading, and its z is up.

    Args:
        rotation: f8 (N, 3, 3), world-from-sensor.
        up: f8 (3,), in the world.
    """
    z = np.einsum("nji,j->ni", rotation, up)
    x = np.array([1.0, 0.0, 0.0]) - z * z[:, :1]
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return np.stack([x, np.cross(z, x), z], axis=1)
