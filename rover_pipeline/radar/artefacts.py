"""Which peaks are no targets: images by unequal I and Q, and coupling of the antennas that wraps around.

A receiver whose I and Q differ adds its conjugated signal times a small complex factor. So the cell opposite to a
target, at minus its beat frequency and minus its Doppler, holds the conjugate of what the target's cell holds, times
the factor of the receiver, whatever the windows are (M. Valkama et al., Advanced methods for I/Q imbalance compensation
in communication receivers, IEEE Transactions on Signal Processing 49, 2001).
"""

from __future__ import annotations

import numpy as np

from rover_pipeline.radar.detect import STATIC_BINS, Peaks

#: What a peak is, as bits.
IMAGE, COUPLING = 1, 2
_ITERATIONS = 20


def opposite(spectrum: np.ndarray, peaks: Peaks) -> tuple[np.ndarray, np.ndarray]:
    """What the cells of peaks hold, and the conjugate of what the opposite cells hold, c8 (tx, rx, peak) each."""
    dopplers, bins = spectrum.shape[2:]
    doppler = (peaks.doppler_bin - dopplers // 2) % dopplers
    return (
        spectrum[:, :, doppler, peaks.range_bin],
        spectrum[:, :, -doppler % dopplers, -peaks.range_bin % bins].conj(),
    )


def imbalance(own: np.ndarray, other: np.ndarray, noise: np.ndarray, beat: np.ndarray, least: float) -> np.ndarray:
    """Factor of each receiver, c16 (rx,); zeros if targets at several beat frequencies do not agree on them.

    Targets whose opposite cells hold something else count little, by the weights of a Cauchy distribution.

    Args:
        own, other: as `opposite` gives them, of strong peaks; noise: f8 (peak,), of their cells.
        beat: i8 (peak,), beat frequency of each, bins, without its sign.
        least: power of the factors over their variance, which is the jackknife's over beat frequencies: what stands
            still tells no more in a hundred frames than in one.
    """
    share = np.zeros(own.shape[1], "c16")
    group, count = np.unique(beat, return_inverse=True)[1], len(np.unique(beat))
    if count < 2:
        return share
    products, powers = other * own.conj(), (np.abs(own) ** 2).sum(axis=0)
    for _ in range(_ITERATIONS):
        weight = 1 / (noise + (np.abs(other - share[:, None] * own) ** 2).mean(axis=(0, 1)))
        above, below = (weight * products).sum(axis=0), weight * powers
        share = above.sum(axis=1) / below.sum(axis=1)
    others = group != np.arange(count)[:, None]
    without = np.array([above[:, rest].sum(axis=1) / below[:, rest].sum(axis=1) for rest in others])
    variance = (count - 1) * (np.abs(without - without.mean(axis=0)) ** 2).mean(axis=0)
    # The opposite cell was conjugated, not the target's.
    return share.conj() * ((np.abs(share) ** 2).sum() >= least * variance.sum())


def images(own: np.ndarray, other: np.ndarray, noise: np.ndarray, share: np.ndarray, threshold: float) -> np.ndarray:
    """Whether the image is the larger part of each peak, and what it leaves would be no peak, bool (peak,).

    Args:
        own, other, noise: as `imbalance` takes them; share: as it gives it; threshold: power of a peak over noise.
    """
    image = share[:, None] * other
    left, made = ((np.abs(each) ** 2).mean(axis=(0, 1)) for each in (own - image, image))
    return left < np.minimum(threshold * noise, made)


def wrapped(power: np.ndarray, removed: np.ndarray | float, peaks: Peaks, threshold: float) -> np.ndarray:
    """Whether peaks below zero range, which is the end of the axis, continue a stronger one at zero, bool (peak,).

    Args:
        power: (doppler, range), zero Doppler in the middle; removed: (range,), the coupling's that was subtracted.
    """
    middle, bins = len(power) // 2, power.shape[1]
    static = power[max(middle - STATIC_BINS, 0) : middle + STATIC_BINS + 1].max(axis=0) + removed
    lowest = np.minimum.accumulate(static[::-1])[::-1][peaks.range_bin]
    own = power[peaks.doppler_bin, peaks.range_bin]
    below_zero = (peaks.range_bin > bins // 2) & (np.abs(peaks.doppler_bin - middle) <= STATIC_BINS)
    return below_zero & (lowest >= threshold * own / peaks.snr) & (static[0] > own)
