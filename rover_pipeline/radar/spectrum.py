"""Spectra of TDM-MIMO FMCW radar frames.

Axes are `chirp, tx, rx, sample` before the transform and `tx, rx, doppler, range` after it: the part of one antenna is
contiguous, and small enough for a processor's cache. Range bin 0 is at the sensor; larger Doppler bins recede.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.fft

from rover_pipeline.numerics.compiled import compiled_with_fma, inlined
from rover_pipeline.numerics.linear import matmul

# Compiled kernels of the radar: from samples to spectra and directions.
#
# Rows of bins are passed to small functions as one-dimensional arrays, with separate real and imaginary parts: only
# then does the compiler use vector instructions. These functions are inlined, because a call counts the references to
# each row that it passes, which takes longer than to work on it.

#: One value for each range bin: f4 (range,), or c8.
Row = np.ndarray

# --- From samples to spectra --------------------------------------------------------------------------------------


@compiled_with_fma
def window_complex(
    frame: np.ndarray, tx: int, rx: int, chirps: np.ndarray, samples: np.ndarray, coupling: np.ndarray, out: np.ndarray
) -> None:
    """Complex samples of one antenna, without its coupling, times the windows over chirps and samples.

    Args:
        frame: (chirp, tx, rx, word), `Q Q I I` groups.
        chirps, samples: windows, f4 (chirp,) and (sample,).
        coupling: f4 (2 * sample,), real and imaginary parts interleaved, which is subtracted from every chirp.
        out: f4 (chirp, 2 * sample), real and imaginary parts interleaved; longer along both axes for zero padding.
    """
    for chirp in range(frame.shape[0]):
        _window_pairs(frame[chirp, tx, rx], chirps[chirp], samples, coupling, out[chirp])


@inlined
def _window_pairs(words: np.ndarray, weight: Any, samples: np.ndarray, coupling: np.ndarray, out: np.ndarray) -> None:
    for pair in range(len(samples) // 2):
        first, second = weight * samples[2 * pair], weight * samples[2 * pair + 1]
        out[4 * pair] = (np.float32(words[4 * pair + 2]) - coupling[4 * pair]) * first
        out[4 * pair + 1] = (np.float32(words[4 * pair]) - coupling[4 * pair + 1]) * first
        out[4 * pair + 2] = (np.float32(words[4 * pair + 3]) - coupling[4 * pair + 2]) * second
        out[4 * pair + 3] = (np.float32(words[4 * pair + 1]) - coupling[4 * pair + 3]) * second


@compiled_with_fma
def window_real(
    frame: np.ndarray, tx: int, rx: int, chirps: np.ndarray, samples: np.ndarray, coupling: np.ndarray, out: np.ndarray
) -> None:
    """As `window_complex`, for real samples: frame (chirp, tx, rx, sample), coupling f4 (sample,)."""
    for chirp in range(frame.shape[0]):
        words, line = frame[chirp, tx, rx], out[chirp]
        for sample in range(len(samples)):
            line[2 * sample] = (np.float32(words[sample]) - coupling[sample]) * (chirps[chirp] * samples[sample])
            line[2 * sample + 1] = 0


@compiled_with_fma
def add_power(spectrum: np.ndarray, out: np.ndarray) -> None:
    """Add the power of each antenna, c8 (antenna, doppler, range), to their sum, f4 (doppler, range)."""
    for antenna in range(len(spectrum)):
        for doppler in range(len(out)):
            _add_squares(spectrum[antenna, doppler], out[doppler])


@inlined
def _add_squares(values: Row, out: Row) -> None:
    for r in range(len(out)):
        x, y = values[r].real, values[r].imag
        out[r] += x * x + y * y


# --- From antennas to directions ----------------------------------------------------------------------------------


@compiled_with_fma
def lag_products(spectrum: np.ndarray, phases: np.ndarray, pairs: np.ndarray, out: np.ndarray) -> None:
    """Add the products of pairs of antennas to the sum of their lag, over all Doppler bins.

    Args:
        spectrum: c8 (antenna, doppler, range).
        phases: c8 (doppler, antenna), factors of the antennas.
        pairs: i8 (pair, 3): antenna, other antenna, lag (columns between them); fastest when sorted by lag.
        out: f4 (2, lag, range): real and imaginary parts of one antenna times the conjugate of the other.
    """
    antennas, dopplers, bins = spectrum.shape
    real, imag = np.empty((antennas, bins), np.float32), np.empty((antennas, bins), np.float32)
    for doppler in range(dopplers):
        for a in range(antennas):
            _rotate(spectrum[a, doppler], phases[doppler, a], real[a], imag[a])
        n = 0
        while n < len(pairs):
            i, j, lag = pairs[n]
            # Two products of one lag at a time: the sums are read and written half as often.
            if n + 1 < len(pairs) and pairs[n + 1, 2] == lag:
                k, m, _ = pairs[n + 1]
                _add_two_pairs(
                    real[i], imag[i], real[j], imag[j], real[k], imag[k], real[m], imag[m], out[0, lag], out[1, lag]
                )
                n += 2
            else:
                _add_pair(real[i], imag[i], real[j], imag[j], out[0, lag], out[1, lag])
                n += 1


@inlined
def _rotate(values: Row, factor: Any, real: Row, imag: Row) -> None:
    p, q = factor.real, factor.imag
    for r in range(len(values)):
        x, y = values[r].real, values[r].imag
        real[r] = x * p - y * q
        imag[r] = x * q + y * p


@inlined
def _add_pair(a: Row, b: Row, c: Row, d: Row, real: Row, imag: Row) -> None:
    for r in range(len(real)):
        real[r] += a[r] * c[r] + b[r] * d[r]
        imag[r] += b[r] * c[r] - a[r] * d[r]


@inlined
def _add_two_pairs(a: Row, b: Row, c: Row, d: Row, e: Row, f: Row, g: Row, h: Row, real: Row, imag: Row) -> None:
    for r in range(len(real)):
        real[r] += (a[r] * c[r] + b[r] * d[r]) + (e[r] * g[r] + f[r] * h[r])
        imag[r] += (b[r] * c[r] - a[r] * d[r]) + (f[r] * g[r] - e[r] * h[r])


@compiled_with_fma
def angle_magnitudes(
    spectrum: np.ndarray,  # c8 (antenna, doppler, range), Doppler bins in FFT order.
    phases: np.ndarray,  # c8 (doppler, antenna), factors of the antennas.
    groups: np.ndarray,  # i8 (group, 5), a row of the array and four antennas of it.
    azimuth: np.ndarray,  # c8 (azimuth, group, 4), weights of the antennas.
    # c8 (elevation, row), weights of two rows or more; the weights of the first row are one.
    elevation: np.ndarray,
    out: np.ndarray,  # f4 (doppler, elevation, azimuth, range), zero Doppler in the middle.
) -> None:
    """Magnitudes of the transforms along columns and rows of the array, without storing the complex cube."""
    antennas, dopplers, bins = spectrum.shape
    count = elevation.shape[1]
    real, imag = np.empty((antennas, bins), np.float32), np.empty((antennas, bins), np.float32)
    row_real, row_imag = np.empty((count, bins), np.float32), np.empty((count, bins), np.float32)
    x, y = np.empty(bins, np.float32), np.empty(bins, np.float32)
    for doppler in range(dopplers):
        shifted = (doppler + dopplers // 2) % dopplers
        for antenna in range(antennas):
            _rotate(spectrum[antenna, doppler], phases[doppler, antenna], real[antenna], imag[antenna])
        for a in range(len(azimuth)):
            row_real[:] = 0
            row_imag[:] = 0
            for n in range(len(groups)):
                row, i, j, k, m = groups[n]
                v = azimuth[a, n]
                _add_two_scaled(real[i], imag[i], v[0], real[j], imag[j], v[1], row_real[row], row_imag[row])
                _add_two_scaled(real[k], imag[k], v[2], real[m], imag[m], v[3], row_real[row], row_imag[row])
            for e in range(len(elevation)):
                _copy(row_real[0], row_imag[0], x, y)
                for row in range(1, count - 1):
                    add_scaled(row_real[row], row_imag[row], elevation[e, row], x, y)
                w = elevation[e, count - 1]
                _magnitude(x, y, row_real[count - 1], row_imag[count - 1], w, out[shifted, e, a])


@inlined
def _copy(a: Row, b: Row, real: Row, imag: Row) -> None:
    for r in range(len(real)):
        real[r] = a[r]
        imag[r] = b[r]


@inlined
def add_scaled(a: Row, b: Row, w: Any, real: Row, imag: Row) -> None:
    """Add the complex row a + ib times the complex factor w to the row in `real` and `imag`."""
    p, q = w.real, w.imag
    for r in range(len(real)):
        real[r] += a[r] * p - b[r] * q
        imag[r] += a[r] * q + b[r] * p


@inlined
def _add_two_scaled(a: Row, b: Row, w: Any, c: Row, d: Row, v: Any, real: Row, imag: Row) -> None:
    p, q, s, t = w.real, w.imag, v.real, v.imag
    for r in range(len(real)):
        real[r] += (a[r] * p - b[r] * q) + (c[r] * s - d[r] * t)
        imag[r] += (a[r] * q + b[r] * p) + (c[r] * t + d[r] * s)


@inlined
def _magnitude(x: Row, y: Row, a: Row, b: Row, w: Any, out: Row) -> None:
    p, q = w.real, w.imag
    for r in range(len(out)):
        real = x[r] + a[r] * p - b[r] * q
        imag = y[r] + a[r] * q + b[r] * p
        out[r] = np.sqrt(real * real + imag * imag)


#: Smallest power, 100 dB below one squared ADC count: a frame of zeros has no logarithm. Layout.
FLOOR = 1e-10
#: Bins from the middle of the main lobe of a Hann window to its end (On the use of windows for harmonic analysis with
#: the discrete Fourier transform, Proceedings of the IEEE 66, 1978). Physics: F. J. Harris.
MAIN_LOBE_BINS = 2


def window_weights(size: int, window: str) -> np.ndarray:
    """f8 (size,): all one, or the Hann window of `size + 2` points without its zero ends, as in xwr."""
    return np.hanning(size + 2)[1:-1] if window == "hann" else np.ones(size)


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
    words, limits = samples, np.iinfo("i2")
    if not real:
        parts = [samples.imag, samples.real] if order == "qqii" else [samples.real, samples.imag]
        words = np.stack([part.reshape(*samples.shape[:-1], -1, 2) for part in parts], axis=-2)
    words = np.clip(np.rint(words), limits.min, limits.max).astype("i2")
    return words.reshape(*samples.shape[:-1], -1)


def unit_gain_window(size: int, window: str) -> np.ndarray:
    """Window with a coherent gain of one, f4 (size,): a tone of amplitude a ADC counts has a peak of a."""
    weights = window_weights(size, window)
    return (weights / weights.sum()).astype("f4")


@dataclass(frozen=True)
class Coupling:
    """The signal that the antennas couple, as a sum of tones."""

    bins: tuple[float, ...]  #: beat frequency of each tone, range bins of the samples.
    tones: tuple[complex, ...]  #: amplitude of each tone, ADC counts, c16 of (tx, rx, tone) as a flat tuple.
    pairs: tuple[int, int]  #: numbers of transmitters and receivers.
    reach: int  #: last range bin that the coupling is seen in; see `radar.frames`.

    @property
    def amplitudes(self) -> np.ndarray:
        """c16 (tx, rx, tone)."""
        return np.array(self.tones).reshape(*self.pairs, len(self.bins))

    def signal(self, samples: int, real: bool) -> np.ndarray:
        """What every chirp of each antenna holds, c16 (tx, rx, sample), or f8 of real samples."""
        signal = matmul(self.amplitudes, tones_of(self.bins, samples).T)
        return signal.real if real else signal

    def power(self, samples: int, real: bool, window: str = "hann") -> np.ndarray:
        """Power of the coupling in each range bin, mean over antennas, squared ADC counts, f8 (range,)."""
        profile = np.fft.fft(self.signal(samples, real) * unit_gain_window(samples, window), axis=-1)
        return np.asarray((np.abs(profile) ** 2).mean(axis=(0, 1)))


@lru_cache(maxsize=8)
def tones_of(bins: tuple[float, ...], samples: int) -> np.ndarray:
    """Complex tones at beat frequencies, range bins of the samples, c16 (sample, tone)."""
    return np.exp(2j * np.pi * np.outer(np.arange(samples), bins) / samples)


class RangeDoppler:
    """Range-Doppler transform of frames of one shape.

    It processes the antennas of one transmitter at a time, so that their data stays in the processor's cache from
    samples to spectrum. SciPy's transform has the same instructions on every processor, and so the same bytes; those of
    OpenCV, which is faster, depend on the processor. Each thread has buffers of its own: threads can share an object.

    Args:
        shape: of a stored frame, (chirp, tx, rx, 2 * sample), or (chirp, tx, rx, sample) for real samples.
        range_window, doppler_window: "hann" or "none".
        real: whether samples are real. Then the upper half of the range spectrum, which mirrors the lower one, is
            left out.
        order: of the words of two complex samples, "qqii" or "iiqq".
        bins: (doppler, range) after zero padding; 0 = as many as there are chirps or samples.
        remove_static: subtract the mean over the chirps, which is the echo of static targets.
        coupling: that is subtracted from every chirp; None = none. The mean over the chirps holds it too.

    Raises:
        ValueError: frames of this shape are no radar frames, or `bins` are too few.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        range_window: str,
        doppler_window: str,
        real: bool = False,
        *,
        order: str = "qqii",
        bins: tuple[int, int] = (0, 0),
        remove_static: bool = False,
        coupling: Coupling | None = None,
    ) -> None:
        if len(shape) != 4:
            raise ValueError(f"a radar frame is (chirp, tx, rx, sample), not {list(shape)}")
        words = 1 if real else 2
        if shape[3] % (2 if real else 4):
            raise ValueError(
                f"the last axis, {shape[3]}, is no whole number of {'pairs' if real else 'Q Q I I groups'}"
            )
        self._shape = tuple(shape)
        self.chirps, self.tx, self.rx = shape[:3]
        self.samples = shape[3] // words
        self.real, self._order, self._remove_static = real, order, remove_static
        self.doppler_bins = bins[0] or self.chirps
        self.range_bins = bins[1] or (self.samples // 2 if real else self.samples)
        self.fft_length = 2 * self.range_bins if real else self.range_bins
        if self.doppler_bins < self.chirps or self.fft_length < self.samples:
            raise ValueError(
                f"{self.doppler_bins} Doppler and {self.range_bins} range bins are fewer than {self.chirps} chirps and "
                f"{self.samples} samples give; zero padding only adds bins"
            )
        words_of_sample = np.zeros((self.tx, self.rx, self.samples), "f8" if real else "c16")
        if coupling is not None and not remove_static:
            words_of_sample += coupling.signal(self.samples, real)
        self._coupling = words_of_sample.astype("f4" if real else "c8").view("f4")
        self._windows = unit_gain_window(self.chirps, doppler_window), unit_gain_window(self.samples, range_window)
        self._thread = threading.local()

    def spectrum_and_power(self, frame: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Complex amplitudes, in ADC counts, and mean power over the virtual antennas, squared ADC counts.

        Args:
            frame: i2, (chirp, tx, rx, word): `Q Q I I` groups, or plain samples when real.

        Returns:
            c8, (tx, rx, doppler, range), Doppler bins in FFT order: zero velocity first. It is a view of a buffer that
            the next call of the same thread overwrites. And f4, (doppler, range), zero velocity in the middle.
        """
        if frame.shape != self._shape:
            raise ValueError(f"a frame of {list(frame.shape)} where {list(self._shape)} was expected")
        if self._order == "iiqq" and not self.real:
            frame = np.ascontiguousarray(frame.reshape(*frame.shape[:3], -1, 2, 2)[..., ::-1, :]).reshape(frame.shape)
        if self._remove_static:
            frame = frame - frame.mean(axis=0, dtype="f4")
        spectrum, power = self._buffers()
        power[:] = 0
        apply_windows = window_real if self.real else window_complex
        is_padded = (self.chirps, self.samples) != (self.doppler_bins, self.fft_length)
        for tx, antennas in enumerate(spectrum):
            words = antennas.view("f4")
            if is_padded:
                words[:] = 0
            for rx in range(self.rx):
                apply_windows(frame, tx, rx, *self._windows, self._coupling[tx, rx], words[rx])
            # The transform is in place, because a second buffer would take a part of the cache.
            done = scipy.fft.fft2(antennas, overwrite_x=True)
            if not np.may_share_memory(done, antennas):
                antennas[:] = done
            add_power(antennas, power)
        mean = np.fft.fftshift(power / np.float32(self.tx * self.rx), axes=0)
        return spectrum[..., : self.range_bins], mean

    def _buffers(self) -> tuple[np.ndarray, np.ndarray]:
        """The buffers of this thread, c8 (tx, rx, doppler, range) and f4 (doppler, range)."""
        if not hasattr(self._thread, "buffers"):
            spectrum = _aligned((self.tx, self.rx, self.doppler_bins, 2 * self.fft_length)).view("c8")
            self._thread.buffers = spectrum, np.empty((self.doppler_bins, self.range_bins), "f4")
        return self._thread.buffers


def _aligned(shape: tuple[int, ...]) -> np.ndarray:
    """Zeros, f4, aligned to a line of the processor's cache, which makes transforms an eighth faster."""
    line, size = 64, 4 * math.prod(shape)
    memory = np.zeros(size + line, "u1")
    start = -memory.ctypes.data % line
    return memory[start : start + size].view("f4").reshape(shape)


def decibel(power: np.ndarray) -> np.ndarray:
    """10 log10 of a power, f4, at least that of `FLOOR`."""
    level = np.maximum(power, np.float32(FLOOR), dtype="f4")
    np.log10(level, out=level)
    level *= np.float32(10)
    return level
