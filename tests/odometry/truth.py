"""Errors of trajectories."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from rover_pipeline.format.sensor import Sensor
from rover_pipeline.kinematics.state import State

CHANNELS = ("pos", "rot", "vel", "acc", "avel")


class Errors(NamedTuple):
    """Root mean squares, in metres, degrees, m/s and rad/s."""

    pos: float
    rot: float
    vel: float
    avel: float


def state_of(sensor: Path, keep: np.ndarray | None = None) -> State:
    """The states of all samples of a sensor, or of some of them."""
    part = slice(None) if keep is None else keep
    return State(*(Sensor(sensor).channel(name).read()[part] for name in CHANNELS))


def errors(estimate: State, truth: State) -> Errors:
    """Errors of a trajectory after its world is aligned with that of the truth."""
    rotation = Rotation.from_matrix(truth.rot @ np.swapaxes(estimate.rot, 1, 2)).mean().as_matrix()
    distances = estimate.pos @ rotation.T - truth.pos
    angles = Rotation.from_matrix(np.swapaxes(truth.rot, 1, 2) @ rotation @ estimate.rot).as_rotvec()
    return Errors(
        _rms(distances - distances.mean(axis=0)),
        float(np.degrees(_rms(angles))),
        _rms(estimate.vel @ rotation.T - truth.vel),
        _rms(estimate.avel - truth.avel),
    )


def _rms(vectors: np.ndarray) -> float:
    return float(np.sqrt(np.square(vectors).sum(axis=1).mean()))
