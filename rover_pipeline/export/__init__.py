"""Other programs' formats, one module each. A new one is a module with a `write` function and a line in `FORMATS`."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from rover_pipeline.errors import ConfigError, InTheWayError, did_you_mean
from rover_pipeline.export.output import new_output
from rover_pipeline.format.discovery import locate_traces

#: The product that point cloud formats take instead of sweeps when it is asked for as the sensor.
MAP = "_map"


class Format(NamedTuple):
    """Something that traces can be exported to.

    Attributes:
        function: dotted name of what writes it, an `ExportFunction`. Imported when it is asked for.
        what: one line for the user.
        folder: whether a trace becomes a folder with a file for each sample. Everything else is one file, the map too.
    """

    function: str
    what: str
    folder: bool = False


FORMATS: dict[str, Format] = {
    "tum": Format("rover_pipeline.export.tum:write", "trajectory with times, a text file as evo reads it"),
    "kitti": Format("rover_pipeline.export.kitti:write", "trajectory as 3x4 matrices, a text file as evo reads it"),
    "ply": Format("rover_pipeline.export.ply:write", "lidar points, a PLY file a sweep, or the map", folder=True),
    "pcd": Format("rover_pipeline.export.pcd:write", "lidar points, a PCD file a sweep, or the map", folder=True),
    "rrd": Format("rover_pipeline.export.rrd:write", "everything on one timeline, for the Rerun viewer (extra `rrd`)"),
    "mp4": Format("rover_pipeline.export.mp4:write", "a preview: what every sensor saw, side by side"),
}


@dataclass(frozen=True)
class ExportOptions:
    """What the user asked for; a format ignores what has no meaning for it.

    Attributes:
        sensor: to be exported, the format's own choice if None.
        every: samples to go on by.
        threads: worked on at once.
        max_points: of a sweep, about; None = all.
        width: of pictures, pixels; None = as they are stored.
    """

    sensor: str | None = None
    every: int = 1
    threads: int = 1
    max_points: int | None = 20_000
    width: int | None = None


class ExportFunction(Protocol):
    """Writes one trace to `out`, a file or a folder that does not exist yet; what it writes becomes visible at the end.

    Raises RoverError when the trace lacks what the format needs.
    """

    def __call__(self, trace: Path, out: Path, options: ExportOptions) -> None: ...


def export(name: str, entries: Sequence[str], out: Path, options: ExportOptions) -> list[Path]:
    """Export traces; the places of the results.

    Args:
        name: of `FORMATS`.
        entries: traces, folders of traces or globs.
        out: the result of a single trace; otherwise a folder that mirrors the traces.

    Raises:
        ConfigError: the format is unknown.
        InTheWayError: a result is there already. Nothing is overwritten.
    """
    if name not in FORMATS:
        raise ConfigError(f"export: unknown format {name!r}; {_listed(name)}")
    if options.every < 1:
        raise ConfigError(f"export: --every must be at least 1, is {options.every}")
    places = _places(name, entries, out, options)
    for place in places.values():
        if os.path.lexists(place):
            raise InTheWayError(f"{place}: is there already; remove it or choose another name")
    module, _, function = FORMATS[name].function.partition(":")
    write: ExportFunction = getattr(importlib.import_module(module), function)
    for trace, place in places.items():
        with new_output(place) as scratch:
            write(trace, scratch, options)
    return list(places.values())


def _places(name: str, entries: Sequence[str], out: Path, options: ExportOptions) -> dict[Path, Path]:
    """Where each trace goes."""
    located = locate_traces(list(entries), Path(), out)
    if len(located) == 1:
        return dict.fromkeys(located.values(), out)
    ending = "" if FORMATS[name].folder and options.sensor != MAP else f".{name}"
    return {trace: place.with_name(place.name + ending) for place, trace in located.items()}


def _listed(name: str) -> str:
    known = "; ".join(f"{key}: {value.what}" for key, value in FORMATS.items())
    return f"{did_you_mean(name, FORMATS)} Known are {known}"
