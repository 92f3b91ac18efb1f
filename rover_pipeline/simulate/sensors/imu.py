"""An inertial measurement unit: specific force, angular rate and orientation, with bias and noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.constants import g as GRAVITY  # noqa: N812

from rover_pipeline.kinematics.rotation import from_matrix
from rover_pipeline.kinematics.state import State
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
