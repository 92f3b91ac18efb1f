"""Channels as xarray's labelled arrays (extra `xarray`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rover_pipeline.format.sensor import TS, VALID
from rover_pipeline.lookup import optional
from rover_pipeline.reading.sensor import Sensor

if TYPE_CHECKING:
    from xarray import Dataset

TIME = "time"
#: What stands along axes that have the same meaning everywhere.
_LABELS = {"xyz": ["x", "y", "z"], "xyzw": ["x", "y", "z", "w"], "colour": ["red", "green", "blue"]}


def dataset_of(sensor: Sensor, samples: Any = None, channels: tuple[str, ...] = ()) -> Dataset:
    """See `Sensor.to_xarray`.

    Returns:
        Variables by channel over `time` (datetime64[ns], UTC), with `units`, `long_name` and `description`; coordinates
        `ts` (f8, s, as it is stored), `valid` (bool), and the values of the bins of axes that `axes.json` describes.
    """
    xarray = optional("xarray", "to_xarray", "xarray")
    key = slice(None) if samples is None else samples
    ts = np.atleast_1d(sensor.ts[key])
    coordinates: dict[str, Any] = {
        TIME: (TIME, _as_datetime(ts), {"long_name": "time of the sample, UTC"}),
        TS: (TIME, ts, {"units": "s", "long_name": "time of the sample since the Unix epoch"}),
        VALID: (TIME, np.atleast_1d(sensor.valid[key]), {"long_name": "whether the sample can be trusted"}),
    }
    variables: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    for name in channels or [each for each in sensor.channels if each not in (TS, VALID)]:
        channel = sensor.channel(name)
        values = channel[key]
        values = values if values.ndim == channel.ndim else values[None]
        axes = _distinct(name, channel.axes[1:], channel.shape[1:], sizes)
        sizes |= dict(zip(axes, channel.shape[1:], strict=True))
        # Figures write the long name beside their axes.
        short = channel.description.partition(", ")[0].partition(". ")[0]
        attributes = {"units": channel.unit, "long_name": short, "description": channel.description}
        variables[channel.name] = ((TIME, *axes), values, {key: text for key, text in attributes.items() if text})
        coordinates |= {axis: labels for axis in axes if (labels := _labels(sensor, axis, sizes[axis])) is not None}
    about = {"sensor": sensor.name, "recording": str(sensor.path.parent)}
    return xarray.Dataset(variables, coordinates, about)


def _distinct(channel: str, axes: tuple[str, ...], shape: tuple[int, ...], sizes: dict[str, int]) -> list[str]:
    """Names of axes, each once, and none of another size than the same name has in another channel."""
    names: list[str] = []
    for axis, size in zip(axes, shape, strict=True):
        name = axis if sizes.get(axis, size) == size and not axis.startswith("axis_") else f"{channel}_{axis}"
        while name in names:  # xarray refuses the axes of a covariance, which have one name
            name += "_2"
        names.append(name)
    return names


def _labels(sensor: Sensor, axis: str, size: int) -> Any:
    """The coordinate along an axis; None where nothing is known."""
    if (known := sensor.coordinates.get(axis)) is not None and known.values is not None and len(known.values) == size:
        return (axis, known.values, {"units": known.unit, "positive": known.positive})
    labels = _LABELS.get(axis.removesuffix("_2"), [])
    return (axis, labels) if len(labels) == size else None


def _as_datetime(ts: np.ndarray) -> np.ndarray:
    """datetime64[ns] of f8 seconds; whole seconds and their fractions apart, for a product would be 256 ns coarse."""
    whole = np.floor(ts)
    return (whole.astype("i8") * 1_000_000_000 + np.rint((ts - whole) * 1e9).astype("i8")).astype("datetime64[ns]")
