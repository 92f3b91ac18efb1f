"""Measurements of an IMU on a simulated rig with their ground truth, without the other sensors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from rover_pipeline.kinematics.state import State as Kinematics
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import Clock, build
from rover_pipeline.simulate.sensors import imu


class Ride(NamedTuple):
    """N samples: arrival times, measurements, and the ground truth."""

    ts: np.ndarray
    acc: np.ndarray
    avel: np.ndarray
    truth: Kinematics
    errors: imu.Errors

    def only(self, keep: np.ndarray) -> Ride:
        truth = Kinematics(*(each[keep] for each in self.truth))
        return Ride(self.ts[keep], self.acc[keep], self.avel[keep], truth, self.errors)


def ride(preset: str, duration: float, *, seed: int = 0, clock: Clock | None = None) -> Ride:
    """The IMU of a preset, sampled by its own clock or another one."""
    rig = build(PRESETS[preset], seed)
    clock = clock or rig.clocks["imu"]
    ticks = list(clock.ticks(duration, rig.key("imu")))
    truth = rig.mounted("imu").at(np.array([tick.time for tick in ticks]))
    errors = imu.Errors.of_device(rig.key("imu"))
    reading = imu.measure(imu.ideal_reading(truth), errors, np.random.default_rng((seed, 9)))
    return Ride(np.array([tick.stamp for tick in ticks]), reading.acc, reading.avel, truth, errors)


def tilt_error(quat: np.ndarray, truth: Kinematics) -> np.ndarray:
    """Angle between the true and the estimated direction of up, degrees, (N,)."""
    estimate = Rotation.from_quat(quat).inv().apply([0.0, 0.0, 1.0])
    return np.degrees(np.arccos(np.clip((estimate * truth.rot[:, 2]).sum(axis=1), -1, 1)))


def heading_error(quat: np.ndarray, truth: Kinematics) -> np.ndarray:
    """Error of the change of heading since the first sample, estimated less true, degrees, (N,)."""
    ahead = Rotation.from_quat(quat).apply([1.0, 0.0, 0.0])
    estimate = np.unwrap(np.arctan2(ahead[:, 1], ahead[:, 0]))
    true = np.unwrap(np.arctan2(truth.rot[:, 1, 0], truth.rot[:, 0, 0]))
    return np.degrees((estimate - estimate[0]) - (true - true[0]))


def integrated_velocity(
    times: np.ndarray, acc: np.ndarray, avel: np.ndarray, truth: Kinematics, gravity: float = imu.GRAVITY
) -> np.ndarray:
    """Velocity in the scene by integration of the measurements from the true initial state, (N, 3)."""
    step = np.diff(times)[:, None]
    steps = Rotation.from_rotvec((avel[1:] + avel[:-1]) / 2 * step)
    rotation, matrices = Rotation.from_matrix(truth.rot[0]), []
    for each in steps:
        rotation = rotation * each
        matrices.append(rotation.as_matrix())
    rot = np.concatenate([truth.rot[:1], matrices])
    acc_world = np.einsum("nij,nj->ni", rot, acc) - [0, 0, gravity]
    change = np.cumsum((acc_world[1:] + acc_world[:-1]) / 2 * step, axis=0)
    return truth.vel[0] + np.concatenate([np.zeros((1, 3)), change])
