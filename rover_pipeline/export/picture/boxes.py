"""Boxes of `_objects` from above, in the world of the odometry."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from matplotlib.patheffects import withStroke

from rover_pipeline.export.objects import object_classes
from rover_pipeline.export.picture.common import say_empty
from rover_pipeline.export.picture.places import from_above
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.trace import Trace
from rover_pipeline.report.draw.maps import read_floor_plan

#: How far an arrow shows a body to go, s, and how much of the past is drawn, s.
_ARROW_S, _PAST_S = 1.0, 3.0
#: Channels of which a frame is drawn.
_CHANNELS = ("count", "centre", "extent", "yaw", "vel", "track", "probability")
_COLOURS = [f"C{number}" for number in range(10)]


def draw_objects(figure: Figure, sensor: Sensor, frame: int) -> None:
    """Each box with its track and class, where it goes within a second, and where its track came from."""
    begin = _first_of_the_past(sensor, frame)
    past = {name: sensor.channel(name).read(begin, frame + 1) for name in _CHANNELS}
    now = {name: values[-1] for name, values in past.items()}
    figure.set_size_inches(9, 6.5)
    plot = from_above(figure, "x (m)", "y (m)")
    if plan := read_floor_plan(sensor.path.parent / "_map"):
        plot.imshow(plan.image, extent=plan.extent, zorder=0)
    _draw_way(plot, sensor, frame)
    classes = object_classes(sensor)
    for at in range(int(now["count"])):
        track, middle, vel = int(now["track"][at]), now["centre"][at, :2], now["vel"][at, :2]
        colour = _COLOURS[track % len(_COLOURS)]
        corners = _corners(middle, now["extent"][at], now["yaw"][at])
        plot.add_patch(Polygon(corners, fill=False, edgecolor=colour, linewidth=2))
        way = past["centre"][past["track"] == track]  # a track is at most once in a sweep
        plot.plot(way[:, 0], way[:, 1], color=colour, linewidth=1)
        plot.annotate("", middle + _ARROW_S * vel, middle, arrowprops={"arrowstyle": "->", "color": colour})
        likely = int(now["probability"][at].argmax())
        share = now["probability"][at, likely]
        said = plot.annotate(
            f"{track}: {classes[likely]} {share:.0%}, {np.hypot(*vel):.1f} m/s",
            middle,
            xytext=(0, 14),
            textcoords="offset points",
            ha="center",
            color=colour,
        )
        said.set_path_effects([withStroke(linewidth=3, foreground="white")])
    if not now["count"]:
        say_empty(plot, "no body moves in this frame")
    plot.autoscale_view()


def _first_of_the_past(sensor: Sensor, frame: int) -> int:
    times = sensor.times(sensor.length())
    return int(np.searchsorted(times, times[frame] - _PAST_S))


def _corners(centre: np.ndarray, extent: np.ndarray, yaw: float) -> np.ndarray:
    """Corners of a box from above, f8 (4, 2), m, counter-clockwise."""
    along = np.array([np.cos(yaw), np.sin(yaw)]) * extent[0] / 2
    across = np.array([-np.sin(yaw), np.cos(yaw)]) * extent[1] / 2
    return centre[:2] + np.stack([along + across, -along + across, -along - across, along - across])


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
