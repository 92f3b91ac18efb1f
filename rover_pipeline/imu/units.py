"""Units of an IMU and the hand of its axes, as gravity shows them.

A carrier that speeds up slows down again. So specific forces that are turned as the gyroscope says, and averaged over
some seconds, are gravity. Rates in degrees a second that are taken for rad/s turn them about, so that their mean is too
short. Where a rig keeps level, both units leave gravity where it is, and the one that is declared is believed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.constants import g as GRAVITY  # noqa: N812
from scipy.special import chdtri

from rover_pipeline.imu.alignment import PRIOR_SIGMA, decisive
from rover_pipeline.imu.blocks import INTERVAL, Means
from rover_pipeline.imu.saturation import MAX_FORCE, MAX_RATE
from rover_pipeline.imu.stationary import STEADY_S
from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.numerics.robust import FALSE_ALARM

#: Units of angular velocities by their value in rad/s; the first one is declared. Layout.
RATES = {"rad/s": 1.0, "deg/s": np.pi / 180}
#: Largest ratio of a factor that was measured and a unit, either way, beyond any error of scale: of rates beside those
#: of a lidar, and of the mean force over seconds beside gravity. Tuned: by hand.
RATE_RATIO, _GRAVITY_RATIO = 1.35, 1.6


class Units(NamedTuple):
    """What an IMU's samples are in."""

    factor: float  #: by what accelerations become m/s2; NaN = gravity is in none of the units that are known.
    acc: str  #: their unit, "m/s2" or "g", or why neither is possible.
    avel: str  #: unit of angular velocities, a key of `RATES`.
    mirrored: bool  #: whether gravity turns the other way about than the gyroscope does: the axes are left-handed.


def units_of(times: np.ndarray, acc: np.ndarray, avel: np.ndarray) -> Units:
    """The units of N samples.

    Args:
        times: f8 (N,), s, rising.
        acc, avel: (N, 3), gravity included, in any of the units; NaN where not valid.
    """
    with np.errstate(invalid="ignore"):  # In the larger unit these are damage too.
        good = (np.abs(acc) <= MAX_FORCE).all(axis=1) & (np.abs(avel) <= np.degrees(MAX_RATE)).all(axis=1)
    force, rates = _windows(times[good], acc[good].astype("f8"), avel[good].astype("f8"))
    if not len(force):
        # Single samples are gravity and the jolts of a walk: half of them are larger.
        size = np.nanquantile(np.linalg.norm(acc[good].astype("f8"), axis=1), [0.5]) if good.any() else np.zeros(1)
        return Units(*_acc_unit(size), "rad/s", False)
    usual = np.median(rates, axis=(0, 1))
    # The usual rate is a bias, or else a steady turn. Axes of the other hand turn the other way about.
    turned = {
        (unit, hand): [_turned(force, hand * value * each) for each in (rates, rates - usual)]
        for unit, value in RATES.items()
        for hand in (1, -1)
    }
    sizes = {key: [np.linalg.norm(mean, axis=1) for mean, _ in each] for key, each in turned.items()}
    factor, acc_unit = _acc_unit(max((one for each in sizes.values() for one in each), key=np.median))
    rad, deg = (min(_contradiction(size * factor) for size in sizes[unit, 1]) for unit in RATES)
    limit = chdtri(1, FALSE_ALARM)
    unit = "deg/s" if deg < limit < rad - deg else "rad/s"
    right, wrong = (min(_change(*each) for each in turned[unit, hand]) for hand in (1, -1))
    smallest = min(right, _change(*_turned(force, 0 * rates)))
    return Units(factor, acc_unit, unit, wrong < smallest / 2 and decisive(wrong, smallest, len(force)))


def _windows(times: np.ndarray, acc: np.ndarray, avel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means over brief blocks, f8 (window, block, 3) each, of all windows without a gap."""
    step = INTERVAL / 2
    blocks = max(0, int((times[-1] - times[0]) / step)) if len(times) else 0
    count = min(blocks, round(STEADY_S / step))
    if not count:
        return np.zeros((0, 1, 3)), np.zeros((0, 1, 3))
    # Only windows with samples: a clock that is set leaves years without any.
    number = ((times - times[0]) // (step * count)).astype("i8")
    some = np.unique(number[np.concatenate([[True], np.diff(number) != 0])])
    begin = times[0] + step * (count * some[(some >= 0) & (some < blocks // count), None] + np.arange(count)).ravel()
    whole = np.ones(len(times), bool)
    (force, known), (rates, _) = (Means(times, values, whole).over(begin, step) for values in (acc, avel))
    chosen = known.reshape(-1, count).all(axis=1)
    return force.reshape(-1, count, 3)[chosen], rates.reshape(-1, count, 3)[chosen]


def _turned(force: np.ndarray, rates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean forces of windows in the frame at their start, f8 (window, 3), and rotations start-from-end, (window, 3, 3).

    Args:
        force, rates: f8 (window, block, 3), rates in rad/s.
    """
    rot, total = np.tile(np.eye(3), (len(force), 1, 1)), np.zeros((len(force), 3))
    for n in range(force.shape[1]):
        total += np.einsum("wij,wj->wi", rot, force[:, n])
        rot = matmul(rot, exp(rates[:, n] * INTERVAL / 2))
    return total / force.shape[1], rot


def _change(mean: np.ndarray, rot: np.ndarray) -> float:
    """Median squared change of the mean force from one window to the next, in one frame; 0 of a single window."""
    change = mean[:-1] - np.einsum("wij,wj->wi", rot[:-1], mean[1:])
    return float(np.median((change**2).sum(axis=1))) if len(change) else 0.0


def _acc_unit(sizes: np.ndarray) -> tuple[float, str]:
    """By what accelerations become m/s2, and their unit; NaN, and why neither is possible, of mean sizes (K,)."""
    low, size, high = np.quantile(sizes, [0.1, 0.5, 0.9]) if len(sizes) else np.zeros(3)
    for unit, factor in (("m/s2", 1.0), ("g", GRAVITY)):
        if low * factor > GRAVITY / _GRAVITY_RATIO and high * factor < GRAVITY * _GRAVITY_RATIO:
            return factor, unit
    return np.nan, f"its median is {size:.3g}, which is gravity neither in m/s2 nor in g"


def _contradiction(sizes: np.ndarray) -> float:
    """Median squared difference of mean forces (K,), m/s2, from gravity, over the variance of the scale.

    By its data sheet (MPU-6050), the scale of an accelerometer is as uncertain as that of a gyroscope.
    """
    # Of two windows the better one counts: damage in the other one is no contradiction.
    return float(np.sort((sizes / GRAVITY - 1) ** 2)[(len(sizes) - 1) // 2] / PRIOR_SIGMA[7] ** 2)
