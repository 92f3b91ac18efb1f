"""Exports to the formats of other programs.

`FORMATS` are those in which a trace becomes a file, or a folder of samples. A new one is a function (see
`ExportFunction`) and a line in `FORMATS`. Its module is imported when it is needed. Formats of datasets, which hold
many recordings and which programs train from, are in `datasets/table.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rover_pipeline.datasets.table import DATASETS
from rover_pipeline.errors import ConfigError, InTheWayError, did_you_mean
from rover_pipeline.export.output import new_output
from rover_pipeline.format.trace import locate_traces
from rover_pipeline.lookup import load

#: The product that the point cloud formats export instead of sweeps when it is named as the sensor.
MAP = "_map"


class Format(NamedTuple):
    """A format that traces can be exported to.

    Attributes:
        description: one line for the user.
        write: dotted name of its `ExportFunction`.
        directory: whether a trace becomes a directory with one file for each sample. The map is one file all the same.
    """

    description: str
    write: str
    directory: bool = False


FORMATS: dict[str, Format] = {
    "tum": Format("trajectory with times, a text file as evo reads it", f"{__name__}.trajectory:write_tum"),
    "kitti-poses": Format("trajectory as 3x4 matrices, a file as evo reads it", f"{__name__}.trajectory:write_kitti"),
    "ply": Format("lidar points, a PLY file a sweep, or the map", f"{__name__}.points:write_ply", directory=True),
    "pcd": Format("lidar points, a PCD file a sweep, or the map", f"{__name__}.points:write_pcd", directory=True),
    "rrd": Format("everything on one timeline, for the Rerun viewer (extra `rrd`)", f"{__name__}.rrd:write"),
    "mp4": Format("a preview: what every sensor saw, side by side", f"{__name__}.mp4:write"),
}


@dataclass(frozen=True)
class ExportOptions:
    """What the user asked for. A format ignores the options that have no meaning for it.

    Attributes:
        sensor: the sensor to export; None = the format's own choice.
        every: export every n-th sample only.
        threads: number of samples that are exported at the same time.
        max_points: keep about so many points of a sweep; None = all.
        width: width of the camera's pictures, pixels; None = as they are stored.
    """

    sensor: str | None = None
    every: int = 1
    threads: int = 1
    max_points: int | None = 20_000
    width: int | None = None


#: Writes one trace to a file or directory that does not exist yet; the user sees it when it is complete. Raises
#: RoverError when the trace lacks something that the format needs.
ExportFunction = Callable[[Path, Path, ExportOptions], None]


def export(name: str, entries: Sequence[str], out: Path, options: ExportOptions) -> list[Path]:
    """Export traces and return the paths of the results.

    Args:
        name: a key of `FORMATS`, or `kitti`, which is `kitti-poses` here. For datasets see `dataset.export_dataset`.
        entries: traces, directories of traces, or glob patterns.
        out: the result of a single trace; for several traces, a directory with the same tree as theirs.

    Raises:
        ConfigError: the format is unknown.
        InTheWayError: a result exists already. Nothing is overwritten.
    """
    name = "kitti-poses" if name == "kitti" else name
    if name not in FORMATS:
        listed = {key: value.description for key, value in FORMATS.items()}
        listed |= {key: value.summary for key, value in DATASETS.items()}
        known = "; ".join(f"{key}: {text}" for key, text in listed.items())
        raise ConfigError(f"export: unknown format {name!r}; {did_you_mean(name, listed)} Known are {known}")
    if options.every < 1:
        raise ConfigError(f"export: --every must be at least 1, is {options.every}")
    paths = _output_paths(name, entries, out, options)
    for path in paths.values():
        if os.path.lexists(path):
            raise InTheWayError(f"{path}: already exists; remove it or choose another name")
    write: ExportFunction = load(FORMATS[name].write)
    for trace, path in paths.items():
        with new_output(path) as scratch:
            write(trace, scratch, options)
    return list(paths.values())


def is_dataset(name: str, out: Path) -> bool:
    """Whether a format exports a dataset to `out`. `kitti` with a text file is the trajectory alone, `kitti-poses`."""
    return name in DATASETS and not (name == "kitti" and out.suffix == ".txt")


def _output_paths(name: str, entries: Sequence[str], out: Path, options: ExportOptions) -> dict[Path, Path]:
    """The path of the result of each trace."""
    located = locate_traces(list(entries), Path(), out)
    if len(located) == 1:
        return dict.fromkeys(located.values(), out)
    suffix = "" if FORMATS[name].directory and options.sensor != MAP else f".{name}"
    return {trace: path.with_name(path.name + suffix) for path, trace in located.items()}
