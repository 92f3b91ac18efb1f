"""What all pictures of sensors share: the axes of their bins, and what is said where there is nothing to see."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from rover_pipeline.errors import FormatError, short
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.texts import read_json
from rover_pipeline.radar.axes import AXES


def say_empty(plot: Axes, text: str) -> None:
    """Write into the middle of a plot why it is empty."""
    plot.text(0.5, 0.5, text, ha="center", va="center", transform=plot.transAxes, color="0.4")


def read_axes(sensor: Sensor) -> dict[str, np.ndarray | None]:
    """Axis -> value of each bin, angles in degrees; None when the size of its bins is unknown."""
    path = sensor.path / AXES
    try:
        content = read_json(path)
        return {
            name: None if axis["values"] is None else _in_units(np.array(axis["values"]), axis["unit"])
            for name, axis in content.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{path}: cannot be read ({short(str(error))}); make the sensor again") from error


def _in_units(values: np.ndarray, unit: str) -> np.ndarray:
    return np.degrees(values) if unit == "rad" else values
