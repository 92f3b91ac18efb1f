"""A lidar in a simulated room, for recordings whose ranges are otherwise random."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from rover_pipeline.format.meta import ChannelSpec
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, SensorWriter
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import build
from rover_pipeline.simulate.sensors import lidar
from tests.kit import times

COLUMNS = 512


def write_room(trace: Path, frames: int = 8, invalid: int = 3) -> None:
    """Replace a recording's lidar by one that is carried through the simulated flat."""
    rig = build(PRESETS["tiny"], 0)
    rays = lidar.rays(rig.beams, COLUMNS)
    spec = ChannelSpec(format="lzmaf", type="u2", shape=(rig.beams.count, COLUMNS), desc="Of a sweep. [beam, column]")
    shutil.rmtree(trace / "lidar")
    specs = {"rng": spec, "rfl": spec.model_copy(update={"type": "u1"}), "nir": spec}
    with SensorWriter(trace / "lidar", {TS: TS_SPEC, VALID: VALID_SPEC, **specs}) as writer:
        for number, stamp in enumerate(times(frames)):
            echoes = lidar.sweep(rig.world, rig.motion, rays, 2.0 + number / 10, 0.1)
            scan = lidar.measure(echoes, rays, rig.beams.detection_range, 100.0, np.random.default_rng(number))
            images = {"rng": scan.rng[None], "rfl": scan.rfl[None], "nir": scan.nir[None]}
            writer.append(ts=stamp, valid=number != invalid, **images)
    (trace / "lidar" / "lidar.json").write_text(json.dumps(lidar.metadata(rig.beams, COLUMNS, 10)))
