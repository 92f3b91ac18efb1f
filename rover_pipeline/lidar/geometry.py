"""The geometry of Ouster lidars, by the maker's own library."""

from __future__ import annotations

import functools

import numpy as np
from ouster.sdk import core

from rover_pipeline.errors import FormatError, one_line, short
from rover_pipeline.format.texts import parse_json
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.lidar.sidecar import require_sizes


@functools.lru_cache(maxsize=4)
def sensor_info(metadata: str) -> core.SensorInfo:
    """The sensor described by the text of a `lidar.json`, of old or new firmware.

    Raises:
        ValueError: the text is no Ouster sensor metadata.
    """
    try:
        require_sizes(parse_json(metadata, "lidar.json"))
        return core.SensorInfo(metadata)
    except (RuntimeError, ValueError, FormatError) as error:
        problem = short(one_line(str(error)), 200)  # the library quotes the whole text
        raise ValueError(f"lidar.json is not the metadata of an Ouster sensor: {problem}") from error


def destagger(images: np.ndarray, info: core.SensorInfo, inverse: bool = False) -> np.ndarray:
    """Align columns to azimuth. Any integer type, (frame, beam, column) in and out.

    Args:
        inverse: from azimuth order back to time order.

    Raises:
        ValueError: the images are of a sensor with other pixels.
    """
    beams, columns = info.format.pixels_per_column, info.format.columns_per_frame
    if images.shape[1:] != (beams, columns):
        raise ValueError(
            f"lidar.json is of a sensor with {beams} x {columns} pixels, the images have {images.shape[1:]}"
        )
    shifted = [core.destagger(info, image, inverse=inverse) for image in images]
    return shifted[0][None] if len(shifted) == 1 else np.stack(shifted)  # a single one need not be copied


#: Columns in time order: the inverse of `destagger`.
stagger = functools.partial(destagger, inverse=True)


def sweep_span(info: core.SensorInfo, reference: str) -> tuple[float, float]:
    """Time from the time stamp of a sweep to column 0, the zero of the encoder, and the duration of a revolution, s.

    A sensor with an azimuth window transmits only the columns in it. A sweep then begins with the first column of the
    window, and ends with the last one, which reaches the host last, although the revolution goes on. A window that
    contains the zero of the encoder gives sweeps of two parts, because a sensor begins a new frame at the zero (Ouster,
    Firmware User Manual, Lidar Data Packet Format: frame ID): they span a whole revolution.

    Args:
        reference: what time stamps refer to: `start` of the first column, `end` of the last one, or the `middle`.
    """
    columns, (first, last) = info.format.columns_per_frame, info.format.column_window
    if first > last:
        first, last = 0, columns - 1
    period = 1 / info.format.fps
    column = {"start": first, "middle": (first + last + 1) / 2, "end": last + 1}[reference]
    return -period * column / columns, period


@functools.lru_cache(maxsize=4)
def projection(metadata: str) -> core.XYZLutFloat:
    """The function that projects ranges of the sensor of a `lidar.json`: u4 (beam, column), mm, staggered, to f4
    (beam, column, 3), m, in the sensor frame. Ranges of 0 go to the origin."""
    return core.XYZLutFloat(sensor_info(metadata), use_extrinsics=False)


@functools.lru_cache(maxsize=4)
def sectors(metadata: str) -> np.ndarray:
    """The direction of each pixel, i4 (beam, column), staggered, in steps of two columns.

    Beams do not point to exactly the same azimuths: in narrower sectors, with few beams, walls of a map have gaps.
    """
    pixels = sensor_info(metadata).format
    aligned = np.arange(pixels.columns_per_frame) + np.asarray(pixels.pixel_shift_by_row)[:, None]
    return np.asarray(aligned % pixels.columns_per_frame // 2).astype("i4")


@functools.lru_cache(maxsize=4)
def rays(metadata: str) -> tuple[np.ndarray, np.ndarray]:
    """Lines on which returns lie: a range of r mm is at `start + r * direction`, m, in the sensor frame.

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
    """Points of the returns in a staggered range image, u2 (beam, column) mm.

    Returns:
        f4 (N, 3), m, in the sensor frame, and the column of each point, i8 (N,).
    """
    beam, column = np.nonzero((ranges > 0) & (ranges < CLIPPED))
    return projection(metadata)(ranges.astype("u4"))[beam, column], column
