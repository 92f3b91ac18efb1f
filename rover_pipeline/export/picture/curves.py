"""Channels of few numbers over the time of a recording."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rover_pipeline.export.picture.common import say_empty
from rover_pipeline.format.sensor import TS, VALID, Sensor
from rover_pipeline.table import TABLE

#: Most numbers of a sample that are drawn as curves, and most channels of a picture.
_MOST_NUMBERS, _MOST_CHANNELS = 16, 6


def draw_curves(figure: Figure, sensor: Sensor) -> None:
    """Each channel of few numbers in a plot of its own. Samples that are not valid are gaps, with grey behind them."""
    count = sensor.length()
    times, valid = sensor.times(count), sensor.valid(count) != 0
    seconds = times - times[0]
    names = [name for name, spec in sensor.specs.items() if name not in (TS, VALID) and _is_curve(spec.shape)]
    names = names[:_MOST_CHANNELS]
    if not names:
        plot = figure.subplots()
        plot.plot(seconds, np.zeros(count), "|", markersize=20)
        plot.set(xlabel="time (s)", yticks=[])
        say_empty(plot, "\n\n\nthe times of the samples; no channel can be drawn")
        return
    for plot, name in zip(_rows(figure, len(names)), names, strict=True):
        values = sensor.channel(name).read_whole(count).reshape(count, -1).astype("f8")
        _draw_channel(plot, seconds, values, valid, _labels(sensor.specs[name].shape))
        plot.set_ylabel(name + _unit(sensor.name, name))


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
    for plot, (name, dt) in zip(_rows(figure, len(partners)), partners.items(), strict=True):
        absent = sensor.channel(name).read_whole(count) < 0
        _draw_channel(plot, times - times[0], np.where(absent, np.nan, dt)[:, None], valid, [""], dots=True)
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
    late, bound = _rows(figure, 2)
    _draw_channel(late, seconds, 1e3 * (times - smooth)[:, None], valid, [""], dots=True)
    late.set_ylabel("recorded minus\nmodelled time (ms)")
    lost = np.flatnonzero((np.diff(number) > 1) & (np.diff(segment) == 0))
    for position in (seconds[lost] + seconds[lost + 1]) / 2:
        late.axvline(position, color="tab:red", linewidth=1)
    for position in seconds[1:][np.diff(segment) != 0]:
        late.axvline(position, color="black", linewidth=1, linestyle="--")
    _draw_channel(bound, seconds, 1e3 * error.astype("f8")[:, None], valid, [""])
    bound.set_ylabel("largest error (ms)")
    bound.set_ylim(bottom=0)
    absent, segments = int((number[lost + 1] - number[lost] - 1).sum()), int(segment.max(initial=0)) + 1
    late.set_title(f"lost samples (red): {absent}, segments: {segments}", fontsize="medium")


def _rows(figure: Figure, count: int) -> list[Axes]:
    """Plots under one another with one axis of time."""
    figure.set_size_inches(9, 1.5 + 1.7 * count)
    plots: list[Axes] = list(figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0])
    plots[-1].set_xlabel("time (s)")
    return plots


def _draw_channel(
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


def _is_curve(shape: tuple[int, ...]) -> bool:
    return int(np.prod(shape)) <= _MOST_NUMBERS


def _labels(shape: tuple[int, ...]) -> list[str]:
    if shape == (3,):
        return ["x", "y", "z"]
    if shape == (4,):
        return ["x", "y", "z", "w"]
    return [",".join(map(str, index)) for index in np.ndindex(*shape)] if shape else [""]


def _unit(sensor: str, channel: str) -> str:
    """The unit of a channel of ours in parentheses; empty where it has none, or is not known."""
    outputs = TABLE[sensor].outputs if sensor in TABLE else {}
    return f" ({outputs[channel].unit})" if channel in outputs and outputs[channel].unit else ""


def _mark_invalid(plot: Axes, seconds: np.ndarray, valid: np.ndarray) -> None:
    """A grey band behind each run of samples that are not valid."""
    edges = np.diff(np.concatenate([[0], (~valid).astype("i1"), [0]]))
    period = float(np.median(np.diff(seconds))) if len(seconds) > 1 else 1.0
    for begin, end in zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True):
        plot.axvspan(seconds[begin] - period / 2, seconds[end - 1] + period / 2, color="0.85", zorder=0)
