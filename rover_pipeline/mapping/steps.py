"""The map of a recording, from its lidar and the lidar's trajectory."""

from __future__ import annotations

import numpy as np

from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import Inspection, step
from rover_pipeline.mapping.options import MapStepOptions
from rover_pipeline.poses.steps import ODOMETRY

#: Sweeps that are summed at once, and frames they are of at most: what is around them is held as an array. The result
#: does not depend on either, since sums of integers do not depend on their order.
_TOGETHER, _FRAMES = 8, 40
#: Sums of so many ranges are held at once: enough for sixteen threads.
_HELD = 16


@step(
    recording=True,
    inputs={"rng": "_lidar_image/rng", "rfl": "_lidar_image/rfl"},
    whole=ODOMETRY,
    files={"metadata": "lidar/lidar.json"},
    products={
        "map.ply": "Points, one a voxel: x, y, z in the frame of _odom, m; intensity, mean reflectivity; count.",
        "occupancy.pgm": "What stands at the heights of the config, in map_server's pixels.",
        "occupancy.yaml": "Where and how large its cells are.",
        "bev.png": "The same from above, with the way of the lidar.",
    },
    version=2,
)
def build(
    recording: Recording,
    *,
    metadata: str,
    odom_ts: np.ndarray,
    odom_valid: np.ndarray,
    pos: np.ndarray,
    rot: np.ndarray,
    vel: np.ndarray,
    acc: np.ndarray,
    avel: np.ndarray,
    options: MapStepOptions,
) -> tuple[dict[str, bytes], Inspection]:
    """The map of all sweeps with a trusted pose.

    Args:
        metadata: `lidar.json`, the sensor's own.
        odom_ts, odom_valid, pos, rot, vel, acc, avel: states of the lidar at its sweeps, as `_odom` holds them.

    Raises:
        ValueError: `_odom` is of other sweeps or has none that is valid, or there is nothing at the heights asked for.
    """
    from rover_pipeline.mapping.build import Job, publish
    from rover_pipeline.mapping.track import Track

    if len(odom_ts) != recording.count or not np.array_equal(odom_ts, recording.ts):
        raise ValueError("_odom/ts differs from that of _lidar_image; make both again from this lidar")
    track = Track(odom_ts, pos, rot, vel, acc, avel, odom_valid)
    job = Job.of(recording, metadata, track, options)
    size = options.every * max(1, min(_TOGETHER, _FRAMES // options.every))
    ranges = [(start, min(start + size, recording.count)) for start in range(0, recording.count, size)]
    return publish(job, recording.map(job, ranges, held=_HELD))
