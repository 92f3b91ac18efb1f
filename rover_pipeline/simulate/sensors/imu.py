"""An inertial measurement unit: specific force, angular rate and orientation, with bias and noise. A receiver of
satellite navigation: places on the ellipsoid WGS 84, where x of the scene is east, y north and z up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.constants import g as GRAVITY  # noqa: N812

from rover_pipeline.kinematics.rotation import from_matrix
from rover_pipeline.kinematics.state import State
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.simulate.faults import Unkind


class Reading(NamedTuple):
    """N samples in the sensor's own frame, front-left-up."""

    rot: np.ndarray  #: f8 (N, 3), roll, pitch, yaw as intrinsic XYZ Euler angles of scene-from-sensor, radians.
    acc: np.ndarray  #: f8 (N, 3), m/s²: specific force, which at rest is 9.81 upward.
    avel: np.ndarray  #: f8 (N, 3), rad/s.


@dataclass(frozen=True)
class Errors:
    """Errors of a device in SI units: those of its kind, and its own."""

    unkind: Unkind
    noise: float  #: of white noise, over that of the usual device.
    acc_bias: np.ndarray  #: constant bias, (3,).
    avel_bias: np.ndarray
    acc_scale: np.ndarray  #: what a true value is multiplied by, (3,).
    avel_scale: np.ndarray

    @staticmethod
    def of_device(key: tuple[int, ...], unkind: Unkind = Unkind(), noise: float = 1.0) -> Errors:  # noqa: B008
        """The errors of one device; `key` seeds its own."""
        rng = np.random.default_rng(key)
        usual = rng.normal(0.0, 0.03, 3), rng.normal(0.0, 0.003, 3)
        acc_bias, avel_bias = (values / np.linalg.norm(values, axis=0) for values in rng.standard_normal((2, 3)))
        acc_bias = unkind.acc_bias * acc_bias if unkind.acc_bias else usual[0]
        avel_bias = unkind.gyro_bias * avel_bias if unkind.gyro_bias else usual[1]
        return Errors(unkind, noise, acc_bias, avel_bias, *(1 + unkind.imu_scale * rng.choice([-1.0, 1.0], (2, 3))))

    def description(self) -> dict[str, object]:
        """The errors as plain values, for the truth; None = no limit."""
        values = {name: getattr(self, name).tolist() for name in ("acc_bias", "avel_bias", "acc_scale", "avel_scale")}
        limits = {"acc_limit": self.unkind.acc_limit or None, "avel_limit": self.unkind.gyro_limit or None}
        return {**values, **limits, "in_degrees": self.unkind.imu_degrees, "exchanged": self.unkind.imu_axes}


def ideal_reading(state: State) -> Reading:
    """The reading of a device without errors."""
    force = state.acc + np.array([0.0, 0.0, GRAVITY])
    rot = from_matrix(state.rot).as_euler("XYZ")
    return Reading(rot=rot, acc=np.einsum("nji,nj->ni", state.rot, force), avel=state.avel)


def measure(reading: Reading, errors: Errors, rng: np.random.Generator) -> Reading:
    """A reading with the errors of a real device."""
    unkind, noise = errors.unkind, rng.standard_normal((3, *reading.acc.shape))
    rot = reading.rot + errors.noise * 0.002 * noise[0]
    acc = errors.acc_scale * reading.acc + errors.acc_bias + errors.noise * 0.02 * noise[1]
    avel = errors.avel_scale * reading.avel + errors.avel_bias + errors.noise * 0.002 * noise[2]
    acc = np.clip(acc, -(unkind.acc_limit or np.inf), unkind.acc_limit or np.inf)
    avel = np.clip(avel, -(unkind.gyro_limit or np.inf), unkind.gyro_limit or np.inf)
    measured = Reading(rot, acc, np.degrees(avel) if unkind.imu_degrees else avel)
    return Reading(*(values[:, [1, 0, 2]] for values in measured)) if unkind.imu_axes else measured


#: Standard deviations east, north and up, m, of a receiver with corrections from a base.
#: Noise: u-blox ZED-F9P data sheet (UBX-17051259), RTK, 1 cm CEP, and 1 cm for half of the heights.
GNSS_NOISE = np.array([0.0085, 0.0085, 0.0148])
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
