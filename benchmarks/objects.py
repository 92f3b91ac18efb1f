"""Moving bodies of simulated recordings in `_objects`, with the true trajectory: `python -m benchmarks.objects`.

Presets with 64 beams and 1024 columns. The simulator's seed decides noise only, so bodies begin elsewhere on their
paths in each scene, and the rig has another speed or stands longer. Bodies with at least 20 returns within 30 m count;
they are matched to tracks within 1 m (CLEAR MOT).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from benchmarks.measure import print_versions
from benchmarks.results import record
from rover_pipeline.engine.recording import Recording
from rover_pipeline.lidar.geometry import destagger, sensor_info
from rover_pipeline.objects.options import ObjectsOptions
from rover_pipeline.objects.steps import objects
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.record import Truth
from rover_pipeline.simulate.rig import Rig, build
from rover_pipeline.simulate.scene.world import World
from rover_pipeline.simulate.sensors import lidar
from tests.mapping.scene import Sweeps
from tests.objects.clearmot import Score, clear_mot


class Scene(NamedTuple):
    """Seconds of a preset, how the preset differs, and how much farther its bodies are on their paths, m."""

    preset: str
    seconds: float
    seed: int
    differs: dict[str, Any]
    shift: float


#: The last ones were not looked at while `objects/tuning.py` was tuned, but for `max_gap_m`.
SCENES = {
    "street": Scene("outdoor", 20, 1, {}, 0.0),
    "street, 2": Scene("outdoor", 20, 4, {"stand": 0.2}, 37.0),
    "street, 3": Scene("outdoor", 20, 7, {"speed": 0.7}, 71.0),
    "bike": Scene("bike", 15, 2, {}, 0.0),
    "bike, 2": Scene("bike", 15, 8, {"speed": 3.5}, 23.0),
    "crowd": Scene("crowd", 12, 3, {}, 0.0),
    "crowd, 2": Scene("crowd", 12, 6, {"speed": 0.8}, 11.0),
    "flat": Scene("indoor", 12, 5, {}, 0.0),
    "park": Scene("park", 12, 9, {}, 0.0),
    "street, held out": Scene("outdoor", 20, 18, {"stand": 6.0}, 151.0),
    "street, held out, 2": Scene("outdoor", 20, 19, {"speed": 1.0}, 103.0),
    "bike, held out": Scene("bike", 15, 14, {"speed": 4.0}, 61.0),
    "crowd, held out": Scene("crowd", 12, 16, {"speed": 1.3}, 29.0),
    "flat, held out": Scene("indoor", 12, 15, {"speed": 0.6}, 5.0),
}
_MIN_RETURNS, _MAX_RANGE_M = 20, 30.0


def rig_of(scene: Scene) -> Rig:
    preset = PRESETS[scene.preset].model_copy(update={"lidar": "OS-1-64", "columns": 1024, **scene.differs})
    rig = build(preset, scene.seed)
    still = [part for part, owner in zip(rig.world.parts, rig.world.owner, strict=True) if owner < 0]
    bodies = tuple(replace(body, start=body.start + scene.shift) for body in rig.world.bodies)
    return replace(rig, world=World(still, rig.world.light, bodies, rig.world.targets))


def play(scene: Scene) -> tuple[Score, np.ndarray, np.ndarray]:
    """The score, and of each match the error of the velocity, f8 (N, 2), and its standard deviation, f8 (N,), m/s."""
    rig = rig_of(scene)
    truth, rate, bodies = Truth(rig, "lidar"), rig.preset.lidar_rate, len(rig.world.bodies)
    ticks = list(rig.clocks["lidar"].ticks(scene.seconds, rig.key("lidar")))
    beams, device, rays = rig.lidars["lidar"]
    images, boxes = [], []
    for tick in ticks:
        echoes = lidar.sweep(rig.world, rig.motion, rays, tick.time, 1 / rate)
        random, infrared = rig.random("lidar", tick.number), rig.world.light.infrared
        rng = lidar.measure(echoes, rays, beams.detection_range, infrared, random, device).rng
        hit = echoes.body[(rng > 0) & (echoes.body >= 0)]
        images.append(rng)
        boxes.append(truth.objects(tick, np.bincount(hit, minlength=bodies)))
    states, metadata = truth.at(ticks), json.dumps(lidar.metadata(rig.beams, rig.preset.columns, rate))
    ts = states["true_ts"]
    sweeps = Sweeps(ts, rng=destagger(np.stack(images), sensor_info(metadata)))
    odometry = {"ts": ts, "valid": np.ones(len(ts), "u1")}
    odometry |= {name: states[name] for name in ("pos", "rot", "vel", "acc", "avel")}
    *parts, _ = objects(cast(Recording, sweeps), metadata=metadata, odometry=odometry, options=ObjectsOptions())
    ranges = [part for part in parts if isinstance(part, dict)]
    found = {name: np.concatenate([part[name] for part in ranges]) for name in ranges[0]}
    frames = []
    for sweep, box in enumerate(boxes):
        centre, returns = np.asarray(box["centre"])[0], np.asarray(box["returns"])[0]
        near = np.linalg.norm(centre - states["pos"][sweep], axis=1) <= _MAX_RANGE_M
        counting = set(np.flatnonzero(near & (returns >= _MIN_RETURNS)).tolist())
        rows = range(int(found["count"][sweep]))
        tracks = {int(found["track"][sweep, row]): found["centre"][sweep, row, :2] for row in rows}
        frames.append((dict(enumerate(centre[:, :2])), tracks, counting))
    score = clear_mot(frames)
    errors, sds = [], []
    for sweep, body, track in score.matches:
        row = int(np.flatnonzero(found["track"][sweep] == track)[0])
        errors.append(found["vel"][sweep, row, :2] - np.asarray(boxes[sweep]["vel"])[0, body, :2])
        sds.append(found["vel_sd"][sweep, row])
    return score, np.array(errors), np.array(sds)


def main() -> None:
    print_versions("numpy", "scipy", "numba")
    for name, scene in SCENES.items():
        score, errors, sds = play(scene)
        away = np.linalg.norm(errors, axis=1)
        of = f"{name}, {scene.seconds:g} s, simulated, bodies with at least 20 returns within 30 m, matched within 1 m"
        key = f"objects/{name}, {scene.seconds:g} s"
        record(f"{key}/MOTA", f"{score.mota:.3f}", of=of)
        record(f"{key}/misses", str(score.misses), of=of)
        record(f"{key}/false alarms", str(score.false_alarms), of=of)
        record(f"{key}/switches", str(score.switches), of=of)
        record(f"{key}/velocity RMS", f"{np.sqrt((away**2).mean()):.3f}", "m/s", of=of)
        record(f"{key}/median", f"{np.median(away):.3f}", "m/s", of=of)
        record(f"{key}/90 %", f"{np.percentile(away, 90):.3f}", "m/s", of=of)
        record(f"{key}/normalised", f"{np.sqrt(((errors / sds[:, None]) ** 2).mean()):.2f}", of=of)


if __name__ == "__main__":
    main()
