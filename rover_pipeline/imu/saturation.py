"""Samples of an IMU that do not measure its motion: damaged, frozen, or at the limit of its range."""

from __future__ import annotations

import numpy as np
from scipy.constants import g as GRAVITY  # noqa: N812
from scipy.spatial.transform import Rotation

from rover_pipeline.imu.blocks import frozen, runs
from rover_pipeline.imu.options import ImuSection
from rover_pipeline.imu.stationary import STEADY_S
from rover_pipeline.numerics.blocks import blocks
from rover_pipeline.numerics.robust import FALSE_ALARM, is_limit

#: Largest angular rate, rad/s, and specific force, m/s2, that can be true. Larger ones are damage: no IMU of a rig
#: measures them. And largest change of velocity in `STEADY_S`, m/s: of a car that reaches 100 km/h, or turns about at
#: half of it. Noise: data sheets, whose full scale is 4,000 degrees a second (ISM330DHCX) and 40 g (ADIS16470).
MAX_RATE, MAX_FORCE, _MAX_CHANGE = np.radians(4000.0), 40 * GRAVITY, 30.0


def damaged(acc: np.ndarray, avel: np.ndarray, period: float, options: ImuSection) -> np.ndarray:
    """Samples that nothing can have measured, or that a frozen sensor repeats, bool (N,).

    A simulator without noise repeats its samples at rest, where it does not turn at all: these are right.

    Args:
        acc, avel: (N, 3), m/s2 and rad/s; period: of the samples, s; options: say what rest is.
    """
    with np.errstate(invalid="ignore"):
        impossible = (np.abs(acc) > MAX_FORCE).any(axis=1) | (np.abs(avel) > MAX_RATE).any(axis=1)
    at_rest = acc.any(axis=1) & ~avel.any(axis=1)
    held: np.ndarray = frozen(np.concatenate([acc, avel], axis=1), period) & ~at_rest
    # A simulator without noise has rates of 0 where it goes straight. It repeats its forces too.
    noisy = not frozen(acc, period).any()
    for axis in (*acc.T, *avel.T):
        held |= _stuck(axis, acc, avel, options) & frozen(axis[:, None], period) & (noisy | (axis != 0))
    return impossible | held


def _stuck(values: np.ndarray, acc: np.ndarray, avel: np.ndarray, options: ImuSection) -> np.ndarray:
    """Samples at which one axis stays at a value while the rig moves, bool (N,).

    An axis repeats a value for as long as its noise, the step of its converter and the motion let it. So the tail of
    the durations is exponential, with the mean excess of the largest tenth. A value that lasts significantly longer was
    not measured anew: the device, or the stream that its driver takes it from, has stopped. At rest it may have been.
    Extreme values are those of `at_limit`.

    Args:
        values: (N,), of one axis of acc or avel, (N, 3), m/s2 and rad/s.
    """
    starts, lengths = runs(values)
    tail = np.sort(lengths)[-max(3, len(lengths) // 10) :]
    expected = len(tail) * np.exp((tail[0] - lengths) / max(float((tail - tail[0]).mean()), 1.0))
    usual = (values > np.nanmin(values)) & (values < np.nanmax(values))
    found = np.zeros(len(values), bool)
    for n in np.flatnonzero((expected < FALSE_ALARM) & usual[starts]).tolist():
        run = slice(starts[n], starts[n] + lengths[n])
        turning = np.linalg.norm(np.std(avel[run], axis=0), axis=0)
        found[run] = turning > options.still_gyro or np.std(np.linalg.norm(acc[run], axis=1)) > options.still_acc
    return found


def at_limit(values: np.ndarray) -> np.ndarray:
    """Which samples are at a limit of the range along each axis, bool (N, 3).

    A limit is not known: data sheets allow several, and drivers set them. `is_limit` finds it by the number of samples
    that have the largest value.

    A value that half of the samples have is that of rest. A sensor that repeats other values as well, because it has no
    noise or is frozen, repeats the largest one for the same reason, and shows no limit. Ranges are about symmetric, so
    a value below half of the largest size is such another one.

    Args:
        values: (N, 3), of one sensor, as recorded.
    """
    found = np.zeros(values.shape, bool)
    for axis, own in enumerate(values.T):
        steps, counts = np.unique(own[np.isfinite(own)], return_counts=True)
        if len(steps) < 3:
            continue
        ends = [each for each in (0, len(steps) - 1) if 2 * abs(steps[each]) >= np.abs(steps).max()]
        others = np.delete(np.arange(len(steps)), ends)
        if _stands_out(counts, int(others[counts[others].argmax()])):
            continue
        for end in ends:
            if 2 * counts[end] <= counts.sum() and _stands_out(counts, end):
                found[:, axis] |= own == steps[end]
    return found


def _stands_out(counts: np.ndarray, number: int) -> bool:
    """Whether significantly more samples have a value than a smooth motion explains, by those of the values beside it.

    Args:
        counts: i8 (V,), samples of each value, in the order of the values.
        number: of the value.
    """
    beside = max(counts[each] for each in (number - 1, number + 1) if 0 <= each < len(counts))
    return is_limit(counts[number], beside)


def contradicted(times: np.ndarray, acc: np.ndarray, quat: np.ndarray) -> np.ndarray:
    """Where a filter does not bring gyroscope and accelerometer together, bool (N,).

    Over some seconds the mean force in the world is gravity and a change of velocity. One that no rig makes shows that
    the orientation is wrong: by a bias that jumps, or because axes are not those of the accelerometer.

    Args:
        times: f8 (N,), s; acc: (N, 3), m/s2, NaN where not valid; quat: f8 (N, 4), world-from-imu, x y z w.
    """
    # Parts without a sample have no number: a clock that is set leaves years without any.
    number = np.cumsum(np.diff((times - times.min()) // STEADY_S, prepend=0.0) != 0)
    sums, count = np.zeros((number.max() + 1, 3)), np.zeros(number.max() + 1)
    for part in blocks(len(times)):
        good = np.isfinite(acc[part]).all(axis=1)
        at, force = number[part][good], acc[part][good].astype("f8")
        rot = Rotation.from_quat(quat[part][good]).as_matrix()
        np.add.at(sums, at, np.einsum("nij,nj->ni", rot, force) - [0.0, 0.0, GRAVITY])
        count += np.bincount(at, minlength=len(count))
    # In parts of the time, as at the end, brief forces do not cancel out.
    change = STEADY_S * np.linalg.norm(sums, axis=1) / np.maximum(count, 1)
    wrong = (change > _MAX_CHANGE) & (count > count.max() / 2)
    # What turned it may have been before, and lasts until the filter has followed.
    around = np.concatenate([[False], wrong, [False]])
    return np.asarray((around[:-2] | around[1:-1] | around[2:])[number])
