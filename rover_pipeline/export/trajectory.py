"""Poses of a trace, for the formats that hold one trajectory."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.export import ExportOptions
from rover_pipeline.format.meta import META
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.kinematics.state import Poses

#: The sensor whose poses are exported unless another is asked for.
ODOMETRY = "_odom"


def read_poses(trace: Path, options: ExportOptions) -> tuple[np.ndarray, Poses]:
    """The valid ones among every n-th pose of `_odom`, or of the sensor asked for.

    Returns:
        Times, f8 (N,), s, and poses, world-from-sensor, f8, both frames front-left-up. The world is the lidar's first
        valid pose.

    Raises:
        FormatError: there is no such sensor, it holds no poses, or none of them is valid.
    """
    name = options.sensor or ODOMETRY
    if not (trace / name / META).exists():
        raise FormatError(f"{trace / name}: no such sensor; run the workflow, or name another with --sensor")
    sensor = Sensor(trace / name)
    for channel, shape in (("pos", (3,)), ("rot", (3, 3))):
        if channel not in sensor.specs or sensor.specs[channel].shape != shape:
            raise FormatError(f"{sensor.path}: holds no poses: it has no channel {channel} of shape {list(shape)}")
    count = sensor.length(channels=("pos", "rot"))
    ts, pos, rot = sensor.times(count), sensor.channel("pos").read(), sensor.channel("rot").read()
    chosen = sensor.valid(count).astype(bool) & (np.arange(count) % options.every == 0)
    chosen &= np.isfinite(pos).all(1) & np.isfinite(rot).all((1, 2))
    if not chosen.any():
        raise FormatError(
            f"{sensor.path}: none of its {count} poses can be exported: valid is 0, or --every is too large"
        )
    return ts[chosen], Poses(rot[chosen].astype("f8"), pos[chosen].astype("f8"))
