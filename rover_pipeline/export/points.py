"""Point clouds of a trace, the sweeps of the lidar or its map, in the formats that hold one, PLY and PCD."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rover_pipeline.engine.parallel import ordered_map
from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import FormatError, counted
from rover_pipeline.export import MAP, ExportOptions
from rover_pipeline.export.recording import Recording
from rover_pipeline.export.samples import print_duration, range_projector
from rover_pipeline.format.meta import META
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.lookup import optional
from rover_pipeline.mapping.ply import ply, read_ply

#: Names of channels whose usual name in point cloud files is another.
_FIELD_NAMES = {"rfl": "intensity"}


#: Points, f4 (N, 3), m, and further values of them by name, (N,).
Points = tuple[np.ndarray, dict[str, np.ndarray]]


def write_ply(trace: Path, out: Path, options: ExportOptions) -> None:
    """Write binary little-endian PLY: a vertex for each return, with `intensity` and the lidar's other channels."""

    def write_file(path: Path, points: Points, comment: str) -> None:
        path.write_bytes(ply(points[0], (comment,), **points[1]))

    _write_points(trace, out, options, ".ply", write_file)


def write_pcd(trace: Path, out: Path, options: ExportOptions) -> None:
    """Write binary PCD 0.7: a point for each return, with `intensity` and the lidar's other channels."""
    pypcd4 = optional("pypcd4", "export pcd", "pcd")

    def write_file(path: Path, points: Points, comment: str) -> None:
        # pypcd4 cannot write comments into the header.
        xyz, fields = points
        columns = [*xyz.astype(np.float32).T, *fields.values()]
        types = [column.dtype.newbyteorder("=").type for column in columns]
        cloud = pypcd4.PointCloud.from_points(columns, ["x", "y", "z", *fields], types)
        cloud.save(path, encoding=pypcd4.Encoding.BINARY)

    _write_points(trace, out, options, ".pcd", write_file)


def _write_points(
    trace: Path, out: Path, options: ExportOptions, suffix: str, write: Callable[[Path, Points, str], None]
) -> None:
    """Write the map as the file `out`, or every n-th sweep as `out/<number of the sample><suffix>`, with a comment in
    its header.

    Sweeps are in the lidar's sensor frame, front-left-up. They come from `_lidar_points` when the trace has it, else
    they are projected from the raw ranges. Sweeps with `valid` = 0 and pixels without a return are left out. Raises
    FormatError where the trace has neither of them, or no valid sweep.
    """
    if options.sensor == MAP:
        write(out, read_map(trace), "frame of _odom, the first valid pose of the lidar, front-left-up, m")
        return
    sensor = Sensor(_lidar(trace, options.sensor))
    valid, read = _sweeps(sensor)
    _, *others = (view.called("lidar") for view in Recording.of(trace).each("lidar"))
    if others and not options.sensor:
        print(f"{trace}: {sensor.name} is written; for {', '.join(others)} give --sensor", file=sys.stderr)
    chosen = np.flatnonzero(valid)
    chosen = chosen[chosen % options.every == 0]
    if not len(chosen):
        raise FormatError(f"{sensor.path}: none of its {counted(len(valid), 'sweep')} can be exported: valid is 0")
    out.mkdir()

    def write_sweep(number: int) -> None:
        comment = f"sensor frame, front-left-up, m; {sensor.name} sample {number}"
        write(out / f"{number:06d}{suffix}", read(number), comment)

    first = int(chosen[0])
    print_duration(f"export {trace.name}", [(len(chosen), "sweep", lambda: read(first))], options.threads)
    with progress(f"export {trace.name}", len(chosen), "sweep") as advance:
        for _ in ordered_map(write_sweep, chosen.tolist(), threads=options.threads, done=lambda number: advance(1)):
            pass


def _sweeps(sensor: Sensor) -> tuple[np.ndarray, Callable[[int], Points]]:
    """The sweeps of a sensor that holds ranges (`rng`) or points (`xyz`), with its other channels of one value a pixel:
    which are valid, u1 (N,), and a function that gives the returns of a sweep by its number."""
    specs, project = sensor.specs, None
    names: list[str]
    if "rng" in specs:
        project = range_projector(sensor.path)
        names = [name for name in ("rfl", "nir") if name in specs]
    elif "xyz" in specs and len(specs["xyz"].shape) in (2, 3) and specs["xyz"].shape[-1] == 3:
        names = [name for name, spec in specs.items() if spec.shape == specs["xyz"].shape[:-1]]
    else:
        raise FormatError(f"{sensor.path}: holds no points: it has no channel xyz of [beam, column, 3] or [point, 3]")
    places = "rng" if project else "xyz"

    def read(number: int) -> Points:
        stored = sensor.channel(places).sample(number)
        xyz = project(stored) if project else stored
        is_return = np.isfinite(xyz).all(-1)
        fields = {name: sensor.channel(name).sample(number)[is_return] for name in names}
        return xyz[is_return], {_FIELD_NAMES.get(name, name): values for name, values in fields.items()}

    return sensor.valid(sensor.length(channels=(places, *names))), read


def _lidar(trace: Path, name: str | None) -> Path:
    """The sensor to export: the one asked for, else `_lidar_points`, else the lidar, else the points of the radar."""
    if name is None:
        known = map(Recording.of(trace).called, ("_lidar_points", "lidar", "_radar_points"))
        name = next((each for each in known if (trace / each / META).exists()), "lidar")
    if not (trace / name / META).exists():
        raise FormatError(f"{trace / name}: no such sensor, so there are no points to export")
    return trace / name


def read_map(trace: Path) -> Points:
    """The points of `_map`, in the world of `_odom`. Raises FormatError when there is none."""
    path = trace / MAP / "map.ply"
    try:
        return read_ply(path)
    except FileNotFoundError as error:
        raise FormatError(f"{path}: is missing; run the workflow with the output `map`") from error
