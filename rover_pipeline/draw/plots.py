"""Parts of figures for documents and notebooks: Matplotlib on white paper, with axes in physical units."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rover_pipeline.draw.map_view import FloorPlan
from rover_pipeline.draw.pixels import HEIGHTS, colour_map, decibel_limits, distance_limits
from rover_pipeline.draw.theme import CEILING_M

#: Distances that a colour bar names, m, where they occur. Layout.
_DISTANCES = (0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200)
#: Points of a sweep that are drawn. Layout.
_MAX_POINTS = 40_000
#: Size of points of unknown strength. Layout.
_SIZE = 15.0


class Bins(NamedTuple):
    """The bins of an axis: its label, empty where the axis has it already; their centres, f8 (bin,), angles in degrees;
    and the unit of these, empty where they are numbers of bins."""

    label: str
    centres: np.ndarray
    unit: str = ""

    @property
    def edges(self) -> np.ndarray:
        """Edges of the bins, f8 (bin + 1,). Those of a radar's angles end where directions do, at 90 degrees."""
        centres = self.centres
        if len(centres) < 2:
            return np.array([centres[0] - 0.5, centres[0] + 0.5])
        middles = (centres[1:] + centres[:-1]) / 2
        found = np.concatenate([[2 * centres[0] - middles[0]], middles, [2 * centres[-1] - middles[-1]]])
        return np.clip(found, -90, 90) if self.unit == "degrees" and np.abs(centres).max() <= 90 else found


def say_empty(plot: Axes, text: str) -> None:
    """Write into the middle of a plot why it is empty."""
    plot.text(0.5, 0.5, text, ha="center", va="center", transform=plot.transAxes, color="0.4")


def add_colour_bar(plot: Axes, drawn: Any, label: str, **style: Any) -> Any:
    """What the colours of a plot mean."""
    assert plot.figure is not None
    return plot.figure.colorbar(drawn, ax=plot, label=label, **style)


def add_rows(figure: Figure, count: int) -> list[Axes]:
    """Plots under one another with one axis of time."""
    figure.set_size_inches(9, 1.5 + 1.7 * count)
    plots: list[Axes] = list(figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0])
    plots[-1].set_xlabel("time (s)")
    return plots


def add_view_from_above(figure: Figure, right: str = "to the right (m)", up: str = "ahead (m)") -> Axes:
    """A plot in metres with equal scales, with the names of its axes."""
    plot = figure.subplots()
    plot.set(xlabel=right, ylabel=up, aspect="equal")
    plot.grid(alpha=0.3)
    return plot


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


def _mark_invalid(plot: Axes, seconds: np.ndarray, valid: np.ndarray) -> None:
    """A grey band behind each run of samples that are not valid."""
    edges = np.diff(np.concatenate([[0], (~valid).astype("i1"), [0]]))
    period = float(np.median(np.diff(seconds))) if len(seconds) > 1 else 1.0
    for begin, end in zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True):
        plot.axvspan(seconds[begin] - period / 2, seconds[end - 1] + period / 2, color="0.85", zorder=0)


def draw_cells(
    plot: Axes, y: Bins, x: Bins, values: np.ndarray, label: str, *, quantity: str = "value", downward: bool = False
) -> None:
    """Values of two axes, (y, x), as cells, with the colours of a quantity, and their label. A single row, or column,
    is a curve. `downward`: whether the first row is above."""
    if 1 in values.shape:
        along = y if len(values) > 1 else x
        plot.plot(along.centres, values.ravel(), ".-" if values.size < 30 else "-")
        plot.set(xlabel=along.label, ylabel=label)
        plot.grid(alpha=0.3)
        return
    low, high = decibel_limits(values) if quantity == "power" else (None, None)
    style: dict[str, Any] = {"cmap": colour_map(quantity), "vmin": low, "vmax": high}
    image = plot.pcolormesh(x.edges, y.edges, values, rasterized=True, **style)
    plot.set_ylabel(y.label)
    if x.label:
        plot.set_xlabel(x.label)
    add_colour_bar(plot, image, label)
    if downward:
        plot.invert_yaxis()
    if not np.isfinite(values).any():
        say_empty(plot, "no finite value")


def draw_distances(figure: Figure, distances: np.ndarray, labels: tuple[str, str], empty: str, *, tall: bool) -> None:
    """Distances f4 (row, column), m, NaN where there is none, with colours by their logarithm: near is red. `labels`:
    of columns and rows; `empty`: what to say where no distance is known; `tall`: whether pixels are square; else the
    figure is three inches high."""
    plot = figure.subplots()
    plot.set_facecolor("black")
    plot.set(xlabel=labels[0], ylabel=labels[1])
    if not np.isfinite(distances).any():
        say_empty(plot, empty)
        return
    near, far = distance_limits(distances)
    style: dict[str, Any] = {"cmap": colour_map("distance"), "vmin": np.log(near), "vmax": np.log(far)}
    image = plot.imshow(np.log(distances), interpolation="nearest", aspect="equal" if tall else "auto", **style)
    if not tall:
        figure.set_size_inches(12, 3)
    ticks = [value for value in _DISTANCES if near <= value <= far]
    bar = add_colour_bar(plot, image, "distance (m)", ticks=np.log(ticks))
    bar.set_ticklabels([f"{value:g}" for value in ticks])


def draw_lidar_points(figure: Figure, xyz: np.ndarray) -> None:
    """Points of a sweep, (N, 3), m, from above, coloured by height, without the ceiling. Ahead is up. Rows that are not
    finite, or zero, are no points."""
    xyz = xyz[np.isfinite(xyz).all(1) & (xyz != 0).any(1)]
    xyz = xyz[:: max(1, len(xyz) // _MAX_POINTS)]
    if (below := xyz[:, 2] < CEILING_M).any():
        xyz = xyz[below]
    xyz = xyz[np.argsort(xyz[:, 2], kind="stable")]  # what is higher hides what is below it
    figure.set_size_inches(8, 7)
    plot = add_view_from_above(figure)
    plot.plot(0, 0, "k^")
    if not len(xyz):
        say_empty(plot, "no returns in this sweep")
        return
    reach = float(np.percentile(np.abs(xyz[:, :2]), 98)) * 1.1 + 1
    style: dict[str, Any] = {"cmap": colour_map("height"), "vmin": HEIGHTS[0], "vmax": HEIGHTS[1]}
    points = plot.scatter(-xyz[:, 1], xyz[:, 0], 0.5, xyz[:, 2], **style)
    add_colour_bar(plot, points, f"height in the sensor's frame (m), up to {CEILING_M:g} m above it")
    plot.set(xlim=(-reach, reach), ylim=(-reach, reach))


def draw_radar_points(figure: Figure, xyz: np.ndarray, doppler: np.ndarray, strength: np.ndarray | None) -> None:
    """Points of a radar, (N, 3), m, from above, with colours by speed, m/s. Ahead is up, to the right is right.
    `strength`: (N,), dB, the size of the points; None = not known."""
    if strength is None or not np.isfinite(strength).all():
        strength = np.full(len(xyz), _SIZE)
    max_speed = float(np.abs(doppler).max(initial=0.1))
    figure.set_size_inches(8, 6.5)
    plot = add_view_from_above(figure)
    # The edge shows points that stand still, which are as white as the paper.
    style: dict[str, Any] = {"edgecolors": "0.35", "linewidths": 0.5, "vmin": -max_speed, "vmax": max_speed}
    sizes = 2 * np.maximum(strength, 1)
    points = plot.scatter(-xyz[:, 1], xyz[:, 0], sizes, doppler, cmap=colour_map("velocity"), **style)
    add_colour_bar(plot, points, "radial velocity (m/s), positive recedes")
    plot.plot(0, 0, "k^")
    if not len(xyz):
        say_empty(plot, "no points in this frame")


def draw_occupancy(figure: Figure, cells: np.ndarray, azimuth: Bins, ranges: Bins, elevation: Bins | None) -> None:
    """Occupied cells, (azimuth, range), or the highest ones of (elevation, azimuth, range): ahead is up."""
    if azimuth.unit != "degrees":
        azimuth = Bins("", np.linspace(-90, 90, cells.shape[-2]), "degrees")
    figure.set_size_inches(9, 5)
    labels = () if ranges.unit == "m" else ("range bins to the right", "ahead")
    plot = add_view_from_above(figure, *labels)
    angle, distance = np.meshgrid(np.radians(azimuth.edges), np.maximum(ranges.edges, 0), indexing="ij")
    corners = (distance * np.sin(angle), distance * np.cos(angle))
    if elevation is not None:
        order = np.argsort(elevation.centres)[::-1]
        highest = elevation.centres[order][(cells[order] > 0).argmax(axis=0)]
        shown = np.ma.masked_where(~(cells > 0).any(axis=0), highest)
        low, high = elevation.centres.min(), elevation.centres.max()
        mesh = plot.pcolormesh(*corners, shown, cmap=colour_map("height"), vmin=low, vmax=high)
        add_colour_bar(plot, mesh, f"of the highest occupied cell: {elevation.label}")
    else:
        full = max(1, int(cells.max(initial=0)))
        plot.pcolormesh(*corners, cells, cmap=colour_map("occupancy"), vmin=0, vmax=full)
    plot.plot(0, 0, "r^")
    if not cells.any():
        say_empty(plot, "nothing is occupied in this frame")


def draw_plan(plot: Axes, plan: FloorPlan | None) -> None:
    """The floor plan below everything else, where there is one."""
    if plan is not None:
        plot.imshow(plan.image, extent=plan.extent, zorder=0)
