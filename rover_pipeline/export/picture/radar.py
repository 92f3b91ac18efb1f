"""Frames of radar products, with axes in physical units."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rover_pipeline.export.picture.common import draw_cells, say_empty
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.sensor import Sensor

#: Decibels from the strongest bin of a frame down to the end of the colour scale.
_SPAN_DB = 50.0
#: Size of points of unknown strength, and the largest ratio of signal to noise, dB.
_SIZE, _MOST_DB = 15.0, 80.0
_DECIBELS = "dB re one squared ADC count"


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


def draw_points(figure: Figure, sensor: Sensor, frame: int) -> None:
    """The points from above. Ahead is up, to the right is right."""
    count = int(sensor.channel("count").read(frame, frame + 1)[0])
    strength = next((name for name in ("snr", "intensity") if name in sensor.specs), "doppler")
    xyz, doppler, snr = (
        sensor.channel(name).read(frame, frame + 1)[0, :count] for name in ("xyz", "doppler", strength)
    )
    if strength == "doppler" or not np.isfinite(snr).all():
        snr = np.full(count, _SIZE)
    elif snr.max(initial=0) > _MOST_DB:  # not dB but in some unit of the radar's own
        snr = _MOST_DB * snr / snr.max()
    max_speed = float(np.abs(doppler).max(initial=0.1))
    figure.set_size_inches(8, 6.5)
    plot = figure.subplots()
    # The edge shows points that stand still, which are as pale as the paper.
    style: dict[str, Any] = {"cmap": "coolwarm", "edgecolors": "0.35", "linewidths": 0.5}
    sizes = 2 * np.maximum(snr, 1)
    points = plot.scatter(-xyz[:, 1], xyz[:, 0], sizes, doppler, vmin=-max_speed, vmax=max_speed, **style)
    figure.colorbar(points, ax=plot, label="radial velocity (m/s), positive recedes")
    plot.plot(0, 0, "k^")
    plot.set(xlabel="to the right (m)", ylabel="ahead (m)", aspect="equal")
    plot.grid(alpha=0.3)
    if not count:
        say_empty(plot, "no points in this frame")


def draw_velocity(figure: Figure, sensor: Sensor) -> None:
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


def _draw_bins(plot: Axes, sensor: Sensor, power: np.ndarray, vertical: str) -> None:
    """Decibels, (vertical, range), with range to the right, and `vertical`, Doppler or azimuth, upward."""
    high = power.max()
    draw_cells(plot, sensor, power, (vertical, "range"), _DECIBELS, vmin=high - _SPAN_DB, vmax=high)
