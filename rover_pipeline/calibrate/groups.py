"""How much more errors vary that points of a group have in common: for robust covariances with groups of several kinds.

A. C. Cameron, J. B. Gelbach and D. L. Miller, Robust inference with multiway clustering, 2011.
"""

from __future__ import annotations

import numpy as np

from rover_pipeline.numerics.linear import eigh, matmul


def excess(sums: np.ndarray) -> np.ndarray:
    """What errors of groups add to a covariance that is one if errors are independent, f8 (width, width).

    The covariance of few groups is noise, and is shrunk towards a multiple of the identity (O. Ledoit and M. Wolf, A
    well-conditioned estimator for large-dimensional covariances, 2004).

    Args:
        sums: f8 (groups, width), the sum of each group.
    """
    count, width = sums.shape
    covariance = matmul(sums.T, sums) / max(count - 1, 1)
    target = covariance.trace() / width * np.eye(width)
    noise = ((sums**2).sum(axis=1) ** 2 - (covariance**2).sum()).sum() / count**2
    share = float(np.clip(noise / max(float(((covariance - target) ** 2).sum()), 1e-300), 0.0, 1.0))
    values, axes = eigh((share * target + (1 - share) * covariance) * count - np.eye(width))
    return np.asarray(matmul(axes * np.maximum(values, 0), axes.T))
