"""Pictures of a sensor for documents, notebooks and a look, with axes in physical units."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from matplotlib.patheffects import withStroke

from rover_pipeline.draw import plots
from rover_pipeline.draw.formatting import count as counted
from rover_pipeline.draw.pixels import colour_map, metres
from rover_pipeline.draw.plots import Bins
from rover_pipeline.errors import ConfigError, FormatError, InTheWayError, did_you_mean
from rover_pipeline.export.objects import object_classes
from rover_pipeline.export.output import new_output
from rover_pipeline.format.descriptions import axes_and_unit
from rover_pipeline.format.files import exists
from rover_pipeline.format.meta import META, ChannelSpec
from rover_pipeline.format.provenance import read_provenance, run_command
from rover_pipeline.format.rig import Rig
from rover_pipeline.format.sensor import TS, VALID, Sensor, read_axes
from rover_pipeline.format.texts import read_text
from rover_pipeline.format.trace import Trace, require_trace
from rover_pipeline.lidar.geometry import destagger, sensor_info
from rover_pipeline.report.read.motion import read_floor_plan
from rover_pipeline.table import TABLE

#: Endings of the files that a picture can be, and their formats.
FORMATS = {".png": "png", ".pdf": "pdf", ".svg": "svg"}
_MAP = "_map"
#: Maximum number of values of a sample that are drawn as a curve each, along one axis or several (a rotation has nine),
#: and of channels of a picture. Layout.
_MAX_LINES, _MAX_OF_MATRIX, _MAX_CHANNELS = 16, 9, 6
#: Samples of a waterfall, and samples of curves to both sides of the one that a figure of a channel is about. Layout.
_WATERFALL, _AROUND = 1000, 200
#: How much of the past of a body is drawn, s, and the time in which it goes as far as its arrow is long. Layout.
_PAST_S, _ARROW_S = 3.0, 1.0


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
    figure.draw_without_rendering()  # a first layout: the labels of axes of a fixed aspect change with it
    with new_output(out) as scratch, rc_context({"svg.hashsalt": name}):
        format = FORMATS[out.suffix.lower()]
        # Without the date of now, so that the same frame gives the same bytes.
        metadata = {"png": None, "pdf": {"CreationDate": None}, "svg": {"Date": None}}[format]
        figure.savefig(scratch, format=format, dpi=120, metadata=metadata)


def draw(trace: Path, name: str, frame: int = 0) -> Figure:
    """The figure that `save_picture` renders."""
    path = _find(require_trace(trace), name)
    figure = _new_figure()
    title = f"{trace.resolve().name}/{path.name}"
    if path.name == _MAP:
        _draw_map(figure, path)
        figure.suptitle(title)
        return figure
    sensor = Sensor(path)
    count = sensor.length()
    if not 0 <= frame < count:
        raise ConfigError(f"{path}: has {counted(count, 'frame')}; there is no frame {frame}")
    declared = Rig(trace).declared(path.name)
    whole = _WHOLES.get(declared)
    of_frame = _FRAMES.get(declared) if whole is None else None
    if "xyz" in sensor.specs:
        of_frame = _POINTS.get(declared, of_frame)
    if whole is not None:
        whole(figure, sensor)
    elif of_frame is not None:
        of_frame(figure, sensor, frame)
    if of_frame or (whole is None and _draw_sensor(figure, sensor, frame)):
        times, remark = sensor.times(count), "" if sensor.valid(count)[frame] else ", not valid"
        title += f", frame {frame} of {count} at {times[frame] - times[0]:.2f} s{remark}"
    figure.suptitle(title)
    return figure


def draw_sample(path: Path, sample: int, channel: str) -> Figure:
    """A figure of one sample of a channel of the sensor at `path`."""
    sensor, figure = Sensor(path), _new_figure()
    count = sensor.length(truncate=True)
    _draw_channel(figure, sensor, channel, sample)
    time = datetime.fromtimestamp(float(sensor.times(count)[sample]), UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    remark = "" if sensor.valid(count)[sample] else ", not valid"
    figure.suptitle(f"{sensor.name}/{channel}, sample {sample} of {count} at {time} UTC{remark}")
    return figure


class _Shown(Figure):
    """A figure that a notebook shows even where nobody has imported pyplot."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=100)
        return buffer.getvalue()


def _new_figure() -> Figure:
    return _Shown(figsize=(8, 5), layout="compressed")


def _find(trace: Path, name: str) -> Path:
    """The folder of a sensor, raw before virtual."""
    for folder in (trace / name, trace / f"_{name.removeprefix('_')}"):
        if (folder.name == _MAP or exists(folder / META)) and folder.is_dir():
            return folder
    plain = name.removeprefix("_")
    if (trace / f"_{plain}").is_dir():
        raise ConfigError(f"{trace}/_{plain}: has no channels that a picture could be of; open its files")
    if f"_{plain}" in TABLE:
        raise FormatError(f"{trace}/_{plain}: is not there; make it with `{run_command(trace, [plain])}`")
    known = [*Trace(trace).sensors(), *TABLE]
    raise ConfigError(f"picture: {name}: the trace has no such sensor; {did_you_mean(name, known)}")


def _bins(sensor: Sensor, axis: str, size: int) -> Bins:
    """The bins of an axis as `axes.json` describes them. Bins of unknown size are numbered."""
    known = read_axes(sensor.path).get(axis)
    if known is None or known.values is None or len(known.values) != size:
        return Bins(f"{axis.replace('_', ' ')} (number, counted from 0)", np.arange(size, dtype="f8"))
    values, unit = (np.degrees(known.values), "degrees") if known.unit == "rad" else (known.values, known.unit)
    direction = f", positive: {known.positive}" if known.positive else ""
    return Bins(f"{axis} ({unit}){direction}", values, unit)


def _draw_lidar(figure: Figure, sensor: Sensor, frame: int) -> None:
    """Ranges of a sweep, beams from top to bottom, columns from left to right as the lidar turns."""
    if "rng" not in sensor.specs:
        raise FormatError(f"{sensor.path}: holds points and no image; draw `lidar_points` instead")
    ranges = sensor.channel("rng").sample(frame)
    metadata = sensor.path / Rig(sensor.path.parent).sidecar(sensor.name)
    if not sensor.name.startswith("_") and exists(metadata):
        ranges = destagger(ranges[None], sensor_info(read_text(metadata)))[0]
    plots.draw_distances(figure, metres(ranges), ("column", "beam"), "no returns in this sweep", tall=False)


def _draw_depth(figure: Figure, sensor: Sensor, frame: int) -> None:
    """Depth of each pixel of the camera that a return of the lidar falls on."""
    labels, empty = ("column (pixel)", "row (pixel)"), "no return falls into this picture"
    plots.draw_distances(figure, metres(sensor.channel("depth").sample(frame)), labels, empty, tall=True)


def _draw_power(figure: Figure, sensor: Sensor, frame: int) -> None:
    """Range to the right, Doppler or azimuth upward, decibels as colours."""
    power = sensor.channel("power").sample(frame)
    _draw_decibels(figure.subplots(), sensor, power, sensor.name.rpartition("_range_")[2])


def _draw_spectrum(figure: Figure, sensor: Sensor, frame: int) -> None:
    """To the left the strongest direction of each range and Doppler bin, to the right the strongest Doppler bin of each
    range bin and azimuth."""
    values = sensor.channel("spectrum").sample(frame).astype("f8")
    if (read_provenance(sensor.path) or {}).get("options", {}).get("scale", "amplitude") == "amplitude":
        values = 20 * np.log10(np.maximum(values, 1e-5))
    figure.set_size_inches(13, 5)
    left, right = figure.subplots(1, 2)
    _draw_decibels(left, sensor, values.max(axis=(1, 2)), "doppler")
    _draw_decibels(right, sensor, values.max(axis=(0, 1)), "azimuth")


def _draw_decibels(plot: Axes, sensor: Sensor, power: np.ndarray, vertical: str) -> None:
    y, x = (_bins(sensor, *each) for each in zip((vertical, "range"), power.shape, strict=True))
    plots.draw_cells(plot, y, x, power, "dB re one squared ADC count", quantity="power")


def _draw_lidar_points(figure: Figure, sensor: Sensor, frame: int) -> None:
    plots.draw_lidar_points(figure, sensor.channel("xyz").sample(frame).reshape(-1, 3))


def _draw_radar_points(figure: Figure, sensor: Sensor, frame: int) -> None:
    count = int(sensor.channel("count").sample(frame))
    xyz, doppler = (sensor.channel(name).sample(frame)[:count] for name in ("xyz", "doppler"))
    strength = sensor.channel("snr").sample(frame)[:count] if "snr" in sensor.specs else None
    plots.draw_radar_points(figure, xyz, doppler, strength)


def _draw_occupancy(figure: Figure, sensor: Sensor, frame: int) -> None:
    cells = sensor.channel("occupancy").sample(frame)
    azimuth, ranges = (_bins(sensor, *each) for each in zip(("azimuth", "range"), cells.shape[-2:], strict=True))
    elevation = _bins(sensor, "elevation", len(cells)) if cells.ndim == 3 else None
    plots.draw_occupancy(figure, cells, azimuth, ranges, elevation)


def _draw_trajectory(figure: Figure, sensor: Sensor) -> None:
    """The path from above, that of `_odom` on the floor plan if there is a map, and the height over time."""
    seconds, valid = _clock(sensor)
    pos = np.where(valid[:, None], sensor.channel("pos").read_whole(len(seconds)), np.nan)
    figure.set_size_inches(10, 5.5)
    above, height = figure.subplots(1, 2, width_ratios=(2, 1))
    above.set(xlabel="x (m)", ylabel="y (m)", aspect="equal")
    height.set(xlabel="time (s)", ylabel="z (m)")
    for plot in (above, height):
        plot.grid(alpha=0.3)
    if not valid.any():
        plots.say_empty(above, "no valid pose")
        return
    # Other trajectories have worlds of their own, in which the map is elsewhere.
    plots.draw_plan(above, read_floor_plan(sensor.path.parent / _MAP) if sensor.name == "_odom" else None)
    above.plot(pos[:, 0], pos[:, 1], color="0.5", linewidth=1)
    points = above.scatter(pos[:, 0], pos[:, 1], 8, seconds, cmap=colour_map("value"), zorder=2)
    plots.add_colour_bar(above, points, "time (s)")
    above.plot(*pos[valid][0, :2], "r^", zorder=3)
    height.plot(seconds, pos[:, 2], marker="." if len(pos) < 30 else "")


def _draw_map(figure: Figure, folder: Path) -> None:
    """The occupancy grid of `_map` as ROS' map_server would load it: walls dark, free floor light."""
    plan = read_floor_plan(folder)
    if plan is None:
        raise FormatError(f"{folder}: has no occupancy grid that can be read; make the map again")
    figure.set_size_inches(8, 7)
    plots.draw_plan(plots.add_view_from_above(figure, "x (m)", "y (m)"), plan)


def _draw_objects(figure: Figure, sensor: Sensor, frame: int) -> None:
    """Each box with its track and class, where it goes within a second, and where its track came from."""
    times = sensor.times(sensor.length())
    begin = int(np.searchsorted(times, times[frame] - _PAST_S))
    channels = ("count", "track", "centre", "extent", "yaw", "vel", "probability")
    past = {name: sensor.channel(name).read(begin, frame + 1) for name in channels}
    now = {name: values[-1] for name, values in past.items()}
    figure.set_size_inches(9, 6.5)
    plot = plots.add_view_from_above(figure, "x (m)", "y (m)")
    plots.draw_plan(plot, read_floor_plan(sensor.path.parent / _MAP))
    _draw_way(plot, sensor, frame)
    classes = object_classes(sensor)
    for track, centre, extent, yaw, vel, probability in zip(
        *(now[name][: now["count"]] for name in channels[1:]), strict=True
    ):
        colour, (x, y) = f"C{track % 10}", centre[:2]
        along, across = np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]])
        along, across = along * extent[0] / 2, across * extent[1] / 2
        corners = centre[:2] + np.stack([along + across, across - along, -along - across, along - across])
        plot.add_patch(Polygon(corners, fill=False, edgecolor=colour, linewidth=2))
        way = past["centre"][past["track"] == track]  # a track is at most once in a sweep
        plot.plot(way[:, 0], way[:, 1], color=colour, linewidth=1)
        ahead = tuple(centre[:2] + _ARROW_S * vel[:2])
        plot.annotate("", ahead, (x, y), arrowprops={"arrowstyle": "->", "color": colour})
        likely, speed = int(probability.argmax()), np.hypot(*vel[:2])
        label = f"{track}: {classes[likely]} {probability[likely]:.0%}, {speed:.1f} m/s"
        style: dict[str, Any] = {"xytext": (0, 14), "textcoords": "offset points", "ha": "center", "color": colour}
        said = plot.annotate(label, (x, y), **style)
        said.set_path_effects([withStroke(linewidth=3, foreground="white")])
    if not now["count"]:
        plots.say_empty(plot, "no body moves in this frame")
    plot.autoscale_view()


def _draw_way(plot: Axes, sensor: Sensor, frame: int) -> None:
    """The way of the lidar up to the frame, and where it is."""
    trace = Trace(sensor.path.parent)
    if "_odom" not in trace.sensors():
        return
    odom = trace.sensor("_odom")
    until = min(frame + 1, odom.length())
    pos = odom.channel("pos").read(0, until)[odom.valid(until) != 0]
    if len(pos):
        plot.plot(pos[:, 0], pos[:, 1], color="0.5", linewidth=1)
        plot.plot(pos[-1, 0], pos[-1, 1], "k^")


def _draw_velocity(figure: Figure, sensor: Sensor) -> None:
    """The velocity in all frames, plus and minus one standard deviation. Frames that are not valid are gaps."""
    seconds, valid = _clock(sensor)
    vel = sensor.channel("vel").read()
    sigma = np.sqrt(np.diagonal(sensor.channel("cov").read(), axis1=1, axis2=2))
    plot = figure.subplots()
    plots.draw_curves(plot, seconds, vel, valid, ["ahead", "to the left", "up"])
    for line, low, high in zip(plot.lines, (vel - sigma).T, (vel + sigma).T, strict=True):
        plot.fill_between(seconds, low, high, where=valid.tolist(), color=line.get_color(), alpha=0.3, linewidth=0)
    plot.set(xlabel="time (s)", ylabel="velocity of the radar (m/s)")


def _draw_partners(figure: Figure, sensor: Sensor) -> None:
    """How far the matched samples of `_sync` are from the reference in time, which says more than their numbers."""
    seconds, valid = _clock(sensor)
    partners: dict[str, np.ndarray] = {}
    for name in sensor.specs:
        if name.endswith("_dt") and (dt := sensor.channel(name).read_whole(len(seconds))).any():  # else the reference
            partners[name.removesuffix("_dt")] = 1e3 * dt.astype("f8")
    if not partners:
        plots.say_empty(figure.subplots(), "no sensor besides the reference")
        return
    for plot, (name, dt) in zip(plots.add_rows(figure, len(partners)), partners.items(), strict=True):
        absent = sensor.channel(name).read_whole(len(seconds)) < 0
        plots.draw_curves(plot, seconds, np.where(absent, np.nan, dt)[:, None], valid, [""], dots=True)
        plot.set_ylabel(f"{name} (ms)")
    figure.supylabel("time of the nearest sample minus that of the reference", fontsize="medium")


def _draw_times(figure: Figure, sensor: Sensor) -> None:
    """What a model of a clock changed: arrival minus modelled time, lost samples, and how wrong the times can be."""
    seconds, valid = _clock(sensor)
    smooth, error, number, segment = (
        sensor.channel(name).read_whole(len(seconds)) for name in ("smooth", "error", "number", "segment")
    )
    late = sensor.times(len(seconds)) - smooth
    upper, lower = plots.add_rows(figure, 2)
    plots.draw_curves(upper, seconds, 1e3 * late[:, None], valid, [""], dots=True)
    upper.set_ylabel("recorded minus\nmodelled time (ms)")
    lost = np.flatnonzero((np.diff(number) > 1) & (np.diff(segment) == 0))
    for position in (seconds[lost] + seconds[lost + 1]) / 2:
        upper.axvline(position, color="tab:red", linewidth=1)
    for position in seconds[1:][np.diff(segment) != 0]:
        upper.axvline(position, color="black", linewidth=1, linestyle="--")
    plots.draw_curves(lower, seconds, 1e3 * error.astype("f8")[:, None], valid, [""])
    lower.set_ylabel("largest error (ms)")
    lower.set_ylim(bottom=0)
    absent, segments = int((number[lost + 1] - number[lost] - 1).sum()), int(segment.max(initial=0)) + 1
    upper.set_title(f"lost samples (red): {absent}, segments: {segments}", fontsize="medium")


def _is_image(spec: ChannelSpec) -> bool:
    """Whether a sample has so many numbers along several axes that it fills a picture."""
    return len(spec.shape) > 1 and int(np.prod(spec.shape)) > _MAX_OF_MATRIX


def _is_row(spec: ChannelSpec) -> bool:
    return len(spec.shape) == 1 and spec.shape[0] > _MAX_LINES


def _draw_sensor(figure: Figure, sensor: Sensor, frame: int) -> bool:
    """A frame of the first channel that is an image, or else all others over time. Returns whether it is a frame."""
    names = [name for name in sensor.specs if name not in (TS, VALID)]
    images = [name for name in names if _is_image(sensor.specs[name])]
    # A covariance of 6 x 6 numbers beside states is no picture of its sensor.
    large = [name for name in images if min(sensor.specs[name].shape[:2]) > 6]
    others = [name for name in names if name not in images][:_MAX_CHANNELS]
    if large or (images and not others):
        _draw_channel(figure, sensor, (large or images)[0], frame)
        return True
    seconds, valid = _clock(sensor)
    if not others:
        plot = figure.subplots()
        plot.plot(seconds, np.zeros(len(seconds)), "|", markersize=20)
        plot.set(xlabel="time (s)", yticks=[])
        plots.say_empty(plot, "\n\n\nthe times of the samples; the sensor has no other channel")
    elif len(others) == 1 and _is_row(sensor.specs[others[0]]):
        _draw_channel(figure, sensor, others[0], frame)
    else:
        for plot, name in zip(plots.add_rows(figure, len(others)), others, strict=True):
            if _is_row(sensor.specs[name]):
                _draw_waterfall(plot, sensor, name, seconds, frame)
            else:
                _draw_lines(plot, sensor, name, seconds, valid)
    return False


def _draw_channel(figure: Figure, sensor: Sensor, name: str, sample: int) -> None:
    """One sample of a channel, with labelled axes. Of few numbers the samples around it are shown, as curves."""
    spec = sensor.specs[name]
    # Published traces keep the video of a camera in a copy of the sensor.
    stored = Trace(sensor.path.parent).source(sensor.name, name).channel(name)
    axes, label = axes_and_unit(sensor.name, name, spec)[0], _label(sensor, name)
    if _is_image(spec):
        values = stored.sample(sample)
        if axes[-1] == "colour" or (len(spec.shape) == 3 and spec.shape[2] == 3 and spec.type == "u1"):
            plot = figure.subplots()
            plot.imshow(values)
            plot.set(xlabel="column (pixel)", ylabel="row (pixel)")
        elif axes[-1] == "xyz" and spec.shape[-1] == 3:
            plots.draw_lidar_points(figure, values.reshape(-1, 3))
        else:
            values = _real(values)
            if others := axes[:-2]:
                values = np.fmax.reduce(values, axis=tuple(range(len(others))))
                label += f", largest over {', '.join(others).replace('_', ' ')}"
            y, x = (_bins(sensor, *each) for each in zip(axes[-2:], values.shape, strict=True))
            # Rows of pictures, and beams of a lidar, are counted downward.
            plots.draw_cells(figure.subplots(), y, x, values, label, downward=axes[-2] in ("row", "beam"))
        return
    seconds, valid = _clock(sensor)
    if _is_row(spec):
        figure.set_size_inches(12, 5)
        curve, over_time = figure.subplots(1, 2, width_ratios=(2, 3))
        values = _real(stored.read(sample, sample + 1))
        plots.draw_cells(curve, Bins("", np.zeros(1)), _bins(sensor, axes[0], values.shape[1]), values, label)
        _draw_waterfall(over_time, sensor, name, seconds, sample)
        over_time.set_xlabel("time (s)")
        return
    plot = figure.subplots()
    _draw_lines(plot, sensor, name, seconds, valid, slice(max(0, sample - _AROUND), sample + _AROUND + 1))
    plot.axvline(seconds[sample], color="black", linewidth=0.8)
    plot.set_xlabel("time (s)")


def _label(sensor: Sensor, name: str) -> str:
    """The name of a channel, with its unit where it has one."""
    unit = axes_and_unit(sensor.name, name, sensor.specs[name])[1]
    return f"{name} ({unit})" if unit else name


def _clock(sensor: Sensor) -> tuple[np.ndarray, np.ndarray]:
    """Times of all samples after the first one, f8 (sample,), s, and which are valid."""
    count = sensor.length()
    times = sensor.times(count)
    return times - times[0], sensor.valid(count) != 0


def _real(values: np.ndarray) -> np.ndarray:
    return np.abs(values).astype("f8") if values.dtype.kind == "c" else values.astype("f8")


def _draw_waterfall(plot: Axes, sensor: Sensor, name: str, seconds: np.ndarray, sample: int) -> None:
    """A channel of one axis over time, upward along that axis. Of long recordings evenly spaced samples are shown."""
    channel, axis = sensor.channel(name), axes_and_unit(sensor.name, name, sensor.specs[name])[0][0]
    chosen = np.unique(np.linspace(0, len(seconds) - 1, _WATERFALL).round().astype(int))
    values = _real(np.stack([channel.sample(at) for at in chosen.tolist()]))
    rows = _bins(sensor, axis, values.shape[1])
    rows = rows._replace(label=rows.label.partition(", positive")[0])  # channels share the height of the picture
    plots.draw_cells(plot, rows, Bins("", seconds[chosen]), values.T, _label(sensor, name))
    plot.axvline(seconds[sample], color="white", linewidth=0.8)


def _draw_lines(
    plot: Axes, sensor: Sensor, name: str, seconds: np.ndarray, valid: np.ndarray, chosen: slice = slice(None)
) -> None:
    """A curve for each number of a channel, of chosen samples."""
    values = _real(sensor.channel(name).read_whole(len(seconds))[chosen].reshape(len(seconds[chosen]), -1))
    shape, axes = sensor.specs[name].shape, axes_and_unit(sensor.name, name, sensor.specs[name])[0]
    is_vector = shape == (3,) or (shape == (4,) and axes == ("xyzw",))
    labels = list("xyzw"[: shape[0]]) if is_vector else [",".join(map(str, index)) for index in np.ndindex(*shape)]
    plots.draw_curves(plot, seconds[chosen], values, valid[chosen], labels)
    plot.set_ylabel(_label(sensor, name))


#: Sensor -> function that draws one frame of it.
_FRAMES: dict[str, Callable[[Figure, Sensor, int], None]] = {
    "lidar": _draw_lidar,
    "_lidar_image": _draw_lidar,
    "_lidar_points": _draw_lidar_points,
    "_radar_range_doppler": _draw_power,
    "_radar_range_azimuth": _draw_power,
    "_radar_spectrum": _draw_spectrum,
    "_radar_points": _draw_radar_points,
    "_bev": _draw_occupancy,
    "_occupancy": _draw_occupancy,
    "_camera_depth": _draw_depth,
    "_objects": _draw_objects,
}
#: Raw sensors that are points -> function that draws one frame of them.
_POINTS = {"lidar": _draw_lidar_points, "radar": _draw_radar_points}
#: Sensor -> function that draws all of it in one picture.
_WHOLES: dict[str, Callable[[Figure, Sensor], None]] = {
    "_radar_velocity": _draw_velocity,
    "_sync": _draw_partners,
    **dict.fromkeys(("_lidar_times", "_radar_times", "_camera_times", "_imu_times"), _draw_times),
    **dict.fromkeys(("_odom", "_radar_odom", "_reference", "_truth"), _draw_trajectory),
}
