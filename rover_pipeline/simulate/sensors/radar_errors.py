"""What a real radar's samples have besides the echoes: coupling, errors of the array, phase noise, multipath.

All errors but the phase noise are constant over a recording, as they are on a real board.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.constants import speed_of_light

from rover_pipeline.numerics.linear import matmul
from rover_pipeline.simulate.sensors.chirps import Chirps
from rover_pipeline.simulate.sensors.propagation import Paths
from rover_pipeline.simulate.unkind import Unkind

#: Shortest and longest one-way distance that the coupling seems to come from, m: leads, package, radome. Layout.
_COUPLING_RANGE = 0.02, 0.12
#: Tones that the coupling of a pair of antennas consists of, and how much weaker each is than the one before it.
#: Layout.
_TONES, _DECAY = 3, 0.5
#: Amplitude of a burst, ADC counts: of another car's radar at some tens of metres, 100 times the thermal noise. Layout.
AMPLITUDE = 2000.0
#: Shortest and longest burst, as a share of a chirp. Layout.
_SHORTEST, _LONGEST = 0.05, 0.2


class RadarErrors(NamedTuple):
    """Errors of one board.

    Attributes:
        coupling: c16 (tx, rx, sample), ADC counts, the same in every chirp.
        gains: c16 (tx, rx), factor of the echoes that each virtual antenna receives.
        phase_noise: standard deviation of the phase of a chirp, radians.
    """

    coupling: np.ndarray
    gains: np.ndarray
    phase_noise: float

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
    return Paths(
        *(np.concatenate(pair, axis=axis) for pair, axis in zip(zip(paths, ghosts, strict=True), axes, strict=True))
    )


def bursts(chirps: Chirps, share: float, rng: np.random.Generator) -> np.ndarray:
    """Beat signals of another radar, c16 (chirp, tx, rx, sample), ADC counts.

    The frequency between both ramps crosses the band of the receiver at a constant rate, so that a burst is a linear
    chirp through all of the band, from one direction for the whole frame.

    Args:
        share: of the chirps that have one.
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
