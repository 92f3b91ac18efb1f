"""Interference: bursts in the beat signal of a radar whose ramps the ramps of another radar cross."""

from __future__ import annotations

import numpy as np

from rover_pipeline.simulate.sensors.chirps import Chirps

#: Amplitude of a burst, ADC counts: of another car's radar at some tens of metres, 100 times the thermal noise.
AMPLITUDE = 2000.0
#: Shortest and longest burst, as a share of a chirp.
_SHORTEST, _LONGEST = 0.05, 0.2


def bursts(chirps: Chirps, share: float, rng: np.random.Generator, amplitude: float = AMPLITUDE) -> np.ndarray:
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
        burst = amplitude * rng.uniform(0.5, 1.5) * np.exp(1j * phase) * inside
        signal[loop, tx] = at_receivers[:, None] * burst
    return signal
