"""FMCW radar with time-division multiplexing (TDM) of its transmitters: from echoes to the words of the ADC.

Axes: chirp, tx, rx, sample. The radar frame is front-left-up. An echo at distance d gives exp(+2 pi i f (2 d / c))
with the frequency f of the ramp at the time of the sample. So range is a positive frequency along the samples, receding
speed along the chirps, and an angle to the right along an array that is numbered towards the left.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy.fft
from scipy.constants import speed_of_light

from rover_pipeline.numerics.compiled import compiled, inlined
from rover_pipeline.numerics.linear import matmul, solve
from rover_pipeline.simulate.faults import Unkind
from rover_pipeline.simulate.scene.materials import f4
from rover_pipeline.simulate.sensors.chirps import Chirps
from rover_pipeline.simulate.sensors.propagation import NODES, Paths

#: ADC counts of an echo of 1 m² at 1 m, and standard deviation of the thermal noise in each of I and Q. Layout.
GAIN, NOISE = 9000.0, 20.0
#: Payload of one packet on the capture card's network, in int16 words. Layout.
PACKET_WORDS = 728

# Non-uniform FFT: each echo is spread over the points around its beat frequency, on a grid twice as fine as the range
# bins. The kernel is the exponential of a semicircle (Barnett, Magland and af Klinteberg, SISC 41, 2019), with its
# width in grid points. The error is 1e-6 of the strongest echo, more than that of adding echoes as f4.
# Physics: Barnett et al.
_WIDTH = 8
_SHAPE = 2.30 * _WIDTH
#: Rows of the table of the kernel for a step of one grid point. Between them it is linear, 1e-7 off at most. Layout.
_ROWS = 2048


def _kernel(x: np.ndarray) -> np.ndarray:
    """The gridding kernel at -1 to 1, and 0 outside."""
    return np.where(np.abs(x) <= 1, np.exp(_SHAPE * (np.sqrt(np.maximum(0, 1 - x**2)) - 1)), 0)


#: The kernel at the grid points around an echo, f4 (_ROWS + 1, _WIDTH): the first one is `row / _ROWS` grid points
#: after the kernel's beginning. Layout.
_TABLE = _kernel((np.arange(_ROWS + 1)[:, None] / _ROWS + np.arange(_WIDTH)) * (2 / _WIDTH) - 1).astype("f4")


class _Waveform(NamedTuple):
    """What the kernel needs to know of a frame's chirps."""

    fractions: np.ndarray  #: (ramp,), instants of the ramps' middle samples as fractions of the frame's duration.
    tx: np.ndarray  #: (ramp, 2), position of the transmitter that fires.
    rx: np.ndarray  #: (rx, 2).
    wavelengths_per_metre: float  #: at the middle sample.
    beat_per_metre: float  #: cycles per sample for a metre of propagation path.
    frame_samples: float  #: duration of the frame in sample periods.
    max_range: float  #: metres, where the anti-aliasing filter has closed; it begins to close at 90 % of it.


def synthesize(chirps: Chirps, paths: Paths) -> np.ndarray:
    """The beat signal of a frame without noise, c8 (chirp, tx, rx, sample), ADC counts.

    The transmitters fire one after the other, a ramp apart, and the scatterers move in the meantime.
    """
    loops, transmitters, receivers, samples = chirps.shape
    tx, rx = chirps.antennas
    rate = chirps.sample_rate * 1e3
    waveform = _Waveform(
        fractions=(np.arange(loops * transmitters) * chirps.ramp_period + chirps.middle_sample) / chirps.duration,
        tx=np.tile(tx, (loops, 1)),
        rx=rx,
        wavelengths_per_metre=chirps.centre_frequency / speed_of_light,
        beat_per_metre=chirps.slope / speed_of_light / rate,
        frame_samples=chirps.duration * rate,
        max_range=chirps.max_range,
    )
    cubic = solve(np.vander(NODES, increasing=True), paths.distance)
    size = 2 * samples
    # Points beyond the end of the grid belong to its beginning.
    parts = np.zeros((2, loops * transmitters, receivers, size + _WIDTH), "f4")
    _spread(parts, np.ascontiguousarray(cubic.T), paths, waveform, _TABLE)
    parts[..., :_WIDTH] += parts[..., size:]
    grid = np.empty((*parts.shape[1:3], size), "c8")
    grid.real, grid.imag = parts[..., :size]
    # Phases are given at the middle sample, which the inverse FFT puts first.
    signal = scipy.fft.ifft(grid, axis=-1, overwrite_x=True, norm="forward")
    response = _response(samples)
    first, second = signal[..., -samples // 2 :] * response[: samples // 2], signal[..., : samples // 2]
    signal = np.concatenate([first, second * response[samples // 2 :]], -1)
    return signal.reshape(loops, transmitters, receivers, samples)


@compiled
def _spread(parts: np.ndarray, cubic: np.ndarray, paths: Paths, waveform: _Waveform, table: np.ndarray) -> None:
    """Add every echo to the grid of beat frequencies at its frequency in each ramp.

    Args:
        parts: f4 (2, ramp, rx, grid), real and imaginary parts; the last `_WIDTH` points continue the grid.
        cubic: (path, 4), distance as a polynomial of the fraction of the frame, coefficients from the constant up.
        table: of the kernel.
    """
    tx, rx, per_metre, end = waveform.tx, waveform.rx, waveform.wavelengths_per_metre, waveform.max_range
    full = 0.9 * end
    count, size = parts.shape[1], parts.shape[3] - _WIDTH
    cycles, left, up = np.empty(count), np.empty(count), np.empty(count)
    point, strength = np.empty(count), np.empty(count, np.float32)
    row, between, place = np.empty(count, np.int32), np.empty(count, np.float32), np.empty(count, np.int32)
    weights = np.empty(_WIDTH, np.float32)
    angle, wave = np.empty(count, np.float32), np.empty((2, len(rx), count), np.float32)
    for s in range(len(paths.amplitude)):
        k0, k1, k2, k3 = cubic[s, 0], cubic[s, 1], cubic[s, 2], cubic[s, 3]
        amplitude, phase = GAIN * paths.amplitude[s], paths.phase[s] / (2.0 * np.pi)
        left_0, up_0 = paths.direction[0, s, 0], paths.direction[0, s, 1]
        left_1, up_1 = paths.direction[1, s, 0] - left_0, paths.direction[1, s, 1] - up_0
        # Loops without branches on numbers of one size are compiled to vector instructions.
        for ramp in range(count):
            x = waveform.fractions[ramp]
            d = k0 + x * (k1 + x * (k2 + x * k3))
            strength[ramp] = amplitude * min(1.0, max(0.0, (end - d) / (end - full)))
            speed = (k1 + x * (2.0 * k2 + x * 3.0 * k3)) / waveform.frame_samples  # Metres per sample period.
            left[ramp], up[ramp] = left_0 + x * left_1, up_0 + x * up_1
            cycles[ramp] = 2.0 * d * per_metre - tx[ramp, 0] * left[ramp] - tx[ramp, 1] * up[ramp] + phase
            # Range-Doppler coupling: motion during the ramp shifts the beat frequency a little.
            point[ramp] = 2.0 * (d * waveform.beat_per_metre + speed * per_metre) * size - _WIDTH / 2
        for ramp in range(count):
            first = np.ceil(point[ramp])
            rows = (first - point[ramp]) * _ROWS
            whole = np.floor(rows)
            row[ramp], between[ramp] = np.int32(whole), rows - whole
            place[ramp] = np.int32(first - size * np.floor(first / size))
        for r in range(len(rx)):
            for ramp in range(count):
                turns = cycles[ramp] - rx[r, 0] * left[ramp] - rx[r, 1] * up[ramp]
                angle[ramp] = turns - np.floor(turns + 0.5)
            for ramp in range(count):
                cos, sin = _wave(angle[ramp])
                wave[0, r, ramp], wave[1, r, ramp] = strength[ramp] * cos, strength[ramp] * sin
        for ramp in range(count):
            # A row has one more after it, as `between` is below 1. Unsigned: as in `raycast.Points`.
            a, b, f = np.uint64(row[ramp]), np.uint64(row[ramp] + 1), between[ramp]
            for k in range(_WIDTH):
                weights[k] = table[a, k] + f * (table[b, k] - table[a, k])
            at = place[ramp]
            for part in range(2):
                for r in range(len(rx)):
                    e = wave[part, r, ramp]
                    for k in range(_WIDTH):
                        parts[part, ramp, r, np.uint64(at + k)] += e * weights[k]


@inlined
def _wave(turns: float) -> tuple[float, float]:
    """Cosine and sine of an angle of -0.5 to 0.5 turns, all f4, to 4e-7, by the series of half of the angle."""
    h = f4(np.pi) * turns
    q = h * h
    cos = f4(1 / 40320) + q * (f4(-1 / 3628800) + q * f4(1 / 479001600))
    cos = f4(1) + q * (f4(-1 / 2) + q * (f4(1 / 24) + q * (f4(-1 / 720) + q * cos)))
    sin = f4(-1 / 5040) + q * (f4(1 / 362880) + q * f4(-1 / 39916800))
    sin = h * (f4(1) + q * (f4(-1 / 6) + q * (f4(1 / 120) + q * sin)))
    return f4(1) - f4(2) * sin * sin, f4(2) * sin * cos


@lru_cache(maxsize=4)
def _response(samples: int) -> np.ndarray:
    """What undoes the gridding kernel in each sample, f4 (sample,): 1 over its Fourier transform there."""
    x = np.linspace(-1, 1, 4001)
    offset = np.arange(-samples // 2, samples - samples // 2) / (2 * samples)
    waves = np.cos(2 * np.pi * offset[:, None] * x * _WIDTH / 2)
    response: np.ndarray = np.trapezoid(_kernel(x) * waves, x, axis=1) * _WIDTH / 2
    return (1 / response).astype("f4")


def digitize(signal: np.ndarray, is_real: bool, rng: np.random.Generator) -> np.ndarray:
    """The ADC's words with thermal noise, i2 (chirp, tx, rx, word): `Q Q I I` for two samples, or real samples."""
    parts = np.stack([signal.real] if is_real else [signal.imag, signal.real], -2)
    parts += NOISE * rng.standard_normal(parts.shape, "f4")
    words = np.clip(np.rint(parts, out=parts), -32768, 32767, out=parts).astype("<i2")
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


# What a real radar's samples have besides the echoes: coupling, errors of the array, phase noise, multipath.
#
# All errors but the phase noise are constant over a recording, as they are on a real board.

#: Shortest and longest one-way distance that the coupling seems to come from, m: leads, package, radome. Layout.
_COUPLING_RANGE = 0.02, 0.12
#: Tones that the coupling of a pair of antennas consists of, and how much weaker each is than the last. Layout.
_TONES, _DECAY = 3, 0.5
#: Amplitude of a burst, ADC counts: of another car's radar at some tens of metres, 100 times the thermal noise. Layout.
AMPLITUDE = 2000.0
#: Shortest and longest burst, as a share of a chirp. Layout.
_SHORTEST, _LONGEST = 0.05, 0.2


class RadarErrors(NamedTuple):
    """Errors of one board."""

    coupling: np.ndarray  #: c16 (tx, rx, sample), ADC counts, the same in every chirp.
    gains: np.ndarray  #: c16 (tx, rx), factor of the echoes that each virtual antenna receives.
    phase_noise: float  #: standard deviation of the phase of a chirp, radians.

    @classmethod
    def of_board(cls, chirps: Chirps, unkind: Unkind, rng: np.random.Generator) -> RadarErrors:
        """The errors of a board whose RMS values are those of `unkind`."""
        _, transmitters, receivers, samples = chirps.shape
        shape = (transmitters, receivers)
        phases, decibels = rng.standard_normal((2, *shape))
        gains = 10 ** (_scaled(decibels, unkind.array_gain) / 20)
        gains = gains * np.exp(1j * np.radians(_scaled(phases, unkind.array_phase)))
        distance = rng.uniform(*_COUPLING_RANGE, (*shape, _TONES))
        strength = unkind.radar_coupling * _DECAY ** np.arange(_TONES) * np.exp(rng.normal(0, 0.3, distance.shape))
        tones = strength * np.exp(1j * rng.uniform(0, 2 * np.pi, distance.shape))
        seconds = (np.arange(samples) - samples // 2) / (chirps.sample_rate * 1e3)
        beat = np.exp(2j * np.pi * chirps.slope * 2 / speed_of_light * distance[..., None] * seconds)
        return cls((tones[..., None] * beat).sum(axis=2), gains, unkind.phase_noise)

    def applied(self, signal: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A frame of echoes with the errors, c16 (chirp, tx, rx, sample).

        The phase noise of the oscillator does not reach the coupling: what is sent and what is received have the same
        noise when the way between them is short (range correlation).
        """
        signal = signal * self.gains[:, :, None]
        if self.phase_noise:
            noise = self.phase_noise * rng.standard_normal((*signal.shape[:2], 1, 1))
            signal = signal * np.exp(1j * noise)
        return signal + self.coupling


def _scaled(values: np.ndarray, rms: float) -> np.ndarray:
    """Values of mean zero with the given root mean square."""
    centred = values - values.mean()
    return centred * rms / np.sqrt((centred**2).mean())


def with_ghosts(paths: Paths, height: np.ndarray, rot: np.ndarray, share: float) -> Paths:
    """Paths and the ghosts of their scatterers: echoes that come back by way of the floor, one way out of two.

    The wave goes straight to the scatterer, and comes back from its mirror image below the floor.

    Args:
        height: f8 (4,), m, of the radar over the floor at the paths' nodes.
        rot: f8 (4, 3, 3), scene-from-radar.
        share: amplitude of a ghost over that of its scatterer.
    """
    ends = paths.direction
    ahead = np.sqrt(np.maximum(1 - (ends**2).sum(axis=-1), 0))
    distance, reached = paths.distance, np.empty_like(paths.distance)
    sideways = np.empty_like(ends)
    for node in range(len(distance)):
        end = 0 if node < 2 else 1
        unit = np.concatenate([ahead[end, :, None], ends[end]], axis=-1)
        seen = distance[node][:, None] * matmul(unit, rot[node].T)
        # The scatterer is at this height over the floor; its image is as far below it.
        seen[:, 2] -= 2 * np.maximum(height[node] + seen[:, 2], 0)
        reached[node] = np.linalg.norm(seen, axis=-1)
        if node in (0, len(distance) - 1):
            sideways[end] = matmul(seen / reached[node][:, None], rot[node])[:, 1:]
    # The array sees the wave that comes back; one half of the way is the straight one.
    ghosts = Paths((distance + reached) / 2, sideways, share * paths.amplitude, paths.phase + np.pi)
    axes = (1, 1, 0, 0)
    return Paths(*(np.concatenate(pair, axis) for *pair, axis in zip(paths, ghosts, axes, strict=True)))


def bursts(chirps: Chirps, share: float, rng: np.random.Generator) -> np.ndarray:
    """Beat signals of another radar in a share of the chirps, c16 (chirp, tx, rx, sample), ADC counts.

    The frequency between both ramps crosses the band of the receiver at a constant rate, so that a burst is a linear
    chirp through all of the band, from one direction for the whole frame.
    """
    loops, transmitters, _, samples = chirps.shape
    time = np.arange(samples) / samples
    sine = rng.uniform(-0.8, 0.8)
    at_receivers = np.exp(-2j * np.pi * chirps.antennas[1][:, 0] * sine)
    signal = np.zeros(chirps.shape, "c16")
    for loop, tx in np.argwhere(rng.random((loops, transmitters)) < share):
        length = rng.uniform(_SHORTEST, _LONGEST)
        middle = rng.uniform(0, 1)
        # Cycles per chirp at the ends of the band: half of the number of samples.
        offset = time - middle
        inside = np.abs(offset) < length / 2
        phase = 2 * np.pi * 0.5 * (samples / length) * offset**2 + rng.uniform(0, 2 * np.pi)
        burst = AMPLITUDE * rng.uniform(0.5, 1.5) * np.exp(1j * phase) * inside
        signal[loop, tx] = at_receivers[:, None] * burst
    return signal
