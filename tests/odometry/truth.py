"""Trajectories against the truth."""

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
    """The states that a sensor holds, those of some of its samples."""
    found = Sensor(sensor)
    part = slice(None) if keep is None else keep
    return State(*(found.channel(name).read()[part] for name in CHANNELS))


def errors(found: State, truth: State) -> Errors:
    """Errors of a trajectory in the world that suits it best."""
    turn = Rotation.from_matrix(truth.rot @ np.swapaxes(found.rot, 1, 2)).mean().as_matrix()
    apart = found.pos @ turn.T - truth.pos
    angle = Rotation.from_matrix(np.swapaxes(truth.rot, 1, 2) @ turn @ found.rot).as_rotvec()
    return Errors(
        _rms(apart - apart.mean(axis=0)),
        float(np.degrees(_rms(angle))),
        _rms(found.vel @ turn.T - truth.vel),
        _rms(found.avel - truth.avel),
    )


def _rms(vectors: np.ndarray) -> float:
    return float(np.sqrt(np.square(vectors).sum(axis=1).mean()))
