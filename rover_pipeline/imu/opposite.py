"""Whether a gyroscope turns the other way than the lidar, as it does beside a lidar that sees a mirrored world.

An angular velocity is no arrow: in a mirror, its component along the normal of the mirror stays and the other two
change their signs. That is half a turn about the normal. So a gyroscope of known mount tells a lidar whose columns or
beams are stored in reverse, and needs no calibration for it; but it cannot tell it from a mount that is wrong by half a
turn.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from rover_pipeline.imu.blocks import Means, find_damage
from rover_pipeline.numerics.linear import matmul

#: Duration of the blocks, s, fewest of them, and units in rad/s.
_BLOCK, _FEWEST, _UNITS = 0.1, 10, (1.0, np.pi / 180)
#: Time offsets that are tried, s, and largest one of a clock that is about right. A rig that is turned to and fro turns
#: the other way half a period later: a clock that is wrong is more likely than a mirror.
_OFFSETS, _LATE = 0.04 * np.arange(-50, 51), 0.56
#: Signs of the three components; of those with an even number of minus signs, a rotation makes the same.
_SIGNS = np.array(list(itertools.product((1.0, -1.0), repeat=3)))
#: Share of the blocks, those with the smallest residuals, that signs are judged by.
_TRIM = 0.85
#: How much better signs must fit, in variances of a block, of which correlated residuals count several; and the least
#: share of the lidar's variance that they explain.
_BETTER, _EXPLAINED = 100.0, 0.5


class Rates(NamedTuple):
    """Angular velocities.

    Attributes:
        times: f8 (N,), s, rising; values: f8 (N, 3), NaN where they are not known.
    """

    times: np.ndarray
    values: np.ndarray


def half_turn(gyro: Rates, lidar: Rates, mount: np.ndarray) -> np.ndarray | None:
    """The half turn, f8 (3, 3), by which the gyroscope's rotation differs from its mount; None if nothing tells of one.

    Args:
        gyro: IMU frame, rad/s or degrees per second, by a clock that differs by half a second at most.
        lidar: its own frame, rad/s. mount: f8 (3, 3), lidar-from-imu.
    """
    good = np.isfinite(gyro.values).all(axis=1)
    times, values = gyro.times[good], gyro.values[good]
    if min(len(times), len(lidar.times)) < 3:
        return None
    damage = find_damage(times, values)
    own = Means(times, matmul(values, mount.T), ~(damage.saturated | damage.frozen)).smoothed(_BLOCK).smoothed(_BLOCK)
    seen = Means(lidar.times, np.nan_to_num(lidar.values), np.isfinite(lidar.values).all(axis=1))
    begin = np.arange(lidar.times[0], lidar.times[-1] - _BLOCK, _BLOCK)
    reference, known = seen.smoothed(_BLOCK).smoothed(_BLOCK).over(begin, _BLOCK)
    blocks = [(reference, known, *own.over(begin - offset, _BLOCK)) for offset in _OFFSETS]
    counts = [int((known & measured).sum()) for _, known, _, measured in blocks]
    # Few blocks agree with anything.
    kept = np.array(counts) >= max(_FEWEST, 0.5 * max(counts))
    if not (kept & (np.abs(_OFFSETS) <= _LATE)).any():
        return None
    used = [block for block, chosen in zip(blocks, kept, strict=True) if chosen]
    costs = np.array([[_cost(unit, *block) for block in used] for unit in _UNITS])  # unit, offset, sign, axis
    spread = np.median([_squares(reference[known], np.zeros((1, 3))) for reference, known, _, _ in used], axis=0).sum()
    each = costs[:, :, (_SIGNS < 0).astype(int), np.arange(3)].sum(axis=-1).min(axis=0)  # offset, signs
    totals, late = each[np.abs(_OFFSETS[kept]) <= _LATE].min(axis=0), each[:, 0].min()
    halves = np.flatnonzero((_SIGNS.prod(axis=1) > 0) & (_SIGNS.min(axis=1) < 0))
    best = int(halves[totals[halves].argmin()])
    # Another hand of the axes is an error of the IMU: no lidar that sees a mirrored world makes it.
    hand = totals[_SIGNS.prod(axis=1) < 0].min()

    def better(one: float, other: float) -> bool:
        return (other - one) * max(counts) > _BETTER * max(one, 1e-18) / 3

    if better(hand, totals[best]) or better(late, totals[best]) or not better(totals[best], totals[0]):
        return None
    if totals[best] > (1 - _EXPLAINED) * spread:
        return None
    return np.diag(_SIGNS[best])


def _cost(unit: float, reference: np.ndarray, known: np.ndarray, means: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """Mean squared residuals of both signs of each component, f8 (2, 3), with a bias."""
    used = known & measured
    return np.concatenate([_squares(reference[used], sign * unit * means[used]) for sign in (1.0, -1.0)])


def _squares(reference: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Trimmed mean squared residuals of each component without its median, f8 (1, 3)."""
    residual = reference - predicted
    size = np.sort((residual - np.median(residual, axis=0)) ** 2, axis=0)
    return size[: max(1, int(_TRIM * len(size)))].mean(axis=0, keepdims=True)
