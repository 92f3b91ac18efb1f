"""Angular velocities averaged over equal intervals of time, which is where a gyroscope and a trajectory are compared.

A mean over an interval is a rotation divided by its duration. It needs no common sampling rate, it is exact for any
time offset, and it damps vibration that only one of both can measure.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.kinematics.preintegration import MAX_SILENCE
from rover_pipeline.kinematics.sweep import MAX_GAP_PERIODS

#: Intervals over which rates are averaged and compared, s: short beside the turns of a person who walks, as the longest
#: time between samples that are interpolated. Layout.
INTERVAL = MAX_SILENCE

#: Smallest number of equal extreme samples in a row that are saturation, of which there must be two: noise makes none;
#: and its smallest distance from the median, in the smallest steps of the sensor: noise at rest is nearer.
#: Tuned: by hand.
_RUN, _COUNTS = 3, 20
#: A gyroscope that repeats its sample for this long is frozen, s: no driver repeats one for so long. Tuned: by hand.
_FROZEN_S = 0.3


class Means:
    """Means of vectors over blocks of time.

    Args:
        times: f8 (N,), rising, s.
        values: f8 (N, 3).
        good: bool (N,); a block that touches a sample which is not good has no mean.
    """

    def __init__(self, times: np.ndarray, values: np.ndarray, good: np.ndarray) -> None:
        steps = np.diff(times)
        clean = np.where(good[:, None], values, 0.0)
        self._times, self._values = times, clean
        # The integral between two samples is that of the line between them.
        self._integral = np.zeros((len(times), 3))
        between = np.add(clean[1:], clean[:-1], out=self._integral[1:])
        between /= 2
        between *= steps[:, None]
        np.cumsum(between, axis=0, out=between)
        bad = ~(good[1:] & good[:-1]) | (steps > MAX_GAP_PERIODS * INTERVAL)
        self._bad = np.concatenate([[0], np.cumsum(bad)])

    def smoothed(self, duration: float) -> Means:
        """The means of vectors that were averaged twice over a time around each sample before, s, against vibration."""
        means = self
        for _ in range(2):
            means = Means(self._times, *means.over(self._times - duration / 2, duration))
        return means

    def over(self, begin: np.ndarray, duration: float) -> tuple[np.ndarray, np.ndarray]:
        """Means over blocks that begin at some times, f8 (K, 3), and whether they are known, bool (K,).

        Args:
            begin: f8 (K,), s; duration: of every block, s.
        """
        if len(self._times) < 2:
            return np.zeros((len(begin), 3)), np.zeros(len(begin), bool)
        (first, low), (second, high) = self._at(begin), self._at(begin + duration)
        inside = (begin >= self._times[0]) & (begin + duration <= self._times[-1])
        known = inside & (self._bad[high + 1] == self._bad[low])
        return (second - first) / duration, known

    def _at(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The integral at some times, f8 (K, 3), and the number of the sample before each."""
        before = np.clip(np.searchsorted(self._times, times, side="right") - 1, 0, len(self._times) - 2)
        span = np.maximum(self._times[before + 1] - self._times[before], 1e-9)
        part = np.clip((times - self._times[before]) / span, 0, 1)[:, None]
        start, slope = self._values[before], self._values[before + 1] - self._values[before]
        return self._integral[before] + span[:, None] * part * (start + slope * part / 2), before


def white_noise(rates: np.ndarray) -> float:
    """Standard deviation of the noise of a sample of the noisiest axis, from rates f8 (N, 3) at equal distances."""
    # Medians leave out a part of the recording that is damaged, and vibration, which has few frequencies. The window
    # keeps slow motion out of high frequencies.
    length = min(len(rates), 512)  # of the parts whose spectra are averaged
    parts = rates[: len(rates) // length * length].reshape(-1, length, 3)
    window = np.hanning(length)[:, None]
    power = np.abs(np.fft.rfft((parts - parts.mean(axis=1, keepdims=True)) * window, axis=1)) ** 2
    count = power.shape[1]
    band = np.median(power[:, count // 4 : count // 2] / (window**2).sum(), axis=(0, 1))
    return float(np.sqrt(band.max() / np.log(2)))


class Damage(NamedTuple):
    """Samples of a gyroscope that measure nothing."""

    good: np.ndarray  #: bool (N,), samples that are finite, not saturated and not frozen.
    saturated: np.ndarray  #: bool (N,).
    frozen: np.ndarray  #: bool (N,).
    limit: float  #: the value at which it saturates, in its own unit; NaN if it does not.


def find_damage(times: np.ndarray, rates: np.ndarray) -> Damage:
    """Samples that are flat at the extreme value of an axis, and samples that repeat the one before for long.

    Args:
        times: f8 (N,), s; rates: f8 (N, 3), in any unit; NaN where not valid.
    """
    good, limit = np.isfinite(rates).all(axis=1), np.nan
    finite, dead, saturated = rates[good], np.zeros(len(rates), bool), np.zeros(len(rates), bool)
    if len(finite) < 3:
        return Damage(good, saturated, dead, limit)
    repeated = np.concatenate([[False], (np.diff(finite, axis=0) == 0).all(axis=1)])
    dead[good] = frozen(finite, float(np.median(np.diff(times[good]))))
    # Samples that a driver repeats because it is faster than the sensor count once.
    number = np.cumsum(~repeated) - 1
    for axis in finite[~repeated].T:
        levels = np.unique(axis)
        for value in levels[[0, -1]] if len(levels) > 2 else ():
            flat = _lasting(axis == value, _RUN)
            # A sensor that counts in coarse steps repeats its extreme value at rest too, near its middle.
            if flat.sum() >= 2 * _RUN and abs(value - np.median(axis)) > _COUNTS * np.diff(levels).min():
                saturated[good] |= flat[number]
                limit = float(np.nanmin([limit, abs(value)]))
    return Damage(good & ~saturated & ~dead, saturated, dead, limit)


def frozen(rates: np.ndarray, period: float) -> np.ndarray:
    """Samples of a sensor that has repeated the one before for long, bool (N,), of rates (N, A) every `period` s."""
    repeated = np.concatenate([[False], (np.diff(rates, axis=0) == 0).all(axis=1)])
    return _lasting(repeated, max(3, round(_FROZEN_S / max(period, 1e-6))))


def runs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where runs of equal values, (N,), start, i8 (R,), and how long they are, i8 (R,)."""
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    return starts, np.diff(np.append(starts, len(values)))


def _lasting(flags: np.ndarray, length: int) -> np.ndarray:
    """The flags that belong to runs of at least `length`, bool (N,)."""
    _, lengths = runs(flags)
    return flags & np.repeat(lengths >= length, lengths)
