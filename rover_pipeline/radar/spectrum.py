"""Spectra of TDM-MIMO FMCW radar frames.

Axes are `chirp, tx, rx, sample` before the transform and `tx, rx, doppler, range` after it: the part of one antenna is
contiguous, and small enough for a processor's cache. Range bin 0 is at the sensor; larger Doppler bins recede.
"""

from __future__ import annotations

import math
import threading

import cv2
import numpy as np

from rover_pipeline.radar.kernels import window_complex, window_real

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
    limits = np.iinfo("i2")
    if real:
        return np.clip(np.rint(samples), limits.min, limits.max).astype("i2")
    parts = [samples.imag, samples.real] if order == "qqii" else [samples.real, samples.imag]
    groups = np.stack([part.reshape(*samples.shape[:-1], -1, 2) for part in parts], axis=-2)
    words = np.clip(np.rint(groups), limits.min, limits.max).astype("i2")
    return words.reshape(*samples.shape[:-1], -1)


def unit_gain_window(size: int, window: str) -> np.ndarray:
    """Window with a coherent gain of one, f4 (size,): a tone of amplitude a ADC counts has a peak of a."""
    weights = window_weights(size, window)
    return (weights / weights.sum()).astype("f4")


class RangeDoppler:
    """Range-Doppler transform of frames of one shape.

    It processes one antenna at a time, so that its data stays in the processor's cache from samples to spectrum.
    OpenCV's transform gives the same bytes at any address of the buffer and with any number of threads. Each thread has
    buffers of its own, so threads can share an object.

    Args:
        shape: of a stored frame, (chirp, tx, rx, 2 * sample), or (chirp, tx, rx, sample) for real samples.
        range_window, doppler_window: "hann" or "none".
        real: whether samples are real. Then the upper half of the range spectrum, which mirrors the lower one, is
            left out.
        order: of the words of two complex samples, "qqii" or "iiqq".
        bins: (doppler, range) after zero padding; 0 = as many as there are chirps or samples.
        remove_static: subtract the mean over the chirps, which is the echo of static targets.
        coupling: signal that every chirp holds besides the echoes, c16 (tx, rx, sample), or f8 of real samples; it is
            subtracted. None = none. The mean over the chirps holds it too.

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
        coupling: np.ndarray | None = None,
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
            words_of_sample += coupling
        self._coupling = words_of_sample.astype("f4" if real else "c8").view("f4")
        self._windows = unit_gain_window(self.chirps, doppler_window), unit_gain_window(self.samples, range_window)
        self._thread = threading.local()

    def spectrum(self, frame: np.ndarray) -> np.ndarray:
        """Complex amplitudes, in ADC counts.

        Args:
            frame: i2, (chirp, tx, rx, word): `Q Q I I` groups, or plain samples when real.

        Returns:
            c8, (tx, rx, doppler, range), Doppler bins in FFT order: zero velocity first. It is a view of a buffer that
            the next call of the same thread overwrites.
        """
        buffers = self._buffers()
        self._transform(frame, buffers.antennas)
        return buffers.spectrum[..., : self.range_bins]

    def power(self, frame: np.ndarray) -> np.ndarray:
        """Mean power over the virtual antennas, f4, (doppler, range), squared ADC counts.

        Doppler bin `doppler // 2` is zero velocity.
        """
        buffers = self._buffers()
        # All antennas use the same buffer, which therefore stays in the processor's cache.
        self._transform(frame, buffers.antennas[:1] * len(buffers.antennas), buffers.squares)
        return self._mean_power(buffers.squares)

    def spectrum_and_power(self, frame: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The results of `spectrum` and `power`, from one transform."""
        buffers = self._buffers()
        self._transform(frame, buffers.antennas, buffers.squares)
        return buffers.spectrum[..., : self.range_bins], self._mean_power(buffers.squares)

    def _transform(self, frame: np.ndarray, antennas: list[np.ndarray], squares: np.ndarray | None = None) -> None:
        """Fill the buffer of each antenna with its spectrum, and `squares` with the sum of their squares."""
        if frame.shape != self._shape:
            raise ValueError(f"a frame of {list(frame.shape)} where {list(self._shape)} was expected")
        if self._order == "iiqq" and not self.real:
            frame = np.ascontiguousarray(frame.reshape(*frame.shape[:3], -1, 2, 2)[..., ::-1, :]).reshape(frame.shape)
        if self._remove_static:
            frame = frame - frame.mean(axis=0, dtype="f4")
        if squares is not None:
            squares[:] = 0
        apply_windows = window_real if self.real else window_complex
        is_padded = (self.chirps, self.samples) != (self.doppler_bins, self.fft_length)
        for number, buffer in enumerate(antennas):
            words = buffer.reshape(self.doppler_bins, -1)
            if is_padded:
                words[:] = 0
            tx, rx = divmod(number, self.rx)
            apply_windows(frame, tx, rx, *self._windows, self._coupling[tx, rx], words)
            # The transform is in place, because a second buffer would take a part of the cache.
            cv2.dft(buffer, buffer)
            if squares is not None:
                cv2.accumulateSquare(buffer, squares)

    def _mean_power(self, squares: np.ndarray) -> np.ndarray:
        power = squares[:, : self.range_bins, 0] + squares[:, : self.range_bins, 1]
        power /= np.float32(self.tx * self.rx)
        return np.fft.fftshift(power, axes=0)

    def _buffers(self) -> _Buffers:
        if not hasattr(self._thread, "buffers"):
            self._thread.buffers = _Buffers((self.tx, self.rx, self.doppler_bins, self.fft_length))
        buffers: _Buffers = self._thread.buffers
        return buffers


class _Buffers:
    """The buffers of one thread: the spectrum, a view of it for each antenna, and the sum of their squares."""

    def __init__(self, shape: tuple[int, int, int, int]) -> None:
        # OpenCV stores a complex array as f4 (doppler, range, 2).
        spectrum, self.squares = _aligned((*shape, 2)), _aligned((*shape[2:], 2))
        self.spectrum = spectrum.view("c8")[..., 0]
        self.antennas = list(spectrum.reshape(-1, *shape[2:], 2))


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
