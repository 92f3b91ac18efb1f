"""Points of the radar from above, for the strip of the page."""

from __future__ import annotations

import cv2
import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.report.draw.images import draw_rings, velocity_colours

_GROUND = (24, 28, 34)
#: Pixels that are drawn for one of the picture, so that edges are smooth.
_FINER = 2


class RadarPoints:
    """Position and radial speed of the points of `_radar_points`, read like one channel: f4 (frame, point, 4)."""

    def __init__(self, sensor: Sensor) -> None:
        self._xyz = sensor.channel("xyz")
        self._doppler = sensor.channel("doppler") if "doppler" in sensor.specs else None
        shape = self._xyz.spec.shape
        if len(shape) != 2 or shape[1] != 3 or (self._doppler and self._doppler.spec.shape != shape[:1]):
            raise FormatError(f"{sensor.path}: has points of {list(shape)}, which are no points of a radar")

    def __len__(self) -> int:
        return len(self._xyz) if self._doppler is None else min(len(self._xyz), len(self._doppler))

    def read(self, start: int, stop: int) -> np.ndarray:
        """Points of some frames, (frame, point, 4): x, y, z, m, and the speed at which they recede, m/s."""
        xyz = self._xyz.read(start, stop)
        speed = np.zeros(xyz.shape[:2], "f4") if self._doppler is None else self._doppler.read(start, stop)
        return np.concatenate([xyz, speed[..., None]], axis=-1)


def draw_points(points: np.ndarray, reach: float, width: int) -> np.ndarray:
    """Points before the radar, which is in the middle of the lower edge, as RGBA, u1 (row, column, 4).

    Args:
        points: (point, 4), as `RadarPoints.read` gives them; NaN where there is none.
        reach: metres from the lower edge to the upper one.
        width: of the picture, twice its height, pixels.
    """
    size = _FINER * width
    height = size // 2
    scale = height / reach
    picture = np.full((height, size, 3), _GROUND, "u1")
    draw_rings(picture, (size // 2, height), scale, reach, _FINER)
    radius = max(3, size // 75)
    for (x, y, *_), colour in zip(points, velocity_colours(points[:, 3]).tolist(), strict=True):
        if np.isfinite(x) and np.isfinite(y) and abs(x) + abs(y) < 4 * reach:
            centre = (round(size / 2 - float(y) * scale), round(height - float(x) * scale))
            cv2.circle(picture, centre, radius, colour, -1, cv2.LINE_AA)
    small = cv2.resize(picture, (width, height // _FINER), interpolation=cv2.INTER_AREA)
    return np.dstack([small, np.full(small.shape[:2], 255, "u1")])
