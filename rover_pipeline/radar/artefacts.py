"""Which peaks are no targets: images by unequal I and Q, and coupling of the antennas that wraps around.

A receiver whose I and Q differ adds its conjugated signal times a small factor, so the cell at minus the beat frequency
and minus the Doppler of a target holds the conjugate of the target's cell times that factor, whatever the windows are
(M. Valkama et al., Advanced methods for I/Q imbalance compensation, IEEE Transactions on Signal Processing 49, 2001).
"""

from __future__ import annotations

import numpy as np

from rover_pipeline.radar.detect import STATIC_BINS, Peaks

#: No imbalance, or no coupling.
NONE = np.zeros(1)
_ITERATIONS = 20


def opposite(spectrum: np.ndarray, peaks: Peaks) -> tuple[np.ndarray, np.ndarray]:
    """What the cells of peaks hold, and the conjugate of what the opposite cells hold, c8 (tx, rx, peak) each."""
    doppler = peaks.doppler_bin - spectrum.shape[2] // 2
    return spectrum[:, :, doppler, peaks.range_bin], spectrum[:, :, -doppler, -peaks.range_bin].conj()


def imbalance(own: np.ndarray, other: np.ndarray, noise: np.ndarray, beat: np.ndarray, least: float) -> np.ndarray:
    """Factor of each receiver, c16 (rx,); zeros if strong targets at several beat frequencies do not agree on them.

    Args:
        own, other: by `opposite`, of strong peaks; noise: f8 (peak,); beat: i8 (peak,), bins without sign.
        least: power of the factors over their jackknife variance over beat frequencies: what stands still tells no
            more in many frames than in one.
    """
    share, bins = np.zeros(own.shape[1], "c16"), np.unique(beat)
    if len(bins) < 2:
        return share
    for _ in range(_ITERATIONS):
        # Opposite cells that hold something else count little, as by a Cauchy distribution.
        weight = 1 / (noise + _power(other - share[:, None] * own))
        above, below = (weight * other * own.conj()).sum(axis=0), (weight * np.abs(own) ** 2).sum(axis=0)
        share = above.sum(axis=1) / below.sum(axis=1)
    without = np.array([above[:, beat != n].sum(axis=1) / below[:, beat != n].sum(axis=1) for n in bins])
    variance = (len(bins) - 1) * (np.abs(without - without.mean(axis=0)) ** 2).mean(axis=0)
    return share.conj() * ((np.abs(share) ** 2).sum() >= least * variance.sum())


def find_artefacts(
    spectrum: np.ndarray, power: np.ndarray, peaks: Peaks, share: np.ndarray, removed: np.ndarray, threshold: float
) -> np.ndarray:
    """What is no target among the peaks of complex samples, u1 (peak,): 1 = image, 2 = coupling, 3 = both.

    The larger part of an image is what the target's cell says, and what is left would be no peak. Wrapped coupling is
    the slope of a static peak at zero range, which seems to be a maximum where the range axis ends, or part of it was
    removed.

    Args:
        spectrum, power: of a frame, as `PointFinder` takes them; threshold: power of a peak over noise.
        share: by `imbalance`; removed: f8 (range,), power of the coupling that was subtracted.
    """
    own, other = opposite(spectrum, peaks)
    level = power[peaks.doppler_bin, peaks.range_bin]
    image = share[:, None] * other
    is_image = _power(own - image) < np.minimum(threshold * level / peaks.snr, _power(image))
    middle, removed = len(power) // 2, np.broadcast_to(removed, power.shape[1])
    static = power[max(middle - STATIC_BINS, 0) : middle + STATIC_BINS + 1].max(axis=0) + removed
    rest = np.minimum.accumulate(np.roll(static, -1)[::-1])[::-1]
    slope = (peaks.range_bin > power.shape[1] // 2) & (rest[peaks.range_bin] > level + removed[peaks.range_bin])
    slope &= np.abs(peaks.doppler_bin - middle) <= STATIC_BINS
    return (is_image + 2 * slope).astype("u1")


def _power(values: np.ndarray) -> np.ndarray:
    """Mean over the antennas, f8 (peak,)."""
    return (np.abs(values) ** 2).mean(axis=(0, 1))
