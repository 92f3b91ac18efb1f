"""The geometry of Ouster lidars, by the maker's own library."""

from __future__ import annotations

import functools

import numpy as np
from ouster.sdk import core

#: A range that the recorder clipped, mm: no return.
CLIPPED = 65535


@functools.lru_cache(maxsize=4)
def sensor_info(metadata: str) -> core.SensorInfo:
    """The sensor described by the text of a `lidar.json`, of old or new firmware.

    Raises:
        ValueError: the text is no Ouster sensor metadata.
    """
    try:
        return core.SensorInfo(metadata)
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"lidar.json is not the metadata of an Ouster sensor: {error}") from error


def destagger(images: np.ndarray, info: core.SensorInfo) -> np.ndarray:
    """Align columns to azimuth. Any integer type, (frame, beam, column) in and out."""
    beams, columns = info.format.pixels_per_column, info.format.columns_per_frame
    if images.shape[1:] != (beams, columns):
        raise ValueError(
            f"lidar.json is of a sensor with {beams} x {columns} pixels, the images have {images.shape[1:]}"
        )
    return np.stack([core.destagger(info, image) for image in images])


def stagger(images: np.ndarray, info: core.SensorInfo) -> np.ndarray:
    """The opposite of `destagger`: columns in the order they were taken. (frame, beam, column) in and out."""
    return np.stack([core.destagger(info, image, inverse=True) for image in images])


def sweep_span(info: core.SensorInfo, reference: str) -> tuple[float, float]:
    """Begin of a sweep after its time stamp, and its length, s.

    Args:
        reference: the instant of the sweep that stamps refer to: `start`, `middle` or `end`.
    """
    period = 1 / info.format.fps
    return -period * {"start": 0.0, "middle": 0.5, "end": 1.0}[reference], period


@functools.lru_cache(maxsize=4)
def projection(metadata: str) -> core.XYZLutFloat:
    """The function that projects ranges of the sensor of a `lidar.json`: u4 (beam, column), mm, staggered, to f4
    (beam, column, 3), m, in the sensor frame. Ranges of 0 go to the origin."""
    return core.XYZLutFloat(sensor_info(metadata), use_extrinsics=False)


@functools.lru_cache(maxsize=4)
def rays(metadata: str) -> tuple[np.ndarray, np.ndarray]:
    """Lines that returns lie on: a range of r mm is at `start + r * direction`, m, in the sensor frame.

    Returns:
        `start` and `direction` (per mm), f8 (beam, column, 3) each, staggered.
    """
    info = sensor_info(metadata)
    project = core.XYZLut(info, use_extrinsics=False)
    shape = info.format.pixels_per_column, info.format.columns_per_frame
    near, far = (project(np.full(shape, mm, "u4")) for mm in (10_000, 60_000))
    direction = (far - near) / 50_000
    return near - 10_000 * direction, direction


def returns(ranges: np.ndarray, metadata: str) -> tuple[np.ndarray, np.ndarray]:
    """Points of a staggered image of ranges, u2 (beam, column) mm, that are returns.

    Returns:
        f4 (N, 3), m, in the sensor frame, and the column of each, i8 (N,).
    """
    beam, column = np.nonzero((ranges > 0) & (ranges < CLIPPED))
    return projection(metadata)(ranges.astype("u4"))[beam, column], column
