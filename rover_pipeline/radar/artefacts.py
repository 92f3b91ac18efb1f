"""Peaks that are no targets: images by unequal I and Q, and coupling of the antennas that wraps around.

A receiver whose I and Q differ adds its conjugated signal times a small factor: opposite to a target, at minus its beat
frequency and minus its Doppler, is the conjugate of the target's cell times it (M. Valkama et al., Advanced methods for
I/Q imbalance compensation in communication receivers, IEEE Transactions on Signal Processing 49, 2001).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rover_pipeline.radar.detect import STATIC_BINS, Peaks

_ITERATIONS = 20


def cell_pairs(spectrum: np.ndarray, power: np.ndarray, peaks: Peaks, least_snr: float = 0.0) -> tuple[np.ndarray, ...]:
    """Cells of peaks and the conjugates of the opposite ones, c8 (tx, rx, peak); noise f8 and range bin i8 (peak,)."""
    peaks = Peaks(*(values[peaks.snr >= least_snr] for values in peaks))
    doppler, beat = peaks.doppler_bin - len(power) // 2, peaks.range_bin
    noise = power[peaks.doppler_bin, beat] / peaks.snr
    return spectrum[:, :, doppler, beat], spectrum[:, :, -doppler, -beat].conj(), noise, beat


def imbalance(pairs: Sequence[tuple[np.ndarray, ...]], least: float) -> tuple[complex, ...]:
    """Factor of each receiver, by `cell_pairs` of the strong peaks of frames; one zero if these do not agree on it.

    Its power must be `least` times its jackknife variance over range bins: what is still tells no more in many frames.
    """
    own, other, noise, beat = (np.concatenate(parts, axis=-1) for parts in zip(*pairs, strict=True))
    bins, share = np.unique(beat), np.zeros((own.shape[1], 1), "c16")
    if len(bins) < 2:
        return (0.0,)
    for _ in range(_ITERATIONS):
        # Opposite cells that hold something else count little, as by a Cauchy distribution.
        weight = 1 / (noise + _power(other - share * own))
        above, below = (weight * other * own.conj()).sum(axis=0), (weight * np.abs(own) ** 2).sum(axis=0)
        share = above.sum(axis=1, keepdims=True) / below.sum(axis=1, keepdims=True)
    without = np.stack([above[:, beat != n].sum(axis=1) / below[:, beat != n].sum(axis=1) for n in bins])
    enough = (np.abs(share) ** 2).sum() >= least * (len(bins) - 1) * without.var(axis=0).sum()
    return tuple(share.conj().ravel().tolist()) if enough else (0.0,)


def find_artefacts(
    spectrum: np.ndarray, power: np.ndarray, peaks: Peaks, known: tuple[Sequence[complex], Any], least: float
) -> np.ndarray:
    """What is no target among peaks of complex samples, u1 (peak,): 1 = image, 2 = coupling, 3 = both.

    An image is most of its peak, and what it leaves is below `least` times the noise. Coupling is the slope of a static
    peak at zero range, as it was before the coupling was subtracted. Known are the factors of `imbalance`, and the
    power of that coupling, f8 (range,).
    """
    shares, removed = known
    own, other, noise, beat = cell_pairs(spectrum, power, peaks)
    image = np.reshape(shares, (-1, 1)) * other
    is_image = _power(own - image) < np.minimum(least * noise, _power(image))
    away = np.abs(np.arange(len(power)) - len(power) // 2)
    static = power[away <= STATIC_BINS].max(axis=0) + removed
    # The least power from the next bin to the end of the axis and, around it, at zero range.
    beyond = np.minimum.accumulate(np.roll(static, -1)[::-1])[::-1]
    is_slope = beyond[beat] > (power + removed)[peaks.doppler_bin, beat]
    is_slope &= (beat > power.shape[1] // 2) & (away[peaks.doppler_bin] <= STATIC_BINS)
    return np.asarray(is_image + 2 * is_slope, "u1")


def _power(values: np.ndarray) -> np.ndarray:
    return np.asarray((np.abs(values) ** 2).mean(axis=(0, 1)))
