"""Spectra of TDM-MIMO FMCW radar frames.

Axes are `chirp, tx, rx, sample` before the transform and `tx, rx, doppler, range` after it: an antenna's part is in one
piece, small enough for a processor's cache. Range bin 0 is at the sensor; larger Doppler bins recede.
"""

from __future__ import annotations

import math
import threading

import cv2
import numpy as np

# Below this, 100 dB under one ADC count, a power is that of a frame of zeros.
FLOOR = 1e-10


def taper(size: int, window: str) -> np.ndarray:
    """Weights that sum to one, f4 of (size,): a tone of amplitude a ADC counts keeps a peak of a.

    The Hann window has no zero weights (`size + 2` points without the ends), as in xwr.
    """
    weights = np.hanning(size + 2)[1:-1] if window == "hann" else np.ones(size)
    return (weights / weights.sum()).astype("f4")


class RangeDoppler:
    """Range-Doppler transform of one frame at a time, for one shape of frame.

    One antenna at a time, which stays in the processor's cache from its samples to its spectrum. OpenCV's transform
    gives the same bytes wherever a buffer lies and however many threads it has. Buffers belong to a thread, so an
    object can be shared.

    Args:
        shape: of a stored frame, (chirp, tx, rx, 2 * sample), or (chirp, tx, rx, sample) for real samples.
        range_window, doppler_window: "hann" or "none".
        real: whether samples have no imaginary part. Then the upper half of the range spectrum, which mirrors the
            lower one, is left out.
        order: of the words of two complex samples, "qqii" or "iiqq".
        bins: (doppler, range) after zero padding; None, or a 0 in it = as many as there are chirps and samples.
        remove_static: subtract the mean over the chirps, which holds what does not move.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        range_window: str,
        doppler_window: str,
        real: bool = False,
        *,
        order: str = "qqii",
        bins: tuple[int, int] | None = None,
        remove_static: bool = False,
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
        wanted = bins or (0, 0)
        self.doppler_bins = wanted[0] or self.chirps
        self.bins = wanted[1] or (self.samples // 2 if real else self.samples)
        self.length = 2 * self.bins if real else self.bins
        if self.doppler_bins < self.chirps or self.length < self.samples:
            raise ValueError(
                f"{self.doppler_bins} Doppler and {self.bins} range bins are fewer than {self.chirps} chirps and "
                f"{self.samples} samples give; zero padding only adds bins"
            )
        self._windows = taper(self.chirps, doppler_window), taper(self.samples, range_window)
        self._thread = threading.local()

    def spectrum(self, frame: np.ndarray) -> np.ndarray:
        """Complex amplitudes, in ADC counts.

        Args:
            frame: i2, (chirp, tx, rx, word): `Q Q I I` groups, or plain samples when real.

        Returns:
            c8, (tx, rx, doppler, range), Doppler bins in FFT order: zero velocity first. A view of a buffer that the
            thread's next call fills again.
        """
        buffers = self._buffers()
        self._transform(frame, buffers.antennas)
        return buffers.spectrum[..., : self.bins]

    def power(self, frame: np.ndarray) -> np.ndarray:
        """Mean power over the virtual antennas, f4, (doppler, range), squared ADC counts.

        Doppler bin `doppler // 2` is zero velocity.
        """
        buffers = self._buffers()
        # The same buffer for all antennas: it stays in the processor's cache.
        self._transform(frame, buffers.antennas[:1] * len(buffers.antennas), buffers.squares)
        return self._mean_power(buffers.squares)

    def spectrum_and_power(self, frame: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What `spectrum` and `power` give, of one transform."""
        buffers = self._buffers()
        self._transform(frame, buffers.antennas, buffers.squares)
        return buffers.spectrum[..., : self.bins], self._mean_power(buffers.squares)

    def _transform(self, frame: np.ndarray, antennas: list[np.ndarray], squares: np.ndarray | None = None) -> None:
        """Fill a buffer for each antenna with its spectrum, and `squares` with the sum of their squares."""
        from rover_pipeline.radar.kernels import taper_complex, taper_real

        if frame.shape != self._shape:
            raise ValueError(f"a frame of {list(frame.shape)} where {list(self._shape)} was expected")
        if self._order == "iiqq" and not self.real:
            frame = np.ascontiguousarray(frame.reshape(*frame.shape[:3], -1, 2, 2)[..., ::-1, :]).reshape(frame.shape)
        if self._remove_static:
            frame = frame - frame.mean(axis=0, dtype="f4")
        if squares is not None:
            squares[:] = 0
        tapered = taper_real if self.real else taper_complex
        padded = (self.chirps, self.samples) != (self.doppler_bins, self.length)
        for number, buffer in enumerate(antennas):
            words = buffer.reshape(self.doppler_bins, -1)
            if padded:
                words[:] = 0
            tapered(frame, *divmod(number, self.rx), *self._windows, words)
            # In place: another buffer would take a part of the cache.
            cv2.dft(buffer, buffer)
            if squares is not None:
                cv2.accumulateSquare(buffer, squares)

    def _mean_power(self, squares: np.ndarray) -> np.ndarray:
        power = squares[:, : self.bins, 0] + squares[:, : self.bins, 1]
        power /= np.float32(self.tx * self.rx)
        return np.fft.fftshift(power, axes=0)

    def _buffers(self) -> _Buffers:
        if not hasattr(self._thread, "buffers"):
            self._thread.buffers = _Buffers((self.tx, self.rx, self.doppler_bins, self.length))
        buffers: _Buffers = self._thread.buffers
        return buffers


class _Buffers:
    """What a thread works on: the spectrum, a part of it for each antenna, and the sum of their squares."""

    def __init__(self, shape: tuple[int, int, int, int]) -> None:
        # OpenCV takes arrays of (doppler, range, 2), f4, for complex ones.
        spectrum, self.squares = _aligned((*shape, 2)), _aligned((*shape[2:], 2))
        self.spectrum = spectrum.view("c8")[..., 0]
        self.antennas = list(spectrum.reshape(-1, *shape[2:], 2))


def _aligned(shape: tuple[int, ...]) -> np.ndarray:
    """Zeros, f4, that begin with a line of the processor's cache: transforms are an eighth faster so."""
    line, size = 64, 4 * math.prod(shape)
    memory = np.zeros(size + line, "u1")
    start = -memory.ctypes.data % line
    return memory[start : start + size].view("f4").reshape(shape)


def decibel(power: np.ndarray) -> np.ndarray:
    """10 log10 of a power, f4, never below that of `FLOOR`."""
    level = np.maximum(power, np.float32(FLOOR), dtype="f4")
    np.log10(level, out=level)
    level *= np.float32(10)
    return level
