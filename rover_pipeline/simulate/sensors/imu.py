"""An inertial measurement unit: specific force, angular rate and orientation, with bias and noise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy.constants import g

from rover_pipeline.kinematics.rotation import from_matrix
from rover_pipeline.kinematics.state import State
from rover_pipeline.simulate.unkind import Unkind

#: Standard gravity, m/s2.
GRAVITY = g


class Reading(NamedTuple):
    """N samples in the sensor's own frame, front-left-up.

    Attributes:
        rot: f8 (N, 3), roll, pitch, yaw as intrinsic XYZ Euler angles of scene-from-sensor, radians.
        acc: f8 (N, 3), m/s²: specific force, which at rest is 9.81 upward.
        avel: f8 (N, 3), rad/s.
    """

    rot: np.ndarray
    acc: np.ndarray
    avel: np.ndarray


@dataclass(frozen=True)
class Errors:
    """Errors of a device in SI units.

    Attributes:
        acc_bias, avel_bias: constant biases, (3,) each.
        acc_noise, avel_noise, rot_noise: standard deviations of white noise per sample.
        acc_scale, avel_scale: what a true value is multiplied by, (3,) each.
        acc_limit, avel_limit: the largest values that it gives.
        in_degrees: whether it gives angular velocity in degrees per second.
        exchanged: whether its x and y axes are exchanged.
    """

    acc_bias: np.ndarray
    avel_bias: np.ndarray
    acc_noise: float = 0.02
    avel_noise: float = 0.002
    rot_noise: float = 0.002
    acc_scale: np.ndarray = field(default_factory=lambda: np.ones(3))
    avel_scale: np.ndarray = field(default_factory=lambda: np.ones(3))
    acc_limit: float = np.inf
    avel_limit: float = np.inf
    in_degrees: bool = False
    exchanged: bool = False

    @staticmethod
    def of_device(key: tuple[int, ...], unkind: Unkind = Unkind()) -> Errors:  # noqa: B008  # A constant.
        """The errors of one device; `key` seeds them."""
        rng = np.random.default_rng(key)
        usual = rng.normal(0.0, 0.03, 3), rng.normal(0.0, 0.003, 3)
        acc_bias, avel_bias = (values / np.linalg.norm(values, axis=0) for values in rng.standard_normal((2, 3)))
        acc_scale, avel_scale = 1 + unkind.imu_scale * rng.choice([-1.0, 1.0], (2, 3))
        return Errors(
            acc_bias=unkind.acc_bias * acc_bias if unkind.acc_bias else usual[0],
            avel_bias=unkind.gyro_bias * avel_bias if unkind.gyro_bias else usual[1],
            acc_scale=acc_scale,
            avel_scale=avel_scale,
            acc_limit=unkind.acc_limit or np.inf,
            avel_limit=unkind.gyro_limit or np.inf,
            in_degrees=unkind.imu_degrees,
            exchanged=unkind.imu_axes,
        )

    def louder(self, times: float) -> Errors:
        """The same errors with white noise of so many times the deviation."""
        names = ("acc_noise", "avel_noise", "rot_noise")
        return replace(self, **{name: times * getattr(self, name) for name in names})

    def description(self) -> dict[str, object]:
        """The errors as plain values, for the truth; None = no limit."""
        values = {name: getattr(self, name).tolist() for name in ("acc_bias", "avel_bias", "acc_scale", "avel_scale")}
        limits = {"acc_limit": self.acc_limit, "avel_limit": self.avel_limit}
        finite = {name: float(value) if np.isfinite(value) else None for name, value in limits.items()}
        return {**values, **finite, "in_degrees": self.in_degrees, "exchanged": self.exchanged}


def ideal_reading(state: State) -> Reading:
    """The reading of a device without errors."""
    force = state.acc + np.array([0.0, 0.0, GRAVITY])
    rot = from_matrix(state.rot).as_euler("XYZ")
    return Reading(rot=rot, acc=np.einsum("nji,nj->ni", state.rot, force), avel=state.avel)


def measure(reading: Reading, errors: Errors, rng: np.random.Generator) -> Reading:
    """A reading with the errors of a real device."""
    noise = rng.standard_normal((3, *reading.acc.shape))
    acc = errors.acc_scale * reading.acc + errors.acc_bias + errors.acc_noise * noise[1]
    avel = errors.avel_scale * reading.avel + errors.avel_bias + errors.avel_noise * noise[2]
    measured = Reading(
        rot=reading.rot + errors.rot_noise * noise[0],
        acc=np.clip(acc, -errors.acc_limit, errors.acc_limit),
        avel=np.clip(avel, -errors.avel_limit, errors.avel_limit),
    )
    if errors.in_degrees:
        measured = measured._replace(avel=np.degrees(measured.avel))
    return Reading(*(values[:, [1, 0, 2]] for values in measured)) if errors.exchanged else measured
