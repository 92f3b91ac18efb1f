"""Heel strikes and vibration: what carriers add to a gait at up to 20 Hz.

Like a gait, they are functions of the arc length, so that a rig that stands still is at rest; their frequencies are
those at full speed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rover_pipeline.simulate.motion.motion import Gait, Harmonic
from rover_pipeline.simulate.unkind import Unkind

#: Length of a step, or distance between the joints of a floor for a rig on wheels; metres.
_STEP_M = 0.55
#: The highest frequency of a heel strike, Hz, and its lowest harmonic: those below belong to the gait.
_FASTEST_HZ, _FIRST_HARMONIC = 20.0, 3
#: Rotation of a heel strike for each metre of its displacement, rad/m.
_NOD = 0.5
#: Frequencies of the vibration about the axes, Hz, and amplitudes for an amplitude of one.
_VIBRATION = {"pitch": (15.0, 1.0), "roll": (12.5, 0.7), "yaw": (18.0, 0.5)}


def disturbed(gait: Gait, unkind: Unkind, speed: float) -> Gait:
    """A gait with the heel strikes and the vibration of a rig at full `speed`, m/s."""
    if unkind.heel_strikes:
        step_hz = speed / _STEP_M
        harmonics = np.arange(_FIRST_HARMONIC, max(_FASTEST_HZ / step_hz, _FIRST_HARMONIC) + 1e-9)
        phase = np.linspace(0, 2 * np.pi, 2000)[:, None]
        each = unkind.heel_strikes / np.abs(np.sin(harmonics * phase).sum(1)).max()
        strike = [(float(each / (2 * np.pi * n * step_hz) ** 2), float(_STEP_M / n)) for n in harmonics]
        gait = replace(
            gait,
            vertical=(*gait.vertical, *(Harmonic(metres, length) for metres, length in strike)),
            pitch=(*gait.pitch, *(Harmonic(_NOD * metres, length) for metres, length in strike)),
        )
    if unkind.vibration:
        for axis, (frequency, share) in _VIBRATION.items():
            wave = Harmonic(float(np.radians(unkind.vibration) * share), speed / frequency)
            gait = replace(gait, **{axis: (*getattr(gait, axis), wave)})
    return gait
