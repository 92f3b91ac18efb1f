"""Figures of samples: of a sensor those of `rover-pipeline picture`, of a channel a plain one."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rover_pipeline.errors import FormatError
from rover_pipeline.export.picture import draw
from rover_pipeline.reading.channel import Channel
from rover_pipeline.reading.selection import select
from rover_pipeline.reading.sensor import Sensor

#: Samples that a figure over time shows to both sides of the one that it is of.
_AROUND = 200
#: Values of a sample that are a line each in a figure over time: a state has 3, a rotation 9.
_MAX_LINES = 9


class _Shown(Figure):
    """A figure that a notebook shows even where nobody has imported pyplot."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=100)
        return buffer.getvalue()


def figure_of(sensor: Sensor, sample: int, channel: str | None) -> Figure:
    """See `Sensor.plot`."""
    selected = select(sample, len(sensor), 0, str(sensor.path)).samples
    if not isinstance(selected, int):
        raise FormatError(f"{sensor.path}: a figure shows one sample; give its number")
    if channel is None:
        figure = draw(sensor.path.parent, sensor.name, selected)
    else:
        figure = _figure_of_channel(sensor.channel(channel), selected)
    figure.__class__ = _Shown
    return figure


def _figure_of_channel(channel: Channel, sample: int) -> Figure:
    figure = Figure(figsize=(8, 5), layout="constrained")
    plot = figure.subplots()
    shape = channel.shape[1:]
    if channel.axes[-1] == "colour":
        plot.imshow(channel[sample])
        plot.set(xlabel="column (pixel)", ylabel="row (pixel)")
    elif channel.axes[-1] == "xyz" and len(shape) > 1 and int(np.prod(shape)) > _MAX_LINES:
        _draw_points(plot, np.asarray(channel[sample]).reshape(-1, 3))
    elif len(shape) == 2 and int(np.prod(shape)) > _MAX_LINES:
        _draw_matrix(plot, channel, sample)
    elif len(shape) == 1 and shape[0] > _MAX_LINES:
        _draw_row(plot, channel, sample)
    elif int(np.prod(shape)) <= _MAX_LINES:
        _draw_over_time(plot, channel, sample)
    else:
        raise FormatError(
            f"{channel.sensor.path}/{channel.name}: samples of {list(shape)} have no picture; draw a part of one"
        )
    time = datetime.fromtimestamp(float(channel.ts[sample]), UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    remark = "" if channel.valid[sample] else ", not valid"
    figure.suptitle(f"{channel.sensor.name}/{channel.name}, sample {sample} of {len(channel)} at {time} UTC{remark}")
    return figure


def _draw_points(plot: Axes, points: np.ndarray) -> None:
    """Points from above, ahead upward, coloured by height. Zeros and NaN are no returns."""
    points = points[np.isfinite(points).all(1) & (points != 0).any(1)]
    drawn = plot.scatter(-points[:, 1], points[:, 0], 1, points[:, 2], cmap="viridis")
    _figure(plot).colorbar(drawn, ax=plot, label="height (m)")
    plot.set(xlabel="to the right (m)", ylabel="ahead (m)", aspect="equal")


def _draw_matrix(plot: Axes, channel: Channel, sample: int) -> None:
    """Two axes as an image. Rows of pictures and beams of a lidar go downward, everything else upward."""
    values = np.asarray(channel[sample], "f4")
    labels, centres = [], []
    for axis, size in zip(channel.axes[1:], channel.shape[1:], strict=True):
        label, centre = _along(channel, axis, size)
        labels.append(label)
        centres.append(centre)
    image = plot.pcolormesh(centres[1], centres[0], values, shading="nearest", rasterized=True)
    _figure(plot).colorbar(image, ax=plot, label=_label(channel))
    plot.set(xlabel=labels[1], ylabel=labels[0])
    if channel.axes[1] in ("row", "beam"):
        plot.invert_yaxis()


def _draw_row(plot: Axes, channel: Channel, sample: int) -> None:
    label, centres = _along(channel, channel.axes[1], channel.shape[1])
    plot.plot(centres, channel[sample], ".-")
    plot.set(xlabel=label, ylabel=_label(channel))
    plot.grid(alpha=0.3)


def _draw_over_time(plot: Axes, channel: Channel, sample: int) -> None:
    """A line for each value of the samples around the one that is marked. Samples that are not valid are gaps."""
    chosen = slice(max(0, sample - _AROUND), sample + _AROUND + 1)
    times = channel.ts[chosen] - channel.ts[0]
    values = np.array(channel[chosen], "f8").reshape(len(times), -1)
    values[~channel.valid[chosen]] = np.nan
    axis = channel.axes[-1]
    names = list("xyzw")[: values.shape[1]] if axis.startswith("xyz") else [str(at) for at in range(values.shape[1])]
    for name, line in zip(names, values.T, strict=True):
        plot.plot(times, line, label=name)
    plot.axvline(float(channel.ts[sample] - channel.ts[0]), color="black", linewidth=0.8)
    plot.set(xlabel="time since the first sample (s)", ylabel=_label(channel))
    plot.grid(alpha=0.3)
    if len(names) > 1:
        plot.legend()


def _along(channel: Channel, axis: str, size: int) -> tuple[str, np.ndarray]:
    """The label of an axis and the value of each of its bins; angles in degrees, bins of unknown size numbered."""
    known = channel.sensor.coordinates.get(axis)
    if known is None or known.values is None or len(known.values) != size:
        return axis, np.arange(size, dtype="f8")
    in_degrees = known.unit == "rad"
    unit = "degrees" if in_degrees else known.unit
    direction = f", positive: {known.positive}" if known.positive else ""
    return f"{axis} ({unit}){direction}", np.degrees(known.values) if in_degrees else known.values


def _label(channel: Channel) -> str:
    return f"{channel.name} ({channel.unit})" if channel.unit else channel.name


def _figure(plot: Axes) -> Figure:
    figure = plot.get_figure(root=True)
    assert figure is not None
    return figure
