"""Folder of files `_map`: the map of a recording, from its lidar and the lidar's trajectory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import Inspection
from rover_pipeline.kinematics.sweep import odometry_motion
from rover_pipeline.lidar.geometry import sensor_info, sweep_span
from rover_pipeline.mapping.build import MapBuilder, map_files
from rover_pipeline.mapping.options import MapStepOptions

#: Maximum number of sweeps that are summed at once, and of frames that they are taken from: the cells around them are
#: held as an array. The result does not depend on either, since sums of integers do not depend on their order.
_SWEEPS, _FRAMES = 8, 40
#: Number of sums that are held at once: enough for sixteen threads.
_HELD = 16


def build(
    recording: Recording, *, metadata: str, odometry: Mapping[str, np.ndarray], options: MapStepOptions
) -> tuple[dict[str, bytes], Inspection]:
    """The map of all sweeps with a valid pose.

    Args:
        metadata: `lidar.json`, the sensor's own.
        odometry: the channels of `_odom`.

    Raises:
        ValueError: `_odom` is of other sweeps or has no valid one, or there is nothing at the heights of the grid.
    """
    if not np.array_equal(odometry["ts"], recording.ts):
        raise ValueError("_odom/ts differs from that of _lidar_image; make both again from this lidar")
    span = sweep_span(sensor_info(metadata), options.lidar.ts_reference)
    builder = MapBuilder.of(recording, metadata, odometry_motion(odometry, options.times, *span), options)
    size = options.every * max(1, min(_SWEEPS, _FRAMES // options.every))
    ranges = [(start, min(start + size, recording.count)) for start in range(0, recording.count, size)]
    return map_files(builder, recording.map(builder, ranges, held=_HELD))
