"""Interference by other radars: chirps in which it is seen, and their repair.

Another radar's ramp crosses the band of the receiver in a part of a chirp, as a burst in time. The echoes of the scene
change little from a chirp to one nearby, the burst does not come back: so a part of a chirp that differs from all of
its neighbours by far more than others do is interfered. How much they differ is estimated from the frame itself.

The samples of bursts are replaced by those of a sparse spectrum that fits all the others (iterative method with
adaptive thresholding: J. Bechter, F. Roos, M. Rahman, C. Waldschmidt, Automotive radar interference mitigation using a
sparse sampling approach, EuRAD 2017).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.fft

#: Parts that a chirp is divided into.
_PARTS = 16
#: Chirps of the same transmitter before and after one that it is compared with.
_NEIGHBOURS = (-2, -1, 1, 2)
#: Fewest chirps of a transmitter in a frame in which interference can be told.
MIN_CHIRPS = 6
#: A part differs by far more if its power is above the typical one by this factor, and by so many deviations of the
#: logarithms. The typical one is at this quantile, so that more than half of the chirps may be interfered.
_FACTOR, _DEVIATIONS, _QUANTILE = 10.0, 6.0, 0.3
#: Standard deviations of a normal variable from its quantile at 10 % to that at `_QUANTILE`.
_SPREAD = 0.757
#: Iterations of the repair, and the threshold of the last one over the median amplitude of the spectrum.
_ITERATIONS, _LAST_THRESHOLD = 12, 3.0

Excise = Literal["keep", "time", "chirp"]


def samples_of(words: np.ndarray, real: bool, order: str) -> np.ndarray:
    """Samples of stored words, c8 (..., sample), or f4 where they are real.

    Args:
        words: i2 (..., word), in groups of `Q Q I I` (order "qqii") or `I I Q Q`, or real samples.
    """
    if real:
        return words.astype("f4")
    groups = words.reshape(*words.shape[:-1], -1, 2, 2)
    i, q = (1, 0) if order == "qqii" else (0, 1)
    samples = np.empty((*words.shape[:-1], words.shape[-1] // 2), "c8")
    samples.real = groups[..., i, :].reshape(samples.shape)
    samples.imag = groups[..., q, :].reshape(samples.shape)
    return samples


def words_of(samples: np.ndarray, real: bool, order: str) -> np.ndarray:
    """The inverse of `samples_of`, rounded, i2."""
    limits = np.iinfo("i2")
    if real:
        return np.clip(np.rint(samples), limits.min, limits.max).astype("i2")
    parts = [samples.imag, samples.real] if order == "qqii" else [samples.real, samples.imag]
    groups = np.stack([part.reshape(*samples.shape[:-1], -1, 2) for part in parts], axis=-2)
    words = np.clip(np.rint(groups), limits.min, limits.max).astype("i2")
    return words.reshape(*samples.shape[:-1], -1)


def find_bursts(samples: np.ndarray) -> np.ndarray:
    """Parts of chirps with interference, bool (chirp, tx, part); none where there are too few chirps to tell.

    Args:
        samples: (chirp, tx, rx, sample) of one frame.
    """
    chirps, tx, _, count = samples.shape
    parts = min(_PARTS, count)
    if chirps < MIN_CHIRPS:
        return np.zeros((chirps, tx, parts), bool)
    edges = np.linspace(0, count, parts + 1).astype(int)[:-1]
    least = np.full((chirps, tx, parts), np.inf)
    for step in _NEIGHBOURS:
        # Neighbours beyond the ends of the frame are those on the other side.
        shift = np.arange(chirps) + step
        other = np.where((shift < 0) | (shift >= chirps), np.arange(chirps) - step, shift)
        change = samples - samples[other]
        power = (change.real**2 + change.imag**2).sum(axis=2, dtype="f8")
        least = np.minimum(least, np.add.reduceat(power, edges, axis=-1))
    level = np.log(least + 1e-9)
    # Each part and each transmitter has its own echoes, and so its own typical change.
    low, typical = np.quantile(level, (0.1, _QUANTILE), axis=0)
    limit = typical + np.maximum(np.log(_FACTOR), _DEVIATIONS * (typical - low) / _SPREAD)
    return np.asarray(level > limit)


def interfered_share(bursts: np.ndarray) -> float:
    """Share of the chirps with interference; NaN where there are too few chirps to tell."""
    return float(bursts.any(axis=-1).mean()) if bursts.shape[0] >= MIN_CHIRPS else float("nan")


def excise(words: np.ndarray, how: Excise, real: bool, order: str) -> np.ndarray:
    """A frame with the interference replaced by what the other samples tell, i2 (chirp, tx, rx, word).

    Args:
        how: "time" = the parts of chirps with bursts, and a part on both sides; "chirp" = whole chirps.
    """
    if how == "keep":
        return words
    samples = samples_of(words, real, order)
    bursts = find_bursts(samples)
    if not bursts.any():
        return words
    if how == "chirp":
        bursts = np.broadcast_to(bursts.any(axis=-1, keepdims=True), bursts.shape)
    else:
        # A burst begins and ends within parts that it hardly changes.
        wider = bursts.copy()
        wider[..., 1:] |= bursts[..., :-1]
        wider[..., :-1] |= bursts[..., 1:]
        bursts = wider
    count = samples.shape[-1]
    edges = np.linspace(0, count, bursts.shape[-1] + 1).astype(int)
    lost = np.repeat(bursts, np.diff(edges), axis=-1)
    restored = samples.copy()
    for tx in range(samples.shape[1]):
        if lost[:, tx].any():
            for rx in range(samples.shape[2]):
                restored[:, tx, rx] = _restored(samples[:, tx, rx], lost[:, tx])
    changed = words_of(restored, real, order)
    # Of complex samples, two make a group of four words: I and Q of both.
    of_words = lost if real else np.repeat(lost.reshape(*lost.shape[:2], -1, 1, 2), 2, axis=-2)
    return np.where(of_words.reshape(*lost.shape[:2], 1, -1), changed, words)


def _restored(samples: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """The samples of one antenna, (chirp, sample), with the lost ones from a sparse spectrum that fits the others."""
    known = np.where(lost, 0, samples)
    found = known
    highest = None
    for n in range(_ITERATIONS):
        spectrum = scipy.fft.fft2(found)
        amplitude = np.abs(spectrum)
        if highest is None:
            highest = float(amplitude.max())
        last = _LAST_THRESHOLD * float(np.median(amplitude))
        if not 0 < last < highest:
            break
        threshold = highest * (last / highest) ** ((n + 1) / _ITERATIONS)
        estimate = scipy.fft.ifft2(np.where(amplitude > threshold, spectrum, 0))
        found = np.where(lost, estimate if np.iscomplexobj(samples) else estimate.real, known)
    return found.astype(samples.dtype)
