"""What lies where: points, occupancy, trajectories, maps and boxes of bodies, from above, in metres."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from matplotlib.patheffects import withStroke

from rover_pipeline.errors import FormatError
from rover_pipeline.export.objects import object_classes
from rover_pipeline.export.picture.values import bins, edges, say_empty
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.trace import Trace
from rover_pipeline.report.draw.maps import read_floor_plan

#: Points of a sweep that are drawn.
_MOST_POINTS = 40_000
#: Points higher above the lidar belong to ceilings, which would hide everything, m.
_CEILING = 1.0
#: Size of points of unknown strength, and the largest ratio of signal to noise, dB.
_SIZE, _MOST_DB = 15.0, 80.0
#: How far an arrow shows a body to go, s, and how much of the past is drawn, s.
_ARROW_S, _PAST_S = 1.0, 3.0
#: Channels of which a frame is drawn.
_CHANNELS = ("count", "centre", "extent", "yaw", "vel", "track", "probability")
_COLOURS = [f"C{number}" for number in range(10)]


def draw_lidar_points(figure: Figure, sensor: Sensor, frame: int) -> None:
    """A sweep from above, coloured by height, without the ceiling. Ahead is up, to the left is left."""
    xyz = sensor.channel("xyz").read(frame, frame + 1)[0].reshape(-1, 3)
    xyz = xyz[np.isfinite(xyz).all(1)]
    xyz = xyz[:: max(1, len(xyz) // _MOST_POINTS)]
    if (below := xyz[:, 2] < _CEILING).any():
        xyz = xyz[below]
    xyz = xyz[np.argsort(xyz[:, 2], kind="stable")]  # what is higher hides what is below it
    figure.set_size_inches(8, 7)
    plot = from_above(figure, "to the right (m)", "ahead (m)")
    plot.plot(0, 0, "k^")
    if not len(xyz):
        say_empty(plot, "no returns in this sweep")
        return
    low, high = np.percentile(xyz[:, 2], (1, 99))
    reach = float(np.percentile(np.abs(xyz[:, :2]), 98)) * 1.1 + 1
    points = plot.scatter(-xyz[:, 1], xyz[:, 0], 0.5, xyz[:, 2], cmap="viridis", vmin=low, vmax=max(high, low + 0.1))
    figure.colorbar(points, ax=plot, label=f"height in the sensor's frame (m), up to {_CEILING:g} m above it")
    plot.set(xlim=(-reach, reach), ylim=(-reach, reach))


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
    plot = from_above(figure, "to the right (m)", "ahead (m)")
    # The edge shows points that stand still, which are as pale as the paper.
    style: dict[str, Any] = {"cmap": "coolwarm", "edgecolors": "0.35", "linewidths": 0.5}
    sizes = 2 * np.maximum(snr, 1)
    points = plot.scatter(-xyz[:, 1], xyz[:, 0], sizes, doppler, vmin=-max_speed, vmax=max_speed, **style)
    figure.colorbar(points, ax=plot, label="radial velocity (m/s), positive recedes")
    plot.plot(0, 0, "k^")
    if not count:
        say_empty(plot, "no points in this frame")


def draw_occupancy(figure: Figure, sensor: Sensor, frame: int) -> None:
    """Occupied cells of `_bev`, or the highest ones of `_occupancy` with their elevation as colour: ahead is up."""
    cells = sensor.channel("occupancy").read(frame, frame + 1)[0]
    (_, azimuth, in_degrees), (_, ranges, in_metres) = (
        bins(sensor, *each) for each in zip(("azimuth", "range"), cells.shape[-2:], strict=True)
    )
    azimuth = azimuth if in_degrees else np.linspace(-90, 90, cells.shape[-2])
    labels = ("to the right (m)", "ahead (m)") if in_metres else ("range bins to the right", "ahead")
    figure.set_size_inches(9, 5)
    plot = from_above(figure, *labels)
    sides = np.radians(edges(azimuth, in_degrees=True)), np.maximum(edges(ranges), 0)
    angle, distance = np.meshgrid(*sides, indexing="ij")
    corners = (distance * np.sin(angle), distance * np.cos(angle))
    if cells.ndim == 3:
        label, elevation, _ = bins(sensor, "elevation", len(cells))
        order = np.argsort(elevation)[::-1]
        highest = elevation[order][(cells[order] > 0).argmax(axis=0)]
        shown = np.ma.masked_where(~(cells > 0).any(axis=0), highest)
        mesh = plot.pcolormesh(*corners, shown, cmap="viridis", vmin=elevation.min(), vmax=elevation.max())
        figure.colorbar(mesh, ax=plot, label=f"of the highest occupied cell: {label}")
    else:
        plot.pcolormesh(*corners, cells, cmap="Greys", vmin=0, vmax=max(1, int(cells.max(initial=0))))
    plot.plot(0, 0, "r^")
    if not cells.any():
        say_empty(plot, "nothing is occupied in this frame")


def draw_trajectory(figure: Figure, sensor: Sensor) -> None:
    """The path from above, that of `_odom` on the floor plan if there is a map, and the height over time."""
    count = sensor.length()
    times, valid = sensor.times(count), sensor.valid(count) != 0
    pos = np.where(valid[:, None], sensor.channel("pos").read_whole(count), np.nan)
    figure.set_size_inches(10, 5.5)
    above, height = figure.subplots(1, 2, width_ratios=(2, 1))
    above.set(xlabel="x (m)", ylabel="y (m)", aspect="equal")
    height.set(xlabel="time (s)", ylabel="z (m)")
    for plot in (above, height):
        plot.grid(alpha=0.3)
    if not valid.any():
        say_empty(above, "no valid pose")
        return
    # Other trajectories have worlds of their own, in which the map is elsewhere.
    if sensor.name == "_odom" and (plan := read_floor_plan(sensor.path.parent / "_map")):
        above.imshow(plan.image, extent=plan.extent, zorder=0)
    above.plot(pos[:, 0], pos[:, 1], color="0.5", linewidth=1)
    points = above.scatter(pos[:, 0], pos[:, 1], 8, times - times[0], cmap="viridis", zorder=2)
    figure.colorbar(points, ax=above, label="time (s)")
    first = pos[valid][0]
    above.plot(first[0], first[1], "r^", zorder=3)
    height.plot(times - times[0], pos[:, 2], marker="." if count < 30 else "")


def draw_map(figure: Figure, folder: Path) -> None:
    """The occupancy grid of `_map` as ROS' map_server would load it: walls dark, free floor light."""
    plan = read_floor_plan(folder)
    if plan is None:
        raise FormatError(f"{folder}: has no occupancy grid that can be read; make the map again")
    figure.set_size_inches(8, 7)
    plot = from_above(figure, "x (m)", "y (m)")
    plot.imshow(plan.image, extent=plan.extent)


def draw_objects(figure: Figure, sensor: Sensor, frame: int) -> None:
    """Each box with its track and class, where it goes within a second, and where its track came from."""
    times = sensor.times(sensor.length())
    begin = int(np.searchsorted(times, times[frame] - _PAST_S))
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


def from_above(figure: Figure, right: str, up: str) -> Axes:
    """A plot in metres with equal scales, with the names of its axes."""
    plot = figure.subplots()
    plot.set(xlabel=right, ylabel=up, aspect="equal")
    plot.grid(alpha=0.3)
    return plot
