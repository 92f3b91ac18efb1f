"""The direction of up, and rotations without tilt."""

from __future__ import annotations

import numpy as np

from rover_pipeline.numerics.linear import matmul


def up_of_gravity(
    acc: np.ndarray, rot: np.ndarray, change: np.ndarray, seconds: float, upward: np.ndarray
) -> np.ndarray | None:
    """The direction away from gravity in the world, f8 (3,), from the measurements of an accelerometer.

    Their mean over some time is gravity plus the mean acceleration, which is the change of velocity by the time.

    Args:
        acc: f8 (N, 3), m/s2, gravity included, in the sensor frame.
        rot: f8 (N, 3, 3), world-from-sensor.
        change: f8 (3,), change of the velocity from the first to the last measurement, m/s; seconds: between them.
        upward: f8 (3,), a direction less than 90 degrees from up.

    Returns:
        None when the mean is less than half of gravity or more than one and a half times as large.
    """
    if seconds <= 0:
        return None
    mean = np.einsum("nij,nj->i", rot, acc) / len(acc)
    size = np.linalg.norm(mean, axis=0)
    if not 0.5 < size / 9.81 < 1.5:
        return None
    # Some devices report the specific force, which points up at rest, others gravity, which points down.
    sign = np.sign(matmul(mean, upward)) or 1.0
    up = sign * mean - change / seconds
    return np.asarray(up / np.linalg.norm(up, axis=0))


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
