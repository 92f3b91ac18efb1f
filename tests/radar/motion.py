"""Radar frames of the simulator's presets with the radar's true velocity, without the other sensors."""

from __future__ import annotations

import numpy as np

from rover_pipeline.simulate.presets import PRESETS, Chirps
from rover_pipeline.simulate.rig import build
from rover_pipeline.simulate.sensors import radar
from rover_pipeline.simulate.sensors.radar import NODES, paths, scatter


def frames(preset: str, times: np.ndarray, seed: int = 0, **changes: object) -> tuple[Chirps, np.ndarray, np.ndarray]:
    """Frames that begin at some times of a recording.

    Args:
        changes: of the preset.

    Returns:
        The chirps, `iq` i2 (frame, chirp, tx, rx, word), and f8 (frame, 3), m/s: the radar's velocity over ground in
        its own frame, front-left-up, in the middle of the frame.
    """
    rig = build(PRESETS[preset].model_copy(update=changes), seed)
    chirp, motion, points = rig.preset.radar, rig.mounted("radar"), scatter(rig.world, seed)
    iq, velocity = [], []
    for number, time in enumerate(times):
        state = motion.at(time + NODES * chirp.duration)
        echoes = paths(rig.world, points, time + NODES * chirp.duration, state.pos, state.rot, chirp.max_range)
        iq.append(radar.digitize(radar.synthesize(chirp, echoes), chirp.is_real, np.random.default_rng([seed, number])))
        middle = motion.at(np.array([time + chirp.duration / 2]))
        velocity.append(middle.vel[0] @ middle.rot[0])
    return chirp, np.stack(iq), np.array(velocity)
