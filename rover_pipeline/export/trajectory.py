"""Trajectories of a trace, for the formats that hold one."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.export import ExportOptions
from rover_pipeline.format.meta import META
from rover_pipeline.format.sensor import Sensor

ODOMETRY = "_odom"


class Poses(NamedTuple):
    """Valid poses of a sensor, world-from-sensor, both front-left-up; the world is the lidar's first valid pose.

    Attributes:
        name: of the virtual sensor that they are from.
        ts: f8 (N,), s.
        pos: f8 (N, 3), m.
        rot: f8 (N, 3, 3).
    """

    name: str
    ts: np.ndarray
    pos: np.ndarray
    rot: np.ndarray


def read_poses(trace: Path, options: ExportOptions) -> Poses:
    """Every n-th sample of `_odom`, or of the sensor asked for, as far as they are valid.

    Raises:
        FormatError: there is no such sensor, it holds no poses, or none that is valid.
    """
    name = options.sensor or ODOMETRY
    if not (trace / name / META).exists():
        raise FormatError(f"{trace / name}: no such sensor; run the workflow, or name another with --sensor")
    sensor = Sensor(trace / name)
    for channel, shape in (("pos", (3,)), ("rot", (3, 3))):
        found = sensor.specs.get(channel)
        if found is None or found.shape != shape:
            raise FormatError(f"{sensor.path}: holds no poses: there is no {channel} of {list(shape)}")
    count = sensor.length(channels=("pos", "rot"))
    ts, pos, rot = sensor.times(count), sensor.channel("pos").read(), sensor.channel("rot").read()
    good = sensor.valid(count).astype(bool) & (np.arange(count) % options.every == 0)
    good &= np.isfinite(pos).all(1) & np.isfinite(rot).all((1, 2))
    if not good.any():
        raise FormatError(f"{sensor.path}: none of its {count} poses can be exported: valid is 0, or --every too large")
    return Poses(name, ts[good], pos[good].astype("f8"), rot[good].astype("f8"))
