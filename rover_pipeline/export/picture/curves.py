"""What happens over time: partners of samples, clocks of sensors, and the velocity of the radar."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from rover_pipeline.export.picture.values import draw_curves, rows, say_empty
from rover_pipeline.format.sensor import Sensor


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
