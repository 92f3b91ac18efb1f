"""Peaks that are no targets: images by unequal I and Q, and coupling of the antennas that wraps around.

A receiver whose I and Q differ adds its conjugated signal times a small factor: the cell at minus the beat frequency and
minus the Doppler of a target holds the conjugate of the target's cell times it (M. Valkama et al., Advanced methods for
I/Q imbalance compensation in communication receivers, IEEE Transactions on Signal Processing 49, 2001).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rover_pipeline.radar.detect import STATIC_BINS, Peaks

#: No imbalance, or no coupling.
NONE = np.zeros(1)
_ITERATIONS = 20


def opposite(spectrum: np.ndarray, power: np.ndarray, peaks: Peaks, least_snr: float = 0.0) -> tuple[np.ndarray, ...]:
    """Cells of peaks and the conjugates of the opposite ones, c8 (tx, rx, peak); noise f8 and range bin i8 (peak,)."""
    peaks = Peaks(*(values[peaks.snr >= least_snr] for values in peaks))
    doppler, beat = peaks.doppler_bin - len(power) // 2, peaks.range_bin
    noise = power[peaks.doppler_bin, beat] / peaks.snr
    return spectrum[:, :, doppler, beat], spectrum[:, :, -doppler, -beat].conj(), noise, beat


def imbalance(pairs: Sequence[tuple[np.ndarray, ...]], least: float) -> np.ndarray:
    """Factor of each receiver, c16 (rx,), by `opposite` of the peaks of frames; (1,) zero if targets do not agree on it.

    Its power must be `least` times its jackknife variance over range bins: what stands still tells no more in many
    frames than in one.
    """
    own, other, noise, beat = (np.concatenate(parts, axis=-1) for parts in zip(*pairs, strict=True))
    bins, share = np.unique(beat), np.zeros((own.shape[1], 1), "c16")
    if len(bins) < 2:
        return NONE
    for _ in range(_ITERATIONS):
        # Opposite cells that hold something else count little, as by a Cauchy distribution.
        weight = 1 / (noise + _power(other - share * own))
        above, below = (weight * other * own.conj()).sum(axis=0), (weight * np.abs(own) ** 2).sum(axis=0)
        share = above.sum(axis=1, keepdims=True) / below.sum(axis=1, keepdims=True)
    without = np.stack([above[:, beat != n].sum(axis=1) / below[:, beat != n].sum(axis=1) for n in bins])
    enough = (np.abs(share) ** 2).sum() >= least * (len(bins) - 1) * without.var(axis=0).sum()
    return share[:, 0].conj() if enough else NONE


def find_artefacts(
    spectrum: np.ndarray, power: np.ndarray, peaks: Peaks, share: np.ndarray, removed: np.ndarray, threshold: float
) -> np.ndarray:
    """What is no target among peaks of complex samples, u1 (peak,): 1 = image, 2 = coupling, 3 = both.

    An image is most of its peak, and leaves none. Coupling is the slope of a static peak at zero range.

    Args:
        spectrum, power: of a frame, as `PointFinder` takes them; threshold: power of a peak over noise.
        share: by `imbalance`; removed: f8 (range,), power of the coupling that was subtracted, or `NONE`.
    """
    own, other, noise, beat = opposite(spectrum, power, peaks)
    image = share[:, None] * other
    is_image = _power(own - image) < np.minimum(threshold * noise, _power(image))
    away = np.abs(np.arange(len(power)) - len(power) // 2)
    static = power[away <= STATIC_BINS].max(axis=0) + removed
    lowest_beyond = np.minimum.accumulate(np.roll(static, -1)[::-1])[::-1]
    is_slope = (away[peaks.doppler_bin] <= STATIC_BINS) & (beat > power.shape[1] // 2)
    is_slope &= lowest_beyond[beat] > (power + removed)[peaks.doppler_bin, beat]
    return (is_image + 2 * is_slope).astype("u1")


def _power(values: np.ndarray) -> np.ndarray:
    """Mean over the antennas, f8 (peak,)."""
    return (np.abs(values) ** 2).mean(axis=(0, 1))
