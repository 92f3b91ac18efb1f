"""FMCW radar with time-division MIMO: from echoes to the words that the ADC puts out.

Axis words: chirp, tx, rx, sample. Radar frame front-left-up. An echo at distance d gives exp(+2 pi i f (2 d / c)) with
the frequency f of the ramp at the time of the sample, so range and receding speed are positive frequencies along
samples and chirps; an echo to the right is a positive frequency along an array that is numbered towards the left.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy.fft

from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.simulate.chirps import SPEED_OF_LIGHT, Chirps
from rover_pipeline.simulate.scatterers import NODES, Paths

#: ADC counts of an echo of 1 m² at 1 m, and of the thermal noise in each of I and Q.
GAIN, NOISE = 9000.0, 20.0
#: Payload of one packet on the capture card's network, in int16 words.
PACKET = 728

# Gridding of the beat frequencies: kernel width in grid points and its shape (exp of a semicircle; Barnett, Magland
# and af Klinteberg, SISC 2019), on a grid twice as fine as the range bins. Its error is 1e-6 of the strongest echo.
_WIDTH = 8
_SHAPE = 2.30 * _WIDTH


def synthesize(chirps: Chirps, paths: Paths) -> np.ndarray:
    """The beat signal of a frame without noise, complex128 (chirp, tx, rx, sample), ADC counts.

    The transmitters fire in turn, each one ramp later than the one before, at where everything is by then.
    """
    loops, transmitters, receivers, samples = chirps.shape
    place, array = chirps.antennas
    shares = (np.arange(loops * transmitters) * chirps.ramp_period + chirps.middle) / chirps.duration
    cubic = np.linalg.solve(np.vander(NODES, increasing=True), paths.distance)
    grid = np.zeros((loops * transmitters, receivers, 2 * samples), "c16")
    rate = chirps.sample_rate * 1e3
    _spread(
        grid, shares, np.ascontiguousarray(cubic.T), *paths[1:], np.tile(place, (loops, 1)), array,
        GAIN, chirps.centre_frequency / SPEED_OF_LIGHT, chirps.slope / SPEED_OF_LIGHT / rate, chirps.duration * rate,
        0.9 * chirps.max_range, chirps.max_range,
    )  # fmt: skip
    # The phase is counted from the middle sample, which an inverse transform has at its start.
    signal = scipy.fft.ifft(grid, axis=-1, overwrite_x=True, norm="forward")
    window = np.concatenate([signal[..., -samples // 2 :], signal[..., : samples // 2]], -1)
    return (window / _response(samples)).reshape(loops, transmitters, receivers, samples)


@compiled
def _spread(
    grid: np.ndarray,
    shares: np.ndarray,
    cubic: np.ndarray,
    direction: np.ndarray,
    amplitude: np.ndarray,
    phase: np.ndarray,
    transmitters: np.ndarray,
    receivers: np.ndarray,
    gain: float,
    per_metre: float,
    beat_per_metre: float,
    frame_samples: float,
    full: float,
    end: float,
) -> None:
    """Adds every echo to the beat-frequency grid, c16 (ramp, rx, grid), at its frequency at that ramp.

    Args:
        shares: (ramp,), of the frame that has gone by the middle sample of each ramp.
        cubic: (echo, 4), distance by share of the frame, coefficients from the constant up.
        transmitters: (ramp, 2), the one that fires; receivers: (rx, 2).
        per_metre: wavelengths a metre in the middle of the samples; beat_per_metre: cycles a sample a metre of path.
        frame_samples: duration of the frame in sample periods.
        full, end: distances at which the anti-aliasing filter begins to close and has closed.
    """
    count, size = grid.shape[0], grid.shape[2]
    for s in range(len(amplitude)):
        k = cubic[s]
        for ramp in range(count):
            x = shares[ramp]
            d = k[0] + x * (k[1] + x * (k[2] + x * k[3]))
            if d >= end:
                continue
            strength = gain * amplitude[s] * min(1.0, (end - d) / (end - full))
            slide = (k[1] + x * (2.0 * k[2] + x * 3.0 * k[3])) / frame_samples  # metres a sample period
            left = direction[0, s, 0] + x * (direction[1, s, 0] - direction[0, s, 0])
            up = direction[0, s, 1] + x * (direction[1, s, 1] - direction[0, s, 1])
            # Motion during the ramp shifts the beat frequency a little: range-Doppler coupling.
            beat = 2.0 * (d * beat_per_metre + slide * per_metre)
            spot = beat * size
            first = int(np.ceil(spot - _WIDTH / 2))
            sent = 2.0 * d * per_metre - transmitters[ramp, 0] * left - transmitters[ramp, 1] * up
            for r in range(len(receivers)):
                turns = sent - receivers[r, 0] * left - receivers[r, 1] * up
                angle = 2.0 * np.pi * (turns - np.floor(turns)) + phase[s]
                echo = strength * complex(np.cos(angle), np.sin(angle))
                for n in range(_WIDTH):
                    z = (first + n - spot) * (2.0 / _WIDTH)
                    grid[ramp, r, (first + n) % size] += echo * np.exp(_SHAPE * (np.sqrt(max(0.0, 1.0 - z * z)) - 1.0))


@lru_cache(maxsize=4)
def _response(samples: int) -> np.ndarray:
    """What the gridding kernel does to each sample, counted from the middle one: its Fourier integral, (sample,)."""
    fine = np.linspace(-1, 1, 4001)
    kernel = np.exp(_SHAPE * (np.sqrt(1 - fine**2) - 1))
    offset = np.arange(-samples // 2, samples - samples // 2) / (2 * samples)
    waves = np.cos(2 * np.pi * offset[:, None] * fine * _WIDTH / 2)
    response: np.ndarray = np.trapezoid(kernel * waves, fine, axis=1) * _WIDTH / 2
    return response


def digitize(signal: np.ndarray, is_real: bool, rng: np.random.Generator) -> np.ndarray:
    """The ADC's words with thermal noise, i2 (chirp, tx, rx, word): `Q Q I I` of two samples, or real samples."""
    parts = np.stack([signal.real] if is_real else [signal.imag, signal.real], -2)
    parts += NOISE * rng.standard_normal(parts.shape, "f4")
    words = np.clip(np.rint(parts), -32768, 32767).astype("<i2")
    if is_real:
        return words[..., 0, :]
    *lead, _, samples = words.shape
    pairs = words.reshape(*lead, 2, samples // 2, 2)
    return np.ascontiguousarray(np.swapaxes(pairs, -3, -2)).reshape(*lead, 2 * samples)


def lose_packets(words: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The frame as it is recorded when some of its packets do not arrive: zeros in their place."""
    flat = words.reshape(-1).copy()
    for packet in rng.choice(-(-len(flat) // PACKET), rng.integers(1, 4), replace=False):
        flat[packet * PACKET : (packet + 1) * PACKET] = 0
    return flat.reshape(words.shape)
