"""Virtual sensor of the radar's own velocity: `_radar_velocity`."""

from __future__ import annotations

import numpy as np

from rover_pipeline.radar.axes import resolutions
from rover_pipeline.radar.options import VelocityOptions
from rover_pipeline.radar.velocity import ego_velocity


def velocity(
    xyz: np.ndarray, doppler: np.ndarray, count: np.ndarray, *, options: VelocityOptions, sidecar: str
) -> dict[str, np.ndarray]:
    """The radar's own velocity at each frame, from points at rest.

    Args:
        xyz: f4 (frame, point, 3), m; doppler: f4 (frame, point), m/s; count: u2 (frame,), points of each frame.
        sidecar: `radar.json`, which says how large Doppler bins are.

    Returns:
        `vel` f4 (frame, 3), `cov` f4 (frame, 3, 3), NaN where there are too few points, `inliers` u2 (frame,), and
        `valid` = 0 where the points do not determine the velocity.
    """
    _, mps = resolutions(sidecar) or (0.0, 0.0)
    if not mps:
        raise ValueError("radar.json must give range_resolution and doppler_resolution, both above zero")
    estimates = []
    for positions, speeds, n in zip(xyz, doppler, count, strict=True):
        direction = positions[:n].astype("f8")
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        estimates.append(ego_velocity(direction, speeds[:n].astype("f8"), mps, options))
    return {
        "vel": np.array([each.vel for each in estimates], "f4"),
        "cov": np.array([each.cov for each in estimates], "f4"),
        "inliers": np.array([each.inliers for each in estimates], "u2"),
        "valid": np.array([each.determined for each in estimates], "u1"),
    }
