"""Frames that are images of distances: of lidars, and of depth."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from rover_pipeline.errors import FormatError
from rover_pipeline.export.picture.common import say_empty
from rover_pipeline.format.files import exists
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.texts import read_text
from rover_pipeline.lidar.geometry import destagger, sensor_info
from rover_pipeline.report.draw.images import distance_limits, metres

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
    low, high = np.log(near), np.log(max(far, near * 1.01))
    image = plot.imshow(np.log(distances), cmap="turbo_r", interpolation="nearest", vmin=low, vmax=high)
    plot.set_aspect("equal" if tall else "auto")
    if not tall:
        figure.set_size_inches(12, 3)
    ticks = [value for value in _TICKS if near <= value <= far]
    bar = figure.colorbar(image, ax=plot, label="distance (m)", ticks=np.log(ticks))
    bar.set_ticklabels([f"{value:g}" for value in ticks])
