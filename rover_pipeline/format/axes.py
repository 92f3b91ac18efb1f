"""The values of the bins along the axes of a product, from the `axes.json` beside it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from rover_pipeline.errors import FormatError, short
from rover_pipeline.format.texts import read_json

AXES = "axes.json"


class Axis(NamedTuple):
    """One axis of a product.

    Attributes:
        values: of every bin, f8 (bin,); None where the recording does not state the size of its bins.
        unit: `m`, `m/s` or `rad`.
        positive: where values grow to: `away`, `recedes`, `right` or `up`.
    """

    values: np.ndarray | None
    unit: str
    positive: str


def read_axes(folder: Path) -> dict[str, Axis]:
    """The axes of the sensor in `folder` by name; empty when it has no `axes.json`. Raises FormatError where the file
    is not what `axes.json` must be."""
    try:
        content = read_json(folder / AXES)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    try:
        axes = {}
        for name, entry in content.items():
            values = None if entry["values"] is None else np.asarray(entry["values"], "f8")
            if values is not None and values.ndim != 1:
                raise ValueError("values must be a list of numbers")
            axes[name] = Axis(values, str(entry.get("unit", "")), str(entry.get("positive", "")))
        return axes
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise FormatError(f"{folder / AXES}: does not describe axes ({short(str(error))}); make it again") from error
