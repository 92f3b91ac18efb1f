"""Colours of points and pictures."""

from __future__ import annotations

import cv2
import numpy as np

#: Heights in the lidar frame between which colours run, m.
_HEIGHTS = (-1.8, 1.5)
#: Radial velocity at which a colour is full, m/s.
_FASTEST = 2.0


def by_height(z: np.ndarray) -> np.ndarray:
    """Colours of heights in m, (N,), as u1 RGB (N, 3): low is blue, high is red."""
    low, high = _HEIGHTS
    return mapped((z - low) / (high - low), cv2.COLORMAP_TURBO)


def by_velocity(doppler: np.ndarray) -> np.ndarray:
    """Colours of radial velocities in m/s, (N,), as u1 RGB (N, 3): what recedes is red, what comes is blue."""
    share = np.clip(doppler / _FASTEST, -1, 1)[:, None]
    end = np.where(share > 0, [[255, 60, 60]], [[70, 110, 255]])
    return np.rint(255 + (end - 255) * np.abs(share)).astype("u1")


def mapped(share: np.ndarray, colours: int) -> np.ndarray:
    """Values of 0 to 1, of any shape, as u1 RGB with a last axis of three."""
    flat = np.rint(255 * np.clip(np.nan_to_num(share), 0, 1)).astype("u1").reshape(-1, 1)
    found: np.ndarray = cv2.cvtColor(cv2.applyColorMap(flat, colours), cv2.COLOR_BGR2RGB)
    return found.reshape(*share.shape, 3)
