"""Frames of point targets for a board, from the simulator's radar: the ground truth of the radar tests."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, SensorWriter
from rover_pipeline.format.trace import CONFIG
from rover_pipeline.simulate.presets import Chirps
from rover_pipeline.simulate.sensors import radar
from rover_pipeline.simulate.sensors.radar import NODES, Paths
from tests.kit import spec_of, times


class Target(NamedTuple):
    """A point that moves straight away from the radar.

    Attributes:
        range_m: at the middle of the frame.
        azimuth: radians to the right; elevation: radians up.
        velocity_mps: positive recedes.
        counts: amplitude of the echo, ADC counts.
    """

    range_m: float
    azimuth: float = 0.0
    elevation: float = 0.0
    velocity_mps: float = 0.0
    counts: float = 1000.0

    @property
    def direction(self) -> np.ndarray:
        """Unit vector, front-left-up."""
        level = np.cos(self.elevation)
        return np.array([level * np.cos(self.azimuth), -level * np.sin(self.azimuth), np.sin(self.elevation)])


def chirps(device: Any = "AWR1843", **changes: Any) -> Chirps:
    """Bins of 5.6 cm and 0.16 m/s unless changed, 128 samples and 32 loops."""
    values = {"idle_time": 60.0, "ramp_end_time": 59.0, "freq_slope": 104.6, "adc_samples": 128, "sample_rate": 5000}
    return Chirps(device=device, **{**values, "frame_length": 32, **changes})


def words(chirp: Chirps, targets: Sequence[Target], seed: int = 0) -> np.ndarray:
    """A stored frame, i2 (chirp, tx, rx, word), with the simulator's thermal noise."""
    middle = NODES - 0.5
    distance = np.array([t.range_m + t.velocity_mps * middle * chirp.duration for t in targets]).T
    sideways = np.array([t.direction[1:] for t in targets])
    paths = Paths(
        distance=distance,
        direction=np.stack([sideways, sideways]),
        amplitude=np.array([t.counts for t in targets]) / radar.GAIN,
        phase=np.linspace(0, 5, len(targets)),
    )
    return radar.digitize(radar.synthesize(chirp, paths), chirp.is_real, np.random.default_rng(seed))


def texts(chirp: Chirps) -> dict[str, Any]:
    """`radar.json` and `config.yaml` as a step receives them."""
    *shape, samples = chirp.shape
    sidecar = {
        "shape": [*shape, samples],
        "range_resolution": chirp.range_resolution,
        "doppler_resolution": chirp.doppler_resolution,
    }
    return {
        "sidecar": json.dumps(sidecar),
        "config": yaml.safe_dump({"radar": {"args": {"radar": chirp.model_dump()}}}),
    }


def write_targets(trace: Path, frames: int = 6, invalid: int = 2) -> None:
    """Replace a recording's radar by one that moves at 2 m/s past ten static targets."""
    chirp = chirps("AWR1642", frame_length=16, adc_samples=64)
    iq = []
    for number in range(frames):
        targets = [
            Target(0.8 + 0.55 * n + 0.02 * number, np.radians(13 * n - 58), counts=200.0 + 20 * n) for n in range(10)
        ]
        targets = [each._replace(velocity_mps=float(-each.direction @ [1.9, 0.6, 0.0])) for each in targets]
        iq.append(words(chirp, targets, number))
    valid = np.ones(frames, "u1")
    valid[invalid] = 0
    shutil.rmtree(trace / "radar")
    with SensorWriter(trace / "radar", {TS: TS_SPEC, VALID: VALID_SPEC, "iq": spec_of(np.stack(iq))}) as writer:
        writer.append(ts=times(frames), valid=valid, iq=np.stack(iq))
    sidecar_and_config = texts(chirp)
    (trace / "radar" / "radar.json").write_text(sidecar_and_config["sidecar"])
    (trace / CONFIG).write_text(sidecar_and_config["config"])
