"""Points of a sweep in the sensor frame, with or without the lidar's own motion during the sweep."""

from __future__ import annotations

import numpy as np

from rover_pipeline.kinematics.state import Poses
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.numerics.compiled import compiled


def project_returns(
    rng: np.ndarray, direction: np.ndarray, offset: np.ndarray, poses: Poses | None = None
) -> np.ndarray:
    """Points of a sweep, f4 (beam, column, 3), metres; NaN where there is no return.

    Args:
        rng: u2 (beam, column), mm; 0 and 65535 are no returns.
        direction, offset: f4 (beam * column, 3), metres per millimetre and metres, of ouster-sdk's projection.
        poses: of the lidar at each column, in the frame of the result; None = each column stays in its own frame.
    """
    # The kernels pass over the images once, because memory traffic takes longer than the arithmetic.
    xyz = np.empty((*rng.shape, 3), "f4")
    direction, offset = direction.reshape(xyz.shape), offset.reshape(xyz.shape)
    if poses is None:
        _project(rng, direction, offset, xyz)
    else:
        _project_deskewed(rng, direction, offset, poses.rot.astype("f4"), poses.pos.astype("f4"), xyz)
    return xyz


@compiled
def _project(rng: np.ndarray, direction: np.ndarray, offset: np.ndarray, xyz: np.ndarray) -> None:
    for b in range(rng.shape[0]):
        for c in range(rng.shape[1]):
            if rng[b, c] == 0 or rng[b, c] == CLIPPED:
                xyz[b, c, 0] = xyz[b, c, 1] = xyz[b, c, 2] = np.nan
                continue
            distance = np.float32(rng[b, c])
            for i in range(3):
                xyz[b, c, i] = distance * direction[b, c, i] + offset[b, c, i]


@compiled
def _project_deskewed(
    rng: np.ndarray, direction: np.ndarray, offset: np.ndarray, rot: np.ndarray, pos: np.ndarray, xyz: np.ndarray
) -> None:
    _project(rng, direction, offset, xyz)
    for b in range(rng.shape[0]):
        for c in range(rng.shape[1]):
            x, y, z = xyz[b, c, 0], xyz[b, c, 1], xyz[b, c, 2]
            for i in range(3):
                xyz[b, c, i] = rot[c, i, 0] * x + rot[c, i, 1] * y + rot[c, i, 2] * z + pos[c, i]
