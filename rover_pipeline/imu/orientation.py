"""Orientation from angular rate and the direction of gravity, and both without bias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import vqf
from scipy.spatial.transform import Rotation

from rover_pipeline.imu.bias import acc_bias, gyro_bias, rests
from rover_pipeline.imu.options import ImuSection


class Filtered(NamedTuple):
    """N samples without bias.

    Attributes:
        acc: f8 (N, 3), m/s2, gravity included.
        avel: f8 (N, 3), rad/s.
        quat: f8 (N, 4), world-from-imu as x y z w. z of the world is up; its x is ahead of the first sample.
        rests: (start, stop) of times at rest, s.
        gaps: lengths of what is missing between parts, s.
        gyro_bias: f8 (3,), rad/s, mean over the recording.
        acc_bias: f8 (3,), m/s2.
    """

    acc: np.ndarray
    avel: np.ndarray
    quat: np.ndarray
    rests: list[tuple[float, float]]
    gaps: list[float]
    gyro_bias: np.ndarray
    acc_bias: np.ndarray


@dataclass
class _Part:
    """Equally spaced samples from `start` on, f8 (M, 3) each, and those of them at rest."""

    start: float
    acc: np.ndarray
    avel: np.ndarray
    still: list[slice]


def orient(times: np.ndarray, acc: np.ndarray, avel: np.ndarray, period: float, options: ImuSection) -> Filtered:
    """Biases and orientation of a recording, from all of it: the filter looks ahead too.

    The filter is VQF, offline and without a magnetometer (D. Laidig and T. Seel, VQF: Highly accurate IMU orientation
    estimation with bias estimation and magnetic disturbance rejection, Information Fusion 91, 2023). It wants equally
    spaced samples: values are interpolated linearly, and orientations back. Where nothing was at rest it learns the
    gyro's bias from the motion, and that of the accelerometer stays 0.

    Args:
        times: f8 (N,), s, increasing, without the jitter of arrival.
        acc, avel: f8 (N, 3), m/s2 and rad/s. Samples that are not finite are interpolated across.
        period: of the equally spaced samples, s.

    Raises:
        ValueError: no sample is finite.
    """
    good = np.isfinite(acc).all(axis=1) & np.isfinite(avel).all(axis=1)
    if not good.any():
        raise ValueError("no sample of acc and avel is finite and valid; leave imu_filtered out of `outputs`")
    steps = np.diff(times[good])
    cuts = np.flatnonzero(steps > options.max_gap) + 1
    pieces = np.split(np.flatnonzero(good), cuts)
    parts = [_part(times[piece], acc[piece], avel[piece], period, options) for piece in pieces]

    at_rest = [(part, rest) for part in parts for rest in part.still]
    pull = acc_bias([part.acc[rest] for part, rest in at_rest], options)
    spans = [(part.start + rest.start * period, part.start + (rest.stop - 1) * period) for part, rest in at_rest]
    drift_at = gyro_bias([part.avel[rest] for part, rest in at_rest], spans, period)
    quat, drift = np.empty((len(times), 4)), np.empty_like(avel)
    borders = [0, *(piece[0] for piece in pieces[1:]), len(times)]
    last: np.ndarray | None = None
    for part, first, stop in zip(parts, borders, borders[1:], strict=False):
        grid = part.start + np.arange(len(part.acc)) * period
        if drift_at:
            bias = drift_at(grid)
            settings = {"tauAcc": options.settle, "motionBiasEstEnabled": False, "restBiasEstEnabled": False}
            found = _vqf(part.avel - bias, part.acc - pull, period, settings)
        else:
            found = _vqf(part.avel, part.acc, period, {"tauAcc": options.settle / 2})
            bias = found["bias"]
        turned = _headed(found["quat6D"][:, [1, 2, 3, 0]], last)
        quat[first:stop] = _between(turned, (times[first:stop] - part.start) / period)
        drift[first:stop] = _at(times[first:stop], grid, bias)
        last = turned[-1]
    return Filtered(acc - pull, avel - drift, quat, spans, steps[cuts - 1].tolist(), drift.mean(axis=0), pull)


def _part(times: np.ndarray, acc: np.ndarray, avel: np.ndarray, period: float, options: ImuSection) -> _Part:
    grid = times[0] + np.arange(int(np.ceil((times[-1] - times[0]) / period - 1e-6)) + 1) * period
    even_acc, even_avel = _at(grid, times, acc), _at(grid, times, avel)
    return _Part(times[0], even_acc, even_avel, rests(even_acc, even_avel, period, options))


def _vqf(avel: np.ndarray, acc: np.ndarray, period: float, settings: Mapping[str, object]) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = vqf.offlineVQF(
        np.ascontiguousarray(avel), np.ascontiguousarray(acc), None, period, dict(settings)
    )
    return found


def _at(places: np.ndarray, known: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values, (N, axis), interpolated at other places."""
    return np.stack([np.interp(places, known, axis) for axis in values.T], axis=1)


def _headed(quat: np.ndarray, last: np.ndarray | None) -> np.ndarray:
    """The same orientations in a world where the first one has the heading of the `last` one before, or none.

    Signs do not jump.
    """
    turns = Rotation.from_quat(quat)
    ahead = np.zeros(1) if last is None else _heading(last)
    found: np.ndarray = (Rotation.from_euler("z", ahead - _heading(quat[0])) * turns).as_quat()
    flips = np.cumprod(np.where((found[1:] * found[:-1]).sum(axis=1) < 0, -1.0, 1.0))
    found[1:] *= flips[:, None]
    return found


def _heading(quat: np.ndarray) -> np.ndarray:
    """Angle about the vertical of what is ahead of the sensor, rad, (1,)."""
    ahead = Rotation.from_quat(quat).apply([1.0, 0.0, 0.0])
    return np.arctan2(ahead[1:2], ahead[:1])


def _between(quat: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Orientations between equally spaced ones, which are so near that the straight way is the round one.

    Before the first and after the last one they stay.
    """
    at = np.clip(at, 0, len(quat) - 1)
    first = np.minimum(at.astype(int), max(0, len(quat) - 2))
    share = (at - first)[:, None]
    mixed = (1 - share) * quat[first] + share * quat[np.minimum(first + 1, len(quat) - 1)]
    return mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
