"""An inertial measurement unit: specific force, angular rate and orientation, with bias and noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from rover_pipeline.kinematics.state import State

GRAVITY = 9.80665


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
    """Errors of a device: constant biases, (3,) each, and standard deviations of white noise per sample; SI units."""

    acc_bias: np.ndarray
    avel_bias: np.ndarray
    acc_noise: float = 0.02
    avel_noise: float = 0.002
    rot_noise: float = 0.002

    @staticmethod
    def of_device(key: tuple[int, ...]) -> Errors:
        """The errors of one device; `key` seeds its biases."""
        rng = np.random.default_rng(key)
        return Errors(rng.normal(0.0, 0.03, 3), rng.normal(0.0, 0.003, 3))


def ideal_reading(state: State) -> Reading:
    """The reading of a device without errors."""
    force = state.acc + np.array([0.0, 0.0, GRAVITY])
    rot = Rotation.from_matrix(state.rot).as_euler("XYZ")
    return Reading(rot=rot, acc=np.einsum("nji,nj->ni", state.rot, force), avel=state.avel)


def measure(reading: Reading, errors: Errors, rng: np.random.Generator) -> Reading:
    """A reading with the errors of a real device."""
    noise = rng.standard_normal((3, *reading.acc.shape))
    return Reading(
        rot=reading.rot + errors.rot_noise * noise[0],
        acc=reading.acc + errors.acc_bias + errors.acc_noise * noise[1],
        avel=reading.avel + errors.avel_bias + errors.avel_noise * noise[2],
    )
