"""Images made of points: the nearest range by direction, where a lidar of points is looked at as an image is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from rover_pipeline.lidar.ranges import CLIPPED

#: Directions that differ by less than this, rad, are one, as those of two returns of a beam. Tuned: by hand.
_SAME_RAD = np.radians(0.02)
#: Columns of an image, a multiple of the columns of an Ouster's packet, and rows: minimum and maximum. Layout.
_PACKET, _MIN_COLUMNS, _MAX_COLUMNS = 16, 256, 2048
_MAX_ROWS = 256
#: Share of points that may lie above, and below, the rows. Tuned: by hand.
_OUTSIDE = 0.002
#: Sectors of azimuth in which directions are counted, and the share of sectors that see no more of them than a whole
#: one does: in others beams go to the sky. Tuned: by hand.
_SECTORS, _WHOLE = 36, 0.9
#: Number of directions whose nearest neighbours are looked for, which is enough for their median. Schedule.
_QUERIES = 4000


class Panorama(NamedTuple):
    """The pixels of images around a lidar."""

    elevation: np.ndarray  #: f8 (row,), rad, falling.
    columns: int  #: number of columns. They go to the right, and the middle one is ahead.

    @staticmethod
    def of(sweeps: Sequence[np.ndarray]) -> Panorama | None:
        """Pixels that hold about one point each, estimated from some sweeps; None where these have no points.

        The width of columns is the angle between neighbouring directions, which is that between the shots of a beam.
        The number of rows is how many directions fall into a column where nothing is missing.

        Args:
            sweeps: f4 (point, 3), m, lidar frame; rows with NaN do not count.
        """
        steps, filled, elevations = [], [], []
        for xyz in sweeps:
            azimuth, elevation, _ = _directions(xyz)
            if len(azimuth) < 2:
                continue
            cells = np.unique(np.round(np.stack([azimuth, elevation]) / _SAME_RAD).astype("i8"), axis=1)
            azimuth, elevation = cells * _SAME_RAD
            flat = np.cos(elevation)
            unit = np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(elevation)], axis=1)
            chosen = slice(None, None, max(1, len(unit) // _QUERIES))
            if len(unit) > 1:
                # A step of azimuth is a smaller angle where beams look up or down.
                nearest = cKDTree(unit).query(unit[chosen], k=2)[0][:, 1]
                steps.append(float(np.median(nearest / np.maximum(flat[chosen], 0.1))))
            sector = np.floor((azimuth / (2 * np.pi) + 0.5) * _SECTORS).astype(int) % _SECTORS
            counts = np.bincount(sector)
            filled.append(float(np.quantile(counts[counts > 0], _WHOLE)))
            elevations.append(elevation)
        if not steps:
            return None
        columns = round(2 * np.pi / max(float(np.median(steps)), _SAME_RAD) / _PACKET) * _PACKET
        columns = min(max(columns, _MIN_COLUMNS), _MAX_COLUMNS)
        rows = min(max(round(float(np.median(filled)) * _SECTORS / columns), 1), _MAX_ROWS)
        low, high = np.quantile(np.concatenate(elevations), [_OUTSIDE, 1 - _OUTSIDE])
        return Panorama(np.linspace(high, low, rows) if rows > 1 else np.array([(high + low) / 2]), columns)

    @property
    def tilt(self) -> float:
        """Angle between neighbouring rows, rad."""
        return float(np.ptp(self.elevation) / max(1, len(self.elevation) - 1))

    def image(self, xyz: np.ndarray) -> np.ndarray:
        """The nearest range in each direction, u2 (row, column), mm; 0 = no point, 65534 = 65.5 m and more.

        Args:
            xyz: f4 or f8 (point, 3), m; NaN = no point.
        """
        azimuth, elevation, distance = _directions(xyz)
        between = (self.elevation[:-1] + self.elevation[1:]) / 2
        row = np.searchsorted(-between, -elevation)
        reach = max(self.tilt, 2 * np.pi / self.columns) / 2
        inside = (elevation <= self.elevation[0] + reach) & (elevation >= self.elevation[-1] - reach)
        column = np.floor((np.pi - azimuth) * (self.columns / (2 * np.pi)) + 0.5).astype(int) % self.columns
        mm = np.clip(np.round(1000 * distance), 1, CLIPPED - 1).astype("u2")
        order = np.flatnonzero(inside)
        order = order[np.argsort(mm[order], kind="stable")[::-1]]  # the nearest one is written last
        image = np.zeros((len(self.elevation), self.columns), "u2")
        image[row[order], column[order]] = mm[order]
        return image

    def metadata(self) -> str:
        """The `lidar.json` of an Ouster sensor whose beams look through these pixels (see `simulate/sensors/lidar`).

        Its columns are not staggered. What it says of times is not true.
        """
        rows, unity = len(self.elevation), np.eye(4)
        turned = np.diag([-1.0, -1.0, 1.0, 1.0])
        return json.dumps(
            {
                "beam_intrinsics": {
                    "beam_altitude_angles": np.degrees(self.elevation).tolist(),
                    "beam_azimuth_angles": [0.0] * rows,
                    "beam_to_lidar_transform": unity.ravel().tolist(),
                    "lidar_origin_to_beam_origin_mm": 0.0,
                },
                "calibration_status": {},
                "config_params": {"lidar_mode": "1024x10"},
                "imu_intrinsics": {"imu_to_sensor_transform": unity.ravel().tolist()},
                "lidar_data_format": {
                    "column_window": [0, self.columns - 1],
                    "columns_per_frame": self.columns,
                    "columns_per_packet": _PACKET,
                    "pixel_shift_by_row": [0] * rows,
                    "pixels_per_column": rows,
                    "udp_profile_imu": "LEGACY",
                    "udp_profile_lidar": "RNG19_RFL8_SIG16_NIR16",
                },
                "lidar_intrinsics": {"lidar_to_sensor_transform": turned.ravel().tolist()},
                "sensor_info": {"prod_line": "points", "prod_sn": "1", "build_rev": "v2.5.2"},
            }
        )


def _directions(xyz: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Azimuth to the left and elevation, rad, and distance, m, of the points that are there."""
    points = xyz[np.isfinite(xyz).all(axis=1)].astype("f8")
    distance = np.linalg.norm(points, axis=1)
    points, distance = points[distance > 0], distance[distance > 0]
    return np.arctan2(points[:, 1], points[:, 0]), np.arcsin(points[:, 2] / distance), distance
