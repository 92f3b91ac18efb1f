"""Polar occupancy: which cells of azimuth, elevation and range hold a lidar return.

Cells are found without inverse trigonometric functions. An angle is replaced by a quotient that grows with it, and
the bin looked up in a table that is as fine as the bins and corrected against their exact edges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.compiled import compiled

#: A stored range of this is a clipped value, not a return.
CLIPPED = 65535
#: Entries of a look-up table for every bin, at least.
_FINE = 4


class Grid(NamedTuple):
    """The cells.

    Attributes:
        azimuth, elevation: f8 (bin + 1,), edges of the bins, radians, growing to the right and upward.
        resolution: metres a range bin; bin k holds what is nearest to k times it.
        bins: range bins.
        z: least and greatest height of a return above the origin, m.
        min_range: m.
    """

    azimuth: np.ndarray
    elevation: np.ndarray
    resolution: float
    bins: int
    z: tuple[float, float]
    min_range: float = 0.0

    @property
    def shape(self) -> tuple[int, int, int]:
        """(elevation, azimuth, range)"""
        return len(self.elevation) - 1, len(self.azimuth) - 1, self.bins


def edges(limits: tuple[float, float], bins: int) -> np.ndarray:
    """Edges of bins of equal angles between limits in degrees, f8 (bin + 1,), radians."""
    return np.radians(np.linspace(*limits, bins + 1))


class Occupancy:
    """Finds the occupied cells of a grid. Can be shared by threads."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._azimuth = _Lookup.of(_azimuth_quotient(grid.azimuth), 2.0)
        self._elevation = _Lookup.of(_elevation_quotient(grid.elevation), 1.0)
        self._limits = np.array([grid.resolution, grid.min_range, *grid.z])

    def cells(self, rng: np.ndarray, xyz: np.ndarray, rotation: np.ndarray, origin: np.ndarray) -> np.ndarray:
        """Occupied cells of a sweep, u1 (elevation, azimuth, range).

        Args:
            rng: u2 (beam, column), mm; 0 = no return.
            xyz: f4 (beam, column, 3), the returns in the lidar frame, m.
            rotation: f8 (3, 3), grid-from-lidar.
            origin: f8 (3,), of the grid in the lidar frame, m.
        """
        out = np.zeros(self.grid.shape, "u1")
        place = np.concatenate([rotation.ravel(), origin])
        _fill(rng.ravel(), xyz.reshape(-1, 3), place, self._limits, *self._azimuth, *self._elevation, out)
        return out


class _Lookup(NamedTuple):
    """Bins of a quotient: exact edges, and for each of equal steps of the quotient the bin that it begins in."""

    edges: np.ndarray
    table: np.ndarray
    reach: float

    @staticmethod
    def of(edges: np.ndarray, reach: float) -> _Lookup:
        size = int(_FINE * np.ceil(2 * reach / np.diff(edges).min()))
        size = min(max(size, 64), 1 << 16)
        lower = np.linspace(-reach, reach, size + 1)[:-1]
        return _Lookup(edges, np.maximum(np.searchsorted(edges, lower, side="right") - 1, 0).astype("i4"), reach)


def _azimuth_quotient(angle: np.ndarray) -> np.ndarray:
    """Of an azimuth between -pi and pi, to the right, f8 of -2 to 2."""
    x, right = np.cos(angle), np.sin(angle)
    quotient: np.ndarray = np.copysign(1 - x / (np.abs(x) + np.abs(right)), angle)
    return quotient


def _elevation_quotient(angle: np.ndarray) -> np.ndarray:
    """Of an elevation between -pi/2 and pi/2, f8 of -1 to 1."""
    level, up = np.abs(np.cos(angle)), np.sin(angle)
    quotient: np.ndarray = up / (level + np.abs(up))
    return quotient


@compiled
def _fill(
    rng: np.ndarray,
    xyz: np.ndarray,
    place: np.ndarray,
    limits: np.ndarray,
    azimuth: np.ndarray,
    azimuth_table: np.ndarray,
    azimuth_reach: float,
    elevation: np.ndarray,
    elevation_table: np.ndarray,
    elevation_reach: float,
    out: np.ndarray,
) -> None:
    resolution, min_range, z_low, z_high = limits[0], limits[1], limits[2], limits[3]
    r00, r01, r02, r10, r11, r12, r20, r21, r22, ox, oy, oz = place
    bins = out.shape[2]
    farthest = (bins * resolution) ** 2
    azimuth_steps = len(azimuth_table) / (2 * azimuth_reach)
    elevation_steps = len(elevation_table) / (2 * elevation_reach)
    for i in range(len(rng)):
        if rng[i] == 0 or rng[i] == CLIPPED:
            continue
        dx, dy, dz = xyz[i, 0] - ox, xyz[i, 1] - oy, xyz[i, 2] - oz
        z = r20 * dx + r21 * dy + r22 * dz
        # Asked so that NaN, of a pose that is not known, is left out: as an index it would be far outside.
        if not (z >= z_low and z <= z_high):
            continue
        x = r00 * dx + r01 * dy + r02 * dz
        y = r10 * dx + r11 * dy + r12 * dz
        level = x * x + y * y
        if not (level > 0.0 and level <= farthest):
            continue
        quotient = 1 - x / (abs(x) + abs(y))
        if y > 0 or (y == 0.0 and x < 0):
            quotient = -quotient
        if quotient < azimuth[0] or quotient >= azimuth[-1]:
            continue
        distance = np.sqrt(level + z * z)
        cell = int(distance / resolution + 0.5)
        if cell >= bins or distance < min_range:
            continue
        a = azimuth_table[min(int((quotient + azimuth_reach) * azimuth_steps), len(azimuth_table) - 1)]
        while quotient >= azimuth[a + 1]:
            a += 1
        while quotient < azimuth[a]:
            a -= 1
        if len(elevation) == 2 and elevation[0] == -1.0 and elevation[1] == 1.0:
            out[0, a, cell] = 1
            continue
        quotient = z / (np.sqrt(level) + abs(z))
        if quotient < elevation[0] or quotient >= elevation[-1]:
            continue
        e = elevation_table[min(int((quotient + elevation_reach) * elevation_steps), len(elevation_table) - 1)]
        while quotient >= elevation[e + 1]:
            e += 1
        while quotient < elevation[e]:
            e -= 1
        out[e, a, cell] = 1
