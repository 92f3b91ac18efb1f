"""Depth of the camera's pixels from a lidar sweep."""

from __future__ import annotations

import numpy as np

from rover_pipeline.camera.lens import Lens
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.numerics.compiled import compiled

#: Instants of a sweep with a pose of their own, a few milliseconds from one another. Poses between them are
#: interpolated.
NODES = 17


class DepthCamera:
    """Projects lidar returns into the pixels of a camera. Can be shared by threads.

    Args:
        lens: of the pixels.
        min_range: minimum depth of a return, m along the camera's axis.
    """

    def __init__(self, lens: Lens, min_range: float) -> None:
        self.lens = lens
        self._lens = np.array([lens.fx, lens.fy, lens.cx, lens.cy, *lens.k, *lens.p, lens.max_tangent**2, min_range])

    def depth(self, rng: np.ndarray, xyz: np.ndarray, rotation: np.ndarray, translation: np.ndarray) -> np.ndarray:
        """Depth of the nearest return in each pixel, u2 (height, width), mm along the axis; 0 = none.

        Args:
            rng: u2 (beam, column), mm, columns in time order; 0 = no return.
            xyz: f4 (beam, column, 3), the returns in the lidar frame, m.
            rotation: f8 (node, 3, 3), camera-from-lidar at equal steps from the start of the sweep to its end, both
                front-left-up.
            translation: f8 (node, 3), position of the lidar in the camera frame, m.
        """
        out = np.zeros((self.lens.height, self.lens.width), "u2")
        _project(rng, xyz, rotation, translation, self._lens, out)
        return out


@compiled
def _project(
    rng: np.ndarray, xyz: np.ndarray, rotation: np.ndarray, translation: np.ndarray, lens: np.ndarray, out: np.ndarray
) -> None:
    fx, fy, cx, cy, k1, k2, k3, k4, p1, p2, max_square, min_depth = lens
    height, width = out.shape
    columns, steps = rng.shape[1], len(rotation) - 1
    poses = np.empty((columns, 12))
    for column in range(columns):
        position = column * steps / columns
        node = int(position)
        s = position - node
        for i in range(3):
            for j in range(3):
                poses[column, 3 * i + j] = (1 - s) * rotation[node, i, j] + s * rotation[node + 1, i, j]
            poses[column, 9 + i] = (1 - s) * translation[node, i] + s * translation[node + 1, i]
    for beam in range(rng.shape[0]):
        for column in range(columns):
            if rng[beam, column] == 0 or rng[beam, column] == CLIPPED:
                continue
            pose = poses[column]
            px, py, pz = xyz[beam, column, 0], xyz[beam, column, 1], xyz[beam, column, 2]
            depth = pose[0] * px + pose[1] * py + pose[2] * pz + pose[9]
            if depth <= min_depth:
                continue
            x = -(pose[3] * px + pose[4] * py + pose[5] * pz + pose[10]) / depth
            y = -(pose[6] * px + pose[7] * py + pose[8] * pz + pose[11]) / depth
            square = x * x + y * y
            if square > max_square:
                continue
            radial = 1 + square * (k1 + square * (k2 + square * (k3 + square * k4)))
            u = fx * (x * radial + 2 * p1 * x * y + p2 * (square + 2 * x * x)) + cx
            v = fy * (y * radial + p1 * (square + 2 * y * y) + 2 * p2 * x * y) + cy
            if not (-0.5 <= u < width - 0.5 and -0.5 <= v < height - 0.5):
                continue
            column_out, row_out = int(u + 0.5), int(v + 0.5)
            mm = min(int(depth * 1000 + 0.5), 65535)  # the largest value of u2
            if out[row_out, column_out] == 0 or mm < out[row_out, column_out]:
                out[row_out, column_out] = mm
