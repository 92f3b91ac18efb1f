"""Colours of points and pictures."""

from __future__ import annotations

import cv2
import numpy as np

#: Heights in the lidar frame at the two ends of the colour scale, m.
_HEIGHTS = (-1.8, 1.5)
#: Radial speed from which on the colour does not change any more, m/s.
_MAX_SPEED = 2.0


def height_colours(z: np.ndarray) -> np.ndarray:
    """Colours of heights in m, (N,), as u1 RGB (N, 3): low is blue, high is red."""
    low, high = _HEIGHTS
    return apply_colormap((z - low) / (high - low), cv2.COLORMAP_TURBO)


def velocity_colours(doppler: np.ndarray) -> np.ndarray:
    """Colours of radial velocities in m/s, (N,), as u1 RGB (N, 3): receding is red, approaching is blue."""
    fraction = np.clip(doppler / _MAX_SPEED, -1, 1)[:, None]
    full = np.where(fraction > 0, [[255, 60, 60]], [[70, 110, 255]])
    return np.rint(255 + (full - 255) * np.abs(fraction)).astype("u1")


def apply_colormap(fraction: np.ndarray, colormap: int) -> np.ndarray:
    """Values of 0 to 1, of any shape, as u1 RGB (*shape, 3) of one of OpenCV's colormaps."""
    levels = np.rint(255 * np.clip(np.nan_to_num(fraction), 0, 1)).astype("u1").reshape(-1, 1)
    return cv2.cvtColor(cv2.applyColorMap(levels, colormap), cv2.COLOR_BGR2RGB).reshape(*fraction.shape, 3)
