"""Pictures of a sensor for documents and for a look, with axes in physical units."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from rover_pipeline.errors import ConfigError, FormatError, InTheWayError, did_you_mean
from rover_pipeline.export.output import new_output
from rover_pipeline.export.picture import images, places, values
from rover_pipeline.format.files import exists
from rover_pipeline.format.meta import META
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.stale import run_command
from rover_pipeline.format.trace import Trace, require_trace
from rover_pipeline.table import TABLE

#: Endings of the files that a picture can be, and their formats.
FORMATS = {".png": "png", ".pdf": "pdf", ".svg": "svg"}
_MAP = "_map"

#: Sensor -> function that draws one frame of it.
_FRAMES: dict[str, Callable[[Figure, Sensor, int], None]] = {
    "lidar": images.draw_lidar,
    "_lidar_image": images.draw_lidar,
    "_lidar_points": places.draw_lidar_points,
    "_radar_range_doppler": images.draw_power,
    "_radar_range_azimuth": images.draw_power,
    "_radar_spectrum": images.draw_spectrum,
    "_radar_points": places.draw_points,
    "_bev": places.draw_occupancy,
    "_occupancy": places.draw_occupancy,
    "_camera_depth": images.draw_depth,
    "_objects": places.draw_objects,
}
#: Raw sensors that are points -> function that draws one frame of them.
_POINTS: dict[str, Callable[[Figure, Sensor, int], None]] = {
    "lidar": places.draw_lidar_points,
    "radar": places.draw_points,
}
#: Sensor -> function that draws all of it in one picture.
_WHOLES: dict[str, Callable[[Figure, Sensor], None]] = {
    "_radar_velocity": values.draw_velocity,
    "_sync": values.draw_partners,
    **dict.fromkeys(("_lidar_times", "_radar_times", "_camera_times", "_imu_times"), values.draw_times),
    **dict.fromkeys(("_odom", "_radar_odom", "_reference", "_truth"), places.draw_trajectory),
}


def save_picture(trace: Path, name: str, out: Path, frame: int = 0) -> None:
    """Render one frame of a sensor of a trace, or all of it where it is a curve, to a PNG, PDF or SVG.

    Args:
        name: name of the sensor, or of `_map`; the underscore may be left out where there is no raw sensor of the name.
        out: the new file; its ending says the format.
        frame: counted from 0. Pictures of trajectories and curves show all frames.

    Raises:
        ConfigError: there is no such frame, or the ending is none of `FORMATS`.
        FormatError: the trace has no such sensor, or it cannot be read.
        InTheWayError: `out` already exists. Nothing is overwritten.
    """
    if out.suffix.lower() not in FORMATS:
        raise ConfigError(f"picture: {out}: must end with {', '.join(FORMATS)}")
    if os.path.lexists(out):
        raise InTheWayError(f"{out}: already exists; remove it or choose another name")
    figure = draw(trace, name, frame)
    with new_output(out) as scratch, rc_context({"svg.hashsalt": name}):
        format = FORMATS[out.suffix.lower()]
        # Without the date of now, so that the same frame gives the same bytes.
        metadata = {"png": None, "pdf": {"CreationDate": None}, "svg": {"Date": None}}[format]
        figure.savefig(scratch, format=format, dpi=120, metadata=metadata)


def draw(trace: Path, name: str, frame: int = 0) -> Figure:
    """The figure that `save_picture` renders."""
    path = _find(require_trace(trace), name)
    figure = Figure(figsize=(8, 5), layout="constrained")
    title = f"{trace.resolve().name}/{path.name}"
    if path.name == _MAP:
        places.draw_map(figure, path)
        figure.suptitle(title)
        return figure
    sensor = Sensor(path)
    count = sensor.length()
    if not 0 <= frame < count:
        raise ConfigError(f"{path}: has {count} frames; there is no frame {frame}")
    whole = _WHOLES.get(path.name)
    of_frame = _FRAMES.get(path.name) if whole is None else None
    if "xyz" in sensor.specs:
        of_frame = _POINTS.get(path.name, of_frame)
    if whole is not None:
        whole(figure, sensor)
    elif of_frame is not None:
        of_frame(figure, sensor, frame)
    if of_frame or (whole is None and values.draw_sensor(figure, sensor, frame)):
        times, remark = sensor.times(count), "" if sensor.valid(count)[frame] else ", not valid"
        title += f", frame {frame} of {count} at {times[frame] - times[0]:.2f} s{remark}"
    figure.suptitle(title)
    return figure


def _find(trace: Path, name: str) -> Path:
    """The folder of a sensor, raw before virtual."""
    for folder in (trace / name, trace / f"_{name.removeprefix('_')}"):
        if (folder.name == _MAP or exists(folder / META)) and folder.is_dir():
            return folder
    plain = name.removeprefix("_")
    if f"_{plain}" in TABLE:
        raise FormatError(f"{trace}/_{plain}: is not there; make it with `{run_command(trace, [plain])}`")
    known = [*Trace(trace).sensors(), *TABLE]
    raise ConfigError(f"picture: {name}: the trace has no such sensor; {did_you_mean(name, known)}")
