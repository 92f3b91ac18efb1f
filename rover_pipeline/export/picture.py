"""Pictures of radar products, with physical axes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rover_pipeline.errors import ConfigError, FormatError, InTheWayError, did_you_mean
from rover_pipeline.export.output import new_output
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.trace import require_trace
from rover_pipeline.radar.axes import AXES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Decibels below the strongest cell at which colours end.
_SPAN_DB = 50.0
_LABELS = {
    "range": "range (m)",
    "doppler": "radial velocity (m/s), receding upward",
    "azimuth": "azimuth (degrees), to the right",
}


def save_picture(trace: Path, name: str, out: Path, frame: int = 0) -> None:
    """Render one frame of a radar product of a trace to a PNG.

    Args:
        name: of the virtual sensor, with or without its underscore.
        frame: counted from 0; of `_radar_velocity` all frames are shown.

    Raises:
        ConfigError: there is no picture of that sensor, or no such frame.
        InTheWayError: `out` is there already. Nothing is overwritten.
    """
    if os.path.lexists(out):
        raise InTheWayError(f"{out}: is there already; remove it or choose another name")
    figure = draw(trace, name, frame)
    with new_output(out) as made:
        figure.savefig(made, format="png", dpi=120)


def draw(trace: Path, name: str, frame: int = 0) -> Figure:
    """The figure that `save_picture` renders."""
    name = f"_{name.removeprefix('_')}"
    if name not in _PICTURES:
        raise ConfigError(f"picture: {name}: only radar products are drawn; {did_you_mean(name, _PICTURES)}")
    place = require_trace(trace) / name
    if not place.is_dir():
        raise FormatError(f"{place}: no such sensor; make it with `rover-pipeline run {trace} --outputs {name[1:]}`")
    sensor = Sensor(place)
    count = sensor.length()
    if not 0 <= frame < count:
        raise ConfigError(f"{place}: has {count} frames; there is no frame {frame}")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    _PICTURES[name](figure, sensor, frame)
    title = f"{trace.resolve().name}/{name}"
    if name != "_radar_velocity":
        doubt = "" if sensor.valid(count)[frame] else ", not valid"
        title += f", frame {frame} of {count} at {sensor.times(count)[frame] - sensor.times(count)[0]:.2f} s{doubt}"
    figure.suptitle(title)
    return figure


def _range_doppler(figure: Figure, sensor: Sensor, frame: int) -> None:
    power = sensor.channel("power").read(frame, frame + 1)[0]
    _map(figure.subplots(), power, _axes(sensor), "doppler")


def _range_azimuth(figure: Figure, sensor: Sensor, frame: int) -> None:
    power = sensor.channel("power").read(frame, frame + 1)[0]
    _map(figure.subplots(), power, _axes(sensor), "azimuth")


def _spectrum(figure: Figure, sensor: Sensor, frame: int) -> None:
    """The strongest direction of each Doppler and range bin, and the strongest Doppler of each direction."""
    values = sensor.channel("spectrum").read(frame, frame + 1)[0].astype("f8")
    if _scale(sensor) == "amplitude":
        values = 20 * np.log10(np.maximum(values, 1e-5))
    figure.set_size_inches(13, 5)
    left, right = figure.subplots(1, 2)
    axes = _axes(sensor)
    _map(left, values.max(axis=(1, 2)), axes, "doppler")
    _map(right, values.max(axis=(0, 1)), axes, "azimuth")


def _points(figure: Figure, sensor: Sensor, frame: int) -> None:
    """From above, straight ahead upward."""
    count = int(sensor.channel("count").read(frame, frame + 1)[0])
    xyz, doppler, snr = (sensor.channel(name).read(frame, frame + 1)[0, :count] for name in ("xyz", "doppler", "snr"))
    fastest = float(np.abs(doppler).max(initial=0.1))
    plot = figure.subplots()
    dots = plot.scatter(-xyz[:, 1], xyz[:, 0], 2 * snr, doppler, cmap="coolwarm", vmin=-fastest, vmax=fastest)
    figure.colorbar(dots, ax=plot, label="radial velocity (m/s), positive recedes")
    plot.plot(0, 0, "k^")
    plot.set(xlabel="to the right (m)", ylabel="ahead (m)", aspect="equal")
    plot.grid(alpha=0.3)


def _velocity(figure: Figure, sensor: Sensor, frame: int) -> None:
    """All frames with one standard deviation; those that are not valid are gaps."""
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


def _map(plot: Axes, power: np.ndarray, axes: dict[str, np.ndarray | None], upward: str) -> None:
    """Decibels over range, and Doppler or azimuth upward. Bins are numbered where nobody says how large they are."""
    edges = []
    for name, bins in (("range", power.shape[1]), (upward, len(power))):
        values = axes.get(name)
        edges.append(np.arange(bins) if values is None else values)
    image = plot.pcolormesh(*edges, power, vmin=power.max() - _SPAN_DB, vmax=power.max(), shading="nearest")
    labels = [
        _LABELS[name] if axes.get(name) is not None else f"{name} bin (no size in radar.json)"
        for name in ("range", upward)
    ]
    plot.set(xlabel=labels[0], ylabel=labels[1])
    assert plot.figure is not None
    plot.figure.colorbar(image, ax=plot, label="dB re one squared ADC count")


def _axes(sensor: Sensor) -> dict[str, np.ndarray | None]:
    """Value of each bin by axis, angles in degrees; None where it is unknown."""
    path = sensor.path / AXES
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {
            name: None if axis["values"] is None else _in_units(np.array(axis["values"]), axis["unit"])
            for name, axis in content.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{path}: cannot be read ({error}); make the sensor again") from error


def _in_units(values: np.ndarray, unit: str) -> np.ndarray:
    return np.degrees(values) if unit == "rad" else values


def _scale(sensor: Sensor) -> str:
    from rover_pipeline.format.provenance import read_provenance

    return str((read_provenance(sensor.path) or {}).get("options", {}).get("scale", "amplitude"))


_PICTURES: dict[str, Callable[[Any, Sensor, int], None]] = {
    "_radar_range_doppler": _range_doppler,
    "_radar_range_azimuth": _range_azimuth,
    "_radar_spectrum": _spectrum,
    "_radar_points": _points,
    "_radar_velocity": _velocity,
}
