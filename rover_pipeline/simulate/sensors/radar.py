"""FMCW radar with time-division multiplexing (TDM) of its transmitters: from echoes to the words of the ADC.

Axes: chirp, tx, rx, sample. The radar frame is front-left-up. An echo at distance d gives exp(+2 pi i f (2 d / c))
with the frequency f of the ramp at the time of the sample. So range is a positive frequency along the samples, receding
speed along the chirps, and an angle to the right along an array that is numbered towards the left.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy.fft

from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.simulate.sensors.chirps import SPEED_OF_LIGHT, Chirps
from rover_pipeline.simulate.sensors.propagation import NODES, Paths

#: ADC counts of an echo of 1 m² at 1 m, and standard deviation of the thermal noise in each of I and Q.
GAIN, NOISE = 9000.0, 20.0
#: Payload of one packet on the capture card's network, in int16 words.
PACKET_WORDS = 728

# Non-uniform FFT: each echo is spread over the points around its beat frequency, on a grid twice as fine as the range
# bins. The kernel is the exponential of a semicircle (Barnett, Magland and af Klinteberg, SISC 41, 2019), with its
# width in grid points. The error is 1e-6 of the strongest echo.
_WIDTH = 8
_SHAPE = 2.30 * _WIDTH


class _Waveform(NamedTuple):
    """What the kernel needs to know of a frame's chirps.

    Attributes:
        fractions: (ramp,), instants of the ramps' middle samples as fractions of the frame's duration.
        tx: (ramp, 2), position of the transmitter that fires; rx: (rx, 2).
        wavelengths_per_metre: at the middle sample.
        beat_per_metre: cycles per sample for a metre of propagation path.
        frame_samples: duration of the frame in sample periods.
        max_range: metres, where the anti-aliasing filter has closed; it begins to close at 90 % of it.
    """

    fractions: np.ndarray
    tx: np.ndarray
    rx: np.ndarray
    wavelengths_per_metre: float
    beat_per_metre: float
    frame_samples: float
    max_range: float


def synthesize(chirps: Chirps, paths: Paths) -> np.ndarray:
    """The beat signal of a frame without noise, c16 (chirp, tx, rx, sample), ADC counts.

    The transmitters fire one after the other, a ramp apart, and the scatterers move in the meantime.
    """
    loops, transmitters, receivers, samples = chirps.shape
    tx, rx = chirps.antennas
    rate = chirps.sample_rate * 1e3
    waveform = _Waveform(
        fractions=(np.arange(loops * transmitters) * chirps.ramp_period + chirps.middle_sample) / chirps.duration,
        tx=np.tile(tx, (loops, 1)),
        rx=rx,
        wavelengths_per_metre=chirps.centre_frequency / SPEED_OF_LIGHT,
        beat_per_metre=chirps.slope / SPEED_OF_LIGHT / rate,
        frame_samples=chirps.duration * rate,
        max_range=chirps.max_range,
    )
    cubic = np.linalg.solve(np.vander(NODES, increasing=True), paths.distance)
    grid = np.zeros((loops * transmitters, receivers, 2 * samples), "c16")
    _spread(grid, np.ascontiguousarray(cubic.T), paths, waveform)
    # Phases are given at the middle sample, which the inverse FFT puts first.
    signal = scipy.fft.ifft(grid, axis=-1, overwrite_x=True, norm="forward")
    signal = np.concatenate([signal[..., -samples // 2 :], signal[..., : samples // 2]], -1)
    return (signal / _response(samples)).reshape(loops, transmitters, receivers, samples)


@compiled
def _spread(grid: np.ndarray, cubic: np.ndarray, paths: Paths, waveform: _Waveform) -> None:
    """Add every echo to the grid of beat frequencies, c16 (ramp, rx, grid), at its frequency in each ramp.

    Args:
        cubic: (path, 4), distance as a polynomial of the fraction of the frame, coefficients from the constant up.
    """
    tx, rx, per_metre, end = waveform.tx, waveform.rx, waveform.wavelengths_per_metre, waveform.max_range
    full = 0.9 * end
    count, size = grid.shape[0], grid.shape[2]
    weights = np.empty(_WIDTH)
    for s in range(len(paths.amplitude)):
        k = cubic[s]
        for ramp in range(count):
            x = waveform.fractions[ramp]
            d = k[0] + x * (k[1] + x * (k[2] + x * k[3]))
            if d >= end:
                continue
            strength = GAIN * paths.amplitude[s] * min(1.0, (end - d) / (end - full))
            speed = (k[1] + x * (2.0 * k[2] + x * 3.0 * k[3])) / waveform.frame_samples  # Metres per sample period.
            before, after = paths.direction[0, s], paths.direction[1, s]
            left, up = before[0] + x * (after[0] - before[0]), before[1] + x * (after[1] - before[1])
            # Range-Doppler coupling: motion during the ramp shifts the beat frequency a little.
            beat = 2.0 * (d * waveform.beat_per_metre + speed * per_metre)
            position = beat * size
            first = math.ceil(position - _WIDTH / 2)
            begin = first % size
            for n in range(_WIDTH):
                z = (first + n - position) * (2.0 / _WIDTH)
                weights[n] = np.exp(_SHAPE * (math.sqrt(max(0.0, 1.0 - z * z)) - 1.0))
            tx_cycles = 2.0 * d * per_metre - tx[ramp, 0] * left - tx[ramp, 1] * up
            for r in range(len(rx)):
                cycles = tx_cycles - rx[r, 0] * left - rx[r, 1] * up
                angle = 2.0 * np.pi * (cycles - np.floor(cycles)) + paths.phase[s]
                echo = strength * complex(np.cos(angle), np.sin(angle))
                for n in range(_WIDTH):
                    at = begin + n if begin + n < size else begin + n - size
                    grid[ramp, r, at] += echo * weights[n]


@lru_cache(maxsize=4)
def _response(samples: int) -> np.ndarray:
    """Factor of the gridding kernel on each sample: its Fourier transform around the middle sample, (sample,)."""
    x = np.linspace(-1, 1, 4001)
    kernel = np.exp(_SHAPE * (np.sqrt(1 - x**2) - 1))
    offset = np.arange(-samples // 2, samples - samples // 2) / (2 * samples)
    waves = np.cos(2 * np.pi * offset[:, None] * x * _WIDTH / 2)
    response: np.ndarray = np.trapezoid(kernel * waves, x, axis=1) * _WIDTH / 2
    return response


def digitize(signal: np.ndarray, is_real: bool, rng: np.random.Generator) -> np.ndarray:
    """The ADC's words with thermal noise, i2 (chirp, tx, rx, word): `Q Q I I` for two samples, or real samples."""
    parts = np.stack([signal.real] if is_real else [signal.imag, signal.real], -2)
    parts += NOISE * rng.standard_normal(parts.shape, "f4")
    words = np.clip(np.rint(parts), -32768, 32767).astype("<i2")
    if is_real:
        return words[..., 0, :]
    *lead, _, samples = words.shape
    pairs = words.reshape(*lead, 2, samples // 2, 2)
    return np.ascontiguousarray(np.swapaxes(pairs, -3, -2)).reshape(*lead, 2 * samples)


def drop_packets(words: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The frame as it is recorded when one to three of its packets are lost: with zeros in their place."""
    flat = words.reshape(-1).copy()
    for packet in rng.choice(-(-len(flat) // PACKET_WORDS), rng.integers(1, 4), replace=False):
        flat[packet * PACKET_WORDS : (packet + 1) * PACKET_WORDS] = 0
    return flat.reshape(words.shape)
