"""A lidar that two people and a car pass, for recordings whose ranges are otherwise random."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from rover_pipeline.format.meta import ChannelSpec
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, SensorWriter
from rover_pipeline.simulate.motion import ROLLING, Motion
from rover_pipeline.simulate.scene.props import car, person
from rover_pipeline.simulate.scene.world import Body, World, standing_box
from rover_pipeline.simulate.sensors import lidar
from tests.kit import spec_of, times
from tests.objects.scene import BEAMS, LIGHT, PERIOD, ROOM, straight

FRAMES, COLUMNS = 24, 512
_BODIES = (
    person("across", straight((-6.0, 3.5), (6.0, 3.5)), 1.3, coat="coat", start=4.0),
    person("towards", straight((8.0, -1.5), (-8.0, -1.5)), 1.1, coat="cloth", start=3.0),
    Body("car", car("car blue"), straight((-12.0, -6.0), (12.0, -6.0)), 6.0, start=4.0),
)


def write_passers(trace: Path, invalid: int = 1, lost: int = 4) -> None:
    """Replace a recording's lidar by one that is carried through a room with moving bodies, with its true `_odom`."""
    world = World([*ROOM, standing_box(2.0, 6.0, (1.5, 0.6, 1.8), "wood")], LIGHT, _BODIES)
    motion, rays = Motion(straight((-4.0, 0.0), (4.0, 0.0)), 0.8, 1.2, ROLLING, stand=0.0), lidar.rays(BEAMS, COLUMNS)
    ends = 0.5 + PERIOD * np.arange(FRAMES)
    spec = ChannelSpec(format="lzmaf", type="u2", shape=(BEAMS.count, COLUMNS), desc="Of a sweep. [beam, column]")
    specs = {"rng": spec, "rfl": spec.model_copy(update={"type": "u1"}), "nir": spec}
    shutil.rmtree(trace / "lidar")
    with SensorWriter(trace / "lidar", {TS: TS_SPEC, VALID: VALID_SPEC, **specs}) as writer:
        for number, (stamp, end) in enumerate(zip(times(FRAMES), ends.tolist(), strict=True)):
            echoes = lidar.sweep(world, motion, rays, end, PERIOD)
            scan = lidar.measure(echoes, rays, BEAMS.detection_range, 60.0, np.random.default_rng(number))
            images = {"rng": scan.rng[None], "rfl": scan.rfl[None], "nir": scan.nir[None]}
            writer.append(ts=stamp, valid=number != invalid, **images)
    (trace / "lidar" / "lidar.json").write_text(json.dumps(lidar.metadata(BEAMS, COLUMNS, 10)))
    state = motion.at(ends)
    frame = state.rot[0]
    arrays = {
        "pos": (state.pos - state.pos[0]) @ frame,
        "rot": frame.T @ state.rot,
        "vel": state.vel @ frame,
        "acc": state.acc @ frame,
        "avel": state.avel,
    }
    valid = np.ones(FRAMES, "u1")
    valid[lost] = 0
    specs = {TS: TS_SPEC, VALID: VALID_SPEC, **{name: spec_of(values) for name, values in arrays.items()}}
    with SensorWriter(trace / "_odom", specs) as writer:
        writer.append(ts=times(FRAMES), valid=valid, **arrays)
