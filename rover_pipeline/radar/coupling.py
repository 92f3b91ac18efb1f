"""Coupling of the antennas: what goes from transmitter to receiver without leaving the board.

It is the same in every chirp of a recording, and its beat frequency is near zero: leads, package and radome are within
0.15 m. Static objects beyond are not touched, moving rig or parked. What stands still that close is taken for
coupling. It is described by tones at given beat frequencies, and subtracted from the samples, so that nothing else
changes: neither what moves at the same range nor the wrapped end of the range axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rover_pipeline.numerics.linear import matmul, solve
from rover_pipeline.radar.spectrum import MAIN_LOBE_BINS, samples_of, unit_gain_window, window_weights
from rover_pipeline.radar.tuning import TUNING


@dataclass(frozen=True)
class Coupling:
    """The signal that the antennas couple, as a sum of tones.

    Attributes:
        bins: beat frequency of each tone, range bins of the samples.
        tones: amplitude of each tone, ADC counts, c16 of (tx, rx, tone) as a flat tuple.
        pairs: numbers of transmitters and receivers.
        reach: last range bin that the coupling is seen in; see `near_zero`.
    """

    bins: tuple[float, ...]
    tones: tuple[complex, ...]
    pairs: tuple[int, int]
    reach: int

    @property
    def amplitudes(self) -> np.ndarray:
        """c16 (tx, rx, tone)."""
        return np.array(self.tones).reshape(*self.pairs, len(self.bins))

    def signal(self, samples: int, real: bool) -> np.ndarray:
        """What every chirp of each antenna holds, c16 (tx, rx, sample), or f8 of real samples."""
        signal = matmul(self.amplitudes, _waves(self.bins, samples).T)
        return signal.real if real else signal

    def power(self, samples: int, real: bool, window: str = "hann") -> np.ndarray:
        """Power of the coupling in each range bin, mean over antennas, squared ADC counts, f8 (range,)."""
        profile = np.fft.fft(self.signal(samples, real) * unit_gain_window(samples, window), axis=-1)
        return np.asarray((np.abs(profile) ** 2).mean(axis=(0, 1)))


def find_coupling(frames: np.ndarray, order: str, real: bool, bin_m: float | None) -> Coupling | None:
    """The coupling in some frames of a recording; None if it is not seen.

    It is seen where the mean of all chirps has a maximum near zero range that does not change between the frames.

    Args:
        frames: i2, (frame, chirp, tx, rx, word).
        order: of words, "qqii" or "iiqq"; real: whether samples are real.
        bin_m: size of a range bin, m; None if it is not known.
    """
    if not len(frames):
        return None
    # One frame at a time: a frame of floats is eight times as large as its words.
    means = np.stack([samples_of(frame, real, order).mean(axis=0) for frame in frames])
    mean = means.mean(axis=0)
    samples = mean.shape[-1]
    reach = TUNING.coupling_reach_m / bin_m if bin_m else TUNING.coupling_reach_bins
    top = int(np.ceil(reach + TUNING.coupling_beyond))
    if samples < 8 * (top + MAIN_LOBE_BINS + 1):
        return None  # bins are so large that all the range is near zero
    weights = window_weights(samples, "hann")
    profile = (np.abs(np.fft.fft(mean * weights, axis=-1)) ** 2).mean(axis=(0, 1))
    near = profile[: top + MAIN_LOBE_BINS + 1]
    peak = int(near.argmax())
    # The skirt of a target farther away falls towards zero, so its largest value is at the end of what is looked at.
    if peak > top or near[peak] < TUNING.coupling_level * np.median(profile[: samples // 2 if real else samples]):
        return None
    bins, fit = _fit(samples, reach, real)
    each = matmul(means * weights, fit.T)
    tones = each.mean(axis=0)
    constant = (np.abs(tones) ** 2).sum() / max((np.abs(each) ** 2).sum(axis=(1, 2, 3)).mean(), 1e-30)
    if constant < max(TUNING.coupling_constant, 2 / len(frames) if len(frames) > 1 else 0):
        return None
    return Coupling(bins, tuple(tones.ravel().tolist()), (tones.shape[0], tones.shape[1]), top)


def near_zero(coupling: Coupling, samples: int, real: bool) -> np.ndarray:
    """Range bins in which static cells may hold what is left of the coupling, bool (range,); samples: of a chirp."""
    bins = np.arange(samples // 2 if real else samples)
    mask: np.ndarray = bins <= coupling.reach + MAIN_LOBE_BINS
    # The range axis of complex samples wraps: below zero is its end.
    return mask if real else mask | (bins > samples - (TUNING.coupling_below + MAIN_LOBE_BINS))


@lru_cache(maxsize=8)
def _fit(samples: int, reach: float, real: bool) -> tuple[tuple[float, ...], np.ndarray]:
    """Beat frequencies of the tones, bins, and the ridge regression from windowed samples, c16 (tone, sample)."""
    # A real signal is tones and their conjugates.
    top = round((reach + TUNING.coupling_beyond) / TUNING.coupling_step)
    bottom = top if real else round(TUNING.coupling_below / TUNING.coupling_step)
    bins = tuple(TUNING.coupling_step * float(each) for each in range(-bottom, top + 1))
    waves = _waves(bins, samples) * window_weights(samples, "hann")[:, None]
    normal = matmul(waves.conj().T, waves)
    ridge = TUNING.coupling_ridge * np.trace(normal).real / len(bins)
    return bins, solve(normal + ridge * np.eye(len(bins)), waves.conj().T)


@lru_cache(maxsize=8)
def _waves(bins: tuple[float, ...], samples: int) -> np.ndarray:
    """The tones, c16 (sample, tone)."""
    return np.exp(2j * np.pi * np.outer(np.arange(samples), bins) / samples)
