"""What all pictures of sensors share: the axes of their bins, and what is said where there is nothing to see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from rover_pipeline.format.axes import read_axes
from rover_pipeline.format.sensor import Sensor


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
