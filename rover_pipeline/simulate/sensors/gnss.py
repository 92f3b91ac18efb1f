"""A receiver of satellite navigation: places on the ellipsoid WGS 84. In the scene x is east, y north and z up."""

from __future__ import annotations

import numpy as np

from rover_pipeline.numerics.linear import matmul

#: Standard deviations east, north and up, m, of a receiver with corrections from a base.
#: Noise: u-blox ZED-F9P data sheet (UBX-17051259), RTK, 1 cm CEP, and 1 cm for half of the heights.
NOISE = np.array([0.0085, 0.0085, 0.0148])
#: Latitude and longitude, degrees, and height, m, of the origin of the scene. Layout.
ORIGIN = (47.3769, 8.5417, 455.0)
#: Equatorial radius, m, and flattening. Physics: WGS 84.
_RADIUS, _FLAT = 6378137.0, 1 / 298.257223563
#: Times that a latitude is improved, each by a factor of 150, from 1e-6 to less than rounding. Layout.
_STEPS = 5


def geodetic(pos: np.ndarray) -> np.ndarray:
    """Latitude, longitude (degrees) and height (m) of points of the scene, (N, 3) each."""
    lat, lon = np.radians(ORIGIN[:2])
    north = np.array([-np.sin(lat) * np.cos(lon), -np.sin(lat) * np.sin(lon), np.cos(lat)])
    up = np.array([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    east = np.array([-np.sin(lon), np.cos(lon), 0.0])
    squared = _FLAT * (2 - _FLAT)  # eccentricity
    normal = _RADIUS / np.sqrt(1 - squared * np.sin(lat) ** 2)
    origin = up * (normal * np.array([1, 1, 1 - squared]) + ORIGIN[2])
    x, y, z = (origin + matmul(pos, np.stack([east, north, up]))).T
    axis = np.hypot(x, y)
    lats = np.arctan2(z, axis * (1 - squared))
    for _ in range(_STEPS):
        normals = _RADIUS / np.sqrt(1 - squared * np.sin(lats) ** 2)
        lats = np.arctan2(z + squared * normals * np.sin(lats), axis)
    normals = _RADIUS / np.sqrt(1 - squared * np.sin(lats) ** 2)
    height = axis * np.cos(lats) + z * np.sin(lats) - normals * (1 - squared * np.sin(lats) ** 2)
    return np.column_stack([np.degrees(lats), np.degrees(np.arctan2(y, x)), height])
