"""Depth of the camera's pixels from a lidar sweep."""

from __future__ import annotations

import numba
import numpy as np

from rover_pipeline.camera.lens import Lens
from rover_pipeline.occupancy.polar import CLIPPED
from rover_pipeline.poses.trajectory import Trajectory
from rover_pipeline.rig import Mount

#: Columns that share a pose: what a sensor sends in a packet, less than a millisecond.
AT_ONCE = 16


class DepthCamera:
    """Sees lidar returns as a camera does. Can be shared by threads.

    Args:
        lens: of the pixels.
        min_range: m along the axis.
    """

    def __init__(self, lens: Lens, min_range: float) -> None:
        self.lens = lens
        self._lens = np.array([lens.fx, lens.fy, lens.cx, lens.cy, *lens.k, *lens.p, _widest(lens), min_range])

    def depth(self, rng: np.ndarray, xyz: np.ndarray, rotation: np.ndarray, translation: np.ndarray) -> np.ndarray:
        """Distance along the axis of the nearest return in each pixel, u2 (height, width), mm; 0 = none.

        Args:
            rng: u2 (beam, column), mm, columns in time order; 0 = no return.
            xyz: f4 (beam, column, 3), the returns in the lidar frame, m.
            rotation: f8 (group, 3, 3), camera-from-lidar for every `AT_ONCE` columns, both front-left-up.
            translation: f8 (group, 3), of the lidar in the camera frame, m; NaN = nobody knows, no return is used.
        """
        out = np.zeros((self.lens.height, self.lens.width), "u2")
        _draw(rng, xyz, rotation, translation, self._lens, out)
        return out


def seen_from(
    time: float, columns: np.ndarray, stamp: float, trajectory: Trajectory | None, mount: Mount
) -> tuple[np.ndarray, np.ndarray]:
    """Camera-from-lidar rotations and the lidar's places in the camera frame, for lidar columns of other instants.

    Args:
        time: of the camera, s; columns: f8 (group,), of the lidar.
        stamp: the sweep's own; it stands for columns from before the trajectory begins.
        trajectory: of the lidar; None = it stands still.
        mount: the camera's pose in the lidar frame.

    Returns:
        f8 (group, 3, 3) and (group, 3), NaN where the trajectory does not tell.
    """
    if trajectory is None:
        groups = len(columns)
        return np.tile(mount.rotation.T, (groups, 1, 1)), np.tile(-mount.translation @ mount.rotation, (groups, 1))
    camera = trajectory.at(np.array([time]), mount)
    poses = trajectory.at(np.append(columns, stamp))
    known = poses.valid[:-1, None]
    pos = np.where(known, poses.pos[:-1], poses.pos[-1])
    rot = np.where(known[..., None], poses.rot[:-1], poses.rot[-1])
    return camera.rot[0].T @ rot, (pos - camera.pos[0]) @ camera.rot[0]


def _widest(lens: Lens) -> float:
    """Square of the tangent from which on the distortion leads pixels back towards the middle."""
    radius = np.linspace(0.0, 10.0, 10_001)
    seen = radius * (1 + np.polyval([*lens.k[::-1], 0.0], radius**2))
    back = np.flatnonzero(np.diff(seen) <= 0)
    return float(radius[back[0]] ** 2) if len(back) else np.inf


@numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _draw(
    rng: np.ndarray,
    xyz: np.ndarray,
    rotation: np.ndarray,
    translation: np.ndarray,
    lens: np.ndarray,
    out: np.ndarray,
) -> None:
    fx, fy, cx, cy, k1, k2, k3, k4, p1, p2, widest, nearest = lens
    height, width = out.shape
    for beam in range(rng.shape[0]):
        for column in range(rng.shape[1]):
            if rng[beam, column] == 0 or rng[beam, column] == CLIPPED:
                continue
            turn, shift = rotation[column // AT_ONCE], translation[column // AT_ONCE]
            px, py, pz = xyz[beam, column, 0], xyz[beam, column, 1], xyz[beam, column, 2]
            ahead = turn[0, 0] * px + turn[0, 1] * py + turn[0, 2] * pz + shift[0]
            if not ahead > nearest:  # what is not a number is not seen either
                continue
            x = -(turn[1, 0] * px + turn[1, 1] * py + turn[1, 2] * pz + shift[1]) / ahead
            y = -(turn[2, 0] * px + turn[2, 1] * py + turn[2, 2] * pz + shift[2]) / ahead
            square = x * x + y * y
            if square > widest:
                continue
            radial = 1 + square * (k1 + square * (k2 + square * (k3 + square * k4)))
            u = fx * (x * radial + 2 * p1 * x * y + p2 * (square + 2 * x * x)) + cx
            v = fy * (y * radial + p1 * (square + 2 * y * y) + 2 * p2 * x * y) + cy
            if not (-0.5 <= u < width - 0.5 and -0.5 <= v < height - 0.5):
                continue
            left, top = int(u + 0.5), int(v + 0.5)
            mm = min(int(ahead * 1000 + 0.5), CLIPPED)
            if out[top, left] == 0 or mm < out[top, left]:
                out[top, left] = mm
