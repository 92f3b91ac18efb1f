"""Pictures of any channel of numbers: an image, points from above, a curve and a waterfall, or curves over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rover_pipeline.format.axes import read_axes
from rover_pipeline.format.descriptions import axes_and_unit
from rover_pipeline.format.meta import ChannelSpec
from rover_pipeline.format.sensor import TS, VALID, Sensor
from rover_pipeline.format.trace import Trace

#: Most numbers of a sample that are drawn as a curve each, along one axis or several (a rotation has nine), and most
#: channels of a picture.
_MOST_LINES, _MOST_OF_MATRIX, _MOST_CHANNELS = 16, 9, 6
#: Samples of a waterfall, and samples of curves to both sides of the one that a figure of a channel is about.
_WATERFALL, _AROUND = 1000, 200


def _is_image(spec: ChannelSpec) -> bool:
    """Whether a sample has so many numbers along several axes that it fills a picture."""
    return len(spec.shape) > 1 and int(np.prod(spec.shape)) > _MOST_OF_MATRIX


def draw_sensor(figure: Figure, sensor: Sensor, frame: int) -> bool:
    """A frame of the first channel that is an image, or else all others over time.

    Returns:
        Whether it is a picture of the frame alone.
    """
    names = [name for name in sensor.specs if name not in (TS, VALID)]
    images = [name for name in names if _is_image(sensor.specs[name])]
    # A covariance of 6 x 6 numbers beside states is no picture of its sensor.
    large = [name for name in images if min(sensor.specs[name].shape[:2]) > 6]
    others = [name for name in names if name not in images][:_MOST_CHANNELS]
    if large or (images and not others):
        draw_channel(figure, sensor, (large or images)[0], frame)
        return True
    names = others
    seconds, valid = _clock(sensor)
    if not names:
        plot = figure.subplots()
        plot.plot(seconds, np.zeros(len(seconds)), "|", markersize=20)
        plot.set(xlabel="time (s)", yticks=[])
        say_empty(plot, "\n\n\nthe times of the samples; the sensor has no other channel")
    elif len(names) == 1 and _is_row(sensor.specs[names[0]]):
        draw_channel(figure, sensor, names[0], frame)
    else:
        for plot, name in zip(rows(figure, len(names)), names, strict=True):
            if _is_row(sensor.specs[name]):
                _draw_waterfall(plot, sensor, name, seconds, frame)
            else:
                _draw_lines(plot, sensor, name, seconds, valid)
    return False


def draw_channel(figure: Figure, sensor: Sensor, name: str, sample: int) -> None:
    """One sample of a channel, with labelled axes. Of few numbers the samples around it are shown, as curves."""
    spec = sensor.specs[name]
    # Published traces keep the video of a camera in a copy of the sensor.
    stored = Trace(sensor.path.parent).source(sensor.name, name).channel(name)
    axes, label = axes_and_unit(sensor.name, name, spec)[0], label_of(sensor, name)
    if _is_image(spec):
        values, plot = stored.read(sample, sample + 1)[0], figure.subplots()
        if axes[-1] == "colour" or (len(spec.shape) == 3 and spec.shape[2] == 3 and spec.type == "u1"):
            plot.imshow(values)
            plot.set(xlabel="column (pixel)", ylabel="row (pixel)")
        elif axes[-1] == "xyz" and spec.shape[-1] == 3:
            _draw_points(plot, values.reshape(-1, 3))
        else:
            values = _real(values)
            if others := axes[:-2]:
                values = np.fmax.reduce(values, axis=tuple(range(len(others))))
                label += f", largest over {', '.join(others).replace('_', ' ')}"
            draw_cells(plot, sensor, values, axes[-2:], label)
        return
    seconds, valid = _clock(sensor)
    if _is_row(spec):
        figure.set_size_inches(12, 5)
        curve, over_time = figure.subplots(1, 2, width_ratios=(2, 3))
        draw_cells(curve, sensor, _real(stored.read(sample, sample + 1)), ("sample", axes[0]), label)
        _draw_waterfall(over_time, sensor, name, seconds, sample)
        over_time.set_xlabel("time (s)")
        return
    plot = figure.subplots()
    chosen = slice(max(0, sample - _AROUND), sample + _AROUND + 1)
    _draw_lines(plot, sensor, name, seconds, valid, chosen)
    plot.axvline(seconds[sample], color="black", linewidth=0.8)
    plot.set_xlabel("time (s)")


def label_of(sensor: Sensor, name: str) -> str:
    """The name of a channel, with its unit where it has one."""
    unit = axes_and_unit(sensor.name, name, sensor.specs[name])[1]
    return f"{name} ({unit})" if unit else name


def rows(figure: Figure, count: int) -> list[Axes]:
    """Plots under one another with one axis of time."""
    figure.set_size_inches(9, 1.5 + 1.7 * count)
    plots: list[Axes] = list(figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0])
    plots[-1].set_xlabel("time (s)")
    return plots


def _clock(sensor: Sensor) -> tuple[np.ndarray, np.ndarray]:
    """Times of all samples after the first one, f8 (sample,), s, and which are valid."""
    count = sensor.length()
    times = sensor.times(count)
    return times - times[0], sensor.valid(count) != 0


def _is_row(spec: ChannelSpec) -> bool:
    return len(spec.shape) == 1 and spec.shape[0] > _MOST_LINES


def _real(values: np.ndarray) -> np.ndarray:
    return np.abs(values).astype("f8") if values.dtype.kind == "c" else values.astype("f8")


def _draw_waterfall(plot: Axes, sensor: Sensor, name: str, seconds: np.ndarray, sample: int) -> None:
    """A channel of one axis over time, upward along that axis. Of long recordings evenly spaced samples are shown."""
    channel, axis = sensor.channel(name), axes_and_unit(sensor.name, name, sensor.specs[name])[0][0]
    chosen = np.unique(np.linspace(0, len(seconds) - 1, _WATERFALL).round().astype(int))
    values = _real(np.concatenate([channel.read(int(at), int(at) + 1) for at in chosen]))
    label, centres, _ = bins(sensor, axis, values.shape[1])
    mesh = plot.pcolormesh(edges(seconds[chosen]), edges(centres), values.T, rasterized=True)
    plot.axvline(seconds[sample], color="white", linewidth=0.8)
    plot.set_ylabel(label)
    assert plot.figure is not None
    plot.figure.colorbar(mesh, ax=plot, label=label_of(sensor, name))


def _draw_points(plot: Axes, points: np.ndarray) -> None:
    """Points from above, ahead upward, coloured by height. Zeros and NaN are no returns."""
    points = points[np.isfinite(points).all(1) & (points != 0).any(1)]
    drawn = plot.scatter(-points[:, 1], points[:, 0], 1, points[:, 2], cmap="viridis")
    assert plot.figure is not None
    plot.figure.colorbar(drawn, ax=plot, label="height (m)")
    plot.set(xlabel="to the right (m)", ylabel="ahead (m)", aspect="equal")


def _draw_lines(
    plot: Axes,
    sensor: Sensor,
    name: str,
    seconds: np.ndarray,
    valid: np.ndarray,
    chosen: slice = slice(None),
) -> None:
    """A curve for each number of a channel, of chosen samples."""
    spec = sensor.specs[name]
    values = _real(sensor.channel(name).read_whole(len(seconds))[chosen].reshape(len(seconds[chosen]), -1))
    draw_curves(plot, seconds[chosen], values, valid[chosen], _labels(sensor.name, name, spec))
    plot.set_ylabel(label_of(sensor, name))


def draw_curves(
    plot: Axes, seconds: np.ndarray, values: np.ndarray, valid: np.ndarray, labels: list[str], *, dots: bool = False
) -> None:
    """Curves of f8 (sample, curve) with labels; gaps and grey where samples are not valid."""
    shown = np.where(valid[:, None], values, np.nan)
    marker = "." if dots or len(seconds) < 30 else ""  # a single sample has no line
    for column, label in zip(shown.T, labels, strict=True):
        plot.plot(seconds, column, marker=marker, label=label, linewidth=0 if dots else 1)
    seen = shown[np.isfinite(shown)]
    if not len(seen):
        say_empty(plot, "no valid sample")
    elif np.ptp(seen) == 0:
        # Room below and above; matplotlib would show a constant as if its last digits mattered.
        plot.set_ylim(seen[0] - max(0.1, 0.1 * abs(seen[0])), seen[0] + max(1.0, 0.1 * abs(seen[0])))
    _mark_invalid(plot, seconds, valid)
    plot.grid(alpha=0.3)
    if len(labels) > 1:
        columns = -(-len(labels) // 4)
        style: dict[str, Any] = {"fontsize": "small", "columnspacing": 1, "handlelength": 1}
        plot.legend(loc="upper left", bbox_to_anchor=(1, 1), ncols=columns, **style)


def _labels(sensor: str, name: str, spec: ChannelSpec) -> list[str]:
    axes = axes_and_unit(sensor, name, spec)[0]
    if spec.shape == (3,) or (spec.shape == (4,) and axes == ("xyzw",)):
        return list("xyzw"[: spec.shape[0]])
    return [",".join(map(str, index)) for index in np.ndindex(*spec.shape)] if spec.shape else [""]


def _mark_invalid(plot: Axes, seconds: np.ndarray, valid: np.ndarray) -> None:
    """A grey band behind each run of samples that are not valid."""
    edges = np.diff(np.concatenate([[0], (~valid).astype("i1"), [0]]))
    period = float(np.median(np.diff(seconds))) if len(seconds) > 1 else 1.0
    for begin, end in zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True):
        plot.axvspan(seconds[begin] - period / 2, seconds[end - 1] + period / 2, color="0.85", zorder=0)


def say_empty(plot: Axes, text: str) -> None:
    """Write into the middle of a plot why it is empty."""
    plot.text(0.5, 0.5, text, ha="center", va="center", transform=plot.transAxes, color="0.4")


def bins(sensor: Sensor, axis: str, size: int) -> tuple[str, np.ndarray, bool]:
    """The label of an axis, the value of each of its bins, f8 (size,), angles in degrees, and whether these are known.

    Bins of unknown size are numbered.
    """
    known = read_axes(sensor.path).get(axis)
    if known is None or known.values is None or len(known.values) != size:
        return f"{axis.replace('_', ' ')} (number, counted from 0)", np.arange(size, dtype="f8"), False
    in_degrees = known.unit == "rad"
    direction = f", positive: {known.positive}" if known.positive else ""
    values = np.degrees(known.values) if in_degrees else known.values
    return f"{axis} ({'degrees' if in_degrees else known.unit}){direction}", values, True


def edges(centres: np.ndarray, *, in_degrees: bool = False) -> np.ndarray:
    """Edges of bins from their centres, f8 (bin + 1,). Those of a radar's angles end where directions do, at 90."""
    if len(centres) < 2:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    middles = (centres[1:] + centres[:-1]) / 2
    found = np.concatenate([[2 * centres[0] - middles[0]], middles, [2 * centres[-1] - middles[-1]]])
    return np.clip(found, -90, 90) if in_degrees and np.abs(centres).max() <= 90 else found


def draw_cells(plot: Axes, sensor: Sensor, values: np.ndarray, axes: Sequence[str], label: str, **style: Any) -> None:
    """Values of two axes as cells, the second axis to the right. A single row, or column, is a curve.

    Args:
        values: (first axis, second axis); axes: their names; label: of the values.
        style: limits of the colours.
    """
    (y_label, y, _), (x_label, x, _) = (bins(sensor, *each) for each in zip(axes, values.shape, strict=True))
    if 1 in values.shape:
        alone = len(values) > 1
        plot.plot(y if alone else x, values.ravel(), ".-" if values.size < 30 else "-")
        plot.set(xlabel=y_label if alone else x_label, ylabel=label)
        plot.grid(alpha=0.3)
        return
    corners = (edges(each, in_degrees="(degrees)" in text) for each, text in ((x, x_label), (y, y_label)))
    image = plot.pcolormesh(*corners, values, rasterized=True, **style)
    plot.set(xlabel=x_label, ylabel=y_label)
    assert plot.figure is not None
    plot.figure.colorbar(image, ax=plot, label=label)
    if axes[0] in ("row", "beam"):  # of pictures, and of a lidar, they are counted downward
        plot.invert_yaxis()
    if not np.isfinite(values).any():
        say_empty(plot, "no finite value")


def draw_partners(figure: Figure, sensor: Sensor) -> None:
    """How far the matched samples of `_sync` are from the reference in time, which says more than their numbers."""
    count = sensor.length()
    times, valid = sensor.times(count), sensor.valid(count) != 0
    partners: dict[str, np.ndarray] = {}
    for name in sensor.specs:
        if name.endswith("_dt") and (dt := sensor.channel(name).read_whole(count)).any():  # the reference has zeros
            partners[name.removesuffix("_dt")] = 1e3 * dt.astype("f8")
    if not partners:
        say_empty(figure.subplots(), "no sensor besides the reference")
        return
    for plot, (name, dt) in zip(rows(figure, len(partners)), partners.items(), strict=True):
        absent = sensor.channel(name).read_whole(count) < 0
        draw_curves(plot, times - times[0], np.where(absent, np.nan, dt)[:, None], valid, [""], dots=True)
        plot.set_ylabel(f"{name} (ms)")
    figure.supylabel("time of the nearest sample minus that of the reference", fontsize="medium")


def draw_times(figure: Figure, sensor: Sensor) -> None:
    """What a model of a clock changed: arrival minus modelled time, lost samples, and how wrong the times can be."""
    count = sensor.length()
    times, valid = sensor.times(count), sensor.valid(count) != 0
    smooth, number, segment, error = (
        sensor.channel(name).read_whole(count) for name in ("smooth", "number", "segment", "error")
    )
    seconds = times - times[0]
    late, bound = rows(figure, 2)
    draw_curves(late, seconds, 1e3 * (times - smooth)[:, None], valid, [""], dots=True)
    late.set_ylabel("recorded minus\nmodelled time (ms)")
    lost = np.flatnonzero((np.diff(number) > 1) & (np.diff(segment) == 0))
    for position in (seconds[lost] + seconds[lost + 1]) / 2:
        late.axvline(position, color="tab:red", linewidth=1)
    for position in seconds[1:][np.diff(segment) != 0]:
        late.axvline(position, color="black", linewidth=1, linestyle="--")
    draw_curves(bound, seconds, 1e3 * error.astype("f8")[:, None], valid, [""])
    bound.set_ylabel("largest error (ms)")
    bound.set_ylim(bottom=0)
    absent, segments = int((number[lost + 1] - number[lost] - 1).sum()), int(segment.max(initial=0)) + 1
    late.set_title(f"lost samples (red): {absent}, segments: {segments}", fontsize="medium")


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
