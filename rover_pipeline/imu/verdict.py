"""Whether a gyroscope that was aligned with the lidar's trajectory can be used."""

from __future__ import annotations

import numpy as np

from rover_pipeline.imu.alignment import BIAS, OFFSET, ROTATION, Fit
from rover_pipeline.numerics.linear import eigh

#: Largest standard deviations of an IMU that can be used: rotation (rad), time offset (s), bias (rad/s).
_LIMITS = {"rotation": np.radians(3.0), "offset": 0.02, "bias": 0.02}
#: How much better a reflection must fit, in variances of a block, of which correlated residuals count several.
_MIRRORED = 100.0
#: Smallest share of blocks that agree, and largest residual in the standard deviation that the reference states.
_MIN_AGREE, _MAX_RESIDUAL = 0.6, 3.0
#: Largest offset that can be told, s.
MAX_OFFSET = 0.55


def contradiction_of(fit: Fit, mirrored: float, predicted: np.ndarray, stated: float) -> str:
    """How the gyroscope contradicts the lidar; empty if it does not.

    Args:
        mirrored: how much better a reflection fits than a rotation, in variances of a block.
        predicted: f8 (K, 3), rad/s, rates of the lidar as the gyroscope tells them.
        stated: standard deviation of the lidar's own rates, rad/s.
    """
    if mirrored > _MIRRORED:
        return (
            "its axes are mirrored: a reflection fits the lidar's turns, and no rotation does (determinant -1); two "
            "axes are exchanged, or the sign of one is wrong"
        )
    share, worst = fit.used.sum() / max(fit.compared.sum(), 1), float(fit.residual.max())
    if share < _MIN_AGREE:
        return f"it contradicts the lidar: only {100 * share:.0f} % of the time they agree"
    moves = float(np.sqrt(predicted.var(axis=0).sum())) if len(predicted) else 0.0
    if worst > _MAX_RESIDUAL * stated or (moves > 2 * stated and worst > 0.5 * moves):
        return (
            f"it contradicts the lidar: they differ by {worst:.3f} rad/s, more than the lidar's error of {stated:.3f}"
        )
    if abs(fit.model.offset) > MAX_OFFSET and fit.covariance[OFFSET, OFFSET] < _LIMITS["offset"] ** 2:
        return f"its clock differs from the lidar's by {abs(fit.model.offset):.1f} s or more"
    return ""


def unknown_of(fit: Fit) -> str:
    """What the motion does not tell of the gyroscope, so that it cannot be used; empty if it can."""
    variance, axes = eigh(fit.covariance[ROTATION, ROTATION])
    if variance[2] > _LIMITS["rotation"] ** 2:
        axis, degrees = " ".join(f"{value:.2f}" for value in axes[:, 2]), np.degrees(np.sqrt(variance[2]))
        known = "nothing of it is known" if degrees > 90 else f"it is known to {degrees:.1f} degrees"
        return f"not enough rotation about two axes: of its rotation to the lidar about [{axis}] {known}"
    sigma = np.sqrt(np.diag(fit.covariance))
    if sigma[OFFSET] > _LIMITS["offset"]:
        return f"not enough changes of the rotation: its time offset is known to {1000 * sigma[OFFSET]:.0f} ms only"
    if sigma[BIAS].max() > _LIMITS["bias"]:
        return f"its bias is known to {sigma[BIAS].max():.3f} rad/s only"
    return ""
