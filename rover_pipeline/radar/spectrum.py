"""Spectra of TDM-MIMO FMCW radar frames.

Axes are `chirp, tx, rx, sample` before the transform and `doppler, tx, rx, range` after it. Doppler bin
`doppler // 2` is zero velocity, larger bins recede; range bin 0 is at the sensor.
"""

from __future__ import annotations

import threading

import cv2
import numpy as np
import pyfftw

# Below this, 100 dB under one ADC count, a power is that of a frame of zeros.
FLOOR = 1e-10

_PLANNING = threading.Lock()


def taper(size: int, window: str) -> np.ndarray:
    """Weights that sum to one, f4 of (size,): a tone of amplitude a ADC counts keeps a peak of a.

    The Hann window has no zero weights (`size + 2` points without the ends), as in xwr.
    """
    weights = np.hanning(size + 2)[1:-1] if window == "hann" else np.ones(size)
    return (weights / weights.sum()).astype("f4")


class RangeDoppler:
    """Range-Doppler transform of one frame at a time, for one shape of frame.

    One frame at a time, and with plans that are estimated rather than measured: the last bits of a batched or
    measured FFTW plan depend on the batch and on the day. Buffers belong to a thread, so an object can be shared.

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
        by_word = np.repeat(taper(self.samples, range_window), words)
        window = taper(self.chirps, doppler_window)[:, None, None] * by_word
        # Spelled out for every antenna: broadcasting over the middle axis costs numpy half its speed.
        self._window = np.repeat(window, self.tx * self.rx, axis=1)
        self._thread = threading.local()

    def spectrum(self, frame: np.ndarray) -> np.ndarray:
        """Complex amplitudes, in ADC counts.

        Args:
            frame: i2, (chirp, tx, rx, word): `Q Q I I` groups, or plain samples when real.

        Returns:
            c8, (doppler, tx, rx, range), Doppler bins in FFT order: zero velocity first. A view of a buffer that the
            thread's next call fills again.
        """
        buffers = self._buffers()
        words = frame.reshape(self.chirps, self.tx * self.rx, -1)
        if not self.real:
            words = self._i_before_q(words, buffers.words)
        # Beyond the chirps and samples the input stays as it was made: zero.
        padded = buffers.input.view("f4")[: self.chirps, :, : words.shape[-1]]
        np.multiply(words, self._window, out=padded)
        if self._remove_static:
            padded -= words.mean(axis=0, dtype="f4") * self._window
        buffers.plan.execute()
        return buffers.output[..., : self.bins].reshape(self.doppler_bins, self.tx, self.rx, self.bins)

    def power(self, frame: np.ndarray) -> np.ndarray:
        """Mean power over the virtual antennas, f4, (doppler, range), squared ADC counts."""
        return self.power_of(self.spectrum(frame))

    def power_of(self, spectrum: np.ndarray) -> np.ndarray:
        """The same of a frame that is transformed already: c8, (doppler, tx, rx, range) of `spectrum`."""
        words = spectrum.reshape(self.doppler_bins, self.tx * self.rx, self.bins).view("f4")
        # Real and imaginary parts are summed over antennas side by side and added last: summing pairs innermost takes
        # numpy forty times as long.
        total = np.einsum("daw,daw->dw", words, words, optimize=False)
        total = total[:, 0::2] + total[:, 1::2]
        return np.fft.fftshift(total, axes=0) / np.float32(self.tx * self.rx)

    def _i_before_q(self, words: np.ndarray, out: np.ndarray) -> np.ndarray:
        """From the stored `Q Q I I` to `I Q I Q`: two LVDS lanes interleave, each with the Q word first."""
        shape = (-1, words.shape[-1] // 4, 4)
        moves = [2, 0, 0, 1, 3, 2, 1, 3] if self._order == "qqii" else [0, 0, 2, 1, 1, 2, 3, 3]
        cv2.mixChannels([words.reshape(shape)], [out.reshape(shape)], moves)
        return out

    def _buffers(self) -> _Buffers:
        if not hasattr(self._thread, "buffers"):
            bins = (self.doppler_bins, self.tx * self.rx, self.length)
            self._thread.buffers = _Buffers(self.chirps, self.samples, bins, self.real)
        buffers: _Buffers = self._thread.buffers
        return buffers


class _Buffers:
    """Aligned input and output of a thread, with the plan that connects them."""

    def __init__(self, chirps: int, samples: int, shape: tuple[int, int, int], real: bool) -> None:
        self.words = np.empty((chirps, shape[1], 2 * samples), "i2")
        self.input = pyfftw.zeros_aligned(shape, "f4" if real else "c8")
        self.output = pyfftw.empty_aligned((*shape[:2], shape[2] // 2 + 1) if real else shape, "c8")
        # An estimated plan follows the wisdom that a measured one left in this process, and its last bits with it.
        with _PLANNING:
            wisdom = pyfftw.export_wisdom()
            pyfftw.forget_wisdom()
            self.plan = pyfftw.FFTW(self.input, self.output, axes=(0, 2), flags=("FFTW_ESTIMATE",), threads=1)
            pyfftw.import_wisdom(wisdom)


def decibel(power: np.ndarray) -> np.ndarray:
    """10 log10 of a power, f4, never below that of `FLOOR`."""
    return np.float32(10) * np.log10(np.maximum(power, np.float32(FLOOR)), dtype="f4")
