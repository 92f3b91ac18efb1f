"""Points of the radar from above, for the strip of the page."""

from __future__ import annotations

import cv2
import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.format.sensor import Sensor

#: Colours of the ground, of the rings, and of points that stand still, recede and come.
_GROUND, _RING, _LABEL = (24, 28, 34), (58, 66, 76), (150, 158, 168)
_STILL, _RECEDES, _COMES = np.array([235, 235, 235]), np.array([255, 80, 70]), np.array([90, 140, 255])
#: Radial speed from which on the colour does not change any more, m/s.
_FULL_COLOUR_MPS = 1.0
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
    step = next((each for each in (1, 2, 5, 10, 20, 50) if reach / each <= 5), 100)
    for metres in range(step, int(reach) + 1, step):
        cv2.circle(picture, (size // 2, height), round(metres * scale), _RING, _FINER, cv2.LINE_AA)
        place = (size // 2 + 4 * _FINER, height - round(metres * scale) + 14 * _FINER)
        cv2.putText(picture, f"{metres} m", place, cv2.FONT_HERSHEY_SIMPLEX, 0.4 * _FINER, _LABEL, _FINER, cv2.LINE_AA)
    share = np.clip(np.nan_to_num(points[:, 3:4]) / _FULL_COLOUR_MPS, -1, 1)
    colours = _STILL + (np.where(share > 0, _RECEDES, _COMES) - _STILL) * np.abs(share)
    radius = max(3, size // 75)
    for (x, y, *_), colour in zip(points, colours.tolist(), strict=True):
        if np.isfinite(x) and np.isfinite(y) and abs(x) + abs(y) < 4 * reach:
            centre = (round(size / 2 - float(y) * scale), round(height - float(x) * scale))
            cv2.circle(picture, centre, radius, colour, -1, cv2.LINE_AA)
    small = cv2.resize(picture, (width, height // _FINER), interpolation=cv2.INTER_AREA)
    return np.dstack([small, np.full(small.shape[:2], 255, "u1")])
