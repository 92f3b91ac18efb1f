"""What lies where: points, occupancy, trajectories and maps, from above, in metres."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rover_pipeline.errors import FormatError
from rover_pipeline.export.picture.common import bins, edges, say_empty
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.report.draw.maps import read_floor_plan

#: Points of a sweep that are drawn.
_MOST_POINTS = 40_000
#: Points higher above the lidar belong to ceilings, which would hide everything, m.
_CEILING = 1.0


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


def from_above(figure: Figure, right: str, up: str) -> Axes:
    """A plot in metres with equal scales, with the names of its axes."""
    plot = figure.subplots()
    plot.set(xlabel=right, ylabel=up, aspect="equal")
    plot.grid(alpha=0.3)
    return plot
