"""An inertial measurement unit: specific force, angular rate and orientation, with bias and noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from rover_pipeline.simulate.motion import Kinematics

GRAVITY = 9.80665


class Reading(NamedTuple):
    """N samples in the sensor's own frame, front-left-up.

    Attributes:
        rot: f8 (N, 3), roll, pitch, yaw as intrinsic XYZ Euler angles of scene-from-sensor, radians.
        acc: f8 (N, 3), m/s²: what an accelerometer feels, so +9.81 upward at rest.
        avel: f8 (N, 3), rad/s.
    """

    rot: np.ndarray
    acc: np.ndarray
    avel: np.ndarray


@dataclass(frozen=True)
class Errors:
    """Errors of a device: constant biases, (3,) each, and white noise per sample (standard deviations)."""

    acc_bias: np.ndarray
    avel_bias: np.ndarray
    acc_noise: float = 0.02
    avel_noise: float = 0.002
    rot_noise: float = 0.002

    @staticmethod
    def of_device(key: tuple[int, ...]) -> Errors:
        """Biases of one device, m/s² and rad/s."""
        rng = np.random.default_rng(key)
        return Errors(rng.normal(0.0, 0.03, 3), rng.normal(0.0, 0.003, 3))


def feel(state: Kinematics) -> Reading:
    """What a perfect device reads."""
    force = state.acc + np.array([0.0, 0.0, GRAVITY])
    return Reading(
        rot=Rotation.from_matrix(state.rot).as_euler("XYZ"),
        acc=np.einsum("nji,nj->ni", state.rot, force),
        avel=state.avel,
    )


def measure(reading: Reading, errors: Errors, rng: np.random.Generator) -> Reading:
    """A reading with the errors of a real device."""
    noise = rng.standard_normal((3, *reading.acc.shape))
    return Reading(
        rot=reading.rot + errors.rot_noise * noise[0],
        acc=reading.acc + errors.acc_bias + errors.acc_noise * noise[1],
        avel=reading.avel + errors.avel_bias + errors.avel_noise * noise[2],
    )
