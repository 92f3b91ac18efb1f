"""Values as colours: of distances, power, heights and speeds, with the same scales in all pictures."""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import Colormap, LinearSegmentedColormap

from rover_pipeline.draw.theme import APPROACHING, COLOUR_MAPS, RECEDING, STILL
from rover_pipeline.lidar.ranges import CLIPPED

#: Scales of the pictures: maximum span of the colours of power below the strongest cell, dB, where the noise is lower
#: still; heights in the frame of the lidar with the first and the last colour, m; and radial speed with the last one,
#: m/s. Layout.
_SPAN_DB, HEIGHTS, _FULL_SPEED = 70.0, (-1.8, 1.5), 1.0
#: Of an odd number of colours, so that one of them is `STILL`. Layout.
_VELOCITY = LinearSegmentedColormap.from_list("velocity", np.array([APPROACHING, STILL, RECEDING]) / 255, 257)


def colour_map(quantity: str) -> Colormap:
    """The colours of `velocity`, or of a quantity of `COLOUR_MAPS`."""
    return _VELOCITY if quantity == "velocity" else colormaps[COLOUR_MAPS[quantity]]


def colourise(values: np.ndarray, low: float, high: float, quantity: str) -> np.ndarray:
    """Values, (...), in colours of a quantity of `colour_map`, u1 (..., 3), from `low` to `high`. NaN is black."""
    fraction = np.clip((values - low) / max(high - low, 1e-9), 0, 1)
    colours = colour_map(quantity)(np.nan_to_num(fraction), bytes=True)[..., :3].copy()
    colours[~np.isfinite(values)] = 0
    return colours


def metres(ranges: np.ndarray) -> np.ndarray:
    """Ranges in mm as they are stored, u2 or u4, as f4, m; NaN where there was no return."""
    return np.where((ranges == 0) | (ranges == CLIPPED), np.float32(np.nan), ranges.astype("f4") / 1000)


def distance_limits(distances: np.ndarray) -> tuple[float, float]:
    """Distances with the first and the last colour, m. NaN does not count."""
    seen = distances[np.isfinite(distances)]
    near, far = np.percentile(seen, (2, 98)) if len(seen) else (0.5, 50.0)
    if far < 1.2 * near:  # one wall all around: what stands before it is to be seen all the same
        near, far = seen.min(), max(seen.max(), 1.01 * seen.min())
    return near, far


def colour_distances(distances: np.ndarray, near: float, far: float) -> np.ndarray:
    """Distances, f4 (row, column), m, in colours by their logarithm, u1 (row, column, 3): near is red, NaN is black."""
    return colourise(np.log(np.maximum(distances, 1e-3)), np.log(near), np.log(far), "distance")


def decibel_limits(power: np.ndarray) -> tuple[float, float]:
    """Values with the first and the last colour of several frames, dB: at the noise, or `_SPAN_DB` below the last."""
    finite = power[np.isfinite(power)]
    if not len(finite):
        return -_SPAN_DB, 0.0
    high = float(finite.max())
    return max(high - _SPAN_DB, float(np.median(finite))), high


def height_colours(z: np.ndarray) -> np.ndarray:
    """Colours of heights in the frame of the lidar, m, (N,), as u1 RGB (N, 3): low is blue, high is red."""
    return colourise(z, *HEIGHTS, "height")


def velocity_colours(doppler: np.ndarray) -> np.ndarray:
    """Colours of radial velocities, m/s, (N,), as u1 RGB (N, 3): receding is red, approaching is blue."""
    return colourise(np.nan_to_num(doppler), -_FULL_SPEED, _FULL_SPEED, "velocity")
