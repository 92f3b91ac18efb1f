"""Channels of few numbers over the time of a recording."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rover_pipeline.export.picture.common import say_empty
from rover_pipeline.format.sensor import TS, VALID, Sensor
from rover_pipeline.table import TABLE

#: Most numbers of a sample that are drawn as curves, and most channels of a picture.
_MOST_NUMBERS, _MOST_CHANNELS = 9, 6


def draw_curves(figure: Figure, sensor: Sensor) -> None:
    """Each channel of few numbers in a plot of its own. Samples that are not valid are gaps, with grey behind them."""
    count = sensor.length()
    times, valid = sensor.times(count), sensor.valid(count) != 0
    seconds = times - times[0]
    names = [name for name, spec in sensor.specs.items() if name not in (TS, VALID) and _is_curve(spec.shape)]
    if sensor.name == "_sync":  # how far partners are apart says more than their numbers
        names = [name for name in names if name.endswith("_dt")]
    names = names[:_MOST_CHANNELS]
    if not names:
        plot = figure.subplots()
        plot.plot(seconds, np.zeros(count), "|", markersize=20)
        plot.set(xlabel="time (s)", yticks=[])
        say_empty(plot, "\n\n\nthe times of the samples; no channel can be drawn")
        return
    figure.set_size_inches(9, 1.5 + 1.7 * len(names))
    plots = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    for plot, name in zip(plots, names, strict=True):
        values = sensor.channel(name).read_whole(count).reshape(count, -1).astype("f8")
        shown = np.where(valid[:, None], values, np.nan)
        marker = "." if count < 30 else ""  # a single sample has no line
        for column, label in zip(shown.T, _labels(sensor.specs[name].shape), strict=True):
            plot.plot(seconds, column, marker=marker, label=label, linewidth=1)
        if not np.isfinite(shown).any():
            say_empty(plot, "no valid sample")
        _mark_invalid(plot, seconds, valid)
        plot.set_ylabel(name + _unit(sensor.name, name))
        plot.grid(alpha=0.3)
        if shown.shape[1] > 1:
            plot.legend(loc="upper right", fontsize="small", ncols=shown.shape[1])
    plots[-1].set_xlabel("time (s)")


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
