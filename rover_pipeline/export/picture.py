"""Pictures of radar products, with axes in physical units."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rover_pipeline.errors import ConfigError, FormatError, InTheWayError, did_you_mean, short
from rover_pipeline.export.output import new_output
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.texts import read_json
from rover_pipeline.format.trace import require_trace
from rover_pipeline.radar.axes import AXES

#: Decibels from the strongest bin of a frame down to the end of the colour scale.
_SPAN_DB = 50.0
_LABELS = {
    "range": "range (m)",
    "doppler": "radial velocity (m/s), receding upward",
    "azimuth": "azimuth (degrees), to the right",
}


def save_picture(trace: Path, name: str, out: Path, frame: int = 0) -> None:
    """Render one frame of a radar product of a trace to a PNG.

    Args:
        name: name of the virtual sensor, with or without its underscore.
        frame: counted from 0. A picture of `_radar_velocity` shows all frames.

    Raises:
        ConfigError: there is no picture of that sensor, or no such frame.
        InTheWayError: `out` already exists. Nothing is overwritten.
    """
    if os.path.lexists(out):
        raise InTheWayError(f"{out}: already exists; remove it or choose another name")
    figure = draw(trace, name, frame)
    with new_output(out) as scratch:
        figure.savefig(scratch, format="png", dpi=120)


def draw(trace: Path, name: str, frame: int = 0) -> Figure:
    """The figure that `save_picture` renders."""
    name = f"_{name.removeprefix('_')}"
    if name not in _PICTURES:
        raise ConfigError(f"picture: {name}: only radar products can be drawn; {did_you_mean(name, _PICTURES)}")
    path = require_trace(trace) / name
    if not path.is_dir():
        raise FormatError(f"{path}: no such sensor; make it with `rover-pipeline run {trace} --outputs {name[1:]}`")
    sensor = Sensor(path)
    count = sensor.length()
    if not 0 <= frame < count:
        raise ConfigError(f"{path}: has {count} frames; there is no frame {frame}")
    figure = Figure(figsize=(8, 5), layout="constrained")
    _PICTURES[name](figure, sensor, frame)
    title = f"{trace.resolve().name}/{name}"
    if name != "_radar_velocity":
        times, remark = sensor.times(count), "" if sensor.valid(count)[frame] else ", not valid"
        title += f", frame {frame} of {count} at {times[frame] - times[0]:.2f} s{remark}"
    figure.suptitle(title)
    return figure


def _draw_power(figure: Figure, sensor: Sensor, frame: int) -> None:
    power = sensor.channel("power").read(frame, frame + 1)[0]
    _draw_bins(figure.subplots(), power, _read_axes(sensor), sensor.name.removeprefix("_radar_range_"))


def _draw_spectrum(figure: Figure, sensor: Sensor, frame: int) -> None:
    """To the left the strongest direction of each range and Doppler bin, to the right the strongest Doppler bin of each
    range bin and azimuth."""
    values = sensor.channel("spectrum").read(frame, frame + 1)[0].astype("f8")
    if (read_provenance(sensor.path) or {}).get("options", {}).get("scale", "amplitude") == "amplitude":
        values = 20 * np.log10(np.maximum(values, 1e-5))
    figure.set_size_inches(13, 5)
    left, right = figure.subplots(1, 2)
    axes = _read_axes(sensor)
    _draw_bins(left, values.max(axis=(1, 2)), axes, "doppler")
    _draw_bins(right, values.max(axis=(0, 1)), axes, "azimuth")


def _draw_points(figure: Figure, sensor: Sensor, frame: int) -> None:
    """The points from above. Ahead is up, to the right is right."""
    count = int(sensor.channel("count").read(frame, frame + 1)[0])
    xyz, doppler, snr = (sensor.channel(name).read(frame, frame + 1)[0, :count] for name in ("xyz", "doppler", "snr"))
    max_speed = float(np.abs(doppler).max(initial=0.1))
    plot = figure.subplots()
    points = plot.scatter(-xyz[:, 1], xyz[:, 0], 2 * snr, doppler, cmap="coolwarm", vmin=-max_speed, vmax=max_speed)
    figure.colorbar(points, ax=plot, label="radial velocity (m/s), positive recedes")
    plot.plot(0, 0, "k^")
    plot.set(xlabel="to the right (m)", ylabel="ahead (m)", aspect="equal")
    plot.grid(alpha=0.3)


def _draw_velocity(figure: Figure, sensor: Sensor, frame: int) -> None:
    """The velocity in all frames, plus and minus one standard deviation. Frames that are not valid are gaps."""
    count = sensor.length()
    times = sensor.times(count)
    valid = sensor.valid(count) != 0
    vel = np.where(valid[:, None], sensor.channel("vel").read(), np.nan)
    sigma = np.sqrt(np.diagonal(sensor.channel("cov").read(), axis1=1, axis2=2))
    plot = figure.subplots()
    for axis, label in enumerate(("ahead", "to the left", "up")):
        (line,) = plot.plot(times - times[0], vel[:, axis], label=label)
        low, high = vel[:, axis] - sigma[:, axis], vel[:, axis] + sigma[:, axis]
        plot.fill_between(times - times[0], low, high, color=line.get_color(), alpha=0.3)
    plot.set(xlabel="time (s)", ylabel="velocity of the radar (m/s)")
    plot.legend()
    plot.grid(alpha=0.3)


def _draw_bins(plot: Axes, power: np.ndarray, axes: dict[str, np.ndarray | None], vertical: str) -> None:
    """Decibels with range to the right, and Doppler or azimuth upward. Bins of unknown size are numbered.

    Args:
        power: (vertical, range), dB.
        vertical: name of the vertical axis, `doppler` or `azimuth`.
    """
    centres, labels = [], []
    for name, bins in (("range", power.shape[1]), (vertical, len(power))):
        values = axes.get(name)
        centres.append(np.arange(bins) if values is None else values)
        labels.append(f"{name} bin (no size in radar.json)" if values is None else _LABELS[name])
    image = plot.pcolormesh(*centres, power, vmin=power.max() - _SPAN_DB, vmax=power.max(), shading="nearest")
    plot.set(xlabel=labels[0], ylabel=labels[1])
    assert plot.figure is not None
    plot.figure.colorbar(image, ax=plot, label="dB re one squared ADC count")


def _read_axes(sensor: Sensor) -> dict[str, np.ndarray | None]:
    """Axis -> value of each bin, angles in degrees; None when the size of its bins is unknown."""
    path = sensor.path / AXES
    try:
        content = read_json(path)
        return {
            name: None if axis["values"] is None else _in_units(np.array(axis["values"]), axis["unit"])
            for name, axis in content.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{path}: cannot be read ({short(str(error))}); make the sensor again") from error


def _in_units(values: np.ndarray, unit: str) -> np.ndarray:
    return np.degrees(values) if unit == "rad" else values


_PICTURES: dict[str, Callable[[Figure, Sensor, int], None]] = {
    "_radar_range_doppler": _draw_power,
    "_radar_range_azimuth": _draw_power,
    "_radar_spectrum": _draw_spectrum,
    "_radar_points": _draw_points,
    "_radar_velocity": _draw_velocity,
}
