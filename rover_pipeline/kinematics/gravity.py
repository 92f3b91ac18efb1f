"""Which way is up, and sensors turned upright."""

from __future__ import annotations

import numpy as np


def up_of_gravity(
    acc: np.ndarray, rot: np.ndarray, change: np.ndarray, seconds: float, upward: np.ndarray
) -> np.ndarray | None:
    """The direction away from gravity in the world, f8 (3,), from what an accelerometer felt on the way.

    Over some time the mean of what it feels is gravity and the change of velocity.

    Args:
        acc: f8 (N, 3), m/s2, gravity included, in the sensor frame.
        rot: f8 (N, 3, 3), world-from-sensor.
        change: f8 (3,), of velocity from the first to the last, m/s; seconds: between them.
        upward: f8 (3,), a direction that is upward rather than downward.

    Returns:
        None when the mean is not about as large as gravity.
    """
    if not len(acc) or seconds <= 0:
        return None
    mean = np.einsum("nij,nj->i", rot, acc) / len(acc)
    size = np.linalg.norm(mean)
    if not 0.5 < size / 9.81 < 1.5:
        return None
    # Some devices give what they feel, others the pull of gravity, which is the opposite.
    sign = np.sign(mean @ upward) or 1.0
    up = sign * mean - change / seconds
    return np.asarray(up / np.linalg.norm(up))


def uprighted(rotation: np.ndarray, up: np.ndarray) -> np.ndarray:
    """Upright-from-sensor rotations that keep the sensors' heading, f8 (N, 3, 3).

    Args:
        rotation: f8 (N, 3, 3), world-from-sensor.
        up: f8 (3,), in the world.
    """
    z = np.einsum("nji,j->ni", rotation, up)
    front = np.zeros_like(z)
    front[:, 0] = 1.0
    x = front - z * z[:, :1]
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return np.stack([x, np.cross(z, x), z], axis=1)
