"""Virtual sensors made from the lidar."""

from __future__ import annotations

import numpy as np

from rover_pipeline.engine.step import step
from rover_pipeline.lidar.options import PointsOptions
from rover_pipeline.poses.steps import ODOMETRY

_IMAGES = {"rng": "lidar/rng", "rfl": "lidar/rfl", "nir": "lidar/nir"}
_POINTS = {
    "rfl": "Reflectivity. [beam, column], in the order of the columns' instants.",
    "nir": "Ambient near infrared, photons. [beam, column], in the order of the columns' instants.",
}


@step(
    inputs=_IMAGES,
    files={"metadata": "lidar/lidar.json"},
    outputs={
        "rng": "Range, mm; 0 = no return, 65535 = clipped. [beam, column], destaggered.",
        "rfl": "Reflectivity. [beam, column], destaggered.",
        "nir": "Ambient near infrared, photons. [beam, column], destaggered.",
    },
    version=1,
)
def image(rng: np.ndarray, rfl: np.ndarray, nir: np.ndarray, *, metadata: str) -> dict[str, np.ndarray]:
    """Lidar images with columns at equal azimuth.

    Args:
        rng, rfl, nir: (frame, beam, column), columns in time order.
        metadata: `lidar.json`, the sensor's own.

    Returns:
        The same types, (frame, beam, column), columns in azimuth order.
    """
    from rover_pipeline.lidar.geometry import destagger, sensor_info

    info = sensor_info(metadata)
    return {"rng": destagger(rng, info), "rfl": destagger(rfl, info), "nir": destagger(nir, info)}


@step(
    inputs=_IMAGES,
    files={"metadata": "lidar/lidar.json"},
    outputs={
        "xyz": "Points in the sensor frame, front-left-up, m; NaN where there is no return. [beam, column, xyz], each "
        "as seen from where the lidar was at its column's own instant.",
        **_POINTS,
    },
    version=1,
)
def points(rng: np.ndarray, rfl: np.ndarray, nir: np.ndarray, *, metadata: str) -> dict[str, np.ndarray]:
    """Points of each sweep by ouster-sdk's projection.

    Args:
        rng, rfl, nir: (frame, beam, column), columns in time order; ranges in mm, 0 and 65535 are no returns.
        metadata: `lidar.json`, the sensor's own, of old or new firmware.

    Returns:
        `xyz` f4 (frame, beam, column, 3), m; the others as they are.
    """
    from rover_pipeline.lidar.geometry import projection
    from rover_pipeline.lidar.points import returns_of, stacked

    project = projection(metadata)
    xyz = [returns_of(image, project.direction, project.offset) for image in rng]
    return {"xyz": stacked(xyz), "rfl": rfl, "nir": nir}


@step(
    inputs={**_IMAGES, "ts": "lidar/ts"},
    files={"metadata": "lidar/lidar.json"},
    whole=ODOMETRY,
    outputs={
        "xyz": "Points in the sensor frame, front-left-up, m; NaN where there is no return. [beam, column, xyz], all "
        "as seen from where the lidar was at the instant that ts refers to (lidar.ts_reference), by _odom.",
        **_POINTS,
    },
    version=1,
)
def compensated_points(
    rng: np.ndarray,
    rfl: np.ndarray,
    nir: np.ndarray,
    ts: np.ndarray,
    *,
    options: PointsOptions,
    metadata: str,
    odom_ts: np.ndarray,
    odom_valid: np.ndarray,
    pos: np.ndarray,
    rot: np.ndarray,
    vel: np.ndarray,
    acc: np.ndarray,
    avel: np.ndarray,
) -> dict[str, np.ndarray]:
    """The same without the motion of the lidar within a sweep.

    Args:
        ts: f8 (frame,), stamps, seconds.
        odom_ts, odom_valid, pos, rot, vel, acc, avel: the lidar's states at its sweeps, as `_odom` holds them.

    Returns:
        As `points`; a sweep has `valid` 0 where `_odom` does not tell the motion.
    """
    from rover_pipeline.lidar.geometry import projection, sensor_info, sweep_span
    from rover_pipeline.lidar.points import SweepMotion, returns_of, stacked

    project = projection(metadata)
    begin, period = sweep_span(sensor_info(metadata), options.ts_reference)
    motion = SweepMotion(odom_ts, odom_valid, (pos, rot, vel, acc, avel), begin, period, rng.shape[2])
    xyz, valid = [], np.zeros(len(rng), bool)
    for i, image in enumerate(rng):
        turns, shifts, valid[i] = motion.within(float(ts[i]))
        xyz.append(returns_of(image, project.direction, project.offset, turns, shifts))
    return {"xyz": stacked(xyz), "rfl": rfl, "nir": nir, "valid": valid}
