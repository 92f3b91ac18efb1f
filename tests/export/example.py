"""A small trace with every raw sensor and with the radar products, for tests of exports."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, SensorWriter
from rover_pipeline.table import find_step
from tests.kit import small_trace, spec_of, times

FRAMES = 6
STEPS = {
    "_radar_range_doppler": "_radar_range_doppler",
    "_radar_range_azimuth": "_radar_range_azimuth",
    "_radar_points": "_radar_points",
}
#: Sensor -> its samples that are not valid.
INVALID = {"lidar": (1,), "radar": (2,), "camera": (4,)}


def example_trace(path: Path) -> Path:
    """Six samples of lidar, radar, camera and IMU at 10 Hz, with the samples of `INVALID`, and an `_odom`."""
    trace = small_trace(path, FRAMES, sensors=("lidar", "radar", "camera", "imu"), invalid=INVALID)
    for sensor, step in STEPS.items():
        run_step(find_step(step), trace, sensor, Request())
    angles = 0.1 * np.arange(FRAMES)
    rot = np.zeros((FRAMES, 3, 3))
    rot[:, 2, 2] = 1
    rot[:, 0, 0] = rot[:, 1, 1] = np.cos(angles)
    rot[:, 1, 0], rot[:, 0, 1] = np.sin(angles), -np.sin(angles)
    pos = np.outer(np.arange(FRAMES), [0.5, 0.1, 0.0])
    channels = {"pos": pos, "rot": rot, "vel": np.tile([5.0, 1.0, 0.0], (FRAMES, 1))}
    specs = {TS: TS_SPEC, VALID: VALID_SPEC, **{name: spec_of(values) for name, values in channels.items()}}
    with SensorWriter(trace / "_odom", specs) as writer:
        writer.append(ts=times(FRAMES), valid=np.ones(FRAMES, "u1"), **channels)
    return trace
