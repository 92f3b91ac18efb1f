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
from rover_pipeline.format.provenance import require_fresh
from rover_pipeline.format.rig import TYPES
from rover_pipeline.format.trace import locate_traces
from rover_pipeline.lookup import load

#: The product that the point cloud formats export instead of sweeps when it is named as the sensor.
MAP = "_map"


class Format(NamedTuple):
    """A format that traces can be exported to."""

    write: str  #: name of its `ExportFunction` in this room.
    reads: tuple[str, ...]  #: results that it reads, unless another sensor is named; `?` = where they are there.
    #: whether a trace becomes a directory with one file for each sample. The map is one file all the same.
    directory: bool = False
    of_one: bool = True  #: whether it is of one sensor, which can be chosen.


#: What previews show of results.
_SHOWN = (
    *("default", "_lidar_image?", "_lidar_points?", "_radar_points?", "_radar_range_doppler?"),
    *("_radar_range_azimuth?", "_radar_velocity?", "_odom?", "_imu_filtered?"),
)
FORMATS: dict[str, Format] = {
    "tum": Format("trajectory:write_tum", ("_odom",)),
    "kitti-poses": Format("trajectory:write_kitti", ("_odom",)),
    "ply": Format("points:write_ply", ("_lidar_points?",), directory=True),
    "pcd": Format("points:write_pcd", ("_lidar_points?",), directory=True),
    "rrd": Format("rrd:write", _SHOWN, of_one=False),
    "calibration": Format("calibration:write", (), directory=True, of_one=False),
    "mp4": Format("mp4:write", _SHOWN, of_one=False),
}


@dataclass(frozen=True)
class ExportOptions:
    """What the user asked for. A format ignores the options that have no meaning for it."""

    sensor: str | None = None  #: the sensor to export; None = the format's own choice.
    every: int = 1  #: export every n-th sample only.
    threads: int = 1  #: number of samples that are exported at the same time.
    max_points: int | None = 20_000  #: keep about so many points of a sweep; None = all.
    width: int | None = None  #: width of the camera's pictures, pixels; None = as they are stored.
    make: bool = False  #: first make what is missing or stale, with the options that the recordings remember.


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
        FormatError: a recording lacks what the format needs, or has it stale.
        InTheWayError: a result exists already. Nothing is overwritten.
    """
    name = "kitti-poses" if name == "kitti" else name
    if name not in FORMATS:
        listed = sorted({*FORMATS, *DATASETS})
        hints = dict.fromkeys([did_you_mean(name, listed), f"known: {', '.join(listed)}"])
        raise ConfigError(f"export: unknown format {name!r}; {' '.join(hints)}")
    if options.sensor and not FORMATS[name].of_one:
        raise ConfigError(f"export: {name} shows all sensors; leave out --sensor {options.sensor}")
    if options.every < 1:
        raise ConfigError(f"export: --every must be at least 1, is {options.every}")
    paths = _output_paths(name, entries, out, options)
    for path in paths.values():
        if os.path.lexists(path):
            raise InTheWayError(f"{path}: already exists; remove it or choose another name")
    write: ExportFunction = load(f"{__name__}.{FORMATS[name].write}")
    reads = () if options.sensor else FORMATS[name].reads
    several = () if FORMATS[name].of_one else TYPES
    if options.make:
        needs = (options.sensor,) if options.sensor else reads
        load(f"{__name__}.making:make_needed")(entries, needs, several, cores=options.threads)
    recording = load(f"{__name__}.recording:Recording")
    for trace in paths:
        views = recording.of(trace).each(*several)
        shown = [view.called(each.removesuffix("?")) for view in views for each in reads]
        require_fresh(trace, [options.sensor] if options.sensor else shown, f"export {name}")
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
