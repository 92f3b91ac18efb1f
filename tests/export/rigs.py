"""Small recordings with everything that exports read, whose sensors have any names, and are several of a type."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import yaml

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.engine.instances import instances
from rover_pipeline.format.rig import Rig
from rover_pipeline.mapping.ply import ply
from rover_pipeline.table import find_step
from tests.export.street import object_channels, write_sensor
from tests.kit import small_trace, times, write_odometry

FRAMES = 14
_STEPS = (
    *("_lidar_image", "_sync", "_radar_pose", "_camera_pose", "_radar_points", "_camera_depth"),
    *("_radar_range_azimuth", "_radar_range_doppler"),
)
_TURN = [[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 1.0]]
_FORWARD = np.eye(3).tolist()


def recording(path: Path, *, names: Mapping[str, str] | None = None, further: Mapping[str, str] | None = None) -> Path:
    """Make a recording at `path`.

    Args:
        names: type -> the name of its sensor.
        further: name of a further sensor -> its type. It is a copy that looks back, with another lens.
    """
    names, further = names or {}, further or {}
    trace = small_trace(path, FRAMES, sensors=("lidar", "radar", "camera", "imu"), invalid={})
    write_odometry(trace)
    config = yaml.safe_load((trace / "config.yaml").read_text())
    lens = {"fx": 9.0, "fy": 9.0, "cx": 11.5, "cy": 7.5, "k": [0.006, 0.008, -0.002, -0.023], "p": [0, 0]}
    (trace / "camera" / "camera.json").write_text(json.dumps(lens))
    mounts = {each: {"translation": [0.1, 0.02, -0.1], "rotation": _FORWARD} for each in ("radar", "camera", "imu")}
    for name, type in further.items():
        shutil.copytree(trace / type, trace / name)
        (trace / name / f"{type}.json").rename(trace / name / f"{name}.json")
        config[name] = {**config[type], "type": type}
        mounts[name] = {"translation": [-0.2, 0.0, -0.1], "rotation": _TURN}
        if type == "camera":
            (trace / name / f"{name}.json").write_text(json.dumps(lens | {"fx": 8.0}))
    for type, name in names.items():
        (trace / type).rename(trace / name)
        if (trace / name / f"{type}.json").exists():
            (trace / name / f"{type}.json").rename(trace / name / f"{name}.json")
        config[name] = {**config.pop(type), "type": type}
        if type in mounts:
            mounts[name] = mounts.pop(type)
    (trace / "config.yaml").write_text(yaml.safe_dump({**config, "rig": mounts}, sort_keys=False))
    for step in _STEPS:
        for product in instances(step, Rig(trace)):
            run_step(find_step(step), trace, product, Request())
    write_sensor(trace / "_objects", times(FRAMES), np.ones(FRAMES, "u1"), object_channels(times(FRAMES)))
    (trace / "_map").mkdir()
    (trace / "_map" / "map.ply").write_bytes(ply(np.random.default_rng(0).uniform(-5, 5, (300, 3))))
    return trace
