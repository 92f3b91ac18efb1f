"""Polar occupancy: which cells of azimuth, elevation and range hold a lidar return.

The bin of an angle is found without inverse trigonometric functions: by a quotient that grows with the angle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rover_pipeline.kinematics.state import Poses
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.lidar.sweeps import Sweep
from rover_pipeline.numerics.compiled import compiled


@dataclass(frozen=True)
class PolarGrid:
    """The cells. Can be shared by threads."""

    azimuth: np.ndarray  #: f8 (bin + 1,), edges of the bins, radians, positive to the right.
    elevation: np.ndarray  #: f8 (bin + 1,), the same, positive upward.
    resolution: float  #: size of a range bin, m; bin k holds the ranges that are nearest to k times it.
    bins: int  #: number of range bins.
    z: tuple[float, float]  #: minimum and maximum height of a return above the origin, m.
    min_range: float = 0.0  #: minimum distance of a return from the origin, m.

    @property
    def shape(self) -> tuple[int, int, int]:
        """(elevation, azimuth, range)"""
        return len(self.elevation) - 1, len(self.azimuth) - 1, self.bins

    @cached_property
    def _quotients(self) -> tuple[np.ndarray, np.ndarray]:
        """Of the edges of azimuths, -2 to 2 for -pi to pi, and of elevations, -1 to 1 for -pi/2 to pi/2."""
        x, right = np.cos(self.azimuth), np.sin(self.azimuth)
        azimuth = np.copysign(1 - x / (np.abs(x) + np.abs(right)), self.azimuth)
        horizontal, up = np.abs(np.cos(self.elevation)), np.sin(self.elevation)
        return azimuth, up / (horizontal + np.abs(up))

    def occupied(self, sweep: Sweep, lidar: Poses, origin: np.ndarray) -> np.ndarray:
        """Occupied cells of a sweep, u1 (elevation, azimuth, range).

        Args:
            lidar: f8, of the lidar at each column, in the frame of the grid.
            origin: f8 (3,), where the origin of the grid is mounted, in the lidar frame, m. Returns that were measured
                nearer to it than `min_range` are left out: the rig itself moves along.
        """
        out = np.zeros(self.shape, "u1")
        poses = np.concatenate([lidar.rot.reshape(-1, 9), lidar.pos], axis=1)
        limits = np.array([self.resolution, self.min_range, *self.z])
        _fill(sweep.rng, sweep.xyz, poses, origin, limits, *self._quotients, out)
        return out


def edges(limits: tuple[float, float], bins: int) -> np.ndarray:
    """Edges of bins of equal angles between limits in degrees, f8 (bin + 1,), radians."""
    return np.radians(np.linspace(*limits, bins + 1))


def share_kept(cells: np.ndarray, grid: PolarGrid, errors: np.ndarray) -> float:
    """Share of the occupied cells' returns that an error of the sensor's pose leaves in their cells, 0 to 1.

    Returns are anywhere in a cell with the same probability. One that is displaced by d along a side of length s leaves
    its cell with the probability d / s, and the mean of |d| is sqrt(2 / pi) of its deviation (normal distribution).

    Args:
        cells: u1 (elevation, azimuth, range).
        errors: f8 (6, 6), covariance of a displacement, m, and a rotation vector, rad, of the sensor, in its frame.
    """
    elevation, azimuth, number = np.nonzero(cells)
    if not len(number) or not errors.any():
        return 1.0
    up = np.zeros(len(number)) if len(cells) == 1 else _middle(grid.elevation)[elevation]
    left, distance = -_middle(grid.azimuth)[azimuth], np.maximum(number, 0.5) * grid.resolution
    level = np.stack([np.cos(left), np.sin(left), 0 * left], axis=1)
    away = np.cos(up)[:, None] * level + np.sin(up)[:, None] * [0.0, 0.0, 1.0]
    aside = np.stack([-level[:, 1], level[:, 0], 0 * left], axis=1)
    sides = [(away, np.full(len(number), grid.resolution))]
    sides.append((aside, distance * np.cos(up) * np.diff(grid.azimuth)[azimuth]))
    if len(cells) > 1:
        sides.append((np.cross(away, aside), distance * np.diff(grid.elevation)[elevation]))
    kept = np.ones(len(number))
    for axis, length in sides:
        # The return moves against the displacement of the sensor, and against its rotation.
        row = np.concatenate([axis, np.cross(distance[:, None] * away, axis)], axis=1)
        moved = np.sqrt(np.maximum(np.einsum("ni,ij,nj->n", row, errors, row), 0.0))
        kept *= np.maximum(0.0, 1 - np.sqrt(2 / np.pi) * moved / length)
    return float(kept.mean())


def _middle(limits: np.ndarray) -> np.ndarray:
    return np.asarray((limits[:-1] + limits[1:]) / 2)


@compiled
def _fill(
    rng: np.ndarray,
    xyz: np.ndarray,
    poses: np.ndarray,
    origin: np.ndarray,
    limits: np.ndarray,
    azimuth: np.ndarray,
    elevation: np.ndarray,
    out: np.ndarray,
) -> None:
    resolution, min_range, z_low, z_high = limits[0], limits[1], limits[2], limits[3]
    bins = out.shape[2]
    max_square, a = (bins * resolution) ** 2, 0
    for beam in range(rng.shape[0]):
        for column in range(rng.shape[1]):
            if rng[beam, column] == 0 or rng[beam, column] == CLIPPED:
                continue
            pose = poses[column]
            px, py, pz = xyz[beam, column, 0], xyz[beam, column, 1], xyz[beam, column, 2]
            z = pose[6] * px + pose[7] * py + pose[8] * pz + pose[11]
            # A pose that is not known makes z NaN. This form of the comparison leaves NaN out, which is no valid index.
            if not (z >= z_low and z <= z_high):
                continue
            x = pose[0] * px + pose[1] * py + pose[2] * pz + pose[9]
            y = pose[3] * px + pose[4] * py + pose[5] * pz + pose[10]
            square = x * x + y * y
            if not (square > 0.0 and square <= max_square):
                continue
            quotient = 1 - x / (abs(x) + abs(y))
            if y > 0 or (y == 0.0 and x < 0):
                quotient = -quotient
            if quotient < azimuth[0] or quotient >= azimuth[-1]:
                continue
            distance = math.sqrt(square + z * z)
            cell = int(distance / resolution + 0.5)
            if cell >= bins or distance < min_range:
                continue
            dx, dy, dz = px - origin[0], py - origin[1], pz - origin[2]
            if dx * dx + dy * dy + dz * dz < min_range * min_range:
                continue
            if not azimuth[a] <= quotient < azimuth[a + 1]:  # the next column is mostly in the same bin
                a = np.searchsorted(azimuth, quotient, side="right") - 1
            if len(elevation) == 2 and elevation[0] == -1.0 and elevation[1] == 1.0:
                out[0, a, cell] = 1
                continue
            quotient = z / (math.sqrt(square) + abs(z))
            if quotient < elevation[0] or quotient >= elevation[-1]:
                continue
            out[np.searchsorted(elevation, quotient, side="right") - 1, a, cell] = 1
