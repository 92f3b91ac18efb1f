"""Frames that are images: distances of a lidar and of a camera's pixels, and the power of a radar."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rover_pipeline.errors import FormatError
from rover_pipeline.export.picture.values import draw_cells, say_empty
from rover_pipeline.format.files import exists
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.texts import read_text
from rover_pipeline.lidar.geometry import destagger, sensor_info
from rover_pipeline.report.draw.images import distance_limits, metres

#: Decibels from the strongest bin of a frame down to the end of the colour scale.
_SPAN_DB = 50.0
#: Distances that the colour bar names, m, where they occur.
_TICKS = (0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200)


def draw_lidar(figure: Figure, sensor: Sensor, frame: int) -> None:
    """Ranges of a sweep, beams from top to bottom, columns from left to right as the lidar turns."""
    if "rng" not in sensor.specs:
        raise FormatError(f"{sensor.path}: holds points and no image; draw `lidar_points` instead")
    ranges = sensor.channel("rng").read(frame, frame + 1)
    metadata = sensor.path / f"{sensor.name}.json"
    if not sensor.name.startswith("_") and exists(metadata):
        ranges = destagger(ranges, sensor_info(read_text(metadata)))
    _draw_metres(figure, metres(ranges[0]), ("column", "beam"), "no returns in this sweep", tall=False)


def draw_depth(figure: Figure, sensor: Sensor, frame: int) -> None:
    """Depth of each pixel of the camera that a return of the lidar falls on."""
    depth = metres(sensor.channel("depth").read(frame, frame + 1)[0])
    _draw_metres(figure, depth, ("column (pixel)", "row (pixel)"), "no return falls into this picture", tall=True)


def _draw_metres(figure: Figure, distances: np.ndarray, labels: tuple[str, str], empty: str, *, tall: bool) -> None:
    """Distances f4 (row, column), m, NaN where there is none, with colours by their logarithm: near is red."""
    plot = figure.subplots()
    plot.set_facecolor("black")
    plot.set(xlabel=labels[0], ylabel=labels[1])
    if not np.isfinite(distances).any():
        say_empty(plot, empty)
        return
    near, far = distance_limits(distances)
    low, high = np.log(near), np.log(far)
    image = plot.imshow(np.log(distances), cmap="turbo_r", interpolation="nearest", vmin=low, vmax=high)
    plot.set_aspect("equal" if tall else "auto")
    if not tall:
        figure.set_size_inches(12, 3)
    ticks = [value for value in _TICKS if near <= value <= far]
    bar = figure.colorbar(image, ax=plot, label="distance (m)", ticks=np.log(ticks))
    bar.set_ticklabels([f"{value:g}" for value in ticks])


def draw_power(figure: Figure, sensor: Sensor, frame: int) -> None:
    """Range to the right, Doppler or azimuth upward, decibels as colours."""
    power = sensor.channel("power").read(frame, frame + 1)[0]
    _draw_bins(figure.subplots(), sensor, power, sensor.name.removeprefix("_radar_range_"))


def draw_spectrum(figure: Figure, sensor: Sensor, frame: int) -> None:
    """To the left the strongest direction of each range and Doppler bin, to the right the strongest Doppler bin of each
    range bin and azimuth."""
    values = sensor.channel("spectrum").read(frame, frame + 1)[0].astype("f8")
    if (read_provenance(sensor.path) or {}).get("options", {}).get("scale", "amplitude") == "amplitude":
        values = 20 * np.log10(np.maximum(values, 1e-5))
    figure.set_size_inches(13, 5)
    left, right = figure.subplots(1, 2)
    _draw_bins(left, sensor, values.max(axis=(1, 2)), "doppler")
    _draw_bins(right, sensor, values.max(axis=(0, 1)), "azimuth")


def _draw_bins(plot: Axes, sensor: Sensor, power: np.ndarray, vertical: str) -> None:
    """Decibels, (vertical, range), with range to the right, and `vertical`, Doppler or azimuth, upward."""
    high = power.max()
    draw_cells(plot, sensor, power, (vertical, "range"), "dB re one squared ADC count", vmin=high - _SPAN_DB, vmax=high)
